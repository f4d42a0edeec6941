//! Replies of the text and meta protocols: a line, and for some a value after it.

use super::super::super::line::{self, Words};
use super::{Broken, Decoded, Done, Extra, Fault, Reply, Value};

/// Longest line of a reply. Those of memcached stay below 2,048; a statistic can contain the path
/// of a file.
pub const MAX_LINE: usize = 8192;

pub(super) fn decode(buffer: &[u8], max_value: usize) -> Result<Decoded<'_>, Broken> {
    let Some((line, used)) = line::split(&buffer[..buffer.len().min(MAX_LINE)]) else {
        let need = buffer.len() + 1;
        return if need > MAX_LINE {
            Err(Broken::LongLine)
        } else {
            Ok(Decoded::Incomplete { need })
        };
    };
    let mut words = Words::new(line);
    let reply = match words.next().unwrap_or_default() {
        b"VALUE" => return value(buffer, text(words)?, used, max_value),
        b"VA" => return value(buffer, meta(words)?, used, max_value),
        b"STAT" => stat(words)?,
        word => plain(word, words).ok_or(Broken::Unknown)?,
    };
    Ok(Decoded::Reply(reply, used))
}

/// A line without a value.
#[inline]
fn plain<'a>(word: &'a [u8], mut rest: Words<'a>) -> Option<Reply<'a>> {
    let done = |done, flags| Some(Reply::Done(done, Extra::meta(flags)));
    let none = Words::new(b"");
    match word {
        b"END" => Some(Reply::End),
        b"HD" => done(Done::Done, rest),
        b"EN" | b"NF" => done(Done::NotFound, rest),
        b"NS" => done(Done::NotStored, rest),
        b"EX" => done(Done::Exists, rest),
        b"MN" => Some(Reply::Noop(Extra::meta(none))),
        b"STORED" => done(Done::Stored, none),
        b"NOT_STORED" => done(Done::NotStored, none),
        b"EXISTS" => done(Done::Exists, none),
        b"NOT_FOUND" => done(Done::NotFound, none),
        b"DELETED" => done(Done::Deleted, none),
        b"TOUCHED" => done(Done::Touched, none),
        b"OK" => done(Done::Ok, none),
        b"RESET" => done(Done::Reset, none),
        b"VERSION" => Some(Reply::Version(rest.rest().trim_ascii())),
        b"ME" => Some(Reply::Debug(rest.rest().trim_ascii())),
        b"ERROR" => fault(Fault::Command, rest),
        b"CLIENT_ERROR" => fault(Fault::Client, rest),
        b"SERVER_ERROR" => fault(Fault::Server, rest),
        digits => {
            let number = number(digits).filter(|_| rest.next().is_none())?;
            Some(Reply::Number(number, Extra::meta(none)))
        }
    }
}

fn fault(fault: Fault, words: Words<'_>) -> Option<Reply<'_>> {
    Some(Reply::Error(fault, words.rest().trim_ascii(), Extra::default()))
}

/// `STAT <name> <value>`; the value may have blanks, and be empty.
fn stat(mut words: Words<'_>) -> Result<Reply<'_>, Broken> {
    let name = words.next().ok_or(Broken::Unknown)?;
    Ok(Reply::Stat { name, value: words.rest().trim_ascii() })
}

/// The data of a line with a value, whose place is not yet known; and the value's length.
type Before<'a> = (Value<'a>, u64);

/// `VALUE <key> <flags> <bytes> [<cas unique>]`.
#[inline]
fn text(mut words: Words<'_>) -> Result<Before<'_>, Broken> {
    let key = words.next().ok_or(Broken::Unknown)?;
    let flags = words
        .next()
        .and_then(number)
        .and_then(|flags| u32::try_from(flags).ok())
        .ok_or(Broken::Unknown)?;
    let len = words.next().and_then(number).ok_or(Broken::Unknown)?;
    let cas = match words.next() {
        Some(cas) => Some(number(cas).ok_or(Broken::Unknown)?),
        None => None,
    };
    Ok((Value { key, flags, cas, at: 0..0, extra: Extra::default() }, len))
}

/// `VA <bytes> <flags>*`.
#[inline]
fn meta(mut words: Words<'_>) -> Result<Before<'_>, Broken> {
    let len = words.next().and_then(number).ok_or(Broken::Unknown)?;
    let mut value = Value { key: b"", flags: 0, cas: None, at: 0..0, extra: Extra::meta(words) };
    for flag in words {
        match flag[0] {
            b'f' => {
                let flags = number(&flag[1..]).and_then(|flags| u32::try_from(flags).ok());
                value.flags = flags.ok_or(Broken::Unknown)?;
            }
            b'c' => value.cas = Some(number(&flag[1..]).ok_or(Broken::Unknown)?),
            _ => {}
        }
    }
    Ok((value, len))
}

/// The value after a line of `used` bytes.
#[inline]
fn value<'a>(
    buffer: &[u8],
    (mut value, len): Before<'a>,
    used: usize,
    max_value: usize,
) -> Result<Decoded<'a>, Broken> {
    let len = usize::try_from(len).ok().filter(|len| *len <= max_value).ok_or(Broken::TooLarge)?;
    let end = used + len;
    let need = end + 2;
    match buffer.get(end..need) {
        Some(b"\r\n") => {
            value.at = used..end;
            Ok(Decoded::Reply(Reply::Value(value), need))
        }
        Some(_) => Err(Broken::BadEnd),
        None => Ok(Decoded::Incomplete { need }),
    }
}

/// A number as a server writes it: digits only.
#[inline]
pub(super) fn number(word: &[u8]) -> Option<u64> {
    word.first().filter(|byte| byte.is_ascii_digit())?;
    word.iter().all(u8::is_ascii_digit).then(|| line::unsigned(word))?
}
