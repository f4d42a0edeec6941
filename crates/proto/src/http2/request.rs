//! A request, as the connection speaks of it.

pub use crate::pseudo::{Connect, Malformed, Priority, RequestWriter, Written};

/// A request that began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The stream.
    pub stream: u32,
    /// The request has no body.
    pub end: bool,
    /// `:scheme` is `https`; false in a CONNECT.
    pub secure: bool,
    /// The kind of CONNECT, if it is one.
    pub connect: Connect,
    /// The length of the body, if it was announced. Other lengths are refused on the way.
    pub content_length: Option<u64>,
    /// The priority, of the field or of a PRIORITY_UPDATE frame that came before.
    pub priority: Priority,
}
