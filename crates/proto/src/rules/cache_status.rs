//! Cache-Status (RFC 9211).

use crate::http::range::write_number;

/// Why a request was forwarded (RFC 9211 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// The cache was told not to handle the request.
    Bypass,
    /// The method is not cacheable.
    Method,
    /// Nothing stored for the URI.
    UriMiss,
    /// Stored, but no variant fits.
    VaryMiss,
    /// Nothing stored; the cache does not distinguish between the two above.
    Miss,
    /// A fresh page, but the client asked for the origin.
    Request,
    /// A stale page.
    Stale,
    /// A partial page without all the bytes asked for.
    Partial,
}

impl Forward {
    /// The token of RFC 9211 2.2.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::UriMiss => "uri-miss",
            Self::VaryMiss => "vary-miss",
            Self::Miss => "miss",
            Self::Request => "request",
            Self::Stale => "stale",
            Self::Partial => "partial",
        }
    }
}

/// One member of Cache-Status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatus<'a> {
    /// Answered from the store without the origin. `fwd`, `fwd_status`, `stored` and `collapsed`
    /// are not written then.
    pub hit: bool,
    /// Why it was forwarded.
    pub fwd: Option<Forward>,
    /// Status of the origin's answer, where it is not the status sent.
    pub fwd_status: Option<u16>,
    /// Freshness left in seconds (negative: stale).
    pub ttl: Option<i64>,
    /// The response was stored.
    pub stored: bool,
    /// The request waited for another one's fetch.
    pub collapsed: bool,
    /// A further word.
    pub detail: Option<&'a str>,
}

impl CacheStatus<'_> {
    /// Appends the member: `name` first (as a token where it is one, else as a string), then the
    /// parameters.
    pub fn write(&self, name: &str, out: &mut Vec<u8>) {
        write_token_or_string(name, out);
        if self.hit {
            out.extend_from_slice(b"; hit");
        } else {
            self.write_forward(out);
        }
        if let Some(ttl) = self.ttl {
            out.extend_from_slice(b"; ttl=");
            write_int(ttl, out);
        }
        if let Some(detail) = self.detail {
            out.extend_from_slice(b"; detail=");
            write_token_or_string(detail, out);
        }
    }

    fn write_forward(&self, out: &mut Vec<u8>) {
        if let Some(why) = self.fwd {
            out.extend_from_slice(b"; fwd=");
            out.extend_from_slice(why.as_str().as_bytes());
        }
        if let Some(status) = self.fwd_status {
            out.extend_from_slice(b"; fwd-status=");
            write_int(status.into(), out);
        }
        if self.stored {
            out.extend_from_slice(b"; stored");
        }
        if self.collapsed {
            out.extend_from_slice(b"; collapsed");
        }
    }
}

/// An sf-token unchanged, anything else as an sf-string; characters that an sf-string cannot hold
/// become `?` (RFC 8941 3.3.3).
fn write_token_or_string(text: &str, out: &mut Vec<u8>) {
    let token = text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'*')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&b));
    if token {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b' '..=b'~' => out.push(byte),
            _ => out.push(b'?'),
        }
    }
    out.push(b'"');
}

/// An sf-integer: at most 15 digits (RFC 8941 3.3.1).
fn write_int(value: i64, out: &mut Vec<u8>) {
    const MAX: u64 = 999_999_999_999_999;
    if value < 0 {
        out.push(b'-');
    }
    write_number(value.unsigned_abs().min(MAX), out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(name: &str, status: CacheStatus<'_>) -> String {
        let mut out = Vec::new();
        status.write(name, &mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn the_examples_of_rfc_9211() {
        let none = CacheStatus::default();
        for (expected, status) in [
            ("Larder; hit", CacheStatus { hit: true, ..none }),
            ("Larder; hit; ttl=376", CacheStatus { hit: true, ttl: Some(376), ..none }),
            ("Larder; hit; ttl=-412", CacheStatus { hit: true, ttl: Some(-412), ..none }),
            ("Larder; fwd=uri-miss", CacheStatus { fwd: Some(Forward::UriMiss), ..none }),
            (
                "Larder; fwd=stale; fwd-status=304",
                CacheStatus { fwd: Some(Forward::Stale), fwd_status: Some(304), ..none },
            ),
            (
                "Larder; fwd=uri-miss; stored",
                CacheStatus { fwd: Some(Forward::UriMiss), stored: true, ..none },
            ),
            (
                "Larder; fwd=miss; collapsed; detail=private",
                CacheStatus {
                    fwd: Some(Forward::Miss),
                    collapsed: true,
                    detail: Some("private"),
                    ..none
                },
            ),
        ] {
            assert_eq!(written("Larder", status), expected);
        }
    }

    #[test]
    fn a_hit_is_never_also_forwarded() {
        let both = CacheStatus {
            hit: true,
            fwd: Some(Forward::Miss),
            stored: true,
            ..CacheStatus::default()
        };
        assert_eq!(written("a", both), "a; hit");
    }

    #[test]
    fn names_and_details_cannot_break_out() {
        let status = CacheStatus { detail: Some("a\"b\\c\r\n\u{e9}"), ..CacheStatus::default() };
        assert_eq!(written("my cache", status), "\"my cache\"; detail=\"a\\\"b\\\\c????\"");
        assert_eq!(
            written("", CacheStatus { ttl: Some(i64::MIN), ..CacheStatus::default() }),
            "\"\"; ttl=-999999999999999"
        );
    }
}
