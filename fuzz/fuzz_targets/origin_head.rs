//! The rule for keys: two requests with one key and one variant are one and the same to the origin,
//! but for ordinary fields.
//!
//! The first byte chooses what the site says and who asks; then come field lines that both requests
//! have, those of the first alone and those of the second alone, each ended by a zero byte.
#![no_main]

use larder_proto::http::{
    Codings, HeadLimits, Parsed, RequestHead, Scheme, cookie,
    key::{write_behind, write_key},
    overrides::{is_override, is_plain},
    parse_request, slots,
};
use larder_proto::rules::forward::{Certificate, KeyField, Mode, Received, Site, head, key_lines};
use libfuzzer_sys::fuzz_target;
use std::net::{IpAddr, Ipv4Addr};

/// Fields that have a rule of their own: whatever else is spelled plainly and overrides nothing is
/// ordinary.
const RULED: [&str; 16] = [
    "accept-encoding",
    "cookie",
    "host",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "range",
    "if-range",
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "connection",
    "content-length",
    "x-device",
];

/// Goes on as it is, whatever the key.
fn harmless(name: &str) -> bool {
    is_plain(name)
        && !is_override(name)
        && !RULED.iter().any(|ruled| name.eq_ignore_ascii_case(ruled))
}

struct Config {
    trusted: bool,
    vary_cookies: Vec<String>,
    key_fields: Vec<KeyField>,
    client_cache_control: bool,
}

impl Config {
    fn of(flags: u8) -> Self {
        let names = ["X-Forwarded-Prefix", "x_odd", "X-Device"];
        let own = names.iter().filter(|_| flags & 4 != 0);
        let certificate = ["Client-Cert"].iter().filter(|_| flags & 16 != 0);
        let fields = own.chain(certificate).filter_map(|name| KeyField::new(name));
        let cookies =
            ["theme", "lang"].iter().filter(|_| flags & 2 != 0).map(|name| (*name).to_owned());
        Self {
            trusted: flags & 1 != 0,
            vary_cookies: cookies.collect(),
            key_fields: fields.collect(),
            client_cache_control: flags & 8 != 0,
        }
    }
}

type Selected = (Vec<u8>, Vec<u8>, Vec<u8>);

/// Key and variant of a request, and the lines it has for the origin; None where it goes past the
/// cache.
fn seen(config: &Config, request: &RequestHead<'_>) -> Option<(Selected, Vec<(String, Vec<u8>)>)> {
    let fields = request.fields;
    let forwarded_host = request.known.x_forwarded_host().filter(|_| config.trusted);
    let chain = [IpAddr::V4(Ipv4Addr::LOCALHOST)];
    // Clients that call themselves differently have shown different certificates.
    let named = fields.get("user-agent").and_then(|name| std::str::from_utf8(name).ok());
    let certificate = named.map(|name| Certificate { field: name, subject: name });
    let received = Received {
        fields,
        certificate,
        scheme: Scheme::Http,
        host: Some("site.test"),
        forwarded_host,
        trusted: config.trusted,
        chain: &chain,
        traced: false,
    };
    let ignored = |cookie: &cookie::Cookie<'_>| cookie.name().starts_with(b"_");
    let site = Site {
        vary_cookies: &config.vary_cookies,
        ignored: &ignored,
        key_fields: &config.key_fields,
        client_cache_control: config.client_cache_control,
    };
    if fields.has("connection") {
        return None;
    }
    let mut key = Vec::new();
    write_key(&mut key, Scheme::Http, "site.test", 0, b"/");
    write_behind(
        &mut key,
        forwarded_host,
        key_lines(fields, config.trusted, certificate, &config.key_fields),
    );
    let codings = Codings::parse(fields.all("accept-encoding")).normalised().to_vec();
    let mut cookies = Vec::new();
    cookie::write(fields.all("cookie"), &config.vary_cookies, ignored, &mut cookies);
    let lines = head(&received, &site, &Mode::Whole);
    let lines =
        lines.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value.into_owned()));
    Some(((key, codings, cookies), lines.filter(|(name, _)| !harmless(name)).collect()))
}

fuzz_target!(|bytes: &[u8]| {
    let Some((flags, rest)) = bytes.split_first() else { return };
    let config = Config::of(*flags);
    let mut parts = rest.split(|&byte| byte == 0);
    let mut part = || parts.next().unwrap_or_default();
    let (common, first, second) = (part(), part(), part());
    let request =
        |own: &[u8]| [b"GET / HTTP/1.1\r\nHost: site.test\r\n", common, own, b"\r\n"].concat();
    let limits = HeadLimits { head_bytes: 8192, request_line: 512, fields: 60 };
    let (a, b) = (request(first), request(second));
    let (mut room_a, mut room_b) = (slots::<64>(), slots::<64>());
    let Ok(Parsed::Complete(a)) = parse_request(&a, &mut room_a, &limits) else { return };
    let Ok(Parsed::Complete(b)) = parse_request(&b, &mut room_b, &limits) else { return };
    let (Some(a), Some(b)) = (seen(&config, &a), seen(&config, &b)) else { return };
    if a.0 == b.0 {
        assert_eq!(a.1, b.1, "one key and variant, two requests to the origin");
    }
});
