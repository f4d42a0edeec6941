//! Three servers behind one site, under load, one of which fails, then all of them: no visitor sees
//! a failure where another server can answer, and stale pages are served where none can.
//!
//! With `LARDER_FAULTS=SECONDS` each fault lasts that long (`scripts/origin-faults.sh`). The
//! figures are printed as a table.

#![allow(clippy::unwrap_used)]

use larder_tests::failing_server::{FailingServer, Fault};
use larder_tests::{Admin, Larder, PATIENCE, Scratch, Wire, get, wait_until};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Visitors at once.
const VISITORS: usize = 8;
/// Requests of all visitors during a fault, unless a time is given.
const REQUESTS: usize = 400;
/// Pages that are stored, and stale.
const STORED: usize = 4;

const LIMITS: &str = "connect_timeout = \"1s\"\nfirst_byte_timeout = \"1s\"\nfailure_pause = \
                      \"20ms\"\nslow_start = \"0s\"\n";

fn before(urls: &[String]) -> Larder {
    Larder::with_config(&format!(
        "threads = 2\n[http]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[[site]]\nkeep = \"1h\"\n\
         [site.origin]\nurl = {urls:?}\n{LIMITS}"
    ))
}

fn time() -> Option<Duration> {
    let seconds = std::env::var("LARDER_FAULTS").ok()?;
    Some(Duration::from_secs(seconds.parse().expect("LARDER_FAULTS: seconds")))
}

/// Result of the visits during one fault.
#[derive(Debug, Default)]
struct Visits {
    requests: usize,
    failed: Vec<String>,
    longest: Duration,
}

/// Visitors ask for pages, each of which only an origin can answer, or confirm; `during` is called
/// when a quarter of the visits is made, and the others follow when it is done. Its argument waits
/// until every visitor has got one more answer: requests that were under way are at their end then.
fn visits(larder: &Larder, name: &str, during: impl FnOnce(&dyn Fn())) -> Visits {
    let (begun, time) = (Instant::now(), time());
    let (made, until) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
    let answers: [AtomicUsize; VISITORS] = Default::default();
    let counts = || answers.each_ref().map(|answers| answers.load(SeqCst));
    let answered_again = || {
        let before = counts();
        wait_until("an answer to every visitor", || {
            counts().iter().zip(before).all(|(now, before)| *now > before)
        });
    };
    let go_on = || match time {
        Some(time) => begun.elapsed() < time,
        None => made.load(SeqCst) < until.load(SeqCst) && begun.elapsed() < PATIENCE,
    };
    let visitor = |visitor: usize| {
        let mut visits = Visits::default();
        let mut wire = larder.connect();
        while go_on() {
            let number = visits.requests;
            let target = match number % 4 {
                0 => format!("/stored/{}", number % STORED),
                _ => format!("/{name}/{visitor}/{number}"),
            };
            let asked = Instant::now();
            let answer = wire.get(&target, &[]);
            visits.longest = visits.longest.max(asked.elapsed());
            visits.requests += 1;
            if (answer.status, answer.text()) != (200, &*target) {
                visits.failed.push(format!("{target}: {} {}", answer.status, answer.text()));
            }
            made.fetch_add(1, SeqCst);
            answers[visitor].fetch_add(1, SeqCst);
        }
        visits
    };
    thread::scope(|scope| {
        let visitors: Vec<_> =
            (0..VISITORS).map(|number| scope.spawn(move || visitor(number))).collect();
        let quarter = || match time {
            Some(time) => begun.elapsed() >= time / 4,
            None => made.load(SeqCst) >= REQUESTS / 4,
        };
        wait_until("some visits", || quarter() || begun.elapsed() > PATIENCE / 2);
        during(&answered_again);
        until.store(made.load(SeqCst) + REQUESTS - REQUESTS / 4, SeqCst);
        let mut all = Visits::default();
        for visits in visitors.into_iter().map(|visitor| visitor.join().unwrap()) {
            all.requests += visits.requests;
            all.failed.extend(visits.failed);
            all.longest = all.longest.max(visits.longest);
        }
        all
    })
}

fn metric(larder: &Larder, name: &str, urls: &[String]) -> u64 {
    let one = |url: &String| Admin::of(larder).metric(&format!("{name}{{origin=\"{url}\"}}"));
    urls.iter().map(one).sum()
}

/// Asks for pages until every server gets requests again.
#[track_caller]
fn all_come_back(larder: &Larder, urls: &[String]) {
    let number = AtomicUsize::new(0);
    wait_until("all servers to be back", || {
        let target = format!("/back/{}", number.fetch_add(1, SeqCst));
        get(larder.addr(), &target).assert_status(200);
        metric(larder, "larder_origin_healthy", urls) == urls.len() as u64
    });
}

/// Answers while no server answers: stale pages, and errors for pages that are not stored.
fn while_none_answers(larder: &Larder) -> (usize, usize) {
    let ask = |target: String| {
        let answer = Wire::connect(larder.addr()).get(&target, &[]);
        (answer.status == 200 && answer.text() == target, answer.status >= 500)
    };
    thread::scope(|scope| {
        let targets = (0..STORED).map(|number| format!("/stored/{number}"));
        let targets = targets.chain((0..STORED).map(|number| format!("/new/{number}")));
        let asked: Vec<_> = targets.map(|target| scope.spawn(move || ask(target))).collect();
        let answers: Vec<_> = asked.into_iter().map(|asked| asked.join().unwrap()).collect();
        let count = |answers: &[(bool, bool)], which: fn(&(bool, bool)) -> bool| {
            answers.iter().filter(|answer| which(answer)).count()
        };
        (count(&answers[..STORED], |answer| answer.0), count(&answers[STORED..], |answer| answer.1))
    })
}

const HEAD: &str = "| fault | requests | failed | sent elsewhere | longest | stale pages where \
                    none answers |\n|---|---|---|---|---|---|";

#[test]
fn no_fault_of_one_server_is_seen_and_stale_pages_bridge_a_fault_of_all() {
    // Addresses of this test alone: nobody takes a port there while its server is away.
    let servers = [4, 5, 6].map(|last| FailingServer::start(Ipv4Addr::new(127, 0, 0, last).into()));
    let urls = servers.each_ref().map(FailingServer::url);
    let larder = before(&urls);
    for number in 0..STORED {
        get(larder.addr(), &format!("/stored/{number}")).assert_status(200);
    }
    let mut table = vec![HEAD.to_owned()];
    for (fault, name) in Fault::ALL {
        let elsewhere = || metric(&larder, "larder_origin_sent_elsewhere_total", &urls);
        let before = elsewhere();
        let visits = visits(&larder, name.split(' ').next().unwrap(), |_| servers[0].fail(fault));
        assert!(visits.failed.is_empty(), "{name}: {:?}", visits.failed);
        let sent = elsewhere() - before;
        assert!(sent > 0, "{name}: the fault was met");
        // One that answers now and then does so for these, too.
        let stale = if fault == Fault::Flapping {
            "".to_owned()
        } else {
            servers[1..].iter().for_each(|server| server.fail(fault));
            let (stale, errors) = while_none_answers(&larder);
            assert_eq!((stale, errors), (STORED, STORED), "{name}");
            format!("{stale} of {STORED}")
        };
        servers.iter().for_each(FailingServer::recover);
        all_come_back(&larder, &urls);
        table.push(format!(
            "| {name} | {} | {} | {sent} | {} ms | {stale} |",
            visits.requests,
            visits.failed.len(),
            visits.longest.as_millis()
        ));
    }
    println!("{}", table.join("\n"));
}

/// The library by which a test says which names there are.
const NAMES: &str = "libnss_wrapper.so";

/// Two servers on one port of two addresses.
fn two_addresses() -> [FailingServer; 2] {
    loop {
        let first = FailingServer::start(Ipv4Addr::new(127, 0, 0, 2).into());
        let other = SocketAddr::new(IpAddr::from([127, 0, 0, 3]), first.addr().port());
        // Another program may have the port there.
        if let Ok(second) = FailingServer::at(other) {
            return [first, second];
        }
    }
}

#[test]
fn a_name_that_moves_fails_no_visitor() {
    let [old, new] = two_addresses();
    let hosts = Scratch::new("hosts");
    // The library reads the file again when its time has changed, in seconds. It may have read a
    // part of it then, so the time goes on.
    let touch = || {
        let file = std::fs::File::options().write(true).open(hosts.file("hosts")).unwrap();
        file.set_modified(SystemTime::now() + Duration::from_secs(10)).unwrap();
    };
    hosts.write("hosts", &format!("{} moving.test\n", old.addr().ip()));
    let url = format!("http://moving.test:{}", old.addr().port());
    let hosts_file = hosts.file("hosts");
    let larder = Larder::with_environment(
        &format!(
            "threads = 2\n[[site]]\n[site.origin]\nurl = \"{url}\"\nresolve = \"50ms\"\n{LIMITS}"
        ),
        &[("LD_PRELOAD", NAMES.as_ref()), ("NSS_WRAPPER_HOSTS", hosts_file.as_os_str())],
    );
    get(larder.addr(), "/first").assert_status(200);
    assert_eq!((old.answered(), new.answered()), (1, 0));
    let visits = visits(&larder, "moved", |answered_again| {
        hosts.write("hosts", &format!("{} moving.test\n", new.addr().ip()));
        wait_until("the new address to be asked", || {
            touch();
            new.answered() > 0
        });
        answered_again();
        old.fail(Fault::Refusing);
    });
    assert!(visits.failed.is_empty(), "{:?}", visits.failed);
    println!(
        "| DNS changed | {} | {} | | {} ms | |",
        visits.requests,
        visits.failed.len(),
        visits.longest.as_millis()
    );
}
