//! Partial pages: stored 206 responses, the requests they can answer, and how they are completed
//! (RFC 9111 3.3, 3.4; RFC 9110 15.3.7.3).

use crate::http::{ByteRange, ContentRange, EntityTag, Fields, date};
use crate::page::{Meta, Partial};

/// The Content-Range of a 206 with one range: `bytes 0-4/10`. `None` for anything else: another
/// unit, an unknown total, positions that contradict each other, two lines (RFC 9110 14.4).
pub fn content_range(response: Fields<'_>) -> Option<Partial> {
    let mut lines = response.all("content-range");
    let line = lines.next().filter(|_| lines.next().is_none())?;
    match ContentRange::parse(line)? {
        ContentRange::Bytes { range, total: Some(total) } => {
            Some(Partial { first: range.first, last: range.last, total }).filter(Partial::coherent)
        }
        _ => None,
    }
}

/// Whether the stored part has all of `wanted`. Its offset in the stored body:
/// `wanted.first - stored.first`.
pub fn covers(stored: &Partial, wanted: ByteRange) -> bool {
    stored.first <= wanted.first && wanted.last <= stored.last
}

/// The Range to request so that the stored part and the answer together have `wanted` (`None`: the
/// whole representation); open-ended if it reaches the end (`bytes=5-`). `None` if nothing is
/// missing, if the gap is not one range, or if the stored part does not help (for example because
/// it contradicts itself).
///
/// Send it with If-Range and the page's strong entity tag if it has one, so that a changed
/// representation comes whole. The answer decides ([`combine`]): without a strong validator a 206
/// is not combined, and the request must be sent again without Range; a 200 is the whole answer
/// anyway.
pub fn missing(stored: &Partial, wanted: Option<ByteRange>) -> Option<String> {
    let wanted = wanted.unwrap_or(ByteRange { first: 0, last: stored.total.checked_sub(1)? });
    if !stored.coherent() || wanted.first > stored.last || wanted.last < stored.first {
        return None;
    }
    match (wanted.first < stored.first, wanted.last > stored.last) {
        (true, false) => Some(format!("bytes={}-{}", wanted.first, stored.first - 1)),
        (false, true) if wanted.last >= stored.total.saturating_sub(1) => {
            Some(format!("bytes={}-", stored.last + 1))
        }
        (false, true) => Some(format!("bytes={}-{}", stored.last + 1, wanted.last)),
        _ => None,
    }
}

/// Result of combining a 206 with the stored part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combined {
    /// The parts make one longer range.
    Part(Join),
    /// The parts make the whole representation: a 200 of `join.whole.total` bytes.
    Whole(Join),
    /// They must not be combined, or do not touch, or the answer adds nothing new.
    No,
}

/// How to join the two parts: `before` bytes from the start of the stored body, then the answer's
/// body, then the stored body from `after` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Join {
    /// The joined range.
    pub whole: Partial,
    /// Bytes of the stored body that come before the answer's.
    pub before: u64,
    /// Offset in the stored body of the bytes after the answer's; its length if there are none.
    pub after: u64,
}

/// Whether a 206 answer may be combined with the stored part: both have the same strong validator
/// (RFC 9111 3.4, RFC 9110 15.3.7.3), agree on the total length, and touch or overlap, and nothing
/// in the answer contradicts itself or the stored part. `held` are the fields of the stored head,
/// `length` the bytes that the answer's framing announces. Header fields then come from both, as
/// with a 304 ([`super::merge_304`]).
pub fn combine(
    meta: &Meta,
    etag: Option<&[u8]>,
    held: Fields<'_>,
    answer: Fields<'_>,
    length: Option<u64>,
) -> Combined {
    let (Some(stored), Some(new)) = (meta.partial, content_range(answer)) else {
        return Combined::No;
    };
    let wrong_length = length.is_some_and(|length| length != new.bytes());
    if !stored.coherent() || wrong_length || !same_representation(held, answer) {
        return Combined::No;
    }
    let touch =
        new.first <= stored.last.saturating_add(1) && stored.first <= new.last.saturating_add(1);
    let adds = new.first < stored.first || new.last > stored.last;
    if new.total != stored.total || !touch || !adds || !same_strong_validator(meta, etag, answer) {
        return Combined::No;
    }
    let whole = Partial {
        first: stored.first.min(new.first),
        last: stored.last.max(new.last),
        total: stored.total,
    };
    let join = Join {
        whole,
        before: new.first.saturating_sub(stored.first),
        after: new.last.saturating_add(1).saturating_sub(stored.first).min(stored.bytes()),
    };
    if whole.bytes() == whole.total { Combined::Whole(join) } else { Combined::Part(join) }
}

/// Whether the answer's fields speak of the representation that the stored part is of. A 206 to
/// If-Range may omit fields that the client has already (RFC 9110 15.3.7); the fields it has must
/// be the same. A multipart body cannot be joined.
fn same_representation(held: Fields<'_>, answer: Fields<'_>) -> bool {
    let same = |name: &str| {
        let (mut stored, mut said) = (held.elements(name), answer.elements(name));
        let equal = loop {
            match (stored.next(), said.next()) {
                (Some(stored), Some(said)) if stored.eq_ignore_ascii_case(said) => {}
                (None, None) => break true,
                _ => break false,
            }
        };
        equal || !answer.has(name)
    };
    ["content-encoding", "content-type", "content-language"].iter().all(|name| same(name))
}

/// Same strong entity tag; or, if neither has a tag, the same Last-Modified that is strong by RFC
/// 9110 8.8.2.2.
fn same_strong_validator(meta: &Meta, etag: Option<&[u8]>, answer: Fields<'_>) -> bool {
    let stored = etag.and_then(EntityTag::parse);
    let new = answer.get("etag").and_then(EntityTag::parse);
    match (stored, new) {
        (Some(stored), Some(new)) => stored.strong_eq(&new),
        (None, None) => {
            let modified =
                answer.get("last-modified").and_then(|v| date::parse(v, meta.response_time / 1000));
            modified.is_some() && modified == meta.last_modified && strong_date(meta)
        }
        _ => false,
    }
}

/// Whether the page's Last-Modified is a strong validator: its Date is at least one second later
/// (RFC 9110 8.8.2.2).
fn strong_date(meta: &Meta) -> bool {
    meta.last_modified.is_some_and(|modified| meta.date > modified)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Header;
    use crate::rules::test_support::{NOW, fields, http_date};

    const STORED: Partial = Partial { first: 10, last: 19, total: 100 };

    fn span(first: u64, last: u64) -> ByteRange {
        ByteRange { first, last }
    }

    #[test]
    fn content_ranges() {
        for (value, expected) in [
            ("bytes 0-4/10", Some((0, 4, 10))),
            ("Bytes 4-9/10", Some((4, 9, 10))),
            ("bytes 0-0/1", Some((0, 0, 1))),
            ("bytes 0-10/10", None),
            ("bytes 5-4/10", None),
            ("bytes 0-4/*", None),
            ("bytes */10", None),
            ("bytes 0-4", None),
            ("bytes -4/10", None),
            ("bytes +0-4/10", None),
            ("bytes=0-4/10", None),
            ("items 0-4/10", None),
            ("bytes 0-18446744073709551615/18446744073709551616", None),
            ("bytes", None),
        ] {
            let held = fields(&[("Content-Range", value)]);
            let part = expected.map(|(first, last, total)| Partial { first, last, total });
            assert_eq!(content_range(Fields::new(&held)), part, "{value}");
        }
        let twice = fields(&[("Content-Range", "bytes 0-4/10"), ("Content-Range", "bytes 0-4/10")]);
        assert_eq!(content_range(Fields::new(&twice)), None);
    }

    #[test]
    fn what_is_covered_and_what_is_missing() {
        for (wanted, covered, range) in [
            (Some(span(10, 19)), true, None),
            (Some(span(12, 15)), true, None),
            (Some(span(5, 12)), false, Some("bytes=5-9")),
            (Some(span(15, 29)), false, Some("bytes=20-29")),
            (Some(span(15, 99)), false, Some("bytes=20-")),
            (Some(span(5, 29)), false, None),
            (Some(span(50, 60)), false, None),
            (Some(span(0, 9)), false, None),
            (None, false, None),
        ] {
            assert_eq!(missing(&STORED, wanted).as_deref(), range, "{wanted:?}");
            if let Some(wanted) = wanted {
                assert_eq!(covers(&STORED, wanted), covered, "{wanted:?}");
            }
        }
        let start = Partial { first: 0, last: 4, total: 10 };
        assert_eq!(missing(&start, None).as_deref(), Some("bytes=5-"));
        let end = Partial { first: 5, last: 9, total: 10 };
        assert_eq!(missing(&end, None).as_deref(), Some("bytes=0-4"));
    }

    fn combined(etag: Option<&str>, answer: &[Header<'_>]) -> Combined {
        let meta = Meta {
            partial: Some(STORED),
            last_modified: Some(NOW - 60),
            date: NOW,
            ..Meta::default()
        };
        combine(&meta, etag.map(str::as_bytes), Fields::default(), Fields::new(answer), None)
    }

    fn tagged(meta: &Meta, answer: &[Header<'_>]) -> Combined {
        combine(meta, Some(b"\"a\""), Fields::default(), Fields::new(answer), None)
    }

    #[test]
    fn what_contradicts_itself_or_the_stored_part_is_not_combined() {
        let meta = Meta { partial: Some(STORED), ..Meta::default() };
        let held = fields(&[("Content-Encoding", "gzip"), ("Content-Type", "text/html")]);
        for (more, length, together) in [
            (&[][..], None, true),
            (&[], Some(10), true),
            (&[], Some(9), false),
            (&[], Some(11), false),
            (&[], Some(0), false),
            (&[("Content-Encoding", "gzip")], Some(10), true),
            (&[("Content-Encoding", "GZIP"), ("Content-Type", "Text/HTML")], Some(10), true),
            (&[("Content-Encoding", "br")], Some(10), false),
            (&[("Content-Encoding", "identity")], Some(10), false),
            (&[("Content-Encoding", "")], Some(10), false),
            (&[("Content-Encoding", "gzip, br")], Some(10), false),
            (&[("Content-Encoding", "gzip"), ("Content-Encoding", "gzip")], Some(10), false),
            (&[("Content-Type", "text/plain")], Some(10), false),
            (&[("Content-Type", "multipart/byteranges; boundary=x")], Some(10), false),
            (&[("Content-Language", "de")], Some(10), false),
        ] {
            let mut list = vec![("ETag", "\"a\""), ("Content-Range", "bytes 20-29/100")];
            list.extend_from_slice(more);
            let answer = fields(&list);
            let got =
                combine(&meta, Some(b"\"a\""), Fields::new(&held), Fields::new(&answer), length);
            assert_eq!(got != Combined::No, together, "{more:?} {length:?}");
        }
        let several = fields(&[
            ("ETag", "\"a\""),
            ("Content-Range", "bytes 20-29/100"),
            ("Content-Type", "multipart/byteranges; boundary=x"),
        ]);
        assert_eq!(tagged(&meta, &several), Combined::No);
    }

    #[test]
    fn parts_that_touch_are_combined() {
        for (range, expected) in [
            ("bytes 20-29/100", Some((10, 29, 10, 10))),
            ("bytes 15-29/100", Some((10, 29, 5, 10))),
            ("bytes 0-9/100", Some((0, 19, 0, 0))),
            ("bytes 0-12/100", Some((0, 19, 0, 3))),
            ("bytes 5-25/100", Some((5, 25, 0, 10))),
            ("bytes 0-99/100", Some((0, 99, 0, 10))),
            ("bytes 21-29/100", None),
            ("bytes 0-8/100", None),
            ("bytes 12-15/100", None),
            ("bytes 20-29/101", None),
            ("bytes 20-29/*", None),
        ] {
            let answer = fields(&[("ETag", "\"a\""), ("Content-Range", range)]);
            let got = match combined(Some("\"a\""), &answer) {
                Combined::Part(j) | Combined::Whole(j) => {
                    Some((j.whole.first, j.whole.last, j.before, j.after))
                }
                Combined::No => None,
            };
            assert_eq!(got, expected, "{range}");
        }
        let all = fields(&[("ETag", "\"a\""), ("Content-Range", "bytes 0-99/100")]);
        assert!(
            matches!(combined(Some("\"a\""), &all), Combined::Whole(join) if join.whole.total == 100)
        );
    }

    #[test]
    fn positions_at_the_end_of_64_bits() {
        const END: u64 = u64::MAX;
        let held = Partial { first: END - 20, last: END - 11, total: END };
        assert_eq!(
            missing(&held, Some(span(END - 15, END))).as_deref(),
            Some("bytes=18446744073709551605-")
        );
        assert_eq!(missing(&held, Some(span(0, END))), None);
        assert_eq!(held.bytes(), 10);
        assert_eq!(Partial { first: 0, last: END - 1, total: END }.bytes(), END);
        let meta = Meta { partial: Some(held), ..Meta::default() };
        let range = format!("bytes {}-{}/{END}", END - 10, END - 1);
        let answer = fields(&[("ETag", "\"a\""), ("Content-Range", &range)]);
        let whole = Partial { first: END - 20, last: END - 1, total: END };
        let join = Join { whole, before: 10, after: 10 };
        assert_eq!(tagged(&meta, &answer), Combined::Part(join));
    }

    #[test]
    fn a_part_that_contradicts_itself_is_of_no_use() {
        const END: u64 = u64::MAX;
        for (first, last, total) in
            [(0, END, END), (0, 0, 0), (9, 2, 10), (0, END, 0), (0, END, 10)]
        {
            let part = Partial { first, last, total };
            let _no_overflow = part.bytes();
            for wanted in [None, Some(span(0, END)), Some(span(0, 0)), Some(span(5, 20))] {
                assert_eq!(missing(&part, wanted), None, "{part:?} {wanted:?}");
            }
            let meta = Meta { partial: Some(part), ..Meta::default() };
            let range = format!("bytes 0-9/{}", total.max(10));
            let answer = fields(&[("ETag", "\"a\""), ("Content-Range", &range)]);
            assert_eq!(tagged(&meta, &answer), Combined::No, "{part:?}");
        }
    }

    #[test]
    fn only_the_same_strong_validator_combines() {
        let modified = http_date(-60);
        let other = http_date(-61);
        for (stored, tag, date, together) in [
            (Some("\"a\""), Some("\"a\""), None, true),
            (Some("\"a\""), Some("\"b\""), None, false),
            (Some("W/\"a\""), Some("W/\"a\""), None, false),
            (Some("a"), Some("a"), None, false),
            (Some("\"a\""), None, Some(&modified), false),
            (None, Some("\"a\""), Some(&modified), false),
            (None, None, Some(&modified), true),
            (None, None, Some(&other), false),
            (None, None, None, false),
        ] {
            let mut list = vec![("Content-Range", "bytes 20-29/100")];
            list.extend(tag.map(|t| ("ETag", t)));
            list.extend(date.map(|d| ("Last-Modified", d.as_str())));
            assert_eq!(
                combined(stored, &fields(&list)) != Combined::No,
                together,
                "{stored:?} {tag:?} {date:?}"
            );
        }
        let weak =
            Meta { partial: Some(STORED), last_modified: Some(NOW), date: NOW, ..Meta::default() };
        let now = http_date(0);
        let answer = fields(&[("Content-Range", "bytes 20-29/100"), ("Last-Modified", &now)]);
        assert_eq!(
            combine(&weak, None, Fields::default(), Fields::new(&answer), None),
            Combined::No
        );
    }
}
