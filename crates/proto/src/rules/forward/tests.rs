use super::*;
use crate::http::key::{write_behind, write_key};
use crate::http::{Header, overrides::TABLE};
use crate::rules::test_support::fields;
use proptest::prelude::*;

const PEER: [IpAddr; 1] = [IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1))];

fn site<'a>(vary_cookies: &'a [String], key_fields: &'a [KeyField]) -> Site<'a> {
    Site {
        vary_cookies,
        ignored: &|_| false,
        key_fields,
        client_cache_control: true,
        compresses: false,
        tells_client: true,
    }
}

fn received<'a>(list: &'a [Header<'a>], trusted: bool) -> Received<'a> {
    Received {
        fields: Fields::new(list),
        scheme: Scheme::Http,
        host: Some("site.test"),
        forwarded_host: None,
        trusted,
        chain: &PEER,
        traced: false,
        certificate: None,
    }
}

const SHOWN: Certificate<'static> = Certificate { field: ":MII=:", subject: "CN=alice" };

/// The lines of an origin's head, those about who asks left out.
fn sent(list: &[(&str, &str)], trusted: bool, site: &Site<'_>, mode: &Mode<'_>) -> Vec<String> {
    let held = fields(list);
    head(&received(&held, trusted), site, mode)
        .iter()
        .filter(|(name, _)| !is_rebuilt(name) && !name.eq_ignore_ascii_case("host"))
        .map(|(name, value)| format!("{}: {}", name.to_ascii_lowercase(), value.escape_ascii()))
        .collect()
}

fn key_fields(names: &[&str]) -> Vec<KeyField> {
    names.iter().map(|name| KeyField::new(name).expect("a field for the key")).collect()
}

#[test]
fn ordinary_fields_go_on() {
    let list =
        [("User-Agent", "a"), ("accept", "b"), ("X-Own", "1"), ("X-Own", "2"), ("Via", "1.1 x")];
    let own = ["user-agent: a", "accept: b", "x-own: 1", "x-own: 2", "accept-encoding: identity"];
    assert_eq!(sent(&list, false, &site(&[], &[]), &Mode::Whole), own);
    assert_eq!(sent(&list, false, &site(&[], &[]), &Mode::Pass), own[..4]);
}

#[test]
fn every_override_in_every_spelling_is_dropped() {
    let mut tried = 0;
    for name in TABLE.iter().flat_map(|group| group.names) {
        let dashes = name.replace('*', "x");
        let underscores = dashes.replace('-', "_");
        let mixed = dashes.replacen('-', "_", 1);
        for spelling in [dashes.to_ascii_uppercase(), dashes, underscores, mixed] {
            for trusted in [false, true] {
                for mode in [Mode::Whole, Mode::Range, Mode::Validate(Conditions::default())] {
                    let lines = sent(&[(&spelling, "evil")], trusted, &site(&[], &[]), &mode);
                    assert_eq!(lines, ["accept-encoding: identity"], "{spelling} {trusted}");
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 3000, "{tried}");
}

#[test]
fn names_that_gateways_read_as_others_are_dropped() {
    for name in [
        "Accept_Encoding",
        "x_own",
        "If_Range",
        "A.B",
        "COOKIE_",
        "X~Y",
        "Cache_Control",
        "content_type",
    ] {
        let lines = sent(&[(name, "gzip")], true, &site(&[], &[]), &Mode::Whole);
        assert_eq!(lines, ["accept-encoding: identity"], "{name}");
        assert!(!sent(&[(name, "gzip")], true, &site(&[], &[]), &Mode::Pass).is_empty(), "{name}");
    }
    for name in ["X_Forwarded_For", "x_real_ip", "Forwarded_", "Connection", "Ho_st", "HOST"] {
        let passed = sent(&[(name, "evil")], false, &site(&[], &[]), &Mode::Pass);
        assert_eq!(
            passed.is_empty(),
            !["Forwarded_", "Ho_st"].contains(&name),
            "{name} {passed:?}"
        );
    }
}

#[test]
fn past_the_cache_only_claims_are_dropped() {
    let list =
        [("X-HTTP-Method-Override", "PUT"), ("X-Real-IP", "9.9.9.9"), ("X-Forwarded-Port", "1")];
    let line = "x-http-method-override: PUT".to_owned();
    assert_eq!(sent(&list, false, &site(&[], &[]), &Mode::Pass), std::slice::from_ref(&line));
    let trusted = sent(&list, true, &site(&[], &[]), &Mode::Pass);
    assert_eq!(trusted, [line, "x-real-ip: 9.9.9.9".to_owned(), "x-forwarded-port: 1".to_owned()]);
    let list = [("Accept-Encoding", "GZIP;q=0.3"), ("Cookie", "a=1 ;b=2")];
    let as_they_are = ["accept-encoding: GZIP;q=0.3", "cookie: a=1 ;b=2"];
    assert_eq!(sent(&list, false, &site(&[], &[]), &Mode::Pass), as_they_are);
}

#[test]
fn fields_in_the_key_go_on() {
    let keyed = key_fields(&["X-Forwarded-Prefix", "x_api_key", "X-Device"]);
    let list = [
        ("X-Device", "tablet"),
        ("x-forwarded-prefix", "/a"),
        ("X_API_KEY", "k"),
        ("X-Device", "phone"),
        ("X-Forwarded_Prefix", "/b"),
    ];
    let device =
        ["x_api_key: k", "x-device: tablet", "x-device: phone", "accept-encoding: identity"];
    let site = site(&[], &keyed);
    assert_eq!(sent(&list, false, &site, &Mode::Whole), device);
    assert_eq!(sent(&list, true, &site, &Mode::Whole)[0], "x-forwarded-prefix: /a");
    assert_eq!(sent(&list, true, &site, &Mode::Whole)[1..], device);
    for name in
        ["Host", "Cookie", "Range", "TE", "X-Forwarded-Host", "accept-encoding", "Authorization"]
    {
        assert_eq!(KeyField::new(name), None, "{name}");
    }
}

#[test]
fn cookies_go_in_the_form_of_the_key() {
    let list = [("Cookie", "theme =dark; session=1"), ("Cookie", "theme=light")];
    let theme = ["theme".to_owned()];
    let lines = sent(&list, false, &site(&theme, &[]), &Mode::Whole);
    assert_eq!(lines, ["cookie: theme=dark; theme=light", "accept-encoding: identity"]);
    let all = sent(&list, false, &site(&[], &[]), &Mode::Whole);
    assert_eq!(all[0], "cookie: theme =dark; session=1; theme=light");
    let none = sent(&list, false, &site(&["".to_owned()], &[]), &Mode::Whole);
    assert_eq!(none, ["accept-encoding: identity"]);
}

#[test]
fn a_clients_cache_control_goes_on_where_it_is_obeyed() {
    let list = [("Cache-Control", "only-if-cached"), ("Pragma", "x")];
    let mut site = site(&[], &[]);
    assert_eq!(sent(&list, false, &site, &Mode::Whole).len(), 3);
    site.client_cache_control = false;
    assert_eq!(sent(&list, false, &site, &Mode::Whole).len(), 1);
    assert_eq!(sent(&list, false, &site, &Mode::Pass).len(), 2);
}

#[test]
fn a_certificate_is_told_of_by_this_cache_alone() {
    let forged = [("Client-Cert", ":evil:"), ("X_SSL_Client_S_DN", "CN=root"), ("X-Own", "1")];
    let keyed = key_fields(&["client-cert"]);
    let told = |certificate, trusted, key_fields: &[KeyField], mode: &Mode<'_>| {
        let held = fields(&forged);
        let received = Received { certificate, ..received(&held, trusted) };
        let lines = head(&received, &site(&[], key_fields), mode);
        let told = lines.iter().filter(|(name, _)| of_certificate(name));
        told.map(|(name, value)| format!("{name}: {}", value.escape_ascii())).collect::<Vec<_>>()
    };
    let own = ["client-cert: :MII=:", "x-ssl-client-s-dn: CN=alice"];
    for trusted in [false, true] {
        assert_eq!(told(Some(SHOWN), trusted, &[], &Mode::Pass), own);
        assert_eq!(told(Some(SHOWN), trusted, &[], &Mode::Whole), [""; 0]);
        assert_eq!(told(Some(SHOWN), trusted, &keyed, &Mode::Whole), own[..1]);
        assert_eq!(told(None, trusted, &[], &Mode::Whole), [""; 0]);
    }
    assert_eq!(told(None, false, &keyed, &Mode::Whole), [""; 0]);
    assert_eq!(told(None, true, &keyed, &Mode::Whole), ["client-cert: :evil:"]);
    assert_eq!(told(None, false, &[], &Mode::Pass), [""; 0]);
    assert_eq!(told(None, true, &[], &Mode::Pass), ["Client-Cert: :evil:"]);
}

#[test]
fn who_asks_is_told_from_what_is_known() {
    let lines = [
        ("X-Forwarded-For", "<script>, 203.0.113.7"),
        ("Forwarded", "for=1.2.3.4;host=evil.test"),
        ("X-Forwarded-Proto", "evil"),
        ("X-Forwarded-Host", "Named.test"),
    ];
    let held = fields(&lines);
    let chain = ["203.0.113.7", "2001:db8::1"].map(|a| a.parse().expect("an address"));
    let told = |mode: &Mode<'_>, trusted: bool| {
        let received = Received {
            chain: if trusted { &chain } else { &chain[1..] },
            forwarded_host: trusted.then_some(b"Named.test"),
            scheme: Scheme::Https,
            ..received(&held, trusted)
        };
        let lines = head(&received, &site(&[], &[]), mode);
        let value = |name: &str| {
            let mut of = lines.iter().filter(|(n, _)| n == name);
            let value = of.next().map(|(_, v)| v.escape_ascii().to_string()).expect("a line");
            assert!(of.next().is_none(), "{name} twice");
            value
        };
        ["x-forwarded-for", "forwarded", "x-forwarded-proto", "x-forwarded-host"].map(value)
    };
    let proxied = told(&Mode::Whole, true);
    assert_eq!(proxied[0], "203.0.113.7, 2001:db8::1");
    assert_eq!(
        proxied[1].replace('\\', ""),
        "for=203.0.113.7;host=named.test;proto=https, \
         for=\"[2001:db8::1]\";host=site.test;proto=https"
    );
    assert_eq!(proxied[2..], ["https", "named.test"]);
    for mode in [Mode::Whole, Mode::Pass] {
        let own = told(&mode, false);
        assert_eq!(own[0], "2001:db8::1");
        assert_eq!(own[1].replace('\\', ""), "for=\"[2001:db8::1]\";host=site.test;proto=https");
        assert_eq!(own[2..], ["https", "site.test"]);
    }
    assert_eq!(told(&Mode::Pass, true)[0], "<script>, 203.0.113.7, 2001:db8::1");
}

#[test]
fn a_site_may_keep_the_clients_address_to_itself() {
    let held = fields(&[("X-Forwarded-For", "203.0.113.7"), ("Forwarded", "for=1.2.3.4")]);
    let received = Received { trusted: true, ..received(&held, true) };
    let hides = Site { tells_client: false, ..site(&[], &[]) };
    let told = |mode: &Mode<'_>| {
        let lines = head(&received, &hides, mode);
        let about = lines.iter().filter(|(name, _)| is_rebuilt(name));
        about.map(|(name, value)| format!("{name}: {}", value.escape_ascii())).collect::<Vec<_>>()
    };
    let own = ["x-forwarded-proto: http", "x-forwarded-host: site.test"];
    let whole = told(&Mode::Whole);
    assert_eq!(whole[0], "forwarded: host=site.test;proto=http");
    assert_eq!(whole[1..], own);
    assert_eq!(told(&Mode::Range), whole);
    // Past the cache the answer is the client's own.
    assert_eq!(told(&Mode::Pass)[0], "x-forwarded-for: 203.0.113.7, 192.0.2.1");
}

/// Names of every kind: ordinary ones, those with a rule, those of the table, and spellings of all
/// of them.
fn name() -> impl Strategy<Value = String> {
    let table: Vec<&str> = TABLE.iter().flat_map(|group| group.names).copied().collect();
    let ruled = vec![
        "accept-encoding",
        "cookie",
        "host",
        "range",
        "if-range",
        "if-none-match",
        "cache-control",
        "connection",
        "te",
        "forwarded",
        "x-forwarded-for",
        "x-forwarded-proto",
        "x-forwarded-host",
        "x-forwarded-prefix",
        "x-device",
        "accept",
        "user-agent",
        "x-own",
    ];
    let names = prop_oneof![prop::sample::select(table), prop::sample::select(ruled)];
    (names, 0..4_u8).prop_map(|(name, spelling)| {
        let name = name.replace('*', "y");
        match spelling {
            0 => name.replace('-', "_"),
            1 => name.replacen('-', "_", 1),
            2 => name.to_ascii_uppercase(),
            _ => name,
        }
    })
}

fn request() -> impl Strategy<Value = Vec<(String, String)>> {
    prop::collection::vec((name(), "(gzip|br|a=1|theme=b|[a-c;= ,.]{0,6})"), 0..6)
}

/// Fields that go on as they are, whatever the key.
const HARMLESS: [&str; 4] = ["accept", "user-agent", "x-own", "cache-control"];

proptest! {
    #[test]
    fn requests_of_one_key_and_variant_are_one_to_the_origin(
        a in request(), b in request(), trusted: bool, cookies: bool, shown: [bool; 2],
    ) {
        let keyed = key_fields(&["x-forwarded-prefix", "x-device", "client-cert"]);
        let theme = if cookies { vec!["theme".to_owned()] } else { Vec::new() };
        let site = site(&theme, &keyed);
        let seen = |list: &[(String, String)], shown: bool| {
            let held: Vec<Header<'_>> =
                list.iter().map(|(name, value)| Header { name, value: value.as_bytes() }).collect();
            let certificate = shown.then_some(SHOWN);
            let received = Received { certificate, ..received(&held, trusted) };
            let mut key = Vec::new();
            write_key(&mut key, Scheme::Http, "site.test", 0, b"/");
            write_behind(&mut key, None, key_lines(received.fields, trusted, certificate, &keyed));
            let codings = Codings::parse(received.fields.all("accept-encoding")).normalised();
            let mut selecting = Vec::new();
            cookie::write(received.fields.all("cookie"), &theme, |_| false, &mut selecting);
            let lines: Vec<(String, Vec<u8>)> = head(&received, &site, &Mode::Whole)
                .into_iter()
                .map(|(name, value)| (name.to_ascii_lowercase(), value.into_owned()))
                .filter(|(name, _)| !HARMLESS.contains(&name.as_str()))
                .collect();
            ((key, codings, selecting), lines)
        };
        // Connection that hides fields sends a request past the cache.
        let hides = |list: &[(String, String)]| list.iter().any(|(n, _)| n.eq_ignore_ascii_case("connection"));
        prop_assume!(!hides(&a) && !hides(&b));
        let ((key_a, lines_a), (key_b, lines_b)) = (seen(&a, shown[0]), seen(&b, shown[1]));
        if key_a == key_b {
            prop_assert_eq!(lines_a, lines_b);
        }
    }
}
