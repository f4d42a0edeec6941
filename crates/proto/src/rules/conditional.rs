//! A client's preconditions against a stored page (RFC 9110 13, RFC 9111 4.3.2).

use super::RequestView;
use crate::page::Meta;

/// What a client's preconditions come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Go on: the full answer (or the range asked for).
    Full,
    /// 304 Not Modified.
    NotModified,
    /// 412 Precondition Failed.
    Failed,
}

/// Evaluates the request's preconditions in the order of RFC 9110 13.2.2 against a page about to be served.
pub fn evaluate(req: &RequestView<'_>, meta: &Meta, etag: Option<&[u8]>) -> Precondition {
    let _ = (req, meta, etag);
    todo!()
}
