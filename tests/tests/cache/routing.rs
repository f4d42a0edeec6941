//! Rules that send requests elsewhere, and change what goes to the origin and what comes back.

#![allow(clippy::unwrap_used)]

use larder_tests::{Larder, Origin, Scratch, get, get_with, larder::binary};
use std::process::Command;

const FRESH: &[&str] = &["Cache-Control: max-age=1000"];

fn before(main: &Origin, rules: &str) -> Larder {
    Larder::with_config(&format!("[[site]]\norigin = \"{}\"\n{rules}", main.url()))
}

#[test]
fn a_path_has_an_origin_of_its_own() {
    let (main, api) = (Origin::serving(FRESH, "main"), Origin::serving(FRESH, "api"));
    let rule = format!(
        "[[site.rule]]\npath = \"/api/*\"\norigin = {{ url = \"{}\", host_header = \"api.inside\" }}\n",
        api.url()
    );
    let larder = before(&main, &rule);
    assert_eq!(get(larder.addr(), "/page").text(), "main");
    assert_eq!(get(larder.addr(), "/api/users").text(), "api");
    assert_eq!(api.last().get("host"), Some("api.inside"));
    get(larder.addr(), "/api/users").assert_hit();
    assert_eq!((main.count(), api.count()), (1, 1));
}

#[test]
fn several_servers_answer_for_a_path() {
    let main = Origin::serving(FRESH, "main");
    let (one, other) = (Origin::serving(FRESH, "one"), Origin::serving(FRESH, "other"));
    let rule = format!(
        "[[site.rule]]\npath = \"/api/*\"\norigin = {{ url = [\"{}\", \"{}\"], balance = \
         \"round-robin\" }}\n",
        one.url(),
        other.url()
    );
    let larder =
        Larder::with_config(&format!("threads = 1\n[[site]]\norigin = \"{}\"\n{rule}", main.url()));
    for number in 0..10 {
        get(larder.addr(), &format!("/api/{number}"));
    }
    assert_eq!((one.count(), other.count(), main.count()), (5, 5, 0));
}

#[test]
fn prefixes_change_for_the_origin_and_not_in_the_key() {
    let origin = Origin::start(|seen, reply| {
        reply.ok(FRESH, &seen.target);
    });
    let larder = before(
        &origin,
        "[[site.rule]]\npath = \"/shop/*\"\nstrip_prefix = \"/shop\"\nadd_prefix = \"/v2\"\n",
    );
    assert_eq!(get(larder.addr(), "/shop/cart?x=1").text(), "/v2/cart?x=1");
    get(larder.addr(), "/shop/cart?x=1").assert_hit();
    assert_eq!(get(larder.addr(), "/v2/cart?x=1").text(), "/v2/cart?x=1");
    assert_eq!(origin.count(), 2, "another key");
    assert_eq!(get(larder.addr(), "/shops/1").text(), "/shops/1");
}

#[test]
fn no_dots_lead_out_of_a_prefix() {
    let origin = Origin::serving(FRESH, "page");
    let larder = before(
        &origin,
        "[[site.rule]]\npath = \"/shop/*\"\nstrip_prefix = \"/shop\"\n[[site.rule]]\npath = \
         \"/public/*\"\nadd_prefix = \"/v2\"\n",
    );
    for path in [
        "/shop/../admin",
        "/shop/%2e%2e/admin",
        "/shop/..%2fadmin",
        "/shop/a/./b",
        "/public/../../admin",
        "/public/..;/admin",
        "/public/..",
    ] {
        assert_eq!(get(larder.addr(), path).status, 400, "{path}");
    }
    assert_eq!(origin.count(), 0);
    assert_eq!(get(larder.addr(), "/shop/a..b/...?x=/../").text(), "page");
    assert_eq!(origin.last().target, "/a..b/...?x=/../");
}

#[test]
fn a_directory_is_named_as_the_visitor_does() {
    let scratch = Scratch::new("prefix");
    std::fs::create_dir_all(scratch.file("v2/sub")).unwrap();
    scratch.write("v2/index.html", "root");
    scratch.write("v2/sub/index.html", "below");
    let larder = Larder::with_config(&format!(
        "[[site]]\norigin = \"files:{}\"\n[[site.rule]]\npath = [\"/shop\", \
         \"/shop/*\"]\nstrip_prefix = \"/shop\"\nadd_prefix = \"/v2\"\n",
        scratch.path().display()
    ));
    for (path, place) in [("/shop/sub?a=b", "/shop/sub/?a=b"), ("/shop?c", "/shop/?c")] {
        let moved = get(larder.addr(), path);
        assert_eq!((moved.status, moved.get("location")), (301, Some(place)), "{path}");
    }
    assert_eq!(get(larder.addr(), "/shop/sub/").text(), "below");
    assert_eq!(get(larder.addr(), "/shop/").text(), "root");
    assert_eq!(get(larder.addr(), "/v2/sub").get("location"), Some("/v2/sub/"));
}

#[test]
fn fields_are_set_added_and_removed_both_ways() {
    let origin = Origin::serving(
        &["Cache-Control: max-age=1000", "X-Powered-By: PHP", "Link: </a>", "X-Old: 1", "X-Old: 2"],
        "page",
    );
    let larder = before(
        &origin,
        "request_fields = [\"X-Env: test\", \"-User-Agent\"]\nresponse_fields = [\"-X-Powered-By\", \
         \"+Link: </b>\", \"X-Old: new\", \"X-Frame-Options: DENY\"]\n[[site.rule]]\npath = \
         \"/other\"\nresponse_fields = [\"X-Other: yes\"]\n",
    );
    for round in 0..2 {
        let answer = get_with(larder.addr(), "/page", &["User-Agent: me", "X-Env: mine"]);
        assert_eq!(answer.text(), "page");
        assert_eq!(answer.get("x-powered-by"), None, "{round}");
        assert_eq!(answer.fields.joined("link"), "</a>, </b>", "{round}");
        assert_eq!(answer.fields.joined("x-old"), "new", "{round}");
        assert_eq!(answer.get("x-frame-options"), Some("DENY"), "{round}");
    }
    assert_eq!(origin.count(), 1);
    assert_eq!((origin.last().get("x-env"), origin.last().get("user-agent")), (Some("test"), None));
    let other = get(larder.addr(), "/other");
    assert_eq!((other.get("x-other"), other.get("x-powered-by")), (Some("yes"), Some("PHP")));
}

#[test]
fn a_304_adds_no_field_a_second_time() {
    let origin = Origin::start(|seen, reply| {
        if seen.get("if-none-match").is_some() {
            reply.head(304, &["ETag: \"1\"", "Cache-Control: max-age=1000"]);
        } else {
            let fields = ["ETag: \"1\"", "Cache-Control: max-age=1", "Age: 5", "Link: </a>"];
            reply.ok(&fields, "page");
        }
    });
    let larder =
        before(&origin, "grace = \"0s\"\nresponse_fields = [\"+Link: </b>\", \"X-Set: 1\"]\n");
    for _ in 0..3 {
        let answer = get(larder.addr(), "/page");
        assert_eq!(answer.fields.joined("link"), "</a>, </b>");
        assert_eq!(answer.fields.joined("x-set"), "1");
    }
    assert_eq!(origin.count(), 2, "a page and its validation");
}

#[test]
fn what_the_key_does_not_know_is_not_stored() {
    let (main, beta) = (Origin::serving(FRESH, "main"), Origin::serving(FRESH, "beta"));
    let rule = format!(
        "[[site.rule]]\ncookie = \"beta\"\norigin = \"{}\"\n[[site.rule]]\nheader = \"X-Old: *\"\n\
         response_fields = [\"X-For: old\"]\n[[site.rule]]\npath = \"/*\"\npass = false\n",
        beta.url()
    );
    let larder = before(&main, &rule);
    assert_eq!(get_with(larder.addr(), "/", &["Cookie: beta=1"]).text(), "beta");
    assert_eq!(get(larder.addr(), "/").text(), "main");
    get(larder.addr(), "/").assert_hit();
    assert_eq!(get_with(larder.addr(), "/", &["Cookie: beta=1"]).text(), "beta");
    assert_eq!(get_with(larder.addr(), "/", &["X-Old: 1"]).get("x-for"), Some("old"));
    assert_eq!(get(larder.addr(), "/").get("x-for"), None);
    assert_eq!((main.count(), beta.count()), (2, 2));
}

#[test]
fn a_page_is_elsewhere() {
    let origin = Origin::serving(FRESH, "page");
    let larder = before(
        &origin,
        "[[site.rule]]\npath = \"/old/*\"\nredirect = \"301 https://new.example.org$uri\"\n\
         [[site.rule]]\npath = \"/here\"\nredirect = \"/there\"\n",
    );
    let moved = get(larder.addr(), "/old/page?x=1");
    assert_eq!(moved.status, 301);
    assert_eq!(moved.get("location"), Some("https://new.example.org/old/page?x=1"));
    let there = get(larder.addr(), "/here");
    assert_eq!((there.status, there.get("location")), (302, Some("/there")));
    assert_eq!(origin.count(), 0);
    assert_eq!(get(larder.addr(), "/page").text(), "page");
}

#[test]
fn mistakes_in_rules_are_told() {
    for (line, expected) in [
        ("redirect = \"$uri\"", "a place such as"),
        ("redirect = \"/$uri\"", "a place such as"),
        ("redirect = \"https://$uri\"", "a place such as"),
        ("redirect = \"200 /x\"", "a place such as"),
        ("request_fields = \"Content-Length: 1\"", "Larder writes"),
        ("request_fields = \"X-A: b\\nc\"", "a field such as"),
        ("response_fields = \"-Transfer-Encoding\"", "Larder writes"),
        ("response_fields = \"-Via\"", "Larder writes"),
        ("response_fields = \"Content-Encoding: gzip\"", "Larder writes"),
        ("request_fields = \"-CDN-Loop\"", "Larder writes"),
        ("strip_prefix = \"api\"", "a path such as"),
    ] {
        let scratch = Scratch::new("rule");
        let text =
            format!("[[site]]\norigin = \"http://a\"\n[[site.rule]]\npath = \"/x\"\n{line}\n");
        let file = scratch.write("larder.toml", &text);
        let output = Command::new(binary()).arg("check").arg(&file).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(expected), "{line}: {text}");
    }
}
