//! The binary protocol (memcached's `docs/protocol-binary.xml` and `protocol_binary.h`), decoded
//! and answered as memcached 1.6.18 does. One file per family of opcodes.
//!
//! A request is a [`Header`], extras, a key and a value. [`decode`] takes all but the value: a
//! store command and an authentication give its length, and the driver of the codec takes it. Any
//! other command with a value is refused.
//!
//! Quiet forms omit the answer that means "as expected": a miss of a get, success of the others.

pub mod count;
pub mod delete;
pub mod flush;
pub mod get;
mod header;
pub mod sasl;
pub mod stat;
mod status;
pub mod store;
#[cfg(test)]
mod tests;

pub use header::{HEADER, Header, REQUEST, RESPONSE, done, error, error_saying, text};
pub use status::Status;

use super::{MAX_KEY, text::Mode};

/// The opcodes memcached knows (`protocol_binary.h`).
#[allow(missing_docs)] // the names are the documentation
pub mod opcode {
    pub const GET: u8 = 0x00;
    pub const SET: u8 = 0x01;
    pub const ADD: u8 = 0x02;
    pub const REPLACE: u8 = 0x03;
    pub const DELETE: u8 = 0x04;
    pub const INCREMENT: u8 = 0x05;
    pub const DECREMENT: u8 = 0x06;
    pub const QUIT: u8 = 0x07;
    pub const FLUSH: u8 = 0x08;
    pub const GETQ: u8 = 0x09;
    pub const NOOP: u8 = 0x0a;
    pub const VERSION: u8 = 0x0b;
    pub const GETK: u8 = 0x0c;
    pub const GETKQ: u8 = 0x0d;
    pub const APPEND: u8 = 0x0e;
    pub const PREPEND: u8 = 0x0f;
    pub const STAT: u8 = 0x10;
    pub const SETQ: u8 = 0x11;
    pub const ADDQ: u8 = 0x12;
    pub const REPLACEQ: u8 = 0x13;
    pub const DELETEQ: u8 = 0x14;
    pub const INCREMENTQ: u8 = 0x15;
    pub const DECREMENTQ: u8 = 0x16;
    pub const QUITQ: u8 = 0x17;
    pub const FLUSHQ: u8 = 0x18;
    pub const APPENDQ: u8 = 0x19;
    pub const PREPENDQ: u8 = 0x1a;
    pub const TOUCH: u8 = 0x1c;
    pub const GAT: u8 = 0x1d;
    pub const GATQ: u8 = 0x1e;
    pub const SASL_LIST: u8 = 0x20;
    pub const SASL_AUTH: u8 = 0x21;
    pub const SASL_STEP: u8 = 0x22;
    pub const GATK: u8 = 0x23;
    pub const GATKQ: u8 = 0x24;
}

/// A request without its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// `get`, `touch`, `gat` and their forms.
    Get(get::Get<'a>),
    /// `set`, `add`, `replace`, `append`, `prepend`: a value follows.
    Store(store::Store<'a>),
    /// `increment`, `decrement`.
    Count(count::Count<'a>),
    /// `delete`.
    Delete(delete::Delete<'a>),
    /// `flush`.
    Flush(flush::Flush),
    /// `stat`.
    Stat(stat::Stat<'a>),
    /// `noop`.
    Noop,
    /// `version`.
    Version,
    /// `quit`; true: without an answer.
    Quit(bool),
    /// `SASL list mechanisms`.
    SaslList,
    /// `SASL authenticate`, `SASL step`: a message follows.
    Sasl(sasl::Sasl<'a>),
}

/// The start of the received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// A request, and its length up to its value.
    Command(Header, Command<'a>, usize),
    /// More bytes are needed: at least this many from the start of the input.
    Partial(usize),
    /// A request that cannot be executed.
    Refused(Refused),
    /// No request begins here, and the start of the next one is unknown: the connection is closed
    /// without an answer.
    Garbage,
}

/// A request answered with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Header of the request.
    pub header: Header,
    /// Status of the answer.
    pub status: Status,
    /// Bytes from the start of the input to discard; ignored if `close`.
    pub skip: u64,
    /// The connection is closed.
    pub close: bool,
}

/// Lengths that do not fit the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Invalid;

/// The parts of a request, of the value only its length.
struct Parts<'a> {
    extras: &'a [u8],
    key: &'a [u8],
    value: u32,
}

/// The first request of `input`. `admitted`: false while only authentication is allowed.
pub fn decode(input: &[u8], admitted: bool) -> Decoded<'_> {
    let Some((head, rest)) = input.split_first_chunk::<HEADER>() else {
        return match input.first() {
            Some(&first) if first != REQUEST => Decoded::Garbage,
            _ => Decoded::Partial(HEADER),
        };
    };
    let Some(header) = Header::read(head) else { return Decoded::Garbage };
    let close = |status| Decoded::Refused(Refused { header, status, skip: 0, close: true });
    let (extras, key) = (usize::from(header.extras), usize::from(header.key));
    let Some(value) = header.body.checked_sub((extras + key) as u32) else {
        return close(Status::Unknown);
    };
    if !admitted && !authenticates(header.opcode) {
        return close(Status::AuthError);
    }
    if key > MAX_KEY {
        return close(Status::Invalid);
    }
    let (Some(extras_bytes), Some(key_bytes)) =
        (rest.get(..extras), rest.get(extras..extras + key))
    else {
        return Decoded::Partial(HEADER + extras + key);
    };
    match command(header.opcode, &Parts { extras: extras_bytes, key: key_bytes, value }) {
        Some(Ok(command)) => Decoded::Command(header, command, HEADER + extras + key),
        Some(Err(Invalid)) => close(Status::Invalid),
        None => Decoded::Refused(unknown(header)),
    }
}

/// An unknown command: its body is discarded and the connection continues. (memcached 1.6.18
/// discards as many further bytes as extras and key have, and waits for them.)
pub fn unknown(header: Header) -> Refused {
    let skip = HEADER as u64 + u64::from(header.body);
    Refused { header, status: Status::Unknown, skip, close: false }
}

/// Whether an opcode is allowed before the client has authenticated.
fn authenticates(opcode: u8) -> bool {
    matches!(opcode, opcode::SASL_LIST | opcode::SASL_AUTH | opcode::SASL_STEP | opcode::VERSION)
}

/// `None`: there is no such opcode.
#[inline]
fn command<'a>(code: u8, parts: &Parts<'a>) -> Option<Result<Command<'a>, Invalid>> {
    let get = |touch, value, with_key, quiet| {
        get::decode(parts, get::Kind { touch, value, with_key, quiet }).map(Command::Get)
    };
    let store = |mode, quiet| store::decode(parts, mode, quiet).map(Command::Store);
    let count = |down, quiet| count::decode(parts, down, quiet).map(Command::Count);
    Some(match code {
        opcode::GET => get(false, true, false, false),
        opcode::GETQ => get(false, true, false, true),
        opcode::GETK => get(false, true, true, false),
        opcode::GETKQ => get(false, true, true, true),
        opcode::TOUCH => get(true, false, false, false),
        opcode::GAT => get(true, true, false, false),
        opcode::GATQ => get(true, true, false, true),
        opcode::GATK => get(true, true, true, false),
        opcode::GATKQ => get(true, true, true, true),
        opcode::SET => store(Mode::Set, false),
        opcode::SETQ => store(Mode::Set, true),
        opcode::ADD => store(Mode::Add, false),
        opcode::ADDQ => store(Mode::Add, true),
        opcode::REPLACE => store(Mode::Replace, false),
        opcode::REPLACEQ => store(Mode::Replace, true),
        opcode::APPEND => store(Mode::Append, false),
        opcode::APPENDQ => store(Mode::Append, true),
        opcode::PREPEND => store(Mode::Prepend, false),
        opcode::PREPENDQ => store(Mode::Prepend, true),
        opcode::INCREMENT => count(false, false),
        opcode::INCREMENTQ => count(false, true),
        opcode::DECREMENT => count(true, false),
        opcode::DECREMENTQ => count(true, true),
        opcode::DELETE => delete::decode(parts, false).map(Command::Delete),
        opcode::DELETEQ => delete::decode(parts, true).map(Command::Delete),
        opcode::FLUSH => flush::decode(parts, false).map(Command::Flush),
        opcode::FLUSHQ => flush::decode(parts, true).map(Command::Flush),
        opcode::STAT => stat::decode(parts).map(Command::Stat),
        opcode::NOOP => bare(parts, Command::Noop),
        opcode::VERSION => bare(parts, Command::Version),
        opcode::QUIT => bare(parts, Command::Quit(false)),
        opcode::QUITQ => bare(parts, Command::Quit(true)),
        opcode::SASL_LIST => bare(parts, Command::SaslList),
        opcode::SASL_AUTH => sasl::decode(parts, false).map(Command::Sasl),
        opcode::SASL_STEP => sasl::decode(parts, true).map(Command::Sasl),
        _ => return None,
    })
}

/// A command that consists of its header only.
fn bare<'a>(parts: &Parts<'_>, command: Command<'a>) -> Result<Command<'a>, Invalid> {
    let empty = parts.extras.is_empty() && parts.key.is_empty() && parts.value == 0;
    if empty { Ok(command) } else { Err(Invalid) }
}
