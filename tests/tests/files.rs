//! Files of this machine as an origin, with the cache before them.

#![allow(clippy::unwrap_used)]

use larder_tests::{Larder, Php, Scratch, get, get_with, wait_until};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

fn site(scratch: &Scratch, lines: &str) -> Larder {
    Larder::site_with_origin(&format!("url = \"files:{}\"\n{lines}", scratch.path().display()))
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
fn a_file_is_stored_and_a_change_is_seen() {
    let scratch = Scratch::new("files");
    scratch.write("a.txt", "first");
    let larder = site(&scratch, "");
    wait_until("a hit", || get(larder.addr(), "/a.txt").is_hit());
    scratch.write("a.txt", "second");
    wait_until("the change", || get(larder.addr(), "/a.txt").text() == "second");
    std::fs::remove_file(scratch.file("a.txt")).unwrap();
    wait_until("the end", || get(larder.addr(), "/a.txt").status == 404);
    // Unchanged, it is validated, and stays.
    scratch.write("b.txt", "same");
    get(larder.addr(), "/b.txt").assert_status(200);
    wait_until("a validation", || get(larder.addr(), "/b.txt").cache_status_has("fwd-status=304"));
    assert_eq!(get(larder.addr(), "/b.txt").text(), "same");
}

#[test]
fn large_files_are_streamed_and_not_stored() {
    let scratch = Scratch::new("files");
    let bytes: Vec<u8> = (0..5_000_000_u32).map(|n| (n % 251) as u8).collect();
    std::fs::write(scratch.file("large"), &bytes).unwrap();
    let larder = site(&scratch, "");
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
    let follows = site(&scratch, "symlinks = \"follow\"\n");
    assert_eq!(get(follows.addr(), "/link").text(), "secret");
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
