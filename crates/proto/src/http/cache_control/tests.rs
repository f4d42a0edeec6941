use super::*;
use proptest::prelude::*;

fn parse(line: &str) -> CacheControl {
    CacheControl::parse([line.as_bytes()])
}

#[test]
fn lifetimes() {
    for (line, expected) in [
        ("max-age=60", Some(60)),
        ("MaX-aGe=60", Some(60)),
        ("foobar, max-age=60", Some(60)),
        ("max-age=\"60\"", Some(60)),
        ("max-age=0060", Some(60)),
        ("max-age=2147483647", Some(2_147_483_647)),
        ("max-age=2147483648", Some(MAX_DELTA)),
        ("max-age=2147483649", Some(MAX_DELTA)),
        ("max-age=99999999999", Some(MAX_DELTA)),
        ("max-age=99999999999999999999999999999999999999", Some(MAX_DELTA)),
        ("max-age=60, max-age=1800", Some(60)),
        ("max-age=1800, max-age=60", Some(1800)),
        ("extension=\"max-age=3600\", max-age=1", Some(1)),
        ("max-age=\"1\", extension=\"max-age=3600\"", Some(1)),
        ("max-age", Some(0)),
        ("max-age=", Some(0)),
        ("max-age=\"\"", Some(0)),
        ("max-age='60'", Some(0)),
        ("max-age=-60", Some(0)),
        ("max-age=+60", Some(0)),
        ("max-age=60.0", Some(0)),
        ("max-age=60.5", Some(0)),
        ("max-age=a60", Some(0)),
        ("max-age=60a", Some(0)),
        ("max-age=6 0", Some(0)),
        ("max-age =60", Some(0)),
        ("max-age= 60", Some(0)),
        ("max-age=\"60", Some(0)),
        ("max-age=\"\\60\"", Some(0)),
        ("max-age=60;x", Some(0)),
        ("max-agee=60", None),
        ("max_age=60", None),
        ("", None),
    ] {
        assert_eq!(parse(line).max_age, expected, "{line}");
    }
    assert_eq!(CacheControl::parse([&b"max-age=1"[..], b"max-age=2"]).max_age, Some(1));
}

#[test]
fn directives_without_number() {
    let all = parse(
        "NO-STORE, no-transform,public , must-revalidate, proxy-revalidate, must-understand, \
         immutable, only-if-cached, no-cache, private",
    );
    let expected = CacheControl {
        no_store: true,
        no_transform: true,
        public: true,
        must_revalidate: true,
        proxy_revalidate: true,
        must_understand: true,
        immutable: true,
        only_if_cached: true,
        no_cache: Restriction::Whole,
        private: Restriction::Whole,
        present: true,
        ..CacheControl::default()
    };
    assert_eq!(all, expected);
    assert!(
        parse("no-store=1").no_store
            && parse("a=\"b, no-store").no_store
            && parse("no-store =x").no_store
    );
    assert!(!parse("a=\"no-store\"").no_store && !parse("no-stor").no_store);
    assert!(parse("x").present && !parse(" , ").present);
}

#[test]
fn other_times() {
    let control =
        parse("s-maxage=1, stale-while-revalidate=2, stale-if-error=3, min-fresh=4, max-stale=5");
    let times = [
        control.s_maxage,
        control.stale_while_revalidate,
        control.stale_if_error,
        control.min_fresh,
        control.max_stale,
    ];
    assert_eq!(times, [Some(1), Some(2), Some(3), Some(4), Some(5)]);
    assert_eq!(parse("max-stale").max_stale, Some(u32::MAX));
    assert_eq!(parse("max-stale=x").max_stale, None);
    let odd = parse("s-maxage=x, stale-while-revalidate=x, stale-if-error, min-fresh=-1");
    let odd = [odd.s_maxage, odd.stale_while_revalidate, odd.stale_if_error, odd.min_fresh];
    assert_eq!(odd, [Some(0), None, None, None]);
}

#[test]
fn restrictions_may_name_fields() {
    for (line, expected) in [
        ("no-cache=\"a\"", Restriction::Fields),
        ("no-cache=\" a, B ,\"", Restriction::Fields),
        ("no-cache=a", Restriction::Fields),
        ("no-cache=\"a\", no-cache", Restriction::Whole),
        ("no-cache, no-cache=\"a\"", Restriction::Whole),
        ("no-cache=\"\"", Restriction::Whole),
        ("no-cache=", Restriction::Whole),
        ("no-cache=\"a b\"", Restriction::Whole),
        ("no-cache=\"a", Restriction::Whole),
        ("no-cache = \"a\"", Restriction::Whole),
        ("max-age=1", Restriction::Absent),
    ] {
        assert_eq!(parse(line).no_cache, expected, "{line}");
        assert_eq!(parse(&line.replace("no-cache", "private")).private, expected, "{line}");
    }
    let lines = [&b"no-cache=\"a, B\", private=\"x\""[..], b"NO-CACHE=c, no-cache"];
    assert_eq!(field_names(lines, "no-cache").collect::<Vec<_>>(), [b"a", b"B", b"c"]);
    assert_eq!(field_names(lines, "private").collect::<Vec<_>>(), [b"x"]);
}

#[test]
fn targeted_fields_are_structured() {
    let max_age = |line: &str| CacheControl::parse_targeted([line.as_bytes()]).map(|c| c.max_age);
    for (line, expected) in [
        ("max-age=60", Some(Some(60))),
        ("max-age=60;x=1", Some(Some(60))),
        ("MAX-AGE=60", Some(Some(60))),
        ("max-age=60, max-age=10", Some(Some(10))),
        ("max-age=99999999999", Some(Some(MAX_DELTA))),
        ("foobar, max-age=60", Some(Some(60))),
        ("max-age=\"60\"", Some(None)),
        ("max-age=abc", Some(None)),
        ("max-age=60.0", Some(None)),
        ("max-age=-60", Some(Some(0))),
        ("max-age", Some(Some(0))),
        ("no-store", Some(None)),
        ("max-age =60", None),
        ("max-age= 60", None),
        ("max-age=60,", None),
        ("max-age=60, &&&", None),
        ("max-age=60a", None),
        ("max-age='60'", None),
        ("", None),
        ("  ", None),
    ] {
        assert_eq!(max_age(line), expected, "{line}");
    }
    let two = CacheControl::parse_targeted([&b"no-store=?0, no-cache"[..], b"private=\"a\""])
        .expect("a dictionary");
    assert!(!two.no_store);
    assert_eq!((two.no_cache, two.private), (Restriction::Whole, Restriction::Fields));
    assert_eq!(CacheControl::parse_targeted([&b"max-age=1"[..], b"?"]), None);
    assert_eq!(CacheControl::parse_targeted([]), None);
}

#[test]
fn surrogates_read_what_is_for_them() {
    for (line, max_age, stale) in [
        ("max-age=60", Some(Some(60)), None),
        ("max-age=60+600", Some(Some(60)), Some(600)),
        ("max-age=60+x", Some(Some(0)), None),
        ("max-age=60;larder", Some(Some(60)), None),
        ("max-age=60;LARDER, max-age=10", Some(Some(60)), None),
        ("max-age=10, max-age=60+5;larder", Some(Some(60)), Some(5)),
        ("max-age=60;not-for-you, foo", Some(None), None),
        ("max-age=60;not-for-you", None, None),
        ("max-age =60", Some(Some(0)), None),
        ("", None, None),
    ] {
        let control = CacheControl::parse_surrogate([line.as_bytes()], b"larder");
        assert_eq!(control.map(|c| c.max_age), max_age, "{line}");
        assert_eq!(control.and_then(|c| c.stale_while_revalidate), stale, "{line}");
    }
    let control = CacheControl::parse_surrogate([&b"no-store, content=\"ESI/1.0\""[..]], b"larder");
    assert!(control.expect("for anyone").no_store);
}

#[test]
fn ages() {
    for (text, expected) in [
        ("0", Some(0)),
        ("007", Some(7)),
        ("4294967296", Some(MAX_DELTA)),
        ("", None),
        ("1,0", None),
        ("-1", None),
    ] {
        assert_eq!(delta_seconds(text.as_bytes()), expected, "{text}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(line in prop::collection::vec(any::<u8>(), 0..80)) {
        CacheControl::parse([&line[..]]);
        CacheControl::parse_targeted([&line[..]]);
        CacheControl::parse_surrogate([&line[..]], b"x");
        let _ = field_names([&line[..]], "private").count();
    }

    #[test]
    fn directives_are_found_wherever_they_stand(
        before in "[a-z]{1,3}(=\"[a-z,=]{0,6}\")?", after in "[a-z]{1,3}(=[a-z]{1,6})?", age in 0..=MAX_DELTA,
    ) {
        let line = format!("x{before} ,max-age={age},\tx{after}, no-store");
        let control = parse(&line);
        prop_assert_eq!((control.max_age, control.no_store), (Some(age), true));
    }
}
