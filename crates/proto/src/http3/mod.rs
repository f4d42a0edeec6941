//! HTTP/3 on the side of a server (RFC 9114), without sockets and clocks.
//!
//! QUIC brings streams of bytes, so there are two state machines: [`Connection`] takes the
//! unidirectional streams of a client, [`Incoming`] the bytes of one request. Both take bytes in
//! any pieces. Bodies are never copied: received ones are ranges of the caller's input, and of
//! those sent only the heads of DATA frames are written here. A request arrives as the head of
//! HTTP/1.1 with the same meaning ([`crate::pseudo`]), so that [`crate::http::parse_request`]
//! judges requests of every version.
//!
//! Field sections need no state ([`crate::qpack`]), and flow control is QUIC's.

mod connection;
mod error;
pub mod frame;
mod incoming;
mod limits;
mod response;
mod settings;

pub use connection::Connection;
pub use error::{ConnectionError, ErrorCode};
pub use incoming::{Event, Incoming, Step};
pub use limits::Limits;
pub use response::{data, head, trailers};
