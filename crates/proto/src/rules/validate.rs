//! Validation requests (RFC 9111 4.3.1) and which answers they validate (4.3.3, 4.3.4).

use crate::http::Fields;
use crate::page::Meta;

/// The preconditions of a validation request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions<'a> {
    /// If-None-Match: the stored entity tag.
    pub if_none_match: Option<&'a [u8]>,
    /// If-Modified-Since: the stored Last-Modified, as the origin wrote it where the head has it.
    pub if_modified_since: Option<&'a [u8]>,
}

/// What a validation request for this page carries. `head` is the page's field lines.
pub fn conditions<'a>(etag: Option<&'a [u8]>, fields: Fields<'a>) -> Conditions<'a> {
    let _ = (etag, fields);
    todo!()
}

/// Whether a 304 with these fields validates the stored page (RFC 9111 4.3.4).
pub fn validates(meta: &Meta, etag: Option<&[u8]>, new: Fields<'_>) -> bool {
    let _ = (meta, etag, new);
    todo!()
}
