//! Requests that say two things at once, or say them in a way that only some would understand.

use larder_tests::{Larder, Origin, Seen, get, get_with, wait_until};

const FRESH: &[&str] = &["Cache-Control: max-age=60"];

#[test]
fn two_conditions_at_once_make_one_request() {
    const TAGGED: &[&str] = &[
        "Cache-Control: max-age=60",
        "ETag: \"a\"",
        "Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT",
    ];
    let cases: [&[&str]; 4] = [
        &["If-None-Match: \"x\"", "If-Match: \"z\""],
        &["If-None-Match: \"a\"", "If-Match: \"z\"", "Range: bytes=0-1"],
        &["If-None-Match: *", "If-Match: \"z\"", "Authorization: x"],
        &[
            "If-Modified-Since: Mon, 01 Jan 2024 00:00:00 GMT",
            "If-Unmodified-Since: Sun, 01 Jan 2023 00:00:00 GMT",
        ],
    ];
    for fields in cases {
        for method in ["GET", "HEAD"] {
            // It understands one of the two conditions only.
            let origin = Origin::start(|seen, reply| {
                if seen.get("if-none-match").or(seen.get("if-modified-since")).is_some() {
                    reply.head(304, TAGGED);
                } else {
                    reply.ok(TAGGED, "page");
                }
            });
            let larder = Larder::before(&origin.url());
            let mut wire = larder.connect();
            wire.get("/", &[]);
            wire.ask(method, "/", &[&["Host: site.test"], fields].concat());
            assert!(origin.count() <= 2, "{method} {fields:?}: {} requests", origin.count());
        }
    }
}

/// Key and origin must agree on the fields of a request, and on those that `Connection` removes.
fn connection_does_not_poison(name: &'static str, value: &str) {
    let origin = Origin::start(move |seen, reply| {
        let body = seen.get(name).unwrap_or("none").to_owned();
        reply.ok(&["Cache-Control: max-age=60", &format!("Vary: {name}")], body);
    });
    let larder = Larder::before(&origin.url());
    let line = format!("{name}: {value}");
    get_with(larder.addr(), "/", &[&line, &format!("Connection: {name}")]).assert_status(200);
    for _ in 0..2 {
        assert_eq!(get_with(larder.addr(), "/", &[&line]).text(), value);
        assert_eq!(get(larder.addr(), "/").text(), "none");
    }
}

#[test]
fn a_language_named_by_connection_poisons_no_variant() {
    connection_does_not_poison("accept-language", "de");
}

#[test]
fn a_cookie_named_by_connection_poisons_no_variant() {
    connection_does_not_poison("cookie", "theme=dark");
}

/// What the origin sees of a request with these lines.
fn seen(http: &str, fields: &[&str]) -> Seen {
    let origin = Origin::serving(FRESH, "page");
    let larder =
        Larder::with_config(&format!("[http]\n{http}\n[[site]]\norigin = \"{}\"", origin.url()));
    larder.connect().ask("GET", "/", fields).assert_status(200);
    origin.last()
}

#[test]
fn the_host_reaches_the_origin_in_one_spelling() {
    let seen = seen("", &["Host: A.tEsT.:80"]);
    assert_eq!(seen.fields.joined("host"), "a.test");
}

#[test]
fn a_forwarded_host_from_outside_is_the_host_asked_for() {
    let seen = seen("", &["Host: site.test", "X-Forwarded-Host: evil.test"]);
    assert_eq!(seen.fields.joined("x-forwarded-host"), "site.test");
    assert!(!format!("{:?}", seen.fields).contains("evil"), "{seen:?}");
}

/// Proxies that pass on what their clients say of it are common: a page made for another host is no
/// page of this one.
#[test]
fn a_forwarded_host_through_a_proxy_poisons_no_page() {
    let origin = Origin::start(|seen, reply| {
        reply.ok(FRESH, seen.fields.joined("x-forwarded-host"));
    });
    let text = format!(
        "[http]\ntrusted_proxies = [\"127.0.0.1\"]\n[[site]]\norigin = \"{}\"",
        origin.url()
    );
    let larder = Larder::with_config(&text);
    get_with(larder.addr(), "/", &["X-Forwarded-Host: evil.test"]).assert_status(200);
    for _ in 0..2 {
        assert_eq!(get(larder.addr(), "/").text(), "site.test");
    }
    get(larder.addr(), "/").assert_hit();
    assert_eq!(get_with(larder.addr(), "/", &["X-Forwarded-Host: site.test"]).text(), "site.test");
}

/// CGI makes one variable of `X_Forwarded_For` and `X-Forwarded-For`, and `HTTP_PROXY` of `Proxy`.
#[test]
fn names_that_cgi_confuses_are_dropped() {
    let seen = seen(
        "",
        &[
            "Host: site.test",
            "X_Forwarded_For: 10.0.0.1",
            "X-Forwarded_Host: evil.test",
            "Proxy: http://evil",
        ],
    );
    assert_eq!(seen.fields.joined("x-forwarded-for"), "127.0.0.1");
    let lines = format!("{:?}", seen.fields);
    assert!(!lines.contains("10.0.0.1") && !lines.contains("evil"), "{lines}");
}

/// A tunnel for HTTP/2 in the clear would carry requests past every rule here.
#[test]
fn an_upgrade_to_h2c_is_not_passed_on() {
    let seen = seen(
        "",
        &[
            "Host: site.test",
            "Connection: Upgrade, HTTP2-Settings",
            "Upgrade: h2c",
            "HTTP2-Settings: AAMAAABk",
        ],
    );
    assert_eq!((seen.get("upgrade"), seen.get("http2-settings")), (None, None));
    assert!(!seen.fields.joined("connection").to_ascii_lowercase().contains("upgrade"), "{seen:?}");
}

#[test]
fn max_forwards_counts_down_to_an_answer_from_here() {
    let origin = Origin::serving(&["Allow: GET", "X-From: origin"], "");
    let larder = Larder::before(&origin.url());
    let options = |target: &str, left: &str| {
        larder.connect().ask(
            "OPTIONS",
            target,
            &["Host: site.test", &format!("Max-Forwards: {left}")],
        )
    };
    for target in ["/", "*"] {
        let answer = options(target, "0");
        assert!([200, 204].contains(&answer.status), "{answer:?}");
        assert_eq!(answer.get("x-from"), None);
    }
    assert_eq!(origin.count(), 0);
    assert_eq!(options("/", "5").get("x-from"), Some("origin"));
    assert_eq!(origin.last().fields.joined("max-forwards"), "4");
    options("*", "1");
    assert_eq!(origin.last().fields.joined("max-forwards"), "0");
}

#[test]
fn sigusr1_prints_the_counters() {
    let origin = Origin::serving(FRESH, "page");
    let larder = Larder::before(&origin.url());
    get(larder.addr(), "/");
    for _ in 0..3 {
        get(larder.addr(), "/").assert_hit();
    }
    let mut wire = larder.connect();
    wire.send("GET / HTTP/1.1\nHost: site.test\n\n");
    wire.read().assert_status(400);
    larder.usr1();
    for line in ["larder: http.results.hit 3", "larder: http.rejected.line_end 1"] {
        wait_until(line, || larder.stderr().lines().any(|printed| printed == line));
    }
    get(larder.addr(), "/").assert_hit();
}
