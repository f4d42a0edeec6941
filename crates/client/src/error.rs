//! What can go wrong, and whose fault it is.

use std::io;

use crate::{Address, placement::PlacementError};

/// Why an operation has no answer. A miss is none of these: it is an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller's: a key no server takes. Nothing was sent.
    #[error("a key is 1 to 250 bytes with its prefix, without blanks and control characters")]
    Key,
    /// The caller's: a value above [`Config::max_item`](crate::Config::max_item). Nothing was sent.
    #[error("a value of {size} bytes is above the limit of {limit}")]
    TooLarge {
        /// Bytes of the value.
        size: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// More is asked of the server than [`Config::queue`](crate::Config::queue) holds, for as long as a write may take.
    /// Nothing was sent.
    #[error("too much is waiting for the server")]
    Busy,
    /// The server has failed and is left alone until a probe finds it well. Nothing was sent.
    #[error("the server is down")]
    Down,
    /// No connection.
    #[error("no connection: {0}")]
    Connect(io::ErrorKind),
    /// No answer in time. The operation may have been carried out all the same.
    #[error("no answer in time")]
    Timeout,
    /// The connection ended before the answer. The operation may have been carried out all the same.
    #[error("the connection ended before the answer: {0}")]
    Closed(io::ErrorKind),
    /// The server does not accept user and password, or asks for some.
    #[error("authentication: {0}")]
    Auth(String),
    /// The server cannot: its `SERVER_ERROR` line.
    #[error("the server failed: {0}")]
    Server(String),
    /// The server does not accept the request: its `CLIENT_ERROR` or `ERROR` line.
    #[error("the server refused: {0}")]
    Refused(String),
    /// What came is no answer to what was asked. The connection was closed.
    #[error("an answer that is none: {0}")]
    Protocol(String),
}

/// What is wrong with a [`Config`](crate::Config).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No server at all.
    #[error("at least one server is needed")]
    NoServer,
    /// More than [`MAX_SERVERS`](crate::MAX_SERVERS).
    #[error("at most {max} servers, found {0}", max = crate::MAX_SERVERS)]
    TooManyServers(usize),
    /// Servers and weights no ring can be made of.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The same server twice.
    #[error("{0} is named twice")]
    Twice(Address),
    /// A prefix that leaves no room for a key, or has bytes a key may not have.
    #[error("a prefix is at most {} bytes, without blanks and control characters", crate::MAX_PREFIX)]
    Prefix,
    /// A number outside its bounds.
    #[error("{name}: expected {expected}")]
    Range {
        /// The field.
        name: &'static str,
        /// What it may be.
        expected: &'static str,
    },
    /// Authentication and protocol that do not go together, or a user or password that cannot be sent.
    #[error("authentication: {0}")]
    Auth(&'static str),
}
