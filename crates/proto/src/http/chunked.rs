//! Chunked bodies (RFC 9112 7.1), in and out.
//!
//! The decoder is as strict as the request parser, but for what [`ChunkLimits`] allows to answers:
//! sizes are 1 to 16 hexadecimal digits, every line ends with CRLF, extensions are skipped but
//! bounded for the whole body (otherwise a chunk of one byte may cost a kilobyte). It keeps no
//! bytes: the caller's buffer holds the undecoded bytes, and data is returned as slices of it.

use super::fields::{Malformed, is_token_byte, is_value_byte, parse_fields};
use super::reject::{Reject, RejectReason};
use httparse::EMPTY_HEADER;

/// Limits on the bytes around the data of one body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkLimits {
    /// Bytes of extensions, all chunks together; more is 400.
    pub extension_bytes: usize,
    /// Bytes of the trailer section; more is 431.
    pub trailer_bytes: usize,
    /// Lines of the trailer section; more is 431.
    pub trailer_lines: usize,
    /// Zeros before a size of 16 digits, and blanks behind a size: so many of each are let through
    /// in a line, as some servers pad their sizes (RFC 9112 7.1.1 leaves it to the recipient).
    pub padding: usize,
}

impl Default for ChunkLimits {
    fn default() -> Self {
        Self {
            extension_bytes: 16 << 10,
            trailer_bytes: 8 << 10,
            trailer_lines: MAX_TRAILERS,
            padding: 0,
        }
    }
}

/// Lines of a request's trailer section; more is 431.
const MAX_TRAILERS: usize = 32;

/// Digits of a chunk size: 64 bits.
const MAX_DIGITS: usize = 16;

/// Meaning of the next bytes of the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<'b> {
    /// More bytes are needed; none are used up. The buffer must be able to hold the longest line:
    /// extensions and trailers at their limits.
    Need,
    /// `used` bytes can be dropped from the buffer; `data` is the end of them.
    Data {
        /// Bytes used up.
        used: usize,
        /// Bytes of the body; never empty.
        data: &'b [u8],
    },
    /// `used` bytes can be dropped; there is no data among them.
    Skip {
        /// Bytes used up; never 0.
        used: usize,
    },
    /// The body is complete; after `used` bytes the next message begins.
    End {
        /// Bytes used up.
        used: usize,
        /// The trailer fields, without those forbidden in trailers.
        trailers: Vec<(String, Vec<u8>)>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// At the first digit of a size.
    Size,
    /// That many bytes of data are to come; never 0.
    Data(u64),
    /// At the CRLF after the data.
    DataEnd,
    /// After the last chunk's line.
    Trailers,
    /// After the end, or after an error.
    Over,
}

/// Decodes one chunked body.
#[derive(Clone, Debug)]
pub struct ChunkedDecoder {
    state: State,
    limits: ChunkLimits,
    extension_bytes: usize,
}

impl ChunkedDecoder {
    /// A decoder for the bytes after a head that says `Transfer-Encoding: chunked`.
    pub const fn new(limits: ChunkLimits) -> Self {
        Self { state: State::Size, limits, extension_bytes: 0 }
    }

    /// Whether the body has been read to its end.
    pub fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Decodes the start of `buf`: the first bytes that are not used up yet. After an error, and
    /// after [`Step::End`], it always asks for more bytes.
    pub fn decode<'b>(&mut self, buf: &'b [u8]) -> Result<Step<'b>, Reject> {
        let result = self.step(buf);
        if result.is_err() {
            self.state = State::Over;
        }
        result.map_err(Reject::from)
    }

    fn step<'b>(&mut self, buf: &'b [u8]) -> Result<Step<'b>, RejectReason> {
        let mut used = 0;
        loop {
            let rest = &buf[used..];
            let taken = match self.state {
                State::Data(left) if !rest.is_empty() => {
                    let length = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                    let left = left - length as u64;
                    self.state = if left == 0 { State::DataEnd } else { State::Data(left) };
                    return Ok(Step::Data { used: used + length, data: &rest[..length] });
                }
                State::Trailers => match self.trailers(rest)? {
                    Some((length, trailers)) => {
                        self.state = State::Over;
                        return Ok(Step::End { used: used + length, trailers });
                    }
                    None => None,
                },
                State::Size => self.size_line(rest)?,
                State::DataEnd => self.data_end(rest)?,
                State::Data(_) | State::Over => None,
            };
            match taken {
                Some(length) => used += length,
                None if used > 0 => return Ok(Step::Skip { used }),
                None => return Ok(Step::Need),
            }
        }
    }

    /// Length of `1a;extension` CRLF, if it is complete.
    fn size_line(&mut self, rest: &[u8]) -> Result<Option<usize>, RejectReason> {
        let padding = self.limits.padding;
        let zeros = rest.iter().take(padding).take_while(|&&b| b == b'0').count();
        let digits = rest[zeros..].iter().take(MAX_DIGITS + 1);
        let digits = zeros + digits.take_while(|b| b.is_ascii_hexdigit()).count();
        if digits > zeros + MAX_DIGITS || (digits == 0 && !rest.is_empty()) {
            return Err(RejectReason::Chunk);
        }
        let after = &rest[digits..];
        let Some(length) = extension(after, padding)? else {
            let longest = self.limits.extension_bytes + padding + 2;
            return if self.extension_bytes + after.len() > longest {
                Err(RejectReason::ChunkExtension)
            } else {
                Ok(None)
            };
        };
        // Blanks alone are no extension: their sum does not count.
        if after[..length].contains(&b';') {
            self.extension_bytes += length;
        }
        if self.extension_bytes > self.limits.extension_bytes {
            return Err(RejectReason::ChunkExtension);
        }
        let size = rest[..digits].iter().fold(0_u64, |n, &b| n << 4 | u64::from(hex(b)));
        self.state = if size == 0 { State::Trailers } else { State::Data(size) };
        Ok(Some(digits + length + 2))
    }

    fn data_end(&mut self, rest: &[u8]) -> Result<Option<usize>, RejectReason> {
        match rest {
            [b'\r', b'\n', ..] => {
                self.state = State::Size;
                Ok(Some(2))
            }
            [] | [b'\r'] => Ok(None),
            [b'\n', ..] | [b'\r', ..] => Err(RejectReason::LineEnd),
            _ => Err(RejectReason::Chunk),
        }
    }

    fn trailers(&self, rest: &[u8]) -> Result<Option<(usize, Trailers)>, RejectReason> {
        if rest.starts_with(b"\r\n") {
            return Ok(Some((2, Vec::new())));
        }
        let end = rest.windows(4).take(self.limits.trailer_bytes).position(|w| w == b"\r\n\r\n");
        let Some(end) = end else {
            if rest.len() > self.limits.trailer_bytes + 4 {
                return Err(RejectReason::TrailerTooLarge);
            }
            return if has_bare_line_end(rest) { Err(RejectReason::LineEnd) } else { Ok(None) };
        };
        // Checked first, as while the section is still incomplete: the reason does not depend on
        // where it was cut.
        if has_bare_line_end(&rest[..end + 4]) {
            return Err(RejectReason::LineEnd);
        }
        let mut slots = vec![EMPTY_HEADER; self.limits.trailer_lines];
        let fields = parse_fields(&rest[..end + 4], &mut slots).map_err(|e| match e {
            Malformed::LineEnd => RejectReason::LineEnd,
            Malformed::TooMany => RejectReason::TrailerTooLarge,
            Malformed::Name | Malformed::Value => RejectReason::Trailer,
        })?;
        let kept = fields.iter().filter(|(name, _)| may_be_trailer(name));
        Ok(Some((end + 4, kept.map(|(name, value)| (name.to_owned(), value.to_vec())).collect())))
    }
}

type Trailers = Vec<(String, Vec<u8>)>;

/// Length of the extension before CRLF, 0 without one; `None` when the line is incomplete.
///
/// It starts with `;`, perhaps after whitespace, and has no control character (RFC 9112 7.1.1).
/// Without one, up to `padding` blanks may stand there.
fn extension(after: &[u8], padding: usize) -> Result<Option<usize>, RejectReason> {
    let semicolon = after.iter().position(|&b| b != b' ' && b != b'\t');
    match semicolon.map(|at| (at, after[at])) {
        None | Some((_, b';')) => {}
        Some((at, b'\r')) if at <= padding => {}
        Some((_, b'\n')) => return Err(RejectReason::LineEnd),
        Some(_) => return Err(RejectReason::Chunk),
    }
    let Some(end) = after.iter().position(|&b| !is_value_byte(b)) else { return Ok(None) };
    match (after[end], after.get(end + 1)) {
        (b'\r', Some(b'\n')) => Ok(Some(end)),
        (b'\r', None) => Ok(None),
        (b'\r' | b'\n', _) => Err(RejectReason::LineEnd),
        _ => Err(RejectReason::ChunkExtension),
    }
}

fn has_bare_line_end(bytes: &[u8]) -> bool {
    let bare = |w: &[u8]| (w[1] == b'\n') != (w[0] == b'\r');
    bytes.first() == Some(&b'\n') || bytes.windows(2).any(bare)
}

const fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

/// Whether a field may be in a trailer section (RFC 9110 6.5.1): fields that frame, route,
/// authenticate, condition or describe the content of a message may not, because its head was
/// already processed.
pub fn may_be_trailer(name: &str) -> bool {
    const FORBIDDEN: [&str; 45] = [
        "accept-encoding",
        "accept-language",
        "age",
        "authorization",
        "cache-control",
        "cdn-cache-control",
        "connection",
        "content-encoding",
        "content-language",
        "content-length",
        "content-location",
        "content-range",
        "content-type",
        "cookie",
        "date",
        "expect",
        "expires",
        "forwarded",
        "host",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "if-unmodified-since",
        "keep-alive",
        "location",
        "max-forwards",
        "pragma",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "range",
        "retry-after",
        "set-cookie",
        "surrogate-control",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "vary",
        "via",
        "warning",
        "www-authenticate",
        "x-forwarded-for",
        "x-forwarded-host",
    ];
    name.bytes().all(is_token_byte) && !FORBIDDEN.iter().any(|f| f.eq_ignore_ascii_case(name))
}

/// Longest line [`write_chunk_head`] writes.
pub const CHUNK_HEAD: usize = MAX_DIGITS + 2;

/// Appends the line before a chunk of `length` bytes. `length` must not be 0, which would end the
/// body; CRLF follows the bytes.
pub fn write_chunk_head(length: usize, out: &mut Vec<u8>) {
    debug_assert!(length > 0, "an empty chunk ends the body");
    let digits = (usize::BITS - length.leading_zeros()).div_ceil(4).max(1);
    out.extend((0..digits).rev().map(|at| b"0123456789abcdef"[length >> (4 * at) & 15]));
    out.extend_from_slice(b"\r\n");
}

/// Appends the last chunk and the trailer section. Fields forbidden in trailers, or fields that
/// would break the section, are left out.
pub fn write_end<'a>(trailers: impl IntoIterator<Item = (&'a str, &'a [u8])>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n");
    for (name, value) in trailers {
        if !name.is_empty() && may_be_trailer(name) && value.iter().all(|&b| is_value_byte(b)) {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests;
