//! Purging by the admin interface: orders, bans, what is under way meanwhile, and the command line.

#![allow(clippy::unwrap_used)]

use larder_tests::{Admin, Gate, Larder, Origin, Scratch, get, get_with, larder, wait_until};
use serde_json::{Value, json};

fn with_admin(origin: &Origin) -> Larder {
    let purge = "purge = { from = [\"127.0.0.1\"] }\nclient_cache_control = false";
    Larder::with_config(&format!(
        "[[site]]\norigin = \"{}\"\n{purge}\n[http]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten \
         = [\"127.0.0.1:0\"]\n",
        origin.url()
    ))
}

/// Each answer names the request's number; kinds by path.
fn kinds() -> Origin {
    Origin::start(|seen, reply| {
        let body = format!("{} {}", seen.target, seen.number);
        let fresh = "Cache-Control: max-age=600";
        match seen.path() {
            "/style.css" => reply.ok(&[fresh, "Content-Type: text/css"], body),
            "/old" => reply
                .ok(&["Cache-Control: max-age=9000", "Age: 7200", "Content-Type: text/html"], body),
            "/tagged" => reply.ok(&[fresh, "Surrogate-Key: news sport"], body),
            "/missing" => reply.answer(404, &[fresh], body),
            "/large" => reply.ok(&[fresh], vec![b'x'; 100_000]),
            "/varies" => reply.ok(&[fresh, "Vary: X-Kind"], body),
            _ => reply.ok(&[fresh], body),
        };
    })
}

const PATHS: [&str; 7] = ["/", "/style.css", "/old", "/tagged", "/missing", "/large", "/varies"];

/// Paths of `PATHS` that are not in the store.
fn gone(larder: &Larder) -> Vec<&'static str> {
    PATHS.into_iter().filter(|path| !get(larder.addr(), path).is_hit()).collect()
}

#[test]
fn every_kind_of_order_is_carried_out_and_remembered() {
    let origin = kinds();
    let larder = with_admin(&origin);
    let admin = Admin::of(&larder);
    let fill = || PATHS.iter().for_each(|path| assert!(get(larder.addr(), path).status < 500));
    fill();
    for (order, purged, expected) in [
        (json!({"url": "http://site.test/old"}), 1, &["/old"][..]),
        (json!({"url": "https://site.test/old"}), 1, &["/old"]),
        (json!({"url": "http://site.test/none"}), 0, &[]),
        (json!({"prefix": "http://site.test/ta"}), 1, &["/tagged"]),
        (json!({"tags": ["sport", "none"]}), 1, &["/tagged"]),
        (json!({"tags": ["news"], "host": "site.test"}), 1, &["/tagged"]),
        (json!({"ban": "url ~ \"^/s\""}), 1, &["/style.css"]),
        (json!({"ban": "content_type == text/css"}), 1, &["/style.css"]),
        (json!({"ban": "status == 4xx && host == site.test"}), 1, &["/missing"]),
        (json!({"ban": "age > 1h"}), 1, &["/old"]),
        (json!({"ban": "size >= 100000"}), 1, &["/large"]),
        (json!({"ban": "tag == news"}), 1, &["/tagged"]),
        (json!({"ban": "url ~ /varies"}), 1, &["/varies"]),
        (json!({"ban": "host == other.test"}), 0, &[]),
        (
            json!({"ban": "size < 100000 && status == 200 && age < 1h"}),
            4,
            &["/", "/style.css", "/tagged", "/varies"],
        ),
    ] {
        assert_eq!(admin.purge(&order), purged, "{order}");
        assert_eq!(gone(&larder), expected, "{order}");
    }
    let remembered = admin.json("/api/v1/purges");
    let latest = &remembered.as_array().unwrap()[0];
    assert_eq!(remembered.as_array().unwrap().len(), 15);
    assert_eq!((&latest["kind"], &latest["purged"]), (&json!("ban"), &json!(4)));
    assert_eq!(latest["what"], "size < 100000 && status == 200 && age < 1h");
    assert_eq!(latest["by"], "127.0.0.1 API");
}

#[test]
fn the_purge_method_is_remembered_too_and_not_for_ever() {
    let origin = kinds();
    let larder = with_admin(&origin);
    let admin = Admin::of(&larder);
    get(larder.addr(), "/old");
    larder
        .connect()
        .ask("PURGE", "/old", &["Host: site.test", "Larder-Soft-Purge: 1"])
        .assert_status(200);
    let first = admin.json("/api/v1/purges")[0].clone();
    assert_eq!((&first["kind"], &first["what"]), (&json!("url"), &json!("http://site.test/old")));
    assert_eq!((&first["soft"], &first["by"]), (&json!(true), &json!("127.0.0.1 PURGE")));
    for _ in 0..120 {
        admin.purge(&json!({"url": "http://site.test/"}));
    }
    assert_eq!(admin.json("/api/v1/purges").as_array().unwrap().len(), 100);
}

#[test]
fn a_soft_ban_leaves_pages_for_bad_times() {
    let origin = Origin::serving(&["Cache-Control: max-age=600, stale-if-error=600"], "page");
    let larder = with_admin(&origin);
    let admin = Admin::of(&larder);
    get(larder.addr(), "/");
    assert_eq!(admin.purge(&json!({"ban": "url == /", "soft": true})), 1);
    assert_eq!(admin.purge(&json!({"ban": "url == /", "soft": true})), 0, "it is stale already");
    let object = admin.json("/api/v1/object?url=http://site.test/");
    assert_eq!(object["variants"][0]["state"], "stale");
    origin.stop();
    assert_eq!(get(larder.addr(), "/").text(), "page");
}

#[test]
fn wrong_orders_are_refused_and_change_nothing() {
    let origin = kinds();
    let larder = with_admin(&origin);
    let admin = Admin::of(&larder);
    get(larder.addr(), "/");
    for (order, code, part) in [
        ("", "bad_json", "EOF"),
        ("{}", "bad_order", "exactly one"),
        ("{\"url\":\"http://site.test/\",\"ban\":\"url ~ x\"}", "bad_order", "exactly one"),
        ("{\"url\":\"/\"}", "bad_url", "http://example.org/page"),
        ("{\"tags\":[]}", "bad_order", "tags"),
        ("{\"everything\":true}", "bad_json", "unknown field"),
        ("{\"ban\":\"url == / && colour == red\"}", "bad_ban", "at character 13: expected url"),
        ("{\"ban\":\"status == abc\"}", "bad_ban", "at character 11: expected 404 or 5xx"),
    ] {
        let answer = admin.order("POST", "/api/v1/purge", order);
        let error: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!((answer.status, error["error"]["code"].as_str()), (400, Some(code)), "{order}");
        assert!(error["error"]["message"].as_str().unwrap().contains(part), "{order}: {error}");
    }
    get(larder.addr(), "/").assert_hit();
    assert_eq!(admin.json("/api/v1/purges"), json!([]));
}

/// The origin makes its page before the ban and sends it after: it is for who waits, and not kept.
#[test]
fn what_is_being_fetched_does_not_outlive_a_purge_or_ban() {
    for order in [
        json!({"url": "http://site.test/slow"}),
        json!({"prefix": "http://site.test/sl"}),
        json!({"tags": ["news"]}),
        json!({"ban": "url ~ slow"}),
        json!({"ban": "status == 200"}),
        json!({"ban": "tag == news && url ~ slow"}),
    ] {
        let gate = Gate::closed();
        let held = gate.clone();
        let origin = Origin::start(move |seen, reply| {
            if seen.number == 0 {
                held.wait();
            }
            let fields = &["Cache-Control: max-age=600", "Surrogate-Key: news"];
            reply.ok(fields, (seen.number + 1).to_string());
        });
        let larder = with_admin(&origin);
        let admin = Admin::of(&larder);
        let mut waiting = larder.connect();
        waiting.send_get("/slow", &["Host: site.test"]);
        origin.wait_for(1);
        admin.purge(&order);
        gate.open();
        assert_eq!(waiting.read().text(), "1", "{order}");
        assert_eq!(get(larder.addr(), "/slow").text(), "2", "{order}: the old page was kept");
        assert_eq!(get(larder.addr(), "/slow").text(), "2", "{order}: the new page was not kept");
    }
}

#[test]
fn a_ban_of_other_urls_leaves_what_is_being_fetched() {
    let gate = Gate::closed();
    let held = gate.clone();
    let origin = Origin::start(move |seen, reply| {
        held.wait();
        reply.ok(&["Cache-Control: max-age=600"], (seen.number + 1).to_string());
    });
    let larder = with_admin(&origin);
    let admin = Admin::of(&larder);
    let mut waiting = larder.connect();
    waiting.send_get("/slow", &["Host: site.test"]);
    origin.wait_for(1);
    admin.purge(&json!({"ban": "url ~ other && status == 200"}));
    admin.purge(&json!({"ban": "host == other.test"}));
    gate.open();
    waiting.read();
    assert_eq!(get(larder.addr(), "/slow").assert_hit().text(), "1");
}

/// Writers, readers and bans at once: after a ban that ends, nothing made before it is served.
#[test]
fn after_a_ban_nothing_older_is_served_whatever_goes_on() {
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use std::sync::{Arc, atomic::AtomicBool};
    let made = Arc::new(AtomicU64::new(0));
    let now = made.clone();
    let origin = Origin::start(move |_, reply| {
        reply.ok(&["Cache-Control: max-age=600"], now.load(SeqCst).to_string());
    });
    let larder = with_admin(&origin);
    let admin = Admin::of(&larder);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut wire = larder.connect();
                let mut number = 0;
                while !stop.load(SeqCst) {
                    number += 1;
                    wire.get(&format!("/p{}", number % 20), &[]);
                }
            });
        }
        for round in 1..=40u64 {
            made.store(round, SeqCst);
            admin.purge(&json!({"ban": "url ~ ^/p && status == 200"}));
            for number in 0..20 {
                let answer = get(larder.addr(), &format!("/p{number}"));
                let seen: u64 = answer.text().parse().unwrap();
                assert!(
                    seen >= round,
                    "made in round {seen}, served after the ban of round {round}"
                );
            }
        }
        stop.store(true, SeqCst);
    });
}

#[test]
fn the_command_line_bans_and_purges_by_the_admin_interface() {
    let origin = kinds();
    let running = with_admin(&origin);
    let admin = Admin::of(&running);
    let scratch = Scratch::new("token");
    let file = scratch.write("token", &admin.token).display().to_string();
    let at = admin.addr.to_string();
    let purge = |args: &[&str]| {
        let common = ["purge", "--admin", &at, "--token-file", &file];
        let (status, out, err) = larder::run(&[&common, args].concat());
        (status.code().unwrap(), out + &err)
    };
    PATHS.iter().for_each(|path| drop(get(running.addr(), path)));
    assert_eq!(purge(&["--ban", "url ~ ^/s || x"]).0, 2, "wrong usage");
    assert!(purge(&["--ban", "url ~ ^/s || x"]).1.contains("at character 11"));
    assert_eq!(purge(&["--ban", "content_type ~ css"]), (0, "purged: 1 page\n".to_owned()));
    assert_eq!(purge(&["--ban", "content_type ~ css"]), (1, "nothing was there\n".to_owned()));
    assert_eq!(
        purge(&["--soft", "http://site.test/old"]),
        (0, "marked as stale: 1 page\n".to_owned())
    );
    assert_eq!(purge(&["--prefix", "http://site.test/"]).0, 0);
    assert_eq!(gone(&running).len(), PATHS.len());
    assert_eq!(purge(&["--tag", "news", "--tag", "none"]), (0, "purged: 1 page\n".to_owned()));
    let (status, _, err) = larder::run(&["purge", "--admin", &at, "--ban", "url ~ x"]);
    assert_eq!(status.code(), Some(3), "{err}");
    assert!(err.contains("--token-file"), "{err}");
    let closed = larder_tests::helper::free_port();
    let (status, ..) =
        larder::run(&["purge", "--admin", &format!("127.0.0.1:{closed}"), "--ban", "url ~ x"]);
    assert_eq!(status.code(), Some(4));
}

#[test]
fn objects_are_listed_by_what_is_asked_for_and_in_steps() {
    let origin = kinds();
    let larder = with_admin(&origin);
    let admin = Admin::of(&larder);
    PATHS.iter().for_each(|path| drop(get(larder.addr(), path)));
    get_with(larder.addr(), "/varies", &["X-Kind: b"]);
    for number in 0..300 {
        get(larder.addr(), &format!("/many/{number}"));
    }
    let urls = |query: &str| -> Vec<String> {
        let answer = admin.json(&format!("/api/v1/objects?limit=1000{query}"));
        assert_eq!(answer["cursor"], Value::Null);
        let mut urls: Vec<String> = answer["objects"]
            .as_array()
            .unwrap()
            .iter()
            .map(|o| o["url"].as_str().unwrap().to_owned())
            .collect();
        urls.sort();
        urls
    };
    assert_eq!(urls("").len(), 308);
    assert_eq!(urls("&prefix=http://site.test/many/").len(), 300);
    assert_eq!(urls("&prefix=http://site.test/many/1").len(), 111);
    assert_eq!(urls("&prefix=http://site.test:81/").len(), 0);
    assert_eq!(urls("&tag=sport"), ["http://site.test/tagged"]);
    assert_eq!(urls("&min_size=100000"), ["http://site.test/large"]);
    assert_eq!(urls("&prefix=http://site.test/varies").len(), 2, "a row for each variant");
    assert_eq!(urls("&site=other").len(), 0);
    assert_eq!(urls("&state=stale").len(), 0);
    admin.purge(&json!({"url": "http://site.test/varies", "soft": true}));
    admin.purge(&json!({"url": "http://site.test/old", "soft": true}));
    assert_eq!(
        urls("&state=stale"),
        ["http://site.test/old", "http://site.test/varies", "http://site.test/varies"]
    );
    // In small steps: everything once, as nothing changes meanwhile.
    let (mut seen, mut cursor, mut calls) = (Vec::new(), String::new(), 0);
    loop {
        let answer = admin.json(&format!("/api/v1/objects?limit=20{cursor}"));
        let rows = answer["objects"].as_array().unwrap();
        assert!(rows.len() < 60, "{}", rows.len());
        seen.extend(rows.iter().map(|row| format!("{}{}", row["url"], row["vary"])));
        calls += 1;
        match answer["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    seen.sort();
    let all = seen.len();
    seen.dedup();
    assert_eq!((seen.len(), all), (308, 308));
    assert!(calls >= 308 / 60, "{calls}");
}

#[test]
fn one_object_is_shown_in_full() {
    let origin = Origin::start(|seen, reply| {
        let kind = format!("{} of {}", seen.get("x-kind").unwrap_or("none"), seen.target);
        let fields = [
            "Cache-Control: max-age=600",
            "Age: 100",
            "Vary: X-Kind",
            "ETag: \"e1\"",
            "Surrogate-Key: a b",
        ];
        reply.ok(&fields, kind);
    });
    let larder = with_admin(&origin);
    let admin = Admin::of(&larder);
    get_with(larder.addr(), "/v?x=1", &["X-Kind: one"]);
    get_with(larder.addr(), "/v?x=1", &["X-Kind: two"]);
    get_with(larder.addr(), "/v?x=1", &["X-Kind: two"]).assert_hit();
    let object = admin.json("/api/v1/object?url=http://site.test/v?x=1");
    let variants = object["variants"].as_array().unwrap();
    assert_eq!(variants.len(), 2, "{object}");
    let kinds: Vec<&str> = variants.iter().map(|v| v["vary"]["x-kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["one", "two"]);
    let two = &variants[1];
    assert_eq!(
        (&two["status"], &two["etag"], &two["tags"]),
        (&json!(200), &json!("\"e1\""), &json!(["a", "b"]))
    );
    assert_eq!(
        (&two["state"], &two["freshness_s"], &two["initial_age_s"]),
        (&json!("fresh"), &json!(600), &json!(100))
    );
    let sum = |a: &str, b: &str| two[a].as_i64().unwrap() + two[b].as_i64().unwrap();
    assert_eq!(sum("initial_age_s", "resident_s"), two["age_s"].as_i64().unwrap());
    assert_eq!(sum("age_s", "ttl_s"), 600);
    assert_eq!((&variants[0]["read"], &two["read"]), (&json!(false), &json!(true)));
    assert!(two["head"].as_array().unwrap().iter().any(|line| line == "Vary: X-Kind"), "{two}");
    let body = admin.get("/api/v1/object?url=http://site.test/v?x=1&body=1&variant=1");
    assert_eq!(body.text(), "two of /v?x=1");
    assert_eq!(body.get("content-type"), Some("application/octet-stream"));
    assert!(body.get("content-disposition").unwrap().starts_with("attachment"));
    assert_eq!(admin.get("/api/v1/object?url=http://site.test/v?x=1&body=1&variant=2").status, 404);
    wait_until("the variants to be gone", || {
        admin.purge(&json!({"url": "http://site.test/v?x=1"}));
        admin.get("/api/v1/object?url=http://site.test/v?x=1").status == 404
    });
}
