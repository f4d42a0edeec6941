//! The encoder's policy: which response fields it knows, and how it encodes each.

use super::static_table;

/// How lines of one name are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// The value repeats between responses: the line goes into the dynamic table.
    Index,
    /// The value hardly ever repeats: a literal. The first line of a name outside the static table
    /// goes into the dynamic table, so that later lines refer to its name.
    Literal,
    /// The value is a secret: a literal that no one may index (section 7.1.3).
    Never,
    /// Of the connection, not of the response (RFC 9113 section 8.2.2): left out.
    Drop,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) policy: Policy,
    /// Index in the static table, or 0.
    pub(crate) static_index: u8,
}

const fn known(name: &'static str, policy: Policy) -> Known {
    Known { name, policy, static_index: static_table::index_of(name) }
}

use Policy::{Drop, Index, Literal, Never};

pub(crate) const COUNT: usize = 68;

/// All known names. A name's place, counted from 1, is its mark in the dynamic table.
#[rustfmt::skip]
pub(crate) static KNOWN: [Known; COUNT] = TABLE;

#[rustfmt::skip]
const TABLE: [Known; COUNT] = [
    known("accept-ch", Index), known("accept-ranges", Index),
    known("access-control-allow-credentials", Index), known("access-control-allow-headers", Index),
    known("access-control-allow-methods", Index), known("access-control-allow-origin", Index),
    known("access-control-expose-headers", Index), known("access-control-max-age", Index),
    known("age", Literal), known("allow", Index), known("alt-svc", Index),
    known("cache-control", Index), known("cache-status", Literal), known("clear-site-data", Index),
    known("connection", Drop), known("content-disposition", Literal),
    known("content-encoding", Index), known("content-language", Index),
    known("content-length", Literal), known("content-location", Literal),
    known("content-range", Literal), known("content-security-policy", Index),
    known("content-security-policy-report-only", Index), known("content-type", Index),
    known("cross-origin-embedder-policy", Index), known("cross-origin-opener-policy", Index),
    known("cross-origin-resource-policy", Index), known("date", Literal), known("etag", Literal),
    known("expires", Literal), known("feature-policy", Index), known("keep-alive", Drop),
    known("last-modified", Literal), known("link", Literal), known("location", Literal),
    known("nel", Index), known("origin-agent-cluster", Index), known("permissions-policy", Index),
    known("pragma", Index), known("proxy-authenticate", Literal), known("proxy-connection", Drop),
    known("referrer-policy", Index), known("refresh", Literal), known("report-to", Index),
    known("reporting-endpoints", Index), known("retry-after", Literal), known("server", Index),
    known("server-timing", Literal), known("set-cookie", Never),
    known("strict-transport-security", Index), known("timing-allow-origin", Index),
    known("traceparent", Literal), known("trailer", Index), known("transfer-encoding", Drop),
    known("upgrade", Drop), known("vary", Index), known("via", Index),
    known("www-authenticate", Literal), known("x-cache", Index), known("x-cache-lookup", Index),
    known("x-content-type-options", Index),
    known("x-download-options", Index), known("x-frame-options", Index),
    known("x-permitted-cross-domain-policies", Index), known("x-powered-by", Index),
    known("x-request-id", Literal), known("x-robots-tag", Index), known("x-xss-protection", Index),
];

/// Longest known name, in bytes.
pub(crate) const LONGEST: usize = 40;

const SLOTS: usize = 256;

/// Places in [`KNOWN`], counted from 1, by hash; a taken slot leads to the next. 0: free.
static PLACES: [u8; SLOTS] = {
    let mut places = [0; SLOTS];
    let mut at = 0;
    while at < COUNT {
        assert!(TABLE[at].name.len() <= LONGEST);
        let mut slot = hash(TABLE[at].name.as_bytes());
        while places[slot] != 0 {
            slot = (slot + 1) % SLOTS;
        }
        places[slot] = at as u8 + 1;
        at += 1;
    }
    places
};

/// A hash of a name of at least one byte, in lower case.
const fn hash(name: &[u8]) -> usize {
    let (first, last) = (name[0] as usize, name[name.len() - 1] as usize);
    let middle = name[name.len() / 2] as usize;
    (name.len() * 37 + first * 5 + middle * 29 + last * 11) % SLOTS
}

/// The place of `name`, which is in lower case, in [`KNOWN`], counted from 1; 0 if it is unknown.
#[inline]
pub(crate) fn find(name: &[u8]) -> u8 {
    if name.is_empty() || name.len() > LONGEST {
        return 0;
    }
    let mut slot = hash(name);
    loop {
        match PLACES[slot] {
            0 => return 0,
            place if KNOWN[usize::from(place) - 1].name.as_bytes() == name => return place,
            _ => slot = (slot + 1) % SLOTS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found() {
        for (at, known) in KNOWN.iter().enumerate() {
            assert_eq!(usize::from(find(known.name.as_bytes())), at + 1, "{}", known.name);
            assert!(!known.name.bytes().any(|byte| byte.is_ascii_uppercase()));
        }
        for name in ["", "x", "x-foo", "content-typ", "content-typf", &"a".repeat(100)] {
            assert_eq!(find(name.as_bytes()), 0);
        }
    }

    #[test]
    fn names_of_the_static_table_have_their_index() {
        let known = |name: &str| KNOWN[usize::from(find(name.as_bytes())) - 1];
        assert_eq!(known("server").static_index, 54);
        assert_eq!(known("age").static_index, 21);
        assert_eq!(known("x-cache").static_index, 0);
    }
}
