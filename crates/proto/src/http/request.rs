//! Request heads: parsing and strict framing (RFC 9112 2 to 6, 11.2).
//!
//! If two servers disagree where a request ends, one client can answer for another. Larder
//! therefore accepts only requests that every server reads alike: `httparse` finds the lines, and
//! everything it tolerates (bare LF, empty lines, repeated or contradicting framing fields) is
//! refused here with a counted reason. A good request takes one pass over the bytes and one over
//! the fields, without allocation; reasons are determined only after a fault was found.

use super::fields::Fields;
use super::framing;
use super::known::{Known, KnownField};
use super::method::Method;
use super::reject::{Reject, RejectReason};
use super::target::{Authority, Form, Target};
use httparse::{Header, Status};
use std::mem::MaybeUninit;

/// The protocol version of a message, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
    /// HTTP/2. No head of HTTP/1 has it: the caller says so of one that [`crate::http2`] wrote.
    Http2,
    /// HTTP/3, likewise.
    Http3,
}

impl Version {
    /// As logs name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
            Self::Http2 => "HTTP/2.0",
            Self::Http3 => "HTTP/3.0",
        }
    }

    /// As `Via` names it (RFC 9110 section 7.6.3).
    pub const fn number(self) -> &'static str {
        match self {
            Self::Http10 => "1.0",
            Self::Http11 => "1.1",
            Self::Http2 => "2.0",
            Self::Http3 => "3.0",
        }
    }

    /// Each request comes on a stream of its own, and frames mark where bodies end.
    pub const fn has_streams(self) -> bool {
        matches!(self, Self::Http2 | Self::Http3)
    }
}

/// How the body after a request head is delimited (RFC 9112 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFraming {
    /// There is no body.
    None,
    /// This many bytes; never 0.
    Length(u64),
    /// Chunks, see [`super::chunked::ChunkedDecoder`].
    Chunked,
}

/// A parsed request head; everything in it borrows the buffer.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'b> {
    /// The method.
    pub method: Method<'b>,
    /// The target, taken apart.
    pub target: Target<'b>,
    /// The target as received: visible ASCII without `#`.
    pub raw_target: &'b str,
    /// The version.
    pub version: Version,
    /// The field lines.
    pub fields: Fields<'b>,
    /// The places of the fields that a cache reads.
    pub known: Known<'b>,
    /// The requested host: the target's authority, or Host. `None` only in HTTP/1.0.
    pub host: Option<Authority<'b>>,
    /// How the body is delimited.
    pub framing: BodyFraming,
    /// Whether the client wants to send another request on this connection.
    pub keep_alive: bool,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub expect_continue: bool,
    /// The Upgrade value; only in HTTP/1.1 and with `Connection: upgrade` (RFC 9110 7.8).
    pub upgrade: Option<&'b [u8]>,
    /// Length of the head in the buffer, including an empty line before it.
    pub len: usize,
}

/// Limits of a request head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes of the whole head; more is 431.
    pub head_bytes: usize,
    /// Bytes of the request line without its CRLF; more is 414.
    pub request_line: usize,
    /// Field lines; more is 431. The slots given to [`parse_request`] limit them too.
    pub fields: usize,
}

impl Default for HeadLimits {
    fn default() -> Self {
        Self { head_bytes: 64 << 10, request_line: 16 << 10, fields: 100 }
    }
}

/// Result of parsing the bytes received so far.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "taken apart at once; boxing would allocate on every request"
)]
pub enum Parsed<'b> {
    /// A complete head.
    Complete(RequestHead<'b>),
    /// The head continues past the buffer; call again with more bytes. The limits hold for partial
    /// heads, too.
    Partial,
}

/// Uninitialised slots for [`parse_request`]; making them costs nothing.
pub const fn slots<'b, const N: usize>() -> [MaybeUninit<Header<'b>>; N] {
    [const { MaybeUninit::uninit() }; N]
}

/// Parses the request head at the start of `buf`. After an error the connection must be closed.
pub fn parse_request<'h, 'b: 'h>(
    buf: &'b [u8],
    slots: &'h mut [MaybeUninit<Header<'b>>],
    limits: &HeadLimits,
) -> Result<Parsed<'h>, Reject> {
    let start = match leading(buf)? {
        Some(start) => start,
        None => return Ok(Parsed::Partial),
    };
    let bytes = &buf[start..];
    let usable = slots.len().min(limits.fields);
    let mut request = httparse::Request::new(&mut []);
    let len = match request.parse_with_uninit_headers(bytes, &mut slots[..usable]) {
        Ok(Status::Complete(len)) => len,
        Ok(Status::Partial) => return partial(bytes, limits),
        Err(error) => return Err(explain(error, bytes, limits).into()),
    };
    let (Some(method), Some(raw_target), Some(minor)) =
        (request.method, request.path, request.version)
    else {
        return Err(RejectReason::RequestLine.into());
    };
    let line = method.len() + 1 + raw_target.len() + " HTTP/1.1".len();
    if line > limits.request_line {
        return Err(RejectReason::TargetTooLong.into());
    }
    if len > limits.head_bytes {
        return Err(RejectReason::HeadTooLarge.into());
    }
    let headers: &'h [Header<'b>] = request.headers;
    if !lines_end_with_crlf(bytes, line, headers, len) {
        return Err(RejectReason::LineEnd.into());
    }
    let version = if minor == 0 { Version::Http10 } else { Version::Http11 };
    let head =
        assemble(Method::of(method), raw_target, version, Fields::new(headers), start + len)?;
    Ok(Parsed::Complete(head))
}

/// Checks the parsed lines.
#[inline]
fn assemble<'b>(
    method: Method<'b>,
    raw_target: &'b str,
    version: Version,
    fields: Fields<'b>,
    len: usize,
) -> Result<RequestHead<'b>, Reject> {
    let known = Known::of(fields);
    let target = Target::parse(method, raw_target)?;
    let host = host(&target, version, &known)?;
    let framing = framing::body_framing(version, &known)?;
    let connection = framing::Connection::of(version, &known);
    let expect_continue =
        framing::expects_continue(version, &known)? && framing != BodyFraming::None;
    let upgrade = if connection.upgrade { known.upgrade() } else { None };
    let keep_alive = connection.keep_alive;
    let head = RequestHead {
        method,
        target,
        raw_target,
        version,
        fields,
        known,
        host,
        framing,
        keep_alive,
        expect_continue,
        upgrade,
        len,
    };
    Ok(head)
}

/// The requested host (RFC 9112 3.2): exactly one Host in HTTP/1.1, equal to the target's
/// authority. RFC 9112 3.2.2 would let the authority win; a contradiction is refused instead, since
/// an origin may read it the other way.
#[inline]
fn host<'b>(
    target: &Target<'b>,
    version: Version,
    known: &Known<'b>,
) -> Result<Option<Authority<'b>>, RejectReason> {
    if known.is_repeated(KnownField::Host) {
        return Err(RejectReason::HostRepeated);
    }
    let from_field = match known.host() {
        Some(value) => Some(Authority::parse(value).ok_or(RejectReason::HostInvalid)?),
        None if version == Version::Http10 => None,
        None => return Err(RejectReason::HostMissing),
    };
    let Some(authority) = target.authority else { return Ok(from_field) };
    let from_target = Authority::parse(authority.as_bytes()).ok_or(RejectReason::HostInvalid)?;
    let secure = target.scheme.is_some_and(|s| s.eq_ignore_ascii_case("https"))
        || target.form == Form::Authority;
    match from_field {
        Some(field) if !field.same(&from_target, if secure { 443 } else { 80 }) => {
            Err(RejectReason::HostMismatch)
        }
        _ => Ok(Some(from_target)),
    }
}

/// Start of the request line: one empty line before it is tolerated (RFC 9112 2.2). `None`: not
/// known yet.
#[inline]
fn leading(buf: &[u8]) -> Result<Option<usize>, RejectReason> {
    match buf {
        [] | [b'\r'] | [b'\r', b'\n'] | [b'\r', b'\n', b'\r'] => Ok(None),
        [b'\r', b'\n', b'\r' | b'\n' | b' ' | b'\t', ..] => Err(RejectReason::LeadingBytes),
        [b'\r', b'\n', ..] => Ok(Some(2)),
        [b'\r' | b'\n' | b' ' | b'\t', ..] => Err(RejectReason::LeadingBytes),
        _ => Ok(Some(0)),
    }
}

/// Whether the request line, every field line and the head end with CRLF and not with LF alone,
/// which `httparse` accepts.
///
/// It refuses a CR without LF itself, so it suffices to check the two bytes before each line's
/// start.
#[inline]
fn lines_end_with_crlf(bytes: &[u8], line: usize, headers: &[Header<'_>], len: usize) -> bool {
    let base = bytes.as_ptr() as usize;
    let ends_before = |at: usize| at >= 2 && bytes.get(at - 2..at) == Some(b"\r\n");
    ends_before(line + 2)
        && ends_before(len)
        && ends_before(len - 2)
        && headers.iter().all(|h| ends_before(h.name.as_ptr() as usize - base))
}

/// Checks the limits for a head that continues past the buffer.
#[cold]
fn partial<'b>(bytes: &[u8], limits: &HeadLimits) -> Result<Parsed<'b>, Reject> {
    let line = bytes.iter().take(limits.request_line + 3).position(|&b| b == b'\n');
    match line {
        None if bytes.len() > limits.request_line + 2 => Err(RejectReason::TargetTooLong.into()),
        Some(end) if end > limits.request_line + 1 => Err(RejectReason::TargetTooLong.into()),
        Some(end) if end == 0 || bytes[end - 1] != b'\r' => Err(RejectReason::LineEnd.into()),
        _ if bytes.len() >= limits.head_bytes => Err(RejectReason::HeadTooLarge.into()),
        _ => Ok(Parsed::Partial),
    }
}

/// Our reason for an error of `httparse`.
#[cold]
fn explain(error: httparse::Error, bytes: &[u8], limits: &HeadLimits) -> RejectReason {
    use httparse::Error as E;
    match error {
        E::TooManyHeaders => RejectReason::TooManyFields,
        E::HeaderName => RejectReason::FieldName,
        E::HeaderValue if has_bare_cr(bytes) => RejectReason::LineEnd,
        E::HeaderValue => RejectReason::FieldValue,
        E::NewLine => RejectReason::LineEnd,
        E::Version if names_a_version(bytes) => RejectReason::Version,
        _ if bytes.len() > limits.request_line
            && !bytes[..limits.request_line].contains(&b'\n') =>
        {
            RejectReason::TargetTooLong
        }
        E::Token if !bytes.contains(&b'\r') && bytes.contains(&b'\n') => RejectReason::LineEnd,
        E::Token | E::Version | E::Status => RejectReason::RequestLine,
    }
}

fn has_bare_cr(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.windows(4).position(|w| w == b"\r\n\r\n").unwrap_or(bytes.len())];
    head.windows(2).any(|w| w[0] == b'\r' && w[1] != b'\n')
}

/// Whether the request line is well-formed except for an unsupported version.
fn names_a_version(bytes: &[u8]) -> bool {
    let line = bytes.split(|&b| b == b'\r').next().unwrap_or_default();
    let mut parts = line.split(|&b| b == b' ').skip(2);
    matches!(
        (parts.next(), parts.next()),
        (Some([b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', ..]), None)
    )
}

#[cfg(test)]
mod tests;
