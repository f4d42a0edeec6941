//! Every combination of stored form, spelling of `Accept-Encoding`, condition, range and method,
//! over HTTP/1, 2 and 3: the decoded bytes are the origin's, and the fields are true of them.

// A helper that fails ends its test.
#![allow(clippy::unwrap_used)]

use std::io::Read as _;

use larder_tests::{Answer, H2, H3, Larder, Origin, Papers, h3_client::Ask, wait_until};

/// Spellings, and the first coding of zstd, br, gzip that each takes.
const SPELLINGS: [(&str, Option<&str>); 23] = [
    ("gzip, deflate, br, zstd", Some("zstd")),
    ("gzip, deflate, br", Some("br")),
    ("gzip, deflate", Some("gzip")),
    ("gzip,deflate,br,zstd", Some("zstd")),
    ("zstd", Some("zstd")),
    ("br", Some("br")),
    ("gzip", Some("gzip")),
    ("x-gzip", Some("gzip")),
    ("GZIP", Some("gzip")),
    ("*", Some("zstd")),
    ("*;q=0.1, gzip;q=1.0", Some("zstd")),
    ("gzip;q=0.5, br;q=0.1", Some("br")),
    ("br;q=0, gzip", Some("gzip")),
    ("zstd;q=0, br;q=0.001", Some("br")),
    ("identity;q=0, gzip", Some("gzip")),
    ("identity;q=0.5, *;q=0", None),
    ("gzip;q=0", None),
    ("gzip;q=5", None),
    ("*;q=0", None),
    ("identity", None),
    ("identity;q=0", None),
    ("deflate", None),
    ("", None),
];

/// Ways to ask, and the status of each; `TAG` is the entity tag of the representation.
const WAYS: [(&str, &str, &str, u16); 8] = [
    ("GET", "", "", 200),
    ("HEAD", "", "", 200),
    ("GET", "if-none-match", "TAG", 304),
    ("HEAD", "if-none-match", "W/TAG", 304),
    ("GET", "if-none-match", "\"other\"", 200),
    ("GET", "range", "bytes=10-99", 206),
    ("GET", "range", "bytes=-20", 206),
    ("GET", "range", "bytes=900000-", 416),
];

fn page() -> String {
    (0..900).map(|n| format!("<p>line {n} of a page with many words in it</p>\n")).collect()
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

/// The ways to a Larder.
struct Wires {
    larder: Larder,
    h2: H2,
    h3: H3,
}

impl Wires {
    fn ask(&mut self, wire: usize, method: &str, fields: &[(&str, &str)]) -> Answer {
        match wire {
            0 => {
                let mut lines = vec!["Host: site.test".to_owned()];
                lines.extend(fields.iter().map(|(name, value)| format!("{name}: {value}")));
                let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
                self.larder.connect().ask(method, "/", &lines)
            }
            1 => self.h2.ask(method, "/", fields),
            _ => self.h3.ask(Ask { method, fields, ..Ask::get("/") }),
        }
    }
}

fn check(store_forms: &str, codings: [&str; 3]) {
    let papers = Papers::issue();
    let origin = Origin::start(|_, reply| {
        let fields = ["Cache-Control: max-age=600", "Content-Type: text/html", "ETag: \"one\""];
        reply.ok(&fields, page());
    });
    let larder = Larder::with_config(&format!(
        "[http]\nlisten = \"127.0.0.1:0\"\nh2c = true\n[https]\nlisten = \"127.0.0.1:0\"\n\
         http3 = true\ncertificates = [{{ cert = \"{}\", key = \"{}\" }}]\n[[site]]\n\
         origin = \"{}\"\ncompress = [\"zstd\", \"br\", \"gzip\"]\nstore_forms = \"{store_forms}\"\n",
        papers.path("server.pem"),
        papers.path("server.key"),
        origin.url(),
    ));
    let h3 = H3::connect(larder.face("http3+udp"), &papers);
    let h2 = H2::connect(larder.addr());
    let mut wires = Wires { larder, h2, h3 };
    // The wires have hosts and schemes of their own, and so pages.
    for (wire, coding) in (0..3).flat_map(|wire| codings.map(|coding| (wire, coding))) {
        wait_until(coding, || {
            let answer = wires.ask(wire, "GET", &[("accept-encoding", coding)]);
            answer.get("content-encoding") == Some(coding)
        });
    }
    for (accept, coding) in SPELLINGS {
        // A site that keeps one form sends that to those who take it and another.
        let sent = wires.ask(0, "GET", &[("accept-encoding", accept)]);
        assert_eq!(sent.get("content-encoding").is_some(), coding.is_some(), "{accept}");
        let coding = if store_forms == "one" { sent.get("content-encoding") } else { coding };
        for (method, name, value, status) in WAYS {
            let ranged = name == "range";
            let expected = coding.filter(|_| !ranged);
            let tag = expected.map_or("\"one\"".to_owned(), |coding| format!("\"one-{coding}\""));
            let value = value.replace("TAG", &tag);
            let mut fields = vec![("accept-encoding", accept)];
            if !name.is_empty() {
                fields.push((name, value.as_str()));
            }
            for wire in 0..3 {
                let answer = wires.ask(wire, method, &fields);
                let case = format!("HTTP/{} {method} {fields:?}: {answer:?}", wire + 1);
                assert_eq!(answer.status, status, "{case}");
                assert_eq!(answer.get("etag"), Some(tag.as_str()), "{case}");
                assert_eq!(answer.get("vary"), Some("Accept-Encoding"), "{case}");
                let whole = page().into_bytes();
                let body = match (method, status, value.as_str()) {
                    ("GET", 200, _) => whole.clone(),
                    (_, 206, "bytes=-20") => whole[whole.len() - 20..].to_vec(),
                    (_, 206, _) => whole[10..100].to_vec(),
                    _ => Vec::new(),
                };
                if status != 304 && status != 416 {
                    assert_eq!(answer.get("content-encoding"), expected, "{case}");
                }
                if method == "GET" {
                    assert!(decoded_or_none(&answer) == body, "{case}");
                }
                if method == "GET" && matches!(status, 200 | 206) {
                    let length = answer.body.len().to_string();
                    assert_eq!(answer.get("content-length"), Some(length.as_str()), "{case}");
                }
                assert!(answer.is_hit(), "{case}");
            }
        }
    }
    assert_eq!(origin.count(), 3);
}

fn decoded_or_none(answer: &Answer) -> Vec<u8> {
    if answer.body.is_empty() { Vec::new() } else { decoded(answer) }
}

#[test]
fn with_all_forms() {
    check("all", ["zstd", "br", "gzip"]);
}

/// One coding is stored, the others are made for each client: which of those that it takes a client
/// gets depends on the stored one.
#[test]
fn with_one_form() {
    check("one", ["zstd", "br", "gzip"]);
}
