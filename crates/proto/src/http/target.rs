//! Request targets and authorities (RFC 9112 3.2, RFC 3986 3.2).
//!
//! Stricter than the URI grammar in parts that only attackers use: a host is a DNS name (letters,
//! digits, `-`, `_`, `.`), an IPv4 address or a bracketed IPv6 address; sub-delims,
//! percent-encoding and userinfo are refused, since a name with `,`, `'` or `%` in it only exploits
//! programs that read it later.

use super::method::Method;
use super::reject::RejectReason;

/// The form of a request target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `/path?query`
    Origin,
    /// `http://host/path?query`
    Absolute,
    /// `host:port`, of CONNECT only
    Authority,
    /// `*`, of OPTIONS only
    Asterisk,
}

/// A request target, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'b> {
    /// Its form.
    pub form: Form,
    /// `http` or `https` as received (any case), of the absolute form.
    pub scheme: Option<&'b str>,
    /// The authority as received, of the absolute and the authority form.
    pub authority: Option<&'b str>,
    /// Path and query as received: percent-encoding kept, dot segments kept. `/` when the path is
    /// empty, `*` for the asterisk form (and for OPTIONS with an absolute form without path, RFC
    /// 9112 3.2.4), empty for the authority form.
    pub path_and_query: &'b str,
}

impl<'b> Target<'b> {
    /// Parses `raw`. Errors are [`RejectReason::Target`] and [`RejectReason::HostInvalid`] (400).
    ///
    /// `http://host?query` (empty path, query) is refused: its meaning, `/?query`, is not a part of
    /// it, and no client sends it.
    #[inline]
    pub fn parse(method: Method<'_>, raw: &'b str) -> Result<Self, RejectReason> {
        if !has_only_uri_bytes(raw.as_bytes()) {
            return Err(RejectReason::Target);
        }
        let connect = matches!(method, Method::Connect);
        match raw.as_bytes() {
            [b'/', ..] if !connect => {
                Ok(Self { form: Form::Origin, scheme: None, authority: None, path_and_query: raw })
            }
            b"*" if matches!(method, Method::Options) => Ok(Self {
                form: Form::Asterisk,
                scheme: None,
                authority: None,
                path_and_query: raw,
            }),
            _ if connect => Self::authority_form(raw),
            _ => Self::absolute_form(method, raw),
        }
    }

    fn authority_form(raw: &'b str) -> Result<Self, RejectReason> {
        match Authority::parse(raw.as_bytes()) {
            Some(Authority { port: Some(_), .. }) => Ok(Self {
                form: Form::Authority,
                scheme: None,
                authority: Some(raw),
                path_and_query: "",
            }),
            _ => Err(RejectReason::Target),
        }
    }

    fn absolute_form(method: Method<'_>, raw: &'b str) -> Result<Self, RejectReason> {
        let (scheme, rest) = raw.split_once("://").ok_or(RejectReason::Target)?;
        if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
            return Err(RejectReason::Target);
        }
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let path_and_query = match path.as_bytes() {
            [] if matches!(method, Method::Options) => "*",
            [] => "/",
            [b'/', ..] => path,
            _ => return Err(RejectReason::Target),
        };
        Authority::parse(authority.as_bytes()).ok_or(RejectReason::HostInvalid)?;
        Ok(Self {
            form: Form::Absolute,
            scheme: Some(scheme),
            authority: Some(authority),
            path_and_query,
        })
    }
}

/// Visible ASCII without `#`. Written as one fold without early exit, which the compiler turns into
/// vector code.
fn has_only_uri_bytes(raw: &[u8]) -> bool {
    !raw.is_empty() && raw.iter().fold(true, |ok, &b| ok & (b > b' ') & (b < 0x7f) & (b != b'#'))
}

/// A host with an optional port, as in Host and in absolute-form targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authority<'b> {
    /// The host as received: any case, perhaps with a trailing dot; an IPv6 address in its
    /// brackets. Never empty.
    pub host: &'b str,
    /// The port, when there is one (`host:` has none).
    pub port: Option<u16>,
}

impl<'b> Authority<'b> {
    /// Parses `host`, `host:port`, `[v6]` or `[v6]:port`; `None` for anything else.
    #[inline]
    pub fn parse(value: &'b [u8]) -> Option<Self> {
        let end = if value.first() == Some(&b'[') { address_end(value)? } else { name_end(value)? };
        let host = std::str::from_utf8(&value[..end]).ok()?;
        let port = match &value[end..] {
            [] | b":" => None,
            [b':', digits @ ..] => Some(parse_port(digits)?),
            _ => return None,
        };
        Some(Self { host, port })
    }

    /// Whether both name the same server: hosts without regard to case or a trailing dot, ports
    /// with `default_port` for an absent one.
    pub fn same(&self, other: &Authority<'_>, default_port: u16) -> bool {
        let host = |name: &'_ str| -> usize { name.strip_suffix('.').unwrap_or(name).len() };
        self.host[..host(self.host)].eq_ignore_ascii_case(&other.host[..host(other.host)])
            && self.port.unwrap_or(default_port) == other.port.unwrap_or(default_port)
    }
}

/// Length of `[address]` at the start.
fn address_end(value: &[u8]) -> Option<usize> {
    let end = value.iter().position(|&b| b == b']')?;
    std::str::from_utf8(&value[1..end]).ok()?.parse::<std::net::Ipv6Addr>().ok()?;
    Some(end + 1)
}

/// Length of the name at the start: letters, digits, `-`, `_`, `.`; 1 to 255 bytes; no empty label
/// except after a trailing dot (RFC 1035 2.3.4). The caller checks the bytes after it.
#[inline]
fn name_end(value: &[u8]) -> Option<usize> {
    let (mut end, mut previous, mut empty_label) = (0, DOT, 0);
    for &byte in value {
        let class = NAME_BYTES[usize::from(byte)];
        if class == 0 {
            break;
        }
        empty_label |= class & previous & DOT;
        previous = class;
        end += 1;
    }
    ((1..=255).contains(&end) && empty_label == 0).then_some(end)
}

const LABEL: u8 = 1;
const DOT: u8 = 2;

/// The use of each byte in a host name; 0: none.
static NAME_BYTES: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0_u8;
    while byte < 0x80 {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            table[byte as usize] = LABEL;
        }
        byte += 1;
    }
    table[b'.' as usize] = DOT;
    table
};

fn parse_port(digits: &[u8]) -> Option<u16> {
    if digits.len() > 5 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let port = digits.iter().fold(0_u32, |n, d| n * 10 + u32::from(d - b'0'));
    u16::try_from(port).ok().filter(|&p| p != 0)
}

impl std::fmt::Display for Authority<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(method: &str, raw: &str) -> Option<(Form, Option<String>, String)> {
        let target = Target::parse(Method::of(method), raw).ok()?;
        Some((target.form, target.authority.map(str::to_owned), target.path_and_query.to_owned()))
    }

    #[test]
    fn forms_are_told_apart() {
        let origin = |p: &str| Some((Form::Origin, None, p.to_owned()));
        let absolute = |a: &str, p: &str| Some((Form::Absolute, Some(a.to_owned()), p.to_owned()));
        for (method, raw, expected) in [
            ("GET", "/", origin("/")),
            ("GET", "//a/b", origin("//a/b")),
            ("GET", "/a?b=%2f&c", origin("/a?b=%2f&c")),
            ("GET", "/a/../b;c", origin("/a/../b;c")),
            ("GET", "http://a", absolute("a", "/")),
            ("GET", "HTTPS://A:8443/x?y", absolute("A:8443", "/x?y")),
            ("GET", "http://[::1]:80/x", absolute("[::1]:80", "/x")),
            ("OPTIONS", "http://a", absolute("a", "*")),
            ("OPTIONS", "*", Some((Form::Asterisk, None, "*".to_owned()))),
            ("CONNECT", "a:443", Some((Form::Authority, Some("a:443".to_owned()), String::new()))),
            ("GET", "*", None),
            ("GET", "a:443", None),
            ("GET", "a", None),
            ("GET", "?a", None),
            ("GET", "http://a?b", None),
            ("GET", "http:///b", None),
            ("GET", "http://u@a/b", None),
            ("GET", "http://u:p@a/b", None),
            ("GET", "ftp://a/b", None),
            ("GET", "://a/b", None),
            ("GET", "/a#b", None),
            ("GET", "/a\u{e9}", None),
            ("GET", "/a\tb", None),
            ("GET", "/a\u{7f}", None),
            ("CONNECT", "/", None),
            ("CONNECT", "a", None),
            ("CONNECT", "http://a:1/", None),
        ] {
            assert_eq!(target(method, raw), expected, "{method} {raw}");
        }
    }

    #[test]
    fn authorities() {
        let long = "a".repeat(256);
        for (value, expected) in [
            ("a", Some(("a", None))),
            ("A.example.:80", Some(("A.example.", Some(80)))),
            ("a_b-c:65535", Some(("a_b-c", Some(65535)))),
            ("a:", Some(("a", None))),
            ("127.0.0.1:1", Some(("127.0.0.1", Some(1)))),
            ("[::1]", Some(("[::1]", None))),
            ("[::1]:80", Some(("[::1]", Some(80)))),
            ("[::1]:", Some(("[::1]", None))),
            ("", None),
            (".", None),
            ("a..b", None),
            (".a", None),
            (":80", None),
            ("a:0", None),
            ("a:65536", None),
            ("a:+80", None),
            ("a:80:80", None),
            ("a b", None),
            ("a/b", None),
            ("u@a", None),
            ("a,b", None),
            ("a%41", None),
            ("a'b", None),
            ("::1", None),
            ("[::1", None),
            ("[::1]80", None),
            ("[a]", None),
            ("[fe80::1%25eth0]", None),
            (long.as_str(), None),
        ] {
            let got = Authority::parse(value.as_bytes()).map(|a| (a.host, a.port));
            assert_eq!(got, expected, "{value}");
        }
        assert_eq!(Authority::parse(b"a\xff"), None);
    }

    #[test]
    fn the_same_server_in_other_words() {
        for (a, b, same) in [
            ("a.example", "A.EXAMPLE.:80", true),
            ("a:", "a", true),
            ("a:80", "a:81", false),
            ("a", "b", false),
            ("a.b", "a", false),
        ] {
            let parse = |v: &'static str| Authority::parse(v.as_bytes()).expect("an authority");
            assert_eq!(parse(a).same(&parse(b), 80), same, "{a} {b}");
        }
    }
}
