//! Updating stored fields from a 304 (RFC 9111 3.2, 4.3.4) or a HEAD (4.3.5).

use super::{Policy, ResponseFacts};
use crate::http::{Fields, Malformed};
use crate::page::PageView;

/// Status line (with its CRLF) and field lines of a stored head. `None` when there is no line end.
pub fn split_head(head: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = head.windows(2).position(|w| w == b"\r\n")? + 2;
    Some(head.split_at(end))
}

/// The stored head with the fields of a 304: each field the 304 has replaces all stored lines of that name, except those
/// that describe the stored bytes. Parse the result's fields for [`super::storable`] to find the new lifetime.
pub fn merge_304(stored_head: &[u8], new: Fields<'_>, policy: &Policy) -> Result<Vec<u8>, Malformed> {
    let _ = (stored_head, new, policy);
    todo!()
}

/// What the response to a HEAD means for a stored page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadUpdate {
    /// Same representation: the new head.
    Update(Vec<u8>),
    /// Another representation: the page is stale.
    Invalidate,
    /// Says nothing about the page (not a 200).
    Ignore,
}

/// Freshens a stored page by the response to a HEAD (RFC 9111 4.3.5).
pub fn head_update(page: &PageView<'_>, resp: &ResponseFacts<'_>, policy: &Policy) -> HeadUpdate {
    let _ = (page, resp, policy);
    todo!()
}
