//! The cases of Varnish's own tests of ESI (bin/varnishtest/tests/e*.vtc) that need no VCL beyond
//! turning ESI on, with pages of our own. Each page comes uncoded, coded by its origin, and passed.
//!
//! Elsewhere: e00007 (borders of chunks) in esi.rs, at every byte; e00011 and e00036 (POST) there
//! too; e00022 to e00025 (coded answers, `Vary`) in esi_coded.rs; e00027 (HEAD) and e00028 (`Vary`
//! of parts) in esi_answers.rs; e00029 (depth) in esi_limits.rs. e00030, e00033, e00034 and e00037
//! are about VCL, Varnish's logs and modules.

// A helper that fails ends its test.
#![allow(clippy::unwrap_used)]

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use larder_tests::{Answer, Larder, Origin, get};

/// Name, page, answer; `{p}` is the directory of the page. Parts tell where they are, but for
/// `/foo`.
fn cases() -> Vec<(&'static str, String, String)> {
    const TEXTS: [(&str, &str, &str); 44] = [
        ("e00001-remove", "a<esi:remove>x\ny</esi:remove>b", "ab"),
        ("e00002-cdata", "<esi:remove><![CDATA[</esi:remove>]]>x</esi:remove>b", "b"),
        ("e00003-include", "a<esi:include src=\"/foo\"/>b", "aFOOb"),
        ("e00004-hidden", "a<!--esi <esi:include src=\"/foo\"/> -->b", "a FOO b"),
        ("e00005-relative", "a<esi:include src=\"x/y\"/>b", "a[site.test{p}/x/y]b"),
        ("e00005-parent", "<esi:include src=\"../x?y=1\"/>", "[site.test/x?y=1]"),
        ("e00006-host", "<esi:include src=\"http://other.test/x\"/>", "[other.test/x]"),
        ("e00006-no-scheme", "<esi:include src=\"//other.test/x\"/>", "[other.test/x]"),
        // Varnish takes markup that it does not know out of the page.
        ("e00008-unknown", "a<esi:bogosity/>b", "a<esi:bogosity/>b"),
        ("e00008-comment", "a<!-- normal comment -->b", "a<!-- normal comment -->b"),
        (
            "e00008-in-comment",
            "<!-- <esi:include src=\"/none\"/> -->b<esi:comment/>",
            "<!-- <esi:include src=\"/none\"/> -->b",
        ),
        (
            "e00008-in-cdata",
            "<![CDATA[<esi:include src=\"/none\"/>]]>b<esi:comment/>",
            "<![CDATA[<esi:include src=\"/none\"/>]]>b",
        ),
        ("e00008-comment-content", "<esi:comment>foo</esi:comment>", "foo"),
        ("e00008-comment-words", "a<esi:comment bar />b", "ab"),
        ("e00008-comment-in-remove", "a<esi:remove><esi:comment foo/></esi:remove>b", "ab"),
        // Varnish ends the first at the first end.
        (
            "e00008-remove-in-remove",
            "a<esi:remove>x<esi:remove>y</esi:remove>z</esi:remove>b",
            "ab",
        ),
        ("e00008-odd-tag", "a</>b<esi:comment/>", "a</>b"),
        ("e00008-empty-remove", "a<esi:remove/>b", "ab"),
        ("e00008-end-of-include", "a</esi:include><esi:comment/>b", "ab"),
        ("e00008-bare", "a<esi:include  foo=bar src=/foo />b", "aFOOb"),
        ("e00008-bare-end", "a<esi:include src=/foo/>b", "aFOOb"),
        ("e00008-bare-then-quoted", "<esi:include src=/x?a='1 alt=\"/>\">b", "[site.test/x?a='1]b"),
        ("e00009-binary", "text <esi:remove>x</esi:remove>b", "text b"),
        ("e00010-blanks", " \n\t <esi:remove>x</esi:remove>b", " \n\t b"),
        ("e00013-blanks-only", "<x>                    ", "<x>                    "),
        ("e00014-alike", "  <a>   <esi/>   </esi>", "  <a>   <esi/>   </esi>"),
        ("e00015-off", "a<esi:include src=\"/raw\"/>b", "a<esi:include src=\"/none\"/>b"),
        ("e00016-parts-of-parts", "a<esi:include src=\"/nested\"/>b", "an FOO nb"),
        ("e00018-references", "<esi:include src=\"/x?a&amp;b\"/>", "[site.test/x?a&b]"),
        ("e00018-apostrophe", "<esi:include src='/x?&apos;'/>", "[site.test/x?']"),
        ("e00018-quote", "<esi:include src='/x?&quot;'/>", "[site.test/x?%22]"),
        ("e00018-less", "<esi:include src=\"/x?&lt;&gt;\"/>", "[site.test/x?%3C%3E]"),
        ("e00019-end-with-words", "<1></esi:comment foo><1>", "<1></esi:comment foo><1>"),
        ("e00019-slash", "<2><esi:comment / ><esi:comment doo><2>", "<2><2>"),
        ("e00019-attribute", "<3><esi:remove foo=\"bar\">x</esi:remove><3>", "<3><3>"),
        ("e00019-cut-name", "<4><esi:include src=\"/foo\"><esi:incl><4>", "<4>FOO<esi:incl><4>"),
        (
            "e00020-trick-question",
            "<esi:remove>x<esi:include src=\"/none\"><!--esi shown --></esi:remove><esX>b",
            "<esX>b",
        ),
        ("e00026-middle", "B<esi:include src=\"/foo\"/>A", "BFOOA"),
        ("e00026-end", "B<esi:include src=\"/foo\"/>", "BFOO"),
        ("e00026-begin", "<esi:include src=\"/foo\"/>A", "FOOA"),
        ("e00026-alone", "<esi:include src=\"/foo\"/>", "FOO"),
        ("e00031-no-slash", "<esi:include src=\"foo\">", "[site.test{p}/foo]"),
        ("e00035-fails", "a<esi:include src=\"/none\"/>b", "a<!-- no part /none (404) -->b"),
        ("e00035-continues", "a <esi:include src=\"/none\" onerror=\"continue\"/> b", "a  b"),
    ];
    let mut all: Vec<_> = TEXTS
        .iter()
        .map(|(name, page, text)| (*name, (*page).to_owned(), (*text).to_owned()))
        .collect();
    // Includes that say nothing of where.
    for (name, tag) in [
        ("e00008-nothing", "<esi:include \n   >"),
        ("e00008-word", "<esi:include  aaa />"),
        ("e00008-odd-name", "<esi:include  k?=./>"),
        ("e00008-no-value", "<esi:include  src/>"),
        ("e00008-no-bare-value", "<esi:include  src=/>"),
        ("e00008-blank-value", "<esi:include  src= />"),
    ] {
        all.push((name, format!("a{tag}b<esi:comment/>"), format!("a{tag}b")));
    }
    // Texts and names that are longer than buffers.
    let (long, deep) = ("0123456789".repeat(20_000), "/some/very/long/name".repeat(12));
    all.push((
        "e00019-long",
        format!("{long}<esi:include src=\"/foo\"/>{long}"),
        format!("{long}FOO{long}"),
    ));
    let names: Vec<_> = (0..20).map(|n| format!("{deep}/{n}")).collect();
    let includes = names.iter().map(|name| format!("<esi:include src=\"{name}\"/>")).collect();
    let parts = names.iter().map(|name| format!("[site.test{name}]")).collect();
    all.push(("e00017-many", includes, parts));
    all
}

fn gzip(text: &str) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(text.as_bytes()).unwrap();
    out.finish().unwrap()
}

/// A page without markup stays in the coding of its origin.
fn content(answer: &Answer) -> String {
    let mut text = String::new();
    match answer.get("content-encoding") {
        None => text.push_str(answer.text()),
        Some(_) => {
            flate2::read::GzDecoder::new(&answer.body[..]).read_to_string(&mut text).unwrap();
        }
    }
    text
}

const DIRECTORIES: [&str; 3] = ["/plain", "/gzip", "/pass"];

fn origin() -> Origin {
    const ESI: &str = "Surrogate-Control: content=\"ESI/1.0\"";
    const FRESH: &str = "Cache-Control: max-age=60";
    const HTML: &str = "Content-Type: text/html";
    let cases = cases();
    Origin::start(move |seen, reply| {
        let path = seen.path();
        let (directory, name) = path[1..].split_once('/').unwrap_or(("", ""));
        let text = match path {
            "/foo" => "FOO".to_owned(),
            "/raw" => "<esi:include src=\"/none\"/>".to_owned(),
            "/nested" => {
                reply.ok(&[ESI, FRESH, HTML], "n <esi:include src=\"/foo\"/> n");
                return;
            }
            "/none" => {
                reply.answer(404, &[FRESH], "");
                return;
            }
            _ => match cases.iter().find(|(case, ..)| *case == name) {
                Some((_, page, _)) if directory == "gzip" => {
                    reply.ok(&[ESI, FRESH, HTML, "Content-Encoding: gzip"], gzip(page));
                    return;
                }
                Some((_, page, _)) => {
                    reply.ok(&[ESI, FRESH, HTML], page);
                    return;
                }
                None => format!("[{}{}]", seen.get("host").unwrap_or_default(), seen.target),
            },
        };
        // Of the parts of coded pages some are coded, too.
        if directory == "gzip" {
            reply.ok(&[FRESH, HTML, "Content-Encoding: gzip"], gzip(&text));
        } else {
            reply.ok(&[FRESH, HTML], text);
        }
    })
}

#[test]
fn pages_are_put_together_as_varnish_does() {
    let origin = origin();
    let lines = "[[site.rule]]\npath = \"/pass/*\"\npass = true\n";
    let larder = Larder::site(&origin.url(), lines);
    for directory in DIRECTORIES {
        for (name, _, expected) in cases() {
            let expected = expected.replace("{p}", directory);
            // As its parts come, and from memory.
            for _ in 0..2 {
                let answer = get(larder.addr(), &format!("{directory}/{name}"));
                let text = content(&answer);
                assert!(
                    answer.status == 200 && text == expected,
                    "{directory}/{name}: {text:.300}"
                );
            }
        }
    }
    // Nobody asked for the parts that are in comments or removed.
    assert_eq!(origin.count_of("/none"), 1);
}

/// e00012: a client of HTTP/1.0 knows no chunks.
#[test]
fn old_clients_get_no_chunks() {
    let origin = origin();
    let larder = Larder::before(&origin.url());
    for name in ["e00004-hidden", "e00017-many"] {
        let (_, _, expected) = cases().into_iter().find(|(case, ..)| *case == name).unwrap();
        for _ in 0..2 {
            let mut client = TcpStream::connect(larder.addr()).unwrap();
            let request = format!("GET /plain/{name} HTTP/1.0\r\nHost: site.test\r\n\r\n");
            client.write_all(request.as_bytes()).unwrap();
            let mut text = String::new();
            client.read_to_string(&mut text).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(!head.to_lowercase().contains("transfer-encoding"), "{head}");
            assert_eq!(body, expected, "{name}");
        }
    }
}
