//! The examples of contrib/examples/static, django and fleet as they are, with the ports of the
//! test.

#![allow(clippy::unwrap_used)]

use larder_tests::fleet::{counted, wait_counted};
use larder_tests::helper::{free_port, source_root};
use larder_tests::{Larder, Memcached, Origin, Scratch, Started, Wire, get, get_with, wait_until};
use std::process::Command;

/// A file of an example, with each text replaced by that of the test; all must occur.
#[track_caller]
fn example(file: &str, replaced: &[(&str, &str)]) -> String {
    let path = source_root().join("contrib/examples").join(file);
    let mut text = std::fs::read_to_string(path).unwrap();
    for (from, to) in replaced {
        assert!(text.contains(from), "{file} has no {from}");
        text = text.replace(from, to);
    }
    text
}

#[test]
fn a_static_site() {
    let site = Scratch::new("static");
    let write = |name: &str, text: &str| {
        let path = site.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    for (name, text) in [
        ("index.html", "<h1>home</h1>"),
        ("about.html", "<h1>about</h1>"),
        ("news/index.html", "<h1>news</h1>"),
        ("style.css", "h1 { color: teal }"),
        ("assets/app.1f2e.js", "1"),
        (".env", "secret"),
    ] {
        write(name, text);
    }
    let root = site.path().to_str().unwrap();
    let larder = Larder::with_config(&example(
        "static/larder.toml",
        &[("127.0.0.1:8080", "127.0.0.1:0"), ("/srv/www", root), ("256MiB", "64MiB")],
    ));
    let at = larder.addr();
    let host = ["Host: www.example.org"];
    let ask = |path: &str| Wire::connect(at).ask("GET", path, &host);
    for (path, text) in
        [("/", "home"), ("/about", "about"), ("/about.html", "about"), ("/news/", "news")]
    {
        assert_eq!(ask(path).assert_status(200).text(), format!("<h1>{text}</h1>"), "{path}");
    }
    assert_eq!(ask("/style.css").get("cache-control"), Some("max-age=86400"));
    let hashed = ask("/assets/app.1f2e.js");
    assert_eq!(hashed.get("cache-control"), Some("max-age=31536000"));
    for path in ["/none", "/.env", "/assets/"] {
        let absent = ask(path);
        assert_eq!((absent.status, absent.get("cache-control")), (404, None), "{path}");
    }
    // A change is seen at once.
    ask("/about").assert_status(200);
    write("about.html", "<h1>about us</h1>");
    wait_until("the change", || ask("/about").text() == "<h1>about us</h1>");
}

#[test]
fn django_behind_larder_that_is_its_cache() {
    let port = free_port();
    let origin = format!("http://127.0.0.1:{port}");
    let larder = Larder::with_config(&example(
        "django/larder.toml",
        &[
            ("127.0.0.1:8080", "127.0.0.1:0"),
            ("127.0.0.1:6379", "127.0.0.1:0"),
            ("http://127.0.0.1:8000", &origin),
            ("512MiB", "128MiB"),
        ],
    ));
    let _django = Started::start_at(port, |_, port| {
        let mut command = Command::new("/usr/bin/python3");
        command
            .arg(source_root().join("contrib/examples/django/site.py"))
            .arg(port.to_string())
            .env("PYTHONPATH", source_root().join("tests/.cache/python"))
            .env("REDIS", larder.face("redis").to_string())
            .env("LARDER", larder.addr().to_string());
        (command, None)
    });
    let at = larder.addr();
    assert_eq!(get(at, "/").assert_status(200).text(), "nothing new, for everybody");
    let hit = get_with(at, "/", &["Cookie: _ga=1"]);
    assert_eq!(hit.assert_hit().text(), "nothing new, for everybody");
    // A change purges the page, and is seen at once.
    assert_eq!(get(at, "/publish?text=snow").text(), "purged: 200");
    assert_eq!(get(at, "/").assert_forwarded().text(), "snow, for everybody");
    get(at, "/").assert_hit();
    // A visitor with a session has pages of his own; nobody else sees them.
    let welcome = get(at, "/login?name=Ada");
    let cookie = welcome.get("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    for _ in 0..2 {
        let own = get_with(at, "/", &[&format!("Cookie: {cookie}")]);
        assert_eq!(own.assert_forwarded().text(), "snow, for Ada");
        assert_eq!(get(at, "/").assert_hit().text(), "snow, for everybody");
    }
}

#[test]
fn two_larders_share_their_pages() {
    let servers = [Memcached::debian(&[]), Memcached::debian(&[])];
    let [first, second] = servers.each_ref().map(|server| server.server());
    let origin = Origin::serving(&["Cache-Control: max-age=600"], "page");
    let larder = |file: &str, http: &str, admin: &str| {
        Larder::with_config(&example(
            file,
            &[
                (http, "127.0.0.1:0"),
                (admin, "127.0.0.1:0"),
                ("127.0.0.1:11211", &first),
                ("127.0.0.1:11212", &second),
                ("http://127.0.0.1:9000", &origin.url()),
                ("1GiB", "64MiB"),
            ],
        ))
    };
    let one = larder("fleet/one.toml", "127.0.0.1:8080", "127.0.0.1:8081");
    let two = larder("fleet/two.toml", "127.0.0.1:8090", "127.0.0.1:8091");
    let before = counted(&one, "stores");
    assert_eq!(get(one.addr(), "/").text(), "page");
    wait_counted(&one, "stores", before + 1);
    let shared = get(two.addr(), "/");
    assert!(shared.cache_status_has("detail=remote"), "{shared:?}");
    assert_eq!((shared.text(), origin.count()), ("page", 1));
    // A purge at one is one at both.
    assert!(one.connect().ask("PURGE", "/", &["Host: site.test"]).status == 200);
    wait_until("the page to be gone", || {
        get(two.addr(), "/");
        origin.count() == 2
    });
}
