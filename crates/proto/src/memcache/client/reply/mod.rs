//! Replies, from received bytes.
//!
//! Every reply is self-describing, so no state is kept between replies: the order of requests, or
//! the opaque number sent back, tells which request it answers. A value is a range of the received
//! bytes, never a copy; an incomplete one gives the length of the whole reply, so that the rest can
//! be read to its final place.
//!
//! The server may be any program: its bytes are either a reply within the limits or [`Broken`].
//! After that no byte of the connection can be trusted, and it must be closed.

mod binary;
mod extra;
mod line;

pub use extra::Extra;
pub use line::MAX_LINE;

use std::ops::Range;

/// The start of the received bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// The reply is incomplete: at least this many bytes from the start of the buffer are needed.
    Incomplete {
        /// Bytes from the start of the buffer. Once a value's length is known, the length of its
        /// whole reply.
        need: usize,
    },
    /// A reply, and its length.
    Reply(Reply<'a>, usize),
    /// Not a reply.
    Broken(Broken),
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// A value: of a text retrieval, of `mg` and `ma` with `v`, of a binary get.
    Value(Value<'a>),
    /// It was done, or was not for a reason that is not an error.
    Done(Done, Extra<'a>),
    /// `END`: no more values, or statistics, of this request. The empty statistic of the binary
    /// protocol.
    End,
    /// `MN`; the answer to a binary no-op.
    Noop(Extra<'a>),
    /// The new number of a text or binary counter.
    Number(u64, Extra<'a>),
    /// The server's version.
    Version(&'a [u8]),
    /// One of its statistics.
    Stat {
        /// Its name.
        name: &'a [u8],
        /// Its value.
        value: &'a [u8],
    },
    /// `ME`: the key and the item's metadata, as sent.
    Debug(&'a [u8]),
    /// The names of SASL mechanisms, between blanks.
    Mechanisms(&'a [u8]),
    /// An error, with the server's text.
    Error(Fault, &'a [u8], Extra<'a>),
}

/// A value, and its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value<'a> {
    /// The key, if it is sent back unchanged: by a text retrieval and by binary gets that ask for
    /// it; else empty. (The key of an `mg` reply is [`Extra::key`].)
    pub key: &'a [u8],
    /// The client's flags; 0 where `mg` did not ask for them.
    pub flags: u32,
    /// The version, if the reply has it.
    pub cas: Option<u64>,
    /// Its range in the received bytes.
    pub at: Range<usize>,
    /// Further data.
    pub extra: Extra<'a>,
}

/// The result of a request without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// `HD`: success of any meta command.
    Done,
    /// `STORED`.
    Stored,
    /// `NOT_STORED`, `NS`: the condition did not hold.
    NotStored,
    /// `EXISTS`, `EX`: the stored item has another version. In the binary protocol also: an `add`
    /// found an item.
    Exists,
    /// `NOT_FOUND`, `NF`, and a miss, `EN`. In the binary protocol also: a `replace` found no item.
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

/// The party at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `ERROR`, unknown command: the server has no such command. Nothing was done.
    Command,
    /// `CLIENT_ERROR`: the request is invalid, or cannot be executed on this item.
    Client,
    /// `SERVER_ERROR`: the server failed.
    Server,
    /// The binary protocol's: user and password are wrong, or are missing. (Text has `CLIENT_ERROR`
    /// for it.)
    Auth,
}

/// Why received bytes are not a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A line that no memcached sends.
    Unknown,
    /// A line longer than [`MAX_LINE`].
    LongLine,
    /// A value, or a binary body, larger than allowed.
    TooLarge,
    /// A value without its end at the announced length.
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

/// Parses replies from the received bytes of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Replies {
    max_value: usize,
    binary: bool,
}

impl Replies {
    /// Replies of the text and meta protocols, which mix freely. `max_value`: length of the largest
    /// accepted value in bytes; a connection buffers at most this and [`MAX_LINE`].
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
