//! `larder mount` of a site that a Larder serves: pages as files.

#![allow(clippy::unwrap_used)]

use larder_tests::mount::{Mount, possible};
use larder_tests::{Larder, Origin, Scratch, wait_until};
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::Mutex;

fn bytes(length: usize, from: usize) -> Vec<u8> {
    (from..from + length).map(|at| (at * 31 % 251) as u8).collect()
}

fn url(larder: &Larder, path: &str) -> String {
    format!("http://{}{path}", larder.addr())
}

#[test]
fn pages_are_read_as_files_through_the_cache() {
    if !possible() {
        return;
    }
    let files = Scratch::new("site");
    fs::create_dir_all(files.file("docs/deep")).unwrap();
    fs::write(files.file("large.bin"), bytes(3_000_001, 0)).unwrap();
    files.write("docs/deep/page.txt", "a page\n");
    files.write("docs/index.html", "the index\n");
    files.write("docs/a b?c%d.txt", "a name to encode\n");
    files.write("empty.txt", "");
    let origin = Larder::before(&format!("files:{}", files.path().display()));
    let larder = Larder::serve(&[
        "--http",
        "127.0.0.1:0",
        "--threads",
        "2",
        "--ttl",
        "1h",
        "--origin",
        &url(&origin, ""),
    ]);
    let mount = Mount::of(&url(&larder, "/"), &["-o", "lifetime=1h"]);
    let read = |name: &str| fs::read(mount.file(name));
    assert_eq!(read("large.bin").unwrap(), bytes(3_000_001, 0));
    assert_eq!(read("docs/deep/page.txt").unwrap(), b"a page\n");
    assert_eq!(read("docs/index.html").unwrap(), b"the index\n");
    assert_eq!(read("docs/a b?c%d.txt").unwrap(), b"a name to encode\n");
    assert_eq!(read("empty.txt").unwrap(), b"");
    assert_eq!(fs::metadata(mount.file("large.bin")).unwrap().len(), 3_000_001);
    assert!(mount.file("docs/deep").is_dir());
    for absent in ["nothing", "docs/nothing.txt", "docs/..%2fx"] {
        assert_eq!(read(absent).unwrap_err().kind(), ErrorKind::NotFound, "{absent}");
    }
    let mut names: Vec<_> = fs::read_dir(mount.file("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["a b?c%d.txt", "deep", "index.html"]);
    let wrote = fs::write(mount.file("docs/new"), "x").unwrap_err();
    assert_eq!(wrote.kind(), ErrorKind::ReadOnlyFilesystem);
    // The kernel and the cache have it: the origin is not needed.
    drop(origin);
    assert_eq!(read("large.bin").unwrap(), bytes(3_000_001, 0));
    let (wanted, found) = (files.file("large.bin"), mount.file("large.bin"));
    assert!(Command::new("cmp").arg(wanted).arg(found).status().unwrap().success());
    let below = Mount::of(&url(&larder, "/docs/deep"), &[]);
    assert_eq!(fs::read(below.file("page.txt")).unwrap(), b"a page\n");
}

#[test]
fn a_file_is_one_version_of_a_page() {
    if !possible() {
        return;
    }
    static PAGE: Mutex<(usize, &str)> = Mutex::new((0, "\"one\""));
    let origin = Origin::start(|seen, reply| {
        let (from, tag) = *PAGE.lock().unwrap();
        let etag = format!("ETag: {tag}");
        let body = bytes(1_000_000, from);
        if seen.method == "HEAD" {
            let length = format!("Content-Length: {}", body.len());
            reply.head(200, &[&etag, &length, "Cache-Control: no-store"]);
        } else if let Some(range) = seen.fields.get("range") {
            let range = range.strip_prefix("bytes=").unwrap();
            let (first, last) = range.split_once('-').unwrap();
            let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
            let content = format!("Content-Range: bytes {first}-{last}/{}", body.len());
            let fields = [&*etag, &content, "Cache-Control: no-store"];
            reply.answer(206, &fields, &body[first..=last]);
        } else {
            reply.ok(&[&etag, "Cache-Control: no-store"], &body);
        }
    });
    // Without a Larder between, so that each version is the origin's at that moment.
    let mount = Mount::of(&format!("{}/", origin.url()), &["-o", "lifetime=10ms"]);
    let name = mount.file("page");
    let mut first = [0; 1000];
    let old = File::open(&name).unwrap();
    old.read_exact_at(&mut first, 0).unwrap();
    assert_eq!(&first[..], bytes(1000, 0));
    *PAGE.lock().unwrap() = (7, "\"two\"");
    wait_until("the new version", || fs::read(&name).is_ok_and(|read| read == bytes(1_000_000, 7)));
    // The pages of the old one in the kernel stay; the rest is not taken from the new one.
    old.read_exact_at(&mut first, 0).unwrap();
    assert_eq!(&first[..], bytes(1000, 0));
    let rest = old.read_exact_at(&mut first, 900_000).unwrap_err();
    assert_eq!(rest.raw_os_error(), Some(116), "ESTALE: {rest}");
}

#[test]
fn pages_of_unknown_length_and_failures() {
    if !possible() {
        return;
    }
    let origin = Origin::start(|seen, reply| match (seen.path(), seen.method == "HEAD") {
        ("/streamed", true) => {
            reply.chunked(200, &[]);
        }
        ("/streamed", false) => {
            reply.chunked(200, &[]).chunk(bytes(100_000, 0)).chunk(bytes(50_000, 100_000)).end();
        }
        ("/plain", true) => {
            reply.head(200, &["ETag: \"p\"", "Content-Length: 70000"]);
        }
        // It gives no ranges.
        ("/plain", false) => {
            reply.ok(&["ETag: \"p\""], bytes(70_000, 0));
        }
        ("/noheads", true) => {
            reply.answer(405, &["Allow: GET"], "");
        }
        ("/noheads", false) => {
            reply.ok(&["ETag: \"n\""], "no heads");
        }
        ("/secret", _) => {
            reply.answer(403, &[], "");
        }
        ("/moved", _) => {
            reply.answer(301, &["Location: /noheads"], "");
        }
        ("/away.txt", _) => {
            reply.answer(302, &["Location: http://127.0.0.2/noheads"], "");
        }
        ("/wiki", _) => {
            reply.answer(302, &["Location: /wiki/Main"], "");
        }
        ("/wiki/Main", true) => {
            reply.head(200, &["ETag: \"w\"", "Content-Length: 4"]);
        }
        ("/wiki/Main", false) => {
            reply.ok(&["ETag: \"w\""], "main");
        }
        ("/failing", _) => {
            reply.answer(500, &[], "");
        }
        ("/lies", true) => {
            reply.head(200, &["ETag: \"l\"", "Content-Length: 5000"]);
        }
        ("/lies", false) => {
            reply.answer(206, &["ETag: \"l\"", "Content-Range: bytes 0-4999/5000"], "short");
        }
        _ => {
            reply.answer(404, &[], "");
        }
    });
    let mut mount = Mount::of(&format!("{}/", origin.url()), &["-o", "dirs"]);
    let read = |name: &str| fs::read(mount.file(name));
    let mut streamed = File::open(mount.file("streamed")).unwrap();
    let mut whole = Vec::new();
    streamed.read_to_end(&mut whole).unwrap();
    assert_eq!(whole, bytes(150_000, 0));
    assert_eq!(read("plain").unwrap(), bytes(70_000, 0));
    assert_eq!(read("noheads").unwrap(), b"no heads");
    assert_eq!(read("moved").unwrap(), b"no heads");
    assert_eq!(read("wiki/Main").unwrap(), b"main");
    assert_eq!(read("secret").unwrap_err().kind(), ErrorKind::PermissionDenied);
    assert_eq!(read("away.txt").unwrap_err().kind(), ErrorKind::NotFound);
    for name in ["failing", "lies"] {
        assert_eq!(read(name).unwrap_err().raw_os_error(), Some(5), "{name}: EIO");
    }
    assert!(mount.file("unknown").is_dir(), "`dirs`");
    drop(streamed);
    drop(origin);
    assert_eq!(read("unknown/x.txt").unwrap_err().raw_os_error(), Some(5), "EIO");
    mount.signal(Signal::TERM);
    assert_eq!(mount.ended().code(), Some(0), "{}", mount.stderr());
}

#[test]
fn urls_that_cannot_be_mounted_are_refused() {
    let target = Scratch::new("target");
    for url in ["https://", "http://", "ftp://x/", "http://a/?q"] {
        let words = ["mount", url, &target.path().to_string_lossy()];
        let (status, _, said) = larder_tests::larder::run(&words);
        assert_eq!(status.code(), Some(2), "{url}: {said}");
        assert!(said.contains("expected http://"), "{url}: {said}");
    }
}
