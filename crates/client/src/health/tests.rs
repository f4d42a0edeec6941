//! Times are arguments: no test depends on how long anything took.

use super::*;

fn addresses(names: &[&str]) -> Vec<Address> {
    names.iter().map(|name| Address::Tcp((*name).to_owned(), 1)).collect()
}

fn fleet(limit: u32, spares: &[&str]) -> (Arc<Fleet>, Instant) {
    let failure = Failure {
        limit,
        retry_min: Duration::from_millis(100),
        retry_max: Duration::from_millis(1000),
        calm: Duration::from_secs(10),
        ..Failure::default()
    };
    let fleet = Health::new().fleet(&addresses(&["a", "b", "c"]), &addresses(spares), &failure);
    let began = fleet.began;
    (fleet, began)
}

/// Time until the next probe of server 0 is allowed, in milliseconds after `from`.
fn pause(fleet: &Arc<Fleet>, from: Instant) -> u64 {
    fleet.health[0].until.load(Relaxed).saturating_sub(fleet.micros(from)) / 1000
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn a_server_is_down_at_the_limit_and_answers_between_reset_the_count() {
    let (fleet, now) = fleet(3, &[]);
    fleet.failed(0, now);
    fleet.failed(0, now);
    fleet.succeeded(0);
    fleet.failed(0, now);
    fleet.failed(0, now);
    assert!(fleet.is_up(0));
    fleet.failed(0, now);
    assert!(!fleet.is_up(0) && fleet.is_up(1));
    assert!(fleet.route(0, now).server.is_none());
    assert_eq!(fleet.snapshot(0).ejections, 1);
    fleet.failed(0, now);
    assert_eq!(
        fleet.snapshot(0).ejections,
        1,
        "operations under way when it went down say nothing new"
    );
}

#[test]
fn exactly_one_probes_and_only_when_the_pause_is_over() {
    let (fleet, now) = fleet(1, &[]);
    fleet.failed(0, now);
    assert!(
        fleet.route(0, now + ms(74)).probes.is_empty(),
        "pauses are shortened by a quarter at most"
    );
    let mut route = fleet.route(0, now + ms(100));
    assert!(route.server.is_none(), "whoever has the ticket does not wait for the probe");
    assert_eq!(route.probes.len(), 1);
    for _ in 0..100 {
        let others = fleet.route(0, now + ms(500));
        assert!(others.probes.is_empty() && others.server.is_none());
    }
    assert_eq!(fleet.snapshot(0).probes, 1);
    route.probes.remove(0).end(true, now + ms(101));
    assert_eq!(fleet.route(0, now + ms(101)).server, Some(0));
}

#[test]
fn pauses_grow_to_their_bound_and_differ() {
    let (fleet, mut now) = fleet(1, &[]);
    fleet.failed(0, now);
    let mut seen = Vec::new();
    for whole in [100, 200, 400, 800, 1000, 1000, 1000, 1000] {
        let pause = pause(&fleet, now);
        assert!(pause <= whole && pause + 1 >= whole * 3 / 4, "{pause} of {whole}");
        seen.push(pause);
        now += ms(whole);
        fleet.route(0, now).probes.remove(0).end(false, now);
    }
    let last = &seen[4..];
    assert!(last.iter().any(|pause| *pause != last[0]), "no two clients in step: {seen:?}");
}

#[test]
fn a_server_that_flaps_is_asked_ever_more_seldom_until_it_has_been_calm() {
    let (fleet, mut now) = fleet(1, &[]);
    let mut whole = 100;
    for _ in 0..4 {
        fleet.failed(0, now);
        let pause = pause(&fleet, now);
        assert!(pause <= whole && pause + 1 >= whole * 3 / 4, "{pause} of {whole}");
        now += ms(whole);
        fleet.route(0, now).probes.remove(0).end(true, now);
        assert!(fleet.is_up(0));
        now += ms(500);
        whole = (whole * 2).min(1000);
    }
    now += Duration::from_secs(10);
    fleet.failed(0, now);
    assert!(pause(&fleet, now) <= 100);
}

#[test]
fn a_ticket_that_is_dropped_is_a_failed_probe() {
    let (fleet, now) = fleet(1, &[]);
    fleet.failed(0, now);
    drop(fleet.route(0, now + ms(100)).probes);
    assert!(!fleet.is_up(0) && !fleet.snapshot(0).probing);
    let later = now + Duration::from_secs(3600);
    assert_eq!(fleet.route(0, later).probes.len(), 1);
}

#[test]
fn a_spare_takes_the_place_of_one_server_and_gives_it_back() {
    let (fleet, now) = fleet(1, &["s", "t"]);
    fleet.failed(1, now);
    assert_eq!(fleet.route(1, now).server, Some(3));
    fleet.failed(0, now);
    assert_eq!(fleet.route(0, now).server, Some(4));
    fleet.failed(2, now);
    assert_eq!(fleet.route(2, now).server, None, "no third spare");
    // The first spare fails too: no other spare is free, and its own probe is due later.
    fleet.failed(3, now);
    let route = fleet.route(1, now);
    assert_eq!(route.server, None);
    let later = now + ms(100);
    let probed: Vec<usize> = fleet.route(1, later).probes.iter().map(ProbeTicket::server).collect();
    assert_eq!(probed, [1, 3]);
    // Server 0 is back: its spare goes to the lowest server that needs one.
    fleet.route(0, later).probes.into_iter().for_each(|ticket| ticket.end(true, later));
    assert_eq!(fleet.route(0, later).server, Some(0));
    assert_eq!(fleet.route(1, later).server, Some(4));
}

#[test]
fn clients_with_the_same_servers_share_and_others_do_not() {
    let health = Health::new();
    let failure = Failure::default();
    let one = health.fleet(&addresses(&["a", "b"]), &[], &failure);
    let two = health.fleet(&addresses(&["a", "b"]), &[], &failure);
    let other = health.fleet(&addresses(&["b", "a"]), &[], &failure);
    let spare = health.fleet(&addresses(&["a"]), &addresses(&["b"]), &failure);
    one.failed(0, one.began);
    assert!(!two.is_up(0) && other.is_up(0) && other.is_up(1) && spare.is_up(0));
}
