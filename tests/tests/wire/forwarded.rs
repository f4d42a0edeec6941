//! What the origin is told about the client, and whose word about it counts.

use larder_tests::{Larder, Origin, Seen};

fn seen_by_origin(http: &str, fields: &[&str]) -> Seen {
    let origin = Origin::serving(&["Cache-Control: no-store"], "page");
    let larder =
        Larder::with_config(&format!("[http]\n{http}\n[[site]]\norigin = \"{}\"", origin.url()));
    larder.connect().get("/", fields).assert_status(200);
    origin.last()
}

const CLAIMS: &[&str] = &[
    "X-Forwarded-For: 203.0.113.7",
    "X-Forwarded-Proto: https",
    "X-Forwarded-Host: claimed.test",
    "Forwarded: for=203.0.113.7;proto=https;host=claimed.test",
];

#[test]
fn the_origin_learns_who_asked() {
    let seen = seen_by_origin("", &[]);
    assert_eq!(seen.fields.joined("x-forwarded-for"), "127.0.0.1");
    assert_eq!(seen.fields.joined("x-forwarded-proto"), "http");
    assert_eq!(seen.fields.joined("x-forwarded-host"), "site.test");
    let forwarded = seen.fields.joined("forwarded");
    assert!(forwarded.contains("for=127.0.0.1") && forwarded.contains("proto=http"), "{forwarded}");
}

#[test]
fn what_a_client_claims_is_dropped() {
    let seen = seen_by_origin("", CLAIMS);
    assert_eq!(seen.fields.joined("x-forwarded-for"), "127.0.0.1");
    assert_eq!(seen.fields.joined("x-forwarded-proto"), "http");
    assert_eq!(seen.fields.joined("x-forwarded-host"), "site.test");
    assert!(!seen.fields.joined("forwarded").contains("203.0.113.7"), "{seen:?}");
    assert!(!format!("{:?}", seen.fields).contains("claimed"), "{seen:?}");
}

#[test]
fn what_a_trusted_proxy_says_is_passed_on() {
    let seen = seen_by_origin("trusted_proxies = [\"127.0.0.0/8\"]", CLAIMS);
    assert_eq!(seen.fields.joined("x-forwarded-for"), "203.0.113.7, 127.0.0.1");
    assert_eq!(seen.fields.joined("x-forwarded-proto"), "https");
    assert_eq!(seen.fields.joined("x-forwarded-host"), "claimed.test");
    let forwarded = seen.fields.joined("forwarded");
    assert!(
        forwarded.starts_with("for=203.0.113.7") && forwarded.contains("for=127.0.0.1"),
        "{forwarded}"
    );
}

#[test]
fn other_proxies_are_not_trusted() {
    let seen = seen_by_origin("trusted_proxies = [\"192.0.2.1\"]", CLAIMS);
    assert_eq!(seen.fields.joined("x-forwarded-for"), "127.0.0.1");
}

#[test]
fn the_host_is_passed_on_unless_the_origin_wants_another() {
    let origin = Origin::serving(&["Cache-Control: no-store"], "page");
    let larder = Larder::before(&origin.url());
    larder.connect().get("/", &[]);
    assert_eq!(origin.last().fields.joined("host"), "site.test");
    let larder = Larder::with_config(&format!(
        "[[site]]\norigin = {{ url = \"{}\", host_header = \"inner.test\" }}",
        origin.url()
    ));
    larder.connect().get("/", &[]);
    assert_eq!(origin.last().fields.joined("host"), "inner.test");
    assert_eq!(origin.last().fields.joined("x-forwarded-host"), "site.test");
}

/// A page fetched over another scheme is another page: the proxy before us ended TLS.
#[test]
fn the_scheme_a_trusted_proxy_names_is_in_the_key() {
    let origin = Origin::start(|seen, reply| {
        reply.ok(&["Cache-Control: max-age=600"], seen.fields.joined("x-forwarded-proto"));
    });
    let text = format!(
        "[http]\ntrusted_proxies = [\"127.0.0.1\"]\n[[site]]\norigin = \"{}\"",
        origin.url()
    );
    let larder = Larder::with_config(&text);
    let ask = |proto: &str| larder.connect().get("/", &[&format!("X-Forwarded-Proto: {proto}")]);
    assert_eq!(ask("https").text(), "https");
    assert_eq!(ask("http").text(), "http");
    assert_eq!(ask("https").assert_hit().text(), "https");
}
