//! Limits of a connection.

use super::flood::FloodLimits;
use super::{DEFAULT_WINDOW, frame};

/// Limits of an HTTP/2 connection. All connections share one; a connection needs the same limits
/// for all of its life, since the client is told of them at its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Streams that a client may have open (`SETTINGS_MAX_CONCURRENT_STREAMS`). More are refused
    /// with `REFUSED_STREAM`.
    pub concurrent_streams: u32,
    /// Bytes of a body that a client may send on one stream before the caller has consumed them
    /// (`SETTINGS_INITIAL_WINDOW_SIZE`), at most 2^31-1.
    pub stream_window: u32,
    /// The same for all streams of a connection together; at least 65,535.
    pub connection_window: u32,
    /// Payload of the largest frame that a client may send (`SETTINGS_MAX_FRAME_SIZE`), from 16,384
    /// to 16,777,215. The caller's input buffer has to hold one such frame with its head.
    pub frame_bytes: u32,
    /// Payload of the largest DATA frame that is sent, if the client takes as much.
    pub send_frame_bytes: u32,
    /// The decoder's table (`SETTINGS_HEADER_TABLE_SIZE`), at most 65,536 bytes.
    pub table_bytes: u32,
    /// The encoder's table, as far as the client allows it.
    pub encoder_table_bytes: u32,
    /// Size of a request's fields: names, values and 32 bytes for each
    /// (`SETTINGS_MAX_HEADER_LIST_SIZE`). A larger one is [`super::Event::TooLarge`], to be
    /// answered 431.
    pub header_list_bytes: u32,
    /// Bytes of a header block that comes in several frames. More end the connection.
    pub block_bytes: usize,
    /// PRIORITY_UPDATE frames that are kept for requests still to come (RFC 9218 section 7.1). More
    /// are ignored.
    pub early_priorities: usize,
    /// Whether clients may open WebSockets and the like (RFC 8441,
    /// `SETTINGS_ENABLE_CONNECT_PROTOCOL`).
    pub connect_protocol: bool,
    /// Limits of floods.
    pub floods: FloodLimits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            concurrent_streams: 128,
            stream_window: 256 << 10,
            connection_window: 1 << 20,
            frame_bytes: frame::MIN_MAX_BYTES,
            send_frame_bytes: frame::MIN_MAX_BYTES,
            table_bytes: crate::hpack::DEFAULT_TABLE_SIZE,
            encoder_table_bytes: crate::hpack::DEFAULT_TABLE_SIZE,
            header_list_bytes: 64 << 10,
            block_bytes: 64 << 10,
            early_priorities: 32,
            connect_protocol: false,
            floods: FloodLimits::default(),
        }
    }
}

impl Limits {
    /// Size of the connection's window: never below the one that every connection starts with.
    pub(super) fn connection_window(&self) -> u32 {
        self.connection_window.clamp(DEFAULT_WINDOW, super::MAX_31_BITS)
    }
}
