//! Limits of a connection.

/// Limits of an HTTP/3 connection, which all connections share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Size of a request's fields: names, values and 32 bytes for each
    /// (`SETTINGS_MAX_FIELD_SECTION_SIZE`). A larger one is [`super::Event::TooLarge`], to be
    /// answered 431.
    pub section_bytes: u32,
    /// Bytes of an encoded field section. Longer ones are [`super::Event::TooLarge`] too.
    pub frame_bytes: usize,
    /// Payload of a frame on the control stream. A longer one ends the connection.
    pub control_bytes: usize,
    /// PRIORITY_UPDATE frames that are kept for requests still to come (RFC 9218 section 7.2). More
    /// are ignored.
    pub early_priorities: usize,
    /// Whether clients may open WebSockets and the like (RFC 9220,
    /// `SETTINGS_ENABLE_CONNECT_PROTOCOL`).
    pub connect_protocol: bool,
    /// Work in vain that a client may cause: see [`super::Connection::in_vain`].
    pub in_vain: u32,
    /// Frames without use on one stream: of unknown types, or DATA without data. More end the
    /// connection.
    pub empty_frames: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            section_bytes: 64 << 10,
            frame_bytes: 64 << 10,
            control_bytes: 1024,
            early_priorities: 32,
            connect_protocol: false,
            in_vain: 250,
            empty_frames: 100,
        }
    }
}
