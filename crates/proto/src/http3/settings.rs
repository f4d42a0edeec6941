//! SETTINGS, ours and the client's (RFC 9114 section 7.2.4).

use super::error::{ConnectionError, ErrorCode};
use super::frame::{self, FrameHead, kind};
use super::limits::Limits;

/// Identifiers of settings.
mod id {
    /// RFC 9204 section 5
    pub(super) const QPACK_MAX_TABLE_CAPACITY: u64 = 1;
    pub(super) const MAX_FIELD_SECTION_SIZE: u64 = 6;
    /// RFC 9204 section 5
    pub(super) const QPACK_BLOCKED_STREAMS: u64 = 7;
    /// RFC 9220 section 3
    pub(super) const ENABLE_CONNECT_PROTOCOL: u64 = 8;
    /// RFC 9297 section 2.1.1
    pub(super) const H3_DATAGRAM: u64 = 0x33;
}

/// Appends the frame of our settings.
pub(super) fn announce(limits: &Limits, out: &mut Vec<u8>) {
    let mut payload = Vec::new();
    let all = [
        (id::QPACK_MAX_TABLE_CAPACITY, 0),
        (id::MAX_FIELD_SECTION_SIZE, u64::from(limits.section_bytes)),
        (id::QPACK_BLOCKED_STREAMS, 0),
        (id::ENABLE_CONNECT_PROTOCOL, u64::from(limits.connect_protocol)),
    ];
    for (id, value) in all {
        frame::write_integer(id, &mut payload);
        frame::write_integer(value, &mut payload);
    }
    FrameHead { kind: kind::SETTINGS, length: payload.len() as u64 }.write(out);
    out.extend_from_slice(&payload);
}

/// Checks the client's settings. None of them matters to what is sent: responses refer to no
/// dynamic table, and the size that a client wishes for their fields is advice (section 4.2.2).
pub(super) fn check(mut payload: &[u8]) -> Result<(), ConnectionError> {
    let wrong = |reason| ConnectionError::new(ErrorCode::SETTINGS_ERROR, reason);
    let mut seen = Vec::new();
    while !payload.is_empty() {
        let mut next = || {
            let (value, used) = frame::integer(payload)?;
            payload = &payload[used..];
            Some(value)
        };
        let (Some(id), Some(value)) = (next(), next()) else {
            return Err(ConnectionError::frame("SETTINGS ends within a setting"));
        };
        if seen.contains(&id) {
            return Err(wrong("a setting came twice"));
        }
        seen.push(id);
        match (id, value) {
            (0 | 2..=5, _) => return Err(wrong("a setting of HTTP/2")),
            (id::ENABLE_CONNECT_PROTOCOL | id::H3_DATAGRAM, 2..) => {
                return Err(wrong("a setting is neither 0 nor 1"));
            }
            _ => {}
        }
    }
    Ok(())
}
