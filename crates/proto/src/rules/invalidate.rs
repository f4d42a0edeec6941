//! Invalidation by unsafe requests (RFC 9111 4.4).

use super::Uri;
use crate::http::{Fields, Method};

/// What the response to an unsafe request invalidates: path and query of the target itself, and of Location and
/// Content-Location where they are of the same origin. Empty for safe methods and for errors.
pub fn targets(method: &Method<'_>, uri: &Uri<'_>, status: u16, fields: Fields<'_>) -> Vec<String> {
    let _ = (method, uri, status, fields);
    todo!()
}

/// Path and query of a reference resolved against `base` (RFC 3986 5), `None` when it leads to another origin or is no
/// http(s) reference. The fragment is dropped.
pub fn resolve(base: &Uri<'_>, reference: &[u8]) -> Option<String> {
    let _ = (base, reference);
    todo!()
}
