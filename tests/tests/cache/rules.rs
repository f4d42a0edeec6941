//! Sites and rules: who is asked, what is passed, what is kept for how long.

use larder_tests::{Larder, Origin, get, get_with, wait_until};

fn numbered(fields: &'static [&'static str]) -> Origin {
    Origin::start(move |seen, reply| {
        reply.ok(fields, format!("{} {}", seen.target, seen.number));
    })
}

#[test]
fn hosts_choose_their_site() {
    let origins = [
        Origin::serving(&["Cache-Control: max-age=60"], "exact"),
        Origin::serving(&["Cache-Control: max-age=60"], "below"),
        Origin::serving(&["Cache-Control: max-age=60"], "any"),
    ];
    let hosts = ["hosts = [\"a.test\"]", "hosts = [\"*.b.test\"]", ""];
    let sites: String = origins
        .iter()
        .zip(hosts)
        .map(|(o, hosts)| format!("[[site]]\n{hosts}\norigin = \"{}\"\n", o.url()))
        .collect();
    let larder = Larder::with_config(&sites);
    for (host, body) in [
        ("a.test", "exact"),
        ("A.test:80", "exact"),
        ("x.b.test", "below"),
        ("b.test", "any"),
        ("c.test", "any"),
    ] {
        let answer = larder.connect().ask("GET", "/", &[&format!("Host: {host}")]);
        assert_eq!(answer.text(), body, "{host}");
    }
}

#[test]
fn a_host_no_site_has_is_refused() {
    let origin = numbered(&[]);
    let larder = Larder::with_config(&format!(
        "[[site]]\nhosts = [\"a.test\"]\norigin = \"{}\"",
        origin.url()
    ));
    let answer = larder.connect().ask("GET", "/", &["Host: b.test"]);
    assert!((400..=421).contains(&answer.status), "{answer:?}");
    assert_eq!(origin.count(), 0);
}

#[test]
fn what_is_passed_is_never_kept() {
    let origin = numbered(&["Cache-Control: max-age=60"]);
    let larder = Larder::site(&origin.url(), "[[site.rule]]\npath = \"/api/*\"\npass = true");
    for n in 0..3 {
        let answer = get(larder.addr(), "/api/x");
        assert_eq!(answer.text(), format!("/api/x {n}"));
        assert!(answer.cache_status_has("fwd=bypass"), "{answer:?}");
    }
    get(larder.addr(), "/page");
    get(larder.addr(), "/page").assert_hit();
}

#[test]
fn a_ttl_wins_over_what_the_page_says() {
    let origin = numbered(&["Cache-Control: max-age=0"]);
    let larder = Larder::site(&origin.url(), "[[site.rule]]\npath = \"/long/*\"\nttl = \"10m\"");
    get(larder.addr(), "/long/x");
    get(larder.addr(), "/long/x").assert_hit();
    get(larder.addr(), "/short");
    get(larder.addr(), "/short").assert_forwarded();
}

#[test]
fn the_first_rule_that_fits_wins() {
    let origin = numbered(&["Cache-Control: max-age=0"]);
    let rules = "[[site.rule]]\npath = \"/a/b/*\"\nttl = \"0s\"\n[[site.rule]]\npath = \
                 \"/a/*\"\nttl = \"10m\"";
    let larder = Larder::site(&origin.url(), rules);
    for (target, hit) in [("/a/b/c", false), ("/a/c", true)] {
        get(larder.addr(), target);
        assert_eq!(get(larder.addr(), target).is_hit(), hit, "{target}");
    }
}

#[test]
fn rules_may_ask_for_method_cookie_and_header() {
    let origin = numbered(&["Cache-Control: max-age=60"]);
    let rules = "[[site.rule]]\ncookie = \"admin=*\"\npass = true\n[[site.rule]]\nheader = \
                 \"X-Debug: *\"\npass = true\n[[site.rule]]\npath_regex = \"^/x[0-9]+$\"\nmethod \
                 = \"GET\"\npass = true";
    let larder = Larder::site(&origin.url(), rules);
    get(larder.addr(), "/");
    get(larder.addr(), "/").assert_hit();
    get_with(larder.addr(), "/", &["Cookie: other=1"]).assert_hit();
    get_with(larder.addr(), "/", &["Cookie: a=b; admin=1"]).assert_forwarded();
    get_with(larder.addr(), "/", &["X-Debug: yes"]).assert_forwarded();
    get(larder.addr(), "/x12");
    get(larder.addr(), "/x12").assert_forwarded();
    get(larder.addr(), "/x12y");
    get(larder.addr(), "/x12y").assert_hit();
}

#[test]
fn visitors_with_a_session_are_passed_and_leave_nothing() {
    let origin = Origin::start(|seen, reply| {
        reply.ok(&["Cache-Control: max-age=60"], seen.get("cookie").unwrap_or("anonymous"));
    });
    let larder = Larder::site(&origin.url(), "bypass_cookies = [\"session\"]");
    assert_eq!(get_with(larder.addr(), "/", &["Cookie: session=alice"]).text(), "session=alice");
    assert_eq!(get(larder.addr(), "/").text(), "anonymous");
    assert_eq!(get_with(larder.addr(), "/", &["Cookie: session=alice"]).text(), "session=alice");
    assert_eq!(get(larder.addr(), "/").assert_hit().text(), "anonymous");
}

#[test]
fn ignored_cookies_are_not_there() {
    let origin = Origin::start(|seen, reply| {
        reply.ok(
            &["Cache-Control: max-age=60", "Vary: Cookie"],
            seen.get("cookie").unwrap_or("none"),
        );
    });
    let larder =
        Larder::site(&origin.url(), "bypass_cookies = [\"*\"]\nignore_cookies = [\"_ga*\"]");
    assert_eq!(get_with(larder.addr(), "/", &["Cookie: _ga=1; _ga_X=2"]).text(), "none");
    get(larder.addr(), "/").assert_hit();
    // One that counts makes it a visitor of its own, who is passed with all there is.
    assert!(
        get_with(larder.addr(), "/", &["Cookie: _ga=1; real=2"])
            .assert_forwarded()
            .text()
            .contains("real=2")
    );
}

#[test]
fn query_parameters_can_be_dropped_and_sorted() {
    let origin = Origin::start(|seen, reply| {
        reply.ok(&["Cache-Control: max-age=60"], &seen.target);
    });
    let larder =
        Larder::site(&origin.url(), "drop_query = [\"utm_*\", \"fbclid\"]\nsort_query = true");
    assert_eq!(get(larder.addr(), "/?b=2&utm_source=x&a=1&fbclid=y").text(), "/?a=1&b=2");
    get(larder.addr(), "/?a=1&b=2").assert_hit();
    get(larder.addr(), "/?b=2&a=1&utm_medium=z").assert_hit();
    assert_eq!(get(larder.addr(), "/?utm_source=x").text(), "/");
    assert_eq!(origin.count(), 2);
}

/// A parameter smuggled in with `;` or a second `?` must not be dropped from the key only, nor from
/// the request only.
#[test]
fn parameter_cloaking_does_not_work() {
    let origin = Origin::start(|seen, reply| {
        reply.ok(&["Cache-Control: max-age=60"], &seen.target);
    });
    let larder = Larder::site(&origin.url(), "drop_query = [\"utm_*\"]");
    get(larder.addr(), "/?a=1");
    for cloaked in
        ["/?a=1&utm_x=1;a=evil", "/?a=1;utm_x=1&a=evil", "/?a=1?utm_x=evil", "/?a=1&utm%5Fx=evil"]
    {
        let answer = get(larder.addr(), cloaked);
        // Either the very same page, with the parameter gone altogether, or a page of its own.
        assert!(answer.text() == "/?a=1" || !answer.is_hit(), "{cloaked}: {answer:?}");
        assert_eq!(get(larder.addr(), "/?a=1").text(), "/?a=1", "{cloaked} poisoned the page");
    }
}

#[test]
fn s_maxage_is_stripped_when_asked_for() {
    let origin = numbered(&["Cache-Control: public, s-maxage=600, max-age=0"]);
    let larder = Larder::site(&origin.url(), "strip_s_maxage = true");
    for _ in 0..2 {
        let answer = get(larder.addr(), "/");
        let control = answer.fields.joined("cache-control");
        assert!(!control.contains("s-maxage") && control.contains("max-age=0"), "{control}");
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_visitors_reload_does_not_reach_the_origin_when_told_so() {
    let origin = numbered(&["Cache-Control: max-age=60"]);
    let larder = Larder::site(&origin.url(), "client_cache_control = false");
    get(larder.addr(), "/");
    get_with(larder.addr(), "/", &["Cache-Control: no-cache", "Pragma: no-cache"]).assert_hit();
}

#[test]
fn errors_are_kept_only_when_asked_for() {
    let origin = Origin::start(|seen, reply| {
        reply.answer(if seen.target == "/5" { 503 } else { 404 }, &[], "error");
    });
    let larder = Larder::site(&origin.url(), "error_ttl = \"1m\"");
    for target in ["/4", "/5"] {
        get(larder.addr(), target);
        assert!(get(larder.addr(), target).is_hit(), "{target}");
    }
}

#[test]
fn the_anonymous_preset_keeps_visitors_apart_from_users() {
    let origin = Origin::start(|seen, reply| {
        reply.ok(
            &["Cache-Control: max-age=60", "Vary: Cookie"],
            seen.get("cookie").unwrap_or("anonymous"),
        );
    });
    let larder = Larder::site(&origin.url(), "preset = \"anonymous\"");
    assert_eq!(
        get_with(larder.addr(), "/?utm_source=mail", &["Cookie: _ga=GA1.1"]).text(),
        "anonymous"
    );
    get(larder.addr(), "/").assert_hit();
    assert_eq!(get_with(larder.addr(), "/", &["Cookie: session=1"]).text(), "session=1");
    assert_eq!(get(larder.addr(), "/").assert_hit().text(), "anonymous");
}

#[test]
fn the_wordpress_preset_knows_who_is_logged_in_and_where_the_admin_is() {
    let origin = Origin::start(|seen, reply| {
        reply.ok(&["Vary: Cookie"], seen.number.to_string());
    });
    let larder = Larder::site(&origin.url(), "preset = \"wordpress\"");
    get_with(larder.addr(), "/", &["Cookie: wp-settings-time-1=1"]);
    get(larder.addr(), "/").assert_hit();
    for cookie in
        ["wordpress_logged_in_abc=u", "comment_author_abc=u", "woocommerce_items_in_cart=1"]
    {
        get_with(larder.addr(), "/", &[&format!("Cookie: {cookie}")]).assert_forwarded();
    }
    for target in ["/wp-admin/", "/wp-login.php", "/cart/", "/blog/wp-cron.php"] {
        get(larder.addr(), target);
        get(larder.addr(), target).assert_forwarded();
    }
}

#[test]
fn pages_are_fresh_for_part_of_their_age_as_the_refresh_pattern_says() {
    let origin = numbered(&["Last-Modified: Sat, 01 Jan 2000 00:00:00 GMT"]);
    let larder =
        Larder::site(&origin.url(), "refresh = { min = \"0s\", percent = 0, max = \"0s\" }");
    get(larder.addr(), "/");
    get(larder.addr(), "/").assert_forwarded();
    let larder =
        Larder::site(&origin.url(), "refresh = { min = \"5m\", percent = 10, max = \"1h\" }");
    get(larder.addr(), "/");
    wait_until("a hit", || get(larder.addr(), "/").is_hit());
}
