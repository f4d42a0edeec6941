//! Heads of answers. Tolerant where RFC 9112 lets a proxy repair what it got (obs-fold, section
//! 5.2; space before the colon, section 5.1), strict elsewhere.

use std::mem::MaybeUninit;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use httparse::{Header, ParserConfig, Status};
use larder_proto::http::Elements;

use super::OriginError;

/// Longer heads are refused: what an origin sends in real life is below 16 KiB, and the head is
/// kept with every stored page.
pub(super) const HEAD_BYTES: usize = 64 << 10;

/// Heads with more fields than this are refused.
pub(super) const HEAD_FIELDS: usize = 256;

/// The head of an answer.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    /// The reason phrase when it is not the usual one of the status.
    pub(super) reason: Option<Bytes>,
    pub(super) http10: bool,
    /// Another request may be sent on this connection.
    pub(super) keep_alive: bool,
    pub(super) headers: HeaderMap,
}

/// Name and value of a field, as their places in the head.
type Line = ((usize, usize), (usize, usize));

impl Head {
    /// Takes a head from the beginning of `input`. None: it is not whole yet.
    pub(super) fn take(input: &mut BytesMut) -> Result<Option<Head>, OriginError> {
        let mut slots = [const { MaybeUninit::<Header<'_>>::uninit() }; HEAD_FIELDS];
        let mut parsed = httparse::Response::new(&mut []);
        let result = parser().parse_response_with_uninit_headers(&mut parsed, input, &mut slots);
        let used = match result.map_err(|error| malformed(&error.to_string()))? {
            Status::Complete(used) if used <= HEAD_BYTES => used,
            Status::Partial if input.len() < HEAD_BYTES => return Ok(None),
            _ => return Err(malformed("a head too large")),
        };
        let status = parsed.code.and_then(|code| StatusCode::from_u16(code).ok());
        let status = status.ok_or_else(|| malformed("a wrong status"))?;
        let reason = parsed.reason.filter(|reason| status.canonical_reason() != Some(reason));
        let reason = reason.map(|reason| Bytes::copy_from_slice(reason.as_bytes()));
        let http10 = parsed.version == Some(0);
        let place = |part: &[u8]| {
            let start = part.as_ptr() as usize - input.as_ptr() as usize;
            (start, start + part.len())
        };
        let line = |field: &Header<'_>| (place(field.name.as_bytes()), place(field.value));
        let lines: Vec<Line> = parsed.headers.iter().map(line).collect();
        let bytes = input.split_to(used).freeze();
        let headers = fields(&bytes, &lines)?;
        let keep_alive = keeps_alive(&headers, http10);
        Ok(Some(Head { status, reason, http10, keep_alive, headers }))
    }
}

fn parser() -> ParserConfig {
    let mut parser = ParserConfig::default();
    parser
        .allow_obsolete_multiline_headers_in_responses(true)
        .allow_spaces_after_header_name_in_responses(true);
    parser
}

fn fields(bytes: &Bytes, lines: &[Line]) -> Result<HeaderMap, OriginError> {
    let wrong = || malformed("a field with a wrong name or value");
    let mut headers = HeaderMap::with_capacity(lines.len());
    for (name, value) in lines {
        let name = HeaderName::from_bytes(&bytes[name.0..name.1]).map_err(|_| wrong())?;
        let value = bytes.slice(value.0..value.1);
        let value = if value.contains(&b'\n') { unfolded(&value) } else { value };
        headers.append(name, HeaderValue::from_maybe_shared(value).map_err(|_| wrong())?);
    }
    Ok(headers)
}

/// A value of several lines as one: each break is a space (RFC 9112 section 5.2).
fn unfolded(value: &[u8]) -> Bytes {
    let lines: Vec<&[u8]> = value.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).collect();
    lines.join(&b' ').into()
}

/// Whether the connection goes on: one `close` among several lines counts.
fn keeps_alive(headers: &HeaderMap, http10: bool) -> bool {
    let says = |word: &[u8]| {
        let lines = headers.get_all(header::CONNECTION).iter();
        let mut options = lines.flat_map(|line| Elements::of(line.as_bytes()));
        options.any(|option| option.eq_ignore_ascii_case(word))
    };
    !says(b"close") && (!http10 || says(b"keep-alive"))
}

fn malformed(why: &str) -> OriginError {
    OriginError::Malformed(why.to_owned())
}
