//! The memcached protocols: text, meta and binary. Bytes in, commands out; replies in, bytes out. No I/O.
//!
//! | room | what |
//! |---|---|
//! | [`line`] | where a command line ends, its words, its numbers, decimal digits |
//! | [`text`] | get, set, ... (protocol.txt, "Storage commands" to "Other commands"), one file per verb |
//! | [`binary`] | the binary protocol, one file per family of opcodes |
//! | [`client`] | the other side of all three: requests out, replies in |
//! | [`sasl`] | PLAIN, by which binary clients say who they are |
//! | [`meta`] | mg, ms, md, ma, me (protocol.txt, "Meta Commands"), one file per verb |
//!
//! [`decode`] takes the first line of what was received. Data blocks are not looked at here: a store command says how
//! long its block is, and whoever drives the codec takes it, whole or piece by piece.
//!
//! What memcached 1.6.18 does with lines the document does not speak of (too many words, numbers that are none, keys too
//! long) is done here as it does it, error texts included.

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

/// Received bytes without a line end that memcached bears with. More of them end the connection, unless they are the keys
/// of a retrieval.
pub const MAX_LINE: usize = 2048;

/// Blanks before a retrieval that memcached bears with in a line longer than [`MAX_LINE`].
const MAX_BLANKS: usize = 100;

/// What the beginning of the received bytes is.
#[derive(Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// A command line, and how many bytes it takes with its end.
    Command(Command<'a>, usize),
    /// The beginning of a retrieval with more keys than have arrived: so many bytes without the keys, which are to be taken
    /// one by one as they arrive ([`text::Keys`]).
    Keys(text::Get<'a>, usize),
    /// The line has no end yet.
    Partial,
    /// It has none within [`MAX_LINE`], and is nothing that may be so long: the connection ends.
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
    /// What is for those who run the server: `stats`, `verbosity`, `lru_crawler`, `watch`, ...
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
    /// Nothing that can be carried out.
    Refused(Refused),
}

/// A line that is answered with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The answer, its line end included; empty when nothing is said.
    pub answer: &'static [u8],
    /// Bytes behind the line that belong to it and are to be thrown away.
    pub swallow: u64,
    /// The connection ends.
    pub close: bool,
}

/// `ERROR`: no such command, or not with so many words.
pub const ERROR: &[u8] = b"ERROR\r\n";
/// A line that is not as it must be.
pub const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format\r\n";
/// A data block that does not end where it was said to.
pub const BAD_CHUNK: &[u8] = b"CLIENT_ERROR bad data chunk\r\n";
/// A value larger than an item may be.
pub const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";
/// No memory for a value.
pub const NO_MEMORY: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";
/// `incr` and its like of what is no number.
pub const NOT_NUMBER: &[u8] = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";

/// A line answered with an error, and nothing else.
pub(crate) fn refused(answer: &'static [u8]) -> Command<'static> {
    Command::Refused(Refused { answer, swallow: 0, close: false })
}

/// As [`refused`], silent where no answer is wanted.
pub(crate) fn refused_unless(noreply: bool, answer: &'static [u8]) -> Command<'static> {
    refused(if noreply { b"" } else { answer })
}

/// The first command line of `input`, whatever protocol but binary it is in.
#[inline]
pub fn decode(input: &[u8]) -> Decoded<'_> {
    match line::split(input) {
        Some((line, used)) => Decoded::Command(command(line), used),
        None if input.len() <= MAX_LINE => Decoded::Partial,
        None => long(input),
    }
}

/// A line without an end that is longer than a line may be.
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
