//! The client's side of the protocols: requests out, replies in. Pure: no I/O, no clock.
//!
//! | room | what |
//! |---|---|
//! | [`text`], [`meta`], [`binary`] | requests, appended to what is to be sent |
//! | [`Replies`] | replies, from what has been received |
//! | [`KeyError`] | keys a protocol does not take |
//!
//! Requests of the text and binary protocols are the very types the server reads ([`super::text`], [`super::binary`]); those of
//! the meta protocol say more about the answer than a server keeps, so the client has its own.
//!
//! A request with a value is appended up to the value: whoever sends it puts the value behind, and behind that [`CRLF`] in
//! the text and meta protocols, so that no value is copied.

pub mod binary;
mod key;
pub mod meta;
mod reply;
pub mod text;

pub use key::{KeyError, MAX_BASE64};
pub use reply::{Broken, Decoded, Done, Extra, Fault, MAX_LINE, Replies, Reply, Value};

/// What ends a value in the text and meta protocols.
pub const CRLF: &[u8] = b"\r\n";

#[cfg(test)]
mod tests;
