//! Pages that lighttpd's mod_mcpage left in a memcached, imported into a Larder.

#![allow(clippy::unwrap_used)]

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};
use larder_tests::{Larder, Memcached, Origin, Scratch, get, helper::source_root};
use std::io::Write as _;
use std::process::Command;

/// An item as the module writes it.
fn item(kind: &str, coding: Option<&str>, fields: [Option<&str>; 2], body: &[u8]) -> Vec<u8> {
    // A byte that the module never writes, and the mark of an answer in chunks.
    let mut out = [kind.as_bytes(), b"\0\xa5\x01"].concat();
    for text in [coding].into_iter().chain(fields) {
        match text {
            Some(text) => out.extend([b"\x01", text.as_bytes(), b"\0"].concat()),
            None => out.push(0),
        }
    }
    out.extend(body);
    out
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn set(memcached: &Memcached, key: &[u8], seconds: u32, value: &[u8]) {
    let mut talk = memcached.connect();
    let key = STANDARD.encode(key);
    let command = format!("ms {key} {} b T{seconds}\r\n", value.len());
    talk.expect([command.as_bytes(), value, b"\r\n"].concat(), "HD\r\n");
}

#[test]
fn pages_of_mod_mcpage_are_imported() {
    let memcached = Memcached::debian(&[]);
    let page = "<p>one of many words</p>".repeat(400);
    let dates = [Some("Thu, 01 Jan 2099 00:00:00 GMT"), Some("max-age=77")];
    let html = "text/html; charset=utf-8";
    set(&memcached, b"ns.pre./plain?a=b", 0, &item(html, None, dates, page.as_bytes()));
    set(&memcached, b"ns.pre./packed", 90, &gzip(&item(html, None, [None; 2], page.as_bytes())));
    let coded = item("text/css", Some("gzip"), [None; 2], &gzip(b"a { }"));
    set(&memcached, b"ns.pre./coded.css", 0, &coded);
    set(&memcached, b"ns.pre./foreign", 0, b"something else");
    set(&memcached, b"ns.pre./cut", 0, &gzip(&coded)[..30]);
    set(&memcached, b"other./page", 0, &coded);
    // The MD5 of `/hashed`, and the line feed that the module puts behind it.
    let digest = Command::new("sh").args(["-c", "printf /hashed | md5sum"]).output().unwrap();
    let hashed = [b"ns.pre.", &digest.stdout[..32], b"\n"].concat();
    set(&memcached, &hashed, 0, &item("text/plain", None, [None; 2], b"by its hash"));

    let origin = Origin::serving(&[], "the origin's");
    let larder = Larder::with_config(&format!(
        "[publish]\nprefix = \"page:\"\n[http]\nlisten = \"127.0.0.1:0\"\n[memcached]\nlisten = \
         \"127.0.0.1:0\"\n[[site]]\norigin = \"{}\"\n",
        origin.url()
    ));
    let uris = Scratch::new("uris");
    uris.write("uris", "/never\n/hashed\n");
    let import = |more: &[&str]| {
        let mut command = Command::new("/usr/bin/python3");
        command.arg(source_root().join("contrib/mcpage/import.py"));
        command.args(["--from", &memcached.server(), "--namespace", "ns.", "--keyprefix", "pre."]);
        command.args(["--host", "site.test", "--to", &larder.face("memcached").to_string()]);
        let output = command.args(more).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        (String::from_utf8(output.stdout).unwrap(), said)
    };
    let (told, refused) = import(&[]);
    assert_eq!(told, "3 pages taken, 2 refused\n", "{refused}");
    assert!(refused.contains("/foreign: not an item of mod_mcpage"), "{refused}");
    assert!(refused.contains("/cut: "), "{refused}");
    let (told, _) = import(&["--md5", &uris.file("uris").to_string_lossy()]);
    assert_eq!(told, "1 pages taken, 0 refused\n");

    let plain = get(larder.addr(), "/plain?a=b");
    assert_eq!((plain.text(), plain.get("content-type")), (&*page, Some(html)));
    assert_eq!(plain.get("expires"), dates[0]);
    assert!(plain.fields.joined("cache-control").contains("max-age=77"), "{plain:?}");
    assert_eq!(get(larder.addr(), "/packed").text(), page);
    let coded = get(larder.addr(), "/coded.css");
    assert_eq!((coded.text(), coded.get("content-encoding")), ("a { }", None));
    assert_eq!(get(larder.addr(), "/hashed").text(), "by its hash");
    assert_eq!(origin.count(), 0);
    for absent in ["/foreign", "/cut", "/page", "/plain"] {
        assert_eq!(get(larder.addr(), absent).text(), "the origin's", "{absent}");
    }
}
