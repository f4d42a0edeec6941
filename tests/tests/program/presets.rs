//! The presets `wordpress` and `anonymous` before origins that behave like such sites. (`mediawiki`
//! has the real one, in mediawiki.rs.)
//!
//! The origins are careless on purpose: they render a page for whoever's cookie they see and do not
//! say that it is private, as themes and plugins do. Only the preset keeps visitors apart.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::{Answer, Larder, Origin, Reply, Seen};

/// Renders the page for the cookies that came, and says so.
fn careless(fields: &[&str], seen: &Seen, reply: &mut Reply) {
    let cookies = seen.fields.joined("cookie");
    reply.ok(fields, format!("{} number {} for <{cookies}>", seen.target, seen.number));
}

fn ask(larder: &Larder, target: &str, cookie: &str) -> Answer {
    let line = format!("Cookie: {cookie}");
    let fields: &[&str] = if cookie.is_empty() { &[] } else { &[&line] };
    larder.connect().get(target, fields)
}

/// A request with these cookies is answered by the origin, with all of them seen there, and leaves
/// no trace.
#[track_caller]
fn assert_passed(larder: &Larder, origin: &Origin, target: &str, cookie: &str) {
    for _ in 0..2 {
        let before = origin.count();
        let answer = ask(larder, target, cookie);
        assert!(!answer.is_hit(), "{target} with {cookie:?} came from the cache: {answer:?}");
        assert_eq!(origin.count(), before + 1, "{target} with {cookie:?}");
        assert!(answer.text().contains(cookie), "the origin did not see {cookie:?}: {answer:?}");
    }
    let stranger = ask(larder, target, "");
    assert!(stranger.text().ends_with("for <>"), "{cookie:?} left its page behind: {stranger:?}");
}

/// A page of a site without any caching plugin: WordPress sends no Cache-Control, no validator and
/// no Vary for visitors.
fn wordpress() -> Origin {
    Origin::start(|seen, reply| {
        let html = "Content-Type: text/html; charset=UTF-8";
        match seen.path() {
            "/old-name/" => {
                reply.answer(
                    301,
                    &["X-Redirect-By: WordPress", "Location: http://site.test/new-name/", html],
                    "",
                );
            }
            "/wp-comments-post.php" => {
                reply.answer(302, &["Location: http://site.test/hello/#comment-2", html], "");
            }
            "/wp-login.php" => {
                let cookie = "Set-Cookie: wordpress_test_cookie=WP%20Cookie%20check; path=/";
                reply.ok(
                    &[cookie, "Cache-Control: max-age=600", html],
                    format!("login {}", seen.number),
                );
            }
            path if path.contains("/wp-admin") || path.contains("/cart") => {
                careless(&["Cache-Control: max-age=600", html], seen, reply);
            }
            _ => careless(
                &[html, "Link: <http://site.test/wp-json/>; rel=\"https://api.w.org/\""],
                seen,
                reply,
            ),
        }
    })
}

fn before_wordpress() -> (Origin, Larder) {
    let origin = wordpress();
    let larder = Larder::site(&origin.url(), "preset = \"wordpress\"");
    (origin, larder)
}

#[test]
fn wordpress_pages_are_kept_for_visitors() {
    let (origin, larder) = before_wordpress();
    let first = ask(&larder, "/hello/", "");
    first.assert_status(200).assert_forwarded();
    assert_eq!(ask(&larder, "/hello/", "").assert_hit().body, first.body);
    // Searches and feeds are pages of their own.
    ask(&larder, "/?s=cheese", "").assert_forwarded();
    ask(&larder, "/?s=bread", "").assert_forwarded();
    ask(&larder, "/?s=cheese", "").assert_hit();
    // A moved page is kept as such.
    ask(&larder, "/old-name/", "").assert_status(301);
    let moved = ask(&larder, "/old-name/", "");
    assert!(moved.status == 301 && moved.is_hit(), "{moved:?}");
    assert_eq!(origin.count(), 4);
}

#[test]
fn wordpress_users_get_their_own_pages() {
    let (origin, larder) = before_wordpress();
    ask(&larder, "/hello/", "");
    for cookie in [
        "wordpress_logged_in_0123456789abcdef=admin%7C1700000000%7Cx",
        "wordpress_sec_0123456789abcdef=admin%7C1700000000%7Cx",
        "wp-postpass_0123456789abcdef=%24P%24B",
        "comment_author_0123456789abcdef=Ann",
        "comment_author_email_0123456789abcdef=ann%40site.test",
        "woocommerce_items_in_cart=1",
        "woocommerce_cart_hash=0123",
        "wp_woocommerce_session_0123456789abcdef=t_1",
        "_ga=GA1.2.3; wordpress_logged_in_0123456789abcdef=admin",
    ] {
        // On a page that is stored, and on one that is not.
        assert_passed(&larder, &origin, "/hello/", cookie);
        let cold = format!("/cold-{}/", origin.count());
        assert_passed(&larder, &origin, &cold, cookie);
    }
    ask(&larder, "/hello/", "").assert_hit();
}

#[test]
fn wordpress_ignores_cookies_that_mean_nothing() {
    let (origin, larder) = before_wordpress();
    // Also when such a visitor is the first: the origin renders as for anybody.
    let page = ask(&larder, "/hello/", "wordpress_test_cookie=WP%20Cookie%20check; _ga=GA1.2.3");
    assert!(page.text().ends_with("for <>"), "{page:?}");
    for cookie in [
        "",
        "_ga=GA1.2.3",
        "wordpress_test_cookie=WP%20Cookie%20check",
        "wp-settings-time-1=1700000000",
        "theme=dark",
    ] {
        assert_eq!(ask(&larder, "/hello/", cookie).assert_hit().body, page.body, "{cookie}");
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn wordpress_administration_is_passed() {
    let (origin, larder) = before_wordpress();
    for target in [
        "/wp-admin/",
        "/wp-admin/edit.php?post_type=page",
        "/wp-admin/admin-ajax.php?action=heartbeat",
        "/blog/wp-admin/index.php",
        "/wp-login.php",
        "/wp-login.php?action=lostpassword",
        "/wp-cron.php?doing_wp_cron=1",
        "/xmlrpc.php",
        "/cart/",
        "/shop/cart",
    ] {
        for _ in 0..2 {
            let before = origin.count();
            let answer = ask(&larder, target, "");
            assert!(!answer.is_hit(), "{target}: {answer:?}");
            assert_eq!(origin.count(), before + 1, "{target}");
            // Passed means as it came.
            assert_eq!(origin.last().target, target);
        }
    }
    let login = ask(&larder, "/wp-login.php", "");
    assert_eq!(login.get("set-cookie"), Some("wordpress_test_cookie=WP%20Cookie%20check; path=/"));
    // Names that only look alike are pages.
    ask(&larder, "/about-wp-admin-pages/", "").assert_forwarded();
    ask(&larder, "/about-wp-admin-pages/", "").assert_hit();
}

#[test]
fn wordpress_campaign_parameters_make_no_second_copy() {
    let (origin, larder) = before_wordpress();
    let page = ask(&larder, "/hello/?utm_source=letter&utm_medium=email&fbclid=x", "");
    assert!(page.text().starts_with("/hello/ number"), "{page:?}");
    assert_eq!(ask(&larder, "/hello/?gclid=y", "").assert_hit().body, page.body);
    assert_eq!(ask(&larder, "/hello/", "").assert_hit().body, page.body);
    // Others stay, in their order.
    ask(&larder, "/hello/?page=2&utm_source=letter&amp=1", "").assert_forwarded();
    assert_eq!(origin.last().target, "/hello/?page=2&amp=1");
}

#[test]
fn wordpress_comment_makes_the_page_new() {
    let (origin, larder) = before_wordpress();
    ask(&larder, "/hello/", "");
    ask(&larder, "/hello/", "").assert_hit();
    let other = ask(&larder, "/other/", "");
    let post = "POST /wp-comments-post.php HTTP/1.1\r\nHost: site.test\r\nContent-Length: \
                9\r\n\r\ncomment=x";
    larder.connect().send(post).read().assert_status(302);
    assert_eq!(origin.last().body, b"comment=x");
    // RFC 9111 4.4: what Location names is invalid after an unsafe request.
    ask(&larder, "/hello/", "").assert_forwarded();
    assert_eq!(ask(&larder, "/other/", "").assert_hit().body, other.body);
}

#[test]
fn wordpress_visitors_cannot_reload_past_the_cache() {
    let (origin, larder) = before_wordpress();
    ask(&larder, "/hello/", "");
    for field in ["Cache-Control: no-cache", "Pragma: no-cache", "Cache-Control: max-age=0"] {
        larder.connect().get("/hello/", &[field]).assert_hit();
    }
    assert_eq!(origin.count(), 1);
}

fn before_any_site() -> (Origin, Larder) {
    let origin = Origin::start(|seen, reply| match seen.path() {
        "/private" => careless(&["Cache-Control: private, max-age=600"], seen, reply),
        "/greeting" => {
            careless(&["Cache-Control: max-age=600", "Set-Cookie: session=1; path=/"], seen, reply)
        }
        _ => careless(&["Cache-Control: max-age=600"], seen, reply),
    });
    let larder = Larder::site(&origin.url(), "preset = \"anonymous\"");
    (origin, larder)
}

#[test]
fn anonymous_passes_everybody_with_a_cookie() {
    let (origin, larder) = before_any_site();
    ask(&larder, "/page", "");
    ask(&larder, "/page", "").assert_hit();
    for cookie in ["session=1", "x=", "_gaffe=1", "_ga=GA1.2.3;session=1", "session=1; _ga=GA1.2.3"]
    {
        assert_passed(&larder, &origin, "/page", cookie);
        let cold = format!("/cold-{}", origin.count());
        assert_passed(&larder, &origin, &cold, cookie);
    }
    // A name without a value is a cookie too.
    assert!(!ask(&larder, "/page", "justaname").is_hit());
    ask(&larder, "/page", "").assert_hit();
}

#[test]
fn anonymous_looks_at_every_cookie_line() {
    let (origin, larder) = before_any_site();
    ask(&larder, "/page", "");
    let lines = ["Cookie: _ga=GA1.2.3", "Cookie: session=1"];
    let answer = larder.connect().get("/page", &lines);
    assert!(!answer.is_hit() && answer.text().contains("session=1"), "{answer:?}");
    assert_eq!(origin.count(), 2);
}

#[test]
fn anonymous_ignores_what_analytics_set() {
    let (origin, larder) = before_any_site();
    let page = ask(&larder, "/page", "_ga=GA1.2.3; _gid=GA1.2.4; __utma=1.2");
    assert!(
        page.text().ends_with("for <>"),
        "what is not part of the key must not reach the origin: {page:?}"
    );
    for cookie in
        ["", "_ga=GA1.9.9", "_ga_ABCDEF=GS1.1; _fbp=fb.1.2", "_pk_id.1.abcd=e; _hjSession_1=x"]
    {
        assert_eq!(ask(&larder, "/page", cookie).assert_hit().body, page.body, "{cookie}");
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn anonymous_keeps_nothing_that_is_not_for_everyone() {
    let (origin, larder) = before_any_site();
    for target in ["/private", "/greeting"] {
        for _ in 0..3 {
            let before = origin.count();
            assert!(!ask(&larder, target, "").is_hit(), "{target}");
            assert_eq!(origin.count(), before + 1, "{target}");
        }
    }
    let allowed = ["Authorization: Basic YW5uOnNlY3JldA=="];
    let own = larder.connect().get("/members", &allowed);
    let next = larder.connect().get("/members", &[]);
    next.assert_forwarded();
    assert_ne!(own.body, next.body);
    let before = origin.count();
    let post = "POST /page HTTP/1.1\r\nHost: site.test\r\nContent-Length: 1\r\n\r\nx";
    for _ in 0..2 {
        assert!(!larder.connect().send(post).read().is_hit());
    }
    assert_eq!(origin.count(), before + 2);
}

/// A rule of the site goes before those of its preset.
#[test]
fn a_site_may_differ_from_its_preset() {
    let origin = wordpress();
    let larder = Larder::site(
        &origin.url(),
        "preset = \"wordpress\"\ndrop_query = []\n[[site.rule]]\npath = \
         \"/wp-admin/public/*\"\npass = false\n[[site.rule]]\npath = \"/live/*\"\npass = true",
    );
    ask(&larder, "/wp-admin/public/page", "").assert_forwarded();
    ask(&larder, "/wp-admin/public/page", "").assert_hit();
    for _ in 0..2 {
        assert!(!ask(&larder, "/wp-admin/other", "").is_hit());
        assert!(!ask(&larder, "/live/score", "").is_hit());
    }
    ask(&larder, "/hello/?utm_source=a", "");
    assert_eq!(origin.last().target, "/hello/?utm_source=a");
}
