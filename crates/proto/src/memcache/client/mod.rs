//! The client's side of the protocols: requests out, replies in. Pure: no I/O, no clock.
//!
//! | module | content |
//! |---|---|
//! | [`text`], [`meta`], [`binary`] | requests, appended to the output buffer |
//! | [`Replies`] | replies, from received bytes |
//! | [`KeyError`] | keys that a protocol does not accept |
//!
//! Requests of the text and binary protocols are the types that the server reads ([`super::text`],
//! [`super::binary`]); those of the meta protocol hold more about the answer than a server keeps,
//! so the client has its own.
//!
//! A request with a value is appended up to the value: the sender puts the value after it, and
//! after that [`CRLF`] in the text and meta protocols, so that no value is copied.

pub mod binary;
mod key;
pub mod meta;
mod reply;
pub mod text;

pub use key::{KeyError, MAX_BASE64};
pub use reply::{Broken, Decoded, Done, Extra, Fault, MAX_LINE, Replies, Reply, Value};

/// The end of a value in the text and meta protocols.
pub const CRLF: &[u8] = b"\r\n";

#[cfg(test)]
mod tests;
