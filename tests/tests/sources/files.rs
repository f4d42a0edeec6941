//! Files of this machine as an origin, with the cache before them.

#![allow(clippy::unwrap_used)]

use larder_tests::wire::WireError;
use larder_tests::{Larder, Papers, Php, Scratch, Wire, get, get_with, wait_until};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

/// Lines behind those of an origin: no file is kept open.
const NOT_KEPT: &str = "[http]\nlisten = \"127.0.0.1:0\"\nopen_files = 0\n";

fn site(scratch: &Scratch, lines: &str) -> Larder {
    Larder::site_with_origin(&format!("url = \"files:{}\"\n{lines}", scratch.path().display()))
}

#[test]
fn ranges_are_served_where_markup_is_looked_for() {
    let scratch = Scratch::new("files-esi");
    std::fs::write(scratch.file("video.mp4"), [7; 100_000]).unwrap();
    std::fs::write(scratch.file("page.html"), "a<esi:remove>x</esi:remove>b").unwrap();
    let larder = Larder::with_config(&format!(
        "[http]\nlisten = \"127.0.0.1:0\"\n[[site]]\norigin = \"files:{}\"\nesi = \"always\"\n",
        scratch.path().display()
    ));
    for _ in 0..2 {
        let part = get_with(larder.addr(), "/video.mp4", &["Range: bytes=0-9"]);
        assert_eq!((part.status, part.body.len()), (206, 10));
        assert_eq!(get(larder.addr(), "/page.html").text(), "ab");
    }
}

#[test]
fn a_directory_is_a_site() {
    let scratch = Scratch::new("files");
    std::fs::create_dir(scratch.file("sub")).unwrap();
    scratch.write("index.html", "home");
    scratch.write("sub/index.html", "below");
    scratch.write("data.bin", "0123456789");
    let url = format!("files:{}", scratch.path().display());
    let larder = Larder::serve(&["--http", "127.0.0.1:0", "--origin", &url]);
    let home = get(larder.addr(), "/");
    assert_eq!((home.text(), home.get("content-type")), ("home", Some("text/html")));
    assert!(home.get("surrogate-control").is_none() && home.get("cache-control").is_none());
    let moved = get(larder.addr(), "/sub?a");
    assert_eq!((moved.status, moved.get("location")), (301, Some("/sub/?a")));
    assert_eq!(get(larder.addr(), "/sub/").text(), "below");
    let part = get_with(larder.addr(), "/data.bin", &["Range: bytes=2-4"]);
    assert_eq!((part.status, part.text()), (206, "234"));
    let whole = get(larder.addr(), "/data.bin");
    assert_eq!(whole.text(), "0123456789");
    let tag = format!("If-None-Match: {}", whole.get("etag").unwrap());
    assert_eq!(get_with(larder.addr(), "/data.bin", &[&tag]).status, 304);
    let mut wire = larder.connect();
    assert_eq!(wire.ask("HEAD", "/data.bin", &["Host: a"]).get("content-length"), Some("10"));
    let refused = wire.ask("DELETE", "/data.bin", &["Host: a"]);
    assert_eq!((refused.status, refused.get("allow")), (405, Some("GET, HEAD")));
}

#[test]
fn a_file_is_kept_and_a_change_is_seen() {
    let scratch = Scratch::new("files");
    scratch.write("a.txt", "first");
    let larder = site(&scratch, "");
    wait_until("a hit", || get(larder.addr(), "/a.txt").is_hit());
    scratch.write("new", "second");
    std::fs::rename(scratch.file("new"), scratch.file("a.txt")).unwrap();
    wait_until("the change", || get(larder.addr(), "/a.txt").text() == "second");
    std::fs::remove_file(scratch.file("a.txt")).unwrap();
    wait_until("the end", || get(larder.addr(), "/a.txt").status == 404);
}

/// Where files are not kept open, and where rules change requests or answers.
#[test]
fn a_file_that_is_not_kept_open_is_stored_and_validated() {
    let scratch = Scratch::new("files");
    scratch.write("b.txt", "same");
    let larder = site(&scratch, NOT_KEPT);
    get(larder.addr(), "/b.txt").assert_status(200);
    wait_until("a validation", || get(larder.addr(), "/b.txt").cache_status_has("fwd-status=304"));
    assert_eq!(get(larder.addr(), "/b.txt").text(), "same");
}

#[test]
fn large_files_are_streamed_and_not_stored_where_they_are_not_kept_open() {
    let scratch = Scratch::new("files");
    let bytes: Vec<u8> = (0..5_000_000_u32).map(|n| (n % 251) as u8).collect();
    std::fs::write(scratch.file("large"), &bytes).unwrap();
    let larder = site(&scratch, NOT_KEPT);
    for _ in 0..3 {
        let answer = get(larder.addr(), "/large");
        assert!(answer.body == bytes && !answer.is_hit());
    }
    let part = get_with(larder.addr(), "/large", &["Range: bytes=4999990-"]);
    assert_eq!((part.status, &part.body[..]), (206, &bytes[4_999_990..]));
    let part = get_with(larder.addr(), "/large", &["Range: bytes=10-3000000"]);
    assert!(part.status == 206 && part.body == bytes[10..=3_000_000]);
}

#[test]
fn compressed_forms_are_served_to_those_who_take_them() {
    let scratch = Scratch::new("files");
    scratch.write("a.js", "the long form of it");
    scratch.write("a.js.gz", "gz");
    let larder = site(&scratch, "");
    for _ in 0..2 {
        let gzip = get_with(larder.addr(), "/a.js", &["Accept-Encoding: gzip, br"]);
        assert_eq!((gzip.text(), gzip.get("content-encoding")), ("gz", Some("gzip")));
        assert!(
            gzip.get("content-type").is_some_and(|media_type| media_type.contains("javascript"))
        );
        let plain = get(larder.addr(), "/a.js");
        assert_eq!((plain.text(), plain.get("content-encoding")), ("the long form of it", None));
        assert_ne!(plain.get("etag"), gzip.get("etag"));
    }
}

#[test]
fn what_is_not_served() {
    let scratch = Scratch::new("files");
    let outside = Scratch::new("outside");
    outside.write("secret", "secret");
    std::fs::create_dir(scratch.file("empty")).unwrap();
    scratch.write(".env", "secret");
    scratch.write("plain", "plain");
    symlink(outside.file("secret"), scratch.file("link")).unwrap();
    symlink("plain", scratch.file("inside")).unwrap();
    symlink("../..", scratch.file("up")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(scratch.file("socket")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        scratch.file("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let larder = site(&scratch, "");
    let outside_name = outside.path().file_name().unwrap().to_string_lossy().into_owned();
    for path in [
        "/.env",
        "/empty/",
        "/plain/",
        "//plain",
        "/link",
        "/socket",
        "/pipe",
        "/%2e%2e/plain",
        "/plain%00",
        &format!("/../{outside_name}/secret"),
        &format!("/..%2f{outside_name}%2fsecret"),
        &format!("/up/{outside_name}/secret"),
    ] {
        let answer = get(larder.addr(), path);
        assert!(matches!(answer.status, 400 | 404), "{path}: {answer:?}");
        assert!(!answer.text().contains("secret"), "{path}");
    }
    assert_eq!(get(larder.addr(), "/inside").text(), "plain");
    symlink("/dev/zero", scratch.file("device")).unwrap();
    let follows = site(&scratch, "symlinks = \"follow\"\n");
    assert_eq!(get(follows.addr(), "/link").text(), "secret");
    for path in ["/device", "/pipe", "/socket"] {
        assert_eq!(get(follows.addr(), path).status, 404, "{path}");
    }
}

#[test]
fn names_of_any_bytes_types_and_other_places() {
    let scratch = Scratch::new("files");
    std::fs::write(scratch.path().join(OsStr::from_bytes(b"caf\xe9 \xff.odd")), "odd").unwrap();
    scratch.write("page.html", "a page");
    scratch.write("app.html", "the app");
    let larder = site(
        &scratch,
        "types = [\"odd=text/x-odd; charset=latin1\"]\ntry_files = [\"$uri\", \"$uri.html\", \
         \"/app.html\"]\n",
    );
    let odd = get(larder.addr(), "/caf%E9%20%ff.odd");
    assert_eq!((odd.text(), odd.get("content-type")), ("odd", Some("text/x-odd; charset=latin1")));
    assert_eq!(get(larder.addr(), "/page").text(), "a page");
    assert_eq!(get(larder.addr(), "/any/other").text(), "the app");
}

#[test]
fn a_root_that_is_gone_is_said_and_comes_back() {
    let scratch = Scratch::new("files");
    let larder = site(&scratch, "");
    std::fs::rename(scratch.path(), scratch.path().with_extension("away")).unwrap();
    get(larder.addr(), "/a").assert_status(500);
    wait_until("the reason", || larder.stderr().contains("files of this machine cannot be used"));
    std::fs::rename(scratch.path().with_extension("away"), scratch.path()).unwrap();
    scratch.write("a", "here again");
    wait_until("the file", || get(larder.addr(), "/a").status == 200);
}

/// The files beside PHP's scripts need no other server, and no script is served as a file.
#[test]
fn files_beside_scripts() {
    let files = [
        ("index.php", "<?php echo 'front ', $_SERVER['REQUEST_URI'];"),
        ("style.css", "body {}"),
        ("old.PHP", "<?php secret"),
        ("old.php5", "<?php secret"),
        ("a.phtml", "<?php secret"),
    ];
    let php = Php::start(2, false, &files);
    let lines = "try_files = [\"$uri\", \"$uri/\", \"/index.php\"]\n";
    let larder = Larder::site_with_origin(&format!("{}{lines}", php.origin()));
    let style = get(larder.addr(), "/style.css");
    assert_eq!((style.text(), style.get("content-type")), ("body {}", Some("text/css")));
    wait_until("a hit", || get(larder.addr(), "/style.css").is_hit());
    for path in ["/old.PHP", "/old.php5", "/a.phtml", "/missing.css"] {
        assert_eq!(get(larder.addr(), path).text(), format!("front {path}"));
    }
    let mut wire = larder.connect();
    wire.send("POST /style.css HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    wire.read().assert_status(405);
}

#[test]
fn lifetimes_by_type() {
    let scratch = Scratch::new("files");
    for name in ["a.png", "a.css", "a.txt"] {
        scratch.write(name, name);
    }
    let larder = site(&scratch, "expires = [\"image/* 30d\", \"text/css 1h\"]\n");
    for (target, expected) in
        [("/a.png", Some("max-age=2592000")), ("/a.css", Some("max-age=3600")), ("/a.txt", None)]
    {
        for _ in 0..2 {
            assert_eq!(get(larder.addr(), target).get("cache-control"), expected, "{target}");
        }
    }
    let none = site(&scratch, &format!("expires = \"1m\"\n{NOT_KEPT}"));
    assert_eq!(get(none.addr(), "/a.txt").get("cache-control"), Some("max-age=60"));
}

#[test]
fn directories_are_listed_where_that_is_wanted() {
    let scratch = Scratch::new("files");
    std::fs::create_dir(scratch.file("sub")).unwrap();
    for name in ["<b>&\"'.txt", ".hidden", "a:b", "sub/file"] {
        scratch.write(name, "content");
    }
    std::fs::write(scratch.path().join(OsStr::from_bytes(b"\xff")), "content").unwrap();
    symlink("/etc/passwd", scratch.file("outside")).unwrap();
    let off = site(&scratch, "");
    assert_eq!(get(off.addr(), "/").status, 404);
    let on = site(&scratch, "listing = true\n");
    let list = get(on.addr(), "/");
    assert_eq!((list.status, list.get("content-type")), (200, Some("text/html; charset=utf-8")));
    for part in [
        "<a href=\"./%3Cb%3E%26%22%27.txt\">&lt;b&gt;&amp;&quot;&#39;.txt</a>",
        "<a href=\"./sub/\">sub/</a>",
        "<a href=\"./a%3Ab\">a:b</a>",
        "<a href=\"./%FF\">\u{fffd}</a>",
    ] {
        assert!(list.text().contains(part), "{part}: {}", list.text());
    }
    for part in ["hidden", "outside", "<b>", "../"] {
        assert!(!list.text().contains(part), "{part}: {}", list.text());
    }
    assert_eq!(get(on.addr(), "/%FF").text(), "content");
    assert!(get(on.addr(), "/sub/").text().contains("<a href=\"../\">"));
    assert_eq!(get(on.addr(), "/sub").status, 301);
    let head = on.connect().ask("HEAD", "/", &["Host: a"]);
    assert_eq!((head.status, head.body.len()), (200, 0));
}

/// Paths that lead to nothing, whatever they look like.
#[test]
fn paths_of_all_kinds() {
    let scratch = Scratch::new("files");
    std::fs::create_dir_all(scratch.file("sub/.hidden")).unwrap();
    for name in ["plain", "sub/plain", "sub/.hidden/file", "dots..", "a b", "100%"] {
        scratch.write(name, name);
    }
    let mut before = "plain".to_owned();
    for n in 0..50 {
        symlink(&before, scratch.file(&format!("link{n}"))).unwrap();
        before = format!("link{n}");
    }
    symlink("loop", scratch.file("loop")).unwrap();
    let larder = site(&scratch, "");
    for round in 0..2 {
        for (path, text) in [
            ("/plain", "plain"),
            ("/plain?a=b", "plain"),
            ("/%70lain", "plain"),
            ("/dots..", "dots.."),
            ("/a%20b", "a b"),
            ("/100%25", "100%"),
            ("/link5", "plain"),
        ] {
            assert_eq!(get(larder.addr(), path).text(), text, "{path}, {round}");
        }
        let (long, longer) = ("x".repeat(300), "y/".repeat(3000));
        for path in [
            "//plain",
            "/sub//plain",
            "/sub/../plain",
            "/sub/./plain",
            "/./plain",
            "/plain/",
            "/plain%00",
            "/plain%00.html",
            "/plain.",
            "/plain%2f",
            "/sub%2fplain",
            "/sub/.hidden/file",
            "/%2e%2e/plain",
            "/link49",
            "/loop",
            "/sub/",
            "/dots...",
            &format!("/{long}"),
            &format!("/{longer}"),
        ] {
            let answer = get(larder.addr(), path);
            assert!(matches!(answer.status, 400 | 404), "{path}, {round}: {answer:?}");
        }
    }
}

/// As root every file can be read.
#[test]
fn a_file_that_may_not_be_read_is_403() {
    let scratch = Scratch::new("files");
    scratch.write("file", "secret");
    scratch.write("file.gz", "s");
    std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let larder = site(&scratch, "");
    assert_eq!(get(larder.addr(), "/file").text(), "secret");
    std::fs::set_permissions(scratch.file("file"), std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::read(scratch.file("file")).is_ok() {
        return;
    }
    wait_until("the permission", || get(larder.addr(), "/file").status == 403);
}

#[test]
fn the_root_may_be_a_link_that_is_changed() {
    let scratch = Scratch::new("files");
    for release in ["one", "two"] {
        std::fs::create_dir(scratch.file(release)).unwrap();
        scratch.write(&format!("{release}/file"), release);
    }
    symlink("one", scratch.file("current")).unwrap();
    let larder = Larder::site_with_origin(&format!(
        "url = \"files:{}\"\ncheck = \"1d\"\n",
        scratch.file("current").display()
    ));
    assert_eq!(get(larder.addr(), "/file").text(), "one");
    symlink("two", scratch.file("next")).unwrap();
    std::fs::rename(scratch.file("next"), scratch.file("current")).unwrap();
    wait_until("the other release", || get(larder.addr(), "/file").text() == "two");
}

#[test]
fn a_file_that_is_cut_while_it_is_sent_ends_the_connection() {
    let scratch = Scratch::new("files");
    let papers = Papers::issue();
    let (cert, key) = (papers.path("server.pem"), papers.path("server.key"));
    let larder = Larder::with_config(&format!(
        "threads = 1\n[http]\nlisten = \"127.0.0.1:0\"\n[https]\nlisten = \
         \"127.0.0.1:0\"\ncertificates = [{{ cert = \"{cert}\", key = \"{key}\" \
         }}]\n[[site]]\norigin = \"files:{}\"\n",
        scratch.path().display()
    ));
    for tls in [false, true] {
        let file = std::fs::File::create(scratch.file("large")).unwrap();
        file.set_len(50_000_000).unwrap();
        wait_until("the file", || {
            larder.connect().ask("HEAD", "/large", &["Host: a"]).get("content-length")
                == Some("50000000")
        });
        let mut wire = if tls {
            Wire::connect_tls(larder.face("https"), &papers.client(), "127.0.0.1")
        } else {
            Wire::connect_narrow(larder.addr())
        };
        wire.send_get("/large", &["Host: a"]);
        wire.read_head();
        wire.read_bytes(100_000);
        file.set_len(1000).unwrap();
        let rest = wire.try_read_bytes(50_000_000 - 100_000);
        assert!(matches!(rest, Err(WireError::Truncated(_))), "{:?}", rest.map(|all| all.len()));
        wait_until("the shorter file", || {
            let mut wire = larder.connect();
            let answer = wire.send_get("/large", &["Host: a"]).try_read_for("GET");
            answer.is_ok_and(|answer| answer.body == vec![0; 1000])
        });
    }
}

/// A file that has no compressed form beside it gets one as a page does.
#[test]
fn files_are_compressed_where_pages_are() {
    let scratch = Scratch::new("files");
    let text = "all work and no play\n".repeat(500);
    scratch.write("a.txt", &text);
    let larder = Larder::with_config(&format!(
        "threads = 1\n[[site]]\ncompress = [\"gzip\"]\norigin = \"files:{}\"\n",
        scratch.path().display()
    ));
    let ask = || get_with(larder.addr(), "/a.txt", &["Accept-Encoding: gzip"]);
    wait_until("the form", || ask().get("content-encoding") == Some("gzip"));
    assert!(ask().body.len() < text.len() / 2);
    assert_eq!(get(larder.addr(), "/a.txt").text(), text);
}
