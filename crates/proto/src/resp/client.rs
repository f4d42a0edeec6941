//! Replies in, as a client of RESP2 reads them.
//!
//! Every reply says by itself what it is; nothing is remembered between two. An array is its head alone, its elements follow
//! as replies of their own, so that no list is built and none can be too deep. A string that has not arrived says how long the
//! whole reply is, so that nothing is looked at twice.

use super::number;

/// Longest line of a reply: a status, an error, a number. Errors quote what was sent, cut short.
pub const MAX_REPLY_LINE: usize = 8192;

/// What the beginning of the received bytes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// Not all of a reply: so many bytes from the start of the buffer are needed at least, more than are there.
    Incomplete {
        /// Bytes from the start of the buffer. Once a string's length is known, the length of its whole reply.
        need: usize,
    },
    /// A reply, and how many bytes it takes.
    Reply(Got<'a>, usize),
    /// No reply; nothing more on the connection can be trusted.
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
    /// `$-1` or `*-1`: nothing there.
    Null,
    /// So many replies follow.
    Array(usize),
}

/// Why received bytes are no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadReply {
    /// It begins with none of `+ - : $ *`.
    Kind,
    /// A line longer than [`MAX_REPLY_LINE`], or with another end than CRLF.
    Line,
    /// A length that is no number.
    Length,
    /// A string larger than allowed.
    TooLarge,
    /// A string that does not end where it was said to.
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

/// The first reply in `buffer`; a string has at most `max_bulk` bytes.
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
        return if need > MAX_REPLY_LINE { Err(BadReply::Line) } else { Ok(Received::Incomplete { need }) };
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
#[path = "client_tests.rs"]
mod tests;
