//! The 24 bytes before every request and response, and the common parts of responses.

use super::Status;

/// Bytes of a header.
pub const HEADER: usize = 24;
/// First byte of a request.
pub const REQUEST: u8 = 0x80;
/// First byte of a response.
pub const RESPONSE: u8 = 0x81;

/// A request's header. Data type and vbucket are ignored, as in memcached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The opcode, as sent.
    pub opcode: u8,
    /// Bytes of the key.
    pub key: u16,
    /// Bytes of the extras.
    pub extras: u8,
    /// Bytes of extras, key and value together.
    pub body: u32,
    /// Sent back in the response.
    pub opaque: u32,
    /// The required version of the stored item; 0: any.
    pub cas: u64,
}

impl Header {
    /// `None`: these bytes do not begin a request.
    pub fn read(bytes: &[u8; HEADER]) -> Option<Header> {
        Header::of(REQUEST, bytes).map(|(header, _vbucket)| header)
    }

    /// A response's header, for clients: the same fields, with `cas` as the version of the stored
    /// item, and the status. `None`: these bytes do not begin a response.
    pub fn read_response(bytes: &[u8; HEADER]) -> Option<(Header, u16)> {
        Header::of(RESPONSE, bytes)
    }

    /// The fields, and the word that is the vbucket of a request and the status of a response.
    fn of(first: u8, bytes: &[u8; HEADER]) -> Option<(Header, u16)> {
        let [magic, opcode, k0, k1, extras, _type, s0, s1, rest @ ..] = *bytes;
        let [b0, b1, b2, b3, o0, o1, o2, o3, cas @ ..] = rest;
        let header = Header {
            opcode,
            key: u16::from_be_bytes([k0, k1]),
            extras,
            body: u32::from_be_bytes([b0, b1, b2, b3]),
            opaque: u32::from_be_bytes([o0, o1, o2, o3]),
            cas: u64::from_be_bytes(cas),
        };
        (magic == first).then_some((header, u16::from_be_bytes([s0, s1])))
    }

    /// The request's bytes.
    pub fn write(&self, into: &mut Vec<u8>) {
        let fields = (self.key, self.extras, self.body, self.cas);
        raw(into, REQUEST, self.opcode, self.opaque, 0, fields);
    }
}

/// The header of a response: lengths of extras, key and value, and the version.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lengths {
    pub(super) extras: u8,
    pub(super) key: u16,
    pub(super) value: u32,
}

/// Writes the header of a response to `request`.
#[inline]
pub(super) fn respond(
    into: &mut Vec<u8>,
    request: &Header,
    status: Status,
    lengths: Lengths,
    cas: u64,
) {
    let body = u32::from(lengths.extras) + u32::from(lengths.key) + lengths.value;
    let fields = (lengths.key, lengths.extras, body, cas);
    raw(into, RESPONSE, request.opcode, request.opaque, status as u16, fields);
}

#[inline]
fn raw(
    into: &mut Vec<u8>,
    magic: u8,
    opcode: u8,
    opaque: u32,
    status: u16,
    (key, extras, body, cas): (u16, u8, u32, u64),
) {
    let mut bytes = [0; HEADER];
    bytes[0] = magic;
    bytes[1] = opcode;
    bytes[2..4].copy_from_slice(&key.to_be_bytes());
    bytes[4] = extras;
    bytes[6..8].copy_from_slice(&status.to_be_bytes());
    bytes[8..12].copy_from_slice(&body.to_be_bytes());
    bytes[12..16].copy_from_slice(&opaque.to_be_bytes());
    bytes[16..].copy_from_slice(&cas.to_be_bytes());
    into.extend_from_slice(&bytes);
}

/// Success without a body. `cas`: the version stored; 0: none.
#[inline]
pub fn done(into: &mut Vec<u8>, request: &Header, cas: u64) {
    respond(into, request, Status::Ok, Lengths::default(), cas);
}

/// Success with a text.
pub fn text(into: &mut Vec<u8>, request: &Header, body: &[u8]) {
    let lengths = Lengths { value: body.len() as u32, ..Lengths::default() };
    respond(into, request, Status::Ok, lengths, 0);
    into.extend_from_slice(body);
}

/// An error, with memcached's text for it.
pub fn error(into: &mut Vec<u8>, request: &Header, status: Status) {
    error_saying(into, request, status, status.text());
}

/// An error with its own text.
pub fn error_saying(into: &mut Vec<u8>, request: &Header, status: Status, body: &str) {
    let lengths = Lengths { value: body.len() as u32, ..Lengths::default() };
    respond(into, request, status, lengths, 0);
    into.extend_from_slice(body.as_bytes());
}
