//! Watching by server-sent events: requests as they end, figures every second.

#![allow(clippy::unwrap_used)]

use larder_tests::{Admin, Larder, Origin, get, get_with, wait_until};
use serde_json::json;

fn with_admin(origin: &Origin, lines: &str) -> Larder {
    Larder::with_config(&format!(
        "[[site]]\nhosts = [\"site.test\"]\norigin = \"{0}\"\n[[site]]\nhosts = \
         [\"other.test\"]\norigin = \"{0}\"\npurge = {{ from = [\"127.0.0.1\"] }}\n[http]\nlisten \
         = [\"127.0.0.1:0\"]\n{lines}\n[admin]\nlisten = [\"127.0.0.1:0\"]\n",
        origin.url()
    ))
}

fn kinds() -> Origin {
    Origin::start(|seen, reply| {
        match seen.path() {
            "/missing" => reply.answer(404, &["Cache-Control: max-age=60"], "none"),
            "/broken" => reply.answer(503, &["Cache-Control: no-store"], "down"),
            _ => reply.ok(&["Cache-Control: max-age=600", "Content-Type: text/plain"], "page"),
        };
    })
}

#[test]
fn a_request_is_told_with_what_became_of_it() {
    let origin = kinds();
    let larder = with_admin(&origin, "");
    let admin = Admin::of(&larder);
    let mut all = admin.watch("/api/v1/log");
    // One after the other: each worker tells of its own after it has answered.
    get(larder.addr(), "/page?x=1");
    let miss = all.next_of("request");
    assert_eq!(
        (&miss["url"], &miss["method"]),
        (&json!("http://site.test/page?x=1"), &json!("GET"))
    );
    assert_eq!((&miss["result"], &miss["outcome"]), (&json!("TCP_MISS"), &json!("miss")));
    assert_eq!((&miss["status"], &miss["site"]), (&json!(200), &json!("site.test")));
    assert_eq!(
        (&miss["client"], &miss["content_type"]),
        (&json!("127.0.0.1"), &json!("text/plain"))
    );
    assert!(miss["hierarchy"].as_str().unwrap().ends_with("/127.0.0.1"), "{miss}");
    get(larder.addr(), "/page?x=1").assert_hit();
    let hit = all.next_of("request");
    assert_eq!((&hit["result"], &hit["outcome"]), (&json!("TCP_MEM_HIT"), &json!("hit")));
    assert!(hit["time_ms"].as_u64() >= miss["time_ms"].as_u64());
    larder.connect().ask("PURGE", "/page?x=1", &["Host: other.test"]);
    let purge = all.next_of("request");
    assert_eq!((&purge["outcome"], &purge["site"]), (&json!("purge"), &json!("other.test")));
}

#[test]
fn filters_choose() {
    let origin = kinds();
    let larder = with_admin(&origin, "");
    let admin = Admin::of(&larder);
    let filters = [
        ("url=/missing", 2),
        ("regex=%5Ehttp://site%5C.test/%28missing%7Cbroken%29$", 3),
        ("status=404", 2),
        ("status=404,5xx", 3),
        ("result=hit", 2),
        ("result=TCP_NEGATIVE_HIT", 1),
        ("site=other.test", 1),
        ("method=HEAD", 1),
        ("slower_than_ms=3600000", 0),
        ("url=page&result=hit", 1),
    ];
    let mut watchers: Vec<_> =
        filters.iter().map(|(query, _)| admin.watch(&format!("/api/v1/log?{query}"))).collect();
    for path in ["/page", "/page", "/missing", "/missing", "/broken"] {
        get(larder.addr(), path);
    }
    larder.connect().ask("GET", "/page2", &["Host: other.test"]);
    larder.connect().ask("HEAD", "/page3", &["Host: site.test"]);
    // One request that every filter lets through is not to be had: a count of what came before the
    // end of all.
    larder.connect().get("/end", &[]);
    let mut end = admin.watch("/api/v1/log?url=/end2&limit=1");
    get(larder.addr(), "/end2");
    end.next_of("request");
    assert!(end.next_event().is_none(), "the limit ends it");
    for ((query, expected), watcher) in filters.iter().zip(&mut watchers) {
        for number in 0..*expected {
            let (name, data) =
                watcher.next_event().unwrap_or_else(|| panic!("{query}: ended after {number}"));
            assert_eq!(name, "request", "{query}: {data}");
        }
    }
}

#[test]
fn who_does_not_read_loses_lines_and_is_told_while_others_go_on() {
    let origin = kinds();
    let larder = with_admin(&origin, "");
    let admin = Admin::of(&larder);
    get(larder.addr(), "/page");
    let mut slow = larder_tests::Wire::connect_narrow(admin.addr);
    slow.send(admin.request("GET", "/api/v1/log", &[], b""));
    assert_eq!(slow.read_head().status, 200);
    let long = "x".repeat(3000);
    let mut wire = larder.connect();
    for _ in 0..6000 {
        wire.get(&format!("/page?{long}"), &[]);
    }
    get(larder.addr(), "/page").assert_hit();
    let mut text = String::new();
    let mut read = 0;
    while !text.contains("event: dropped") {
        let chunk = slow.read_chunk().unwrap().unwrap();
        read += chunk.len();
        // Events may be cut by chunks: what was seen last is kept.
        let kept = text.len().saturating_sub(64);
        text = format!("{}{}", &text[kept..], String::from_utf8_lossy(&chunk));
        if read.is_multiple_of(7) {
            get(larder.addr(), "/page");
        }
    }
    assert!(read < 6000 * 3000, "nothing was lost");
}

#[test]
fn figures_come_every_second() {
    let origin = kinds();
    let larder = with_admin(&origin, "");
    let admin = Admin::of(&larder);
    let mut live = admin.watch("/api/v1/live");
    let mut hist = admin.watch("/api/v1/hist");
    let first = live.next_of("stats");
    assert_eq!(first["version"], 1);
    get(larder.addr(), "/page");
    get_with(larder.addr(), "/page", &[]).assert_hit();
    let mut last = first["now_ms"].as_u64().unwrap();
    wait_until("the requests to be told", || {
        let stats = live.next_of("stats");
        let now = stats["now_ms"].as_u64().unwrap();
        assert!(now >= last, "time does not go back");
        last = now;
        stats["http"]["requests"] == 2
    });
    let (mut hits, mut misses) = (0, 0);
    wait_until("the latencies to be told", || {
        let interval = hist.next_of("hist");
        hits += interval["hit"]["count"].as_u64().unwrap();
        misses += interval["miss"]["count"].as_u64().unwrap();
        hits == 1 && misses == 1
    });
    let history = admin.json("/api/v1/history");
    let requests = history["columns"]["requests"].as_array().unwrap();
    assert_eq!(requests.iter().map(|n| n.as_u64().unwrap()).sum::<u64>(), 2, "{requests:?}");
}

#[test]
fn watching_needs_no_access_log_and_ends_with_the_server() {
    let origin = kinds();
    let mut larder = with_admin(&origin, "");
    let admin = Admin::of(&larder);
    let mut all = admin.watch("/api/v1/log");
    get(larder.addr(), "/page");
    all.next_of("request");
    larder.term();
    assert!(larder.wait_exit().success());
}
