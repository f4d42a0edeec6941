//! Validation requests (RFC 9111 4.3.1) and the answers that validate (4.3.4).

use crate::http::{Fields, date};
use crate::page::Meta;

/// The preconditions of a validation request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions<'a> {
    /// If-None-Match: the stored entity tag.
    pub if_none_match: Option<&'a [u8]>,
    /// If-Modified-Since: the stored Last-Modified, byte for byte, as some origins compare it.
    pub if_modified_since: Option<&'a [u8]>,
}

impl Conditions<'_> {
    /// No validator: the validation request is an ordinary request.
    pub fn is_empty(&self) -> bool {
        self.if_none_match.is_none() && self.if_modified_since.is_none()
    }
}

/// The conditions of a validation request for a stored page; both validators if there are both (RFC
/// 9111 4.3.1). The client's own preconditions and Range must not be sent with them. `fields` are
/// those of the stored head.
pub fn conditions<'a>(etag: Option<&'a [u8]>, fields: Fields<'a>) -> Conditions<'a> {
    Conditions {
        if_none_match: etag,
        if_modified_since: fields.get("last-modified").filter(|v| !v.is_empty()),
    }
}

/// Whether a 304 answering [`conditions`] validates the stored page (RFC 9111 4.3.4).
///
/// The request carried this page's entity tag and no other, so a 304 can only be about this page,
/// whatever its own ETag field is (Apache's deflate filter is known for sending another one); that
/// field is not stored. Without a tag the 304 must not have a later Last-Modified than the stored
/// one: then it contradicts itself.
pub fn validates(meta: &Meta, etag: Option<&[u8]>, new: Fields<'_>) -> bool {
    if etag.is_some() {
        return true;
    }
    let named =
        new.get("last-modified").and_then(|value| date::parse(value, meta.response_time / 1000));
    match (meta.last_modified, named) {
        (Some(stored), Some(named)) => named <= stored,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::test_support::{NOW, fields, http_date};

    #[test]
    fn a_validation_request_carries_every_validator() {
        let stored = fields(&[("Last-Modified", "Sun Nov  6 08:49:37 1994"), ("ETag", "\"x\"")]);
        let both = conditions(Some(b"\"x\""), Fields::new(&stored));
        assert_eq!(both.if_none_match, Some(&b"\"x\""[..]));
        assert_eq!(both.if_modified_since, Some(&b"Sun Nov  6 08:49:37 1994"[..]));
        assert!(!both.is_empty() && conditions(None, Fields::default()).is_empty());
    }

    #[test]
    fn a_304_validates_what_it_was_asked_about() {
        let meta =
            Meta { last_modified: Some(NOW - 100), response_time: NOW * 1000, ..Meta::default() };
        let (same, later) = (http_date(-100), http_date(-50));
        for (etag, list, expected) in [
            (None, &[][..], true),
            (None, &[("Last-Modified", same.as_str())], true),
            (None, &[("Last-Modified", later.as_str())], false),
            (None, &[("Last-Modified", "soon")], true),
            (Some(&b"\"a\""[..]), &[("ETag", "\"a\"")], true),
            (Some(b"\"a\""), &[("ETag", "\"a-gzip\"")], true),
            (Some(b"\"a\""), &[("Last-Modified", later.as_str())], true),
        ] {
            let held = fields(list);
            assert_eq!(validates(&meta, etag, Fields::new(&held)), expected, "{list:?}");
        }
    }
}
