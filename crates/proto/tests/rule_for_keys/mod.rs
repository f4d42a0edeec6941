//! The rule for keys as a property: two requests with one key and one variant are one and the same
//! to the origin, byte for byte, but for fields that are listed as harmless, ordinary names that no
//! list of overrides has, and the address of the client ([`TOLD`]).
//!
//! The fuzz target `origin_head` and a test of this crate share it.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::LazyLock;

use larder_proto::http::{
    Codings, Elements, HeadLimits, Parsed, RequestHead, Scheme, cookie, forwarded,
    key::{write_behind, write_key},
    overrides::is_override,
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

/// Fields in which the origin is told the client's address, which is in no key. Scheme and hosts in
/// them are those of the key.
const TOLD: [&str; 2] = ["x-forwarded-for", "forwarded"];

/// Names of fields that override what a key knows.
pub(crate) fn overrides() -> impl Iterator<Item = &'static str> {
    include_str!("names.txt").lines().filter(|line| !line.starts_with('#'))
}

/// A name as gateways to CGI read it.
fn folded(name: &str) -> String {
    let fold = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    name.chars().map(fold).collect()
}

/// Whether a field may differ between requests of one key: it is listed as harmless, or its name is
/// plainly spelled, in no list of overrides, without a rule of its own and not in the key. `name`
/// is in lower case.
fn may_differ(name: &str, config: &Config) -> bool {
    static LISTED: LazyLock<HashSet<String>> = LazyLock::new(|| {
        let written = ["accept-encoding", "x-forwarded-proto", "x-forwarded-host"];
        let listed = RULED.iter().copied().chain(TOLD).chain(written);
        listed.chain(overrides()).map(folded).collect()
    });
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let keyed = config.key_fields.iter().any(|field| field.name() == name);
    let ordinary = plain && !is_override(name) && !LISTED.contains(name);
    !keyed && (ordinary || HARMLESS.contains(&name))
}

/// Host and scheme of the elements of Forwarded: of the first, and of all others.
fn hosts_told(value: &[u8]) -> (Vec<u8>, HashSet<Vec<u8>>) {
    let without_address = |element: &[u8]| {
        let parts = element.split(|&byte| byte == b';').filter(|part| !part.starts_with(b"for="));
        parts.collect::<Vec<_>>().join(&b';')
    };
    let mut elements = Elements::of(value).map(without_address);
    (elements.next().unwrap_or_default(), elements.collect())
}

/// The site's settings, and whether a trusted proxy asks.
struct Config {
    trusted: bool,
    vary_cookies: Vec<String>,
    key_fields: Vec<KeyField>,
    client_cache_control: bool,
    compresses: bool,
    tells_client: bool,
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
            tells_client: flags & 64 == 0,
        }
    }
}

type Lines = Vec<(String, Vec<u8>)>;

/// Key and variant of a request, and the lines it has for the origin.
struct Seen {
    selected: [Vec<u8>; 3],
    /// The range that it asks for: it may select, where a page is fetched in parts.
    range: Vec<Vec<u8>>,
    sent: Vec<Lines>,
    /// By the client's range.
    sent_in_part: Lines,
}

/// None: the request goes past the cache.
fn seen(config: &Config, request: &RequestHead<'_>) -> Option<Seen> {
    let fields = request.fields;
    if fields.has("connection") {
        return None;
    }
    let forwarded_host = request.known.x_forwarded_host().filter(|_| config.trusted);
    let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let named: Vec<&[u8]> = fields.all("x-forwarded-for").collect();
    let chain = forwarded::chain(named.into_iter(), peer, |_| config.trusted);
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
        tells_client: config.tells_client,
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
        let mut lines: Lines = lines
            .map(|(name, value)| (name.to_ascii_lowercase(), value.into_owned()))
            .filter(|(name, _)| !may_differ(name, config))
            .collect();
        let (told, named) = told(&lines, forwarded_host);
        assert_eq!(told, config.tells_client, "the address is told where the site says so");
        lines.retain(|(name, _)| !TOLD.contains(&name.as_str()));
        lines.push(("forwarded without addresses".to_owned(), named));
        lines
    };
    let conditions = Conditions {
        if_none_match: Some(b"\"1\""),
        if_modified_since: Some(b"Fri, 27 Nov 2026 12:00:00 GMT"),
    };
    let rest = Mode::Complete { range: "bytes=5-".to_owned(), validator: b"\"1\"".to_vec() };
    let sent = vec![lines(Mode::Whole), lines(Mode::Validate(conditions)), lines(rest)];
    let range = ["range", "if-range"].into_iter().flat_map(|name| fields.all(name));
    let range = range.map(<[u8]>::to_vec).collect();
    let sent_in_part = lines(Mode::Range);
    Some(Seen { selected: [key, codings, cookies], range, sent, sent_in_part })
}

/// Whether the lines name the address of a client; and host and scheme of its own request in
/// Forwarded. Those of the other hops are the same for every request.
fn told(lines: &Lines, forwarded_host: Option<&[u8]>) -> (bool, Vec<u8>) {
    let of = |wanted: &str| lines.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
    let value = of("forwarded").expect("Forwarded is always written");
    let (first, others) = hosts_told(value);
    for other in others {
        assert_eq!(other, b"host=site.test;proto=http", "of a proxy's own hop");
    }
    if forwarded_host.is_none_or(<[u8]>::is_empty) {
        assert_eq!(first, b"host=site.test;proto=http", "of the client's hop");
    }
    let told = of("x-forwarded-for").is_some();
    assert_eq!(told, value.starts_with(b"for="), "both fields tell of it, or neither");
    (told, first)
}

/// Two requests: field lines that both have, those of the first alone and those of the second
/// alone. `flags`: what the site says, and who asks. Returns whether they have one key and variant.
pub(crate) fn check(flags: u8, common: &[u8], first: &[u8], second: &[u8]) -> bool {
    let config = Config::of(flags);
    let request =
        |own: &[u8]| [b"GET / HTTP/1.1\r\nHost: site.test\r\n", common, own, b"\r\n"].concat();
    let limits = HeadLimits { head_bytes: 8192, request_line: 512, fields: 60 };
    let (a, b) = (request(first), request(second));
    let (mut room_a, mut room_b) = (slots::<64>(), slots::<64>());
    let Ok(Parsed::Complete(a)) = parse_request(&a, &mut room_a, &limits) else { return false };
    let Ok(Parsed::Complete(b)) = parse_request(&b, &mut room_b, &limits) else { return false };
    let (Some(a), Some(b)) = (seen(&config, &a), seen(&config, &b)) else { return false };
    let alike = a.selected == b.selected;
    if alike {
        assert_eq!(a.sent, b.sent, "one key and variant, two requests to the origin");
        if a.range == b.range {
            assert_eq!(a.sent_in_part, b.sent_in_part, "one range, two requests to the origin");
        }
    }
    alike
}
