//! The rule for keys as a property: two requests with one key and one variant are one and the same
//! to the origin, byte for byte, but for fields that are listed as harmless.
//!
//! The fuzz target `origin_head` and a test of this crate share it.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::LazyLock;

use larder_proto::http::{
    Codings, HeadLimits, Parsed, RequestHead, Scheme, cookie,
    key::{write_behind, write_key},
    parse_request, slots,
};
use larder_proto::rules::Conditions;
use larder_proto::rules::forward::{Certificate, KeyField, Mode, Received, Site, head, key_lines};

/// Fields that go on as they are, spelled just so, whatever the key: a site that answers by them
/// says `Vary`, and Authorization has a rule of its own (RFC 9111 section 3.5).
pub(crate) const HARMLESS: &[&str] = &[
    "accept",
    "accept-charset",
    "accept-language",
    "authorization",
    "baggage",
    "cache-control",
    "content-type",
    "date",
    "dnt",
    "from",
    "last-event-id",
    "origin",
    "pragma",
    "prefer",
    "priority",
    "referer",
    "rsc",
    "save-data",
    "sec-ch-ua",
    "sec-fetch-mode",
    "sec-gpc",
    "traceparent",
    "tracestate",
    "upgrade-insecure-requests",
    "user-agent",
    "x-csrf-token",
    "x-device",
    "x-odd",
    "x-request-id",
    "x-requested-with",
];

/// Fields with a rule of their own.
pub(crate) const RULED: &[&str] = &[
    "accept-encoding",
    "content-length",
    "cookie",
    "expect",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "larder-debug",
    "proxy",
    "range",
    "surrogate-capability",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

/// Names of fields that override what a key knows.
pub(crate) fn overrides() -> impl Iterator<Item = &'static str> {
    include_str!("names.txt").lines().filter(|line| !line.starts_with('#'))
}

/// A name as gateways to CGI read it.
fn folded(name: &str) -> String {
    let fold = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    name.chars().map(fold).collect()
}

/// Whether the rule says something about this name, in whatever spelling. A site's own fields go on
/// as they are.
fn is_known(name: &str) -> bool {
    static NAMES: LazyLock<HashSet<String>> = LazyLock::new(|| {
        let listed = HARMLESS.iter().chain(RULED).copied();
        listed.chain(overrides()).map(folded).collect()
    });
    NAMES.contains(&folded(name))
}

/// The site's settings, and whether a trusted proxy asks.
struct Config {
    trusted: bool,
    vary_cookies: Vec<String>,
    key_fields: Vec<KeyField>,
    client_cache_control: bool,
    compresses: bool,
}

impl Config {
    fn of(flags: u8) -> Self {
        let own = ["X-Forwarded-Prefix", "x_odd", "X-Device"].iter().filter(|_| flags & 4 != 0);
        let certificate = ["Client-Cert"].iter().filter(|_| flags & 16 != 0);
        let fields = own.chain(certificate).filter_map(|name| KeyField::new(name));
        let cookies =
            ["theme", "lang"].iter().filter(|_| flags & 2 != 0).map(|name| (*name).to_owned());
        Self {
            trusted: flags & 1 != 0,
            vary_cookies: cookies.collect(),
            key_fields: fields.collect(),
            client_cache_control: flags & 8 != 0,
            compresses: flags & 32 != 0,
        }
    }
}

type Lines = Vec<(String, Vec<u8>)>;

/// Key and variant of a request, and the lines it has for the origin.
struct Seen {
    selected: [Vec<u8>; 3],
    sent: Vec<Lines>,
}

/// None: the request goes past the cache.
fn seen(config: &Config, request: &RequestHead<'_>) -> Option<Seen> {
    let fields = request.fields;
    if fields.has("connection") {
        return None;
    }
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
        compresses: config.compresses,
    };
    let mut key = Vec::new();
    write_key(&mut key, Scheme::Http, "site.test", 0, b"/");
    write_behind(
        &mut key,
        forwarded_host,
        key_lines(fields, config.trusted, certificate, &config.key_fields),
    );
    // Where Larder compresses, all clients share a page, which comes uncompressed.
    let codings = match config.compresses {
        true => Vec::new(),
        false => Codings::parse(fields.all("accept-encoding")).normalised().to_vec(),
    };
    let mut cookies = Vec::new();
    cookie::write(fields.all("cookie"), &config.vary_cookies, ignored, &mut cookies);
    let lines = |mode: Mode<'_>| -> Lines {
        let lines = head(&received, &site, &mode).into_iter();
        let lines = lines.map(|(name, value)| (name.to_ascii_lowercase(), value.into_owned()));
        lines.filter(|(name, _)| !HARMLESS.contains(&name.as_str())).collect()
    };
    let sent = vec![lines(Mode::Whole), lines(Mode::Validate(Conditions::default()))];
    Some(Seen { selected: [key, codings, cookies], sent })
}

/// Field lines, but for those the rule says nothing of.
fn known(lines: &[u8]) -> Vec<u8> {
    let is_known = |line: &&[u8]| {
        let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
        std::str::from_utf8(name).is_ok_and(is_known)
    };
    lines.split_inclusive(|&byte| byte == b'\n').filter(is_known).flatten().copied().collect()
}

/// Two requests: field lines that both have, those of the first alone and those of the second
/// alone. `flags`: what the site says, and who asks. Returns whether they have one key and variant.
pub(crate) fn check(flags: u8, common: &[u8], first: &[u8], second: &[u8]) -> bool {
    let config = Config::of(flags);
    let request = |own: &[u8]| {
        [b"GET / HTTP/1.1\r\nHost: site.test\r\n", &known(common)[..], &known(own), b"\r\n"]
            .concat()
    };
    let limits = HeadLimits { head_bytes: 8192, request_line: 512, fields: 60 };
    let (a, b) = (request(first), request(second));
    let (mut room_a, mut room_b) = (slots::<64>(), slots::<64>());
    let Ok(Parsed::Complete(a)) = parse_request(&a, &mut room_a, &limits) else { return false };
    let Ok(Parsed::Complete(b)) = parse_request(&b, &mut room_b, &limits) else { return false };
    let (Some(a), Some(b)) = (seen(&config, &a), seen(&config, &b)) else { return false };
    let alike = a.selected == b.selected;
    if alike {
        assert_eq!(a.sent, b.sent, "one key and variant, two requests to the origin");
    }
    alike
}
