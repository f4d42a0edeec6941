//! Pages that are kept in compressed forms too: bytes, fields, conditions, ranges, purges.

// A helper that fails ends its test.
#![allow(clippy::unwrap_used)]

use std::{io::Read as _, process::Command};

use larder_tests::{
    Admin, Answer, H2, Larder, Origin, get_with, larder::run, scratch::Scratch, wait::wait_for,
    wait_until,
};

const CODINGS: [&str; 3] = ["zstd", "br", "gzip"];
const SITE: &str = "compress = [\"zstd\", \"br\", \"gzip\"]\npurge = { from = [\"127.0.0.1\"] }";

/// A page of some 40 KB that compresses well, and tells the target.
fn page(target: &str) -> String {
    (0..800)
        .map(|n| format!("<p>{target}: line {n} of a page with many words in it</p>\n"))
        .collect()
}

/// An origin of pages with a strong entity tag, and a Larder that compresses them.
fn site() -> (Origin, Larder) {
    let origin = Origin::start(|seen, reply| {
        let fields = [
            "Cache-Control: max-age=60",
            "Content-Type: text/html; charset=utf-8",
            "ETag: \"one\"",
        ];
        reply.ok(&fields, page(&seen.target));
    });
    let larder = Larder::site(&origin.url(), SITE);
    (origin, larder)
}

fn accepting(larder: &Larder, target: &str, accept: &str) -> Answer {
    get_with(larder.addr(), target, &[&format!("Accept-Encoding: {accept}")])
}

/// Requests a page until it comes in this coding, which is made once it was requested.
fn coded(larder: &Larder, target: &str, coding: &str) -> Answer {
    wait_for(&format!("{target} in {coding}"), || {
        let answer = accepting(larder, target, coding);
        (answer.get("content-encoding") == Some(coding)).then_some(answer)
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
fn each_client_gets_the_first_coding_that_it_takes() {
    let (origin, larder) = site();
    for coding in CODINGS {
        let answer = coded(&larder, "/", coding);
        assert_eq!(decoded(&answer), page("/").as_bytes());
        assert!(answer.body.len() * 4 < page("/").len(), "{coding}: {}", answer.body.len());
        assert_eq!(answer.get("vary"), Some("Accept-Encoding"));
        assert_eq!(answer.get("etag"), Some(format!("\"one-{coding}\"").as_str()));
        assert_eq!(answer.get("content-length"), Some(answer.body.len().to_string().as_str()));
        answer.assert_hit();
    }
    for (accept, expected) in [
        ("gzip, deflate, br, zstd", Some("zstd")),
        ("gzip, br", Some("br")),
        ("gzip;q=1.0, *;q=0.1", Some("zstd")),
        ("x-gzip", Some("gzip")),
        ("*", Some("zstd")),
        ("br;q=0, gzip", Some("gzip")),
        ("zstd;q=0, br;q=0.001", Some("br")),
        ("identity;q=0, gzip", Some("gzip")),
        ("GZIP", Some("gzip")),
        ("gzip;q=5", None),
        ("gzip;q=0", None),
        ("notgzip", None),
        ("\"gzip\"", None),
        ("deflate", None),
        ("identity", None),
        ("*;q=0", None),
        ("", None),
    ] {
        let answer = accepting(&larder, "/", accept);
        assert_eq!(answer.get("content-encoding"), expected, "{accept}");
        assert_eq!(decoded(&answer), page("/").as_bytes(), "{accept}");
        answer.assert_hit();
    }
    assert_eq!(origin.count(), 1, "one page, whatever clients accept");
    assert_eq!(origin.last().get("accept-encoding"), Some("identity"));
}

/// A client that takes only the last coding comes first.
#[test]
fn a_better_coding_is_made_where_a_lesser_one_is_there() {
    let (_origin, larder) = site();
    coded(&larder, "/", "gzip");
    wait_until("the first coding", || {
        let answer = accepting(&larder, "/", "gzip, br, zstd");
        answer.assert_hit();
        assert_eq!(decoded(&answer), page("/").as_bytes());
        answer.get("content-encoding") == Some("zstd")
    });
}

/// Other programs' decoders, and heads without bodies.
#[test]
fn others_read_every_form() {
    let (_origin, larder) = site();
    for coding in CODINGS {
        let by_get = coded(&larder, "/", coding);
        if coding != "gzip" {
            let content = crate::dictionary_site::decoded_by_others(&[coding], &by_get.body);
            assert_eq!(content, page("/").as_bytes(), "{coding}");
        }
        let url = format!("http://{}/", larder.addr());
        let out = Command::new("curl")
            .args(["-s", "--compressed", "-H", &format!("Accept-Encoding: {coding}"), &url])
            .output()
            .unwrap();
        assert_eq!(out.stdout, page("/").as_bytes(), "{coding}");
        let accept = format!("Accept-Encoding: {coding}");
        let head = larder.connect().ask("HEAD", "/", &["Host: site.test", &accept]);
        for name in ["content-encoding", "content-length", "etag", "vary"] {
            assert_eq!(head.get(name), by_get.get(name), "{name}");
        }
    }
}

#[test]
fn conditions_are_about_the_form_that_the_client_has() {
    let (origin, larder) = site();
    coded(&larder, "/", "br");
    let ask = |accept: &str, condition: &str| {
        get_with(larder.addr(), "/", &[&format!("Accept-Encoding: {accept}"), condition])
    };
    let fresh = ask("br", "If-None-Match: \"one-br\"");
    assert_eq!((fresh.status, fresh.get("etag")), (304, Some("\"one-br\"")));
    assert_eq!(fresh.get("vary"), Some("Accept-Encoding"));
    assert_eq!(ask("br", "If-None-Match: W/\"one-br\"").status, 304);
    assert_eq!(ask("br", "If-None-Match: \"one\"").status, 200);
    assert_eq!(ask("identity", "If-None-Match: \"one\"").status, 304);
    let plain = ask("identity", "If-None-Match: \"one-br\"");
    assert_eq!((plain.status, plain.get("content-encoding")), (200, None));
    assert_eq!(origin.count(), 1);
}

#[test]
fn ranges_are_of_the_page_itself() {
    let (_origin, larder) = site();
    coded(&larder, "/", "gzip");
    let ask = |fields: &[&str]| get_with(larder.addr(), "/", fields);
    let part = ask(&["Accept-Encoding: gzip", "Range: bytes=5-104"]);
    assert_eq!((part.status, part.get("content-encoding")), (206, None));
    assert_eq!(part.body, &page("/").as_bytes()[5..105]);
    assert_eq!(part.get("etag"), Some("\"one\""));
    // The bytes of another form do not fit: the whole page.
    let whole = ask(&["Accept-Encoding: gzip", "Range: bytes=5-104", "If-Range: \"one-gzip\""]);
    assert_eq!((whole.status, decoded(&whole)), (200, page("/").into_bytes()));
}

#[test]
fn a_purge_ends_the_forms_with_the_page() {
    let (origin, larder) = site();
    for coding in CODINGS {
        coded(&larder, "/", coding);
    }
    assert_eq!(larder.connect().ask("PURGE", "/", &["Host: site.test"]).status, 200);
    let answer = accepting(&larder, "/", "br");
    assert!(!answer.is_hit());
    assert_eq!(origin.count(), 2);
    coded(&larder, "/", "br").assert_hit();
}

/// A page that was fetched anew is never answered by the form of the one before.
#[test]
fn a_changed_page_has_new_forms() {
    let origin = Origin::start(|seen, reply| {
        let text = format!("version {}\n", seen.number).repeat(400);
        reply.ok(&["Cache-Control: max-age=60", "Content-Type: text/plain"], text);
    });
    let larder = Larder::site(&origin.url(), SITE);
    let first = decoded(&coded(&larder, "/", "br"));
    let reload = get_with(larder.addr(), "/", &["Accept-Encoding: br", "Cache-Control: no-cache"]);
    assert_ne!(decoded(&reload), first);
    let second = decoded(&coded(&larder, "/", "br"));
    assert_eq!(second, decoded(&reload));
}

/// A 304 writes the page anew, and its forms stay without being made again.
#[test]
fn a_validated_page_keeps_its_forms() {
    let origin = Origin::start(|seen, reply| {
        let fields = ["Cache-Control: max-age=60", "Content-Type: text/html", "ETag: \"one\""];
        match seen.get("if-none-match") {
            Some("\"one\"") => drop(reply.answer(304, &fields, "")),
            _ => drop(reply.ok(&fields, page("/"))),
        }
    });
    let larder = Larder::with_config(&format!(
        "[http]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n[[site]]\n\
         origin = \"{}\"\n{SITE}\n",
        origin.url()
    ));
    coded(&larder, "/", "br");
    get_with(larder.addr(), "/", &["Cache-Control: no-cache"]);
    assert_eq!(origin.count(), 2);
    coded(&larder, "/", "br");
    let stats = Admin::of(&larder).json("/api/v1/stats");
    let figure = |name: &str| stats["compression"][name].as_u64().unwrap();
    assert_eq!((figure("made"), figure("kept")), (1, 1), "{stats}");
}

#[test]
fn some_pages_are_left_as_they_are() {
    let origin = Origin::start(|seen, reply| {
        let kept = "Cache-Control: max-age=60";
        match seen.path() {
            "/short" => reply.ok(&[kept, "Content-Type: text/html"], "short"),
            "/image" => reply.ok(&[kept, "Content-Type: image/png"], page("/")),
            "/untouched" => {
                let fields = ["Cache-Control: max-age=60, no-transform", "Content-Type: text/html"];
                reply.ok(&fields, page("/"))
            }
            "/error" => reply.answer(500, &[kept, "Content-Type: text/html"], page("/")),
            "/none" => reply.answer(404, &[kept, "Content-Type: text/html"], page("/none")),
            "/gone" => reply.answer(410, &[kept, "Content-Type: text/html"], page("/gone")),
            _ => reply.ok(
                &[kept, "Content-Type: text/html", "Content-Encoding: gzip"],
                "coded by the origin, or so it says".repeat(50),
            ),
        };
    });
    let larder = Larder::site(&origin.url(), SITE);
    for target in ["/short", "/image", "/untouched", "/error"] {
        for _ in 0..3 {
            let answer = accepting(&larder, target, "br, gzip");
            assert_eq!(answer.get("content-encoding"), None, "{target}");
        }
        assert_eq!(accepting(&larder, target, "br").get("vary"), None, "{target}");
    }
    // Pages that say that nothing is there are compressed as others are.
    for (target, status) in [("/none", 404), ("/gone", 410)] {
        let answer = coded(&larder, target, "br");
        assert_eq!((answer.status, answer.get("vary")), (status, Some("Accept-Encoding")));
        assert_eq!(decoded(&answer), page(target).as_bytes());
        assert_eq!(origin.count_of(target), 1);
    }
    // The coding of an origin that codes whatever it is asked stays, for those who take it.
    for _ in 0..3 {
        assert_eq!(accepting(&larder, "/coded", "br, gzip").get("content-encoding"), Some("gzip"));
    }
    accepting(&larder, "/coded", "br, gzip").assert_hit();
    assert_eq!(origin.count_of("/coded"), 1);
}

/// The page varies on other fields, and each variant has its forms.
#[test]
fn variants_have_their_forms() {
    let origin = Origin::start(|seen, reply| {
        let language = seen.get("accept-language").unwrap_or("none").to_owned();
        let fields = [
            "Cache-Control: max-age=60",
            "Content-Type: text/html",
            "Vary: Accept-Language, Accept-Encoding",
        ];
        reply.ok(&fields, page(&language));
    });
    let larder = Larder::site(&origin.url(), SITE);
    let ask = |language: &str, accept: &str| {
        let fields = [format!("Accept-Language: {language}"), format!("Accept-Encoding: {accept}")];
        get_with(larder.addr(), "/", &[&fields[0], &fields[1]])
    };
    for language in ["de", "fr"] {
        wait_until(language, || ask(language, "br").get("content-encoding") == Some("br"));
        let answer = ask(language, "br");
        assert_eq!(decoded(&answer), page(language).as_bytes());
        assert_eq!(answer.get("vary"), Some("Accept-Language, Accept-Encoding"));
        assert_eq!(decoded(&ask(language, "identity")), page(language).as_bytes());
    }
    assert_eq!(origin.count(), 2);
}

#[test]
fn forms_go_out_over_http2() {
    let origin = Origin::start(|seen, reply| {
        reply.ok(&["Cache-Control: max-age=60", "Content-Type: text/html"], page(&seen.target));
    });
    let larder = Larder::with_config(&format!(
        "[http]\nlisten = [\"127.0.0.1:0\"]\nh2c = true\n[[site]]\norigin = \"{}\"\n{SITE}\n",
        origin.url()
    ));
    let client = H2::connect(larder.addr());
    let answer = wait_for("a form", || {
        let answer = client.ask("GET", "/", &[("accept-encoding", "gzip")]);
        (answer.get("content-encoding") == Some("gzip")).then_some(answer)
    });
    assert_eq!(decoded(&answer), page("/").as_bytes());
}

/// The presets compress, and a rule can say no.
#[test]
fn presets_compress_and_rules_choose() {
    let (origin, _) = site();
    let larder = Larder::site(
        &origin.url(),
        "preset = \"anonymous\"\n[[site.rule]]\npath = \"/plain*\"\ncompress = []",
    );
    coded(&larder, "/", "zstd");
    for _ in 0..3 {
        assert_eq!(accepting(&larder, "/plain", "zstd").get("content-encoding"), None);
    }
    assert_eq!(accepting(&larder, "/plain", "zstd").get("vary"), None);
}

/// `make run` and the documents name the option; a mistake in it is told.
#[test]
fn an_unknown_coding_is_a_mistake() {
    let scratch = Scratch::new("compress");
    let text = "[[site]]\norigin = \"http://127.0.0.1:9\"\ncompress = [\"gzipp\"]\n";
    let file = scratch.write("larder.toml", text);
    let (status, out, err) = run(&["check", "--config", file.to_str().unwrap()]);
    assert!(!status.success());
    assert!(format!("{out}{err}").contains("gzip"), "{out}{err}");
}

fn gzip(text: &str) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut out, text.as_bytes()).unwrap();
    out.finish().unwrap()
}

/// Pages that are not kept are not compressed here: their origin may code them.
#[test]
fn pages_that_are_not_kept_are_coded_by_the_origin() {
    let origin = Origin::start(|seen, reply| {
        let coded = seen.get("accept-encoding").is_some_and(|field| field.contains("gzip"));
        let mut fields = vec!["Cache-Control: private", "Content-Type: text/html"];
        let mut body = page(&seen.target).into_bytes();
        if coded {
            fields.push("Content-Encoding: gzip");
            body = gzip(&page(&seen.target));
        }
        reply.ok(&fields, body);
    });
    let larder = Larder::site(&origin.url(), SITE);
    accepting(&larder, "/page", "gzip, br").assert_status(200);
    for _ in 0..2 {
        let answer = accepting(&larder, "/page", "gzip, br");
        assert_eq!(answer.get("content-encoding"), Some("gzip"));
        assert_eq!(decoded(&answer), page("/page").as_bytes());
        let plain = accepting(&larder, "/page", "identity");
        assert_eq!(plain.body, page("/page").as_bytes());
    }
}

/// The origin knows the pages alone.
#[test]
fn a_change_on_condition_of_a_form_is_one_of_its_page() {
    let (origin, larder) = site();
    coded(&larder, "/page", "br");
    let put = larder.connect().ask("PUT", "/page", &["Host: a", "If-Match: \"one-br\""]);
    put.assert_status(200);
    let seen = origin.requests();
    let put = seen.iter().find(|seen| seen.method == "PUT").unwrap();
    assert_eq!(put.get("if-match"), Some("\"one-br\", \"one\""));
}

/// An origin that codes whatever it is asked for: who cannot read that gets it uncoded.
#[test]
fn a_coding_that_a_client_cannot_read_is_undone() {
    let origin = Origin::start(move |seen, reply| {
        let control = match seen.path() {
            "/kept" => "Cache-Control: max-age=60",
            "/transformed" => "Cache-Control: max-age=60, no-transform",
            _ => "Cache-Control: no-store",
        };
        let fields =
            [control, "Content-Type: text/html", "Content-Encoding: gzip", "ETag: \"one\""];
        match seen.path() {
            "/bomb" => reply.ok(&fields, gzip(&"0".repeat(9 << 20))),
            "/damaged" => reply.ok(&fields, "no gzip"),
            "/failed" => reply.answer(500, &fields, gzip(&page(&seen.target))),
            _ => reply.ok(&fields, gzip(&page(&seen.target))),
        };
    });
    let larder = Larder::site(&origin.url(), SITE);
    for target in ["/kept", "/passed"] {
        for _ in 0..2 {
            let plain = accepting(&larder, target, "identity");
            assert_eq!(plain.get("content-encoding"), None, "{target}");
            assert_eq!(plain.body, page(target).as_bytes());
            assert_eq!(plain.get("etag"), Some("W/\"one\""));
        }
    }
    assert_eq!(origin.count_of("/kept"), 1);
    let failed = accepting(&larder, "/failed", "identity");
    assert_eq!((failed.status, failed.get("content-encoding")), (500, None));
    assert_eq!(failed.body, page("/failed").as_bytes());
    // A client that reads it gets it as it came, and caches behind are told that others do not.
    let coded = accepting(&larder, "/passed", "gzip");
    assert_eq!((coded.get("content-encoding"), coded.get("etag")), (Some("gzip"), Some("\"one\"")));
    assert_eq!(coded.get("vary"), Some("Accept-Encoding"));
    for target in ["/transformed", "/bomb", "/damaged"] {
        let answer = accepting(&larder, target, "identity");
        assert_eq!(answer.get("content-encoding"), Some("gzip"), "{target}");
    }
}

#[test]
fn published_pages_are_compressed() {
    let origin = Origin::serving(&[], "");
    let larder = Larder::with_config(&format!(
        "[[site]]\norigin = \"{}\"\n{SITE}\n[admin]\nlisten = [\"127.0.0.1:0\"]\n",
        origin.url()
    ));
    let admin = Admin::of(&larder);
    let url = "/api/v1/pages?url=http://site.test/published.html";
    assert_eq!(admin.order("PUT", url, page("/published")).status, 201);
    let answer = coded(&larder, "/published.html", "br");
    assert_eq!(decoded(&answer), page("/published").as_bytes());
    assert_eq!(
        accepting(&larder, "/published.html", "identity").body,
        page("/published").as_bytes()
    );
    assert_eq!(origin.count(), 0);
}
