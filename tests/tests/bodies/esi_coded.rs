//! Pages that are put together of parts (ESI), for clients that take a content coding.

// A helper that fails ends its test.
#![allow(clippy::unwrap_used)]

use std::io::Read as _;

use larder_tests::{Answer, Gate, H2, Larder, Origin, Reply, get_with};

const ESI: &str = "Surrogate-Control: content=\"ESI/1.0\"";
const FRESH: &str = "Cache-Control: max-age=60";
const HTML: &str = "Content-Type: text/html";
const SITE: &str = "compress = [\"zstd\", \"br\", \"gzip\"]\npurge = { from = [\"127.0.0.1\"] }";
const CODINGS: [&str; 3] = ["zstd", "br", "gzip"];

fn text(name: &str) -> String {
    format!("some text of {name}, ").repeat(500)
}

fn page(reply: &mut Reply, fields: &[&str]) {
    let body = format!("{}<esi:include src=\"/part\"/>{}", text("begin"), text("end"));
    let all: Vec<&str> = [ESI, HTML, "ETag: \"page\""].iter().chain(fields).copied().collect();
    reply.ok(&all, body);
}

fn whole(part: &str) -> String {
    format!("{}{}{}", text("begin"), text(part), text("end"))
}

fn decoded(answer: &Answer) -> String {
    let body = &answer.body[..];
    let mut out = Vec::new();
    match answer.get("content-encoding") {
        None => out.extend_from_slice(body),
        Some("gzip") => drop(flate2::read::GzDecoder::new(body).read_to_end(&mut out).unwrap()),
        Some("br") => drop(brotli::Decompressor::new(body, 4096).read_to_end(&mut out).unwrap()),
        Some("zstd") => out = zstd::stream::decode_all(body).unwrap(),
        Some(other) => panic!("{other}"),
    }
    String::from_utf8(out).unwrap()
}

fn accepting(larder: &Larder, target: &str, accept: &str) -> Answer {
    get_with(larder.addr(), target, &[&format!("Accept-Encoding: {accept}")])
}

fn public() -> Origin {
    Origin::start(|seen, reply| match seen.path() {
        "/part" => drop(reply.ok(&[FRESH, HTML], text("part"))),
        "/plain" => page(reply, &["Cache-Control: max-age=60, no-transform"]),
        _ => page(reply, &[FRESH]),
    })
}

#[test]
fn parts_are_compressed_as_they_come_and_kept_as_one() {
    let origin = public();
    let larder = Larder::site(&origin.url(), SITE);
    for coding in CODINGS {
        let target = format!("/{coding}");
        larder.connect().ask("PURGE", "/part", &["Host: site.test"]);
        let first = accepting(&larder, &target, coding);
        assert_eq!(first.get("content-encoding"), Some(coding));
        assert_eq!((first.get("vary"), first.get("etag")), (Some("Accept-Encoding"), None));
        assert!(decoded(&first) == whole("part"), "{coding}");
        assert!(first.body.len() * 10 < whole("part").len(), "{coding}: {}", first.body.len());
        // All of it is in memory: made once, then a hit with a length.
        let tags: Vec<String> = (0..3)
            .map(|_| {
                let answer = accepting(&larder, &target, coding);
                assert_eq!(answer.assert_hit().get("content-encoding"), Some(coding));
                assert!(decoded(&answer) == whole("part"), "{coding}");
                let length = answer.body.len().to_string();
                assert_eq!(answer.get("content-length"), Some(length.as_str()));
                assert_eq!(answer.get("vary"), Some("Accept-Encoding"));
                answer.get("etag").unwrap().to_owned()
            })
            .collect();
        assert!(tags[0].ends_with(&format!("-{coding}\"")) && tags[1..] == tags[..2], "{tags:?}");
        let condition = format!("If-None-Match: {}", tags[0]);
        let fields = [format!("Accept-Encoding: {coding}"), condition];
        let same = get_with(larder.addr(), &target, &[&fields[0], &fields[1]]);
        assert_eq!((same.status, same.get("etag")), (304, Some(tags[0].as_str())));
        let head = larder.connect().ask("HEAD", &target, &["Host: site.test", &fields[0]]);
        let hit = accepting(&larder, &target, coding);
        for name in ["content-encoding", "content-length", "etag", "vary"] {
            assert_eq!(head.get(name), hit.get(name), "{name}");
        }
        // Another client has another representation.
        let plain = accepting(&larder, &target, "identity");
        assert_eq!(
            (plain.get("content-encoding"), plain.get("vary")),
            (None, Some("Accept-Encoding"))
        );
        assert!(plain.assert_hit().text() == whole("part"));
        assert_ne!(plain.get("etag"), Some(tags[0].as_str()));
        let range = get_with(larder.addr(), &target, &[&fields[0], "Range: bytes=5-14"]);
        assert_eq!((range.status, range.get("content-encoding")), (206, None));
        assert_eq!(range.text(), &whole("part")[5..15]);
    }
}

#[test]
fn a_part_that_changes_changes_the_kept_answer() {
    let origin = Origin::start(|seen, reply| match seen.path() {
        "/part" => drop(reply.ok(&[FRESH, HTML], text(&format!("part {}", seen.number)))),
        _ => page(reply, &[FRESH]),
    });
    let larder = Larder::site(&origin.url(), SITE);
    let mut seen = Vec::new();
    for _ in 0..2 {
        accepting(&larder, "/", "gzip");
        let kept = accepting(&larder, "/", "gzip");
        let again = accepting(&larder, "/", "gzip");
        assert_eq!((kept.get("etag"), &kept.body), (again.get("etag"), &again.body));
        assert_eq!(decoded(&kept), whole(&format!("part {}", origin.last().number)));
        seen.push(kept.get("etag").unwrap().to_owned());
        larder.connect().ask("PURGE", "/part", &["Host: site.test"]).assert_status(200);
    }
    assert_ne!(seen[0], seen[1]);
}

/// Private answers are compressed for each client, and nothing of them is kept.
#[test]
fn private_answers_are_compressed_as_they_are_sent() {
    let origin = Origin::start(|seen, reply| match seen.path() {
        "/part" => {
            let user = seen.get("cookie").unwrap_or("nobody").to_owned();
            reply.ok(&["Cache-Control: private", HTML], text(&user));
        }
        _ => page(reply, &[FRESH]),
    });
    let lines = format!(
        "{SITE}\nignore_cookies = [\"*\"]\n[[site.rule]]\npath = \"/part\"\npass = true\n\
         esi_credentials = true"
    );
    let larder = Larder::site(&origin.url(), &lines);
    for user in ["user=anna", "user=bert", "user=anna"] {
        for coding in CODINGS {
            let fields = [format!("Accept-Encoding: {coding}"), format!("Cookie: {user}")];
            let answer = get_with(larder.addr(), "/", &[&fields[0], &fields[1]]);
            assert_eq!(answer.get("content-encoding"), Some(coding));
            assert_eq!(answer.get("cache-control"), Some("private, no-cache"));
            assert!(decoded(&answer) == whole(user));
        }
    }
}

#[test]
fn what_is_there_can_be_read_before_what_is_not() {
    for coding in CODINGS {
        let gate = Gate::closed();
        let origin = Origin::start({
            let gate = gate.clone();
            move |seen, reply| match seen.path() {
                "/part" => {
                    gate.wait();
                    reply.ok(&[FRESH, HTML], text("part"));
                }
                _ => page(reply, &[FRESH]),
            }
        });
        let larder = Larder::site(&origin.url(), SITE);
        let mut client = larder.connect();
        client.send_get("/", &["Host: site.test", &format!("Accept-Encoding: {coding}")]);
        let head = client.read_head();
        assert_eq!(head.fields.get("content-encoding"), Some(coding));
        let mut coded = Vec::new();
        // A decoder that gets no more has all of the first text.
        while begun(coding, &coded).len() < text("begin").len() {
            coded.extend(client.read_chunk().unwrap().unwrap());
        }
        gate.open();
        while let Some(chunk) = client.read_chunk().unwrap() {
            coded.extend_from_slice(&chunk);
        }
        assert!(begun(coding, &coded) == whole("part"), "{coding}");
    }
}

/// The content of the begin of a body.
fn begun(coding: &str, coded: &[u8]) -> String {
    let mut out = Vec::new();
    let mut reader: Box<dyn std::io::Read + '_> = match coding {
        "gzip" => Box::new(flate2::read::GzDecoder::new(coded)),
        "br" => Box::new(brotli::Decompressor::new(coded, 4096)),
        _ => Box::new(zstd::stream::read::Decoder::new(coded).unwrap()),
    };
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = reader.read(&mut buffer) {
        out.extend_from_slice(&buffer[..read]);
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn no_transform_and_sites_without_codings_are_left_alone() {
    let origin = public();
    let larder = Larder::site(&origin.url(), SITE);
    let without = Larder::before(&origin.url());
    for (larder, target) in [(&larder, "/plain"), (&without, "/page")] {
        for _ in 0..3 {
            let answer = accepting(larder, target, "gzip, br, zstd");
            assert_eq!((answer.get("content-encoding"), answer.get("vary")), (None, None));
            assert!(answer.text() == whole("part"));
        }
    }
}

#[test]
fn http_2_gets_the_same() {
    let origin = public();
    let larder = Larder::with_config(&format!(
        "[http]\nlisten = [\"127.0.0.1:0\"]\nh2c = true\n[[site]]\norigin = \"{}\"\n{SITE}\n",
        origin.url()
    ));
    let client = H2::connect(larder.addr());
    for _ in 0..3 {
        for coding in CODINGS {
            let answer = client.ask("GET", "/", &[("accept-encoding", coding)]);
            assert_eq!(answer.get("content-encoding"), Some(coding));
            assert!(decoded(&answer) == whole("part"), "{coding}");
        }
    }
}
