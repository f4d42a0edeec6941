//! Errors, and who is at fault.

use std::io;

use crate::{Address, placement::PlacementError};

/// Why an operation has no answer. A miss is an answer, not an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Caller: the key is invalid. Nothing was sent.
    #[error("a key is 1 to 250 bytes with its prefix, without blanks and control characters")]
    Key,
    /// Caller: the value is larger than [`Config::max_item`](crate::Config::max_item). Nothing was
    /// sent.
    #[error("a value of {size} bytes is above the limit of {limit}")]
    TooLarge {
        /// Bytes of the value.
        size: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// The queue for the server was full ([`Config::queue`](crate::Config::queue)) until the write
    /// timeout. Nothing was sent.
    #[error("too much is waiting for the server")]
    Busy,
    /// The server failed and is not used until a probe succeeds. Nothing was sent.
    #[error("the server is down")]
    Down,
    /// The connection could not be made.
    #[error("no connection: {0}")]
    Connect(io::ErrorKind),
    /// The answer timed out. The operation may have been executed.
    #[error("no answer in time")]
    Timeout,
    /// The connection closed before the answer. The operation may have been executed.
    #[error("the connection ended before the answer: {0}")]
    Closed(io::ErrorKind),
    /// The server rejected the credentials, or requires some.
    #[error("authentication: {0}")]
    Auth(String),
    /// Server: a `SERVER_ERROR` line.
    #[error("the server failed: {0}")]
    Server(String),
    /// The server rejected the request: a `CLIENT_ERROR` or `ERROR` line.
    #[error("the server refused: {0}")]
    Refused(String),
    /// The reply does not match the request. The connection was closed.
    #[error("an answer that is none: {0}")]
    Protocol(String),
}

/// Why a [`Config`](crate::Config) is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No server at all.
    #[error("at least one server is needed")]
    NoServer,
    /// More than [`MAX_SERVERS`](crate::MAX_SERVERS).
    #[error("at most {max} servers, found {0}", max = crate::MAX_SERVERS)]
    TooManyServers(usize),
    /// No ring can be made of these servers and weights.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The same server twice.
    #[error("{0} is named twice")]
    Twice(Address),
    /// The prefix leaves no room for a key, or has bytes a key may not have.
    #[error(
        "a prefix is at most {} bytes, without blanks and control characters",
        crate::MAX_PREFIX
    )]
    Prefix,
    /// A number outside its bounds.
    #[error("{name}: expected {expected}")]
    Range {
        /// The field of [`Config`](crate::Config).
        name: &'static str,
        /// The allowed range.
        expected: &'static str,
    },
    /// Credentials that do not fit the protocol, or that cannot be sent.
    #[error("authentication: {0}")]
    Auth(&'static str),
}
