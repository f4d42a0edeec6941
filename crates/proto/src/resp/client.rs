//! Parses replies as a client of RESP2.
//!
//! Every reply is self-describing; no state is kept between replies. An array is returned as its
//! head only, its elements follow as separate replies, so that no list is built and none can be
//! nested too deeply. An incomplete string gives the length of the whole reply, so that nothing is
//! examined twice.

use super::number;

/// Longest line of a reply: a status, an error, a number. Errors quote the request, cut short.
pub const MAX_REPLY_LINE: usize = 8192;

/// The start of the received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// The reply is incomplete: at least this many bytes from the start of the buffer are needed.
    Incomplete {
        /// Bytes from the start of the buffer. Once a string's length is known, the length of its
        /// whole reply.
        need: usize,
    },
    /// A reply, and its length.
    Reply(Got<'a>, usize),
    /// Not a reply; no further byte of the connection can be trusted.
    Broken(BadReply),
}

/// A reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Got<'a> {
    /// `+OK`
    Status(&'a [u8]),
    /// `-ERR text`, without the sign.
    Error(&'a [u8]),
    /// `:7`
    Integer(i64),
    /// A string of any bytes.
    Bulk(&'a [u8]),
    /// `$-1` or `*-1`: null.
    Null,
    /// This many replies follow.
    Array(usize),
}

/// Why received bytes are not a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadReply {
    /// It begins with none of `+ - : $ *`.
    Kind,
    /// A line longer than [`MAX_REPLY_LINE`], or with another end than CRLF.
    Line,
    /// An invalid length.
    Length,
    /// A string larger than allowed.
    TooLarge,
    /// A string without its end at the announced length.
    End,
}

impl std::fmt::Display for BadReply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Kind => "not a reply of Redis",
            Self::Line => "a reply's line is too long or badly ended",
            Self::Length => "a reply's length is no number",
            Self::TooLarge => "a string is larger than allowed",
            Self::End => "a string does not end where it should",
        })
    }
}

impl std::error::Error for BadReply {}

/// The first reply in `buffer`; a string may have at most `max_bulk` bytes.
#[inline]
pub fn receive(buffer: &[u8], max_bulk: usize) -> Received<'_> {
    read(buffer, max_bulk).unwrap_or_else(Received::Broken)
}

fn read(buffer: &[u8], max_bulk: usize) -> Result<Received<'_>, BadReply> {
    let Some(&kind) = buffer.first() else { return Ok(Received::Incomplete { need: 1 }) };
    if !matches!(kind, b'+' | b'-' | b':' | b'$' | b'*') {
        return Err(BadReply::Kind);
    }
    let window = &buffer[..buffer.len().min(MAX_REPLY_LINE)];
    let Some(end) = window.iter().position(|&byte| byte == b'\n') else {
        let need = buffer.len() + 1;
        return if need > MAX_REPLY_LINE {
            Err(BadReply::Line)
        } else {
            Ok(Received::Incomplete { need })
        };
    };
    let line = buffer[1..end].strip_suffix(b"\r").ok_or(BadReply::Line)?;
    let used = end + 1;
    let got = match kind {
        b'+' => Got::Status(line),
        b'-' => Got::Error(line),
        b':' => Got::Integer(number::parse_i64(line).ok_or(BadReply::Length)?),
        b'$' => match length(line)? {
            None => Got::Null,
            Some(len) if len > max_bulk => return Err(BadReply::TooLarge),
            Some(len) => return bulk(buffer, used, len),
        },
        _ => length(line)?.map_or(Got::Null, Got::Array),
    };
    Ok(Received::Reply(got, used))
}

fn length(line: &[u8]) -> Result<Option<usize>, BadReply> {
    match number::parse_i64(line) {
        Some(-1) => Ok(None),
        Some(len) => usize::try_from(len).map(Some).map_err(|_| BadReply::Length),
        None => Err(BadReply::Length),
    }
}

fn bulk(buffer: &[u8], start: usize, len: usize) -> Result<Received<'_>, BadReply> {
    let end = start + len;
    let need = end + 2;
    match buffer.get(end..need) {
        Some(b"\r\n") => Ok(Received::Reply(Got::Bulk(&buffer[start..end]), need)),
        Some(_) => Err(BadReply::End),
        None => Ok(Received::Incomplete { need }),
    }
}

#[cfg(test)]
mod tests;
