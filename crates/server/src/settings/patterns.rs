//! Patterns of the configuration: hosts, networks, globs, cookies; and secrets.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

use larder_proto::http::cookie::Cookie;

/// A host name or `*.` and a domain, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    /// Exactly this host.
    Exact(String),
    /// Any host that ends in this, which begins with a dot (`.example.org` for `*.example.org`);
    /// not the domain itself.
    Suffix(String),
}

impl HostPattern {
    /// From `wiki.example.org` or `*.example.org`. None: neither.
    pub fn parse(text: &str) -> Option<HostPattern> {
        let lower = text.trim_end_matches('.').to_ascii_lowercase();
        let (name, wildcard) = match lower.strip_prefix("*.") {
            Some(rest) => (rest, true),
            None => (lower.as_str(), false),
        };
        let literal_v6 = name.starts_with('[') && name.ends_with(']');
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
        if name.is_empty() || !(literal_v6 || name.bytes().all(plain)) {
            return None;
        }
        Some(if wildcard {
            HostPattern::Suffix(format!(".{name}"))
        } else {
            HostPattern::Exact(name.to_owned())
        })
    }

    pub(super) fn rank(&self, host: &str) -> Option<usize> {
        match self {
            HostPattern::Exact(name) => name.eq_ignore_ascii_case(host).then_some(usize::MAX),
            HostPattern::Suffix(suffix) => {
                let cut = host.len().checked_sub(suffix.len()).filter(|&cut| cut > 0)?;
                host.as_bytes()[cut..]
                    .eq_ignore_ascii_case(suffix.as_bytes())
                    .then_some(suffix.len())
            }
        }
    }
}

/// As in the configuration.
impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostPattern::Exact(name) => f.write_str(name),
            HostPattern::Suffix(suffix) => write!(f, "*{suffix}"),
        }
    }
}

/// Text that must not appear in logs.
#[derive(Clone)]
pub struct Secret(Arc<[u8]>);

impl Secret {
    /// Keeps `bytes`, which must not be empty (an empty token would let everyone in): None then.
    pub fn new(bytes: &[u8]) -> Option<Secret> {
        (!bytes.is_empty()).then(|| Secret(bytes.into()))
    }

    /// Itself, to derive keys from it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Compares in a time that depends only on the lengths.
    pub fn matches(&self, offered: &[u8]) -> bool {
        let mut difference = u8::from(self.0.len() != offered.len());
        for (index, byte) in offered.iter().enumerate() {
            difference |= byte ^ self.0[index % self.0.len()];
        }
        std::hint::black_box(difference) == 0
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Secret) -> bool {
        self.matches(&other.0)
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A network: `10.0.0.0/8`, `::1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Net {
    base: u128,
    mask: u128,
}

impl Net {
    /// From an address with or without a prefix length. None: neither, or host bits set below the
    /// prefix.
    pub fn parse(text: &str) -> Option<Net> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u32>().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(width);
        if prefix > width {
            return None;
        }
        let mask = u128::MAX.checked_shl(width - prefix).unwrap_or(0);
        let mask = if address.is_ipv4() { mask | (u128::MAX << 32) } else { mask };
        let base = mapped(address);
        (base & mask == base).then_some(Net { base, mask })
    }

    /// Whether some address belongs to both.
    pub fn overlaps(&self, other: &Net) -> bool {
        let common = self.mask & other.mask;
        self.base & common == other.base & common
    }

    /// IPv4 addresses and IPv4-mapped IPv6 ones are the same.
    pub fn contains(&self, address: IpAddr) -> bool {
        mapped(address) & self.mask == self.base
    }
}

/// Both families in one number: IPv4 as its IPv4-mapped IPv6 address.
fn mapped(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_ipv6_mapped()),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = Ipv6Addr::from(self.base);
        let prefix = self.mask.leading_ones();
        match base.to_ipv4_mapped() {
            Some(v4) if prefix >= 96 => write!(f, "{v4}/{}", prefix - 96),
            _ => write!(f, "{base}/{prefix}"),
        }
    }
}

/// A pattern in which `*` stands for any run of bytes (also none, also `/`) and `?` for one byte.
/// Case counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(Box<str>);

impl Glob {
    /// Every text is a glob.
    pub fn new(text: &str) -> Glob {
        Glob(text.into())
    }

    /// As written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether all of `text` matches.
    pub fn matches(&self, text: &[u8]) -> bool {
        self.matches_as(text, |byte| byte)
    }

    /// The same for each byte mapped by `fold`. Linear backtracking to the last `*` only: at most
    /// pattern times text steps.
    pub fn matches_as(&self, text: &[u8], fold: impl Fn(u8) -> u8) -> bool {
        let pattern = self.0.as_bytes();
        let (mut p, mut t) = (0, 0);
        let mut retry: Option<(usize, usize)> = None;
        while t < text.len() {
            match pattern.get(p) {
                Some(b'*') => {
                    p += 1;
                    if p == pattern.len() {
                        return true;
                    }
                    retry = Some((p, t));
                }
                Some(&b) if b == b'?' || b == fold(text[t]) => {
                    p += 1;
                    t += 1;
                }
                _ => {
                    let Some((after_star, from)) = retry else { return false };
                    p = after_star;
                    t = from + 1;
                    retry = Some((p, t));
                }
            }
        }
        pattern[p..].iter().all(|&b| b == b'*')
    }
}

/// A pattern for cookies: a name, and a value if given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookiePattern {
    /// Over the name.
    pub name: Glob,
    /// Over the value.
    pub value: Option<Glob>,
}

impl CookiePattern {
    /// From `name` or `name=value`, both globs.
    pub fn new(text: &str) -> CookiePattern {
        match text.split_once('=') {
            Some((name, value)) => {
                CookiePattern { name: Glob::new(name), value: Some(Glob::new(value)) }
            }
            None => CookiePattern { name: Glob::new(text), value: None },
        }
    }

    /// Whether this cookie matches, with its name read in any of the ways in which servers read it.
    pub fn matches(&self, cookie: &Cookie<'_>) -> bool {
        self.names(cookie) && self.value.as_ref().is_none_or(|glob| glob.matches(cookie.value))
    }

    /// Whether its name matches.
    pub fn names(&self, cookie: &Cookie<'_>) -> bool {
        cookie.reads_as(|name, fold| self.name.matches_as(name, fold))
    }
}
