//! Purging: who may, what goes, and what stays. Unsafe methods invalidate too (RFC 9111 4.4).

#![allow(clippy::unwrap_used)]

use larder_tests::{Answer, Gate, Larder, Origin, get, get_with, larder, wait_until};

const FRESH: &[&str] = &["Cache-Control: max-age=600"];

/// Each answer names the request's number, so that a page fetched anew shows.
fn numbered(fields: &'static [&'static str]) -> Origin {
    Origin::start(move |seen, reply| {
        reply.ok(fields, format!("{} {}", seen.target, seen.number));
    })
}

/// A Larder that lets this machine purge.
fn allowed(origin: &Origin) -> Larder {
    Larder::site(&origin.url(), "purge = { from = [\"127.0.0.1\"] }")
}

fn purge(larder: &Larder, target: &str, fields: &[&str]) -> Answer {
    larder.connect().ask("PURGE", target, &[&["Host: site.test"], fields].concat())
}

#[track_caller]
fn count(answer: &Answer) -> u64 {
    let json: serde_json::Value =
        serde_json::from_slice(&answer.body).unwrap_or_else(|e| panic!("{e}: {answer:?}"));
    assert_eq!(answer.status, 200, "{answer:?}");
    json["purged"].as_u64().unwrap()
}

#[test]
fn nobody_may_purge_by_default() {
    let origin = numbered(FRESH);
    let larder = Larder::before(&origin.url());
    get(larder.addr(), "/");
    assert_eq!(purge(&larder, "/", &[]).status, 403);
    get(larder.addr(), "/").assert_hit();
    assert_eq!(origin.count(), 1, "PURGE itself never reaches the origin");
}

#[test]
fn only_listed_addresses_may_purge() {
    let origin = numbered(FRESH);
    let larder = Larder::site(&origin.url(), "purge = { from = [\"192.0.2.0/24\"] }");
    get(larder.addr(), "/");
    assert_eq!(purge(&larder, "/", &[]).status, 403);
    assert_eq!(
        purge(&larder, "/", &["X-Forwarded-For: 192.0.2.1"]).status,
        403,
        "a client's word is no permission"
    );
    get(larder.addr(), "/").assert_hit();
}

#[test]
fn a_token_permits_and_another_does_not() {
    let origin = numbered(FRESH);
    let scratch = larder_tests::Scratch::new("token");
    let file = scratch.write("purge.token", "right-token\n");
    let larder =
        Larder::site(&origin.url(), &format!("purge = {{ token_file = \"{}\" }}", file.display()));
    get(larder.addr(), "/");
    for wrong in [
        &[][..],
        &["Authorization: Bearer wrong-token"],
        &["Authorization: Basic right-token"],
        &["Authorization: Bearer "],
    ] {
        assert_eq!(purge(&larder, "/", wrong).status, 403, "{wrong:?}");
    }
    get(larder.addr(), "/").assert_hit();
    assert_eq!(count(&purge(&larder, "/", &["Authorization: Bearer right-token"])), 1);
    get(larder.addr(), "/").assert_forwarded();
}

#[test]
fn a_purged_page_is_fetched_anew() {
    let origin = numbered(FRESH);
    let larder = allowed(&origin);
    get(larder.addr(), "/a");
    get(larder.addr(), "/b");
    assert_eq!(count(&purge(&larder, "/a", &[])), 1);
    assert_eq!(get(larder.addr(), "/a").text(), "/a 2");
    get(larder.addr(), "/b").assert_hit();
}

#[test]
fn purging_what_is_not_there_is_404() {
    let origin = numbered(FRESH);
    let larder = allowed(&origin);
    assert_eq!(purge(&larder, "/never", &[]).status, 404);
    get(larder.addr(), "/a");
    purge(&larder, "/a", &[]);
    assert_eq!(purge(&larder, "/a", &[]).status, 404, "twice");
    assert_eq!(purge(&larder, "/a?query", &[]).status, 404);
}

#[test]
fn a_purge_takes_every_variant() {
    let origin = Origin::start(|seen, reply| {
        reply.ok(&["Cache-Control: max-age=600", "Vary: X-Kind"], seen.number.to_string());
    });
    let larder = allowed(&origin);
    let ask = |kind: &str| larder.connect().get("/", &[&format!("X-Kind: {kind}")]);
    ask("a");
    ask("b");
    assert_eq!(purge(&larder, "/", &[]).status, 200);
    assert_eq!((ask("a").text(), ask("b").text()), ("2", "3"));
}

#[test]
fn a_soft_purge_leaves_the_page_for_bad_times() {
    let origin = Origin::serving(&["Cache-Control: max-age=600, stale-if-error=600"], "page");
    let larder = allowed(&origin);
    get(larder.addr(), "/");
    assert_eq!(count(&purge(&larder, "/", &["Larder-Soft-Purge: 1"])), 1);
    get(larder.addr(), "/").assert_forwarded();
    assert_eq!(origin.count(), 2);
    assert_eq!(count(&purge(&larder, "/", &["Larder-Soft-Purge: 1"])), 1);
    origin.stop();
    assert_eq!(get(larder.addr(), "/").text(), "page");
}

/// Its windows of staleness begin with the purge, not with each request after it.
#[test]
fn a_softly_purged_page_is_used_for_its_window_alone() {
    let fields = ["Cache-Control: max-age=600, stale-while-revalidate=3, stale-if-error=0"];
    let origin = Origin::start(move |seen, reply| {
        match seen.number {
            0 => reply.ok(&fields, "page"),
            _ => reply.answer(503, &[], ""),
        };
    });
    let larder = allowed(&origin);
    get(larder.addr(), "/");
    assert_eq!(count(&purge(&larder, "/", &["Larder-Soft-Purge: 1"])), 1);
    wait_until("the window to be over", || get(larder.addr(), "/").status >= 500);
}

#[test]
fn a_soft_purged_page_is_validated() {
    let origin = Origin::start(|seen, reply| {
        match seen.get("if-none-match") {
            Some("\"1\"") => reply.head(304, &["Cache-Control: max-age=600", "ETag: \"1\""]),
            _ => reply.ok(&["Cache-Control: max-age=600", "ETag: \"1\""], "page"),
        };
    });
    let larder = allowed(&origin);
    get(larder.addr(), "/");
    purge(&larder, "/", &["Larder-Soft-Purge: 1"]);
    assert_eq!(get(larder.addr(), "/").text(), "page");
    assert!(origin.last().get("if-none-match").is_some());
    get(larder.addr(), "/").assert_hit();
}

#[test]
fn a_prefix_takes_what_lies_below_it() {
    let origin = numbered(FRESH);
    let larder = allowed(&origin);
    for target in ["/blog/1", "/blog/2?page=3", "/blogs", "/other"] {
        get(larder.addr(), target);
    }
    assert_eq!(count(&purge(&larder, "/blog/", &["Larder-Purge: prefix"])), 2);
    get(larder.addr(), "/blog/1").assert_forwarded();
    get(larder.addr(), "/blog/2?page=3").assert_forwarded();
    get(larder.addr(), "/blogs").assert_hit();
    get(larder.addr(), "/other").assert_hit();
    assert_eq!(purge(&larder, "/nothing/", &["Larder-Purge: prefix"]).status, 404);
}

#[test]
fn a_prefix_takes_pages_whatever_fields_are_in_their_keys() {
    let origin = numbered(FRESH);
    let larder = Larder::site(
        &origin.url(),
        "key_fields = [\"X-Tenant\"]\npurge = { from = [\"127.0.0.1\"] }",
    );
    for tenant in ["X-Tenant: a", "X-Tenant: b"] {
        get_with(larder.addr(), "/blog/1", &[tenant]);
    }
    get(larder.addr(), "/blog/1");
    // The purge carries one of the values itself.
    assert_eq!(count(&purge(&larder, "/blog/", &["Larder-Purge: prefix", "X-Tenant: a"])), 3);
    for tenant in ["X-Tenant: a", "X-Tenant: b"] {
        get_with(larder.addr(), "/blog/1", &[tenant]).assert_forwarded();
    }
}

/// Pages of one URL under three values of a field, and under the host that a proxy names.
fn keyed_pages(origin: &Origin) -> (Larder, [&'static str; 4]) {
    let larder = Larder::with_config(&format!(
        "[http]\ntrusted_proxies = [\"127.0.0.1\"]\n[[site]]\norigin = \"{}\"\nkey_fields = \
         [\"X-Tenant\"]\npurge = {{ from = [\"127.0.0.1\"] }}",
        origin.url()
    ));
    let keys = ["X-Tenant: a", "X-Tenant: b", "X-Other: none", "X-Forwarded-Host: www.test"];
    for field in keys {
        for target in ["/", "/?other"] {
            get_with(larder.addr(), target, &[field]);
            get_with(larder.addr(), target, &[field]).assert_hit();
        }
    }
    (larder, keys)
}

fn only_the_others_are_left(larder: &Larder, keys: [&str; 4]) {
    for field in keys {
        get_with(larder.addr(), "/", &[field]).assert_forwarded();
        get_with(larder.addr(), "/?other", &[field]).assert_hit();
    }
}

/// Also where it varies: the variants lie under keys of their own.
#[test]
fn a_purge_of_a_url_takes_its_pages_under_every_value_in_the_key() {
    for fields in [FRESH, &["Cache-Control: max-age=600", "Vary: Accept"]] {
        let origin = numbered(fields);
        let (larder, keys) = keyed_pages(&origin);
        assert_eq!(purge(&larder, "/", &["X-Tenant: c"]).status, 200);
        only_the_others_are_left(&larder, keys);
        assert_eq!(purge(&larder, "/nothing", &["X-Tenant: a"]).status, 404);
    }
}

#[test]
fn an_unsafe_request_takes_the_pages_of_its_url_under_every_value_in_the_key() {
    for method in ["POST", "PUT", "DELETE"] {
        let origin = numbered(FRESH);
        let (larder, keys) = keyed_pages(&origin);
        let fields = ["Host: site.test", "X-Tenant: c", "Content-Length: 0"];
        larder.connect().ask(method, "/", &fields).assert_status(200);
        only_the_others_are_left(&larder, keys);
    }
}

#[test]
fn a_prefix_stays_within_its_host() {
    let origin = numbered(FRESH);
    let larder = allowed(&origin);
    let other = |larder: &Larder| larder.connect().ask("GET", "/blog/1", &["Host: other.test"]);
    get(larder.addr(), "/blog/1");
    other(&larder);
    assert_eq!(count(&purge(&larder, "/", &["Larder-Purge: prefix"])), 1);
    other(&larder).assert_hit();
}

#[test]
fn a_tag_takes_what_carries_it() {
    let origin = Origin::start(|seen, reply| {
        let tags = match seen.target.as_str() {
            "/1" => "Surrogate-Key: article-1 author-a",
            "/2" => "Surrogate-Key: article-2 author-a",
            _ => "Surrogate-Key: article-3 author-b",
        };
        reply.ok(&["Cache-Control: max-age=600", tags], &seen.target);
    });
    let larder = allowed(&origin);
    for target in ["/1", "/2", "/3"] {
        get(larder.addr(), target);
    }
    assert_eq!(count(&purge(&larder, "/", &["Larder-Purge: tag", "Surrogate-Key: author-a"])), 2);
    get(larder.addr(), "/1").assert_forwarded();
    get(larder.addr(), "/2").assert_forwarded();
    get(larder.addr(), "/3").assert_hit();
    assert_eq!(
        count(&purge(&larder, "/", &["Larder-Purge: tag", "Surrogate-Key: article-1 article-3"])),
        2
    );
    get(larder.addr(), "/2").assert_hit();
    assert_eq!(purge(&larder, "/", &["Larder-Purge: tag", "Surrogate-Key: unknown"]).status, 404);
}

#[test]
fn purging_is_refused_when_it_makes_no_sense() {
    let origin = numbered(FRESH);
    let larder = allowed(&origin);
    get(larder.addr(), "/");
    assert_eq!(purge(&larder, "/", &["Larder-Purge: everything"]).status, 400);
    assert_eq!(purge(&larder, "/", &["Larder-Purge: tag"]).status, 400);
    get(larder.addr(), "/").assert_hit();
}

/// A page under way when the purge came was made from what is old by now.
#[test]
fn a_fetch_that_was_under_way_does_not_bring_back_what_was_purged() {
    let gate = Gate::closed();
    let door = gate.clone();
    let origin = Origin::start(move |seen, reply| {
        if seen.number == 0 {
            door.wait();
        }
        reply.ok(FRESH, seen.number.to_string());
    });
    let larder = allowed(&origin);
    let mut wire = larder.connect();
    wire.send_get("/", &["Host: site.test"]);
    origin.wait_for(1);
    purge(&larder, "/", &[]);
    gate.open();
    assert_eq!(wire.read().text(), "0");
    assert_eq!(get(larder.addr(), "/").text(), "1", "the old page came back after the purge");
}

#[test]
fn the_command_purges() {
    let origin = numbered(&["Cache-Control: max-age=600", "Surrogate-Key: tag-1"]);
    let larder = allowed(&origin);
    let server = larder.addr().to_string();
    let command = |args: &[&str]| {
        let all = [&["purge", "--server", &server], args].concat();
        let (status, stdout, stderr) = larder::run(&all);
        (status.code(), format!("{stdout}{stderr}"))
    };
    for (what, page) in [
        (&["http://site.test/a"][..], "/a"),
        (&["--prefix", "http://site.test/b/"], "/b/1"),
        (&["--tag", "tag-1", "--host", "site.test"], "/c"),
    ] {
        get(larder.addr(), page);
        get(larder.addr(), page).assert_hit();
        let (code, said) = command(what);
        assert!(code == Some(0) && said.contains("purged"), "{what:?}: {code:?} {said}");
        get(larder.addr(), page).assert_forwarded();
    }
    let (code, said) = command(&["http://site.test/never"]);
    assert!(code != Some(0) && said.contains("nothing was there"), "{code:?} {said}");
}

#[test]
fn the_command_says_when_it_may_not() {
    let origin = numbered(FRESH);
    let larder = Larder::before(&origin.url());
    let (status, _, stderr) =
        larder::run(&["purge", "--server", &larder.addr().to_string(), "http://site.test/"]);
    assert!(!status.success() && stderr.contains("refuses"), "{status} {stderr}");
}

fn unsafe_method(larder: &Larder, method: &str, target: &str) -> Answer {
    larder.connect().ask(method, target, &["Host: site.test", "Content-Length: 0"])
}

#[test]
fn an_unsafe_method_invalidates_its_page() {
    for method in ["POST", "PUT", "DELETE", "PATCH", "MADE-UP"] {
        let origin = numbered(FRESH);
        let larder = Larder::before(&origin.url());
        get(larder.addr(), "/a");
        get(larder.addr(), "/b");
        unsafe_method(&larder, method, "/a");
        get(larder.addr(), "/a").assert_forwarded();
        get(larder.addr(), "/b").assert_hit();
    }
}

/// RFC 9875.
#[test]
fn an_unsafe_method_invalidates_the_groups_that_its_answer_names() {
    let origin = Origin::start(|seen, reply| {
        let groups = match (&*seen.method, seen.path()) {
            ("GET", "/post") => "Cache-Group-Invalidation: \"a\"",
            ("GET", "/c") => "Cache-Groups: \"a\", no-string",
            ("GET", path) if path.starts_with("/a") => "Cache-Groups: \"x, y\", \"a\";p=1",
            ("GET", _) => "Cache-Groups: \"b\"",
            (_, "/fails") => {
                reply.answer(500, &["Cache-Group-Invalidation: \"a\""], "");
                return;
            }
            (_, "/odd") => "Cache-Group-Invalidation: \"a\", a",
            _ => "Cache-Group-Invalidation: \"b c\", \"a\"",
        };
        reply.ok(&["Cache-Control: max-age=600", groups], "page");
    });
    let config = format!(
        "[[site]]\nhosts = [\"site.test\", \"other.test\"]\norigin = \"{}\"\n",
        origin.url()
    );
    let larder = Larder::with_config(&config);
    let other = || larder.connect().ask("GET", "/a", &["Host: other.test"]);
    let pages = ["/a/1", "/a/2", "/b", "/c", "/post"];
    for page in pages {
        get(larder.addr(), page);
    }
    other();
    unsafe_method(&larder, "POST", "/fails");
    unsafe_method(&larder, "POST", "/odd");
    for page in pages {
        get(larder.addr(), page).assert_hit();
    }
    unsafe_method(&larder, "POST", "/changes");
    for page in ["/a/1", "/a/2"] {
        get(larder.addr(), page).assert_forwarded();
    }
    for page in ["/b", "/c", "/post"] {
        get(larder.addr(), page).assert_hit();
    }
    other().assert_hit();
}

#[test]
fn an_unsafe_method_that_failed_invalidates_nothing() {
    let origin = Origin::start(|seen, reply| {
        let status = if seen.method == "POST" { 500 } else { 200 };
        reply.answer(status, FRESH, "page");
    });
    let larder = Larder::before(&origin.url());
    get(larder.addr(), "/");
    unsafe_method(&larder, "POST", "/");
    get(larder.addr(), "/").assert_hit();
}

#[test]
fn location_and_content_location_are_invalidated_on_the_same_host_only() {
    for field in ["Location", "Content-Location"] {
        let origin = Origin::start(move |seen, reply| {
            let told = if seen.path() == "/post-here" {
                "/a".to_owned()
            } else {
                "http://other.test/a".to_owned()
            };
            let line = format!("{field}: {told}");
            if seen.method == "POST" {
                reply.answer(201, &[&line], "")
            } else {
                reply.ok(FRESH, "page")
            };
        });
        let larder = Larder::before(&origin.url());
        let other = || larder.connect().ask("GET", "/a", &["Host: other.test"]);
        get(larder.addr(), "/a");
        other();
        unsafe_method(&larder, "POST", "/post-elsewhere");
        get(larder.addr(), "/a").assert_hit();
        other().assert_hit();
        unsafe_method(&larder, "POST", "/post-here");
        get(larder.addr(), "/a").assert_forwarded();
    }
}

#[test]
fn safe_methods_invalidate_nothing() {
    let origin = numbered(FRESH);
    let larder = Larder::before(&origin.url());
    get(larder.addr(), "/");
    for method in ["HEAD", "OPTIONS", "TRACE"] {
        larder.connect().ask(method, "/", &["Host: site.test"]);
    }
    get(larder.addr(), "/").assert_hit();
}

#[test]
fn memory_of_purged_pages_is_used_again() {
    let body = "x".repeat(1_000_000);
    let origin = Origin::start(move |_, reply| {
        reply.ok(FRESH, &body);
    });
    let larder = allowed(&origin);
    for round in 0..3 {
        for n in 0..40 {
            assert_eq!(get(larder.addr(), &format!("/{n}")).body.len(), 1_000_000, "round {round}");
        }
        purge(&larder, "/", &["Larder-Purge: prefix"]);
    }
    wait_until("a page to be kept", || {
        get(larder.addr(), "/again");
        get(larder.addr(), "/again").is_hit()
    });
}
