use super::*;
use proptest::prelude::*;

fn range(first: u64, last: u64) -> ByteRange {
    ByteRange { first, last }
}

/// The ranges to send; `None`: ignored, empty: unsatisfiable.
fn sent(value: &str, total: u64) -> Option<Vec<(u64, u64)>> {
    match satisfy(value.as_bytes(), total) {
        Satisfied::Ignored => None,
        Satisfied::Unsatisfiable => Some(Vec::new()),
        Satisfied::One(r) => Some(vec![(r.first, r.last)]),
        Satisfied::Many(list) => Some(list.as_slice().iter().map(|r| (r.first, r.last)).collect()),
    }
}

#[test]
fn ranges_of_ten_bytes() {
    for (value, expected) in [
        ("bytes=0-1", Some(&[(0, 1)][..])),
        ("BYTES=0-1", Some(&[(0, 1)])),
        ("bytes= 0-1 ,", Some(&[(0, 1)])),
        ("bytes=1-", Some(&[(1, 9)])),
        ("bytes=-1", Some(&[(9, 9)])),
        ("bytes=-99", Some(&[(0, 9)])),
        ("bytes=9-99999999999999999999999", Some(&[(9, 9)])),
        ("bytes=10-", Some(&[])),
        ("bytes=-0", Some(&[])),
        ("bytes=99999999999999999999999-", Some(&[])),
        ("bytes=10-,0-0", Some(&[(0, 0)])),
        ("bytes=4-5,0-1", Some(&[(4, 5), (0, 1)])),
        ("bytes=4-6,0-1,5-8", Some(&[(0, 1), (4, 8)])),
        ("bytes=0-1,2-3", Some(&[(0, 3)])),
        ("bytes=0-,0-,0-,-10", Some(&[(0, 9)])),
        ("bytes=1-0", None),
        ("bytes=0-1,2-1", None),
        ("bytes=", None),
        ("bytes=,", None),
        ("bytes=-", None),
        ("bytes=a-", None),
        ("bytes=+1-2", None),
        ("bytes=1--2", None),
        ("bytes=0 - 1", None),
        ("bytes =0-1", None),
        ("bytes 0-1", None),
        ("items=0-1", None),
        ("", None),
    ] {
        assert_eq!(sent(value, 10).as_deref(), expected, "{value}");
    }
    assert_eq!(sent("bytes=0-", 0), Some(Vec::new()));
    assert_eq!(sent("bytes=-1", 0), Some(Vec::new()));
}

#[test]
fn positions_at_the_end_of_64_bits() {
    const END: u64 = u64::MAX;
    for (value, total, expected) in [
        ("bytes=18446744073709551615-", END, &[][..]),
        ("bytes=18446744073709551614-18446744073709551615", END, &[(END - 1, END - 1)]),
        ("bytes=0-18446744073709551615", END, &[(0, END - 1)]),
        ("bytes=-18446744073709551615,18446744073709551614-", END, &[(0, END - 1)]),
        ("bytes=18446744073709551613-,0-0", END, &[(END - 2, END - 1), (0, 0)]),
        ("bytes=-99999999999999999999", 0, &[]),
    ] {
        assert_eq!(sent(value, total).as_deref(), Some(expected), "{value}");
    }
    assert_eq!(range(0, END).len(), END);
    assert_eq!(range(7, 3).len(), 1);
}

#[test]
fn too_many_ranges_are_ignored() {
    let list = |n: u64| (0..n).map(|i| format!("{0}-{0}", i * 2)).collect::<Vec<_>>().join(",");
    assert_eq!(sent(&format!("bytes={}", list(16)), 1000).map(|r| r.len()), Some(MAX_RANGES));
    assert_eq!(sent(&format!("bytes={}", list(17)), 1000), None);
}

#[test]
fn content_ranges() {
    let bytes = |first, last, total| Some(ContentRange::Bytes { range: range(first, last), total });
    for (value, expected) in [
        ("bytes 4-9/10", bytes(4, 9, Some(10))),
        ("Bytes 0-0/*", bytes(0, 0, None)),
        ("bytes */10", Some(ContentRange::Unsatisfied { total: 10 })),
        ("bytes 4-10/10", None),
        ("bytes 5-4/10", None),
        ("bytes */*", None),
        ("bytes 0-18446744073709551615/*", None),
        ("bytes 0-18446744073709551616/*", None),
        ("bytes=0-1/2", None),
        ("bytes 0-1", None),
        ("items 0-1/2", None),
        ("", None),
    ] {
        assert_eq!(ContentRange::parse(value.as_bytes()), expected, "{value}");
        if let Some(parsed) = expected {
            let mut out = Vec::new();
            parsed.write(&mut out);
            assert!(out.eq_ignore_ascii_case(value.as_bytes()), "{value}");
        }
    }
}

#[test]
fn if_range_wants_strong_validators() {
    let tag = EntityTag::parse(br#""1""#);
    let weak = EntityTag::parse(br#"W/"1""#);
    let date = Some(784_111_777);
    for (value, tag, modified, responded, expected) in [
        (r#""1""#, tag, None, None, true),
        (r#""2""#, tag, None, None, false),
        (r#""1""#, None, None, None, false),
        (r#"W/"1""#, weak, None, None, false),
        (r#"W/"1""#, tag, None, None, false),
        ("Sun, 06 Nov 1994 08:49:37 GMT", None, date, date.map(|d| d + 1), true),
        ("Sun, 06 Nov 1994 08:49:37 GMT", None, date, date, false),
        ("Sun, 06 Nov 1994 08:49:38 GMT", None, date, date.map(|d| d + 9), false),
        ("Sun, 06 Nov 1994 08:49:37 GMT", None, date, None, false),
        ("Sun, 06 Nov 1994 08:49:37 GMT", tag, None, date, false),
    ] {
        let parsed = IfRange::parse(value.as_bytes(), 784_111_777).expect("a value");
        assert_eq!(parsed.holds(tag.as_ref(), modified, responded), expected, "{value}");
    }
    assert_eq!(IfRange::parse(b"", 0), None);
}

proptest! {
    #[test]
    fn never_more_than_there_is(value in "bytes=([0-9]{0,2}-[0-9]{0,2},){0,20}", total in 0..120_u64) {
        let ranges = sent(&value, total).unwrap_or_default();
        prop_assert!(ranges.iter().all(|&(first, last)| first <= last && last < total));
        prop_assert!(ranges.iter().map(|&(first, last)| last - first + 1).sum::<u64>() <= total);
    }

    #[test]
    fn every_byte_asked_for_is_sent(
        specs in prop::collection::vec((0..60_u64, 0..60_u64), 1..16), total in 1..60_u64,
    ) {
        let value = specs.iter().map(|(first, more)| format!("{first}-{}", first + more)).collect::<Vec<_>>().join(",");
        let ranges = sent(&format!("bytes={value}"), total).expect("well-formed");
        for byte in 0..total {
            let asked = specs.iter().any(|&(first, more)| (first..=first + more).contains(&byte));
            let times =
                ranges.iter().filter(|&&(first, last)| (first..=last).contains(&byte)).count();
            prop_assert_eq!(times, usize::from(asked), "byte {}", byte);
        }
    }

    #[test]
    fn content_ranges_come_back(first: u64, more: u64, total: Option<u64>) {
        let last = first.saturating_add(more).min(u64::MAX - 1);
        prop_assume!(first <= last && last < total.unwrap_or(u64::MAX));
        let value = ContentRange::Bytes { range: range(first, last), total };
        let mut out = Vec::new();
        value.write(&mut out);
        prop_assert_eq!(ContentRange::parse(&out), Some(value));
    }

    #[test]
    fn no_bytes_make_it_panic(value in prop::collection::vec(any::<u8>(), 0..60), total: u64) {
        satisfy(&value, total);
        ContentRange::parse(&value);
        IfRange::parse(&value, total);
    }
}
