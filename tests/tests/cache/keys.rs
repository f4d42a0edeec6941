//! Which requests share a page, and which must not: key confusion, cache deception, unkeyed input.

use larder_tests::{Larder, Origin, get, get_with};

/// Shows what the origin was asked for.
fn echo() -> (Origin, Larder) {
    let origin = Origin::start(|seen, reply| {
        let host = seen.get("host").unwrap_or("none");
        reply.ok(&["Cache-Control: max-age=600"], format!("{host} {}", seen.target));
    });
    let larder = Larder::before(&origin.url());
    (origin, larder)
}

#[test]
fn hosts_have_pages_of_their_own() {
    let (origin, larder) = echo();
    for host in ["a.test", "b.test", "a.test:8080"] {
        for _ in 0..2 {
            let answer = larder.connect().ask("GET", "/", &[&format!("Host: {host}")]);
            assert_eq!(answer.text(), format!("{host} /"));
        }
    }
    assert_eq!(origin.count(), 3);
}

#[test]
fn one_host_in_several_spellings_is_one_host() {
    let (origin, larder) = echo();
    for host in ["site.test", "SITE.test", "site.test:80", "site.test."] {
        larder.connect().ask("GET", "/", &[&format!("Host: {host}")]).assert_status(200);
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn paths_and_queries_have_pages_of_their_own() {
    let (origin, larder) = echo();
    let targets = [
        "/",
        "//",
        "/a",
        "/A",
        "/a/",
        "//a",
        "/a//",
        "/a?",
        "/a?b",
        "/a?b=",
        "/a?b=c",
        "/a?B=c",
        "/a?b=c&d=e",
        "/a?d=e&b=c",
        "/a%2fb",
        "/a/b",
        "/a%2Fb",
        "/a;b",
        "/a%3bb",
        "/a/./b",
        "/a/../b",
        "/b",
        "/a%00",
        "/a.css",
        "/a/x.css",
        "/a;x.css",
        "/a?x.css",
        "/a%3Fx.css",
        "/%61",
        "/a+b",
        "/a%20b",
    ];
    for target in targets {
        for _ in 0..2 {
            assert_eq!(get(larder.addr(), target).text(), format!("site.test {target}"));
        }
    }
    let seen: Vec<_> = origin.requests().into_iter().map(|r| r.target).collect();
    assert_eq!(seen, targets, "each was asked for once, as it was written");
}

/// Parts must not flow into each other: host and path, path and query.
#[test]
fn parts_of_the_key_cannot_be_shifted() {
    let (_origin, larder) = echo();
    let ask =
        |host: &str, target: &str| larder.connect().ask("GET", target, &[&format!("Host: {host}")]);
    assert_eq!(ask("a.test", "/b.test/").text(), "a.test /b.test/");
    assert_eq!(ask("a.test", "/b.test").text(), "a.test /b.test");
    assert_eq!(ask("a", "/.test/x").text(), "a /.test/x");
    assert_eq!(ask("a.test", "/x").text(), "a.test /x");
    assert_eq!(ask("a.test:8080", "/x").text(), "a.test:8080 /x");
}

/// The trick of cache deception: a private page under a name that looks like a file. It is the
/// answer that decides.
#[test]
fn a_name_like_a_file_makes_nothing_cacheable() {
    let origin = Origin::start(|seen, reply| {
        reply.ok(&["Cache-Control: private"], format!("secret {}", seen.number));
    });
    let larder = Larder::before(&origin.url());
    for target in [
        "/account.css",
        "/account/x.css",
        "/account;x.css",
        "/account%00.css",
        "/account%2f..%2fx.js",
        "/account?x.png",
    ] {
        let first = get_with(larder.addr(), target, &["Cookie: session=1"]);
        let second = get(larder.addr(), target);
        assert_ne!(first.text(), second.text(), "{target}");
    }
}

/// Fields that change what an origin answers but are not in the key must not come from clients.
#[test]
fn forwarding_fields_of_clients_cannot_poison() {
    let origin = Origin::start(|seen, reply| {
        let shown: Vec<_> =
            ["x-forwarded-host", "x-forwarded-proto", "x-forwarded-port", "forwarded"]
                .map(|n| seen.fields.joined(n))
                .to_vec();
        reply.ok(&["Cache-Control: max-age=600"], shown.join(" "));
    });
    let larder = Larder::before(&origin.url());
    let fields = [
        "X-Forwarded-Host: evil.test",
        "X-Forwarded-Proto: evil",
        "X-Forwarded-Port: 666",
        "Forwarded: host=evil.test",
    ];
    assert!(!get_with(larder.addr(), "/", &fields).text().contains("evil"));
    assert!(!get(larder.addr(), "/").text().contains("evil"));
}

/// Oversized or odd fields make many an origin fail; its error must not become everybody's page.
#[test]
fn an_error_provoked_by_one_client_is_not_kept() {
    for status in [400, 403, 413, 431, 500, 502, 503] {
        let origin = Origin::start(move |seen, reply| {
            match seen.get("x-odd") {
                Some(_) => reply.answer(status, &[], "provoked"),
                None => reply.ok(&["Cache-Control: max-age=600"], "page"),
            };
        });
        let larder = Larder::before(&origin.url());
        assert_eq!(get_with(larder.addr(), "/", &["X-Odd: 1"]).status, status);
        assert_eq!(get(larder.addr(), "/").text(), "page", "after a {status}");
    }
}

#[test]
fn a_method_override_is_not_a_page() {
    let origin = Origin::start(|seen, reply| {
        reply.ok(&["Cache-Control: max-age=600"], format!("{} {}", seen.method, seen.number));
    });
    let larder = Larder::before(&origin.url());
    let post = larder.connect().ask("POST", "/", &["Host: site.test", "Content-Length: 0"]);
    assert_eq!(post.text(), "POST 0");
    assert_eq!(get(larder.addr(), "/").text(), "GET 1");
    let post = larder.connect().ask("POST", "/", &["Host: site.test", "Content-Length: 0"]);
    assert_eq!(post.text(), "POST 2");
}
