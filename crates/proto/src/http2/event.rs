//! Results of receiving bytes.

use std::ops::Range;

use super::error::{ConnectionError, ErrorCode};
use super::request::Request;
use crate::pseudo::Malformed;

/// Result of one step of [`super::Connection::receive`].
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the input that are done with; the next call begins behind them. The bytes of
    /// [`Event::Data`] are among them.
    pub used: usize,
    /// The event.
    pub event: Event,
}

/// An event of a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// The input is used up as far as it goes. Progress needs `need` bytes behind the used ones,
    /// the unused bytes included: call again with at least as many.
    More {
        /// At least 1, at most a frame and its head.
        need: usize,
    },
    /// A request begins. Its head stands in [`crate::pseudo::Workspace::head`] until the next call.
    Request(Request),
    /// A request whose header list is above the limit. The stream is open and has to be answered
    /// 431. The head is lost.
    TooLarge {
        /// The stream.
        stream: u32,
        /// The request has no body.
        end: bool,
    },
    /// A malformed request (RFC 9113 section 8.1.1): the stream was reset. For counters and logs.
    Malformed {
        /// The stream, which is closed.
        stream: u32,
        /// The fault.
        why: Malformed,
    },
    /// Bytes of a request's body. Say that they are consumed with
    /// [`super::Connection::consumed`], or the client may not send more.
    Data {
        /// The stream.
        stream: u32,
        /// Their place in the input.
        range: Range<usize>,
        /// The body ends with them.
        end: bool,
    },
    /// The trailers of a request, which end its body. Their lines stand in
    /// [`crate::pseudo::Workspace::head`] until the next call.
    Trailers {
        /// The stream.
        stream: u32,
    },
    /// A stream that the caller knows of was closed: no more data comes, and none may be sent.
    Reset {
        /// The stream.
        stream: u32,
        /// The code of the RST_STREAM frame.
        code: ErrorCode,
        /// The client reset it; else it was reset because of a fault of the client.
        by_peer: bool,
    },
    /// A stream with bytes to send, which could not, now can: see [`super::Connection::next`].
    Writable,
    /// An answer to a PING of ours.
    Pong([u8; 8]),
    /// The client will open no further streams.
    GoAway {
        /// The client's reason.
        code: ErrorCode,
    },
    /// The connection is at its end: send the output, which has a GOAWAY frame, and close.
    Failed(ConnectionError),
}
