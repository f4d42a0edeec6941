//! The framing fields of a request: body length, connection options, expectations (RFC 9112 6 and
//! 9).

use super::fields::{Elements, is_word};
use super::known::{Known, KnownField};
use super::reject::RejectReason;
use super::request::{BodyFraming, Version};

/// How the body of a request is delimited (RFC 9112 6.3). Refuses everything that two servers could
/// read differently.
#[inline]
pub(super) fn body_framing(
    version: Version,
    known: &Known<'_>,
) -> Result<BodyFraming, RejectReason> {
    match (known.content_length(), known.transfer_encoding()) {
        (None, None) => Ok(BodyFraming::None),
        (Some(_), Some(_)) => Err(RejectReason::LengthAndEncoding),
        (Some(_), None) if known.is_repeated(KnownField::ContentLength) => {
            Err(RejectReason::ContentLength)
        }
        (Some(value), None) => match content_length(value) {
            Some(0) => Ok(BodyFraming::None),
            Some(length) => Ok(BodyFraming::Length(length)),
            None => Err(RejectReason::ContentLength),
        },
        (None, Some(_)) if version == Version::Http10 => Err(RejectReason::TransferEncoding),
        (None, Some(_)) if known.is_repeated(KnownField::TransferEncoding) => {
            Err(RejectReason::TransferEncoding)
        }
        (None, Some(value)) if is_word(value, b"chunked") => Ok(BodyFraming::Chunked),
        (None, Some(value)) => Err(unknown_coding(value)),
    }
}

/// Digits only, below 2^64. A list of equal numbers, which RFC 9112 6.3 allows a recipient to
/// accept, is refused.
pub fn content_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0_u64, |n, &b| {
        let digit = b.is_ascii_digit().then(|| u64::from(b - b'0'))?;
        n.checked_mul(10)?.checked_add(digit)
    })
}

/// 501 for a list of codings that exist and end with one `chunked`, 400 for everything else (RFC
/// 9112 6.1 and 6.3).
#[cold]
fn unknown_coding(value: &[u8]) -> RejectReason {
    const CODINGS: [&[u8]; 5] = [b"gzip", b"x-gzip", b"deflate", b"compress", b"x-compress"];
    let mut elements = Elements::of(value).peekable();
    while let Some(element) = elements.next() {
        let last = elements.peek().is_none();
        if last && element.eq_ignore_ascii_case(b"chunked") {
            return RejectReason::TransferCoding;
        }
        if last || !CODINGS.iter().any(|c| c.eq_ignore_ascii_case(element)) {
            return RejectReason::TransferEncoding;
        }
    }
    RejectReason::TransferEncoding
}

/// The options of Connection (RFC 9112 9.3, RFC 9110 7.6.1).
pub(super) struct Connection {
    /// Another request may follow.
    pub(super) keep_alive: bool,
    /// The Upgrade field applies to this hop.
    pub(super) upgrade: bool,
}

impl Connection {
    #[inline]
    pub(super) fn of(version: Version, known: &Known<'_>) -> Self {
        let modern = version == Version::Http11;
        match known.connection() {
            None => Self { keep_alive: modern, upgrade: false },
            Some(value)
                if is_word(value, b"keep-alive") && !known.is_repeated(KnownField::Connection) =>
            {
                Self { keep_alive: true, upgrade: false }
            }
            Some(_) => Self::from_options(modern, known),
        }
    }

    fn from_options(modern: bool, known: &Known<'_>) -> Self {
        let (mut close, mut keep_alive, mut upgrade) = (false, false, false);
        for option in known.lines(KnownField::Connection).flat_map(Elements::of) {
            close |= option.eq_ignore_ascii_case(b"close");
            keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            upgrade |= option.eq_ignore_ascii_case(b"upgrade");
        }
        Self { keep_alive: !close && (modern || keep_alive), upgrade: modern && upgrade }
    }
}

/// Whether the client waits for `100 Continue`; any other expectation is 417. An expectation of
/// HTTP/1.0 is ignored (RFC 9110 10.1.1).
#[inline]
pub(super) fn expects_continue(version: Version, known: &Known<'_>) -> Result<bool, RejectReason> {
    match known.expect() {
        None => Ok(false),
        Some(value)
            if is_word(value, b"100-continue") && !known.is_repeated(KnownField::Expect) =>
        {
            Ok(version == Version::Http11)
        }
        Some(_) => Err(RejectReason::Expectation),
    }
}
