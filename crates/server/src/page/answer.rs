//! A response as the room between origin and clients knows it.

use larder_proto::page::Meta;

use crate::page::{spelling::Spelling, variant::Values};

/// A response's head, ready but for what differs from client to client (framing, Age, Cache-Status,
/// Connection).
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Status line and fields, no Content-Length, no empty line.
    pub(crate) head: Vec<u8>,
    /// Length of the body where it is known beforehand.
    pub(crate) length: Option<u64>,
    /// The facts it is stored by; None: it is not stored.
    pub(crate) meta: Option<Meta>,
    pub(crate) etag: Option<Vec<u8>>,
    /// The selecting fields, with the values of the request it was fetched for.
    pub(crate) vary: Values,
    /// Which spellings of the URL it answers; None: the one it was fetched by.
    pub(crate) spelling: Option<Box<Spelling>>,
}

/// Whether a response of this status to this method has a body (RFC 9110 section 6.4.1).
pub(crate) fn has_body(head_request: bool, status: u16) -> bool {
    !head_request && status >= 200 && status != 204 && status != 304
}
