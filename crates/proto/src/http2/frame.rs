//! Frames: their heads, the rules for each type, and writers (RFC 9113 sections 4 and 6).

use super::error::{ErrorCode, Fault};

/// Length of a frame's head, in bytes.
pub const HEAD: usize = 9;
/// Smallest value of `SETTINGS_MAX_FRAME_SIZE`, and its default.
pub const MIN_MAX_BYTES: u32 = 16_384;
/// Largest value of `SETTINGS_MAX_FRAME_SIZE`.
pub const MAX_MAX_BYTES: u32 = 16_777_215;

/// Types of frames.
pub mod kind {
    #![expect(missing_docs, reason = "the names are those of RFC 9113 section 6")]
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
    /// RFC 9218 section 7.1
    pub const PRIORITY_UPDATE: u8 = 16;
}

/// Flags of frames.
pub mod flag {
    #![expect(missing_docs, reason = "the names are those of RFC 9113 section 6")]
    pub const ACK: u8 = 1;
    pub const END_STREAM: u8 = 1;
    pub const END_HEADERS: u8 = 4;
    pub const PADDED: u8 = 8;
    pub const PRIORITY: u8 = 32;
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Length of the payload behind the head, in bytes: 24 bits.
    pub length: u32,
    /// The type, see [`kind`].
    pub kind: u8,
    /// The flags, see [`flag`]; unknown ones have no meaning.
    pub flags: u8,
    /// The stream; 0 is the connection.
    pub stream: u32,
}

impl FrameHead {
    /// Reads a head. The reserved bit is ignored (section 4.1).
    #[inline]
    pub fn parse(bytes: &[u8; HEAD]) -> Self {
        let [a, b, c, kind, flags, stream @ ..] = *bytes;
        Self {
            length: u32::from_be_bytes([0, a, b, c]),
            kind,
            flags,
            stream: u32::from_be_bytes(stream) & super::MAX_31_BITS,
        }
    }

    /// Whether a flag is set.
    #[inline]
    pub const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The head as bytes.
    #[inline]
    pub fn bytes(&self) -> [u8; HEAD] {
        let [_, a, b, c] = self.length.to_be_bytes();
        let [d, e, f, g] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, d, e, f, g]
    }

    /// Checks the length and the stream that a type prescribes (sections 4.2 and 6.1 to 6.10, RFC
    /// 9218 section 7.1). The length of a PRIORITY frame is left to its receiver: its fault is one
    /// of the stream.
    #[inline]
    pub(super) fn check(&self, max_bytes: u32) -> Result<(), Fault> {
        if self.length > max_bytes {
            return Err(Fault::size("frame is longer than allowed"));
        }
        match (self.kind, self.stream) {
            (kind::DATA | kind::HEADERS | kind::PRIORITY | kind::CONTINUATION, 0) => {
                Err(Fault::protocol("frame of a stream on stream 0"))
            }
            (kind::RST_STREAM, 0) => Err(Fault::protocol("RST_STREAM on stream 0")),
            (kind::SETTINGS | kind::PING | kind::GOAWAY | kind::PRIORITY_UPDATE, 1..) => {
                Err(Fault::protocol("frame of the connection on a stream"))
            }
            (kind::PUSH_PROMISE, _) => Err(Fault::protocol("PUSH_PROMISE from a client")),
            (kind::RST_STREAM | kind::WINDOW_UPDATE, _) if self.length != 4 => {
                Err(Fault::size("frame has a length other than 4"))
            }
            (kind::PING, _) if self.length != 8 => {
                Err(Fault::size("PING with a length other than 8"))
            }
            (kind::GOAWAY, _) if self.length < 8 => Err(Fault::size("GOAWAY is too short")),
            (kind::PRIORITY_UPDATE, _) if self.length < 4 => {
                Err(Fault::size("PRIORITY_UPDATE is too short"))
            }
            (kind::SETTINGS, _) if self.has(flag::ACK) && self.length != 0 => {
                Err(Fault::size("acknowledgement of SETTINGS with a payload"))
            }
            (kind::SETTINGS, _) if !self.length.is_multiple_of(6) => {
                Err(Fault::size("SETTINGS with a length that is no multiple of 6"))
            }
            _ => Ok(()),
        }
    }
}

/// Takes the padding off the payload of a HEADERS frame (section 6.2).
pub(super) fn unpadded<'p>(head: &FrameHead, payload: &'p [u8]) -> Result<&'p [u8], Fault> {
    if !head.has(flag::PADDED) {
        return Ok(payload);
    }
    let (&padding, rest) =
        payload.split_first().ok_or(Fault::size("padded frame without a length"))?;
    let end = rest
        .len()
        .checked_sub(usize::from(padding))
        .ok_or(Fault::protocol("padding is too long"))?;
    Ok(&rest[..end])
}

/// The first four bytes of a payload, as a number without its highest bit.
#[inline]
pub(super) fn number(payload: &[u8]) -> u32 {
    payload.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes)) & super::MAX_31_BITS
}

/// Appends the head of a DATA frame; the caller lets `length` bytes follow.
#[inline]
pub fn write_data(stream: u32, length: u32, end: bool, out: &mut Vec<u8>) {
    let flags = if end { flag::END_STREAM } else { 0 };
    out.extend_from_slice(&FrameHead { length, kind: kind::DATA, flags, stream }.bytes());
}

/// Appends a whole RST_STREAM frame.
pub fn write_reset(stream: u32, code: ErrorCode, out: &mut Vec<u8>) {
    write(kind::RST_STREAM, 0, stream, &code.0.to_be_bytes(), out);
}

/// Appends a whole WINDOW_UPDATE frame. `increment` is from 1 to 2^31-1.
pub fn write_window_update(stream: u32, increment: u32, out: &mut Vec<u8>) {
    write(kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes(), out);
}

/// Appends a whole PING frame.
pub fn write_ping(ack: bool, payload: [u8; 8], out: &mut Vec<u8>) {
    write(kind::PING, if ack { flag::ACK } else { 0 }, 0, &payload, out);
}

/// Appends a whole GOAWAY frame without debug data.
pub fn write_goaway(last_stream: u32, code: ErrorCode, out: &mut Vec<u8>) {
    let [a, b, c, d] = last_stream.to_be_bytes();
    let [e, f, g, h] = code.0.to_be_bytes();
    write(kind::GOAWAY, 0, 0, &[a, b, c, d, e, f, g, h], out);
}

/// Appends a whole SETTINGS frame.
pub fn write_settings(settings: &[(u16, u32)], out: &mut Vec<u8>) {
    let length = settings.len() as u32 * 6;
    out.extend_from_slice(&FrameHead { length, kind: kind::SETTINGS, flags: 0, stream: 0 }.bytes());
    for (id, value) in settings {
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Appends the acknowledgement of a SETTINGS frame.
pub fn write_settings_ack(out: &mut Vec<u8>) {
    write(kind::SETTINGS, flag::ACK, 0, b"", out);
}

fn write(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&FrameHead { length: payload.len() as u32, kind, flags, stream }.bytes());
    out.extend_from_slice(payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_come_back() {
        let head = FrameHead { length: 0x01_02_03, kind: 9, flags: 0xa5, stream: 0x7fff_fffe };
        assert_eq!(FrameHead::parse(&head.bytes()), head);
        assert_eq!(FrameHead::parse(&[0, 0, 0, 0, 0, 0x80, 0, 0, 1]).stream, 1);
    }

    #[test]
    fn padding_ends_within_the_frame() {
        let head = FrameHead { length: 3, kind: kind::HEADERS, flags: flag::PADDED, stream: 1 };
        assert_eq!(unpadded(&head, &[1, 7, 0]), Ok(&[7][..]));
        assert_eq!(unpadded(&head, &[2, 7, 0]), Ok(&[][..]));
        assert!(unpadded(&head, &[3, 7, 0]).is_err());
        assert!(unpadded(&head, &[]).is_err());
    }
}
