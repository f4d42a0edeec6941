//! The memcached protocols: text, meta and binary. Bytes in, commands out; replies in, bytes out. No I/O.
//!
//! | room | what |
//! |---|---|
//! | [`line`] | where a command line ends, its words, its numbers, decimal digits |
//! | [`text`] | get, set, ... (protocol.txt, "Storage commands" to "Other commands"), one file per verb |
//! | [`binary`] | the binary protocol, one file per family of opcodes |
//! | [`sasl`] | PLAIN, by which binary clients say who they are |
//! | [`meta`] | mg, ms, md, ma, me (protocol.txt, "Meta Commands"), one file per verb |
//!
//! [`decode`] takes the first line of what was received. Data blocks are not looked at here: a store command says how
//! long its block is, and whoever drives the codec takes it, whole or piece by piece ([`text::block_end`]).
//!
//! What memcached 1.6.18 does with lines the document does not speak of (too many words, numbers that are none, keys too
//! long) is done here as it does it, error texts included.

pub mod binary;
pub mod line;
pub mod meta;
pub mod sasl;
pub mod text;

/// Longest key in bytes (protocol.txt, "Keys").
pub const MAX_KEY: usize = 250;

/// What the beginning of the received bytes is.
#[derive(Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// A command line, and how many bytes it takes with its end.
    Command(Command<'a>, usize),
    /// The line has no end yet.
    Partial,
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

/// The first command line of `input`, whatever protocol but binary it is in.
pub fn decode(input: &[u8]) -> Decoded<'_> {
    let _ = input;
    Decoded::Partial
}
