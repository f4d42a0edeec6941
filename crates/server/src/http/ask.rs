//! What is asked of an origin: the client's request, less what concerns the connection or the cache, plus where it came
//! from.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use larder_proto::{
    http::{Method, Version, forwarded::Hop},
    rules::{Conditions, strip},
};

use super::{asked::Asked, compose, flow::Route};

/// How the answer is to be used, which decides the conditions that go with the request.
pub(crate) enum Mode<'a> {
    /// As the client sent it, conditions and ranges included.
    Pass,
    /// The whole page, for the store.
    Whole,
    /// The whole page, unless the stored one is still good.
    Validate(Conditions<'a>),
    /// The client's range.
    Range,
    /// The missing part of a stored one, should that still be current.
    Complete { range: String, validator: Vec<u8> },
}

/// Conditions and ranges: of the client's own copy, not of ours.
const CONDITIONS: [&str; 6] =
    ["if-none-match", "if-modified-since", "if-match", "if-unmodified-since", "if-range", "range"];

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The fields to send to the origin.
pub(crate) fn headers(asked: &Asked<'_, '_>, route: &Route<'_>, mode: &Mode<'_>) -> HeaderMap {
    let mut out = HeaderMap::with_capacity(asked.head.fields.len() + 8);
    let trusted = asked.trusted();
    let named: Vec<&[u8]> = asked.head.fields.elements("connection").collect();
    for (name, value) in asked.head.fields.iter() {
        let listed = named.iter().any(|n| n.eq_ignore_ascii_case(name.as_bytes()));
        if listed || strip::is_hop_by_hop(name) || ours(name) || (!trusted && forwarding(name)) {
            continue;
        }
        if !keeps_condition(mode, name) || (asked.trace.is_some() && name.eq_ignore_ascii_case("traceparent"))
        {
            continue;
        }
        if name.eq_ignore_ascii_case("cookie") && !matches!(mode, Mode::Pass) {
            let kept = route.policy.significant_cookies(value);
            if !kept.is_empty() {
                append(&mut out, header::COOKIE, &kept);
            }
        } else if let Ok(name) = HeaderName::from_bytes(name.as_bytes()) {
            append(&mut out, name, value);
        }
    }
    if let Some(host) = asked.host() {
        append(&mut out, header::HOST, host.as_bytes());
    }
    if let (Mode::Pass, Some(protocol)) = (mode, asked.upgrade()) {
        append(&mut out, header::UPGRADE, protocol);
    }
    conditions(&mut out, mode);
    origin_of_request(&mut out, asked);
    if let Some(traced) = &asked.trace {
        traced.fetched.set((asked.worker.clock.micros(), 0));
        append(&mut out, TRACEPARENT, &traced.for_origin().to_value());
    }
    out
}

/// Fields that are written anew, or that the origin's driver writes, in any spelling: CGI and its kin take `_` for `-`.
/// `Proxy` would become HTTP_PROXY there.
fn ours(name: &str) -> bool {
    const NAMES: [&str; 9] = [
        "host",
        "content-length",
        "transfer-encoding",
        "expect",
        "via",
        "surrogate-capability",
        "x-forwarded-host",
        "proxy",
        "larder-debug",
    ];
    NAMES.iter().any(|own| same(name, own))
        || (name.contains('_') && (forwarding(name) || same(name, "connection")))
}

/// Without regard to case, nor to whether words are joined by `-` or `_`.
fn same(name: &str, other: &str) -> bool {
    let plain = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    name.len() == other.len() && name.bytes().map(plain).eq(other.bytes())
}

/// Fields by which a proxy says for whom it asks. From a client that is no trusted proxy they are an attempt.
fn forwarding(name: &str) -> bool {
    same(name, "forwarded")
        || same(name, "x-real-ip")
        || name.get(..12).is_some_and(|start| same(start, "x-forwarded-"))
}

fn keeps_condition(mode: &Mode<'_>, name: &str) -> bool {
    let condition = CONDITIONS.iter().any(|c| name.eq_ignore_ascii_case(c));
    match mode {
        Mode::Pass => true,
        Mode::Range => {
            !condition || name.eq_ignore_ascii_case("range") || name.eq_ignore_ascii_case("if-range")
        }
        Mode::Whole | Mode::Validate(_) | Mode::Complete { .. } => !condition,
    }
}

fn conditions(out: &mut HeaderMap, mode: &Mode<'_>) {
    match mode {
        Mode::Validate(conditions) => {
            if let Some(etag) = conditions.if_none_match {
                append(out, header::IF_NONE_MATCH, etag);
            }
            if let Some(date) = conditions.if_modified_since {
                append(out, header::IF_MODIFIED_SINCE, date);
            }
        }
        Mode::Complete { range, validator } => {
            append(out, header::RANGE, range.as_bytes());
            append(out, header::IF_RANGE, validator);
        }
        Mode::Pass | Mode::Whole | Mode::Range => {}
    }
}

/// Via (RFC 9110 section 7.6.3), CDN-Loop (RFC 8586), Surrogate-Capability, and for whom this is asked.
fn origin_of_request(out: &mut HeaderMap, asked: &Asked<'_, '_>) {
    if let Some(name) = &asked.config.settings.http.via {
        let http10 = asked.head.version == Version::Http10;
        append(out, header::VIA, &compose::via(asked.head.fields.all("via"), http10, name));
    }
    append(out, HeaderName::from_static("cdn-loop"), asked.worker.shared.loop_id.as_bytes());
    append(out, HeaderName::from_static("surrogate-capability"), b"larder=\"Surrogate/1.0\"");
    let host = asked.host();
    let scheme = asked.scheme().as_str();
    let hop = Hop { client: asked.peer.ip().to_canonical(), proto: scheme, host: host.as_deref() };
    let (mut list, mut text) = (String::new(), String::new());
    hop.write_x_forwarded_for(out.get_all("x-forwarded-for").iter().map(HeaderValue::as_bytes), &mut list);
    hop.write_forwarded(out.get_all(header::FORWARDED).iter().map(HeaderValue::as_bytes), &mut text);
    for (name, value) in [(HeaderName::from_static("x-forwarded-for"), list), (header::FORWARDED, text)] {
        out.remove(&name);
        append(out, name, value.as_bytes());
    }
    // As they are in the key: what the origin makes of them must not differ between requests of one key.
    out.remove("x-forwarded-proto");
    append(out, HeaderName::from_static("x-forwarded-proto"), scheme.as_bytes());
    if let Some(host) = asked.forwarded_host().or(host.as_deref().map(str::as_bytes)) {
        append(out, HeaderName::from_static("x-forwarded-host"), host);
    }
    if asked.head.method == Method::Options
        && let Some(left) = asked.max_forwards()
    {
        out.remove(header::MAX_FORWARDS);
        append(out, header::MAX_FORWARDS, (left - 1).to_string().as_bytes());
    }
}

/// Adds a line. Values come from a parsed head, which has no byte a field value may not have.
fn append(out: &mut HeaderMap, name: HeaderName, value: &[u8]) {
    if let Ok(value) = HeaderValue::from_bytes(value) {
        out.append(name, value);
    }
}
