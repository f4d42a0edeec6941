//! Servers that are out: how they come back, and that no visitor waits for one meanwhile.

#![allow(clippy::unwrap_used)]

use larder_tests::{
    Admin, Gate, Larder, Origin, Seen, get, get_with, refusing::Refusing, wait_until,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

const FRESH: &[&str] = &["Cache-Control: max-age=1000"];

/// One worker before a server and a backup, with lines for the table of the origin.
fn before(main: &str, backup: &str, lines: &str) -> Larder {
    Larder::with_config(&format!(
        "threads = 1\n[http]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[[site]]\n[site.origin]\nurl = \
         [\"{main}\", \"{backup} backup\"]\n{lines}\n"
    ))
}

fn healthy(larder: &Larder, url: &str) -> u64 {
    Admin::of(larder).metric(&format!("larder_origin_healthy{{origin=\"{url}\"}}"))
}

/// Asks for pages, none of which is stored, until the server is out.
#[track_caller]
fn until_out(larder: &Larder, url: &str) {
    let number = AtomicUsize::new(0);
    wait_until("the server to be out", || {
        get(larder.addr(), &format!("/until/{}", number.fetch_add(1, SeqCst))).assert_status(200);
        healthy(larder, url) == 0
    });
}

fn post(larder: &Larder, target: &str) -> larder_tests::Answer {
    let mut wire = larder.connect();
    wire.send(format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\norder"));
    wire.read_for("POST")
}

#[test]
fn a_server_comes_back_where_visitors_send_orders_alone() {
    let (main, backup) = (Refusing::new(), Origin::serving(FRESH, "backup"));
    let larder = before(&main.url(), &backup.url(), "max_failures = 1\nfailure_pause = \"20ms\"");
    assert_eq!(post(&larder, "/order").text(), "backup");
    assert_eq!(healthy(&larder, &main.url()), 0);
    let again = main.serve(|_, reply| {
        reply.ok(FRESH, "main");
    });
    wait_until("the main server to be asked again", || post(&larder, "/order").text() == "main");
    let trial = again.requests().into_iter().next().unwrap();
    assert_eq!((&*trial.method, &*trial.target, trial.get("host")), ("HEAD", "/order", Some("a")));
}

#[test]
fn no_visitor_waits_for_a_server_that_is_tried_again() {
    let refusing = Refusing::new();
    let good = Origin::serving(FRESH, "good");
    let larder = before(
        &refusing.url(),
        &good.url(),
        "max_failures = 1\nfailure_pause = \"1ms\"\nfirst_byte_timeout = \"1h\"",
    );
    until_out(&larder, &refusing.url());
    // From now on it accepts connections, and never answers.
    let frozen = refusing.freeze();
    let number = AtomicUsize::new(0);
    wait_until("a trial", || {
        let page = get(larder.addr(), &format!("/{}", number.fetch_add(1, SeqCst)));
        assert_eq!(page.text(), "good");
        frozen.is_asked()
    });
    for number in 0..20 {
        assert_eq!(get(larder.addr(), &format!("/after/{number}")).text(), "good");
    }
}

#[test]
fn a_server_with_enough_requests_does_not_send_visitors_to_one_that_is_out() {
    let refusing = Refusing::new();
    let gate = Gate::closed();
    let (entered, open) = (Arc::new(AtomicUsize::new(0)), gate.clone());
    let count = entered.clone();
    let good = Origin::start(move |seen, reply| {
        if seen.target == "/held" {
            count.fetch_add(1, SeqCst);
            open.wait();
        }
        reply.ok(FRESH, "good");
    });
    let larder = before(
        &refusing.url(),
        &good.url(),
        "max_requests = 1\nmax_failures = 1\nfailure_pause = \"1h\"\nfirst_byte_timeout = \"1h\"",
    );
    until_out(&larder, &refusing.url());
    let _frozen = refusing.freeze();
    let addr = larder.addr();
    let held = thread::spawn(move || get(addr, "/held").status);
    wait_until("the held request", || entered.load(SeqCst) == 1);
    let refused = get(addr, "/other");
    assert_eq!((refused.status, refused.get("retry-after")), (503, Some("1")));
    gate.open();
    assert_eq!(held.join().unwrap(), 200);
}

#[test]
fn an_error_page_is_not_sent_on_to_a_server_that_is_out() {
    let refusing = Refusing::new();
    let broken = AtomicBool::new(false);
    let good = Origin::start(move |seen, reply| {
        if seen.target == "/break" {
            broken.store(true, SeqCst);
        }
        let status = if broken.load(SeqCst) { 500 } else { 200 };
        reply.answer(status, &["Cache-Control: no-store"], "good");
    });
    let larder = before(
        &refusing.url(),
        &good.url(),
        "max_failures = 1\nfailure_pause = \"1h\"\nfirst_byte_timeout = \"1h\"",
    );
    until_out(&larder, &refusing.url());
    let _frozen = refusing.freeze();
    assert_eq!(get(larder.addr(), "/break").status, 500);
    assert_eq!(get(larder.addr(), "/page").status, 500);
}

#[test]
fn where_no_other_answers_one_that_is_out_is_asked() {
    let refusing = Refusing::new();
    let good = Origin::serving(FRESH, "good");
    let larder = before(&refusing.url(), &good.url(), "max_failures = 1\nfailure_pause = \"1h\"");
    until_out(&larder, &refusing.url());
    let back = refusing.serve(|_, reply| {
        reply.ok(FRESH, "back");
    });
    good.stop();
    assert_eq!(get(larder.addr(), "/page").text(), "back");
    assert_eq!(healthy(&larder, &back.url()), 1, "its answer brings it back");
}

#[test]
fn an_error_page_that_is_not_sent_on_does_not_forgive_failures() {
    let main = Origin::start(|seen, reply| {
        if seen.method == "POST" {
            reply.answer(500, &[], "broken");
        } else {
            reply.close();
        }
    });
    let backup = Origin::serving(FRESH, "backup");
    let larder = before(&main.url(), &backup.url(), "failure_pause = \"1h\"");
    for number in 0..2 {
        assert_eq!(get(larder.addr(), &format!("/{number}")).text(), "backup");
    }
    assert_eq!(post(&larder, "/order").status, 500);
    assert_eq!(get(larder.addr(), "/3").text(), "backup");
    assert_eq!(healthy(&larder, &main.url()), 0, "the third failure in a row");
    assert_eq!(post(&larder, "/order").text(), "backup");
}

#[test]
fn the_time_limit_is_that_of_all_tries_together() {
    let gate = Gate::closed();
    let open = gate.clone();
    let slow = Origin::start(move |_, reply| {
        open.wait();
        reply.ok(FRESH, "slow");
    });
    let backup = Origin::serving(FRESH, "backup");
    let larder = before(&slow.url(), &backup.url(), "total_timeout = \"200ms\"");
    assert_eq!(get(larder.addr(), "/page").status, 504);
    assert_eq!(backup.count(), 0);
    gate.open();
}

#[test]
fn a_slow_upload_is_not_the_servers_fault() {
    let (main, backup) = (Origin::serving(FRESH, "main"), Origin::serving(FRESH, "backup"));
    let larder = before(
        &main.url(),
        &backup.url(),
        "max_failures = 1\nfailure_pause = \"1h\"\ntotal_timeout = \"2s\"",
    );
    let mut wire = larder.connect();
    // Longer than what is read before the origin is asked.
    wire.send("POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nslow");
    assert_eq!(wire.read_for("POST").status, 408);
    assert_eq!(healthy(&larder, &main.url()), 1);
    let failed = format!(
        "larder_origin_failures_total{{origin=\"{}\",reason=\"upload-timeout\"}}",
        main.url()
    );
    assert_eq!(Admin::of(&larder).metric(&failed), 1);
    assert_eq!(get(larder.addr(), "/page").text(), "main");
}

#[test]
fn a_server_that_a_reload_takes_away_has_no_state_any_more() {
    let (one, other) = (Origin::serving(FRESH, "one"), Origin::serving(FRESH, "other"));
    let config = |url: &str| {
        format!(
            "[http]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[[site]]\norigin = \
             \"{url}\"\n"
        )
    };
    let larder = Larder::with_config(&config(&one.url()));
    get(larder.addr(), "/").assert_status(200);
    let servers = |origin: &Origin| {
        let name = format!("larder_origin_servers{{origin=\"{}\"}}", origin.url());
        Admin::of(&larder).metric(&name)
    };
    assert_eq!(servers(&one), 1);
    larder.rewrite_config(&config(&other.url()));
    larder.hup();
    wait_until("the reload", || larder.stderr().contains("reloaded"));
    get(larder.addr(), "/new").assert_status(200);
    wait_until("the earlier server to be gone", || servers(&one) == 0);
    assert_eq!(servers(&other), 1);
}

#[test]
fn interim_answers_are_changed_as_answers_are() {
    let origin = Origin::start(|_: &Seen, reply| {
        reply.head(103, &["Link: </a.css>; rel=preload", "X-Inside: 1", "X-Old: 1"]);
        reply.ok(FRESH, "page");
    });
    let larder = Larder::site(
        &origin.url(),
        "response_fields = [\"-X-Inside\", \"X-Old: new\", \"X-Frame-Options: DENY\"]",
    );
    let mut wire = larder.connect();
    wire.send_get("/page", &["Host: site.test"]);
    let hints = wire.read_head();
    assert_eq!(hints.status, 103);
    assert_eq!(hints.fields.joined("link"), "</a.css>; rel=preload");
    assert_eq!((hints.fields.get("x-inside"), hints.fields.get("x-old")), (None, Some("new")));
    assert_eq!(hints.fields.get("x-frame-options"), None, "it has none to be replaced");
    let page = wire.read();
    assert_eq!((page.text(), page.get("x-frame-options")), ("page", Some("DENY")));
    get_with(larder.addr(), "/page", &[]).assert_hit();
}
