//! Cache keys.
//!
//! A page is found by scheme, host, port, path and query, each written so that no two different
//! tuples give the same bytes: numbers have a fixed width and texts come after their length.
//! Percent-encoding is not decoded and dot segments stay: an origin may treat `/a%2fb` and `/a/b`,
//! `/a/../b` and `/b` as different pages, and a cache that equates them serves one for the other
//! (RFC 3986 6.2.2 would allow less than it seems).
//!
//! ```text
//! page     'P' | scheme u8 | port u16 | host length u32 | host | path and query (to the end)
//! behind   0 | host a trusted proxy named, or nothing | (1 | field name | 2 | field value)*
//! variant  'V' | nonce u64 | page length u32 | page | (value length u32 | value)*
//! ```
//! All numbers are big-endian. Path and query come last and unbounded, so that the keys of all
//! pages below a path start with the same bytes. Few requests have a suffix behind them; neither a
//! path nor a field has a byte below 3.

/// The scheme of the requested URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `http`
    Http,
    /// `https`
    Https,
}

impl Scheme {
    /// `http` or `https`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// 80 or 443.
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }

    /// The scheme with that name, in any case.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Http, Self::Https].into_iter().find(|s| s.as_str().eq_ignore_ascii_case(name))
    }
}

const PAGE: u8 = b'P';
const VARIANT: u8 = b'V';

/// The parts of a page's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyParts<'a> {
    /// The scheme.
    pub scheme: Scheme,
    /// The host: lower-case, without trailing dot.
    pub host: &'a str,
    /// The port; 0 stands for the scheme's default.
    pub port: u16,
    /// Path and query as requested.
    pub path_and_query: &'a [u8],
}

/// Appends the key of a page. The host is lower-cased and loses one trailing dot; `port` 0 and the
/// scheme's default are the same. `path_and_query` is that of the request after the site's query
/// rules; for a prefix purge, its start.
pub fn write_key(out: &mut Vec<u8>, scheme: Scheme, host: &str, port: u16, path_and_query: &[u8]) {
    let host = host.strip_suffix('.').unwrap_or(host).as_bytes();
    let port = if port == scheme.default_port() { 0 } else { port };
    out.reserve(8 + host.len() + path_and_query.len());
    out.extend_from_slice(&[PAGE, scheme as u8]);
    out.extend_from_slice(&port.to_be_bytes());
    write_length(host.len(), out);
    let start = out.len();
    out.extend_from_slice(host);
    out[start..].make_ascii_lowercase();
    out.extend_from_slice(path_and_query);
}

/// Appends what is in a page's key behind path and query: the host that a trusted proxy named
/// besides Host (an empty one is none), and the lines of the fields that the site has in its keys
/// (names in lower case).
pub fn write_behind<'a>(
    out: &mut Vec<u8>,
    forwarded_host: Option<&[u8]>,
    lines: impl Iterator<Item = (&'a str, &'a [u8])>,
) {
    let start = out.len();
    if let Some(host) = forwarded_host.filter(|host| !host.is_empty()) {
        out.push(0);
        out.extend(host.iter().map(u8::to_ascii_lowercase));
    }
    for (name, value) in lines {
        if out.len() == start {
            out.push(0);
        }
        out.push(1);
        out.extend_from_slice(name.as_bytes());
        out.push(2);
        out.extend_from_slice(value);
    }
}

/// Path and query of a key's [`KeyParts::path_and_query`], and what stands behind them.
pub fn split_behind(path_and_query: &[u8]) -> (&[u8], Behind<'_>) {
    let at = path_and_query.iter().position(|&byte| byte == 0).unwrap_or(path_and_query.len());
    let (path, behind) = path_and_query.split_at(at);
    let mut parts = behind.get(1..).unwrap_or_default().split(|&byte| byte == 1);
    let forwarded_host = parts.next().filter(|host| !host.is_empty());
    let lines = parts
        .map(|line| {
            let at = line.iter().position(|&byte| byte == 2).unwrap_or(line.len());
            (&line[..at], line.get(at + 1..).unwrap_or_default())
        })
        .collect();
    (path, Behind { forwarded_host, lines })
}

/// The key of the URL alone: `page` (the key of a page, not of a variant) without what stands
/// behind path and query.
pub fn url_key(page: &[u8]) -> &[u8] {
    let Some(parts) = parse_key(page) else { return page };
    let behind = parts.path_and_query.len() - split_behind(parts.path_and_query).0.len();
    &page[..page.len() - behind]
}

/// The suffix behind path and query in a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Behind<'a> {
    /// The host that a trusted proxy named besides Host.
    pub forwarded_host: Option<&'a [u8]>,
    /// Names and values of the fields that the site has in its keys.
    pub lines: Vec<(&'a [u8], &'a [u8])>,
}

/// Appends the key of one variant of the page whose key is `primary`. `nonce` is the Vary marker's:
/// a new marker makes all earlier variants unreachable. Values are normalised, in the order of the
/// marker's names.
pub fn write_variant_key<'a>(
    out: &mut Vec<u8>,
    primary: &[u8],
    nonce: u64,
    normalised_values: impl Iterator<Item = &'a [u8]>,
) {
    start_variant_key(out, primary, nonce);
    for value in normalised_values {
        push_variant_value(out, |out| out.extend_from_slice(value));
    }
}

/// Appends the common start of the keys of all variants of a page. Values follow by
/// [`push_variant_value`], so that a hit makes its key in one buffer.
pub fn start_variant_key(out: &mut Vec<u8>, primary: &[u8], nonce: u64) {
    out.push(VARIANT);
    out.extend_from_slice(&nonce.to_be_bytes());
    write_length(primary.len(), out);
    out.extend_from_slice(primary);
}

/// Appends one value, which `write` writes.
pub fn push_variant_value(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    write_length(0, out);
    write(out);
    let length = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// The parts of a page's key, or of the page of a variant's key; `None` when it is neither.
pub fn parse_key(key: &[u8]) -> Option<KeyParts<'_>> {
    let page = match key.split_first()? {
        (&VARIANT, _) => parse_variant_key(key)?.0,
        _ => key,
    };
    let (&[kind, scheme, p1, p0], rest) = page.split_first_chunk()?;
    let scheme = [Scheme::Http, Scheme::Https].into_iter().find(|&s| s as u8 == scheme)?;
    let (host, path_and_query) = read_text(rest)?;
    let host = std::str::from_utf8(host).ok()?;
    (kind == PAGE).then_some(KeyParts {
        scheme,
        host,
        port: u16::from_be_bytes([p1, p0]),
        path_and_query,
    })
}

/// Page key, nonce and the bytes of the values of a variant's key; `None` when it is not one.
pub fn parse_variant_key(key: &[u8]) -> Option<(&[u8], u64, &[u8])> {
    let (kind, rest) = key.split_first()?;
    let (nonce, rest) = rest.split_first_chunk()?;
    let (primary, values) = read_text(rest)?;
    (*kind == VARIANT).then_some((primary, u64::from_be_bytes(*nonce), values))
}

/// Lengths are those of request heads: far below 2^32. A longer text would be a bug; it gets a
/// length that no text has.
fn write_length(length: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
}

fn read_text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
}

impl std::fmt::Display for KeyParts<'_> {
    /// As a URL; bytes that are not visible ASCII are escaped.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}", self.scheme.as_str(), self.host)?;
        if self.port != 0 {
            write!(f, ":{}", self.port)?;
        }
        write!(f, "{}", self.path_and_query.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(scheme: Scheme, host: &str, port: u16, path: &str) -> Vec<u8> {
        let mut out = Vec::new();
        write_key(&mut out, scheme, host, port, path.as_bytes());
        out
    }

    #[test]
    fn the_same_page_and_others() {
        let base = key(Scheme::Http, "a.example", 0, "/b?c");
        for (scheme, host, port, path, same) in [
            (Scheme::Http, "A.EXAMPLE.", 80, "/b?c", true),
            (Scheme::Https, "a.example", 0, "/b?c", false),
            (Scheme::Http, "a.example", 443, "/b?c", false),
            (Scheme::Http, "a.example", 8080, "/b?c", false),
            (Scheme::Http, "a.example..", 80, "/b?c", false),
            (Scheme::Http, "a.exampl", 0, "e/b?c", false),
            (Scheme::Http, "a.example", 0, "/B?c", false),
            (Scheme::Http, "a.example", 0, "/%62?c", false),
            (Scheme::Http, "a.example", 0, "/./b?c", false),
            (Scheme::Http, "a.example", 0, "/b%3fc", false),
            (Scheme::Http, "a.example", 0, "/b", false),
        ] {
            assert_eq!(
                key(scheme, host, port, path) == base,
                same,
                "{scheme:?} {host} {port} {path}"
            );
        }
        assert_eq!(key(Scheme::Https, "a", 443, "/"), key(Scheme::Https, "a", 0, "/"));
        assert!(base.starts_with(&key(Scheme::Http, "a.example", 0, "/b")));
    }

    #[test]
    fn what_stands_behind_comes_back() {
        type Line = (&'static str, &'static [u8]);
        let mut empty = b"/".to_vec();
        write_behind(&mut empty, Some(b""), std::iter::empty());
        assert_eq!(empty, b"/");
        for (host, lines) in [
            (None, &[][..]),
            (Some(&b"a.test"[..]), &[]),
            (None, &[("x-a", &b"1"[..])]),
            (Some(b"a.test"), &[("x-a", &b""[..]), ("x-a", b"1, 2"), ("x-b", b"\xe9")]),
        ] {
            let lines: &[Line] = lines;
            let mut out = b"/a?b".to_vec();
            write_behind(&mut out, host, lines.iter().copied());
            let (path, behind) = split_behind(&out);
            assert_eq!(path, b"/a?b");
            assert_eq!(behind.forwarded_host, host);
            let expected: Vec<_> =
                lines.iter().map(|(name, value)| (name.as_bytes(), *value)).collect();
            assert_eq!(behind.lines, expected);
        }
    }

    #[test]
    fn the_key_of_the_url_has_nothing_behind_it() {
        let plain = key(Scheme::Http, "a.example", 8080, "/b?c");
        let mut with = plain.clone();
        write_behind(&mut with, Some(b"b.example"), [("x-a", &b"1"[..])].into_iter());
        assert_eq!((url_key(&with), url_key(&plain)), (&plain[..], &plain[..]));
        assert_eq!(url_key(b"no key"), b"no key");
    }

    #[test]
    fn shown_as_a_url() {
        let shown = |bytes: &[u8]| parse_key(bytes).map(|parts| parts.to_string());
        assert_eq!(shown(&key(Scheme::Http, "A.", 80, "/?b")), Some("http://a/?b".to_owned()));
        assert_eq!(
            shown(&key(Scheme::Https, "[::1]", 80, "/\u{1b}")),
            Some("https://[::1]:80/\\x1b".to_owned())
        );
        assert_eq!(shown(b""), None);
        assert_eq!(shown(b"P\x02\0\0\0\0\0\0"), None);
        assert_eq!(shown(b"P\x00\0\0\0\0\0\x09a"), None);
    }

    type Tuple = (bool, String, u16, String);

    fn tuple() -> impl Strategy<Value = Tuple> {
        (any::<bool>(), "[a-b/.]{0,3}[a-b]", 0..3_u16, "[a-b/?]{0,4}")
    }

    fn of((secure, host, port, path): &Tuple) -> Vec<u8> {
        key(if *secure { Scheme::Https } else { Scheme::Http }, host, *port, path)
    }

    proptest! {
        #[test]
        fn different_pages_have_different_keys(a in tuple(), b in tuple()) {
            prop_assert_eq!(of(&a) == of(&b), a == b);
        }

        #[test]
        fn parts_come_back(a in tuple(), nonce: u64, values in prop::collection::vec("[a-b]{0,3}", 0..3)) {
            let page = of(&a);
            let mut variant = Vec::new();
            write_variant_key(&mut variant, &page, nonce, values.iter().map(|v| v.as_bytes()));
            let parts = parse_key(&page).expect("a key");
            prop_assert_eq!(parse_key(&variant), Some(parts));
            prop_assert_eq!(
                (parts.host, parts.port, parts.path_and_query), (&*a.1, a.2, a.3.as_bytes()),
            );
            prop_assert_eq!(
                parse_variant_key(&variant).map(|v| (v.0, v.1)), Some((&page[..], nonce)),
            );
        }

        #[test]
        fn different_variants_have_different_keys(
            a in (tuple(), 0..2_u64, prop::collection::vec("[a-b]{0,2}", 0..3)),
            b in (tuple(), 0..2_u64, prop::collection::vec("[a-b]{0,2}", 0..3)),
        ) {
            let write = |(page, nonce, values): &(Tuple, u64, Vec<String>)| {
                let mut out = Vec::new();
                write_variant_key(&mut out, &of(page), *nonce, values.iter().map(|v| v.as_bytes()));
                out
            };
            prop_assert_eq!(write(&a) == write(&b), a == b);
        }

        #[test]
        fn no_bytes_make_it_panic(
            mut key in prop::collection::vec(any::<u8>(), 0..40), variant: bool,
        ) {
            parse_key(&key);
            if let Some(first) = key.first_mut() {
                *first = if variant { VARIANT } else { PAGE };
            }
            parse_key(&key);
        }
    }
}
