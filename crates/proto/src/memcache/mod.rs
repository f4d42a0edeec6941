//! The memcached protocols: text, meta and binary. Bytes in, commands out; replies in, bytes out.
//! No I/O.
//!
//! | module | content |
//! |---|---|
//! | [`line`] | the end of a command line, its words, its numbers, decimal digits |
//! | [`text`] | get, set, ... (protocol.txt, "Storage commands" to "Other commands"), one file per verb |
//! | [`binary`] | the binary protocol, one file per family of opcodes |
//! | [`client`] | the other side of all three: requests out, replies in |
//! | [`sasl`] | PLAIN, by which binary clients authenticate |
//! | [`meta`] | mg, ms, md, ma, me (protocol.txt, "Meta Commands"), one file per verb |
//!
//! [`decode`] takes the first line of the received bytes. Data blocks are not read here: a store
//! command gives the length of its block, and the driver of the codec takes it, whole or piece by
//! piece.
//!
//! Lines that the document does not define (too many words, invalid numbers, keys too long) are
//! treated as memcached 1.6.18 treats them, error texts included.

mod ahead;
pub mod binary;
pub mod client;
pub mod line;
pub mod meta;
pub mod sasl;
pub mod text;

pub use ahead::{ahead, first_key};

/// Longest key in bytes (protocol.txt, "Keys").
pub const MAX_KEY: usize = 250;

/// Most received bytes without a line end. Further bytes close the connection, unless they are the
/// keys of a retrieval.
pub const MAX_LINE: usize = 2048;

/// Most blanks that memcached accepts before a retrieval in a line longer than [`MAX_LINE`].
const MAX_BLANKS: usize = 100;

/// The start of the received bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// A command line, and its length including its end.
    Command(Command<'a>, usize),
    /// The beginning of a retrieval with more keys than have arrived: its length without the keys,
    /// which are taken one by one as they arrive ([`text::Keys`]).
    Keys(text::Get<'a>, usize),
    /// The line has no end yet.
    Partial,
    /// The line has no end within [`MAX_LINE`], and is not allowed to be longer: the connection is
    /// closed.
    TooLong,
}

/// A command line.
#[derive(Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// `get`, `gets`, `gat`, `gats`.
    Get(text::Get<'a>),
    /// `set`, `add`, `replace`, `append`, `prepend`, `cas`: a data block follows.
    Store(text::Store<'a>),
    /// `delete`.
    Delete(text::Delete<'a>),
    /// `incr`, `decr`.
    Count(text::Count<'a>),
    /// `touch`.
    Touch(text::Touch<'a>),
    /// `flush_all`.
    Flush(text::Flush),
    /// `version`.
    Version,
    /// `quit`.
    Quit,
    /// `shutdown`.
    Shutdown(text::Shutdown),
    /// Commands for operators: `stats`, `verbosity`, `lru_crawler`, `watch`, ...
    Admin(text::Admin<'a>),
    /// `mn`.
    MetaNoop,
    /// `mg`.
    MetaGet(meta::Get<'a>),
    /// `ms`: a data block follows.
    MetaSet(meta::Set<'a>),
    /// `md`.
    MetaDelete(meta::Delete<'a>),
    /// `ma`.
    MetaCount(meta::Count<'a>),
    /// `me`.
    MetaDebug(meta::Debug<'a>),
    /// A command that cannot be executed.
    Refused(Refused),
}

/// A line that is answered with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The answer, its line end included; empty for no answer.
    pub answer: &'static [u8],
    /// Bytes after the line that belong to it and must be discarded.
    pub swallow: u64,
    /// The connection is closed.
    pub close: bool,
}

/// `ERROR`: no such command, or a wrong number of words.
pub const ERROR: &[u8] = b"ERROR\r\n";
/// A malformed line.
pub const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format\r\n";
/// A data block without its end at the announced length.
pub const BAD_CHUNK: &[u8] = b"CLIENT_ERROR bad data chunk\r\n";
/// A value larger than an item may be.
pub const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";
/// No memory for a value.
pub const NO_MEMORY: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";
/// `incr` and its like for a value that is not a number.
pub const NOT_NUMBER: &[u8] = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";

/// A line answered with an error, and nothing else.
pub(crate) fn refused(answer: &'static [u8]) -> Command<'static> {
    Command::Refused(Refused { answer, swallow: 0, close: false })
}

/// Like [`refused`], but silent if the client wants no answer.
pub(crate) fn refused_unless(noreply: bool, answer: &'static [u8]) -> Command<'static> {
    refused(if noreply { b"" } else { answer })
}

/// The first command line of `input`, in any protocol but binary.
#[inline]
pub fn decode(input: &[u8]) -> Decoded<'_> {
    match line::split(input) {
        Some((line, used)) => Decoded::Command(command(line), used),
        None if input.len() <= MAX_LINE => Decoded::Partial,
        None => long(input),
    }
}

/// A line without an end that is too long.
fn long(input: &[u8]) -> Decoded<'_> {
    let blanks = input.iter().take_while(|byte| **byte == b' ').count();
    if blanks > MAX_BLANKS {
        return Decoded::TooLong;
    }
    match text::Get::begin(&input[blanks..]) {
        Some((get, used)) => Decoded::Keys(get, blanks + used),
        None => Decoded::TooLong,
    }
}

/// A command line without its end.
#[inline]
fn command(line: &[u8]) -> Command<'_> {
    let mut words = line::Words::new(line);
    let Some(verb) = words.next() else { return refused(ERROR) };
    match *verb {
        [b'm', verb] => meta::command(verb, words),
        [b'g', b'e', b't'] => text::get(words, false),
        [b'g', b'e', b't', b's'] => text::get(words, true),
        [b's', b'e', b't'] => text::store(text::Mode::Set, words),
        _ => text::command(verb, words, line),
    }
}
