//! The first hour: what a site gets without a setting, and what it is told.

// A harness reports by panicking.
#![allow(clippy::unwrap_used)]

use larder_tests::{
    Admin, Answer, Gate, H2, Larder, Origin, Reply, Scratch, Seen, larder::run, wait_until,
};
use serde_json::Value;

const OLD: &str = "Last-Modified: Sat, 01 Jan 2000 00:00:00 GMT";

/// Greets by cookie, and does not say so.
fn greets(fields: &[&str], seen: &Seen, reply: &mut Reply) {
    reply.ok(fields, format!("hello <{}>", seen.fields.joined("cookie")));
}

fn ask(larder: &Larder, target: &str, cookie: &str) -> Answer {
    let line = format!("Cookie: {cookie}");
    let fields: &[&str] = if cookie.is_empty() { &[] } else { &[&line] };
    larder.connect().get(target, fields)
}

/// Visitors with cookies are greeted, and nobody else hears of it; visitors without share a page.
#[track_caller]
fn assert_apart(larder: &Larder) {
    for _ in 0..2 {
        for name in ["ann", "bob"] {
            let page = ask(larder, "/", &format!("name={name}"));
            assert_eq!(page.text(), format!("hello <name={name}>"), "{page:?}");
            assert!(!page.is_hit(), "{page:?}");
        }
        assert_eq!(ask(larder, "/", "").text(), "hello <>");
    }
    let shared = ask(larder, "/", "");
    assert!(shared.get("cache-status").unwrap().starts_with("larder; hit"), "{shared:?}");
    assert_eq!(shared.text(), "hello <>");
}

#[test]
fn a_lifetime_of_the_operator_is_for_visitors_without_cookies() {
    for lines in ["ttl = \"60s\"", "refresh = { min = \"60s\" }", "grace = \"60s\"\nttl = \"60s\""]
    {
        let origin = Origin::start(|seen, reply| greets(&[], seen, reply));
        assert_apart(&Larder::site(&origin.url(), lines));
    }
    let missing = Origin::start(|seen, reply| {
        reply.answer(404, &[], format!("hello <{}>", seen.fields.joined("cookie")));
    });
    assert_apart(&Larder::site(&missing.url(), "error_ttl = \"60s\""));
}

#[test]
fn a_guessed_lifetime_is_for_visitors_without_cookies() {
    let origin = Origin::start(|seen, reply| greets(&[OLD], seen, reply));
    assert_apart(&Larder::before(&origin.url()));
}

/// Without a lifetime, a page may still be served while the origin cannot be reached.
#[test]
fn a_page_of_a_visitor_with_cookies_is_not_served_to_others_when_the_origin_is_gone() {
    let origin = Origin::start(|seen, reply| greets(&["ETag: \"1\""], seen, reply));
    let larder = Larder::before(&origin.url());
    ask(&larder, "/", "name=ann");
    origin.stop();
    let stranger = ask(&larder, "/", "");
    assert!(!stranger.text().contains("ann"), "{stranger:?}");
    stranger.assert_status(502);
}

#[test]
fn a_lifetime_of_the_site_is_for_everybody() {
    let origin = Origin::start(|seen, reply| greets(&["Cache-Control: max-age=600"], seen, reply));
    let larder = Larder::site(&origin.url(), "");
    ask(&larder, "/", "name=ann");
    assert_eq!(ask(&larder, "/", "name=bob").assert_hit().text(), "hello <name=ann>");
}

#[test]
fn a_page_that_varies_on_cookie_is_kept_for_each() {
    let origin = Origin::start(|seen, reply| greets(&["Vary: Cookie"], seen, reply));
    let larder = Larder::site(&origin.url(), "ttl = \"60s\"");
    for name in ["ann", "bob"] {
        let cookie = format!("name={name}");
        ask(&larder, "/", &cookie).assert_forwarded();
        let page = ask(&larder, "/", &cookie);
        assert_eq!(page.assert_hit().text(), format!("hello <{cookie}>"));
    }
}

#[test]
fn rules_say_which_cookies_count() {
    for (lines, seen_by_origin) in [
        ("ignore_cookies = [\"*\"]", ""),
        ("vary_cookies = []", ""),
        ("bypass_cookies = [\"session\"]", "name=ann"),
        ("cache = true", "name=ann"),
    ] {
        let origin = Origin::start(|seen, reply| greets(&[], seen, reply));
        let larder = Larder::site(&origin.url(), &format!("ttl = \"60s\"\n{lines}"));
        let expected = format!("hello <{seen_by_origin}>");
        assert_eq!(ask(&larder, "/", "name=ann").text(), expected, "{lines}");
        assert_eq!(ask(&larder, "/", "name=bob").assert_hit().text(), expected, "{lines}");
    }
}

#[test]
fn a_stored_page_is_validated_for_a_visitor_with_cookies() {
    let origin = Origin::start(|seen, reply| {
        match seen.get("if-none-match") {
            Some(_) => reply.head(304, &["ETag: \"1\""]),
            None => reply.ok(&["ETag: \"1\""], "page"),
        };
    });
    let larder = Larder::site(&origin.url(), "ttl = \"60s\"");
    ask(&larder, "/", "");
    for count in 2..4 {
        let page = ask(&larder, "/", "name=ann");
        assert_eq!((page.status, page.text()), (200, "page"));
        assert!(page.cache_status_has("fwd-status=304"), "{page:?}");
        assert_eq!(origin.count(), count);
    }
    ask(&larder, "/", "").assert_hit();
    // One that wants no answer of the origin gets none from here.
    let lines = ["Cookie: name=ann", "Cache-Control: only-if-cached"];
    larder.connect().get("/", &lines).assert_status(504);
}

#[test]
fn a_visitor_with_cookies_does_not_follow_the_fetch_of_one_without() {
    let gate = Gate::closed();
    let held = gate.clone();
    let origin = Origin::start(move |seen, reply| {
        if seen.number == 0 {
            reply.chunked(200, &[]);
            reply.chunk("hello <>");
            held.wait();
            reply.end();
        } else {
            greets(&[], seen, reply);
        }
    });
    let larder = Larder::site(&origin.url(), "ttl = \"60s\"");
    let mut first = larder.connect();
    first.send_get("/", &["Host: site.test"]);
    origin.wait_for(1);
    // The head has landed once others follow it; until then they wait for it.
    let ann = ask(&larder, "/", "name=ann");
    assert_eq!(ann.text(), "hello <name=ann>");
    gate.open();
    assert_eq!(first.read().text(), "hello <>");
    ask(&larder, "/", "").assert_hit();
}

/// An answer that is not kept has no use for its content: the origin's connection ends.
#[test]
fn a_head_of_an_endless_page_that_is_not_kept_ends_the_fetch() {
    let origin = Origin::start(|seen, reply| {
        assert_eq!(seen.method, "GET");
        reply.chunked(200, &["Cache-Control: private"]);
        while !reply.peer_gone() {
            reply.chunk(vec![b'x'; 100_000]);
        }
    });
    let config = format!(
        "[http]\nlisten = \"127.0.0.1:0\"\nh2c = true\n[[site]]\norigin = \"{}\"\n",
        origin.url()
    );
    let larder = Larder::with_config(&config);
    let mut wire = larder.connect();
    let client = H2::connect(larder.addr());
    // The second time, it is known not to be kept.
    for _ in 0..2 {
        wire.ask("HEAD", "/one", &["Host: site.test"]).assert_status(200);
        assert_eq!(client.ask("HEAD", "/two", &[]).status, 200);
        wait_until("the origin is not read any more", || origin.open_connections() == 0);
    }
}

#[test]
fn a_rule_that_passes_sends_head_as_head() {
    let origin = Origin::start(|seen, reply| {
        assert_eq!(seen.method, "HEAD");
        reply.head(200, &["Content-Length: 4"]);
    });
    let larder = Larder::site(&origin.url(), "pass = true");
    let head = larder.connect().ask("HEAD", "/", &["Host: site.test"]);
    assert_eq!((head.status, head.get("content-length")), (200, Some("4")));
    assert!(head.cache_status_has("fwd=bypass"), "{head:?}");
}

fn redirects() -> Origin {
    Origin::start(|seen, reply| {
        let own = seen.get("x-origin").unwrap_or_default().to_owned();
        let to = format!("Location: {own}/new?a=1");
        let refresh = format!("Refresh: 0; url={own}/soon");
        reply.answer(302, &[&to, &refresh, &format!("Content-Location: {own}/here")], "");
    })
}

#[test]
fn a_redirect_to_the_origin_itself_stays_with_larder() {
    let origin = redirects();
    let own = format!("X-Origin: {}", origin.url());
    let larder = Larder::before(&origin.url());
    for (method, target) in [("GET", "/"), ("POST", "/form")] {
        let answer = larder.connect().ask(method, target, &["Host: site.test", &own]);
        assert_eq!(answer.get("location"), Some("/new?a=1"), "{answer:?}");
        assert_eq!(answer.get("content-location"), Some("/here"));
        assert_eq!(answer.get("refresh"), Some("0; url=/soon"));
    }
    // Another place is the site's business.
    let other = larder.connect().get("/other", &["X-Origin: http://127.0.0.1:1"]);
    assert_eq!(other.get("location"), Some("http://127.0.0.1:1/new?a=1"));
}

#[test]
fn a_site_may_keep_its_redirects() {
    let origin = redirects();
    let larder = Larder::site(&origin.url(), "mend_redirects = false");
    let answer = larder.connect().get("/", &[&format!("X-Origin: {}", origin.url())]);
    assert_eq!(answer.get("location"), Some(&*format!("{}/new?a=1", origin.url())));
}

/// A page as WordPress makes it: no lifetime, no validator.
const WORDPRESS: &str = "<head><meta name=\"generator\" content=\"WordPress 6.4.3\" /></head>";

const ANYWHERE: [&str; 4] = ["--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"];

#[test]
fn a_site_without_lifetimes_is_told_of_the_preset_for_it() {
    let origin = Origin::serving(&["Content-Type: text/html"], WORDPRESS);
    let larder = Larder::serve(&[&ANYWHERE[..], &["--origin", &origin.url()]].concat());
    for n in 0..12 {
        larder.connect().get(&format!("/page{}", n / 2), &[]).assert_forwarded();
    }
    let said = || larder.stderr();
    wait_until("a line that names the preset", || said().contains("--preset wordpress"));
    let lines = said();
    let lines: Vec<&str> = lines.lines().filter(|line| line.contains("preset")).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("/page0 is not kept"), "{lines:?}");
    // A request is counted when its answer has been sent.
    let advice = || Admin::of(&larder).json("/api/v1/stats")["advice"][0].clone();
    wait_until("all requests in the advice", || advice()["of"] == 12);
    let advice = advice();
    assert_eq!(advice["reason"], "no-freshness", "{advice}");
    assert_eq!(advice["setting"], "preset = \"wordpress\"", "{advice}");
    assert_eq!((&advice["requests"], &advice["of"]), (&Value::from(12), &Value::from(12)));
    assert_eq!(advice["urls"].as_array().unwrap().len(), 3);
}

/// The check of README, before and after the preset: a page that was not kept is asked for by GET
/// again, so that the reason is true, and the first request after the change keeps it.
#[test]
fn heads_of_a_page_that_is_not_kept_say_why_and_see_a_change() {
    let origin = Origin::serving(&["Content-Type: text/html"], WORDPRESS);
    let config = |lines: &str| {
        format!(
            "[admin]\nlisten = \"127.0.0.1:0\"\n[http]\nlisten = \
             \"127.0.0.1:0\"\n[[site]]\norigin = \"{}\"\n{lines}\n",
            origin.url()
        )
    };
    let larder = Larder::with_config(&config(""));
    let head = || larder.connect().ask("HEAD", "/", &["Host: site.test"]);
    for _ in 0..12 {
        let answer = head();
        assert!(answer.cache_status_has("detail=no-freshness"), "{answer:?}");
    }
    let advice = || Admin::of(&larder).json("/api/v1/stats")["advice"][0].clone();
    wait_until("all requests in the advice", || advice()["of"] == 12);
    assert_eq!((&advice()["reason"], &advice()["requests"]), (&"no-freshness".into(), &12.into()));
    larder.rewrite_config(&config("preset = \"wordpress\""));
    larder.hup_and_wait();
    head().assert_forwarded();
    assert!(head().is_hit());
}

/// Software that forbids caches to keep its pages until it is told of one is named with the setting
/// of its own, also where the page is compressed.
#[test]
fn software_that_forbids_caches_is_named_with_its_setting() {
    let page = |generator: &str| format!("<head><meta name=generator content=\"{generator}\">");
    for (field, generator, preset, words) in [
        (
            "Cache-Control: private, must-revalidate, max-age=0",
            "MediaWiki 1.39",
            "mediawiki",
            "$wgUseCdn = true;",
        ),
        ("Cache-Control: must-revalidate, no-cache, private", "Drupal 10", "drupal", "maximum age"),
        ("Cache-Control: no-cache, no-store", "Discourse 3.2", "discourse", "stay no-store"),
    ] {
        let mut coder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut coder, page(generator).as_bytes()).unwrap();
        let fields = ["Content-Type: text/html", "Content-Encoding: gzip", field];
        let body = coder.finish().unwrap();
        let origin = Origin::start(move |_, reply| {
            reply.ok(&fields, &body[..]);
        });
        let larder = Larder::serve(&[&ANYWHERE[..], &["--origin", &origin.url()]].concat());
        let advice = || Admin::of(&larder).json("/api/v1/stats")["advice"][0].clone();
        wait_until("there is advice", || {
            larder.connect().get("/", &["Accept-Encoding: gzip"]).assert_forwarded();
            !advice().is_null()
        });
        let advice = advice();
        assert_eq!(advice["setting"], format!("preset = \"{preset}\""), "{advice}");
        assert!(advice["text"].as_str().unwrap().contains(words), "{advice}");
        let flag = format!("--preset {preset}");
        wait_until("a line", || larder.stderr().contains(&flag));
        let said = larder.stderr();
        assert!(said.contains(words) && said.matches(&flag).count() == 1, "{said}");
        // With the preset, the line is not printed, and the advice is what is left to do.
        let larder = Larder::serve(
            &[&ANYWHERE[..], &["--origin", &origin.url(), "--preset", preset]].concat(),
        );
        let advice = || Admin::of(&larder).json("/api/v1/stats")["advice"][0].clone();
        wait_until("there is advice", || {
            larder.connect().get("/", &["Accept-Encoding: gzip"]).assert_forwarded();
            !advice().is_null()
        });
        assert!(advice()["text"].as_str().unwrap().contains(words), "{}", advice());
        assert_eq!(
            (&advice()["setting"], larder.stderr().contains("--preset")),
            (&"".into(), false)
        );
    }
}

/// HEADs show no page: the first line cannot name the software, and a later view has it named.
#[test]
fn software_that_a_page_shows_after_heads_is_named() {
    let origin = Origin::serving(
        &["Content-Type: text/html"],
        "<head><meta name=\"generator\" content=\"WordPress 6.4\">",
    );
    let larder = Larder::before(&origin.url());
    for _ in 0..2 {
        larder.connect().ask("HEAD", "/", &["Host: site.test"]).assert_forwarded();
    }
    let told = |preset: &str| larder.stderr().matches(&format!("--preset {preset}`")).count();
    wait_until("a line", || told("anonymous") == 1);
    for _ in 0..4 {
        larder.connect().get("/", &[]).assert_forwarded();
    }
    wait_until("a better line", || told("wordpress") == 1);
    assert_eq!(told("anonymous"), 1);
}

/// The preset is there, and the switch of the software is not set.
#[test]
fn a_preset_whose_software_still_forbids_caches_is_told_of() {
    let origin = Origin::serving(&["Content-Type: text/html", "Cache-Control: private"], "page");
    let larder = Larder::serve(
        &[&ANYWHERE[..], &["--origin", &origin.url(), "--preset", "mediawiki"]].concat(),
    );
    let told = || larder.stderr().matches("$wgUseCdn = true;").count();
    wait_until("a line", || {
        larder.connect().get("/", &[]).assert_forwarded();
        told() == 1
    });
    for _ in 0..4 {
        larder.connect().get("/", &[]).assert_forwarded();
    }
    assert_eq!(told(), 1);
}

#[test]
fn a_site_with_its_preset_is_told_nothing() {
    let origin = Origin::serving(&["Content-Type: text/html"], WORDPRESS);
    let flags = ["--origin", &origin.url(), "--preset", "wordpress"];
    let larder = Larder::serve(&[&ANYWHERE[..], &flags].concat());
    for n in 0..12 {
        larder.connect().get(&format!("/page{n}"), &[]).assert_forwarded();
        larder.connect().get(&format!("/page{n}"), &[]).assert_hit();
    }
    assert_eq!(Admin::of(&larder).json("/api/v1/stats")["advice"], Value::Array(Vec::new()));
    assert!(!larder.stderr().contains("preset"), "{}", larder.stderr());
}

/// Each cause is told as what it is.
#[test]
fn advice_names_the_cause_its_pages_and_the_setting() {
    let lines = ["Cache-Control: max-age=60", "Set-Cookie: a=b"];
    let origin = Origin::start(move |seen, reply| {
        match seen.path() {
            "/cookie" => reply.ok(&lines, "x"),
            "/private" => reply.ok(&["Cache-Control: private"], "x"),
            "/vary" => reply.ok(&["Cache-Control: max-age=60", "Vary: User-Agent"], "x"),
            "/old" => reply.ok(&[OLD], "x"),
            _ => reply.ok(&lines[..1], "x"),
        };
    });
    for (target, field, reason, setting) in [
        ("/cookie", "Cookie: a=N", "set-cookie", ""),
        ("/private", "X-A: N", "private", "[[site.rule]] path = \"/private\""),
        ("/vary", "User-Agent: N", "vary", "response_fields"),
        ("/page?utm_source=N", "X-A: N", "query", "drop_query = [\"utm_*\""),
        ("/old", "Cookie: visit=N", "cookie", "ignore_cookies = [\"visit\"]"),
        ("/page", "Cookie: session=N", "bypass-cookie", "ignore_cookies = [\"session\"]"),
    ] {
        let config = format!(
            "[admin]\nlisten = \"127.0.0.1:0\"\n[http]\nlisten = \
             \"127.0.0.1:0\"\n[[site]]\norigin = \"{}\"\nbypass_cookies = [{}]\n",
            origin.url(),
            if reason == "bypass-cookie" { "\"session\"" } else { "" },
        );
        let larder = Larder::with_config(&config);
        let mut asked = 0..;
        let mut stats = Value::Null;
        // A request that finds another one being noted is not noted itself.
        wait_until("there is advice", || {
            for number in asked.by_ref().take(12).map(|n: u32| n.to_string()) {
                let (target, field) = (target.replace('N', &number), field.replace('N', &number));
                larder.connect().get(&target, &[&field]).assert_status(200);
            }
            stats = Admin::of(&larder).json("/api/v1/stats");
            stats["advice"].as_array().is_some_and(|advice| !advice.is_empty())
        });
        let advice = &stats["advice"][0];
        assert_eq!(advice["reason"], reason, "{}", stats["advice"]);
        let told = advice["setting"].as_str().unwrap();
        assert!(told.starts_with(setting) && told.is_empty() == setting.is_empty(), "{advice}");
        let path = target.split('?').next().unwrap();
        assert!(advice["urls"][0].as_str().unwrap().contains(path), "{advice}");
        assert_eq!(stats["advice"].as_array().unwrap().len(), 1, "{}", stats["advice"]);
    }
}

/// The purges of the plugins of sites, as they send them.
#[test]
fn plugins_purge_as_they_do_elsewhere() {
    let origin = Origin::start(|seen, reply| {
        let tags: &[&str] = match seen.path() {
            "/drupal" => &["Cache-Control: max-age=600", "Cache-Tags: node:1 node_list config:a.b"],
            "/magento" => &["Cache-Control: max-age=600", "X-Magento-Tags: cat_p_1,cat_c_2"],
            "/typo3" => &["Cache-Control: max-age=600", "X-Cache-Tags: pageId_1,tt_content"],
            _ => &["Cache-Control: max-age=600"],
        };
        reply.ok(tags, "page");
    });
    let larder = Larder::site(&origin.url(), "purge = { from = [\"127.0.0.1\"] }");
    let pages = ["/", "/news/1", "/drupal", "/magento", "/typo3"];
    for (method, target, field, gone) in [
        ("PURGE", "/news/.*", "X-Purge-Method: regex", &pages[1..2]),
        ("PURGE", "/.*", "X-Purge-Method: regex", &pages[..]),
        ("PURGE", "/", "X-Purge-Method: default", &pages[..1]),
        ("BAN", "/", "Cache-Tags: node:1|node:2", &pages[2..3]),
        ("PURGE", "/", "Purge-Cache-Tags: config:a.b", &pages[2..3]),
        ("PURGE", "/", "X-Magento-Tags-Pattern: ((^|,)cat_c_2(,|$))", &pages[3..4]),
        ("PURGE", "/", "X-Magento-Tags-Pattern: .*", &pages[..]),
        ("BAN", "/", "X-Cache-Tags: pageId_1", &pages[4..]),
        ("BAN", "/", "X-Cache-Tags: pageId_[0-9]", &pages[4..]),
        ("BAN", "/", "Varnish-Ban-All: 1", &pages[..]),
        ("BAN", "/news/1", "X-A: b", &pages[1..2]),
    ] {
        for page in pages {
            larder.connect().get(page, &[]);
            larder.connect().get(page, &[]).assert_hit();
        }
        let purged = larder.connect().ask(method, target, &["Host: site.test", field]);
        purged.assert_status(200);
        for page in pages {
            let hit = larder.connect().get(page, &["Cache-Control: only-if-cached"]).is_hit();
            assert_eq!(hit, !gone.contains(&page), "{page} after {method} {target} {field}");
        }
    }
    let wrong = ["Host: site.test", "X-Purge-Method: regex"];
    larder.connect().ask("PURGE", "/(", &wrong).assert_status(400);
}

#[test]
fn nobody_purges_by_a_plugin_without_permission() {
    let origin = Origin::serving(&["Cache-Control: max-age=600"], "page");
    let larder = Larder::before(&origin.url());
    larder.connect().get("/", &[]);
    let fields = ["Host: site.test", "X-Purge-Method: regex"];
    let refused = larder.connect().ask("PURGE", "/.*", &fields);
    refused.assert_status(403);
    let words = refused.text();
    assert!(words.contains("purge.from") && words.contains("larder purge"), "{words}");
    larder.connect().get("/", &[]).assert_hit();
    // Where nobody may purge, BAN is a method of the site.
    larder.connect().ask("BAN", "/", &["Host: site.test"]).assert_status(200);
    assert_eq!(origin.last().method, "BAN");
}

#[test]
fn a_client_that_asks_too_often_is_refused_and_others_are_not() {
    let origin = Origin::serving(&["Cache-Control: max-age=600"], "page");
    let config = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[http]\nlisten = \"127.0.0.1:0\"\ntrusted_proxies = \
         [\"127.0.0.1\"]\n[[site]]\norigin = \"{}\"\n[[site.rule]]\npath = \"/few\"\nlimit = \"3/h \
         burst 3\"\n",
        origin.url()
    );
    let larder = Larder::with_config(&config);
    let from = |client: &str, target: &str| {
        larder.connect().get(target, &[&format!("X-Forwarded-For: {client}")])
    };
    for _ in 0..3 {
        from("203.0.113.1", "/few").assert_status(200);
    }
    let refused = from("203.0.113.1", "/few");
    assert_eq!(refused.status, 429, "{refused:?}");
    // The next one comes in twenty minutes, less the time of this test.
    let wait: u64 = refused.get("retry-after").unwrap().parse().unwrap();
    assert!((1..=1200).contains(&wait), "{refused:?}");
    for spelled in ["/%66ew", "//few", "/./few", "/x/../few", "/x/%2E%2e/few"] {
        assert_eq!(from("203.0.113.1", spelled).status, 429, "{spelled}");
    }
    from("203.0.113.2", "/few").assert_status(200);
    from("203.0.113.1", "/other").assert_status(200);
    // A network of IPv6 is one client.
    for last in 1..=3 {
        from(&format!("2001:db8::{last}"), "/few").assert_status(200);
    }
    assert_eq!(from("2001:db8::4", "/few").status, 429);
    assert_eq!(Admin::of(&larder).metric("larder_http_limited_total"), 7);
}

#[test]
fn a_client_has_so_many_connections() {
    let origin = Origin::serving(&["Cache-Control: max-age=600"], "page");
    let config = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[http]\nlisten = \
         \"127.0.0.1:0\"\n[http.limits]\nconnections_per_client = 2\n[[site]]\norigin = \"{}\"\n",
        origin.url()
    );
    let larder = Larder::with_config(&config);
    let mut held = [larder.connect(), larder.connect()];
    for wire in &mut held {
        wire.get("/", &[]).assert_status(200);
    }
    let mut third = larder.connect();
    assert_eq!(third.read().status, 503);
    assert_eq!(Admin::of(&larder).metric("larder_http_client_connections_refused_total"), 1);
    // One that ends leaves its place.
    drop(held);
    wait_until("a place", || {
        let mut wire = larder.connect();
        wire.send_get("/", &["Host: site.test"]);
        wire.try_read_for("GET").is_ok_and(|answer| answer.status == 200)
    });
}

#[test]
fn an_origin_that_fails_and_returns_is_told_once_each() {
    let origin = Origin::serving(&["Cache-Control: private"], "page");
    let (addr, url) = (origin.addr(), origin.url());
    let larder = Larder::before(&url);
    larder.connect().get("/", &[]).assert_status(200);
    origin.stop();
    for n in 0..6 {
        larder.connect().get(&format!("/{n}"), &[]).assert_status(502);
    }
    let lines = |what: &str| larder.stderr().lines().filter(|line| line.contains(what)).count();
    wait_until("a line", || lines("the origin fails") == 1);
    wait_until("its reason", || lines("Connection refused") == 1);
    let said = larder.stderr();
    let (_, reference) = said.split_once("(larder why ").unwrap();
    let reference = reference.split(')').next().unwrap();
    let (status, found, wrong) = larder.command(&["why", reference]);
    assert!(status.success() && found.contains("Connection refused"), "{found}{wrong}");
    let _back = Origin::at(addr, |_, reply| {
        reply.ok(&[], "page");
    })
    .unwrap();
    larder.connect().get("/back", &[]).assert_status(200);
    wait_until("a line", || lines("the origin answers again") == 1);
    assert_eq!(lines("the origin fails"), 1);
}

#[test]
fn check_warns_of_a_lifetime_without_a_word_on_cookies() {
    let warned = |lines: &str| {
        let scratch = Scratch::new("check");
        let file = scratch.path().join("larder.toml");
        let text = format!("[[site]]\norigin = \"http://127.0.0.1:9000\"\n{lines}\n");
        std::fs::write(&file, text).unwrap();
        let (status, _, said) = run(&["check", file.to_str().unwrap()]);
        assert!(status.success(), "{said}");
        said.contains("visitors without cookies")
    };
    for lines in ["ttl = \"60s\"", "refresh = { min = \"60s\" }"] {
        assert!(warned(lines), "{lines}");
        assert!(!warned(&format!("{lines}\nignore_cookies = [\"*\"]")), "{lines}");
        assert!(!warned(&format!("preset = \"wordpress\"\n{lines}")), "{lines}");
    }
    assert!(warned("[[site.rule]]\npath = \"/a\"\nttl = \"60s\""));
    assert!(!warned(""));
}
