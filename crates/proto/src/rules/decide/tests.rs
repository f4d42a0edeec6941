use super::*;
use crate::rules::test_support::{NOW, with_request};
use proptest::prelude::*;

/// A page received [`NOW`], fresh for a minute, with windows of 10 and 100 seconds.
fn page() -> Meta {
    Meta {
        status: 200,
        response_time: NOW * 1000,
        freshness: 60,
        swr: 10,
        sie: 100,
        date: NOW,
        ..Meta::default()
    }
}

fn at(secs: u64) -> Ms {
    (NOW + secs) * 1000
}

fn ask(cc: &str, meta: &Meta, secs: u64) -> Decision {
    ask_by(&Policy::default(), &[("Cache-Control", cc)], meta, secs)
}

fn ask_by(policy: &Policy, list: &[(&str, &str)], meta: &Meta, secs: u64) -> Decision {
    with_request("GET", list, |req| decide(req, meta, policy, at(secs)))
}

fn revalidate(why: RevalidateWhy, may_serve_on_error: bool) -> Decision {
    Decision::Revalidate { why, may_serve_on_error }
}

fn flagged(flags: PageFlags) -> Meta {
    Meta { flags, ..page() }
}

const STALE: fn(bool) -> Decision = |may| revalidate(RevalidateWhy::Stale, may);
const REQUEST: Decision =
    Decision::Revalidate { why: RevalidateWhy::Request, may_serve_on_error: true };
const fn swr(age: u32, ttl: i64) -> Decision {
    Decision::Stale { age, ttl, why: StaleWhy::SwrRefresh }
}

#[test]
fn section_4_2_fresh_while_the_lifetime_exceeds_the_age() {
    for (secs, expected) in [
        (0, Decision::Fresh { age: 0, ttl: 60 }),
        (59, Decision::Fresh { age: 59, ttl: 1 }),
        (60, swr(60, 0)),
        (69, swr(69, -9)),
        (70, STALE(true)),
        (1_000_000, STALE(true)),
    ] {
        assert_eq!(ask("", &page(), secs), expected, "{secs}");
    }
    let aged = Meta { initial_age: 59, ..page() };
    assert_eq!(ask("", &aged, 0), Decision::Fresh { age: 59, ttl: 1 });
    assert_eq!(ask("", &aged, 1), swr(60, 0));
}

#[test]
fn no_window_no_stale_answer() {
    let strict = Meta { swr: 0, ..page() };
    assert_eq!(ask("", &strict, 60), STALE(true));
}

#[test]
fn section_4_2_4_what_forbids_stale_answers() {
    for flags in [PageFlags::MUST_REVALIDATE, PageFlags::PROXY_REVALIDATE, PageFlags::S_MAXAGE] {
        let meta = flagged(flags);
        assert_eq!(ask("", &meta, 59), Decision::Fresh { age: 59, ttl: 1 });
        assert_eq!(ask("", &meta, 60), STALE(false), "{flags:?}");
        assert_eq!(ask("max-stale", &meta, 61), STALE(false), "{flags:?}");
        let lenient = Policy { stale_against_origin: true, ..Policy::default() };
        assert_eq!(ask_by(&lenient, &[], &meta, 61), swr(61, -1), "{flags:?}");
    }
    let no_cache = revalidate(RevalidateWhy::ResponseNoCache, false);
    assert_eq!(ask("", &flagged(PageFlags::NO_CACHE), 0), no_cache);
    let lenient = Policy { stale_against_origin: true, ..Policy::default() };
    assert_eq!(ask_by(&lenient, &[], &flagged(PageFlags::NO_CACHE), 0), no_cache);
}

#[test]
fn section_5_2_1_request_directives() {
    for (cc, secs, expected) in [
        ("no-cache", 0, REQUEST),
        ("no-store", 0, Decision::Unusable(Unusable::RequestNoStore)),
        ("max-age=0", 0, REQUEST),
        ("max-age=10", 10, Decision::Fresh { age: 10, ttl: 50 }),
        ("max-age=10", 11, REQUEST),
        ("max-age=100", 61, STALE(true)),
        (
            "max-age=100, max-stale=5",
            61,
            Decision::Stale { age: 61, ttl: -1, why: StaleWhy::MaxStale },
        ),
        ("min-fresh=60", 0, Decision::Fresh { age: 0, ttl: 60 }),
        ("min-fresh=60", 1, REQUEST),
        ("max-stale=20", 80, Decision::Stale { age: 80, ttl: -20, why: StaleWhy::MaxStale }),
        ("max-stale=20", 81, STALE(true)),
        ("max-stale", 900, Decision::Stale { age: 900, ttl: -840, why: StaleWhy::MaxStale }),
        ("max-stale=x", 900, STALE(true)),
        ("only-if-cached", 0, Decision::Fresh { age: 0, ttl: 60 }),
        ("only-if-cached", 61, swr(61, -1)),
        ("only-if-cached", 900, Decision::GatewayTimeout),
        ("only-if-cached, no-cache", 0, Decision::GatewayTimeout),
        ("unknown=1", 0, Decision::Fresh { age: 0, ttl: 60 }),
    ] {
        assert_eq!(ask(cc, &page(), secs), expected, "{cc} {secs}");
    }
}

#[test]
fn an_operator_may_turn_a_deaf_ear_to_clients() {
    let deaf = Policy { honour_client_cc: false, ..Policy::default() };
    for cc in ["no-cache", "no-store", "max-age=0", "min-fresh=99"] {
        let got = ask_by(&deaf, &[("Cache-Control", cc), ("Pragma", "no-cache")], &page(), 5);
        assert_eq!(got, Decision::Fresh { age: 5, ttl: 55 }, "{cc}");
    }
    assert_eq!(ask_by(&deaf, &[("Cache-Control", "only-if-cached")], &page(), 900), STALE(true));
}

#[test]
fn section_5_4_pragma_counts_without_cache_control_only() {
    let fresh = Decision::Fresh { age: 0, ttl: 60 };
    for (list, expected) in [
        (&[("Pragma", "no-cache")][..], REQUEST),
        (&[("Pragma", "x, No-Cache")], REQUEST),
        (&[("Pragma", "unrecognised-extension")], fresh),
        (&[("Pragma", "no-store")], fresh),
        (&[("Pragma", "no-cache"), ("Cache-Control", "max-age=10")], fresh),
    ] {
        assert_eq!(ask_by(&Policy::default(), list, &page(), 0), expected, "{list:?}");
    }
}

#[test]
fn rfc_8246_a_reload_does_not_validate_an_immutable_page() {
    let meta = flagged(PageFlags::IMMUTABLE);
    assert_eq!(ask("max-age=0", &meta, 5), Decision::Fresh { age: 5, ttl: 55 });
    assert_eq!(ask("max-age=2", &meta, 5), REQUEST);
    assert_eq!(ask("no-cache", &meta, 5), REQUEST);
    assert_eq!(ask("max-age=0", &meta, 61), REQUEST);
}

#[test]
fn a_soft_purge_starts_the_stale_windows() {
    let purged = Meta { soft_purged_at: at(20), ..page() };
    assert_eq!(ask("", &purged, 20), swr(20, 0));
    assert_eq!(ask("", &purged, 29), swr(29, -9));
    assert_eq!(ask("", &purged, 30), revalidate(RevalidateWhy::SoftPurged, true));
    assert_eq!(ask("max-stale", &purged, 31), revalidate(RevalidateWhy::SoftPurged, true));
    let strict = Meta { flags: PageFlags::MUST_REVALIDATE, ..purged };
    assert_eq!(ask("", &strict, 20), revalidate(RevalidateWhy::SoftPurged, false));
}

#[test]
fn a_copy_is_as_good_as_its_own_until_it_is_over() {
    let copy = Meta { flags: PageFlags::COPY, soft_purged_at: at(20), ..page() };
    assert_eq!(ask("", &copy, 19), ask("", &page(), 19));
    let over = revalidate(RevalidateWhy::SoftPurged, true);
    for seconds in [20, 29, 65, 1000] {
        assert_eq!(ask("", &copy, seconds), over, "within no window");
        assert_eq!(ask("max-stale", &copy, seconds), over);
    }
    let stale = Meta { soft_purged_at: at(100), ..copy };
    assert_eq!(ask("", &stale, 65), ask("", &page(), 65), "stale by its own times");
    let failed = |meta: &Meta, seconds| {
        with_request("GET", &[], |r| {
            stale_on_error(meta, &Policy::default(), r, at(seconds), ErrorCause::Disconnected)
        })
    };
    assert!(failed(&copy, 19));
    assert!(!failed(&copy, 21), "it may have been purged where it came from");
}

#[test]
fn only_pages_and_only_get_and_head() {
    for kind in [Kind::VaryMarker, Kind::HitForMiss] {
        assert_eq!(ask("", &Meta { kind, ..page() }, 0), Decision::Unusable(Unusable::NotAPage));
    }
    for (method, expected) in [
        ("GET", Decision::Fresh { age: 0, ttl: 60 }),
        ("HEAD", Decision::Fresh { age: 0, ttl: 60 }),
        ("POST", Decision::Unusable(Unusable::Method)),
        ("M-SEARCH", Decision::Unusable(Unusable::Method)),
    ] {
        assert_eq!(
            with_request(method, &[], |r| decide(r, &page(), &Policy::default(), at(0))),
            expected
        );
    }
}

#[test]
fn rfc_5861_4_stale_if_error() {
    use ErrorCause::{Disconnected, Status};
    let policy = Policy { disconnected: 1000, ..Policy::default() };
    let no_stale = flagged(PageFlags::S_MAXAGE);
    for (meta, secs, cause, expected) in [
        (page(), 159, Status(503), true),
        (page(), 160, Status(503), false),
        (page(), 100, Status(500), true),
        (page(), 100, Status(404), false),
        (page(), 100, Status(501), false),
        (page(), 160, Disconnected, true),
        (page(), 1059, Disconnected, true),
        (page(), 1060, Disconnected, false),
        (page(), 10, Status(502), true),
        (no_stale, 10, Disconnected, true),
        (no_stale, 61, Disconnected, false),
        (no_stale, 61, Status(503), false),
        (flagged(PageFlags::MUST_REVALIDATE), 61, Disconnected, false),
        (flagged(PageFlags::PROXY_REVALIDATE), 61, Disconnected, false),
        (flagged(PageFlags::NO_CACHE), 10, Disconnected, false),
        (Meta { kind: Kind::HitForMiss, ..page() }, 10, Disconnected, false),
    ] {
        let got = with_request("GET", &[], |r| stale_on_error(&meta, &policy, r, at(secs), cause));
        assert_eq!(got, expected, "{secs} {cause:?} {:?}", meta.flags);
    }
    let client = [("Cache-Control", "stale-if-error=500")];
    assert!(with_request("GET", &client, |r| stale_on_error(
        &page(),
        &policy,
        r,
        at(300),
        Status(503)
    )));
}

proptest! {
    /// For every page and request: fresh means younger than the lifetime; stale answers have a
    /// permission.
    #[test]
    fn nothing_is_fresh_after_its_lifetime(
        freshness in 0..500_u32, initial_age in 0..500_u32, resident in 0..1000_u64,
        swr in 0..500_u32, flags in 0..1024_u32, purged in prop::option::of(0..1000_u64),
        cc in prop::sample::select(vec![
            "", "max-stale", "max-stale=9", "max-age=9", "min-fresh=9", "no-cache", "only-if-cached", "max-age=99, max-stale=99",
        ]),
        deaf: bool,
    ) {
        let soft_purged_at = purged.map_or(0, at);
        let meta =
            Meta { freshness, initial_age, swr, flags: PageFlags(flags), soft_purged_at, ..page() };
        let policy = Policy { honour_client_cc: !deaf, ..Policy::default() };
        let age = u64::from(initial_age) + resident;
        match ask_by(&policy, &[("Cache-Control", cc)], &meta, resident) {
            Decision::Fresh { age: told, ttl } => {
                prop_assert!(age < u64::from(freshness));
                prop_assert_eq!(u64::from(told), age);
                prop_assert!(ttl > 0 && ttl <= i64::from(freshness) - age as i64);
                prop_assert!(!meta.flags.any(PageFlags::NO_CACHE));
                prop_assert!(purged.is_none());
            }
            Decision::Stale { ttl, .. } => {
                prop_assert!(ttl <= 0);
                prop_assert!(!meta.flags.any(PageFlags::NO_STALE));
            }
            _ => {}
        }
    }
}
