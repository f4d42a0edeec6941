//! Requests of the meta protocol (protocol.txt, "Meta Commands").
//!
//! A key with bytes that a line cannot have is sent as base64, and sent back as base64
//! ([`Extra::key`](super::Extra::key) decodes it). Answers carry requested data as flags; `q` omits
//! the answers that mean "as expected" (a miss of `mg`, success of the others): a [`noop`] after a
//! batch of quiet requests reports that all of them are answered.

use super::{
    super::{line::decimal, meta::signed, text::Mode},
    KeyError, key,
};

/// Data that every answer can send back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Back {
    /// `O`: this number.
    pub opaque: Option<u32>,
    /// `k`: the key.
    pub key: bool,
    /// `c`: the version.
    pub cas: bool,
    /// `q`: only unexpected results are answered.
    pub quiet: bool,
}

/// `mg`. A hit is answered by [`Reply::Value`](super::Reply) with `value`, else by
/// [`Done::Done`](super::Done); a miss by [`Done::NotFound`](super::Done).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Get<'a> {
    /// Key of the item.
    pub key: &'a [u8],
    /// `v`: the value.
    pub value: bool,
    /// `f`: the client's flags.
    pub flags: bool,
    /// `t`: seconds until it expires.
    pub left: bool,
    /// `s`: bytes of the value.
    pub size: bool,
    /// `h`: whether it was read before.
    pub hit_before: bool,
    /// `l`: seconds since it was last used.
    pub idle: bool,
    /// `u`: the item is not marked as used.
    pub unbumped: bool,
    /// `T`: the new expiry.
    pub ttl: Option<i32>,
    /// `N`: a missing item is created, with this expiry; the answer names the winner
    /// ([`Extra::won`](super::Extra::won)).
    pub vivify: Option<i32>,
    /// `R`: if fewer seconds are left, one client wins the right to store it anew.
    pub recache: Option<i32>,
    /// `E`: the version of a created item. Not in memcached 1.6.18.
    pub version: Option<u64>,
    /// Request fields echoed in the answer.
    pub back: Back,
}

/// `ms`. Answered by [`Done::Done`](super::Done), `NotStored`, `Exists` or `NotFound`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Set<'a> {
    /// Key of the item.
    pub key: &'a [u8],
    /// Bytes of the value.
    pub len: u32,
    /// `M`: the mode.
    pub mode: Mode,
    /// `F`: the client's flags.
    pub flags: u32,
    /// `T`: expiry; 0: never.
    pub ttl: i32,
    /// `C`: required version of the stored item.
    pub compare: Option<u64>,
    /// `E`: the version it gets. Not in memcached 1.6.18.
    pub version: Option<u64>,
    /// `I`: with `compare`, an older version than that of the stored item stores too, marked stale.
    pub invalidate: bool,
    /// `N`: append and prepend create a missing item, with this expiry. Not in memcached 1.6.18.
    pub vivify: Option<i32>,
    /// Request fields echoed in the answer.
    pub back: Back,
}

/// `md`. Answered by [`Done::Done`](super::Done), `NotFound` or `Exists`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delete<'a> {
    /// Key of the item.
    pub key: &'a [u8],
    /// `C`: required version of the stored item.
    pub compare: Option<u64>,
    /// `E`: the version a marked item gets. Not in memcached 1.6.18.
    pub version: Option<u64>,
    /// `I`: the item is marked stale instead of removed.
    pub invalidate: bool,
    /// `x`: the value and the client's flags are removed, the item stays. Not in memcached 1.6.18.
    pub empty: bool,
    /// `T`, with `invalidate`: the new expiry.
    pub ttl: Option<i32>,
    /// Request fields echoed in the answer.
    pub back: Back,
}

/// `ma`. Answered by [`Reply::Value`](super::Reply) with `value`, else by
/// [`Done::Done`](super::Done); or `NotFound`, `NotStored`, `Exists`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count<'a> {
    /// Key of the item.
    pub key: &'a [u8],
    /// `D`: amount of the change.
    pub delta: u64,
    /// `MD`: downwards.
    pub down: bool,
    /// `N` and `J`: a missing counter is created, with this expiry and value.
    pub vivify: Option<(i32, u64)>,
    /// `C`: required version of the stored item.
    pub compare: Option<u64>,
    /// `E`: the version it gets. Not in memcached 1.6.18.
    pub version: Option<u64>,
    /// `T`: the new expiry.
    pub ttl: Option<i32>,
    /// `v`: the new number.
    pub value: bool,
    /// Request fields echoed in the answer.
    pub back: Back,
}

/// Flags being written to a line.
struct Line<'v>(&'v mut Vec<u8>);

impl Line<'_> {
    fn has(&mut self, letter: u8, wanted: bool) {
        if wanted {
            self.0.extend_from_slice(&[b' ', letter]);
        }
    }

    fn number(&mut self, letter: u8, value: Option<u64>) {
        if let Some(value) = value {
            self.has(letter, true);
            decimal(value, self.0);
        }
    }

    fn seconds(&mut self, letter: u8, value: Option<i32>) {
        if let Some(value) = value {
            self.has(letter, true);
            signed(i64::from(value), self.0);
        }
    }

    fn back(&mut self, back: &Back) {
        self.has(b'k', back.key);
        self.has(b'c', back.cas);
        self.has(b'q', back.quiet);
        self.number(b'O', back.opaque.map(u64::from));
    }

    fn end(self) {
        self.0.extend_from_slice(super::CRLF);
    }
}

/// Appends verb and key; on error nothing. `len`: of the value, for `ms`.
fn begin<'v>(
    verb: u8,
    key: &[u8],
    len: Option<u32>,
    into: &'v mut Vec<u8>,
) -> Result<Line<'v>, KeyError> {
    let start = into.len();
    into.reserve(key.len() + 96);
    into.extend_from_slice(&[b'm', verb, b' ']);
    match key::meta(key, into) {
        Ok(base64) => {
            if let Some(len) = len {
                into.push(b' ');
                decimal(u64::from(len), into);
            }
            let mut line = Line(into);
            line.has(b'b', base64);
            Ok(line)
        }
        Err(error) => {
            into.truncate(start);
            Err(error)
        }
    }
}

/// Appends an `mg`; on error nothing.
pub fn get(get: &Get<'_>, into: &mut Vec<u8>) -> Result<(), KeyError> {
    let mut line = begin(b'g', get.key, None, into)?;
    line.has(b'v', get.value);
    line.has(b'f', get.flags);
    line.has(b't', get.left);
    line.has(b's', get.size);
    line.has(b'h', get.hit_before);
    line.has(b'l', get.idle);
    line.has(b'u', get.unbumped);
    line.seconds(b'T', get.ttl);
    line.seconds(b'N', get.vivify);
    line.seconds(b'R', get.recache);
    line.number(b'E', get.version);
    line.back(&get.back);
    line.end();
    Ok(())
}

/// Appends an `ms` up to the value; on error nothing.
pub fn set(set: &Set<'_>, into: &mut Vec<u8>) -> Result<(), KeyError> {
    let mut line = begin(b's', set.key, Some(set.len), into)?;
    let mode = match set.mode {
        Mode::Set => None,
        Mode::Add => Some(b'E'),
        Mode::Replace => Some(b'R'),
        Mode::Append => Some(b'A'),
        Mode::Prepend => Some(b'P'),
    };
    if let Some(mode) = mode {
        line.0.extend_from_slice(&[b' ', b'M', mode]);
    }
    line.number(b'F', (set.flags != 0).then_some(u64::from(set.flags)));
    line.seconds(b'T', (set.ttl != 0).then_some(set.ttl));
    line.number(b'C', set.compare);
    line.number(b'E', set.version);
    line.has(b'I', set.invalidate);
    line.seconds(b'N', set.vivify);
    line.back(&set.back);
    line.end();
    Ok(())
}

/// Appends an `md`; on error nothing.
pub fn delete(delete: &Delete<'_>, into: &mut Vec<u8>) -> Result<(), KeyError> {
    let mut line = begin(b'd', delete.key, None, into)?;
    line.number(b'C', delete.compare);
    line.number(b'E', delete.version);
    line.has(b'I', delete.invalidate);
    line.has(b'x', delete.empty);
    line.seconds(b'T', delete.ttl);
    line.back(&delete.back);
    line.end();
    Ok(())
}

/// Appends an `ma`; on error nothing.
pub fn count(count: &Count<'_>, into: &mut Vec<u8>) -> Result<(), KeyError> {
    let mut line = begin(b'a', count.key, None, into)?;
    if count.down {
        line.0.extend_from_slice(b" MD");
    }
    line.number(b'D', (count.delta != 1).then_some(count.delta));
    line.seconds(b'N', count.vivify.map(|(ttl, _)| ttl));
    line.number(b'J', count.vivify.map(|(_, initial)| initial));
    line.number(b'C', count.compare);
    line.number(b'E', count.version);
    line.seconds(b'T', count.ttl);
    line.has(b'v', count.value);
    line.back(&count.back);
    line.end();
    Ok(())
}

/// Appends an `me`, which asks for the metadata of an item: answered by
/// [`Reply::Debug`](super::Reply) or [`Done::NotFound`](super::Done).
pub fn debug(key: &[u8], into: &mut Vec<u8>) -> Result<(), KeyError> {
    begin(b'e', key, None, into).map(Line::end)
}

/// Appends an `mn`. Answered by [`Reply::Noop`](super::Reply) when all requests before it are
/// answered.
pub fn noop(into: &mut Vec<u8>) {
    into.extend_from_slice(b"mn\r\n");
}
