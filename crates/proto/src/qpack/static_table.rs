//! The static table (RFC 9204 appendix A).

use crate::hpack::names::{COUNT, KNOWN};
use crate::hpack::static_table::same;

/// Number of entries, the first of which has index 0.
pub(super) const LEN: usize = 99;

/// Name and value of each entry.
#[rustfmt::skip]
const ENTRIES: [(&str, &str); LEN] = [
    (":authority", ""), (":path", "/"), ("age", "0"), ("content-disposition", ""),
    ("content-length", "0"), ("cookie", ""), ("date", ""), ("etag", ""),
    ("if-modified-since", ""), ("if-none-match", ""), ("last-modified", ""), ("link", ""),
    ("location", ""), ("referer", ""), ("set-cookie", ""), (":method", "CONNECT"),
    (":method", "DELETE"), (":method", "GET"), (":method", "HEAD"), (":method", "OPTIONS"),
    (":method", "POST"), (":method", "PUT"), (":scheme", "http"), (":scheme", "https"),
    (":status", "103"), (":status", "200"), (":status", "304"), (":status", "404"),
    (":status", "503"), ("accept", "*/*"), ("accept", "application/dns-message"),
    ("accept-encoding", "gzip, deflate, br"), ("accept-ranges", "bytes"),
    ("access-control-allow-headers", "cache-control"),
    ("access-control-allow-headers", "content-type"), ("access-control-allow-origin", "*"),
    ("cache-control", "max-age=0"), ("cache-control", "max-age=2592000"),
    ("cache-control", "max-age=604800"), ("cache-control", "no-cache"),
    ("cache-control", "no-store"), ("cache-control", "public, max-age=31536000"),
    ("content-encoding", "br"), ("content-encoding", "gzip"),
    ("content-type", "application/dns-message"), ("content-type", "application/javascript"),
    ("content-type", "application/json"), ("content-type", "application/x-www-form-urlencoded"),
    ("content-type", "image/gif"), ("content-type", "image/jpeg"), ("content-type", "image/png"),
    ("content-type", "text/css"), ("content-type", "text/html; charset=utf-8"),
    ("content-type", "text/plain"), ("content-type", "text/plain;charset=utf-8"),
    ("range", "bytes=0-"), ("strict-transport-security", "max-age=31536000"),
    ("strict-transport-security", "max-age=31536000; includesubdomains"),
    ("strict-transport-security", "max-age=31536000; includesubdomains; preload"),
    ("vary", "accept-encoding"), ("vary", "origin"), ("x-content-type-options", "nosniff"),
    ("x-xss-protection", "1; mode=block"), (":status", "100"), (":status", "204"),
    (":status", "206"), (":status", "302"), (":status", "400"), (":status", "403"),
    (":status", "421"), (":status", "425"), (":status", "500"), ("accept-language", ""),
    ("access-control-allow-credentials", "FALSE"), ("access-control-allow-credentials", "TRUE"),
    ("access-control-allow-headers", "*"), ("access-control-allow-methods", "get"),
    ("access-control-allow-methods", "get, post, options"),
    ("access-control-allow-methods", "options"),
    ("access-control-expose-headers", "content-length"),
    ("access-control-request-headers", "content-type"), ("access-control-request-method", "get"),
    ("access-control-request-method", "post"), ("alt-svc", "clear"), ("authorization", ""),
    ("content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"),
    ("early-data", "1"), ("expect-ct", ""), ("forwarded", ""), ("if-range", ""), ("origin", ""),
    ("purpose", "prefetch"), ("server", ""), ("timing-allow-origin", "*"),
    ("upgrade-insecure-requests", "1"), ("user-agent", ""), ("x-forwarded-for", ""),
    ("x-frame-options", "deny"), ("x-frame-options", "sameorigin"),
];

/// Name and value of the entry at `index`.
#[inline]
pub(super) fn entry(index: usize) -> Option<(&'static [u8], &'static [u8])> {
    let (name, value) = ENTRIES.get(index)?;
    Some((name.as_bytes(), value.as_bytes()))
}

/// For each of [`KNOWN`]: the index of its first entry and how many of its name follow each other;
/// 0 entries: there is none.
static RUNS: [(u8, u8); COUNT] = {
    let mut runs = [(0, 0); COUNT];
    let mut known = 0;
    while known < COUNT {
        let mut at = 0;
        while at < LEN {
            if same(ENTRIES[at].0.as_bytes(), KNOWN[known].name.as_bytes()) {
                let (first, count) = runs[known];
                if count == 0 {
                    runs[known] = (at as u8, 1);
                } else if at == first as usize + count as usize {
                    runs[known] = (first, count + 1);
                }
            }
            at += 1;
        }
        known += 1;
    }
    runs
};

/// The index of a field with the name at `place` of [`KNOWN`]: of the entry with this value (true),
/// else of one with the name alone.
#[inline]
pub(super) fn find(place: usize, value: &[u8]) -> Option<(usize, bool)> {
    let (first, count) = RUNS[place];
    let run = usize::from(first)..usize::from(first) + usize::from(count);
    match run.clone().find(|&at| ENTRIES[at].1.as_bytes() == value) {
        Some(at) => Some((at, true)),
        None if count > 0 => Some((run.start, false)),
        None => None,
    }
}

/// The index of the entry with this status.
pub(super) fn status(status: u16) -> Option<usize> {
    Some(match status {
        100 => 63,
        103 => 24,
        200 => 25,
        204 => 64,
        206 => 65,
        302 => 66,
        304 => 26,
        400 => 67,
        403 => 68,
        404 => 27,
        421 => 69,
        425 => 70,
        500 => 71,
        503 => 28,
        _ => return None,
    })
}
