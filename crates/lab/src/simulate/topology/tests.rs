//! Small topologies with known results.

use super::*;
use crate::load::Verb;
use crate::simulate::policy::Kind;
use crate::simulate::request::Request;
use crate::simulate::trace::{ReadTotals, Trace};
use larder_client::{Placement, Server};

/// Reads (or purges) of `(millisecond, object)`; pages of 1000 bytes with a time to live of 60
/// seconds.
fn trace(requests: &[(u64, u32, Verb)]) -> Trace {
    let ids = requests.iter().map(|request| request.1).max().unwrap() + 1;
    let request = |(at, id, verb): &(u64, u32, Verb)| Request::new(*at, *id, 1000, 60, *verb);
    Trace {
        requests: requests.iter().map(request).collect(),
        hashes: (0..u64::from(ids)).map(|id| id.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect(),
        sample: 1.0,
        total: ReadTotals { reads: requests.len() as u64, bytes: 1000 * requests.len() as u64 },
        warm: ReadTotals::default(),
        warm_requests: 0,
        expires: true,
    }
}

fn plan(larders: usize, servers: usize) -> Topology {
    let fleet = Fleet {
        servers: (1..=servers).map(|n| Server::tcp(format!("10.0.0.{n}"), 11211)).collect(),
        placement: Placement::ketama(),
        memory: 1 << 30,
        policy: Kind::Lru,
        item_size: 1 << 20,
        local_copy: 5000,
        lease: true,
        eject: true,
        failure_limit: 3,
        retry_min: 1000,
        retry_max: 60_000,
    };
    Topology {
        larders,
        spread: Spread::RoundRobin,
        memory: 1 << 30,
        policy: Kind::Lru,
        render: 0,
        fleet: (servers > 0).then_some(fleet),
        events: Vec::new(),
        interval: 1000,
        seed: 1,
    }
}

fn flow(plan: &Topology, requests: &[(u64, u32)]) -> Window {
    let requests: Vec<_> = requests.iter().map(|(at, id)| (*at, *id, Verb::Get)).collect();
    run(plan, &trace(&requests)).unwrap().total
}

#[test]
fn larders_alone_ask_the_origin_each() {
    let total = flow(&plan(2, 0), &[(0, 0), (1, 0), (2, 0), (3, 0)]);
    assert_eq!((total.origin, total.local, total.remote), (2.0, 2.0, 0.0));
    assert_eq!((total.to_clients, total.from_origin), (4000.0, 2000.0));
}

#[test]
fn a_page_rendered_once_serves_both_and_copies_are_asked_about_again() {
    // The first Larder renders; the second copies, uses the copy, and asks again when it expires.
    let total = flow(&plan(2, 3), &[(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (6000, 0)]);
    assert_eq!((total.origin, total.remote, total.local), (1.0, 2.0, 3.0));
    assert_eq!((total.to_fleet, total.from_fleet), (1000.0, 2000.0));
}

#[test]
fn pages_end_with_their_time() {
    let total = flow(&plan(1, 1), &[(0, 0), (59_999, 0), (60_000, 0)]);
    assert_eq!((total.origin, total.local), (2.0, 1.0));
}

#[test]
fn who_comes_while_a_page_is_rendered_waits() {
    let requests = [(0, 0), (10, 0), (20, 0), (30, 0), (400, 0), (401, 0)];
    let leased = Topology { render: 300, ..plan(2, 1) };
    let total = flow(&leased, &requests);
    assert_eq!((total.origin, total.waited, total.local), (1.0, 3.0, 2.0), "one renders for both");
    let mut alone = leased.clone();
    alone.fleet.as_mut().unwrap().lease = false;
    let total = flow(&alone, &requests);
    assert_eq!(
        (total.origin, total.waited, total.local),
        (2.0, 2.0, 2.0),
        "each renders for its own"
    );
}

#[test]
fn a_purge_takes_a_page_from_everywhere_and_from_those_on_their_way() {
    let slow = Topology { render: 300, ..plan(2, 2) };
    let requests = [
        (0, 0, Verb::Get),
        (100, 0, Verb::Delete),
        (400, 0, Verb::Get),
        (800, 0, Verb::Get),
        (900, 0, Verb::Set),
        (901, 0, Verb::Get),
    ];
    let total = run(&slow, &trace(&requests)).unwrap().total;
    assert_eq!((total.origin, total.requests), (3.0, 4.0));
}

/// Pages 0 to 99 are rendered by one Larder and read by the other; a server fails; all are read
/// again later.
fn with_a_failure(change: impl Fn(&mut Topology)) -> Flow {
    let mut plan =
        Topology { events: vec![Event { at: 5000, what: EventKind::Down(1) }], ..plan(2, 3) };
    change(&mut plan);
    let first = (0..100u64)
        .flat_map(|id| [(id * 2, id as u32, Verb::Get), (id * 2 + 1, id as u32, Verb::Get)]);
    let again = (0..200u64).map(|n| (10_000 + n, (n / 2) as u32, Verb::Get));
    run(&plan, &trace(&first.chain(again).collect::<Vec<_>>())).unwrap()
}

#[test]
fn copies_are_used_on_until_a_server_is_left_out_and_its_pages_are_rendered_again() {
    let flow = with_a_failure(|_| {});
    let total = flow.total;
    assert_eq!((total.failed, total.prolonged), (3.0, 3.0), "three failures, and it is left out");
    let lost = flow.servers[1].sets;
    assert!(lost > 10.0, "{lost}");
    // The first Larder has all pages of its own. The second looks for them on other servers, which
    // do not have them.
    assert_eq!(total.origin, 100.0 + lost - 3.0);
    assert_eq!(flow.peaks[0].before, 100.0 / 5.0);
    let kept = with_a_failure(|plan| plan.fleet.as_mut().unwrap().eject = false).total;
    assert_eq!((kept.origin, kept.prolonged), (100.0, lost), "without ejection copies are used on");
}

#[test]
fn a_larder_that_begins_anew_finds_its_pages_in_the_fleet() {
    let flow =
        with_a_failure(|plan| plan.events = vec![Event { at: 5000, what: EventKind::Restart(0) }]);
    assert_eq!((flow.total.origin, flow.total.remote), (100.0, 300.0));
    let empty = with_a_failure(|plan| plan.events[0].what = EventKind::Purge(1.0));
    assert_eq!(empty.total.origin, 200.0);
}

#[test]
fn a_server_that_comes_back_is_asked_again() {
    for (empty, origin) in [(false, 100.0), (true, 100.0)] {
        let flow = with_a_failure(|plan| {
            plan.events.push(Event { at: 6000, what: EventKind::Up { server: 1, empty } });
        });
        let lost = if empty { flow.servers[1].sets - flow.servers[1].hits } else { 0.0 };
        assert!(
            flow.total.origin >= origin && flow.total.failed == 0.0,
            "{empty} {lost}: {:?}",
            flow.total
        );
        assert_eq!(flow.total.origin > origin, empty);
    }
}
