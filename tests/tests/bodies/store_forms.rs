//! Sites that keep pages in one coding alone (`store_forms = "one"`): every client gets the same
//! content, whatever it takes.

// A helper that fails ends its test.
#![allow(clippy::unwrap_used)]

use std::io::Read as _;

use larder_tests::{
    Admin, Answer, H2, Larder, Origin, get_with, larder::run, scratch::Scratch, wait::wait_for,
    wait_until,
};

const SITE: &str = "compress = [\"zstd\", \"br\", \"gzip\"]\nstore_forms = \"one\"\n\
                    purge = { from = [\"127.0.0.1\"] }";
const TAG: &str = "ETag: \"one\"";

/// A page of so many lines that compresses well, and tells the target.
fn page(target: &str, lines: usize) -> String {
    (0..lines)
        .map(|n| format!("<p>{target}: line {n} of a page with many words in it</p>\n"))
        .collect()
}

/// Short pages are decoded at once, long ones beside the worker.
const SIZES: [(&str, usize); 2] = [("/short", 800), ("/long", 12_000)];

fn content(target: &str) -> String {
    let lines = SIZES.iter().find(|(path, _)| *path == target).map_or(800, |(_, lines)| *lines);
    page(target, lines)
}

fn site() -> (Origin, Larder, Admin) {
    let origin = Origin::start(|seen, reply| {
        let fields = ["Cache-Control: max-age=60", "Content-Type: text/html", TAG];
        match seen.get("if-none-match") {
            Some("\"one\"") => drop(reply.answer(304, &fields, "")),
            _ => drop(reply.ok(&fields, content(&seen.target))),
        }
    });
    let larder = Larder::with_config(&format!(
        "[http]\nlisten = \"127.0.0.1:0\"\nh2c = true\n[admin]\nlisten = \"127.0.0.1:0\"\n\
         [[site]]\norigin = \"{}\"\n{SITE}\n",
        origin.url()
    ));
    let admin = Admin::of(&larder);
    (origin, larder, admin)
}

/// The coding in which a page is kept, once it is.
fn packed(larder: &Larder, admin: &Admin, target: &str) -> String {
    get_with(larder.addr(), target, &[]);
    wait_for(&format!("{target} is packed"), || {
        let url = format!("/api/v1/object?url=http://site.test{target}");
        let object = admin.json(&url);
        let coding = object["variants"][0]["encoding"].as_str().unwrap().to_owned();
        (coding != "identity").then_some(coding)
    })
}

fn decoded(answer: &Answer) -> Vec<u8> {
    let body = &answer.body[..];
    let mut out = Vec::new();
    match answer.get("content-encoding") {
        None => out.extend_from_slice(body),
        Some("gzip") => drop(flate2::read::GzDecoder::new(body).read_to_end(&mut out).unwrap()),
        Some("br") => drop(brotli::Decompressor::new(body, 4096).read_to_end(&mut out).unwrap()),
        Some("zstd") => out = zstd::stream::decode_all(body).unwrap(),
        Some(other) => panic!("{other}"),
    }
    out
}

#[test]
fn each_client_gets_a_coding_that_it_takes() {
    let (origin, larder, admin) = site();
    for (target, _) in SIZES {
        let stored = packed(&larder, &admin, target);
        for (accept, coding) in [
            ("gzip, deflate, br, zstd", Some(stored.as_str())),
            (stored.as_str(), Some(stored.as_str())),
            ("gzip", Some("gzip")),
            ("br", Some("br")),
            ("zstd", Some("zstd")),
            ("x-gzip;q=0.5", Some("gzip")),
            ("identity", None),
            ("deflate", None),
            ("*;q=0", None),
            ("", None),
        ] {
            let accept = format!("Accept-Encoding: {accept}");
            let answer = get_with(larder.addr(), target, &[&accept]);
            assert_eq!(answer.get("content-encoding"), coding, "{target}, {accept}");
            assert!(decoded(&answer) == content(target).as_bytes(), "{target}, {accept}");
            assert_eq!(answer.get("vary"), Some("Accept-Encoding"));
            let tag = coding.map_or("\"one\"".to_owned(), |coding| format!("\"one-{coding}\""));
            assert_eq!(answer.get("etag"), Some(tag.as_str()), "{target}, {accept}");
            assert_eq!(
                answer.get("content-length"),
                Some(answer.body.len().to_string().as_str()),
                "{target}, {accept}"
            );
            answer.assert_hit();
            let head = larder.connect().ask("HEAD", target, &["Host: site.test", &accept]);
            for name in ["content-encoding", "content-length", "etag", "vary"] {
                assert_eq!(head.get(name), answer.get(name), "{name} of {target}, {accept}");
            }
            let condition = format!("If-None-Match: {tag}");
            let same = get_with(larder.addr(), target, &[&accept, &condition]);
            assert_eq!((same.status, same.get("etag")), (304, Some(tag.as_str())));
        }
    }
    assert_eq!(origin.count(), 2);
    // Nothing is kept beside the two pages.
    let metric = admin.metric("larder_store_items{namespace=\"compressed\"}");
    assert_eq!(metric, 0);
}

#[test]
fn ranges_are_of_the_content() {
    let (_origin, larder, admin) = site();
    for (target, _) in SIZES {
        packed(&larder, &admin, target);
        let whole = content(target).into_bytes();
        let total = whole.len();
        let ask = |fields: &[&str]| {
            let mut all = vec!["Accept-Encoding: gzip, br, zstd"];
            all.extend_from_slice(fields);
            get_with(larder.addr(), target, &all)
        };
        for (range, from, to) in [("5-104", 5, 105), ("-7", total - 7, total), ("9-", 9, total)] {
            let part = ask(&[&format!("Range: bytes={range}")]);
            assert_eq!((part.status, part.get("content-encoding")), (206, None));
            assert!(part.body == whole[from..to], "{target}, {range}");
            let place = format!("bytes {from}-{}/{total}", to - 1);
            assert_eq!(part.get("content-range"), Some(place.as_str()));
            assert!(part.is_hit(), "{part:?}");
        }
        let several = ask(&["Range: bytes=0-3,100-103"]);
        assert_eq!(several.status, 206);
        assert!(several.text().contains(std::str::from_utf8(&whole[100..104]).unwrap()));
        assert_eq!(ask(&[&format!("Range: bytes={total}-")]).status, 416);
        let other = ask(&["Range: bytes=5-104", "If-Range: \"one-br\""]);
        assert!((other.status, decoded(&other)) == (200, whole));
    }
}

#[test]
fn a_page_stays_packed_when_it_is_confirmed() {
    let (origin, larder, admin) = site();
    let stored = packed(&larder, &admin, "/short");
    let reload = get_with(larder.addr(), "/short", &["Cache-Control: no-cache"]);
    assert!(decoded(&reload) == content("/short").as_bytes());
    assert_eq!(origin.count(), 2);
    assert_eq!(origin.last().get("if-none-match"), Some("\"one\""));
    assert_eq!(packed(&larder, &admin, "/short"), stored);
    let accept = format!("Accept-Encoding: {stored}");
    let answer = get_with(larder.addr(), "/short", &[&accept]);
    assert!(decoded(answer.assert_hit()) == content("/short").as_bytes());
    assert_eq!(admin.json("/api/v1/stats")["compression"]["made"], 1);
    // A HEAD to the origin has the length of the content.
    assert_eq!(larder.connect().ask("PURGE", "/short", &["Host: site.test"]).status, 200);
    get_with(larder.addr(), "/short", &[]).assert_forwarded();
    assert_eq!(origin.count(), 3);
}

#[test]
fn http_2_gets_the_same() {
    let (_origin, larder, admin) = site();
    let mut client = H2::connect(larder.addr());
    client.ask_for("site.test");
    for (target, _) in SIZES {
        packed(&larder, &admin, target);
        for accept in ["gzip", "zstd", "br", "identity"] {
            let answer = client.ask("GET", target, &[("accept-encoding", accept)]);
            assert!(decoded(answer.assert_hit()) == content(target).as_bytes(), "{accept}");
        }
    }
}

/// A page whose content does not compress stays, and is not compressed again and again.
#[test]
fn what_does_not_compress_stays() {
    let mut state = 1_u64;
    let noise: String = (0..8192)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(33 + ((state >> 33) % 90) as u8)
        })
        .collect();
    let origin = Origin::start({
        let noise = noise.clone();
        move |_, reply| {
            // Four bytes in five carry all that they can.
            reply.ok(&["Cache-Control: max-age=60", "Content-Type: text/html"], &noise);
        }
    });
    let larder = Larder::with_config(&format!(
        "[http]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[[site]]\n\
         origin = \"{}\"\ncompress = [\"gzip\"]\nstore_forms = \"one\"\n",
        origin.url()
    ));
    let admin = Admin::of(&larder);
    let useless = || admin.json("/api/v1/stats")["compression"]["useless"].as_u64().unwrap();
    let made = || admin.json("/api/v1/stats")["compression"]["made"].as_u64().unwrap();
    get_with(larder.addr(), "/", &["Accept-Encoding: gzip"]);
    wait_until("it was tried", || useless() + made() == 1);
    for _ in 0..5 {
        let answer = get_with(larder.addr(), "/", &["Accept-Encoding: gzip"]);
        assert!(decoded(answer.assert_hit()) == noise.as_bytes());
    }
    assert_eq!(useless() + made(), 1);
}

#[test]
fn an_unknown_word_is_a_mistake() {
    let scratch = Scratch::new("store-forms");
    let text = "[[site]]\norigin = \"http://127.0.0.1:9\"\nstore_forms = \"some\"\n";
    let file = scratch.write("larder.toml", text);
    let (status, out, err) = run(&["check", "--config", file.to_str().unwrap()]);
    assert!(!status.success() && format!("{out}{err}").contains("store_forms"), "{out}{err}");
}
