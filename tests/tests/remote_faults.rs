//! Memcacheds that die, freeze, crawl or refuse: clients must not notice.

#![allow(clippy::unwrap_used)]

use larder_tests::fleet::{Fleet, Slow, counted, larder, wait_counted};
use larder_tests::{Gate, Larder, Memcached, Origin, Usage, Wire, get, wait_until};
use rustix::process::Signal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

const FRESH: &str = "Cache-Control: max-age=600";

/// As a site would have it: short patience.
const SHORT: &str = "budget = \"30ms\"\nread_timeout = \"100ms\"\nconnect_timeout = \"100ms\"\nlocal_copy = \"100ms\"\nretry_min = \"100ms\"\nretry_max = \"500ms\"";

fn named() -> Origin {
    Origin::start(|seen, reply| {
        reply.ok(&[FRESH], format!("body of {}", seen.target));
    })
}

/// Clients that ask both Larders for pages in turn and look at every answer.
struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    clients: Vec<thread::JoinHandle<()>>,
}

impl Load {
    fn on(larders: &[&Larder]) -> Load {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let client = |(number, larder): (usize, &&Larder)| {
            let (addr, stop, answered) = (larder.addr(), stop.clone(), answered.clone());
            thread::spawn(move || {
                let mut wire = Wire::connect(addr);
                for page in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let target = format!("/page/{}", (page * 7 + number) % 60);
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
        let before = self.answered.load(Ordering::SeqCst);
        wait_until("clients to be answered", || self.answered.load(Ordering::SeqCst) >= before + count);
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

#[test]
fn each_server_killed_in_turn() {
    let (fleet, origin) = (Fleet::start(), named());
    let (one, two) = (fleet.larder(&origin, SHORT), fleet.larder(&origin, SHORT));
    let load = Load::on(&[&one, &two]);
    for server in 0..3 {
        load.more(300);
        fleet.signal(server, Signal::KILL);
        load.more(300);
    }
    load.end();
    wait_until("the fleet to have been of use", || counted(&one, "hits") + counted(&two, "hits") > 0);
}

#[test]
fn each_server_frozen_in_turn_and_back() {
    let (fleet, origin) = (Fleet::start(), named());
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

#[test]
fn a_server_that_crawls() {
    let (fleet, origin) = (Fleet::start(), named());
    let slow = Slow::before(fleet.servers[0].addr());
    let servers = format!("\"{}\", \"{}\"", slow.addr(), fleet.servers[1].server());
    let (one, two) = (larder(&servers, &origin, SHORT, ""), larder(&servers, &origin, SHORT, ""));
    let load = Load::on(&[&one, &two]);
    load.more(300);
    for delay in [60, 300] {
        slow.by(Duration::from_millis(delay));
        load.more(500);
    }
    slow.by(Duration::ZERO);
    load.more(300);
    load.end();
}

#[test]
fn who_has_asked_the_origin_waits_for_no_other_larder() {
    let fleet = Fleet::start();
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
    let slow = Slow::before(fleet.servers[0].addr());
    let (near, far) = (format!("\"{}\"", fleet.servers[0].server()), format!("\"{}\"", slow.addr()));
    let patient = "read_timeout = \"5s\"\nconnect_timeout = \"5s\"\npurge_interval = \"10s\"";
    let lease = &format!("budget = \"100ms\"\nlease = \"5m\"\n{patient}");
    let (one, two) = (larder(&near, &origin, lease, ""), larder(&far, &origin, lease, ""));
    // It has heard from the fleet.
    get(two.addr(), "/other").assert_status(200);
    wait_counted(&two, "stores", 1);
    let (mut first, mut second) = (one.connect(), two.connect());
    first.send_get("/page", &["Host: site.test", "X-Door: 0"]);
    origin.wait_for(2);
    // The second asks the origin when its budget is over, and hears then that the fleet has nothing.
    slow.by(Duration::from_millis(300));
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

#[test]
fn the_ring_heals() {
    let (fleet, origin) = (Fleet::start(), named());
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

#[test]
fn a_server_killed_and_started_again_is_used_again() {
    let (mut fleet, origin) = (Fleet::start(), named());
    let (one, two) = (fleet.larder(&origin, SHORT), fleet.larder(&origin, SHORT));
    let load = Load::on(&[&one, &two]);
    for server in 0..3 {
        load.more(200);
        let port = fleet.servers[server].addr().port();
        fleet.signal(server, Signal::KILL);
        load.more(300);
        fleet.servers[server] = Memcached::debian_at(port);
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

#[test]
fn copies_are_used_on_while_the_fleet_is_away() {
    let (fleet, origin) = (Fleet::start(), named());
    let (one, two) = (fleet.larder(&origin, SHORT), fleet.larder(&origin, SHORT));
    get(one.addr(), "/page");
    wait_counted(&one, "stores", 1);
    wait_until("the other to have it from the fleet", || {
        get(two.addr(), "/page").assert_status(200);
        counted(&two, "hits") >= 1
    });
    let before = origin.count();
    (0..3).for_each(|server| fleet.signal(server, Signal::KILL));
    wait_until("the copy to be prolonged", || {
        assert_eq!(get(two.addr(), "/page").text(), "body of /page");
        counted(&two, "prolonged") >= 3
    });
    // Where keys go on to the next server, a miss there is an answer: the origin may have been asked meanwhile.
    assert!(origin.count() <= before + 1, "{} requests", origin.count() - before);
}

#[test]
fn a_writer_before_a_frozen_fleet_drops_and_holds_no_memory() {
    let fleet = Fleet::start();
    let body = "x".repeat(200 << 10);
    let origin = Origin::start(move |_, reply| {
        reply.ok(&[FRESH, "Content-Type: image/png"], &body);
    });
    // No server is left out: what is sent waits for as long as it may.
    let remote =
        "failure_limit = 1000\nqueue = 8\nbudget = \"5ms\"\nread_timeout = \"2s\"\nwrite_timeout = \"2s\"";
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
