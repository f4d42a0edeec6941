//! Replies, from what has been received.
//!
//! Every reply says by itself what it is, so nothing is remembered between two of them: which request it answers is known by
//! the order of requests, or by the opaque number it gives back. A value is a range of what was received, never a copy; one
//! that has not arrived says how long the whole reply is, so that the rest can be read straight to where it belongs.
//!
//! A server may be anything that listens on a port: whatever it sends is either a reply within the limits or [`Broken`], after
//! which nothing on the connection can be trusted and it is to be closed.

mod binary;
mod extra;
mod line;

pub use extra::Extra;
pub use line::MAX_LINE;

use std::ops::Range;

/// What the beginning of the received bytes is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// Not all of a reply: so many bytes from the start of the buffer are needed at least, more than are there.
    Incomplete {
        /// Bytes from the start of the buffer. Once a value's length is known, the length of its whole reply.
        need: usize,
    },
    /// A reply, and how many bytes it takes.
    Reply(Reply<'a>, usize),
    /// No reply.
    Broken(Broken),
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// A value: of a text retrieval, of `mg` and `ma` with `v`, of a binary get.
    Value(Value<'a>),
    /// It was done, or was not for a reason that is no error.
    Done(Done, Extra<'a>),
    /// `END`: no more values, or statistics, of this request. The empty statistic of the binary protocol.
    End,
    /// `MN`; a binary no-op's.
    Noop(Extra<'a>),
    /// The new number of a text or binary counter.
    Number(u64, Extra<'a>),
    /// The server's version.
    Version(&'a [u8]),
    /// One of its statistics.
    Stat {
        /// Its name.
        name: &'a [u8],
        /// What is said.
        value: &'a [u8],
    },
    /// `ME`: the key and what is known of it, as sent.
    Debug(&'a [u8]),
    /// The names of SASL mechanisms, between blanks.
    Mechanisms(&'a [u8]),
    /// An error, with the server's words for it.
    Error(Fault, &'a [u8], Extra<'a>),
}

/// A value, and what came with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value<'a> {
    /// The key, where it is given back as it is: by a text retrieval and by binary gets that ask for it; else empty. (What `mg`
    /// gives back is [`Extra::key`].)
    pub key: &'a [u8],
    /// The client's bits; 0 where `mg` did not ask for them.
    pub flags: u32,
    /// The version, where it is given.
    pub cas: Option<u64>,
    /// Where in the received bytes it is.
    pub at: Range<usize>,
    /// The rest.
    pub extra: Extra<'a>,
}

/// How a request ended that gives no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// `HD`: whatever a meta command asked for.
    Done,
    /// `STORED`.
    Stored,
    /// `NOT_STORED`, `NS`: the condition did not hold.
    NotStored,
    /// `EXISTS`, `EX`: another version is there. In the binary protocol also: an `add` found something.
    Exists,
    /// `NOT_FOUND`, `NF`, and a miss, `EN`. In the binary protocol also: a `replace` found nothing.
    NotFound,
    /// `DELETED`.
    Deleted,
    /// `TOUCHED`.
    Touched,
    /// `OK`.
    Ok,
    /// `RESET`.
    Reset,
}

/// Who is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `ERROR`, unknown command: the server has no such command. Nothing was done.
    Command,
    /// `CLIENT_ERROR`: the request is not right, or cannot be carried out on this item.
    Client,
    /// `SERVER_ERROR`: the server could not.
    Server,
    /// The binary protocol's: user and password are not accepted, or are missing. (Text has `CLIENT_ERROR` for it.)
    Auth,
}

/// Why received bytes are no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A line that no memcached sends.
    Unknown,
    /// A line longer than [`MAX_LINE`].
    LongLine,
    /// A value, or a binary body, larger than was allowed.
    TooLarge,
    /// A value that does not end where it was said to.
    BadEnd,
    /// Lengths of a binary reply that do not fit each other or the command.
    BadLengths,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Broken::Unknown => "not a memcached's reply",
            Broken::LongLine => "a reply's line is too long",
            Broken::TooLarge => "a value is larger than allowed",
            Broken::BadEnd => "a value does not end where it should",
            Broken::BadLengths => "a reply's lengths do not fit",
        })
    }
}

impl std::error::Error for Broken {}

/// Takes replies off what is received on a connection.
#[derive(Clone, Copy, Debug)]
pub struct Replies {
    max_value: usize,
    binary: bool,
}

impl Replies {
    /// Replies of the text and meta protocols, which mix freely. `max_value`: bytes of the largest value that is taken; a
    /// connection buffers so much and [`MAX_LINE`] at the most.
    pub const fn new(max_value: usize) -> Replies {
        Replies { max_value, binary: false }
    }

    /// Replies of the binary protocol.
    pub const fn binary(max_value: usize) -> Replies {
        Replies { max_value, binary: true }
    }

    /// The first reply in `buffer`.
    #[inline]
    pub fn next<'a>(&self, buffer: &'a [u8]) -> Decoded<'a> {
        let decoded = if self.binary {
            binary::decode(buffer, self.max_value)
        } else {
            line::decode(buffer, self.max_value)
        };
        decoded.unwrap_or_else(Decoded::Broken)
    }
}
