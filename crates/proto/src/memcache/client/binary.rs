//! Requests of the binary protocol, for servers that accept no other: a memcached started with SASL
//! (`-S`).
//!
//! Every request has an opaque number that its answer sends back. The quiet forms omit the answer
//! that means "as expected"; a [`noop`] after them reports that all are answered.

use super::{
    super::{
        binary::{
            Header, count::Count, delete::Delete, flush::Flush, get::Get, opcode, store::Store,
        },
        sasl,
        text::Mode,
    },
    KeyError, key,
};

/// The common fields of requests: the number, and the required version (`None`: any).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// Sent back in the answer.
    pub opaque: u32,
    /// The required version of the stored item, not 0.
    pub cas: Option<u64>,
}

/// Appends a request up to its value of `len` bytes.
fn request(opcode: u8, extras: &[u8], key: &[u8], len: u32, tag: Tag, into: &mut Vec<u8>) {
    // Keys have at most 250 bytes here, words for statistics and mechanisms at most `u16::MAX`.
    let header = Header {
        opcode,
        key: key.len() as u16,
        extras: extras.len() as u8,
        body: (extras.len() + key.len()) as u32 + len,
        opaque: tag.opaque,
        cas: tag.cas.unwrap_or(0),
    };
    header.write(into);
    into.extend_from_slice(extras);
    into.extend_from_slice(key);
}

/// `get`, `getk`, `gat`, `gatk` and their quiet forms; `touch`, which has none.
pub fn get(get: &Get<'_>, tag: Tag, into: &mut Vec<u8>) -> Result<(), KeyError> {
    key::binary(get.key)?;
    let code = match (get.touch.is_some(), get.with_key, get.quiet) {
        (true, _, _) if !get.value => opcode::TOUCH,
        (false, false, false) => opcode::GET,
        (false, false, true) => opcode::GETQ,
        (false, true, false) => opcode::GETK,
        (false, true, true) => opcode::GETKQ,
        (true, false, false) => opcode::GAT,
        (true, false, true) => opcode::GATQ,
        (true, true, false) => opcode::GATK,
        (true, true, true) => opcode::GATKQ,
    };
    let exptime = get.touch.unwrap_or(0).to_be_bytes();
    let extras: &[u8] = if get.touch.is_some() { &exptime } else { &[] };
    request(code, extras, get.key, 0, tag, into);
    Ok(())
}

/// `set`, `add`, `replace`, `append`, `prepend` and their quiet forms, up to the value.
pub fn store(store: &Store<'_>, tag: Tag, into: &mut Vec<u8>) -> Result<(), KeyError> {
    key::binary(store.key)?;
    let code = match (store.mode, store.quiet) {
        (Mode::Set, false) => opcode::SET,
        (Mode::Set, true) => opcode::SETQ,
        (Mode::Add, false) => opcode::ADD,
        (Mode::Add, true) => opcode::ADDQ,
        (Mode::Replace, false) => opcode::REPLACE,
        (Mode::Replace, true) => opcode::REPLACEQ,
        (Mode::Append, false) => opcode::APPEND,
        (Mode::Append, true) => opcode::APPENDQ,
        (Mode::Prepend, false) => opcode::PREPEND,
        (Mode::Prepend, true) => opcode::PREPENDQ,
    };
    let mut extras = [0; 8];
    extras[..4].copy_from_slice(&store.flags.to_be_bytes());
    extras[4..].copy_from_slice(&store.exptime.to_be_bytes());
    let extras: &[u8] =
        if matches!(store.mode, Mode::Append | Mode::Prepend) { &[] } else { &extras };
    request(code, extras, store.key, store.len, tag, into);
    Ok(())
}

/// `increment`, `decrement` and their quiet forms.
pub fn count(count: &Count<'_>, tag: Tag, into: &mut Vec<u8>) -> Result<(), KeyError> {
    key::binary(count.key)?;
    let code = match (count.down, count.quiet) {
        (false, false) => opcode::INCREMENT,
        (false, true) => opcode::INCREMENTQ,
        (true, false) => opcode::DECREMENT,
        (true, true) => opcode::DECREMENTQ,
    };
    // All ones: do not create a missing counter.
    let (initial, exptime) = count.initial.unwrap_or((0, u32::MAX));
    let mut extras = [0; 20];
    extras[..8].copy_from_slice(&count.delta.to_be_bytes());
    extras[8..16].copy_from_slice(&initial.to_be_bytes());
    extras[16..].copy_from_slice(&exptime.to_be_bytes());
    request(code, &extras, count.key, 0, tag, into);
    Ok(())
}

/// `delete` and its quiet form.
pub fn delete(delete: &Delete<'_>, tag: Tag, into: &mut Vec<u8>) -> Result<(), KeyError> {
    key::binary(delete.key)?;
    let code = if delete.quiet { opcode::DELETEQ } else { opcode::DELETE };
    request(code, &[], delete.key, 0, tag, into);
    Ok(())
}

/// `flush` and its quiet form.
pub fn flush(flush: &Flush, opaque: u32, into: &mut Vec<u8>) {
    let code = if flush.quiet { opcode::FLUSHQ } else { opcode::FLUSH };
    let exptime = flush.exptime.to_be_bytes();
    let extras: &[u8] = if flush.exptime == 0 { &[] } else { &exptime };
    request(code, extras, &[], 0, numbered(opaque), into);
}

/// `noop`.
pub fn noop(opaque: u32, into: &mut Vec<u8>) {
    request(opcode::NOOP, &[], &[], 0, numbered(opaque), into);
}

/// `version`.
pub fn version(opaque: u32, into: &mut Vec<u8>) {
    request(opcode::VERSION, &[], &[], 0, numbered(opaque), into);
}

/// `stat`; `what`: a group of statistics, or empty.
pub fn stats(what: &[u8], opaque: u32, into: &mut Vec<u8>) -> Result<(), KeyError> {
    if !what.is_empty() {
        key::binary(what)?;
    }
    request(opcode::STAT, &[], what, 0, numbered(opaque), into);
    Ok(())
}

/// `quit`: the server ends the connection.
pub fn quit(opaque: u32, into: &mut Vec<u8>) {
    request(opcode::QUIT, &[], &[], 0, numbered(opaque), into);
}

/// `SASL list mechanisms`. Answered by [`Reply::Mechanisms`](super::Reply).
pub fn mechanisms(opaque: u32, into: &mut Vec<u8>) {
    request(opcode::SASL_LIST, &[], &[], 0, numbered(opaque), into);
}

/// `SASL authenticate` with PLAIN (RFC 4616), user and password without NUL. Answered by
/// [`Done::Ok`](super::Done) or [`Fault::Auth`](super::Fault).
pub fn authenticate(user: &[u8], password: &[u8], opaque: u32, into: &mut Vec<u8>) {
    let len = (1 + user.len() + 1 + password.len()) as u32;
    request(opcode::SASL_AUTH, &[], sasl::PLAIN, len, numbered(opaque), into);
    for part in [b"\0", user, b"\0", password] {
        into.extend_from_slice(part);
    }
}

fn numbered(opaque: u32) -> Tag {
    Tag { opaque, cas: None }
}
