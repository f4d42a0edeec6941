//! Servers of a fleet that die, freeze, crawl or refuse: clients must not notice.

#![allow(clippy::unwrap_used)]

use larder_tests::fleet::{Fleet, counted, counted_now, larder, wait_counted};
use larder_tests::{Gate, Larder, Origin, SlowProxy, Usage, Wire, get, wait_until};
use rustix::process::Signal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// As many as the clients of a [`Load`] ask for.
const PAGES: usize = 60;

/// Lookups that got no answer: without a copy to use on, and with one.
const FAILED: [&str; 2] = ["failed", "prolonged"];

const FRESH: &str = "Cache-Control: max-age=600";

/// As a site would have it: short patience.
const SHORT: &str = "budget = \"30ms\"\nread_timeout = \"100ms\"\nconnect_timeout = \
                     \"100ms\"\nlocal_copy = \"100ms\"\nretry_min = \"100ms\"\nretry_max = \
                     \"500ms\"";

fn named() -> Origin {
    Origin::start(|seen, reply| {
        reply.ok(&[FRESH], format!("body of {}", seen.target));
    })
}

/// Clients that ask both Larders for pages in turn and look at every answer.
struct Load {
    stop: Arc<AtomicBool>,
    /// By each client.
    answered: Vec<Arc<AtomicUsize>>,
    clients: Vec<thread::JoinHandle<()>>,
}

impl Load {
    fn on(larders: &[&Larder]) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let answered: Vec<Arc<AtomicUsize>> =
            (0..2 * larders.len()).map(|_| Arc::default()).collect();
        let client = |(number, larder): (usize, &&Larder)| {
            let (addr, stop, answered) = (larder.addr(), stop.clone(), answered[number].clone());
            thread::spawn(move || {
                let mut wire = Wire::connect(addr);
                for page in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let target = format!("/page/{}", (page * 7 + number) % PAGES);
                    let answer = wire.get(&target, &[]);
                    answer.assert_status(200);
                    assert_eq!(answer.text(), format!("body of {target}"));
                    answered.fetch_add(1, Ordering::SeqCst);
                }
            })
        };
        let clients = larders.iter().chain(larders).enumerate().map(client).collect();
        Load { stop, answered, clients }
    }

    /// Waits for so many answers more.
    #[track_caller]
    fn more(&self, count: usize) {
        let all = || self.counts().iter().sum::<usize>();
        let before = all();
        wait_until("clients to be answered", || all() >= before + count);
    }

    /// Waits for so many answers more to each client.
    #[track_caller]
    fn more_each(&self, count: usize) {
        let before = self.counts();
        let enough = |(now, before): (usize, &usize)| now >= before + count;
        wait_until("each client to be answered", || {
            self.counts().into_iter().zip(&before).all(enough)
        });
    }

    fn counts(&self) -> Vec<usize> {
        self.answered.iter().map(|client| client.load(Ordering::SeqCst)).collect()
    }

    /// Every answer was right.
    #[track_caller]
    fn end(self) {
        self.stop.store(true, Ordering::SeqCst);
        for client in self.clients {
            client.join().unwrap();
        }
    }
}

fn each_server_killed_in_turn(fleet: Fleet) {
    let origin = named();
    let (one, two) = (fleet.larder(&origin, SHORT), fleet.larder(&origin, SHORT));
    let load = Load::on(&[&one, &two]);
    for server in 0..3 {
        load.more(300);
        fleet.signal(server, Signal::KILL);
        load.more(300);
    }
    load.end();
    wait_until("the fleet to have been of use", || {
        counted(&one, "hits") + counted(&two, "hits") > 0
    });
}

fn each_server_frozen_in_turn_and_back(fleet: Fleet) {
    let origin = named();
    let (one, two) = (fleet.larder(&origin, SHORT), fleet.larder(&origin, SHORT));
    let load = Load::on(&[&one, &two]);
    for server in 0..3 {
        load.more(300);
        fleet.signal(server, Signal::STOP);
        load.more(300);
        fleet.signal(server, Signal::CONT);
    }
    load.more(300);
    load.end();
}

/// Each server in turn is befallen by these under load, and is well again; two Larders must then
/// find pages there.
fn each_server_befallen_in_turn(fleet: Fleet, scripts: &[&str]) {
    let (fleet, origin) = (fleet.behind_proxies(), named());
    let (one, two) = (fleet.larder(&origin, SHORT), fleet.larder(&origin, SHORT));
    let load = Load::on(&[&one, &two]);
    for server in 0..3 {
        load.more(200);
        for script in scripts {
            fleet.befall(server, script);
            load.more(300);
        }
        fleet.befall(server, "");
    }
    load.more(300);
    load.end();
    let mut page = 0;
    wait_until("pages on each of them", || {
        page += 1;
        get(one.addr(), &format!("/new/{page}"));
        (0..3).all(|server| fleet.items().iter().filter(|(on, _)| *on == server).count() >= 3)
    });
}

/// Later than a lookup may be, then later than an answer may be, then both by chance.
fn each_server_crawls_in_turn(fleet: Fleet) {
    each_server_befallen_in_turn(
        fleet,
        &[
            "[[rule]]\ndelay = \"60ms\"",
            "[[rule]]\ndelay = \"300ms\"",
            "seed = 7\n[[rule]]\nprobability = 0.5\ndelay = \"150ms\"\njitter = \"150ms\"",
        ],
    );
}

/// Connections are reset as they come, and those that are there with the next answer.
fn each_server_refuses_in_turn(fleet: Fleet) {
    let refuses = "[[rule]]\nrefuse = true\n[[rule]]\nreset = 0";
    each_server_befallen_in_turn(fleet, &[refuses]);
}

/// Answers that stop in their middle, some cut and some silent.
fn each_server_breaks_off_in_turn(fleet: Fleet) {
    let breaks = "seed = 3\n[[rule]]\nprobability = 0.3\ntruncate = 20\n[[rule]]\nprobability = \
                  0.3\nreset = 5\n[[rule]]\nprobability = 0.2\nstall = \"300ms\"\nstall-after = 9";
    each_server_befallen_in_turn(fleet, &[breaks]);
}

#[test]
fn who_has_asked_the_origin_waits_for_no_other_larder() {
    let fleet = Fleet::memcached();
    let gates = [Gate::closed(), Gate::closed()];
    let doors = gates.clone();
    let origin = Origin::start(move |seen, reply| {
        match seen.get("x-door") {
            Some("0") => doors[0].wait(),
            Some(_) => doors[1].wait(),
            None => {}
        }
        reply.ok(&[FRESH], format!("answer {}", seen.number));
    });
    let slow = SlowProxy::scripted(fleet.servers[0].addr(), "", &["--protocol", "memcached"]);
    let (near, far) = (format!("\"{}\"", fleet.servers[0].addr()), format!("\"{}\"", slow.addr()));
    let patient = "read_timeout = \"5s\"\nconnect_timeout = \"5s\"\npurge_interval = \"10s\"";
    let lease = &format!("budget = \"100ms\"\nlease = \"5m\"\n{patient}");
    let (one, two) = (larder(&near, &origin, lease, ""), larder(&far, &origin, lease, ""));
    // It has heard from the fleet.
    get(two.addr(), "/other").assert_status(200);
    wait_counted(&two, "stores", 1);
    let (mut first, mut second) = (one.connect(), two.connect());
    first.send_get("/page", &["Host: site.test", "X-Door: 0"]);
    origin.wait_for(2);
    // The second asks the origin when its budget is over, and hears then that the fleet has
    // nothing.
    slow.rewrite("[[rule]]\ndelay = \"300ms\"");
    let before = counted(&two, "misses");
    second.send_get("/page", &["Host: site.test", "X-Door: 1"]);
    origin.wait_for(3);
    wait_counted(&two, "misses", before + 1);
    gates[1].open();
    assert_eq!(second.read().text(), "answer 2");
    gates[0].open();
    assert_eq!(first.read().text(), "answer 1");
}

#[test]
fn servers_that_refuse_from_the_start() {
    let origin = named();
    let closed = larder_tests::helper::free_port();
    let servers = format!("\"127.0.0.1:{closed}\", \"unix:/nowhere/m.sock\"");
    let one = larder(&servers, &origin, SHORT, "");
    let load = Load::on(&[&one]);
    load.more(500);
    load.end();
    wait_counted(&one, "failed", 1);
    assert_eq!(counted(&one, "hits"), 0);
}

fn the_ring_heals(fleet: Fleet) {
    let origin = named();
    let (one, two) = (fleet.larder(&origin, SHORT), fleet.larder(&origin, SHORT));
    let load = Load::on(&[&one, &two]);
    fleet.signal(1, Signal::STOP);
    load.more(500);
    fleet.signal(1, Signal::CONT);
    load.end();
    let mut page = 0;
    wait_until("pages on the server that is back", || {
        page += 1;
        get(one.addr(), &format!("/new/{page}"));
        fleet.items().iter().filter(|(server, _)| *server == 1).count() >= 3
    });
    drop(two);
}

fn a_server_killed_and_started_again_is_used_again(mut fleet: Fleet) {
    let origin = named();
    let (one, two) = (fleet.larder(&origin, SHORT), fleet.larder(&origin, SHORT));
    let load = Load::on(&[&one, &two]);
    for server in 0..3 {
        load.more(200);
        fleet.signal(server, Signal::KILL);
        load.more(300);
        fleet.servers[server].again();
        load.more(200);
    }
    load.end();
    let mut page = 0;
    wait_until("pages on each of them", || {
        page += 1;
        get(one.addr(), &format!("/new/{page}"));
        (0..3).all(|server| fleet.items().iter().filter(|(on, _)| *on == server).count() >= 3)
    });
}

fn copies_are_used_on_while_the_fleet_is_away(fleet: Fleet) {
    let origin = named();
    let (one, two) = (fleet.larder(&origin, SHORT), fleet.larder(&origin, SHORT));
    // What does not come within the budget is rendered, and no copy: another page then.
    let (mut page, mut pages) = (String::new(), 0);
    wait_until("the other to have a page from the fleet", || {
        pages += 1;
        page = format!("/page/{pages}");
        get(one.addr(), &page);
        let sent = ["stores", "store_failed", "dropped"];
        wait_until("it to be sent", || counted_now(&one, &sent) >= pages);
        get(two.addr(), &page).assert_status(200);
        counted_now(&two, &["hits"]) >= 1
    });
    let before = origin.count();
    (0..3).for_each(|server| fleet.signal(server, Signal::KILL));
    wait_until("the copy to be prolonged", || {
        assert_eq!(get(two.addr(), &page).text(), format!("body of {page}"));
        counted(&two, "prolonged") >= 3
    });
    // Where keys go on to the next server, a miss there is an answer: the origin may have been
    // asked meanwhile.
    assert!(origin.count() <= before + 1, "{} requests", origin.count() - before);
}

fn a_writer_before_a_frozen_fleet_drops_and_holds_no_memory(fleet: Fleet) {
    let body = "x".repeat(200 << 10);
    let origin = Origin::start(move |_, reply| {
        reply.ok(&[FRESH, "Content-Type: image/png"], &body);
    });
    // No server is left out: what is sent waits for as long as it may.
    let remote = "failure_limit = 1000\nqueue = 8\nbudget = \"5ms\"\nread_timeout = \
                  \"2s\"\nwrite_timeout = \"2s\"\nconnect_timeout = \"2s\"";
    let one = fleet.larder(&origin, remote);
    get(one.addr(), "/warm");
    (0..3).for_each(|server| fleet.signal(server, Signal::STOP));
    let before = Usage::of(one.pid()).unwrap();
    let mut wire = one.connect();
    for page in 0..400 {
        wire.get(&format!("/{page}"), &[]).assert_status(200);
    }
    wait_counted(&one, "dropped", 100);
    let after = Usage::of(one.pid()).unwrap();
    // 64 MiB of pages at most, and what is on its way to the fleet: 80 MB of pages were rendered.
    let grown = after.rss.saturating_sub(before.rss);
    assert!(grown < 110 << 20, "grown by {grown} bytes");
    (0..3).for_each(|server| fleet.signal(server, Signal::CONT));
    let stored = counted(&one, "stores");
    wait_until("pages to be sent again", || {
        let page = counted(&one, "lookups");
        wire.get(&format!("/after/{page}"), &[]).assert_status(200);
        counted(&one, "stores") > stored
    });
}

larder_tests::on_every_fleet! {
    each_server_killed_in_turn,
    each_server_frozen_in_turn_and_back,
    each_server_crawls_in_turn,
    each_server_refuses_in_turn,
    each_server_breaks_off_in_turn,
    the_ring_heals,
    copies_are_used_on_while_the_fleet_is_away,
    a_writer_before_a_frozen_fleet_drops_and_holds_no_memory,
}

/// A node of a cluster that begins again with nothing is none of the cluster: for stand-alone
/// servers alone.
mod a_server_killed_and_started_again_is_used_again {
    use larder_tests::fleet::Fleet;

    #[test]
    fn memcached() {
        super::a_server_killed_and_started_again_is_used_again(Fleet::memcached());
    }

    #[test]
    fn valkey() {
        super::a_server_killed_and_started_again_is_used_again(Fleet::valkey());
    }
}

/// Whoever had asked the server when it froze pays one timeout; who asks later pays nothing.
/// Counted, not timed: with a budget above the timeout, a lookup that waited is one that failed.
fn a_frozen_server_costs_one_timeout_and_then_nothing(fleet: Fleet) {
    const CLIENTS: u64 = 4;
    let origin = named();
    let patient = "budget = \"10s\"\nread_timeout = \"1s\"\nconnect_timeout = \
                   \"1s\"\nfailure_limit = 1\nretry_min = \"1h\"\nretry_max = \"1h\"\nlease = \
                   \"0s\"\nlocal_copy = \"100ms\"";
    // What another rendered is a copy here, for which the fleet is asked again and again.
    let (one, two) = (fleet.larder(&origin, patient), fleet.larder(&origin, patient));
    let load = Load::on(&[&two]);
    wait_counted(&two, "stores", PAGES as u64);
    load.end();
    let load = Load::on(&[&one, &one]);
    wait_counted(&one, "hits", 3 * PAGES as u64);
    // A page that is asked for again before it is in the fleet is rendered twice.
    let rendered = origin.count();
    assert!(counted_now(&one, &FAILED) == 0 && rendered < 2 * PAGES, "{rendered} pages rendered");
    let there = fleet.items().iter().filter(|(server, _)| *server == 1).count();
    assert!(there as u64 > 2 * CLIENTS, "{there} pages on the server");
    fleet.signal(1, Signal::STOP);
    wait_until("the freeze to be felt", || counted_now(&one, &FAILED) > 0);
    // Workers are told of it together, but each waits for what it had asked: the first answer may
    // be one of those.
    load.more_each(2);
    let paid = counted_now(&one, &FAILED);
    // All that lay there is asked for where it would be without the server, and rendered again.
    wait_until("pages to go elsewhere", || origin.count() >= rendered + there);
    load.more_each(100);
    let later = counted_now(&one, &FAILED);
    load.end();
    fleet.signal(1, Signal::CONT);
    assert!((1..=CLIENTS).contains(&paid), "{paid} timeouts of {CLIENTS} clients");
    assert_eq!(later, paid, "nobody waited any more");
}

/// In a cluster the keys of a server that is away have no other: they fail at once, which counts as
/// well.
mod a_frozen_server_costs_one_timeout_and_then_nothing {
    use larder_tests::fleet::Fleet;

    #[test]
    fn memcached() {
        super::a_frozen_server_costs_one_timeout_and_then_nothing(Fleet::memcached());
    }

    #[test]
    fn valkey() {
        super::a_frozen_server_costs_one_timeout_and_then_nothing(Fleet::valkey());
    }
}
