//! The access log: Squid's format and words, combined, JSON; nothing a client sends can forge a
//! line.

#![allow(clippy::unwrap_used)]

use larder_tests::{Larder, Origin, get, get_with, wait_for, wait_until};
use regex::Regex;
use std::fs;

fn logging(origin: &Origin, format: &str) -> Larder {
    Larder::with_config(&format!(
        "[http]\naccess_log = {{ path = \"@DIR@/access.log\", format = \"{format}\" \
         }}\n[[site]]\norigin = \"{}\"\npurge = {{ from = [\"127.0.0.1\"] }}",
        origin.url()
    ))
}

/// The lines of the log once there are `count` of them.
#[track_caller]
fn lines(larder: &Larder, count: usize) -> Vec<String> {
    lines_of(larder, "access.log", count)
}

#[track_caller]
fn lines_of(larder: &Larder, name: &str, count: usize) -> Vec<String> {
    wait_for(&format!("{count} lines in {name}"), || {
        let text = fs::read_to_string(larder.dir().join(name)).unwrap_or_default();
        let lines: Vec<_> = text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
            .map(|line| line.trim_end().to_owned())
            .collect();
        (lines.len() >= count).then_some(lines)
    })
}

#[test]
fn squids_format_and_words() {
    let origin = Origin::start(|seen, reply| {
        match seen.target.as_str() {
            "/page" => reply.ok(
                &[
                    "Cache-Control: max-age=60",
                    "ETag: \"1\"",
                    "Content-Type: text/html; charset=utf-8",
                ],
                "page",
            ),
            _ => reply.ok(&["Cache-Control: no-store"], "page"),
        };
    });
    let larder = logging(&origin, "squid");
    get(larder.addr(), "/page");
    get(larder.addr(), "/page");
    get_with(larder.addr(), "/page", &["If-None-Match: \"1\""]);
    get_with(larder.addr(), "/page", &["Cache-Control: no-cache"]);
    get(larder.addr(), "/other?q=1");
    larder.connect().ask("PURGE", "/page", &["Host: site.test"]);
    let lines = lines(&larder, 6);
    let peer = r"(HIER_DIRECT|FIRSTUP_PARENT|FIRST_UP_PARENT|DIRECT)/127\.0\.0\.1";
    let expected = [
        format!(
            r"^ *\d+\.\d{{3}} +\d+ 127\.0\.0\.1 TCP_MISS/200 \d+ GET http://site\.test/page - {peer} text/html$"
        ),
        r"TCP_MEM_HIT/200 \d+ GET http://site\.test/page - (HIER_NONE|NONE)/- text/html$"
            .to_owned(),
        r"TCP_IMS_HIT/304 \d+ GET http://site\.test/page - (HIER_NONE|NONE)/- ".to_owned(),
        format!(r"TCP_CLIENT_REFRESH_MISS/200 \d+ GET http://site\.test/page - {peer} text/html$"),
        format!(r"TCP_MISS/200 \d+ GET http://site\.test/other\?q=1 - {peer} "),
        r"/200 \d+ PURGE http://site\.test/page - (HIER_NONE|NONE)/- ".to_owned(),
    ];
    // Connections end up on different threads, whose lines may change places.
    for pattern in expected {
        let pattern = Regex::new(&pattern).unwrap();
        assert!(
            lines.iter().any(|line| pattern.is_match(line)),
            "no line like {pattern}:\n{}",
            lines.join("\n")
        );
    }
}

#[test]
fn the_combined_format() {
    let origin = Origin::serving(&["Cache-Control: max-age=60"], "12345");
    let larder = logging(&origin, "combined");
    get_with(larder.addr(), "/a?b=c", &["Referer: http://from.test/", "User-Agent: Tester/1.0"]);
    let line = &lines(&larder, 1)[0];
    let pattern = Regex::new(
        r#"^127\.0\.0\.1 - - \[\d\d/[A-Z][a-z][a-z]/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] "GET [^ "]*/a\?b=c HTTP/1\.1" 200 \d+ "http://from\.test/" "Tester/1\.0""#,
    )
    .unwrap();
    assert!(pattern.is_match(line), "{line}");
}

#[test]
fn each_json_line_is_an_object() {
    let origin = Origin::serving(&["Cache-Control: max-age=60"], "12345");
    let larder = logging(&origin, "json");
    get_with(larder.addr(), "/a", &["User-Agent: with \"quotes\" and \\ and caf\u{e9}"]);
    get(larder.addr(), "/a");
    let lines = lines(&larder, 2);
    for line in &lines {
        let object: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        assert_eq!(object["method"], "GET", "{line}");
        assert_eq!(object["status"], 200, "{line}");
        assert!(line.contains("http://site.test/a"), "{line}");
    }
    assert!(
        lines.iter().any(|line| line.contains("TCP_MISS"))
            && lines.iter().any(|line| line.contains("TCP_MEM_HIT"))
    );
}

#[test]
fn refused_requests_are_logged() {
    let origin = Origin::serving(&[], "");
    let larder = logging(&origin, "squid");
    let mut wire = larder.connect();
    wire.send("GET / HTTP/1.1\r\n\r\n");
    wire.read().assert_status(400);
    assert!(lines(&larder, 1)[0].contains("/400 "));
    larder.connect().ask("PURGE", "/", &["Host: site.test", "Larder-Purge: nonsense"]);
    lines(&larder, 2);
}

#[test]
fn what_a_client_sends_cannot_forge_a_line() {
    for format in ["squid", "combined", "json"] {
        let origin = Origin::serving(&["Cache-Control: no-store"], "");
        let larder = logging(&origin, format);
        let odd = "User-Agent: a\" 200 \t\u{80}\u{9b}31m\u{ff}\\n{}";
        get_with(larder.addr(), "/%0a%0d%22/\"quoted\"?x=\\", &[odd, "Referer: \"\\\""]);
        get(larder.addr(), "/end");
        let lines = lines(&larder, 2);
        assert_eq!(lines.len(), 2, "{format}: {lines:?}");
        for line in lines {
            assert!(line.chars().all(|c| !c.is_control()), "{format}: {line:?}");
            if format == "json" {
                serde_json::from_str::<serde_json::Value>(&line).unwrap();
            }
            if format == "combined" {
                let quotes = line.replace("\\\"", "").replace("\\\\", "").matches('"').count();
                assert!(quotes.is_multiple_of(2), "{line}");
            }
        }
    }
}

#[test]
fn the_log_is_opened_again_on_sighup() {
    let origin = Origin::serving(&["Cache-Control: max-age=60"], "page");
    let larder = logging(&origin, "squid");
    get(larder.addr(), "/before");
    lines(&larder, 1);
    fs::rename(larder.dir().join("access.log"), larder.dir().join("access.log.1")).unwrap();
    larder.hup();
    wait_until("the new log", || larder.dir().join("access.log").exists());
    get(larder.addr(), "/after");
    assert!(lines(&larder, 1)[0].contains("/after"));
    assert!(!lines_of(&larder, "access.log.1", 1).iter().any(|line| line.contains("/after")));
}

#[test]
fn path_and_format_of_the_log_change_by_a_reload() {
    let origin = Origin::serving(&["Cache-Control: max-age=60"], "x");
    let config = |file: &str, format: &str| {
        format!(
            "memory = \"64MiB\"\nthreads = 2\n[http]\nlisten = [\"127.0.0.1:0\"]\naccess_log = {{ path = \
             \"{file}\", format = \"{format}\" }}\n[[site]]\norigin = \"{}\"\n",
            origin.url()
        )
    };
    let larder = Larder::with_config(&config("one.log", "squid"));
    let lines = |file: &str| fs::read_to_string(larder.dir().join(file)).unwrap_or_default();
    get(larder.addr(), "/one");
    wait_until("the first line", || lines("one.log").contains("/one"));
    larder.rewrite_config(&config("two.log", "json"));
    let (status, _, wrong) = larder.command(&["reload"]);
    assert!(status.success(), "{wrong}");
    get(larder.addr(), "/two");
    wait_until("a line in the other file", || lines("two.log").contains("/two"));
    assert!(lines("two.log").starts_with('{') && !lines("one.log").contains("/two"));
    // A file that cannot be opened changes nothing.
    larder.rewrite_config(&config("no/such/directory.log", "json"));
    let (status, _, wrong) = larder.command(&["reload"]);
    assert!(!status.success() && wrong.contains("cannot open the access log"), "{wrong}");
    get(larder.addr(), "/three");
    wait_until("a line in the file in use", || lines("two.log").contains("/three"));
}

#[test]
fn every_request_has_its_line_when_it_ends() {
    let origin = Origin::serving(&["Cache-Control: max-age=60"], "page");
    let mut larder = logging(&origin, "squid");
    let mut wire = larder.connect();
    for n in 0..1000 {
        wire.get(&format!("/{}", n % 10), &[]);
    }
    drop(wire);
    larder.term();
    assert!(larder.wait_exit().success());
    assert_eq!(lines(&larder, 1000).len(), 1000);
}
