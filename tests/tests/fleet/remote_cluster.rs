//! Slots of a cluster that move from server to server while pages are asked for.

#![allow(clippy::unwrap_used)]

use larder_tests::fleet::{Fleet, Server, counted};
use larder_tests::{Larder, Origin, Redis, Wire, get, wait_until};

fn node(fleet: &Fleet, number: usize) -> &Redis {
    match &fleet.servers[number] {
        Server::Redis(server) => server,
        Server::Memcached(_) => panic!("a cluster is of Redises"),
    }
}

/// How often a server has said so (`errorstat_MOVED:count=3`).
fn said(fleet: &Fleet, what: &str) -> u64 {
    let of = |number: usize| {
        let stats = node(fleet, number).connect().say("INFO errorstats");
        let begin = format!("errorstat_{what}:count=");
        let count =
            stats.lines().find_map(|line| line.strip_prefix(&begin)?.trim().parse::<u64>().ok());
        count.unwrap_or(0)
    };
    (0..3).map(of).sum()
}

fn body(target: &str) -> String {
    format!("body of {target}")
}

/// Asks for every page and looks at every answer.
fn ask_all(larder: &Larder, pages: &[String]) {
    let mut wire = Wire::connect(larder.addr());
    for target in pages {
        assert_eq!(wire.get(target, &[]).assert_status(200).text(), body(target));
    }
}

#[test]
fn slots_that_move_are_followed() {
    let fleet = Fleet::cluster();
    let origin = Origin::start(|seen, reply| {
        reply.ok(&["Cache-Control: max-age=600"], body(&seen.target));
    });
    let short = "local_copy = \"100ms\"\nlease = \"0s\"";
    let (one, two) = (fleet.larder(&origin, short), fleet.larder(&origin, short));
    let pages: Vec<String> = (0..40).map(|page| format!("/page/{page}")).collect();
    ask_all(&one, &pages);
    wait_until("all pages to be sent", || counted(&one, "stores") >= 40);
    ask_all(&two, &pages);
    let rendered = origin.count();
    let ids: Vec<String> = (0..3).map(|n| node(&fleet, n).connect().say("CLUSTER MYID")).collect();
    // Every slot of the first server that has a page goes to the second: in the middle of it, keys
    // are asked for where they are not any more, or not yet.
    let items: Vec<String> =
        fleet.items().into_iter().filter(|(on, _)| *on == 0).map(|(_, key)| key).collect();
    assert!(!items.is_empty());
    let addr = node(&fleet, 1).addr();
    for key in &items {
        let slot = node(&fleet, 0).connect().say(&format!("CLUSTER KEYSLOT {key}"));
        let say = |n: usize, words: String| node(&fleet, n).connect().say(&words);
        assert_eq!(say(1, format!("CLUSTER SETSLOT {slot} IMPORTING {}", ids[0])), "OK");
        assert_eq!(say(0, format!("CLUSTER SETSLOT {slot} MIGRATING {}", ids[1])), "OK");
        ask_all(&two, &pages);
        let keys = say(0, format!("CLUSTER GETKEYSINSLOT {slot} 100"));
        for key in keys.trim_matches(['[', ']']).split(' ') {
            let moved = say(0, format!("MIGRATE 127.0.0.1 {} {key} 0 5000", addr.port()));
            assert!(moved == "OK" || moved == "NOKEY", "{moved}");
        }
        // Here it is asked for where it was, and told where it is.
        wait_until("copies to be asked for again", || {
            ask_all(&two, &pages);
            said(&fleet, "ASK") > 0
        });
        for number in [1, 0, 2] {
            say(number, format!("CLUSTER SETSLOT {slot} NODE {}", ids[1]));
        }
        ask_all(&one, &pages);
    }
    wait_until("a key to be asked for where it was", || {
        ask_all(&one, &pages);
        ask_all(&two, &pages);
        said(&fleet, "MOVED") > 0
    });
    // Moved pages are found in their new place: only pages requested in between are rendered again.
    let hits = counted(&two, "hits");
    wait_until("pages to be taken from the fleet again", || {
        get(two.addr(), &pages[0]).assert_status(200);
        counted(&two, "hits") > hits
    });
    assert!(origin.count() <= rendered + 5, "{} rendered again", origin.count() - rendered);
}
