//! Limits of requests and connections at a server, fixed ones and one that follows its latency.

#![allow(clippy::unwrap_used)]

use larder_tests::{Admin, Gate, Larder, Origin, SlowProxy, Wire, get, wait_until};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const VISITORS: usize = 100;

fn before(url: &str, lines: &str) -> Larder {
    Larder::with_config(&format!(
        "[http]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[[site]]\n\
         [site.origin]\nurl = \"{url}\"\nadaptive_limit = true\n{lines}"
    ))
}

fn limit(larder: &Larder, url: &str) -> u64 {
    Admin::of(larder).metric(&format!("larder_origin_limit{{origin=\"{url}\"}}"))
}

/// Visitors who ask for pages, none of which is stored, until it is dropped.
struct Visitors(Arc<AtomicBool>, Vec<thread::JoinHandle<()>>);

impl Visitors {
    fn of(addr: SocketAddr, refused: &Arc<AtomicUsize>) -> Visitors {
        let stop = Arc::new(AtomicBool::new(false));
        let visitor = |visitor| {
            let (stop, refused) = (stop.clone(), refused.clone());
            thread::spawn(move || {
                let mut wire = Wire::connect(addr);
                let mut number = 0;
                while !stop.load(SeqCst) {
                    number += 1;
                    let answer = wire.get(&format!("/{visitor}/{number}"), &[]);
                    if answer.status != 200 {
                        assert_eq!((answer.status, answer.get("retry-after")), (503, Some("1")));
                        refused.fetch_add(1, SeqCst);
                        // As the answer asks, a little.
                        thread::sleep(Duration::from_millis(5));
                    }
                }
            })
        };
        let visitors = (0..VISITORS).map(visitor).collect();
        Visitors(stop, visitors)
    }
}

impl Drop for Visitors {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
        let ended: Vec<_> = self.1.drain(..).map(thread::JoinHandle::join).collect();
        if !thread::panicking() {
            ended.into_iter().for_each(|visitor| visitor.unwrap());
        }
    }
}

#[test]
fn a_server_that_does_one_thing_at_a_time_is_not_asked_for_all_at_once() {
    let (inside, peak, served) =
        (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (most, answered, work) = (peak.clone(), served.clone(), Mutex::new(()));
    let origin = Origin::start(move |_, reply| {
        most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
        let working = work.lock().unwrap();
        thread::sleep(Duration::from_millis(2));
        drop(working);
        inside.fetch_sub(1, SeqCst);
        answered.fetch_add(1, SeqCst);
        reply.ok(&["Cache-Control: no-store"], "page");
    });
    let larder = before(&origin.url(), "");
    let refused = Arc::new(AtomicUsize::new(0));
    let _visitors = Visitors::of(larder.addr(), &refused);
    let answers = |count: usize| {
        let since = served.load(SeqCst);
        wait_until("answers", || served.load(SeqCst) >= since + count);
    };
    answers(200);
    peak.store(0, SeqCst);
    let before = refused.load(SeqCst);
    answers(400);
    assert!(peak.load(SeqCst) < VISITORS, "{}", peak.load(SeqCst));
    assert!(refused.load(SeqCst) > before, "the others are told at once");
}

#[test]
fn the_limit_falls_with_a_slow_server_and_rises_again() {
    let origin = Origin::serving(&["Cache-Control: no-store"], "page");
    let usual = "[[rule]]\ndelay = \"100ms\"\n";
    let slow = SlowProxy::scripted(origin.addr(), usual, &["--protocol", "http"]);
    let url = format!("http://{}", slow.addr());
    let larder = before(&url, "max_requests = 1000\n");
    let _visitors = Visitors::of(larder.addr(), &Arc::default());
    wait_until("the limit to rise", || limit(&larder, &url) > 20);
    slow.rewrite("[[rule]]\ndelay = \"1s\"\n");
    wait_until("the limit to fall", || limit(&larder, &url) < 12);
    slow.rewrite(usual);
    wait_until("the limit to rise again", || limit(&larder, &url) > 20);
}

#[test]
fn where_all_connections_are_used_a_stale_page_or_503_comes() {
    for lines in
        ["max_connections = 1\nmax_waiting = 0\n", "max_connections = 1\nmax_wait = \"20ms\"\n"]
    {
        let gate = Gate::closed();
        let (entered, open) = (Arc::new(AtomicUsize::new(0)), gate.clone());
        let count = entered.clone();
        let origin = Origin::start(move |seen, reply| {
            if seen.target == "/held" {
                count.fetch_add(1, SeqCst);
                open.wait();
            }
            reply.ok(&["Cache-Control: max-age=1", "Age: 5", "ETag: \"1\""], "page");
        });
        let larder = Larder::with_config(&format!(
            "threads = 1\n[[site]]\n[site.origin]\nurl = \"{}\"\n{lines}",
            origin.url()
        ));
        let addr = larder.addr();
        assert_eq!(get(addr, "/page").text(), "page");
        let held = thread::spawn(move || get(addr, "/held").status);
        wait_until("the held request", || entered.load(SeqCst) == 1);
        let refused = get(addr, "/other");
        assert_eq!((refused.status, refused.get("retry-after")), (503, Some("1")), "{lines}");
        assert_eq!(get(addr, "/page").text(), "page", "the stale page");
        gate.open();
        assert_eq!(held.join().unwrap(), 200);
    }
}

/// One client may use three of four connections. A page that another client wants, too, does not
/// wait until the first one who asked has some of them back.
#[test]
fn a_page_that_others_wait_for_is_fetched_beyond_the_share_of_its_first_visitor() {
    let gate = Gate::closed();
    let (slow, open) = (Arc::new(AtomicUsize::new(0)), gate.clone());
    let count = slow.clone();
    let origin = Origin::start(move |seen, reply| {
        if seen.target.starts_with("/slow") {
            count.fetch_add(1, SeqCst);
            open.wait();
        }
        reply.ok(&["Cache-Control: max-age=600"], "page");
    });
    let url = origin.url();
    let larder = Larder::with_config(&format!(
        "threads = 1\n[http]\nlisten = \"127.0.0.1:0\"\ntrusted_proxies = [\"127.0.0.1\"]\n[admin]\n\
         listen = \"127.0.0.1:0\"\n[[site]]\n[site.origin]\nurl = \"{url}\"\nmax_connections = 8\n"
    ));
    let ask = |client: &str, target: &str| {
        let mut wire = larder.connect();
        wire.send_get(target, &["Host: site.test", &format!("X-Forwarded-For: {client}")]);
        wire
    };
    let (greedy, other) = ("203.0.113.1", "203.0.113.2");
    let mut held: Vec<Wire> = (0..6).map(|n| ask(greedy, &format!("/slow/{n}"))).collect();
    wait_until("the slow requests", || slow.load(SeqCst) == 6);
    let sent =
        || Admin::of(&larder).metric(&format!("larder_origin_requests_total{{origin=\"{url}\"}}"));
    let mut first = ask(greedy, "/cold");
    wait_until("the request for the page", || sent() == 7);
    let mut more = ask(greedy, "/cold");
    let page = |wire: &mut Wire| wire.read().assert_status(200).text().to_owned();
    assert_eq!(page(&mut ask(other, "/cold")), "page");
    assert_eq!((page(&mut first), page(&mut more)), ("page".to_owned(), "page".to_owned()));
    assert_eq!((slow.load(SeqCst), sent()), (6, 7));
    // Alone, the client waits for its share.
    let mut alone = ask(greedy, "/alone");
    wait_until("the request to wait", || sent() == 8);
    assert_eq!(page(&mut ask(other, "/another")), "page");
    assert!(alone.is_idle());
    gate.open();
    held.iter_mut().for_each(|wire| assert_eq!(wire.read().status, 200));
    assert_eq!(page(&mut alone), "page");
}
