//! Objects of memcached and Redis clients that are served as pages.

#![allow(clippy::unwrap_used)]

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use larder_tests::{
    Admin, Answer, Larder, Origin, Resp, Wire, helper::source_root, larder::run, memcache,
};
use serde_json::json;

/// Flag of an item that begins with a head.
const WITH_HEAD: u32 = 1 << 16;

fn numbered() -> Origin {
    Origin::start(|seen, reply| {
        reply.ok(&["Cache-Control: max-age=600"], format!("origin {}", seen.number + 1));
    })
}

/// Two sites, both faces of objects, and these lines in `[publish]`.
fn larder(origin: &Origin, publish: &str) -> Larder {
    let site = |host: &str| {
        format!(
            "[[site]]\nhosts = [\"{host}\"]\norigin = \"{}\"\npurge = {{ from = [\"127.0.0.1\"] }}\n\
             compress = [\"gzip\"]\n",
            origin.url()
        )
    };
    let publish =
        if publish.is_empty() { String::new() } else { format!("[publish]\n{publish}\n") };
    Larder::with_config(&format!(
        "{publish}[http]\nlisten = \"127.0.0.1:0\"\n[memcached]\nlisten = \"127.0.0.1:0\"\n\
         [redis]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n{}{}",
        site("site.test"),
        site("other.test")
    ))
}

const PREFIX: &str = "prefix = \"page:\"";

/// One command of memcached's text protocol; its answer's first line.
fn say(larder: &Larder, command: impl AsRef<[u8]>) -> String {
    let mut wire = Wire::connect(larder.face("memcached"));
    wire.send(command);
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.extend(wire.read_bytes(1));
    }
    String::from_utf8(line).unwrap().trim_end().to_owned()
}

#[track_caller]
fn set(larder: &Larder, key: &str, flags: u32, value: &str) {
    let command = format!("set {key} {flags} 0 {}\r\n{value}\r\n", value.len());
    assert_eq!(say(larder, command), "STORED");
}

/// A request without content for site.test.
#[track_caller]
fn ask(larder: &Larder, method: &str, target: &str, fields: &[&str]) -> Answer {
    larder.connect().ask(method, target, &[&["Host: site.test"], fields].concat())
}

fn body(larder: &Larder, target: &str) -> String {
    larder_tests::get(larder.addr(), target).text().to_owned()
}

#[test]
fn an_object_is_a_page_like_any_other() {
    let origin = numbered();
    let larder = larder(&origin, PREFIX);
    assert_eq!(body(&larder, "/files/notes.txt"), "origin 1");
    set(&larder, "page:site.test/files/notes.txt", 0, "0123456789");
    let mut wire = larder.connect();
    let answer = wire.get("/files/notes.txt", &[]);
    assert_eq!(answer.text(), "0123456789");
    answer.assert_hit();
    assert_eq!(answer.get("content-type"), Some("text/plain; charset=utf-8"));
    let etag = answer.get("etag").unwrap().to_owned();
    wire.get("/files/notes.txt", &[&format!("If-None-Match: {etag}")]).assert_status(304);
    let part = wire.get("/files/notes.txt", &["Range: bytes=2-4"]);
    assert_eq!((part.status, part.text()), (206, "234"));
    wire.get("/files/notes.txt", &["Range: bytes=20-"]).assert_status(416);
    let head = ask(&larder, "HEAD", "/files/notes.txt", &[]);
    assert_eq!((head.status, head.get("content-length")), (200, Some("10")));
    assert_eq!(wire.get("/files/notes.txt", &["Cache-Control: max-age=0"]).text(), "0123456789");
    // Written again, by any command.
    assert_eq!(say(&larder, "append page:site.test/files/notes.txt 0 0 1\r\nX\r\n"), "STORED");
    let answer = wire.get("/files/notes.txt", &[&format!("If-None-Match: {etag}")]);
    assert_eq!((answer.status, answer.text()), (200, "0123456789X"));
    assert_eq!(say(&larder, "delete page:site.test/files/notes.txt\r\n"), "DELETED");
    assert_eq!(wire.get("/files/notes.txt", &[]).text(), "origin 2");
}

#[test]
fn numbers_that_are_counted_are_pages_of_their_value() {
    let origin = numbered();
    let larder = larder(&origin, PREFIX);
    set(&larder, "page:site.test/count", 0, "10");
    for value in ["10", "11", "12"] {
        assert_eq!(body(&larder, "/count"), value);
        say(&larder, "incr page:site.test/count 1\r\n");
    }
    assert_eq!(origin.count(), 0);
}

#[test]
fn a_head_gives_status_and_fields() {
    let origin = numbered();
    let larder = larder(&origin, PREFIX);
    let object = "Status: 404 Not Here\r\nContent-Type: text/plain\r\nX-Own: yes\r\n\r\ngone";
    set(&larder, "page:site.test/gone.html", WITH_HEAD, object);
    let answer = larder_tests::get(larder.addr(), "/gone.html");
    assert_eq!((answer.status, answer.text()), (404, "gone"));
    assert_eq!(
        (answer.get("content-type"), answer.get("x-own")),
        (Some("text/plain"), Some("yes"))
    );
    assert!(answer.get("larder-object").is_none());
    set(&larder, "page:site.test/old", WITH_HEAD, "Location: /new\n\n");
    let answer = larder_tests::get(larder.addr(), "/old");
    assert_eq!((answer.status, answer.get("location")), (302, Some("/new")));
    // Without the flag a head is content.
    set(&larder, "page:site.test/text", 0, object);
    let answer = larder_tests::get(larder.addr(), "/text");
    assert_eq!((answer.status, answer.text(), answer.get("x-own")), (200, object, None));
    assert_eq!(origin.count(), 0);
}

#[test]
fn a_head_that_is_no_head_is_no_page() {
    let origin = numbered();
    let larder = larder(&origin, PREFIX);
    let bad = [
        "Transfer-Encoding: chunked\r\n\r\nbody",
        "Connection: close\r\n\r\nbody",
        "Content-Length: 3\r\n\r\nbody",
        "Set-Cookie: a=b\r\n\r\nbody",
        "X-Accel-Redirect: /etc/passwd\r\n\r\nbody",
        "X-A: b\rSet-Cookie: c=d\r\n\r\nbody",
        "no field\r\n\r\nbody",
        "Status: 304\r\n\r\nbody",
        "X-A: no end",
    ];
    for (number, object) in bad.iter().enumerate() {
        set(&larder, "page:site.test/page", 0, "good");
        assert_eq!(body(&larder, "/page"), "good");
        set(&larder, "page:site.test/page", WITH_HEAD, object);
        let answer = larder_tests::get(larder.addr(), "/page");
        assert!(answer.text().starts_with("origin "), "{object}: {answer:?}");
        assert!(answer.get("set-cookie").is_none() && answer.get("x-a").is_none(), "{answer:?}");
        assert_eq!(say(&larder, "delete page:site.test/page\r\n"), "DELETED", "{number}");
    }
    // Flags that a client library has for itself.
    for flags in [1, 4, 48, 1 << 17] {
        set(&larder, "page:site.test/page", flags, "serialised");
        assert!(body(&larder, "/page").starts_with("origin "), "{flags}");
    }
    let told = Admin::of(&larder).get("/metrics").text().to_owned();
    assert!(told.contains("larder_http_not_stored_total{reason=\"object-head\"} 9"), "{told}");
    assert!(told.contains("larder_http_not_stored_total{reason=\"object-form\"} 4"), "{told}");
}

#[test]
fn an_object_that_expires_ends_its_page() {
    let origin = numbered();
    let larder = larder(&origin, PREFIX);
    say(&larder, "set page:site.test/brief 0 3 5\r\nbrief\r\n");
    assert_eq!(body(&larder, "/brief"), "brief");
    larder_tests::wait_until("the object to expire", || body(&larder, "/brief") == "origin 1");
    // An expiry that is moved moves the page's.
    say(&larder, "set page:site.test/long 0 0 4\r\nlong\r\n");
    assert_eq!(body(&larder, "/long"), "long");
    assert_eq!(say(&larder, "touch page:site.test/long 1\r\n"), "TOUCHED");
    larder_tests::wait_until("it to expire", || body(&larder, "/long").starts_with("origin"));
    assert_eq!(say(&larder, "get page:site.test/long\r\n"), "END");
}

#[test]
fn purge_and_delete_are_one() {
    let origin = numbered();
    let larder = larder(&origin, PREFIX);
    let gone = |key: &str| say(&larder, format!("get {key}\r\n")) == "END";
    for asked_before in [true, false] {
        set(&larder, "page:site.test/a/1", 0, "page");
        if asked_before {
            assert_eq!(body(&larder, "/a/1"), "page");
        }
        ask(&larder, "PURGE", "/a/1", &[]).assert_status(200);
        assert!(gone("page:site.test/a/1"));
        assert!(body(&larder, "/a/1").starts_with("origin"));
    }
    ask(&larder, "PURGE", "/a/1", &[]).assert_status(200);
    ask(&larder, "PURGE", "/a/1", &[]).assert_status(404);
    // Softly too: nobody fetches an object anew.
    set(&larder, "page:site.test/a/1", 0, "page");
    assert_eq!(body(&larder, "/a/1"), "page");
    ask(&larder, "PURGE", "/a/1", &["Larder-Soft-Purge: 1"]).assert_status(200);
    assert!(body(&larder, "/a/1").starts_with("origin"));
    // Those below a path, and no others.
    for key in ["site.test/a/2", "site.test/a/3", "site.test/b", "other.test/a/2"] {
        set(&larder, &format!("page:{key}"), 0, "page");
    }
    set(&larder, "other:site.test/a/2", 0, "no page");
    assert_eq!(body(&larder, "/a/2"), "page");
    let answer = ask(&larder, "PURGE", "/a/", &["Larder-Purge: prefix"]);
    // Both objects, and the origin's page.
    assert_eq!(answer.text(), "{\"purged\":3}\n");
    assert!(gone("page:site.test/a/2") && gone("page:site.test/a/3"));
    for key in ["page:site.test/b", "page:other.test/a/2", "other:site.test/a/2"] {
        assert!(!gone(key), "{key}");
    }
    // By an expression, what was requested.
    assert_eq!(body(&larder, "/b"), "page");
    let admin = Admin::of(&larder);
    assert_eq!(admin.purge(&json!({"ban": "url == \"/b\" && host == \"site.test\""})), 1);
    assert!(gone("page:site.test/b"));
}

#[test]
fn nothing_else_is_reached() {
    let origin = numbered();
    let larder = larder(&origin, "prefix = \"page:\"\nhosts = [\"site.test\"]");
    set(&larder, "secret", 0, "secret");
    set(&larder, "page:", 0, "secret");
    set(&larder, "page:other.test/page", 0, "other");
    set(&larder, "page:site.test", 0, "no path");
    set(&larder, "page:site.test/page?a=1", 0, "with a query");
    let mut wire = larder.connect();
    for (target, host) in [
        ("/page", "other.test"),
        ("/secret", "site.test"),
        ("/../secret", "site.test"),
        ("/page", "site.test"),
        ("/", "site.test"),
        ("/page:secret", "site.test"),
    ] {
        let answer = wire.ask("GET", target, &[&format!("Host: {host}")]);
        assert!(answer.text().starts_with("origin "), "{host}{target}: {answer:?}");
    }
    assert_eq!(wire.get("/page?a=1", &[]).text(), "with a query");
    assert!(wire.get("/page?a=2", &[]).text().starts_with("origin "));
    // Another method is the origin's.
    let posted = ask(&larder, "POST", "/page?a=1", &["Content-Length: 0"]);
    assert!(posted.text().starts_with("origin "), "{posted:?}");
}

#[test]
fn off_by_default() {
    let origin = numbered();
    let larder = larder(&origin, "");
    set(&larder, "page:site.test/page", 0, "object");
    assert_eq!(body(&larder, "/page"), "origin 1");
    ask(&larder, "PURGE", "/page", &[]).assert_status(200);
    assert_eq!(say(&larder, "get page:site.test/page\r\n"), "VALUE page:site.test/page 0 6");
}

#[test]
fn large_objects_are_pages_up_to_a_limit() {
    let origin = numbered();
    let larder = Larder::with_config(&format!(
        "memory = \"128MiB\"\n[publish]\n{PREFIX}\n[http]\nlisten = \"127.0.0.1:0\"\n[memcached]\n\
         listen = \"127.0.0.1:0\"\nitem_size = \"16MiB\"\n[[site]]\norigin = \"{}\"\n",
        origin.url()
    ));
    let text: String = (0..900_000).map(|number| format!("{number:07}\n")).collect();
    set(&larder, "page:site.test/large", 0, &text);
    assert!(body(&larder, "/large") == text);
    set(&larder, "page:site.test/large", 0, &"x".repeat((8 << 20) + 1));
    assert_eq!(body(&larder, "/large"), "origin 1");
}

#[test]
fn compressed_for_clients_that_take_it() {
    let origin = numbered();
    let larder = larder(&origin, PREFIX);
    for text in ["first ".repeat(1000), "second ".repeat(1000)] {
        set(&larder, "page:site.test/text.html", 0, &text);
        larder_tests::wait_until("a compressed form", || {
            let fields = ["Accept-Encoding: gzip"];
            let answer = larder_tests::get_with(larder.addr(), "/text.html", &fields);
            answer.get("content-encoding") == Some("gzip") && answer.body.len() < 1000
        });
        assert_eq!(body(&larder, "/text.html"), text);
    }
}

#[test]
fn strings_and_hashes_of_redis_are_pages() {
    let origin = numbered();
    let larder = larder(&origin, "prefix = \"www/\"\nnamespace = \"redis\"\ndatabase = 3");
    let mut redis = Resp::tcp(larder.face("redis"));
    redis.say("SELECT 3");
    redis.ask(&["SET", "www/site.test/a.json", "{}"]);
    let answer = larder_tests::get(larder.addr(), "/a.json");
    assert_eq!((answer.text(), answer.get("content-type")), ("{}", Some("application/json")));
    redis.ask(&["HSET", "www/site.test/b", "head", "Status: 410 Gone\r\nX-Own: 1", "body", "no"]);
    let answer = larder_tests::get(larder.addr(), "/b");
    assert_eq!((answer.status, answer.text(), answer.get("x-own")), (410, "no", Some("1")));
    redis.ask(&["HSET", "www/site.test/b", "body", "more"]);
    assert_eq!(body(&larder, "/b"), "more");
    redis.ask(&["PEXPIRE", "www/site.test/b", "1"]);
    larder_tests::wait_until("it to expire", || body(&larder, "/b").starts_with("origin"));
    // A body is content, whatever it begins with.
    let text = "HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\n\r\n";
    redis.ask(&["SET", "www/site.test/c", text]);
    assert_eq!(body(&larder, "/c"), text);
    redis.ask(&["RPUSH", "www/site.test/list", "a"]);
    assert!(body(&larder, "/list").starts_with("origin"));
    ask(&larder, "PURGE", "/", &["Larder-Purge: prefix"]).assert_status(200);
    assert_eq!(redis.say("EXISTS www/site.test/a.json www/site.test/c www/site.test/list"), "1");
}

/// Runs an example of `contrib/publish` with this input.
#[track_caller]
fn publish(command: &mut Command, input: &str) {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "published\n", "{output:?}");
}

#[test]
fn the_examples_publish() {
    let origin = numbered();
    let larder = larder(&origin, PREFIX);
    let face = larder.face("memcached");
    let examples = source_root().join("contrib/publish");
    let (ip, port) = (face.ip().to_string(), face.port().to_string());
    let head = "Status: 404 Not Found\r\nX-Own: yes";
    let python = || {
        let mut command = Command::new("/usr/bin/python3");
        command.arg(examples.join("publish.py")).arg(face.to_string());
        command
    };
    publish(python().args(["http://site.test/py.txt", "0"]), "plain");
    publish(python().args(["http://Site.TEST:80/py/head", "0", head]), "missing");
    publish(python().args(["http://site.test", "0"]), "the root");
    assert_eq!(larder.connect().ask("GET", "/", &["Host: site.test"]).text(), "the root");
    let php = || {
        let mut command = Command::new("php");
        command.arg(examples.join("publish.php")).args([&ip, &port]);
        command
    };
    let long = "plain ".repeat(1000);
    publish(php().args(["http://site.test/php.txt", "0"]), &long);
    publish(php().args(["http://Site.TEST:80/php/head", "0", head]), "missing");
    let program = larder.dir().join("publish");
    let mut build = Command::new("cc");
    build.args(["-Wall", "-Werror", "-o"]).arg(&program);
    let built = memcache::client(build.arg(examples.join("publish.c")).arg("-lmemcached"));
    assert!(built.status.success(), "{built:?}");
    let c = |key: &str, more: &[&str]| {
        publish(Command::new(&program).args([&ip, &port, key, "0"]).args(more), "");
    };
    c("page:site.test/c.txt", &["plain"]);
    c("page:site.test/c/head", &["missing", head]);
    for (language, text) in [("py", "plain"), ("php", &long), ("c", "plain")] {
        let answer = larder_tests::get(larder.addr(), &format!("/{language}.txt"));
        assert_eq!(answer.text(), text, "{language}");
        assert_eq!(answer.get("content-type"), Some("text/plain; charset=utf-8"));
        let answer = larder_tests::get(larder.addr(), &format!("/{language}/head"));
        assert_eq!((answer.status, answer.text()), (404, "missing"), "{language}");
        assert_eq!(answer.get("x-own"), Some("yes"), "{language}");
    }
}

#[test]
fn mistakes_are_named() {
    let scratch = larder_tests::Scratch::new("publish");
    let check = |text: &str| {
        let path = scratch.path().join("larder.toml");
        let common = "[[site]]\norigin = \"http://127.0.0.1:1\"\n[redis]\nlisten = \
                      \"127.0.0.1:0\"\ndatabases = 2\n";
        std::fs::write(&path, format!("{common}[publish]\n{text}\n")).unwrap();
        let (status, _, told) = run(&["check", "--config", path.to_str().unwrap()]);
        (status.success(), told)
    };
    for (text, named) in [
        ("", "prefix"),
        ("prefix = \"\"", "1 to 64 visible"),
        ("prefix = \"a b\"", "1 to 64 visible"),
        ("prefix = \"p:\"", "there is no [memcached]"),
        ("prefix = \"p:\"\nnamespace = \"redis\"\ndatabase = 2", "no database 2"),
        ("prefix = \"p:\"\nnamespace = \"files\"", "namespace"),
        ("prefix = \"p:\"\nnamespace = \"redis\"\nhosts = [\"a b\"]", "hosts"),
    ] {
        let (fine, told) = check(text);
        assert!(!fine && told.contains(named), "{text}: {told}");
    }
    let (fine, told) = check("prefix = \"p:\"\nnamespace = \"redis\"\ndatabase = 1");
    assert!(fine, "{told}");
}
