//! Files of this machine that are kept ready: an open descriptor or the content, and the head.

#![allow(clippy::unwrap_used)]

use larder_tests::{
    Admin, Answer, H2, H3, Larder, Papers, Scratch, Wire, get, get_with, wait_until,
};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

const SIZES: [usize; 7] = [0, 1, 1_000, 16_384, 26_510, 100_000, 3_000_000];

/// So many bytes.
fn content(len: usize) -> Vec<u8> {
    (0..len).map(|n| ((n * 7 + n / 251) % 256) as u8).collect()
}

/// A file whose last change is an hour ago.
fn write_old(scratch: &Scratch, name: &str, content: impl AsRef<[u8]>) {
    let path = scratch.file(name);
    fs::write(&path, content).unwrap();
    age(&scratch.file(name));
}

/// Waits until the last change of a file is not recent.
fn age(path: &std::path::Path) {
    wait_until("the file to be older than a second", || {
        let changed = fs::metadata(path).unwrap().modified().unwrap();
        changed.elapsed().is_ok_and(|age| age.as_millis() > 1100)
    });
}

/// Files of all sizes, under their size.
fn sizes() -> Scratch {
    let scratch = Scratch::new("kept");
    for size in SIZES {
        fs::write(scratch.file(&size.to_string()), content(size)).unwrap();
    }
    age(&scratch.file("3000000"));
    scratch
}

/// One thread. `origin` are lines of its table, `http` of `[http]`, `site` of `[[site]]`.
fn larder(scratch: &Scratch, http: &str, origin: &str, site: &str) -> Larder {
    Larder::with_config(&format!(
        "threads = 1\n[http]\nlisten = \"127.0.0.1:0\"\n{http}\n[admin]\nlisten = \
         \"127.0.0.1:0\"\n[[site]]\npurge = {{ from = [\"127.0.0.1\"] }}\n{site}\n[site.origin]\n\
         url = \"files:{}\"\n{origin}\n",
        scratch.path().display()
    ))
}

fn figure(larder: &Larder, name: &str) -> u64 {
    Admin::of(larder).metric(name)
}

#[track_caller]
fn assert_kept(answer: &Answer) {
    assert!(answer.is_hit() && answer.cache_status_has("detail=file"), "{answer:?}");
}

#[test]
fn a_file_is_opened_once_and_then_kept() {
    let scratch = sizes();
    let larder = larder(&scratch, "", "", "");
    for size in SIZES {
        let first = get(larder.addr(), &format!("/{size}"));
        assert!(first.cache_status_has("fwd=uri-miss") && first.body == content(size), "{size}");
        let kept = get(larder.addr(), &format!("/{size}"));
        assert_kept(&kept);
        assert!(kept.status == 200 && kept.body == content(size), "{size}: {kept:?}");
        assert_eq!(kept.get("content-length"), Some(&*size.to_string()));
        for name in ["etag", "last-modified", "content-type", "accept-ranges", "via"] {
            assert_eq!(kept.get(name), first.get(name), "{name}");
            assert!(kept.get(name).is_some(), "{name}");
        }
        assert!(kept.get("date").is_some() && kept.get("age").is_none());
    }
    assert_eq!(figure(&larder, "larder_http_files_opened_total"), SIZES.len() as u64);
    assert_eq!(figure(&larder, "larder_http_open_files"), 3, "larger than 16 KiB");
    let memory = figure(&larder, "larder_http_file_memory_bytes");
    assert!(memory >= 17_385, "{memory}");
    let stats = Admin::of(&larder).json("/api/v1/stats");
    assert_eq!(stats["http"]["results"]["hit"], SIZES.len());
    assert_eq!(stats["http"]["results"]["miss"], SIZES.len());
    assert_eq!(stats["memory"]["entries"].as_u64().unwrap_or(0), 0, "nothing is stored");
}

#[test]
fn ranges_conditions_and_heads() {
    let scratch = sizes();
    let larder = larder(&scratch, "", "", "");
    for size in [16_384_usize, 3_000_000] {
        let (target, all) = (format!("/{size}"), content(size));
        let whole = get(larder.addr(), &target);
        let ask = |fields: &[&str]| {
            let answer = get_with(larder.addr(), &target, fields);
            assert_kept(&answer);
            answer
        };
        let part = ask(&["Range: bytes=10-9999"]);
        assert!(part.status == 206 && part.body == all[10..=9999], "{part:?}");
        let expected = format!("bytes 10-9999/{size}");
        assert_eq!(part.get("content-range"), Some(&*expected));
        assert!(ask(&["Range: bytes=-5"]).body == all[size - 5..]);
        assert_eq!(ask(&["Range: bytes=9999999-"]).status, 416);
        let several = ask(&["Range: bytes=0-4,10000-16000"]);
        assert_eq!(several.status, 206);
        assert!(several.get("content-type").unwrap().starts_with("multipart/byteranges"));
        assert!(several.body.windows(6001).any(|bytes| *bytes == all[10_000..=16_000]));
        let (tag, date) = (whole.get("etag").unwrap(), whole.get("last-modified").unwrap());
        assert_eq!(ask(&[&format!("If-None-Match: {tag}")]).status, 304);
        assert_eq!(ask(&[&format!("If-Modified-Since: {date}")]).status, 304);
        assert_eq!(ask(&["If-None-Match: \"other\""]).status, 200);
        let range = "Range: bytes=0-0";
        assert_eq!(ask(&[range, &format!("If-Range: {tag}")]).status, 206);
        assert_eq!(ask(&[range, "If-Range: \"other\""]).status, 200);
        let head = larder.connect().ask("HEAD", &target, &["Host: a"]);
        assert_eq!(head.get("content-length"), Some(&*size.to_string()));
        assert_kept(&head);
        let mut wire = larder.connect();
        wire.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").repeat(3));
        assert!((0..3).all(|_| wire.read().body == all), "several at once");
    }
}

#[test]
fn over_http2_http3_and_tls() {
    let scratch = sizes();
    let papers = Papers::issue();
    let (cert, key) = (papers.path("server.pem"), papers.path("server.key"));
    let larder = Larder::with_config(&format!(
        "threads = 1\n[http]\nlisten = \"127.0.0.1:0\"\nh2c = true\n[https]\nlisten = \
         \"127.0.0.1:0\"\nhttp3 = true\ncertificates = [{{ cert = \"{cert}\", key = \"{key}\" \
         }}]\n[[site]]\norigin = \"files:{}\"\n",
        scratch.path().display()
    ));
    let clear = H2::connect(larder.addr());
    let tls = H2::connect_tls(larder.face("https"), &papers.client(), "127.0.0.1");
    let mut quic = H3::connect(larder.face("http3+udp"), &papers);
    let mut secured = Wire::connect_tls(larder.face("https"), &papers.client(), "127.0.0.1");
    for size in SIZES {
        let target = format!("/{size}");
        get(larder.addr(), &target);
        let answers =
            [clear.get(&target), tls.get(&target), quic.get(&target), secured.get(&target, &[])];
        for answer in answers {
            assert_kept(&answer);
            assert!(answer.body == content(size), "{size}: {} came", answer.body.len());
        }
        if size > 1000 {
            let part = tls.ask("GET", &target, &[("range", "bytes=5-999")]);
            assert!(part.status == 206 && part.body == content(size)[5..=999], "{size}");
        }
    }
}

/// A change is seen although the time for which a file is not looked at has not passed.
fn change(name: &str, size: usize, change: impl Fn(&Scratch), expected: u16) {
    let scratch = Scratch::new("kept");
    fs::create_dir_all(scratch.file("a/b")).unwrap();
    for file in ["a/b/file", "a/b/other", "plain"] {
        fs::write(scratch.file(file), content(size)).unwrap();
    }
    symlink("b/file", scratch.file("a/link")).unwrap();
    age(&scratch.file("plain"));
    let larder = larder(&scratch, "", "", "");
    let target = if name == "a link" { "/a/link" } else { "/a/b/file" };
    let before = get(larder.addr(), target);
    assert!(before.status == 200 && before.body == content(size));
    assert_kept(&get(larder.addr(), target));
    change(&scratch);
    wait_until(name, || {
        // An answer that begins before the change may break off.
        let mut wire = larder.connect();
        let answer = wire.send_get(target, &["Host: a"]).try_read_for("GET");
        answer.is_ok_and(|answer| {
            let new = answer.get("etag") != before.get("etag");
            answer.status == expected && new && (expected != 200 || answer.body == b"new")
        })
    });
    assert_eq!(get(larder.addr(), "/plain").body, content(size));
}

#[test]
fn changes_are_seen() {
    for size in [1_000, 50_000] {
        let replace = |scratch: &Scratch, name: &str| {
            scratch.write("new", "new");
            fs::rename(scratch.file("new"), scratch.file(name)).unwrap();
        };
        change("a file renamed over it", size, |scratch| replace(scratch, "a/b/file"), 200);
        change("other content", size, |scratch| drop(scratch.write("a/b/file", "new")), 200);
        change(
            "a shorter file",
            size,
            |scratch| {
                let file =
                    fs::OpenOptions::new().write(true).open(scratch.file("a/b/file")).unwrap();
                file.set_len(3).unwrap();
                fs::write(scratch.file("a/b/file"), "new").unwrap();
            },
            200,
        );
        change("its end", size, |scratch| fs::remove_file(scratch.file("a/b/file")).unwrap(), 404);
        change(
            "another directory above it",
            size,
            |scratch| {
                fs::rename(scratch.file("a"), scratch.file("away")).unwrap();
                fs::create_dir_all(scratch.file("a/b")).unwrap();
                scratch.write("a/b/file", "new");
            },
            200,
        );
        change(
            "a link",
            size,
            |scratch| {
                scratch.write("a/b/new", "new");
                symlink("b/new", scratch.file("a/next")).unwrap();
                fs::rename(scratch.file("a/next"), scratch.file("a/link")).unwrap();
            },
            200,
        );
    }
}

#[test]
fn compressed_forms_come_and_go() {
    let scratch = Scratch::new("kept");
    write_old(&scratch, "a.js", content(50_000));
    let larder = larder(&scratch, "", "", "");
    let ask =
        |coding: &str| get_with(larder.addr(), "/a.js", &[&format!("Accept-Encoding: {coding}")]);
    assert_eq!(ask("br").get("vary"), None);
    scratch.write("a.js.br", "br form");
    scratch.write("a.js.gz", "gzip form");
    wait_until("the form", || ask("br").body == b"br form");
    for coding in ["gzip", "gzip, br;q=0", "br, gzip", "zstd", "identity"] {
        let answer = ask(coding);
        let expected = match coding {
            "br, gzip" => (b"br form".to_vec(), Some("br")),
            "zstd" | "identity" => (content(50_000), None),
            _ => (b"gzip form".to_vec(), Some("gzip")),
        };
        assert_eq!((answer.body.clone(), answer.get("content-encoding")), expected, "{coding}");
        assert_eq!(answer.get("vary"), Some("Accept-Encoding"));
        assert_kept(&answer);
    }
    fs::remove_file(scratch.file("a.js.br")).unwrap();
    wait_until("its end", || ask("br, gzip").body == b"gzip form");
}

#[test]
fn names_of_one_inode_share_it() {
    let scratch = Scratch::new("kept");
    fs::write(scratch.file("a"), content(50_000)).unwrap();
    fs::hard_link(scratch.file("a"), scratch.file("b.html")).unwrap();
    let larder = larder(&scratch, "", "", "");
    for (target, media_type) in [
        ("/a", "application/octet-stream"),
        ("/b.html", "text/html"),
        ("/%61", "application/octet-stream"),
    ] {
        get(larder.addr(), target);
        let answer = get(larder.addr(), target);
        assert_kept(&answer);
        assert!(answer.body == content(50_000));
        assert_eq!(answer.get("content-type"), Some(media_type));
    }
    assert_eq!(figure(&larder, "larder_http_open_files"), 1);
}

#[test]
fn there_are_no_more_open_files_and_no_more_memory_than_configured() {
    let scratch = Scratch::new("kept");
    for n in 0..60 {
        fs::write(scratch.file(&format!("large{n}")), vec![n; 20_000]).unwrap();
        fs::write(scratch.file(&format!("small{n}")), vec![n; 15_000]).unwrap();
    }
    age(&scratch.file("small59"));
    let larder = larder(&scratch, "open_files = 8\nsendfile_cache = \"1MiB\"", "", "");
    for _ in 0..3 {
        for n in 0..60 {
            let large = get(larder.addr(), &format!("/large{n}"));
            assert!(large.body == vec![n; 20_000], "{n}: {large:?}");
            assert!(get(larder.addr(), &format!("/small{n}")).body == vec![n; 15_000], "{n}");
        }
        assert_eq!(figure(&larder, "larder_http_open_files"), 8);
        let memory = figure(&larder, "larder_http_file_memory_bytes");
        assert!((400_000..=512 << 10).contains(&memory), "{memory}");
    }
    // Some are asked for more often than all others, and stay.
    (0..5).for_each(|_| drop(get(larder.addr(), "/large7")));
    let none = site_without_kept(&scratch, "");
    for _ in 0..2 {
        assert!(get(none.addr(), "/large7").body == vec![7; 20_000]);
    }
    assert_eq!(figure(&none, "larder_http_open_files"), 0);
}

#[test]
fn a_published_page_covers_a_file() {
    let scratch = Scratch::new("kept");
    scratch.write("page.html", "the file");
    let larder = larder(&scratch, "", "", "");
    let admin = Admin::of(&larder);
    let url = "http://site.test/page.html";
    assert_eq!(get(larder.addr(), "/page.html").text(), "the file");
    admin.order("PUT", &format!("/api/v1/pages?url={url}"), "published").assert_status(201);
    assert_eq!(get(larder.addr(), "/page.html").text(), "published");
    scratch.write("page.html", "another file");
    assert_eq!(get(larder.addr(), "/page.html").text(), "published");
    admin.order("DELETE", &format!("/api/v1/pages?url={url}"), "").assert_status(204);
    wait_until("the file", || get(larder.addr(), "/page.html").text() == "another file");
    admin.order("PUT", &format!("/api/v1/pages?url={url}"), "published").assert_status(201);
    assert_eq!(get(larder.addr(), "/page.html").text(), "published");
    larder.connect().ask("PURGE", "/page.html", &["Host: site.test"]).assert_status(200);
    assert_eq!(get(larder.addr(), "/page.html").text(), "another file");
}

#[test]
fn rules_hold() {
    let scratch = Scratch::new("kept");
    write_old(&scratch, "a.txt", "a file");
    let other = Scratch::new("other");
    write_old(&other, "b.txt", "other file");
    let rules = format!(
        "[[site.rule]]\npath = \"/edited/*\"\nstrip_prefix = \"/edited\"\nresponse_fields = \
         [\"X-A: b\"]\n[[site.rule]]\npath = \"/below/*\"\nstrip_prefix = \"/below\"\n[[site.rule]]\n\
         path = \"/other/*\"\nstrip_prefix = \"/other\"\norigin = \"files:{}\"\n[[site.rule]]\npath = \
         \"/pass/*\"\nstrip_prefix = \"/pass\"\npass = true\n",
        other.path().display()
    );
    let larder = larder(&scratch, "", &rules, "");
    for _ in 0..2 {
        let edited = get(larder.addr(), "/edited/a.txt");
        assert_eq!((edited.text(), edited.get("x-a")), ("a file", Some("b")));
        assert_eq!(get(larder.addr(), "/pass/a.txt").text(), "a file");
    }
    for (target, text) in [("/below/a.txt", "a file"), ("/other/b.txt", "other file")] {
        assert_eq!(get(larder.addr(), target).text(), text);
        assert_kept(&get(larder.addr(), target));
        assert_kept(&get(larder.addr(), &format!("{target}?v=1")));
    }
    assert_eq!(get(larder.addr(), "/b.txt").status, 404);
}

/// A link is not watched: what it leads to may be changed elsewhere.
#[test]
fn a_purge_has_a_file_looked_at_again() {
    let scratch = Scratch::new("kept");
    fs::create_dir(scratch.file("real")).unwrap();
    write_old(&scratch, "real/file", "first");
    symlink("real/file", scratch.file("link")).unwrap();
    let larder = larder(&scratch, "", "check = \"1d\"", "");
    assert_eq!(get(larder.addr(), "/link").text(), "first");
    scratch.write("real/file", "second");
    assert_eq!(get(larder.addr(), "/link").text(), "first", "it was not looked at");
    let purge = |path| larder.connect().ask("PURGE", path, &["Host: site.test"]).status;
    assert_eq!(purge("/link"), 200);
    assert_eq!(get(larder.addr(), "/link").text(), "second");
    assert_eq!(purge("/absent"), 404);
}

/// The system tells of a change although it is not looked for.
#[test]
fn a_change_is_told() {
    let scratch = Scratch::new("kept");
    fs::create_dir_all(scratch.file("a/b")).unwrap();
    write_old(&scratch, "a/b/index.html", "first");
    let larder = larder(&scratch, "", "check = \"1d\"", "");
    let changed = |expected: &str| {
        wait_until(expected, || get(larder.addr(), "/a/b/").text() == expected);
    };
    changed("first");
    assert_kept(&get(larder.addr(), "/a/b/"));
    scratch.write("a/b/index.html", "second");
    changed("second");
    scratch.write("a/b/new", "third");
    fs::rename(scratch.file("a/b/new"), scratch.file("a/b/index.html")).unwrap();
    changed("third");
    fs::rename(scratch.file("a"), scratch.file("away")).unwrap();
    wait_until("the end", || get(larder.addr(), "/a/b/").status == 404);
    scratch.write("away/b/index.html", "fourth");
    fs::rename(scratch.file("away"), scratch.file("a")).unwrap();
    changed("fourth");
    scratch.write("a/b/index.html.gz", "gz");
    wait_until("the form", || {
        get_with(larder.addr(), "/a/b/", &["Accept-Encoding: gzip"]).text() == "gz"
    });
}

/// Calls of the worker for `requests` answers on one connection, by name.
fn calls(larder: &Larder, target: &str, requests: usize) -> Vec<String> {
    let scratch = Scratch::new("strace");
    let mut strace = Command::new("strace")
        .args(["-f", "-q", "-s", "64", "-o"])
        .arg(scratch.file("trace"))
        .args(["-p", &larder.pid().to_string()])
        .stdin(Stdio::null())
        .spawn()
        .unwrap_or_else(|e| {
            panic!("strace does not start: {e}; scripts/test-deps.sh installs what tests need")
        });
    let mut wire = larder.connect();
    let trace = || fs::read_to_string(scratch.file("trace")).unwrap_or_default();
    wait_until("strace to attach", || {
        wire.get("/begin", &[]);
        trace().contains("GET /begin")
    });
    for _ in 0..requests {
        assert_kept(&wire.get(target, &[]));
    }
    wait_until("the end of the trace", || {
        wire.get("/end", &[]);
        trace().contains("GET /end")
    });
    // It may have ended already.
    let _ = strace.kill();
    let _ = strace.wait();
    let text = trace();
    let (asked, end) = (format!("GET {target} "), "GET /end ");
    let first = text.lines().find(|line| line.contains(&asked)).unwrap();
    let thread = first.split(' ').next().unwrap();
    let of_worker = text.lines().filter(|line| line.starts_with(thread));
    let between =
        of_worker.skip_while(|line| !line.contains(&asked)).take_while(|line| !line.contains(end));
    let name = |line: &str| {
        line[thread.len()..].trim_start().split('(').next().unwrap_or_default().to_owned()
    };
    between.map(name).filter(|name| !name.starts_with("epoll") && !name.starts_with('<')).collect()
}

#[test]
fn an_answer_costs_two_calls_of_the_system() {
    const REQUESTS: usize = 50;
    let scratch = sizes();
    for name in ["begin", "end"] {
        scratch.write(name, name);
    }
    let larder = larder(&scratch, "", "", "");
    for (target, expected) in
        [("/1000", &["recvfrom", "sendto"][..]), ("/26510", &["recvfrom", "sendto", "sendfile"])]
    {
        get(larder.addr(), target);
        let calls = calls(&larder, target, REQUESTS);
        for name in expected {
            let count = calls.iter().filter(|call| call == name).count();
            assert!(count.abs_diff(REQUESTS) <= 2, "{count} times {name}: {calls:?}");
        }
        // Once a second it is looked where the tree begins.
        let others: Vec<_> = calls
            .iter()
            .filter(|call| !expected.contains(&&***call) && !call.contains("stat"))
            .collect();
        assert!(others.len() < 5, "{others:?}");
    }
}

fn site_without_kept(scratch: &Scratch, origin: &str) -> Larder {
    larder(scratch, "open_files = 0", origin, "")
}
