//! Requests of HTTP/2 and 3: from pseudo fields to a head of HTTP/1.1 (RFC 9113 sections 8.2 and
//! 8.3, RFC 9114 sections 4.2 and 4.3).
//!
//! The head means the same in both versions, or the request is refused as malformed here: every
//! byte that could end a line, begin another or divide a request line is looked at. All further
//! rules (hosts, framing, targets) are those of [`crate::http::parse_request`], which reads the
//! head.
//!
//! Differences in form: `:authority` becomes `host`; several `cookie` fields become one at the end;
//! `te` is left out, being a field of the connection; a body of unknown length is announced as
//! `transfer-encoding: chunked`, though its bytes come in DATA frames.

mod fields;
mod priority;
mod request;

pub use priority::Priority;
pub(crate) use request::trailer;
pub use request::{Connect, Malformed, RequestWriter, Written};

/// Memory for decoding. One serves all connections of a worker: nothing in it lasts between calls
/// but the head that an event speaks of.
#[derive(Debug, Default)]
pub struct Workspace {
    /// The head of the last request, or the lines of the last trailers, in the form of HTTP/1.1.
    pub head: Vec<u8>,
    /// Memory for Huffman codes.
    pub(crate) scratch: Vec<u8>,
    /// Pseudo fields until the request line is written.
    pub(crate) pseudo: Vec<u8>,
    /// Cookies until they are joined.
    pub(crate) cookies: Vec<u8>,
}
