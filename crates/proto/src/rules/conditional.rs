//! A client's preconditions against a stored page (RFC 9110 13, RFC 9111 4.3.2).

use super::RequestView;
use crate::http::etag::{Comparison, list_matches};
use crate::http::{EntityTag, IfRange, KnownField, Method, date};
use crate::page::Meta;

/// Result of a client's preconditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Send the full answer (or the requested range).
    Full,
    /// 304 Not Modified.
    NotModified,
    /// The stored page does not fulfil If-Match or If-Unmodified-Since. The origin must evaluate
    /// these against its current state (RFC 9111 4.3.2): forward the request; 412 only if that is
    /// impossible.
    Failed,
}

/// Evaluates the request's preconditions in the order of RFC 9110 13.2.2 against a page about to be
/// served. They are ignored for pages that are not 2xx (13.2.1), as are dates that cannot be read.
/// Allocates nothing.
pub fn evaluate(req: &RequestView<'_>, meta: &Meta, etag: Option<&[u8]>) -> Precondition {
    if !(200..300).contains(&meta.status) {
        return Precondition::Full;
    }
    let known = req.known;
    let matches = |field, comparison| {
        list_matches(known.lines(field), etag.and_then(EntityTag::parse).as_ref(), comparison)
    };
    if known.if_match().is_some() {
        if !matches(KnownField::IfMatch, Comparison::Strong) {
            return Precondition::Failed;
        }
    } else if let Some(value) = known.if_unmodified_since()
        && let (Some(since), Some(modified)) = (read(value, meta), meta.last_modified)
        && modified > since
    {
        return Precondition::Failed;
    }
    if !matches!(req.method, Method::Get | Method::Head) {
        return Precondition::Full;
    }
    if known.if_none_match().is_some() {
        let has_it = matches(KnownField::IfNoneMatch, Comparison::Weak);
        return if has_it { Precondition::NotModified } else { Precondition::Full };
    }
    match known.if_modified_since().and_then(|value| read(value, meta)) {
        // Without Last-Modified, Date takes its place (RFC 9111 4.3.2).
        Some(since) if meta.last_modified.unwrap_or(meta.date) <= since => {
            Precondition::NotModified
        }
        _ => Precondition::Full,
    }
}

/// Whether the request's Range applies to this page: no If-Range, or one that holds (RFC 9110
/// 13.1.5). A tag must be the same strong one, a date exactly the page's Last-Modified, and that
/// strong (8.8.2.2).
pub fn range_applies(req: &RequestView<'_>, meta: &Meta, etag: Option<&[u8]>) -> bool {
    let Some(value) = req.known.if_range() else { return true };
    if req.known.is_repeated(KnownField::IfRange) {
        return false;
    }
    let tag = etag.and_then(EntityTag::parse);
    IfRange::parse(value, meta.response_time / 1000)
        .is_some_and(|wanted| wanted.holds(tag.as_ref(), meta.last_modified, Some(meta.date)))
}

fn read(value: &[u8], meta: &Meta) -> Option<crate::Secs> {
    date::parse(value, meta.response_time / 1000)
}

#[cfg(test)]
mod tests {
    use super::Precondition::{Failed, Full, NotModified};
    use super::*;
    use crate::rules::test_support::{NOW, http_date, with_request};

    fn page() -> Meta {
        Meta {
            status: 200,
            date: NOW,
            response_time: NOW * 1000,
            last_modified: Some(NOW - 3000),
            ..Meta::default()
        }
    }

    fn check(meta: &Meta, etag: Option<&str>, list: &[(&str, &str)]) -> Precondition {
        with_request("GET", list, |req| evaluate(req, meta, etag.map(str::as_bytes)))
    }

    #[test]
    fn if_none_match_compares_weakly() {
        for (stored, asked, expected) in [
            (Some("\"a\""), "\"a\"", NotModified),
            (Some("\"a\""), "W/\"a\"", NotModified),
            (Some("W/\"a\""), "\"a\"", NotModified),
            (Some("\"a\""), "\"x\", \"a\", \"y\"", NotModified),
            (Some("\"a\""), "*", NotModified),
            (None, "*", NotModified),
            (Some("\"a\""), "\"b\"", Full),
            (None, "\"a\"", Full),
            (Some("\"a\u{fc}\""), "\"a\u{fc}\"", NotModified),
        ] {
            assert_eq!(
                check(&page(), stored, &[("If-None-Match", asked)]),
                expected,
                "{stored:?} {asked}"
            );
        }
    }

    #[test]
    fn if_modified_since_counts_only_without_if_none_match() {
        let (before, same, after) = (http_date(-3001), http_date(-3000), http_date(-2000));
        for (since, expected) in [(&before, Full), (&same, NotModified), (&after, NotModified)] {
            assert_eq!(check(&page(), None, &[("If-Modified-Since", since)]), expected, "{since}");
        }
        assert_eq!(check(&page(), None, &[("If-Modified-Since", "yesterday")]), Full);
        let both = [("If-None-Match", "\"b\""), ("If-Modified-Since", after.as_str())];
        assert_eq!(check(&page(), Some("\"a\""), &both), Full);
        let both = [("If-None-Match", "\"a\""), ("If-Modified-Since", before.as_str())];
        assert_eq!(check(&page(), Some("\"a\""), &both), NotModified);
    }

    #[test]
    fn date_stands_in_for_last_modified() {
        let page = Meta { last_modified: None, ..page() };
        let (before, now) = (http_date(-1), http_date(0));
        assert_eq!(check(&page, None, &[("If-Modified-Since", &before)]), Full);
        assert_eq!(check(&page, None, &[("If-Modified-Since", &now)]), NotModified);
    }

    #[test]
    fn if_match_and_if_unmodified_since_come_first() {
        let (before, same) = (http_date(-3001), http_date(-3000));
        for (list, expected) in [
            (&[("If-Match", "\"a\"")][..], Full),
            (&[("If-Match", "*")], Full),
            (&[("If-Match", "W/\"a\"")], Failed),
            (&[("If-Match", "\"b\""), ("If-None-Match", "\"a\"")], Failed),
            (&[("If-Match", "\"a\""), ("If-None-Match", "\"a\"")], NotModified),
            (&[("If-Unmodified-Since", &before)], Failed),
            (&[("If-Unmodified-Since", &same)], Full),
            (&[("If-Unmodified-Since", "bad")], Full),
            (&[("If-Match", "\"a\""), ("If-Unmodified-Since", &before)], Full),
        ] {
            assert_eq!(check(&page(), Some("\"a\""), list), expected, "{list:?}");
        }
    }

    #[test]
    fn preconditions_do_not_count_for_errors_and_redirects() {
        for status in [301, 404, 500] {
            let page = Meta { status, ..page() };
            assert_eq!(check(&page, Some("\"a\""), &[("If-None-Match", "\"a\"")]), Full);
        }
    }

    #[test]
    fn if_range_needs_the_same_strong_validator() {
        let (modified, other) = (http_date(-3000), http_date(-2999));
        for (stored, list, expected) in [
            (Some("\"a\""), &[][..], true),
            (Some("\"a\""), &[("If-Range", "\"a\"")], true),
            (Some("\"a\""), &[("If-Range", "\"b\"")], false),
            (Some("W/\"a\""), &[("If-Range", "W/\"a\"")], false),
            (None, &[("If-Range", "\"a\"")], false),
            (None, &[("If-Range", modified.as_str())], true),
            (None, &[("If-Range", other.as_str())], false),
            (Some("\"a\""), &[("If-Range", "\"a\""), ("If-Range", "\"a\"")], false),
        ] {
            let applies =
                with_request("GET", list, |r| range_applies(r, &page(), stored.map(str::as_bytes)));
            assert_eq!(applies, expected, "{stored:?} {list:?}");
        }
        let weak = Meta { last_modified: Some(NOW), ..page() };
        let now = http_date(0);
        assert!(!with_request("GET", &[("If-Range", &now)], |r| range_applies(r, &weak, None)));
    }
}
