//! Limits of connections whose requests come on streams.

use larder_proto::{http2, http3};

use super::{HttpSettings, Limits};

impl HttpSettings {
    /// Limits of connections of HTTP/2. Bodies on their way to an origin take at most the window of
    /// their connection.
    pub(crate) fn http2_limits(&self) -> http2::Limits {
        let limits = &self.limits;
        http2::Limits {
            concurrent_streams: limits.streams,
            stream_window: 128 << 10,
            connection_window: 256 << 10,
            header_list_bytes: limits.field_list(),
            block_bytes: limits.head_bytes,
            connect_protocol: true,
            ..http2::Limits::default()
        }
    }

    /// Limits of connections of HTTP/3.
    pub(crate) fn http3_limits(&self) -> http3::Limits {
        http3::Limits {
            section_bytes: self.limits.field_list(),
            frame_bytes: self.limits.head_bytes,
            connect_protocol: true,
            ..http3::Limits::default()
        }
    }
}

impl Limits {
    /// Largest list of fields, as HTTP/2 and 3 measure it: each field counts with 32 bytes more
    /// than it has (RFC 9113 section 6.5.2, RFC 9114 section 4.2.2).
    fn field_list(&self) -> u32 {
        u32::try_from(self.head_bytes + 32 * self.fields).unwrap_or(u32::MAX)
    }
}
