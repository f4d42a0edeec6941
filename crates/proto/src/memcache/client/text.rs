//! Requests of the text protocol (protocol.txt, "Storage commands" to "Other commands").
//!
//! `noreply`: only errors are answered, and an error cannot be told from another request's answer.
//! Quiet pipelined requests are better sent as meta commands.

use super::{
    super::{
        line::decimal,
        meta::signed,
        text::{Count, Delete, Flush, Mode, Store, Touch},
    },
    KeyError, key,
};

const NOREPLY: &[u8] = b" noreply";

fn end(noreply: bool, into: &mut Vec<u8>) {
    if noreply {
        into.extend_from_slice(NOREPLY);
    }
    into.extend_from_slice(super::CRLF);
}

fn verb(verb: &[u8], key: &[u8], into: &mut Vec<u8>) {
    into.reserve(verb.len() + key.len() + 64);
    into.extend_from_slice(verb);
    into.push(b' ');
    into.extend_from_slice(key);
}

fn number(value: u64, into: &mut Vec<u8>) {
    into.push(b' ');
    decimal(value, into);
}

/// `get`, with `cas` `gets`; with `touch`, the new expiry, `gat` and `gats`. Answered by a
/// [`Reply::Value`](super::Reply) for each key found, in any order, and
/// [`Reply::End`](super::Reply). At least one key; a server accepts lines of any length here. On
/// error nothing is appended.
pub fn get<'k>(
    keys: impl IntoIterator<Item = &'k [u8]>,
    cas: bool,
    touch: Option<i32>,
    into: &mut Vec<u8>,
) -> Result<(), KeyError> {
    let start = into.len();
    into.extend_from_slice(match (touch, cas) {
        (None, false) => b"get",
        (None, true) => b"gets",
        (Some(_), false) => b"gat",
        (Some(_), true) => b"gats",
    });
    if let Some(exptime) = touch {
        into.push(b' ');
        signed(i64::from(exptime), into);
    }
    let mut checked = Err(KeyError::Empty);
    for each in keys {
        checked = key::text(each);
        if checked.is_err() {
            break;
        }
        into.push(b' ');
        into.extend_from_slice(each);
    }
    match checked {
        Ok(()) => into.extend_from_slice(super::CRLF),
        Err(_) => into.truncate(start),
    }
    checked
}

/// `set`, `add`, `replace`, `append`, `prepend` or, with a version, `cas`: the line before the
/// value. Answered by [`Done::Stored`](super::Done), `NotStored`, `Exists` or `NotFound`.
pub fn store(store: &Store<'_>, into: &mut Vec<u8>) -> Result<(), KeyError> {
    key::text(store.key)?;
    let name: &[u8] = match (store.mode, store.cas) {
        (_, Some(_)) => b"cas",
        (Mode::Set, None) => b"set",
        (Mode::Add, None) => b"add",
        (Mode::Replace, None) => b"replace",
        (Mode::Append, None) => b"append",
        (Mode::Prepend, None) => b"prepend",
    };
    verb(name, store.key, into);
    number(u64::from(store.flags), into);
    into.push(b' ');
    signed(i64::from(store.exptime), into);
    number(u64::from(store.len), into);
    if let Some(cas) = store.cas {
        number(cas, into);
    }
    end(store.noreply, into);
    Ok(())
}

/// `delete`. Answered by [`Done::Deleted`](super::Done) or `NotFound`.
pub fn delete(delete: &Delete<'_>, into: &mut Vec<u8>) -> Result<(), KeyError> {
    key::text(delete.key)?;
    verb(b"delete", delete.key, into);
    end(delete.noreply, into);
    Ok(())
}

/// `incr`, `decr`. Answered by [`Reply::Number`](super::Reply), [`Done::NotFound`](super::Done) or
/// an error.
pub fn count(count: &Count<'_>, into: &mut Vec<u8>) -> Result<(), KeyError> {
    key::text(count.key)?;
    verb(if count.down { b"decr" } else { b"incr" }, count.key, into);
    number(count.delta, into);
    end(count.noreply, into);
    Ok(())
}

/// `touch`. Answered by [`Done::Touched`](super::Done) or `NotFound`.
pub fn touch(touch: &Touch<'_>, into: &mut Vec<u8>) -> Result<(), KeyError> {
    key::text(touch.key)?;
    verb(b"touch", touch.key, into);
    into.push(b' ');
    signed(i64::from(touch.exptime), into);
    end(touch.noreply, into);
    Ok(())
}

/// `flush_all`. Answered by [`Done::Ok`](super::Done).
pub fn flush(flush: &Flush, into: &mut Vec<u8>) {
    into.extend_from_slice(b"flush_all");
    if flush.delay != 0 {
        into.push(b' ');
        signed(i64::from(flush.delay), into);
    }
    end(flush.noreply, into);
}

/// `version`. Answered by [`Reply::Version`](super::Reply). Every memcached and every proxy
/// supports it.
pub fn version(into: &mut Vec<u8>) {
    into.extend_from_slice(b"version\r\n");
}

/// `stats`, with words such as `items` or `settings`. Answered by [`Reply::Stat`](super::Reply) for
/// each and [`Reply::End`](super::Reply); `stats reset` by [`Done::Reset`](super::Done). The words
/// are refused if one of their bytes ends a line.
pub fn stats(what: &[u8], into: &mut Vec<u8>) -> Result<(), KeyError> {
    if let Some(byte) = what.iter().find(|byte| byte.is_ascii_control()) {
        return Err(KeyError::BadByte(*byte));
    }
    into.extend_from_slice(b"stats");
    if !what.is_empty() {
        into.push(b' ');
        into.extend_from_slice(what);
    }
    into.extend_from_slice(super::CRLF);
    Ok(())
}

/// `verbosity`. Answered by [`Done::Ok`](super::Done).
pub fn verbosity(level: u32, noreply: bool, into: &mut Vec<u8>) {
    into.extend_from_slice(b"verbosity");
    number(u64::from(level), into);
    end(noreply, into);
}

/// `quit`: the server ends the connection.
pub fn quit(into: &mut Vec<u8>) {
    into.extend_from_slice(b"quit\r\n");
}

/// Authenticates to a server started with a file of passwords (`memcached -Y`): a `set` with the
/// value `user password`, the value included. It must be the connection's first request; meta
/// commands may follow. Answered by [`Done::Stored`](super::Done) or
/// [`Fault::Client`](super::Fault).
pub fn authenticate(user: &[u8], password: &[u8], into: &mut Vec<u8>) {
    into.extend_from_slice(b"set auth 0 0");
    number((user.len() + 1 + password.len()) as u64, into);
    into.extend_from_slice(super::CRLF);
    for part in [user, b" ", password, super::CRLF] {
        into.extend_from_slice(part);
    }
}
