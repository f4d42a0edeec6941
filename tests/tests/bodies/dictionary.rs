//! Compression with dictionaries (RFC 9842): the dictionary of a site's documents, those that an
//! origin names, and the requests that get an answer compressed with one.

// A helper that fails ends its test.
#![allow(clippy::unwrap_used)]

use std::{collections::HashSet, process::Command};

use larder_proto::http::dictionary::{LINK, PATH};
use larder_tests::{Answer, Scratch, get_with, helper::source_root, larder::run, wait_for};

use crate::dictionary_site::{ALL, Dictionary, Site, page};

#[test]
fn documents_name_their_dictionary_which_is_what_they_have_in_common() {
    let site = Site::start("dictionary = true");
    site.get(PATH, &[]).assert_status(404);
    let first = site.get("/page/0", &["Accept-Encoding: br"]);
    assert_eq!(first.get("link"), Some(LINK));
    assert_eq!(first.get("vary"), Some("Accept-Encoding, Available-Dictionary"));
    assert_eq!(site.get("/style.css", &[]).get("link"), None);
    let dictionary = site.dictionary();
    let text = String::from_utf8(dictionary.content.clone()).unwrap();
    assert!(
        text.contains("<li class=\"menu-17\">") && text.len() < page("/page/0").len(),
        "{text}"
    );
    assert!(!text.contains("alone"), "text of one page is in it: {text}");
    let answer = site.get(PATH, &[]);
    for (name, value) in [
        ("use-as-dictionary", "match=\"/*\", match-dest=(\"document\" \"frame\" \"iframe\")"),
        ("cache-control", "public, max-age=86400"),
        ("content-type", "application/octet-stream"),
        ("vary", "Accept-Encoding"),
        ("content-length", &text.len().to_string()),
    ] {
        assert_eq!(answer.get(name), Some(value), "{name}");
    }
    answer.assert_hit();
    let tag = answer.get("etag").unwrap();
    let same = site.get(PATH, &[&format!("If-None-Match: {tag}")]);
    assert_eq!((same.status, same.get("etag")), (304, Some(tag)));
    let head = site.ask("HEAD", PATH, &[]);
    assert_eq!((head.status, head.get("content-length")), (200, answer.get("content-length")));
    // It is a page like any: compressed for those who fetch it, whatever cookies they have.
    let coded = wait_for("the dictionary in br", || {
        let answer = site.get(PATH, &["Accept-Encoding: br", "Cookie: session=1"]);
        (answer.get("content-encoding") == Some("br")).then_some(answer)
    });
    assert!(coded.body.len() < text.len() / 2);
    // Nothing of this reaches the origin.
    assert_eq!(site.origin.count_of(PATH), 0);
}

#[test]
fn a_page_with_a_dictionary_is_a_fraction() {
    let site = Site::start("dictionary = true");
    let dictionary = site.dictionary();
    let content = page("/page/20");
    for coding in ["dcz", "dcb"] {
        let plain = if coding == "dcz" { "zstd" } else { "br" };
        let without = site.coded("/page/20", plain, &[]);
        let answer = site.coded("/page/20", coding, &[&dictionary.available()]);
        let (with, without) = (answer.body.len(), without.body.len());
        assert!(with * 3 < without, "{coding}: {with} of {without}");
        assert!(dictionary.decoded(&answer) == content.as_bytes(), "{coding}");
        answer.assert_hit();
        let tag = format!("\"one-{coding}-{}\"", dictionary.short());
        assert_eq!(answer.get("etag"), Some(tag.as_str()));
        assert_eq!(answer.get("vary"), Some("Accept-Encoding, Available-Dictionary"));
        assert_eq!(answer.get("content-length"), Some(with.to_string().as_str()));
        let asked = [&*format!("Accept-Encoding: {coding}"), &*dictionary.available()];
        let head = site.ask("HEAD", "/page/20", &asked);
        for name in ["content-encoding", "content-length", "etag", "vary", "link"] {
            assert_eq!(head.get(name), answer.get(name), "{name} of a HEAD");
        }
        let condition = |tag: &str| {
            let line = format!("If-None-Match: {tag}");
            site.get("/page/20", &[&asked[..], &[line.as_str()]].concat())
        };
        let same = condition(&tag);
        assert_eq!((same.status, same.get("etag"), same.body.len()), (304, Some(&*tag), 0));
        assert_eq!(condition("\"one\"").status, 200, "the tag of other bytes");
        assert_eq!(condition("*").status, 304);
        // A range is of the page itself.
        let part = site.get("/page/20", &[&asked[..], &["Range: bytes=5-14"]].concat());
        assert_eq!((part.status, part.get("content-encoding")), (206, None));
        assert_eq!(part.body, content.as_bytes()[5..15]);
        let validator = format!("If-Range: {tag}");
        let rest = [&asked[..], &["Range: bytes=5-14", &validator]].concat();
        let whole = site.get("/page/20", &rest);
        assert_eq!((whole.status, whole.body.len()), (200, content.len()));
    }
    assert_eq!(site.origin.count_of("/page/20"), 1);
}

#[test]
fn a_page_in_demand_is_compressed_harder() {
    let site = Site::start("dictionary = true");
    let dictionary = site.dictionary();
    let available = dictionary.available();
    let good = site.coded("/page/3", "dcb", &[&available]).body;
    let mut wire = site.wire();
    let best = wait_for("a smaller form", || {
        let answer = wire.get("/page/3", &["Accept-Encoding: dcb", &available]);
        (answer.body != good).then_some(answer)
    });
    assert!(best.body.len() < good.len(), "{} of {}", best.body.len(), good.len());
    assert!(dictionary.decoded(&best) == page("/page/3").as_bytes());
}

/// Values of Available-Dictionary, and whether each names the right dictionary.
fn sayings(right: &Dictionary) -> Vec<(Vec<String>, bool)> {
    let hash = right.base64();
    let other = Dictionary { content: b"another".to_vec() }.available();
    let line = |value: String| vec![format!("Available-Dictionary: {value}")];
    vec![
        (vec![right.available()], true),
        (vec![right.available(), "Dictionary-ID: \"any\"".to_owned()], true),
        (vec![format!("aVAILABLE-dICTIONARY:   :{hash}:  ")], true),
        (vec![], false),
        (vec![other.clone()], false),
        (vec![right.available(), other], false),
        (vec![right.available(), right.available()], false),
        (line(hash.clone()), false),
        (line(format!(":{}:", &hash[..40])), false),
        (line(format!(":{}:", hash.to_lowercase())), false),
        (line(format!(":{hash}:, :{hash}:")), false),
        (line(format!("\"{hash}\"")), false),
        (line(String::new()), false),
        (line(":".repeat(3000)), false),
    ]
}

/// Of what a client takes, and the codings of the answer with its dictionary and without.
const TAKEN: [(&str, Option<&str>, Option<&str>); 12] = [
    (ALL, Some("dcz"), Some("zstd")),
    ("gzip, br, dcb", Some("dcb"), Some("br")),
    ("dcz", Some("dcz"), None),
    ("DCB;q=0.1", Some("dcb"), None),
    ("dcz;q=0, dcb", Some("dcb"), None),
    ("dcz;q=0, dcb;q=0, gzip", Some("gzip"), Some("gzip")),
    ("*, dcb", Some("dcb"), Some("zstd")),
    ("*", Some("zstd"), Some("zstd")),
    ("gzip, deflate, br, zstd", Some("zstd"), Some("zstd")),
    ("gzip", Some("gzip"), Some("gzip")),
    ("identity", None, None),
    ("", None, None),
];

#[test]
fn only_the_right_dictionary_is_used_and_only_for_those_who_take_it() {
    let site = Site::start("dictionary = true");
    let dictionary = site.dictionary();
    let content = page("/page/1");
    for coding in ["zstd", "br", "gzip", "dcz", "dcb"] {
        site.coded("/page/1", coding, &[&dictionary.available()]);
    }
    let mut known = HashSet::new();
    let mut check = |answer: &Answer| {
        if known.insert(answer.body.clone()) {
            assert!(dictionary.decoded(answer) == content.as_bytes(), "{answer:?}");
        }
    };
    let h2 = site.http2();
    for (lines, right) in sayings(&dictionary) {
        for (taken, with, without) in TAKEN {
            let expected = if right { with } else { without };
            let taken = format!("Accept-Encoding: {taken}");
            let fields: Vec<&str> =
                lines.iter().map(String::as_str).chain([taken.as_str()]).collect();
            let answer = site.get("/page/1", &fields);
            assert_eq!(answer.get("content-encoding"), expected, "{fields:?}");
            check(answer.assert_hit());
            let head = site.ask("HEAD", "/page/1", &fields);
            assert_eq!(head.get("etag"), answer.get("etag"), "{fields:?}");
            let pairs: Vec<(String, &str)> = fields
                .iter()
                .map(|line| line.split_once(':').unwrap())
                .map(|(name, value)| (name.to_ascii_lowercase(), value.trim()))
                .collect();
            let pairs: Vec<_> = pairs.iter().map(|(name, value)| (name.as_str(), *value)).collect();
            let other = h2.ask("GET", "/page/1", &pairs);
            assert_eq!(other.get("content-encoding"), expected, "{fields:?} over HTTP/2");
            check(&other);
            assert_eq!(other.get("etag"), answer.get("etag"));
        }
    }
    assert_eq!(site.origin.count_of("/page/1"), 1);
    let seen = site.origin.requests();
    let told = |name: &str| seen.iter().any(|seen| seen.get(name).is_some());
    assert!(!told("available-dictionary") && !told("dictionary-id"), "the origin knows of none");
}

#[test]
fn documents_that_may_not_read_an_answer_get_it_without_a_dictionary() {
    let site = Site::start("dictionary = true");
    let dictionary = site.dictionary();
    site.coded("/page/1", "dcz", &[&dictionary.available()]);
    site.coded("/shared/1", "dcz", &[&dictionary.available()]);
    site.coded("/page/1", "br", &[]);
    site.coded("/shared/1", "br", &[]);
    for (target, lines, expected) in [
        ("/page/1", &["Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: no-cors"][..], "dcz"),
        ("/page/1", &["Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate"], "dcz"),
        ("/page/1", &["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"], "dcz"),
        ("/page/1", &["Sec-Fetch-Site: cross-site"], "dcz"),
        ("/page/1", &["Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: no-cors"], "br"),
        ("/page/1", &["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"], "br"),
        ("/page/1", &["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: websocket"], "br"),
        (
            "/page/1",
            &["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors", "Origin: https://a"],
            "br",
        ),
        ("/shared/1", &["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors"], "br"),
        (
            "/shared/1",
            &["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors", "Origin: https://a"],
            "dcz",
        ),
        (
            "/shared/1",
            &["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors", "Origin: https://b"],
            "br",
        ),
    ] {
        let asked = ["Accept-Encoding: br, dcz", &dictionary.available()];
        let answer = site.get(target, &[&asked[..], lines].concat());
        assert_eq!(answer.get("content-encoding"), Some(expected), "{target} {lines:?}");
    }
}

#[test]
fn other_sites_and_plain_http_get_none() {
    let site = Site::start("dictionary = true");
    let dictionary = site.dictionary();
    site.coded("/page/1", "dcz", &[&dictionary.available()]);
    let asked = ["Accept-Encoding: zstd, dcz", &dictionary.available()];
    for host in ["other.test", "site.test:8443"] {
        let ask =
            || site.wire().ask("GET", "/page/1", &[&format!("Host: {host}"), asked[0], asked[1]]);
        let answer = wait_for("zstd of the other site", || {
            Some(ask()).filter(|answer| answer.get("content-encoding").is_some())
        });
        assert_eq!(answer.get("content-encoding"), Some("zstd"), "{host}");
    }
    let plain = || get_with(site.larder.addr(), "/page/1", &asked);
    let answer = wait_for("zstd over HTTP", || {
        Some(plain()).filter(|answer| answer.get("content-encoding").is_some())
    });
    assert_eq!(answer.get("content-encoding"), Some("zstd"));
    get_with(site.larder.addr(), PATH, &[]).assert_status(404);
}

#[test]
fn a_purge_takes_the_forms_and_the_dictionary() {
    let site = Site::start("dictionary = true\npurge = { from = [\"127.0.0.1\"] }");
    let dictionary = site.dictionary();
    let available = dictionary.available();
    site.coded("/page/1", "dcz", &[&available]);
    site.version(2);
    site.ask("PURGE", "/page/1", &[]).assert_status(200);
    site.get("/page/1", &["Accept-Encoding: dcz", &available]).assert_forwarded();
    let answer = site.coded("/page/1", "dcz", &[&available]);
    let content = String::from_utf8(dictionary.decoded(&answer)).unwrap();
    assert!(content.contains("version 2"), "{content}");
    // Without its page a dictionary is not used any more.
    site.ask("PURGE", PATH, &[]).assert_status(200);
    let answer = site.get("/page/1", &["Accept-Encoding: dcz", &available]);
    assert_eq!((answer.get("content-encoding"), answer.status), (None, 200));
    // The next generation is of what the documents are now. Clients with the one before get their
    // answers all the same.
    for number in 0..12 {
        site.ask("PURGE", &format!("/page/{number}"), &[]).assert_status(200);
    }
    let next = site.dictionary();
    assert_ne!(next.content, dictionary.content);
    for generation in [&dictionary, &next] {
        let answer = site.coded("/page/1", "dcb", &[&generation.available()]);
        let content = String::from_utf8(generation.decoded(&answer)).unwrap();
        assert!(content.contains("version 2"), "{content}");
        assert_eq!(answer.get("etag"), Some(&*format!("\"two-dcb-{}\"", generation.short())));
    }
}

#[test]
fn dictionaries_that_the_origin_names_are_used_for_what_they_match() {
    let site = Site::start("dictionary = true\npurge = { from = [\"127.0.0.1\"] }");
    let answer = site.get("/app/v1.js", &[]);
    assert_eq!(answer.get("use-as-dictionary"), Some("match=\"/app/*.js\", id=\"app\""));
    let dictionary = Dictionary { content: answer.body };
    let available = dictionary.available();
    for coding in ["dcz", "dcb"] {
        let answer = site.coded("/app/v2.js", coding, &[&available, "Dictionary-ID: \"app\""]);
        assert!(dictionary.decoded(&answer) == page("/app/v2.js").as_bytes());
        assert!(answer.body.len() * 5 < page("/app/v2.js").len());
    }
    let without = |target: &str, available: &str| {
        let asked = ["Accept-Encoding: dcz, zstd", available];
        site.coded(target, "zstd", &asked);
        site.settled();
        let answer = site.get(target, &asked);
        assert_eq!(answer.get("content-encoding"), Some("zstd"), "{target}, {available}");
        let decoded = zstd::stream::decode_all(&answer.body[..]).unwrap();
        assert!(decoded == page(target).as_bytes(), "{target}");
    };
    // Its pattern does not match these.
    without("/page/2", &available);
    without("/app/style.css", &available);
    // An answer that is private, of another type, or with a pattern that is not known.
    for target in ["/use/private", "/use/cookie", "/use/type", "/use/pattern", "/use/broken"] {
        let other = Dictionary { content: site.get(target, &[]).body };
        without("/page/2", &other.available());
    }
    // A 304 makes its page another write, with the same content.
    site.get("/app/v1.js", &["Cache-Control: no-cache"]);
    assert_eq!(site.origin.count_of("/app/v1.js"), 2);
    site.coded("/app/v3.js", "dcz", &[&available]);
    site.ask("PURGE", "/app/v1.js", &[]).assert_status(200);
    without("/app/v3.js", &available);
}

#[test]
fn pages_for_some_are_in_no_dictionary_and_compressed_with_none() {
    let site = Site::start(
        "dictionary = true\nallow_set_cookie = true\nvary_cookies = [\"user\"]\n\
         [[site.rule]]\npath = \"/some/private/*\"\ncache = true",
    );
    // Twelve pages of each kind say the same; that is in no page for all.
    let kinds = [
        ("/some/private", None),
        ("/some/set", None),
        ("/some/vary", Some("Cookie: user=1")),
        ("/some/authorized", Some("Authorization: Basic eDp5")),
    ];
    for (kind, field) in kinds {
        for number in 0..12 {
            let target = format!("{kind}/{number}");
            let answer = site.coded(&target, "br", &field.into_iter().collect::<Vec<_>>());
            assert!(answer.is_hit(), "{answer:?}");
        }
    }
    let dictionary = site.dictionary();
    let text = String::from_utf8(dictionary.content.clone()).unwrap();
    assert!(!text.contains("for some"), "{text}");
    for (kind, field) in kinds {
        let (target, available) = (format!("{kind}/1"), dictionary.available());
        let fields: Vec<&str> =
            field.into_iter().chain(["Accept-Encoding: dcz, dcb", &available]).collect();
        for _ in 0..2 {
            let answer = site.get(&target, &fields);
            assert_eq!(answer.assert_hit().get("content-encoding"), None, "{target}");
            site.settled();
        }
    }
    // The same page for those without the cookie is for all.
    let answer = site.coded("/some/vary/1", "dcz", &[&dictionary.available()]);
    assert!(!String::from_utf8(dictionary.decoded(&answer)).unwrap().contains("for some"));
}

#[test]
fn pages_in_one_coding_are_compressed_with_dictionaries_too() {
    let site = Site::start("dictionary = true\nstore_forms = \"one\"");
    let dictionary = site.dictionary();
    let available = dictionary.available();
    for coding in ["dcz", "dcb"] {
        let answer = site.coded("/page/5", coding, &[&available]);
        assert!(dictionary.decoded(&answer) == page("/page/5").as_bytes());
        answer.assert_hit();
    }
    let other = site.coded("/page/5", "gzip", &[&available]);
    assert!(dictionary.decoded(&other) == page("/page/5").as_bytes());
}

#[test]
fn without_the_setting_nothing_changes() {
    let site = Site::start("");
    let answer = site.coded("/page/1", "zstd", &[]);
    assert_eq!((answer.get("link"), answer.get("vary")), (None, Some("Accept-Encoding")));
    let content = site.get("/app/v1.js", &[]).body;
    let available = Dictionary { content }.available();
    let asked = ["Accept-Encoding: zstd, dcz, dcb", &*available];
    let other = site.coded("/app/v2.js", "zstd", &asked);
    assert!(other.is_hit() && other.get("vary") == Some("Accept-Encoding"));
    site.get(PATH, &[]);
    assert_eq!(site.origin.count_of(PATH), 1, "the path is the origin's");
}

#[test]
fn mistakes_are_reported() {
    let check = |lines: &str, https: &str| {
        let scratch = Scratch::new("check");
        let text = format!("{https}[[site]]\norigin = \"http://127.0.0.1:9\"\n{lines}\n");
        let file = scratch.write("larder.toml", &text);
        let (status, out, err) = run(&["check", "--config", file.to_str().unwrap()]);
        (status.success(), format!("{out}{err}"))
    };
    let coded = "compress = [\"br\"]\n";
    let (good, said) = check(&format!("{coded}dictionary = true"), "");
    assert!(good && said.contains("over HTTPS alone"), "{said}");
    let proxied = "[http]\ntrusted_proxies = [\"127.0.0.1\"]\n";
    let (good, said) = check(&format!("{coded}dictionary = {{ size = \"64KiB\" }}"), proxied);
    assert!(good && !said.contains("dictionary"), "{said}");
    let (good, said) = check("compress = [\"gzip\"]\ndictionary = true", proxied);
    assert!(good && said.contains("neither zstd nor br"), "{said}");
    let (good, said) = check("compress = [\"gzip\"]\ndictionary = false", "");
    assert!(good && !said.contains("neither zstd nor br"), "{said}");
    for wrong in ["dictionary = 5", "dictionary = { pages = 1 }", "dictionary = { sizes = 1 }"] {
        let (good, said) = check(&format!("{coded}{wrong}"), proxied);
        assert!(!good && said.contains("larder.toml"), "{wrong}: {said}");
    }
}

/// The answers of both generations differ by their tags.
#[test]
fn each_answer_has_a_tag_of_its_own() {
    let site = Site::start("dictionary = true");
    let dictionary = site.dictionary();
    let script = Dictionary { content: site.get("/app/v1.js", &[]).body };
    let tags: Vec<String> = [("dcz", &dictionary), ("dcb", &dictionary), ("dcz", &script)]
        .into_iter()
        .map(|(coding, by)| tag(&site.coded("/app/v2.js", coding, &[&by.available()])))
        .chain(["zstd", "br", "gzip"].map(|coding| tag(&site.coded("/app/v2.js", coding, &[]))))
        .chain([tag(&site.get("/app/v2.js", &[]))])
        .collect();
    let mut distinct = tags.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), 7, "{tags:?}");
}

fn tag(answer: &Answer) -> String {
    answer.get("etag").unwrap().to_owned()
}

/// Chromium reads the page in each of the codings that it names, without a dictionary.
#[test]
fn a_browser_reads_every_coding() {
    let rules: String = ["zstd", "br", "gzip"]
        .map(|coding| {
            format!("[[site.rule]]\npath = \"/live/{coding}\"\ncompress = [\"{coding}\"]\n")
        })
        .concat();
    let site = Site::start(&rules);
    let url = format!("https://{}", site.larder.face("https"));
    in_a_browser("codings.mjs", &[&url, &site.certificate()]);
}

/// Runs a script that drives Chromium.
#[track_caller]
fn in_a_browser(script: &str, words: &[&str]) {
    let room = source_root().join("tests/dashboard");
    assert!(room.join("node_modules").is_dir(), "not installed: run scripts/test-deps.sh");
    let output = Command::new("node").arg(script).args(words).current_dir(room).output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && said.contains("ok"), "{said}");
}

/// Chromium decodes what it asked for, and shows the page.
#[test]
fn a_browser_fetches_the_dictionary_and_uses_it() {
    let site = Site::start("dictionary = true");
    let address = site.larder.face("https");
    site.dictionary_of(&address.to_string());
    in_a_browser("dictionary.mjs", &[&format!("https://{address}"), &site.certificate()]);
    assert_eq!(site.origin.count_of(PATH), 0);
}
