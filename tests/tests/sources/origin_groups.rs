//! Origins of several servers: who gets a request, and that no visitor sees a failure where another
//! server could answer.

#![allow(clippy::unwrap_used)]

use larder_tests::refusing::{Frozen, Refusing};
use larder_tests::{
    Admin, Gate, Larder, Origin, Reply, Seen, Wire, get, get_with, larder::binary, wait_until,
};
use std::collections::HashMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

const FRESH: &[&str] = &["Cache-Control: max-age=1000"];

/// A server that answers everything with its name.
fn named(name: &'static str) -> Origin {
    Origin::serving(FRESH, name)
}

/// A server that answers everything with 500.
fn failing() -> Origin {
    Origin::start(|_, reply| {
        reply.answer(500, &[], "broken");
    })
}

fn list<'a>(urls: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = urls.into_iter().map(|url| format!("{url:?}")).collect();
    format!("[{}]", quoted.join(", "))
}

/// One worker before these servers, with lines for the table of the origin.
fn before_urls(urls: &[&str], lines: &str) -> Larder {
    let urls = list(urls.iter().copied());
    Larder::with_config(&format!(
        "threads = 1\n[http]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
         [[site]]\n[site.origin]\nurl = {urls}\n{lines}\n"
    ))
}

fn before(origins: &[&Origin], lines: &str) -> Larder {
    let urls: Vec<String> = origins.iter().map(|origin| origin.url()).collect();
    before_urls(&urls.iter().map(String::as_str).collect::<Vec<_>>(), lines)
}

/// The bodies of this many pages, none of which is stored yet; all must be good.
#[track_caller]
fn pages(larder: &Larder, prefix: &str, count: usize) -> HashMap<String, usize> {
    let mut bodies = HashMap::new();
    for number in 0..count {
        let answer = get(larder.addr(), &format!("/{prefix}/{number}"));
        assert_eq!(answer.status, 200, "{prefix} {number}");
        *bodies.entry(answer.text().to_owned()).or_default() += 1;
    }
    bodies
}

/// A figure of one server.
fn figure(larder: &Larder, family: &str, origin: &str) -> Option<u64> {
    let answer = Admin::of(larder).get("/metrics");
    let begin = format!("{family}{{origin=\"{origin}\"}} ");
    answer.text().lines().find_map(|line| line.strip_prefix(&begin)?.parse().ok())
}

#[test]
fn round_robin_follows_the_weights() {
    let (one, other) = (named("one"), named("other"));
    let urls = [format!("{} weight=3", one.url()), other.url()];
    let larder = before_urls(&[&urls[0], &urls[1]], "balance = \"round-robin\"");
    let bodies = pages(&larder, "p", 12);
    assert_eq!((bodies["one"], bodies["other"]), (9, 3));
    let sequence: Vec<String> = (0..4)
        .map(|number| get(larder.addr(), &format!("/s/{number}")).text().to_owned())
        .collect();
    assert_eq!(sequence.iter().filter(|body| *body == "other").count(), 1, "{sequence:?}");
}

#[test]
fn a_busy_server_gets_no_request_while_another_has_none() {
    let gate = Gate::closed();
    let holding = |name: &'static str| {
        let gate = gate.clone();
        Origin::start(move |seen, reply| {
            if seen.target == "/held" {
                gate.wait();
            }
            reply.ok(FRESH, name);
        })
    };
    let (one, other) = (holding("one"), holding("other"));
    let larder = before(&[&one, &other], "");
    let addr = larder.addr();
    let held = thread::spawn(move || get(addr, "/held").text().to_owned());
    wait_until("the held request", || one.count() + other.count() == 1);
    let busy = if one.count() == 1 { "one" } else { "other" };
    let bodies = pages(&larder, "p", 20);
    assert!(!bodies.contains_key(busy), "{busy}: {bodies:?}");
    gate.open();
    assert_eq!(held.join().unwrap(), busy);
}

#[test]
fn a_backup_is_asked_only_while_no_other_can_answer() {
    let (main, backup) = (named("main"), named("backup"));
    let urls = [main.url(), format!("{} backup", backup.url())];
    let larder = before_urls(&[&urls[0], &urls[1]], "failure_pause = \"100ms\"");
    assert_eq!(pages(&larder, "before", 10)["main"], 10);
    let address = main.addr();
    main.stop();
    assert_eq!(pages(&larder, "down", 10)["backup"], 10);
    let _again = Origin::at(address, |_, reply| {
        reply.ok(FRESH, "main");
    })
    .unwrap();
    let number = AtomicUsize::new(0);
    wait_until("the main server to be asked again", || {
        let number = number.fetch_add(1, SeqCst);
        get(larder.addr(), &format!("/again/{number}")).text() == "main"
    });
    assert_eq!(pages(&larder, "after", 10)["main"], 10);
}

#[test]
fn a_url_goes_to_the_same_server_in_every_process() {
    let (one, other) = (named("one"), named("other"));
    let map = |larder: &Larder| -> Vec<String> {
        let page = |number| get(larder.addr(), &format!("/{number}")).text().to_owned();
        (0..40).map(page).collect()
    };
    let first = map(&before(&[&one, &other], "balance = \"hash:url\""));
    // The order of the list is of no matter.
    let second = map(&before(&[&other, &one], "balance = \"hash:url\""));
    assert_eq!(first, second);
    assert!(first.contains(&"one".to_owned()) && first.contains(&"other".to_owned()));
}

#[test]
fn a_cookie_goes_to_the_same_server() {
    let (one, other) = (named("one"), named("other"));
    let urls = list([one.url().as_str(), other.url().as_str()]);
    let larder = Larder::with_config(&format!(
        "[[site]]\nbypass_cookies = \"sid\"\n[site.origin]\nurl = {urls}\nbalance = \"hash:cookie \
         sid\"\n"
    ));
    let of = |cookie: &str| {
        let ask = |number: usize| {
            let cookie = format!("Cookie: other=1; sid={cookie}");
            get_with(larder.addr(), &format!("/{number}"), &[&cookie]).text().to_owned()
        };
        let first = ask(0);
        assert!((1..5).all(|number| ask(number) == first), "{cookie}");
        first
    };
    let servers: Vec<String> = (0..20).map(|number| of(&format!("s{number}"))).collect();
    assert!(servers.contains(&"one".to_owned()) && servers.contains(&"other".to_owned()));
}

/// One of three servers behaves like this: every visitor gets a page, and it is soon left alone.
#[track_caller]
fn is_left_alone(url: &str, lines: &str) {
    let (one, other) = (named("one"), named("other"));
    let urls = [one.url(), url.to_owned(), other.url()];
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let larder = before_urls(&urls, &format!("failure_pause = \"1h\"\n{lines}"));
    let bodies = pages(&larder, "p", 40);
    assert_eq!(bodies["one"] + bodies["other"], 40);
    assert_eq!(figure(&larder, "larder_origin_healthy", url), Some(0), "it is out");
    assert_eq!(figure(&larder, "larder_origin_sent_elsewhere_total", url), Some(3));
    assert_eq!(figure(&larder, "larder_origin_healthy", &one.url()), Some(1));
    assert_eq!(figure(&larder, "larder_origin_servers", &one.url()), Some(1));
}

#[test]
fn a_server_that_refuses_is_left_alone() {
    let refusing = Refusing::new();
    is_left_alone(&refusing.url(), "");
}

#[test]
fn a_server_that_answers_500_is_left_alone() {
    let broken = failing();
    is_left_alone(&broken.url(), "");
    assert_eq!(broken.count(), 3);
}

#[test]
fn a_server_that_speaks_no_http_is_left_alone() {
    let odd = Origin::start(|_, reply| {
        reply.raw("SSH-2.0-OpenSSH_9.2\r\n").close();
    });
    is_left_alone(&odd.url(), "");
}

#[test]
fn a_server_that_closes_without_an_answer_is_left_alone() {
    let closing = Origin::start(|_, reply| {
        reply.close();
    });
    is_left_alone(&closing.url(), "");
}

#[test]
fn a_frozen_server_is_left_alone() {
    let frozen = Frozen::start();
    is_left_alone(&frozen.url(), "first_byte_timeout = \"100ms\"");
}

/// Eight visitors at once see no failure while one of three servers behaves like this.
#[track_caller]
fn fails_no_visitor(url: &str, lines: &str) {
    let (one, other) = (named("one"), named("other"));
    let urls = list([&*one.url(), url, &*other.url()]);
    let larder = Larder::with_config(&format!(
        "threads = 2\n[[site]]\n[site.origin]\nurl = {urls}\nfailure_pause = \"50ms\"\n{lines}\n"
    ));
    let addr = larder.addr();
    let visitors = (0..8).map(|visitor| {
        thread::spawn(move || {
            let mut wire = Wire::connect(addr);
            for number in 0..50 {
                let answer = wire.get(&format!("/{visitor}/{number}"), &[]);
                assert_eq!(answer.status, 200, "{visitor} {number}");
            }
        })
    });
    visitors.collect::<Vec<_>>().into_iter().for_each(|visitor| visitor.join().unwrap());
    assert_eq!(one.count() + other.count(), 400, "each was answered once");
}

#[test]
fn a_dead_server_fails_none_of_many_visitors() {
    let refusing = Refusing::new();
    fails_no_visitor(&refusing.url(), "");
}

#[test]
fn a_server_with_500_fails_none_of_many_visitors() {
    fails_no_visitor(&failing().url(), "");
}

#[test]
fn a_frozen_server_fails_none_of_many_visitors() {
    let frozen = Frozen::start();
    fails_no_visitor(&frozen.url(), "first_byte_timeout = \"1s\"");
}

#[test]
fn a_server_that_flaps_fails_no_visitor() {
    let steady = named("steady");
    let flapping = Origin::start(|seen, reply| {
        let status = if seen.number % 4 < 2 { 200 } else { 503 };
        reply.answer(status, FRESH, "flapping");
    });
    let larder = before(
        &[&steady, &flapping],
        "failure_pause = \"1ms\"\nmax_failures = 1\nslow_start = \"0s\"",
    );
    let (rounds, times) = (AtomicUsize::new(0), AtomicUsize::new(0));
    wait_until("the server to come back again and again", || {
        let prefix = rounds.fetch_add(1, SeqCst).to_string();
        let flapping = pages(&larder, &prefix, 10).remove("flapping").unwrap_or_default();
        times.fetch_add(flapping, SeqCst) + flapping >= 5
    });
}

#[test]
fn a_page_that_fails_everywhere_takes_no_server_out() {
    let script = |seen: &Seen, reply: &mut Reply| {
        let status = if seen.target.starts_with("/broken") { 500 } else { 200 };
        reply.answer(status, &[], "an answer");
    };
    let (one, other) = (Origin::start(script), Origin::start(script));
    let larder = before(&[&one, &other], "");
    for number in 0..9 {
        let answer = get(larder.addr(), &format!("/broken/{number}"));
        assert_eq!((answer.status, answer.text()), (500, "an answer"));
    }
    for origin in [&one, &other] {
        assert_eq!(figure(&larder, "larder_origin_healthy", &origin.url()), Some(1));
        assert!(origin.count() >= 9, "each was asked for each");
    }
}

#[test]
fn retries_do_not_multiply_an_outage() {
    let (one, other, third) = (failing(), failing(), failing());
    let larder = before(&[&one, &other, &third], "");
    for number in 0..200 {
        assert_eq!(get(larder.addr(), &format!("/{number}")).status, 500);
    }
    let asked = one.count() + other.count() + third.count();
    // 10 saved ones, 10 % of the requests, and one a second on a slow machine.
    assert!(asked > 210, "{asked}: there are retries");
    assert!(asked <= 200 + 10 + 20 + 60, "{asked}");
}

#[test]
fn what_was_sent_is_sent_again_only_if_it_is_safe() {
    let closing = Origin::start(|_, reply| {
        reply.close();
    });
    let good = named("good");
    let urls = [closing.url(), format!("{} backup", good.url())];
    let larder = before_urls(&[&urls[0], &urls[1]], "");
    let mut wire = larder.connect();
    wire.send("POST /order HTTP/1.1\r\nHost: site.test\r\nContent-Length: 5\r\n\r\norder");
    assert_eq!(wire.read_for("POST").status, 502);
    assert_eq!((closing.count(), good.count()), (1, 0), "it may have been executed");
    assert_eq!(get(larder.addr(), "/page").text(), "good");
}

#[test]
fn what_was_not_sent_goes_elsewhere_with_its_body() {
    let echo = Origin::start(|seen, reply| {
        reply.ok(&[], &seen.body);
    });
    let refusing = Refusing::new();
    let urls = [refusing.url(), format!("{} backup", echo.url())];
    let larder = before_urls(&[&urls[0], &urls[1]], "");
    let mut wire = larder.connect();
    for number in 0..3 {
        let body = format!("order {number}");
        let length = body.len();
        wire.send(format!(
            "POST /order HTTP/1.1\r\nHost: site.test\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
        assert_eq!(wire.read_for("POST").text(), body);
    }
    assert_eq!(echo.count(), 3);
}

#[test]
fn the_last_server_is_always_asked() {
    let failures = Arc::new(AtomicUsize::new(0));
    let counted = failures.clone();
    let last = Origin::start(move |_, reply| {
        if counted.fetch_add(1, SeqCst) < 8 {
            reply.close();
        } else {
            reply.ok(FRESH, "last");
        }
    });
    let refusing = Refusing::new();
    let dead = refusing.url();
    let larder = before_urls(&[&last.url(), &dead], "failure_pause = \"1h\"");
    let good = (0..40).filter(|number| get(larder.addr(), &format!("/{number}")).status == 200);
    assert!(good.count() >= 30);
    assert_eq!(figure(&larder, "larder_origin_healthy", &last.url()), Some(1));
}

#[test]
fn where_every_server_is_busy_a_stale_page_or_503_comes_at_once() {
    let gate = Gate::closed();
    let (entered, open) = (Arc::new(AtomicUsize::new(0)), gate.clone());
    let count = entered.clone();
    let slow = Origin::start(move |seen, reply| {
        if seen.target == "/slow" {
            count.fetch_add(1, SeqCst);
            open.wait();
        }
        reply.ok(&["Cache-Control: max-age=1", "Age: 5", "ETag: \"1\""], "page");
    });
    let larder = before(&[&slow], "max_requests = 1");
    let addr = larder.addr();
    assert_eq!(get(addr, "/page").text(), "page");
    let held = thread::spawn(move || get(addr, "/slow").status);
    wait_until("the slow request", || entered.load(SeqCst) == 1);
    let name = "larder_origin_requests_under_way";
    assert_eq!(figure(&larder, name, &slow.url()), Some(1));
    let refused = get(addr, "/other");
    assert_eq!((refused.status, refused.get("retry-after")), (503, Some("1")));
    assert_eq!(get(addr, "/page").text(), "page", "the stale page");
    gate.open();
    assert_eq!(held.join().unwrap(), 200);
    wait_until("the place to be free", || figure(&larder, name, &slow.url()) == Some(0));
    assert_eq!(get(addr, "/other").status, 200);
}

#[test]
fn a_server_whose_check_fails_gets_no_visitor_until_one_succeeds() {
    let well = Arc::new(AtomicBool::new(true));
    let state = well.clone();
    let one = Origin::start(move |seen, reply| match (&*seen.target, state.load(SeqCst)) {
        ("/ping?x", true) => {
            reply.ok(&[], "pong: all is well");
        }
        ("/ping?x", false) => {
            reply.ok(&[], "no database");
        }
        _ => {
            reply.ok(FRESH, "one");
        }
    });
    let other = Origin::start(|seen, reply| {
        let body = if seen.target == "/ping?x" { "all is well" } else { "other" };
        reply.ok(FRESH, body);
    });
    let larder = before(
        &[&one, &other],
        "slow_start = \"0s\"\nhealth = { path = \"/ping?x\", interval = \"10ms\", status = \"2xx\", \
         body = \"all is well\", host = \"check.test\" }",
    );
    let healthy = || figure(&larder, "larder_origin_healthy", &one.url());
    assert!(pages(&larder, "before", 40).contains_key("one"));
    let is_check = |seen: &Seen| seen.target == "/ping?x";
    wait_until("a check", || one.requests().iter().any(is_check));
    let check = one.requests().into_iter().find(is_check).unwrap();
    assert_eq!((check.get("host"), &*check.method), (Some("check.test"), "GET"));
    well.store(false, SeqCst);
    wait_until("the check to fail", || healthy() == Some(0));
    assert_eq!(pages(&larder, "unwell", 20)["other"], 20);
    wait_until("the reason", || larder.stderr().contains("is not in the page"));
    well.store(true, SeqCst);
    wait_until("the check to succeed", || healthy() == Some(1));
    assert!(pages(&larder, "after", 40).contains_key("one"));
}

#[test]
fn one_worker_checks_for_all() {
    let (checks, gate) = (Arc::new(AtomicUsize::new(0)), Gate::closed());
    let (counted, open) = (checks.clone(), gate.clone());
    let origin = Origin::start(move |seen, reply| {
        if seen.target == "/ping" {
            counted.fetch_add(1, SeqCst);
            open.wait();
        }
        reply.ok(FRESH, "page");
    });
    let larder = Larder::with_config(&format!(
        "threads = 4\n[[site]]\n[site.origin]\nurl = \"{}\"\nhealth = {{ path = \"/ping\", \
         interval = \"10ms\", timeout = \"1h\" }}\n",
        origin.url()
    ));
    wait_until("a check", || checks.load(SeqCst) > 0);
    for number in 0..40 {
        assert_eq!(get(larder.addr(), &format!("/{number}")).status, 200);
    }
    assert_eq!(checks.load(SeqCst), 1, "the first one waits for its answer");
    gate.open();
}

#[test]
fn a_reload_keeps_what_is_known_of_servers() {
    let good = named("good");
    let broken = failing();
    let config = |extra: &str| {
        format!(
            "threads = 1\n[admin]\nlisten = \"127.0.0.1:0\"\n[[site]]\nttl = \"{extra}\"\n\
             [site.origin]\nurl = [\"{}\", \"{}\"]\nfailure_pause = \"1h\"\n",
            good.url(),
            broken.url()
        )
    };
    let larder = Larder::with_config(&config("1h"));
    pages(&larder, "before", 20);
    assert_eq!(broken.count(), 3);
    larder.rewrite_config(&config("2h"));
    larder.hup();
    wait_until("the reload", || larder.stderr().contains("reloaded"));
    assert_eq!(pages(&larder, "after", 20)["good"], 20);
    assert_eq!(broken.count(), 3, "it is still out");
}

#[test]
fn the_flag_can_be_given_several_times() {
    let (one, other) = (named("one"), named("other"));
    let (first, second) = (one.url(), other.url());
    let args = ["--http", "127.0.0.1:0", "--origin", &first, "--origin", &second];
    let larder = Larder::serve(&args);
    let bodies = pages(&larder, "p", 60);
    assert!(bodies["one"] > 0 && bodies["other"] > 0, "{bodies:?}");
}

#[test]
fn mistakes_in_a_list_are_told() {
    for (urls, expected) in [
        ("[\"http://a\", \"fcgi://b:9000\"]", "speak the same protocol"),
        ("[\"http://a backup\"]", "every server is a backup"),
        ("[\"http://a weight=0\"]", "a weight from 1 to 1000"),
        ("[\"files:/a\", \"files:/b\"]", "files have one directory"),
        ("[\"http://a\", \"http://A:80 weight=2\"]", "a server twice"),
        ("{ url = \"http://a\", health = { path = \"/\", body = \"\" } }", "expected a text"),
        ("[]", "without a server"),
    ] {
        let scratch = larder_tests::Scratch::new("group");
        let file = scratch.write("larder.toml", &format!("[[site]]\norigin = {urls}\n"));
        let output = Command::new(binary()).arg("check").arg(&file).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(expected), "{urls}: {text}");
    }
}

#[test]
fn doubts_about_names_are_told() {
    for (origin, expected) in [
        (
            "url = \"http://127.0.0.1\"\nresolve = \"1s\"",
            Some("`resolve` is for origins with names"),
        ),
        ("url = \"http://a\"\nbalance = \"round-robin\"", Some("`balance` is for origins with")),
        // Its addresses are several servers.
        ("url = \"http://a\"\nresolve = \"1s\"\nbalance = \"round-robin\"", None),
    ] {
        let scratch = larder_tests::Scratch::new("group");
        let file = scratch.write("larder.toml", &format!("[[site]]\n[site.origin]\n{origin}\n"));
        let output = Command::new(binary()).arg("check").arg(&file).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{origin}: {text}");
        assert!(expected.map_or(text.is_empty(), |word| text.contains(word)), "{origin}: {text}");
    }
}
