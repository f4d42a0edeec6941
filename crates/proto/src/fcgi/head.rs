//! The head of a CGI response (RFC 3875 section 6): fields, `Status`, `Location`.

use crate::http::fields::{is_token_byte, is_value_byte};

/// Limits of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes, the empty line included.
    pub bytes: usize,
    /// Fields.
    pub fields: usize,
}

/// Why output is not the head of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// More bytes or fields than allowed.
    TooLarge,
    /// A line that is no field, or a value with bytes that no field may have.
    Field,
    /// A `Status` that is no final status, or several of them.
    Status,
    /// There is no field.
    Empty,
}

impl std::fmt::Display for HeadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "a head that is too large",
            Self::Field => "a line of the head that is no field",
            Self::Status => "a Status that is not a final status",
            Self::Empty => "a head without fields",
        })
    }
}

/// The head of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head<'b> {
    /// 200 to 999: that of `Status`, else 302 with `Location`, else 200.
    pub status: u16,
    /// The reason phrase in `Status`; may be empty.
    pub reason: &'b [u8],
    /// The fields but for `Status`, in order, values without blanks around them.
    pub fields: Vec<(&'b str, &'b [u8])>,
    /// A local redirect (section 6.2.2): the path and query whose answer is to be sent instead.
    pub local: Option<&'b [u8]>,
    /// Bytes of the head; the body begins behind them.
    pub used: usize,
}

/// Reads the head at the start of an application's output; None: it is not complete yet. Lines end
/// with LF or CRLF (section 6.1).
pub fn parse_head(output: &[u8], limits: HeadLimits) -> Result<Option<Head<'_>>, HeadError> {
    let mut head = Head { status: 200, reason: b"", fields: Vec::new(), local: None, used: 0 };
    let mut status = None;
    loop {
        let rest = &output[head.used..];
        let Some(end) = memchr::memchr(b'\n', rest) else {
            return if output.len() >= limits.bytes { Err(HeadError::TooLarge) } else { Ok(None) };
        };
        head.used += end + 1;
        if head.used > limits.bytes {
            return Err(HeadError::TooLarge);
        }
        let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
        if line.is_empty() {
            break;
        }
        let (name, value) = field(line).ok_or(HeadError::Field)?;
        if name.eq_ignore_ascii_case("status") {
            let read = self::status(value).ok_or(HeadError::Status)?;
            if status.replace(read).is_some() {
                return Err(HeadError::Status);
            }
        } else if head.fields.len() >= limits.fields {
            return Err(HeadError::TooLarge);
        } else {
            head.fields.push((name, value));
        }
    }
    let location = head.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("location"));
    match (status, location) {
        (Some((status, reason)), _) => (head.status, head.reason) = (status, reason),
        (None, Some((_, target))) => {
            head.status = 302;
            let local = target.starts_with(b"/") && !target.starts_with(b"//");
            head.local = local.then_some(*target);
        }
        (None, None) if head.fields.is_empty() => return Err(HeadError::Empty),
        (None, None) => {}
    }
    Ok(Some(head))
}

fn field(line: &[u8]) -> Option<(&str, &[u8])> {
    let colon = memchr::memchr(b':', line)?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    let valid = !name.is_empty()
        && name.iter().copied().all(is_token_byte)
        && value.iter().copied().all(is_value_byte);
    valid.then_some((std::str::from_utf8(name).ok()?, value))
}

/// `404` or `404 Not Found`.
fn status(value: &[u8]) -> Option<(u16, &[u8])> {
    let (digits, rest) = value.split_at_checked(3)?;
    let reason = match rest {
        [] => rest,
        [b' ', reason @ ..] => reason,
        _ => return None,
    };
    let number = digits.iter().try_fold(0_u16, |number, digit| {
        digit.is_ascii_digit().then(|| number * 10 + u16::from(digit - b'0'))
    })?;
    (number >= 200).then_some((number, reason))
}
