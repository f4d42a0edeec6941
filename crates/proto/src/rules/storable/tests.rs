use super::*;
use crate::http::Fields;
use crate::rules::test_support::{NOW, fields, http_date, response, with_request};
use crate::rules::{RefreshPattern, StatusTtl};

fn verdict(
    status: u16,
    request: &[(&str, &str)],
    list: &[(&str, &str)],
    policy: &Policy,
) -> Storable {
    let held = fields(list);
    with_request("GET", request, |req| storable(req, &response(status, &held), policy))
}

fn refusal(status: u16, request: &[(&str, &str)], list: &[(&str, &str)]) -> Option<NoStore> {
    match verdict(status, request, list, &Policy::default()) {
        Storable::Yes(_) => None,
        Storable::No(why) => Some(why),
    }
}

fn life(list: &[(&str, &str)], policy: &Policy) -> Lifetime {
    match verdict(200, &[], list, policy) {
        Storable::Yes(lifetime) => lifetime,
        Storable::No(why) => panic!("not stored: {why:?} {list:?}"),
    }
}

/// Freshness in seconds, with a validator present so that 0 is stored too.
fn freshness_of(list: &[(&str, &str)]) -> u32 {
    let mut list = list.to_vec();
    list.push(("ETag", "\"x\""));
    life(&list, &Policy::default()).freshness
}

const FRESH: (&str, &str) = ("Cache-Control", "max-age=60");

#[test]
fn section_3_every_final_status_with_explicit_freshness() {
    for status in
        [200, 203, 204, 299, 301, 302, 303, 307, 308, 400, 404, 410, 499, 500, 502, 503, 504, 599]
    {
        assert_eq!(refusal(status, &[], &[FRESH]), None, "{status}");
    }
    for status in [100, 103, 199, 304, 412, 416] {
        assert_eq!(refusal(status, &[], &[FRESH]), Some(NoStore::Status), "{status}");
        let always = Policy { force_cache: true, ttl: Some(60), ..Policy::default() };
        assert_eq!(
            verdict(status, &[], &[FRESH], &always),
            Storable::No(NoStore::Status),
            "{status}"
        );
    }
}

#[test]
fn section_3_only_get_is_stored() {
    let held = fields(&[FRESH]);
    for method in ["HEAD", "POST", "PUT", "DELETE", "OPTIONS", "get", "M-SEARCH"] {
        let got = with_request(method, &[], |req| {
            storable(req, &response(200, &held), &Policy::default())
        });
        assert_eq!(got, Storable::No(NoStore::Method), "{method}");
    }
}

#[test]
fn section_5_2_2_directives_that_forbid() {
    for (list, expected) in [
        (&[("Cache-Control", "no-store")][..], Some(NoStore::NoStore)),
        (&[("Cache-Control", "max-age=60, No-StOrE")], Some(NoStore::NoStore)),
        (&[("Cache-Control", "max-age=60"), ("Cache-Control", "no-store")], Some(NoStore::NoStore)),
        (&[("Cache-Control", "private, max-age=60")], Some(NoStore::Private)),
        (&[("Cache-Control", "private=\"x-user\", max-age=60")], None),
        (&[("Cache-Control", "no-cache=\"x-user\", max-age=60")], None),
        (&[("Cache-Control", "no-cache"), ("ETag", "\"a\"")], None),
        (&[("Cache-Control", "no-cache")], Some(NoStore::NoFreshness)),
        (&[("Cache-Control", "no-cache, max-age=60")], Some(NoStore::NoFreshness)),
        (&[("Cache-Control", "s-maxage=0, stale-if-error=60")], Some(NoStore::NoFreshness)),
        (&[FRESH, ("Vary", "Accept, *")], Some(NoStore::VaryStar)),
        (&[FRESH, ("Set-Cookie", "a=b")], Some(NoStore::SetCookie)),
        (&[("Cache-Control", "max-age=60, no-cache=\"set-cookie\""), ("Set-Cookie", "a=b")], None),
        (
            &[("Cache-Control", "max-age=60, private=\"x, Set-Cookie\""), ("Set-Cookie", "a=b")],
            None,
        ),
        (
            &[("Cache-Control", "max-age=60, private=\"x-user\""), ("Set-Cookie", "a=b")],
            Some(NoStore::SetCookie),
        ),
        (
            &[FRESH, ("Vary", "Accept-Encoding"), ("Content-Encoding", "foo")],
            Some(NoStore::OddCoding),
        ),
        (&[FRESH, ("Content-Encoding", "foo")], Some(NoStore::OddCoding)),
        (&[FRESH, ("Content-Encoding", "UTF-8")], None),
        (&[FRESH, ("Content-Encoding", "identity")], None),
        (&[], Some(NoStore::NoFreshness)),
        (&[("ETag", "\"a\"")], None),
        (&[("Cache-Control", "public")], Some(NoStore::NoFreshness)),
        (&[("Cache-Control", "max-age=0")], Some(NoStore::NoFreshness)),
        (&[("Cache-Control", "max-age=0, stale-while-revalidate=9")], None),
    ] {
        assert_eq!(refusal(200, &[], list), expected, "{list:?}");
    }
}

/// RFC 9110 12.5.3: what a client did not ask for would be given to those who cannot read it.
#[test]
fn a_coding_that_was_not_accepted_is_not_stored() {
    let vary = ("Vary", "Accept-Encoding");
    for (accepted, coding, expected) in [
        ("gzip", Some("gzip"), None),
        ("gzip", Some("x-gzip"), None),
        ("gzip, identity;q=0", Some("gzip"), None),
        ("gzip", None, None),
        ("gzip;q=5", Some("gzip"), Some(NoStore::CodingNotAccepted)),
        ("gzip;q=0", Some("gzip"), Some(NoStore::CodingNotAccepted)),
        ("\"gzip\"", Some("gzip"), Some(NoStore::CodingNotAccepted)),
        ("br", Some("gzip"), Some(NoStore::CodingNotAccepted)),
        ("gzip, br", Some("br, gzip"), Some(NoStore::CodingNotAccepted)),
        ("gzip, identity;q=0", None, Some(NoStore::CodingNotAccepted)),
    ] {
        for varies in [true, false] {
            let mut list = vec![FRESH];
            list.extend(coding.map(|coding| ("Content-Encoding", coding)));
            list.extend(varies.then_some(vary));
            let got = refusal(200, &[("Accept-Encoding", accepted)], &list);
            assert_eq!(got, expected, "{accepted} {coding:?} {varies}");
        }
    }
    assert_eq!(
        refusal(200, &[], &[FRESH, ("Content-Encoding", "gzip")]),
        Some(NoStore::CodingNotAccepted)
    );
}

#[test]
fn section_5_2_2_3_must_understand() {
    for (status, cc, expected) in [
        (200, "max-age=60, must-understand", None),
        (200, "max-age=60, must-understand, no-store", None),
        (599, "max-age=60, must-understand", Some(NoStore::NotUnderstood)),
        (299, "max-age=60, must-understand, no-store", Some(NoStore::NotUnderstood)),
        (200, "max-age=60, must-understand, private", Some(NoStore::Private)),
    ] {
        assert_eq!(refusal(status, &[], &[("Cache-Control", cc)]), expected, "{status} {cc}");
    }
}

#[test]
fn section_3_5_authorization() {
    let request = [("Authorization", "FOO")];
    for (cc, expected) in [
        ("max-age=60", Some(NoStore::Authorization)),
        ("max-age=60, proxy-revalidate", Some(NoStore::Authorization)),
        ("max-age=60, public", None),
        ("max-age=60, must-revalidate", None),
        ("s-maxage=60", None),
    ] {
        assert_eq!(refusal(200, &request, &[("Cache-Control", cc)]), expected, "{cc}");
    }
    let allowed = Policy { allow_authorization: true, ..Policy::default() };
    let Storable::Yes(kept) = verdict(200, &request, &[FRESH], &allowed) else { panic!("allowed") };
    assert!(kept.flags.any(PageFlags::AUTHORIZED));
}

#[test]
fn section_5_2_1_5_a_request_may_forbid_storing() {
    let request = [("Cache-Control", "no-store")];
    assert_eq!(refusal(200, &request, &[FRESH]), Some(NoStore::RequestNoStore));
    let deaf = Policy { honour_client_cc: false, ..Policy::default() };
    assert!(matches!(verdict(200, &request, &[FRESH], &deaf), Storable::Yes(_)));
}

#[test]
fn section_4_2_1_the_lifetime_is_the_first_of() {
    let (soon, past) = (http_date(600), http_date(-600));
    let now = http_date(0);
    let dated = |cc: &'static str, expires: &str| {
        freshness_of(&[("Cache-Control", cc), ("Expires", expires), ("Date", &now)])
    };
    assert_eq!(dated("max-age=60, s-maxage=30", &soon), 30);
    assert_eq!(dated("s-maxage=90, max-age=0", &past), 90);
    assert_eq!(dated("max-age=60", &past), 60);
    assert_eq!(dated("max-age=60", "0"), 60);
    assert_eq!(dated("max-age=0", &soon), 0);
    assert_eq!(dated("foobar", &soon), 600);
    assert_eq!(
        freshness_of(&[("Cache-Control", "max-age=60"), ("Cache-Control", "s-maxage=1")]),
        1
    );
    for (cc, expected) in [
        ("MaX-aGe=60", 60),
        ("max-age=2147483647", 2_147_483_647),
        ("max-age=99999999999", 1 << 31),
        ("max-age=0060", 60),
        ("max-age=-60", 0),
        ("max-age='60'", 0),
        ("max-age=60.5", 0),
        ("max-age=60a", 0),
        ("max-age", 0),
        ("extension=\"max-age=60\", max-age=1", 1),
        ("max-age=1, extension=\"max-age=60\"", 1),
    ] {
        assert_eq!(freshness_of(&[("Cache-Control", cc)]), expected, "{cc}");
    }
}

#[test]
fn section_5_3_expires() {
    let [now, soon, soon2, past, skewed, skewed_later] =
        [0, 600, 700, -600, 400, 300].map(http_date);
    for (list, expected) in [
        (&[("Expires", soon.as_str()), ("Date", now.as_str())][..], 600),
        (&[("Expires", &now), ("Date", &now)], 0),
        (&[("Expires", &past), ("Date", &now)], 0),
        (&[("Expires", &skewed_later), ("Date", &skewed)], 0),
        (&[("Expires", &soon2), ("Date", &soon)], 100),
        (&[("Expires", "0"), ("Date", &now)], 0),
        (&[("Expires", ""), ("Date", &now)], 0),
        (&[("Expires", &soon), ("Date", "foo")], 600),
        (&[("Expires", &soon)], 600),
        (&[("Expires", &soon), ("Expires", &soon)], 600),
        (&[("Expires", &soon), ("Expires", &soon2)], 0),
        (&[("Expires", "Fri, 31 Dec 9999 23:59:59 GMT")], 1 << 31),
    ] {
        assert_eq!(freshness_of(list), expected, "{list:?}");
    }
}

#[test]
fn section_4_2_2_heuristics_for_all_statuses_that_allow_it() {
    let day = http_date(-86_400);
    let list = [("Last-Modified", day.as_str())];
    for status in 200..600 {
        let allowed = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501].contains(&status);
        if matches!(status, 206 | 304 | 412 | 416) {
            continue;
        }
        let found = match verdict(status, &[], &list, &Policy::default()) {
            Storable::Yes(l) if l.flags.any(PageFlags::HEURISTIC) => Some(l.freshness),
            Storable::Yes(_) => panic!("stored without a lifetime: {status}"),
            Storable::No(why) => {
                assert_eq!(why, NoStore::NoFreshness);
                None
            }
        };
        assert_eq!(found, allowed.then_some(8640), "{status}");
    }
    let public = [("Last-Modified", day.as_str()), ("Cache-Control", "public")];
    assert_eq!(refusal(599, &[], &public), None);
    assert_eq!(refusal(600, &[], &public), Some(NoStore::Status));
}

#[test]
fn section_4_2_2_heuristics_are_bounded_and_never_against_the_origin() {
    let policy = Policy { heuristic_percent: 20, heuristic_max: 1000, ..Policy::default() };
    let [minute, day, future] = [-60, -86_400, 60].map(http_date);
    assert_eq!(life(&[("Last-Modified", &minute)], &policy).freshness, 12);
    assert_eq!(life(&[("Last-Modified", &day)], &policy).freshness, 1000);
    for list in [
        &[("Last-Modified", future.as_str())][..],
        &[("Last-Modified", "foo"), ("ETag", "\"a\"")],
        &[("Last-Modified", &day), ("Pragma", "no-cache")],
        &[("Last-Modified", &day), ("Expires", "0")],
        &[("Last-Modified", &day), ("Cache-Control", "max-age=0")],
    ] {
        assert_eq!(life(list, &policy).freshness, 0, "{list:?}");
    }
    let pragma =
        [("Last-Modified", day.as_str()), ("Pragma", "no-cache"), ("Cache-Control", "max-age=9")];
    assert_eq!(life(&pragma, &policy).freshness, 9);
}

#[test]
fn age_and_clock_skew() {
    let [now, slow, fast, later, latest] = [0, -10, 10, 10, 20].map(http_date);
    for (list, freshness, age) in [
        (&[("Date", slow.as_str()), ("Expires", later.as_str()), ("Age", "25")][..], 20, 25),
        (&[("Date", &fast), ("Expires", &latest), ("Age", "15")], 10, 15),
        (&[("Date", &slow), ("Cache-Control", "max-age=5")], 5, 10),
        (&[("Date", &fast), ("Cache-Control", "max-age=5")], 5, 0),
        (&[("Date", &now), ("Cache-Control", "max-age=3600"), ("Age", "7200")], 3600, 7200),
        (&[("Date", &now), ("Cache-Control", "max-age=3600"), ("Age", "abc")], 3600, 0),
        (&[("Date", &now), ("Cache-Control", "max-age=3600"), ("Age", "0,7200")], 3600, 0),
    ] {
        let mut list = list.to_vec();
        list.push(("ETag", "\"x\""));
        let got = life(&list, &Policy::default());
        assert_eq!((got.freshness, got.initial_age), (freshness, age), "{list:?}");
    }
}

/// Half a page looks like a whole one where only the end of the connection tells its end.
#[test]
fn what_is_kept_briefly_has_no_window_and_is_gone_with_its_time() {
    let list = [
        ("Cache-Control", "max-age=900, stale-while-revalidate=9"),
        ("Age", "5"),
        ("ETag", "\"x\""),
    ];
    let policy = Policy { keep: Some(60), ..Policy::default() };
    let (whole, brief) = (life(&list, &policy), life(&list, &policy).briefly(10));
    assert_eq!((whole.freshness, whole.swr, whole.sie), (900, 9, 60));
    assert_eq!((brief.freshness, brief.swr, brief.sie, brief.initial_age), (15, 0, 0, 5));
    assert_eq!(brief.useful_for(&policy, true), 10);
    assert!(brief.flags.any(PageFlags::UNFRAMED) && !whole.flags.any(PageFlags::UNFRAMED));
    assert_eq!(life(&[("Cache-Control", "max-age=3")], &policy).briefly(10).freshness, 3);
}

#[test]
fn rfc_9213_a_targeted_field_replaces_cache_control_and_expires() {
    let (now, soon) = (http_date(0), http_date(600));
    for (list, expected) in [
        (&[("Cache-Control", "no-store"), ("CDN-Cache-Control", "max-age=60")][..], Ok(60)),
        (&[("Cache-Control", "private"), ("CDN-Cache-Control", "max-age=60")], Ok(60)),
        (&[("Cache-Control", "max-age=1"), ("CDN-Cache-Control", "max-age=60")], Ok(60)),
        (&[("Cache-Control", "max-age=60"), ("CDN-Cache-Control", "max-age=1")], Ok(1)),
        (
            &[("Cache-Control", "max-age=60"), ("CDN-Cache-Control", "no-store")],
            Err(NoStore::NoStore),
        ),
        (
            &[("Cache-Control", "max-age=60"), ("CDN-Cache-Control", "private")],
            Err(NoStore::Private),
        ),
        (
            &[
                ("Expires", soon.as_str()),
                ("Date", now.as_str()),
                ("CDN-Cache-Control", "max-age=0"),
            ],
            Err(NoStore::NoFreshness),
        ),
        (
            &[("Expires", &soon), ("Date", &now), ("CDN-Cache-Control", "must-revalidate")],
            Err(NoStore::NoFreshness),
        ),
        (&[("Cache-Control", "max-age=60"), ("CDN-Cache-Control", "max-age=1;;")], Ok(60)),
        (
            &[("Cache-Control", "no-store"), ("CDN-Cache-Control", "max-age =60")],
            Err(NoStore::NoStore),
        ),
        (&[("Cache-Control", "no-store"), ("Surrogate-Control", "max-age=60")], Ok(60)),
        (
            &[("Cache-Control", "max-age=60"), ("Surrogate-Control", "no-store")],
            Err(NoStore::NoStore),
        ),
        (&[("Expires", "0"), ("Surrogate-Control", "max-age=60")], Ok(60)),
        (&[("Expires", &soon), ("Surrogate-Control", "max-age=0")], Err(NoStore::NoFreshness)),
    ] {
        let got = match verdict(200, &[], list, &Policy::default()) {
            Storable::Yes(lifetime) => Ok(lifetime.freshness),
            Storable::No(why) => Err(why),
        };
        assert_eq!(got, expected, "{list:?}");
    }
    let extended = life(&[("Surrogate-Control", "max-age=60+600")], &Policy::default());
    assert_eq!((extended.freshness, extended.swr, extended.sie), (60, 600, 600));
}

#[test]
fn rfc_5861_windows_and_the_operators() {
    let policy = Policy { grace: Some(30), keep: Some(300), ..Policy::default() };
    for (cc, swr, sie) in [
        ("max-age=1", 30, 300),
        ("max-age=1, stale-while-revalidate=5", 5, 300),
        ("max-age=1, stale-if-error=0", 30, 0),
        ("max-age=1, stale-while-revalidate=x", 30, 300),
    ] {
        let got = life(&[("Cache-Control", cc)], &policy);
        assert_eq!((got.swr, got.sie), (swr, sie), "{cc}");
    }
    // A stale window does not make a response without a lifetime storable.
    assert_eq!(verdict(200, &[], &[], &policy), Storable::No(NoStore::NoFreshness));
}

#[test]
fn flags_tell_what_the_hit_path_must_know() {
    for (cc, flag) in [
        ("max-age=9, must-revalidate", PageFlags::MUST_REVALIDATE),
        ("max-age=9, proxy-revalidate", PageFlags::PROXY_REVALIDATE),
        ("s-maxage=9", PageFlags::S_MAXAGE),
        ("max-age=9, immutable", PageFlags::IMMUTABLE),
        ("max-age=9, no-transform", PageFlags::NO_TRANSFORM),
        ("max-age=9, no-cache", PageFlags::NO_CACHE),
        ("max-age=9, no-cache=\"x\"", PageFlags::empty()),
        ("max-age=9", PageFlags::empty()),
    ] {
        let list = [("Cache-Control", cc), ("ETag", "\"a\"")];
        assert_eq!(life(&list, &Policy::default()).flags, flag, "{cc}");
    }
}

#[test]
fn an_operator_may_decide_otherwise() {
    let ttl = Policy { ttl: Some(100), ..Policy::default() };
    let overridden = life(&[("Cache-Control", "max-age=1"), ("Age", "50")], &ttl);
    assert_eq!((overridden.freshness, overridden.initial_age), (150, 50));
    assert_eq!(
        verdict(200, &[], &[("Cache-Control", "private")], &ttl),
        Storable::No(NoStore::Private)
    );

    assert_eq!(verdict(500, &[], &[], &ttl), Storable::No(NoStore::NoFreshness));
    assert!(matches!(verdict(404, &[], &[FRESH], &ttl), Storable::Yes(l) if l.freshness == 60));
    assert!(matches!(verdict(302, &[], &[], &ttl), Storable::Yes(l) if l.freshness == 100));

    let forced = Policy { ttl: Some(100), force_cache: true, ..Policy::default() };
    let list = [("Cache-Control", "private, no-store, no-cache"), ("Set-Cookie", "a=b")];
    assert!(matches!(verdict(200, &[], &list, &forced),
        Storable::Yes(l) if !l.flags.any(PageFlags::NO_CACHE)));

    let errors = Policy {
        status_ttl: vec![StatusTtl { first: 500, last: 503, ttl: 7 }],
        ..Policy::default()
    };
    let Storable::Yes(kept) = verdict(502, &[], &[], &errors) else { panic!("status ttl") };
    assert!(kept.freshness == 7 && kept.flags.any(PageFlags::NEGATIVE));
    assert_eq!(verdict(504, &[], &[], &errors), Storable::No(NoStore::NoFreshness));
    let Storable::Yes(explicit) = verdict(502, &[], &[FRESH], &errors) else { panic!("explicit") };
    assert_eq!(explicit.freshness, 60);

    let cookies = Policy { allow_set_cookie: true, ..Policy::default() };
    assert!(matches!(
        verdict(200, &[], &[FRESH, ("Set-Cookie", "a=b")], &cookies),
        Storable::Yes(_)
    ));
}

#[test]
fn squids_refresh_pattern() {
    let policy = Policy {
        refresh: Some(RefreshPattern { min: 60, percent: 50, max: 600 }),
        ..Policy::default()
    };
    let [minute, quarter, day] = [-60, -900, -86_400].map(http_date);
    for (list, expected) in [
        (&[][..], 60),
        (&[("Last-Modified", minute.as_str())], 60),
        (&[("Last-Modified", &quarter)], 450),
        (&[("Last-Modified", &day)], 600),
        (&[("Last-Modified", &day), ("Cache-Control", "max-age=5")], 5),
    ] {
        assert_eq!(life(list, &policy).freshness, expected, "{list:?}");
    }
    assert_eq!(verdict(403, &[], &[], &policy), Storable::No(NoStore::NoFreshness));
}

#[test]
fn section_3_3_partial_responses() {
    let range = [("Range", "bytes=-5")];
    let no_range = [];
    for (request, list, expected) in [
        (
            &range[..],
            &[FRESH, ("Content-Range", "bytes 5-9/10"), ("Content-Length", "5")][..],
            Ok((5, 9, 10)),
        ),
        (&range, &[FRESH, ("Content-Range", "bytes 0-4/10")], Ok((0, 4, 10))),
        (
            &range,
            &[FRESH, ("Content-Range", "bytes 4-9/10"), ("Content-Length", "5")],
            Err(NoStore::ContentRange),
        ),
        (&range, &[FRESH, ("Content-Range", "bytes 5-9/*")], Err(NoStore::ContentRange)),
        (
            &range,
            &[FRESH, ("Content-Type", "multipart/byteranges; boundary=x")],
            Err(NoStore::ContentRange),
        ),
        (&no_range, &[FRESH, ("Content-Range", "bytes 5-9/10")], Err(NoStore::ContentRange)),
    ] {
        let got = match verdict(206, request, list, &Policy::default()) {
            Storable::Yes(l) => {
                l.partial.map(|p| (p.first, p.last, p.total)).ok_or(NoStore::Status)
            }
            Storable::No(why) => Err(why),
        };
        assert_eq!(got, expected, "{list:?}");
    }
}

#[test]
fn the_page_keeps_what_was_found() {
    let modified = http_date(-60);
    let held = fields(&[
        FRESH,
        ("Last-Modified", &modified),
        ("Content-Encoding", "GZIP"),
        ("Content-Length", "3"),
    ]);
    let facts = response(200, &held);
    let accepts = [("Accept-Encoding", "gzip")];
    let judged = with_request("GET", &accepts, |r| storable(r, &facts, &Policy::default()));
    let Storable::Yes(l) = judged else { panic!("stored") };
    let meta = l.meta(&facts);
    assert_eq!((meta.status, meta.freshness, meta.response_time), (200, 60, NOW * 1000));
    assert_eq!((meta.last_modified, meta.date), (Some(NOW - 60), NOW));
    assert_eq!(meta.encoding, crate::page::Encoding::Gzip);
    assert!(meta.flags.any(PageFlags::HAS_LENGTH));
    let two = fields(&[FRESH, ("Content-Encoding", "gzip, br")]);
    let facts = ResponseFacts { fields: Fields::new(&two), ..facts };
    assert_eq!(l.meta(&facts).encoding, crate::page::Encoding::Other);
}

#[test]
fn the_store_keeps_a_page_as_long_as_it_can_serve() {
    let policy = Policy { disconnected: 100, ..Policy::default() };
    for (cc, validator, expected) in [
        ("max-age=60", false, 160),
        ("max-age=60", true, 60 + 86_400),
        ("max-age=200000", true, 400_000),
        ("max-age=60, must-revalidate", false, 60),
        ("max-age=60, stale-if-error=500", false, 560),
        ("s-maxage=60, stale-while-revalidate=500", false, 60),
    ] {
        let kept = life(&[("Cache-Control", cc)], &policy).useful_for(&policy, validator);
        assert_eq!(kept, expected, "{cc}");
    }
}
