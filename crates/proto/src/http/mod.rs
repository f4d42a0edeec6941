//! HTTP/1.1 as bytes: heads, targets, bodies, and the fields a cache must understand.

pub mod fields;
pub mod known;
pub mod method;

pub use fields::{Elements, Fields, Malformed, parse_fields};
pub use httparse::{EMPTY_HEADER, Header};
pub use known::{Known, KnownField};
pub use method::Method;

/// The protocol version of a message, as far as it makes a difference here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}
