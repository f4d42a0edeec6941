//! The client's identity, sent to the origin and read from trusted proxies (RFC 7239,
//! X-Forwarded-*).
//!
//! A client can send anything in these fields. The driver passes values in only when the connection
//! comes from a proxy the operator trusts; otherwise they are dropped and composed anew.
//! comes from a proxy the operator trusts; otherwise they are dropped and composed anew.

use super::fields::{Elements, is_token, trim};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Most elements of X-Forwarded-For or Forwarded examined, from the last one back; chains of
/// proxies are short.
pub const MAX_HOPS: usize = 64;

/// The known facts of the client's connection.
#[derive(Clone, Copy, Debug)]
pub struct Hop<'a> {
    /// The client's address; None: it is not told.
    pub client: Option<IpAddr>,
    /// Scheme of the client's request: `http` or `https`.
    pub proto: &'a str,
    /// Host of the request, port included.
    pub host: Option<&'a str>,
}

impl Hop<'_> {
    /// Writes a Forwarded value: the values from trusted proxies, and this hop.
    pub fn write_forwarded<'v>(
        &self,
        before: impl IntoIterator<Item = &'v [u8]>,
        out: &mut String,
    ) {
        write_before(before, out);
        if let Some(client) = self.client {
            out.push_str("for=");
            write_node(client, out);
            out.push(';');
        }
        if let Some(host) = self.host {
            out.push_str("host=");
            write_value(host, out);
            out.push(';');
        }
        out.push_str("proto=");
        write_value(self.proto, out);
    }

    /// Writes an X-Forwarded-For value: the values from trusted proxies, and this hop.
    pub fn write_x_forwarded_for<'v>(
        &self,
        before: impl IntoIterator<Item = &'v [u8]>,
        out: &mut String,
    ) {
        write_before(before, out);
        if let Some(client) = self.client {
            write_address(client, out);
        }
    }
}

/// Values that are visible ASCII, joined; others are dropped, so that the elements after them stay
/// readable.
fn write_before<'v>(before: impl IntoIterator<Item = &'v [u8]>, out: &mut String) {
    let plain = |v: &&[u8]| v.iter().all(|b| (b' '..=b'~').contains(b) || *b == b'\t');
    for value in before.into_iter().map(trim).filter(plain) {
        if let (false, Ok(text)) = (value.is_empty(), std::str::from_utf8(value)) {
            out.push_str(text);
            out.push_str(", ");
        }
    }
}

/// An address in the form of X-Forwarded-For: IPv6 without brackets, IPv4-mapped ones as IPv4.
pub fn write_address(address: IpAddr, out: &mut String) {
    match address.to_canonical() {
        IpAddr::V4(v4) => write_v4(v4, out),
        // Writing to a String cannot fail.
        IpAddr::V6(v6) => {
            let _ = write!(out, "{v6}");
        }
    }
}

/// Three addresses go with each request to an origin: the formatter takes ten times as long.
fn write_v4(address: Ipv4Addr, out: &mut String) {
    for (at, byte) in address.octets().into_iter().enumerate() {
        if at > 0 {
            out.push('.');
        }
        let digits = [byte / 100, byte / 10 % 10, byte % 10];
        let zeros = digits.iter().take(2).take_while(|digit| **digit == 0).count();
        out.extend(digits[zeros..].iter().map(|digit| char::from(b'0' + digit)));
    }
}

/// An address in the form of Forwarded: IPv6 in brackets and quotes (RFC 7239 6.1).
fn write_node(address: IpAddr, out: &mut String) {
    match address.to_canonical() {
        IpAddr::V4(v4) => write_v4(v4, out),
        IpAddr::V6(v6) => {
            let _ = write!(out, "\"[{v6}]\"");
        }
    }
}

/// A token unchanged, anything else as a quoted string. Control characters are left out.
fn write_value(value: &str, out: &mut String) {
    if is_token(value.as_bytes()) {
        out.push_str(value);
        return;
    }
    out.push('"');
    for c in value.chars().filter(|c| !c.is_control()) {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
}

/// The client's address by X-Forwarded-For: from the last entry back, the first that is not a
/// trusted proxy. `peer` is the sender of the request; unless it is trusted itself, the field is
/// ignored. An unreadable entry ends the search at the last trusted one.
pub fn client_by_x_forwarded_for<'a>(
    lines: impl DoubleEndedIterator<Item = &'a [u8]>,
    peer: IpAddr,
    trusted: impl Fn(IpAddr) -> bool,
) -> IpAddr {
    let entries = lines.rev().flat_map(|line| line.rsplit(|&b| b == b',')).map(trim);
    client(entries.map(parse_node), peer, trusted)
}

/// The client's address by the `for` parameters of Forwarded; as [`client_by_x_forwarded_for`].
pub fn client_by_forwarded<'a>(
    lines: impl Iterator<Item = &'a [u8]>,
    peer: IpAddr,
    trusted: impl Fn(IpAddr) -> bool,
) -> IpAddr {
    let mut last = [None; MAX_HOPS];
    let mut count = 0_usize;
    for element in lines.flat_map(Elements::of) {
        last[count % MAX_HOPS] = parameter(element, "for").and_then(parse_node);
        count += 1;
    }
    let newest_first = (1..=count.min(MAX_HOPS)).map(|back| last[(count - back) % MAX_HOPS]);
    client(newest_first, peer, trusted)
}

/// The addresses a request came by, the client's first and the peer's last, as far as trusted
/// proxies vouch for them in X-Forwarded-For. Forwarded is not asked: a proxy that writes neither
/// would pass on what its client claims.
pub fn chain<'a>(
    x_forwarded_for: impl DoubleEndedIterator<Item = &'a [u8]>,
    peer: IpAddr,
    trusted: impl Fn(IpAddr) -> bool,
) -> Vec<IpAddr> {
    let entries = x_forwarded_for
        .rev()
        .flat_map(|line| line.rsplit(|&b| b == b','))
        .map(|entry| parse_node(trim(entry)))
        .take(MAX_HOPS);
    let mut chain = vec![peer.to_canonical()];
    for entry in entries {
        let (Some(address), true) = (entry, chain.last().is_some_and(|&last| trusted(last))) else {
            break;
        };
        chain.push(address.to_canonical());
    }
    chain.reverse();
    chain
}

/// Writes X-Forwarded-For of such a chain.
pub fn write_chain(chain: &[IpAddr], out: &mut String) {
    for (at, address) in chain.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        write_address(*address, out);
    }
}

fn client(
    entries: impl Iterator<Item = Option<IpAddr>>,
    peer: IpAddr,
    trusted: impl Fn(IpAddr) -> bool,
) -> IpAddr {
    let mut client = peer.to_canonical();
    for entry in entries.take(MAX_HOPS) {
        match entry {
            Some(address) if trusted(client) => client = address.to_canonical(),
            _ => break,
        }
    }
    client
}

/// The value of one parameter of a Forwarded element, without its quotes; `None` when it is absent
/// or has escapes.
pub fn parameter<'a>(element: &'a [u8], name: &str) -> Option<&'a [u8]> {
    Elements::parameters(element).find_map(|pair| {
        let equals = pair.iter().position(|&b| b == b'=')?;
        let value =
            pair[..equals].eq_ignore_ascii_case(name.as_bytes()).then_some(&pair[equals + 1..])?;
        match value {
            [b'"', inner @ .., b'"'] if !inner.contains(&b'\\') => Some(inner),
            token if is_token(token) => Some(token),
            _ => None,
        }
    })
}

/// `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80`.
fn parse_node(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    if let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        return inner.parse().ok().map(IpAddr::V6);
    }
    match text.parse() {
        Ok(SocketAddr::V6(address)) => Some(IpAddr::V6(*address.ip())),
        Ok(SocketAddr::V4(address)) => Some(IpAddr::V4(*address.ip())),
        // A port that is not a number is an obfuscated one (RFC 7239 6.3).
        Err(_) => text
            .split_once(":_")
            .and_then(|(host, _)| host.parse::<Ipv4Addr>().ok())
            .map(IpAddr::V4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn hop<'a>(client: &str, host: Option<&'a str>) -> Hop<'a> {
        Hop { client: Some(ip(client)), proto: "https", host }
    }

    #[test]
    fn every_byte_of_an_address_is_written_as_the_formatter_has_it() {
        for byte in 0..=255_u8 {
            let address = IpAddr::V4([byte, 0, 255 - byte, 10].into());
            let mut text = String::new();
            write_address(address, &mut text);
            assert_eq!(text, address.to_string());
        }
    }

    #[test]
    fn composed() {
        for (client, host, before, forwarded, x_forwarded_for) in [
            ("192.0.2.1", None, &[][..], "for=192.0.2.1;proto=https", "192.0.2.1"),
            ("::ffff:192.0.2.1", Some("a"), &[], "for=192.0.2.1;host=a;proto=https", "192.0.2.1"),
            (
                "2001:db8::1",
                Some("a:81"),
                &[" x ", "", "\u{1b}y", "z"],
                "x, z, for=\"[2001:db8::1]\";host=\"a:81\";proto=https",
                "x, z, 2001:db8::1",
            ),
        ] {
            let hop = hop(client, host);
            let lines = || before.iter().map(|l| l.as_bytes());
            let (mut a, mut b) = (String::new(), String::new());
            hop.write_forwarded(lines(), &mut a);
            hop.write_x_forwarded_for(lines(), &mut b);
            assert_eq!((&*a, &*b), (forwarded, x_forwarded_for));
        }
        let mut out = String::new();
        hop("192.0.2.1", Some("a\"\\\r\nb")).write_forwarded([], &mut out);
        assert_eq!(out, "for=192.0.2.1;host=\"a\\\"\\\\b\";proto=https");
        let (mut forwarded, mut x) = (String::new(), String::new());
        let hidden = Hop { client: None, ..hop("192.0.2.1", Some("a")) };
        hidden.write_forwarded([], &mut forwarded);
        hidden.write_x_forwarded_for([], &mut x);
        assert_eq!((&*forwarded, &*x), ("host=a;proto=https", ""));
    }

    #[test]
    fn the_client_is_the_first_nobody_vouches_for() {
        let trusted = |a: IpAddr| matches!(a, IpAddr::V4(v4) if v4.octets()[0] == 10);
        for (peer, lines, expected) in [
            ("192.0.2.9", &["192.0.2.1"][..], "192.0.2.9"),
            ("10.0.0.1", &["192.0.2.1"], "192.0.2.1"),
            ("::ffff:10.0.0.1", &["192.0.2.1"], "192.0.2.1"),
            ("10.0.0.1", &["6.6.6.6, 192.0.2.1", "10.0.0.2"], "192.0.2.1"),
            ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            ("10.0.0.1", &["192.0.2.1, unknown, 10.0.0.2"], "10.0.0.2"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["192.0.2.1:1234"], "192.0.2.1"),
            ("10.0.0.1", &["[2001:db8::1]:1"], "2001:db8::1"),
        ] {
            let by_x =
                client_by_x_forwarded_for(lines.iter().map(|l| l.as_bytes()), ip(peer), trusted);
            assert_eq!(by_x, ip(expected), "{peer} {lines:?}");
            let forwarded: Vec<String> = lines.iter().map(|l| forwarded_of(l)).collect();
            let by_f =
                client_by_forwarded(forwarded.iter().map(|l| l.as_bytes()), ip(peer), trusted);
            assert_eq!(by_f, ip(expected), "{peer} {forwarded:?}");
        }
        let chain = vec!["10.0.0.2"; MAX_HOPS].join(",");
        let line = format!("192.0.2.1,{chain}");
        let found =
            client_by_x_forwarded_for([line.as_bytes()].into_iter(), ip("10.0.0.1"), trusted);
        assert_eq!(found, ip("10.0.0.2"));
        let found = client_by_forwarded(
            [forwarded_of(&line).as_bytes()].into_iter(),
            ip("10.0.0.1"),
            trusted,
        );
        assert_eq!(found, ip("10.0.0.2"));
    }

    fn forwarded_of(line: &str) -> String {
        let elements = line.split(',').map(|e| format!("proto=http;For=\"{}\"", e.trim()));
        elements.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn parameters() {
        for (element, expected) in [
            ("for=a;proto=https", Some("https")),
            ("for=\"[::1]\"; PROTO=\"http\"", Some("http")),
            ("for=\"a;proto=x\"", None),
            ("proto = http", None),
            ("proto=\"h\\\"\"", None),
            ("proto=", None),
        ] {
            assert_eq!(
                parameter(element.as_bytes(), "proto"),
                expected.map(str::as_bytes),
                "{element}"
            );
        }
        assert_eq!(parse_node(b"192.0.2.1:_x"), Some(ip("192.0.2.1")));
        assert_eq!(parse_node(b"_hidden"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(line in prop::collection::vec(any::<u8>(), 0..60)) {
            client_by_x_forwarded_for([&line[..]].into_iter(), ip("10.0.0.1"), |_| true);
            client_by_forwarded([&line[..]].into_iter(), ip("10.0.0.1"), |_| true);
            let mut out = String::new();
            hop("::1", None).write_forwarded([&line[..]], &mut out);
            prop_assert!(out.bytes().all(|b| (b' '..=b'~').contains(&b) || b == b'\t'));
        }
    }
}
