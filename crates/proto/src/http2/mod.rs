//! HTTP/2 on the side of a server (RFC 9113), without sockets and clocks.
//!
//! [`Connection`] is the state machine: it takes received bytes in any pieces, returns one
//! [`Event`] at a time, and appends the frames that it sends to a buffer of the caller. Bodies are
//! never copied: received ones are ranges of the caller's input, and of those sent only the 9 bytes
//! of each frame's head are written here. A request arrives as the head of HTTP/1.1 with the same
//! meaning ([`crate::pseudo`]), so that [`crate::http::parse_request`] judges requests of every
//! version.
//!
//! Limits are arguments ([`Limits`]); abuse is counted by kind ([`Flood`]).

mod connection;
mod control;
mod data;
mod error;
mod event;
mod flood;
pub mod frame;
mod headers;
mod limits;
pub mod request;
mod response;
mod settings;
mod streams;

pub use connection::Connection;
pub use error::{ConnectionError, ErrorCode};
pub use event::{Event, Step};
pub use flood::{Flood, FloodLimits};
pub use limits::Limits;
pub use response::{Fields, Sent};
pub use settings::id as setting;

pub use crate::pseudo::{Priority, Workspace};

/// The bytes that a client sends first (RFC 9113 section 3.4), over TLS and with prior knowledge
/// alike.
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Largest window, stream number and increment (RFC 9113 sections 4.1 and 6.9).
pub const MAX_31_BITS: u32 = (1 << 31) - 1;

/// Windows of a connection and of its streams before settings and updates (RFC 9113 section 6.9.2).
pub const DEFAULT_WINDOW: u32 = 65_535;
