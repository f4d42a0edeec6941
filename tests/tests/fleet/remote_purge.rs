//! Purges reach every Larder that shares the fleet, and nothing purged comes back through it,
//! whatever comes first.

#![allow(clippy::unwrap_used)]

use larder_tests::admin::Admin;
use larder_tests::fleet::{Fleet, Server, counted, counted_now, wait_counted};
use larder_tests::helper::free_port;
use larder_tests::{Answer, Larder, Origin, get, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const FRESH: &str = "Cache-Control: max-age=600";
/// Copies are not looked after in the fleet again: what makes them go away is the purge.
const LONG: &str = "local_copy = \"1h\"\npurge_interval = \"100ms\"";
/// A server that does not answer is noticed soon, and asked again soon: a purge asks a frozen one for
/// several of these times. A busy machine is not taken for such a server.
const QUICK: &str = "read_timeout = \"500ms\"\nwrite_timeout = \"1s\"\nconnect_timeout = \
                     \"1s\"\nretry_min = \"100ms\"\nretry_max = \"200ms\"";

/// Each answer names the request's number, so that an old page shows.
fn numbered() -> Origin {
    Origin::start(|seen, reply| {
        reply.ok(&[FRESH, "Surrogate-Key: red"], format!("{} {}", seen.target, seen.number));
    })
}

fn signal(larder: &Larder, signal: Signal) {
    kill_process(Pid::from_raw(larder.pid().cast_signed()).unwrap(), signal).unwrap();
}

#[track_caller]
fn purge(larder: &Larder, target: &str, fields: &[&str]) -> Answer {
    let fields = [&["Host: site.test"], fields].concat();
    larder.connect().ask("PURGE", target, &fields)
}

fn text(larder: &Larder, target: &str) -> String {
    get(larder.addr(), target).assert_status(200).text().to_owned()
}

/// Waits until it is not `old` any more; gives what it is.
#[track_caller]
fn wait_changed(larder: &Larder, target: &str, old: &str) -> String {
    let mut now = String::new();
    wait_until(&format!("{target} to be purged"), || {
        now = text(larder, target);
        now != old
    });
    now
}

/// Puts back what a server had: one that was away when it was to be deleted.
fn old_items(fleet: &Fleet) -> Vec<((usize, String), Vec<u8>)> {
    let value = |item: (usize, String)| {
        let value = fleet.value(&item);
        (item, value)
    };
    fleet.items().into_iter().map(value).collect()
}

fn put_back(fleet: &Fleet, items: &[((usize, String), Vec<u8>)]) {
    items.iter().for_each(|(item, value)| fleet.put(item, value));
}

fn every_kind_of_purge_reaches_copies_and_pages_of_its_own(fleet: Fleet) {
    let origin = numbered();
    let admin =
        format!("{LONG}\n[http]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = [\"127.0.0.1:0\"]");
    let (one, two) = (fleet.larder(&origin, &admin), fleet.larder(&origin, LONG));
    let kinds: [&dyn Fn(&str); 6] = [
        &|target| drop(purge(&one, target, &[])),
        &|target| drop(purge(&one, target, &["Larder-Soft-Purge: 1"])),
        &|target| drop(purge(&one, &target[..4], &["Larder-Purge: prefix"])),
        &|_| drop(purge(&one, "/", &["Larder-Purge: tag", "Surrogate-Key: red"])),
        &|target| {
            Admin::of(&one).purge(&json!({"ban": format!("url ~ \"^{target}\"")}));
        },
        &|target| {
            Admin::of(&one).purge(&json!({"url": format!("http://site.test{target}")}));
        },
    ];
    for (number, kind) in kinds.iter().enumerate() {
        let (copy, own) = (format!("/{number}/copy"), format!("/{number}/own"));
        let stored = counted(&one, "stores");
        let rendered = text(&one, &copy);
        wait_counted(&one, "stores", stored + 1);
        // Mostly a copy: who asks while the page is being sent may win the next lease, and render
        // it himself.
        let shown = text(&two, &copy);
        let alone = text(&two, &own);
        for (target, old) in [(&copy, &shown), (&own, &alone)] {
            kind(target);
            wait_changed(&two, target, old);
            let now = text(&one, target);
            assert!(now != *old && now != rendered, "{now}");
        }
    }
    wait_counted(&two, "purges_learned", 12);
    assert_eq!(counted(&one, "purges_learned"), 0, "nobody is told of his own");
}

fn a_server_that_comes_back_with_the_old_page_is_not_believed(fleet: Fleet) {
    let origin = numbered();
    let (one, two) = (fleet.larder(&origin, LONG), fleet.larder(&origin, LONG));
    let old = text(&one, "/page");
    wait_counted(&one, "stores", 1);
    let items = old_items(&fleet);
    purge(&one, "/page", &[]).assert_status(200);
    wait_counted(&two, "purges_learned", 1);
    put_back(&fleet, &items);
    let three = fleet.larder(&origin, LONG);
    for larder in [&three, &two, &one] {
        put_back(&fleet, &items);
        assert_ne!(text(larder, "/page"), old);
    }
    // It was there, and was known to be old.
    wait_counted(&three, "purged", 1);
}

fn a_frozen_server_thaws(fleet: Fleet) {
    let origin = numbered();
    let quick = format!("{LONG}\n{QUICK}");
    let (one, two) = (fleet.larder(&origin, &quick), fleet.larder(&origin, &quick));
    for page in 0..4 {
        let target = format!("/page/{page}");
        let stored = counted(&one, "stores");
        let old = text(&one, &target);
        wait_counted(&one, "stores", stored + 1);
        assert_eq!(text(&two, &target), old);
        let items = old_items(&fleet);
        let (server, _) = items.iter().find(|_| true).unwrap().0.clone();
        fleet.signal(server, Signal::STOP);
        purge(&one, &target, &[]);
        wait_changed(&two, &target, &old);
        fleet.signal(server, Signal::CONT);
        put_back(&fleet, &items);
        assert_ne!(text(&one, &target), old);
        let three = fleet.larder(&origin, &quick);
        assert_ne!(text(&three, &target), old);
        assert_ne!(text(&two, &target), old);
    }
}

/// An origin whose answers to `/page` are begun at once, and end when the door is opened.
fn held_up() -> (Origin, Arc<AtomicBool>) {
    let open = Arc::new(AtomicBool::new(true));
    let door = open.clone();
    let origin = Origin::start(move |seen, reply| {
        let number = seen.number;
        wait_until("the door to be opened", || door.load(Ordering::SeqCst));
        reply.ok(&[FRESH, "Surrogate-Key: red"], format!("{} {number}", seen.target));
    });
    (origin, open)
}

#[test]
fn a_page_rendered_while_another_larder_purges_is_not_kept() {
    for fields in [&[][..], &["Larder-Purge: prefix"], &["Larder-Purge: tag", "Surrogate-Key: red"]]
    {
        let (fleet, (origin, open)) = (Fleet::memcached(), held_up());
        let (one, two) = (fleet.larder(&origin, LONG), fleet.larder(&origin, LONG));
        open.store(false, Ordering::SeqCst);
        let addr = two.addr();
        let client = thread::spawn(move || get(addr, "/page"));
        origin.wait_for(1);
        purge(&one, "/page", fields);
        wait_counted(&two, "purges_learned", 1);
        open.store(true, Ordering::SeqCst);
        let old = client.join().unwrap().text().to_owned();
        for larder in [&one, &two] {
            assert_ne!(text(larder, "/page"), old);
        }
    }
}

fn a_page_sent_by_one_who_has_not_heard_of_the_purge_is_not_taken(fleet: Fleet) {
    let (origin, open) = held_up();
    let deaf = LONG.replace("100ms", "1h");
    let (one, two) = (fleet.larder(&origin, LONG), fleet.larder(&origin, &deaf));
    // From then on it asks for nothing but on occasion.
    text(&two, "/first");
    wait_counted(&two, "stores", 1);
    open.store(false, Ordering::SeqCst);
    let addr = two.addr();
    let client = thread::spawn(move || get(addr, "/page"));
    origin.wait_for(2);
    purge(&one, "/page", &[]);
    wait_counted(&one, "deletes", 1);
    open.store(true, Ordering::SeqCst);
    let old = client.join().unwrap().text().to_owned();
    wait_counted(&two, "stores", 2);
    assert_eq!(counted(&two, "purges_learned"), 0, "it has not heard of it");
    let three = fleet.larder(&origin, LONG);
    for larder in [&one, &three] {
        assert_ne!(text(larder, "/page"), old);
    }
    // The old page was there.
    wait_counted(&one, "purged", 1);
}

fn one_who_was_away_hears_of_it_when_he_is_back(fleet: Fleet) {
    let origin = numbered();
    let (one, two) = (fleet.larder(&origin, LONG), fleet.larder(&origin, LONG));
    let (copy, own) = (text(&one, "/copy"), text(&two, "/own"));
    wait_counted(&one, "stores", 1);
    assert_eq!(text(&two, "/copy"), copy);
    let items = old_items(&fleet);
    signal(&two, Signal::STOP);
    purge(&one, "/copy", &[]);
    purge(&one, "/own", &[]);
    put_back(&fleet, &items);
    signal(&two, Signal::CONT);
    wait_changed(&two, "/copy", &copy);
    wait_changed(&two, "/own", &own);
    drop(two);
    purge(&one, "/own", &[]);
    put_back(&fleet, &items);
    let again = fleet.larder(&origin, LONG);
    assert_ne!(text(&again, "/copy"), copy, "a restart knows no more than the fleet tells it");
    assert_ne!(text(&again, "/own"), own);
}

fn one_who_missed_purges_keeps_nothing(fleet: Fleet) {
    let origin = numbered();
    // Small items: a log of less than 2 KiB.
    let small = format!("{LONG}\nitem_size = \"4KiB\"");
    let (one, two) = (fleet.larder(&origin, &small), fleet.larder(&origin, &small));
    let own = text(&two, "/page");
    wait_counted(&two, "stores", 1);
    wait_until("both to have read the journal", || text(&one, "/page") == own);
    signal(&two, Signal::STOP);
    purge(&one, "/page", &[]);
    for other in 0..100 {
        purge(&one, &format!("/other/{other}"), &[]);
    }
    signal(&two, Signal::CONT);
    wait_changed(&two, "/page", &own);
    wait_counted(&two, "purges_missed", 1);
}

/// As many as the journal holds at its usual size, and more, while one Larder is stopped: what it
/// missed is cut off.
#[test]
fn more_purges_than_the_journal_holds_leave_nothing_old() {
    const TAGS: usize = 5000;
    let (fleet, origin) = (Fleet::memcached(), numbered());
    let (one, two) = (fleet.larder(&origin, LONG), fleet.larder(&origin, LONG));
    let copy = text(&one, "/copy");
    wait_counted(&one, "stores", 1);
    assert_eq!(text(&two, "/copy"), copy);
    // Nobody purges the last one.
    let own = ["/own", "/kept"].map(|target| text(&two, target));
    wait_counted(&two, "stores", 2);
    let items = old_items(&fleet);
    signal(&two, Signal::STOP);
    purge(&one, "/copy", &[]);
    purge(&one, "/own", &[]);
    // Purges of one request go into the journal together; so do those of requests at the same time.
    let tags: Vec<String> = (0..TAGS).map(|tag| format!("{tag:0>100}")).collect();
    thread::scope(|scope| {
        for tags in tags.chunks(TAGS / 8) {
            let one = &one;
            scope.spawn(move || {
                for tags in tags.chunks(50) {
                    let fields =
                        ["Larder-Purge: tag", &format!("Surrogate-Key: {}", tags.join(" "))];
                    purge(one, "/", &fields).assert_status(404);
                }
            });
        }
    });
    put_back(&fleet, &items);
    signal(&two, Signal::CONT);
    let old = [("/copy", &copy), ("/own", &own[0]), ("/kept", &own[1])];
    old.iter().for_each(|(target, old)| drop(wait_changed(&two, target, old)));
    wait_counted(&two, "purges_missed", 1);
    assert!(
        counted_now(&two, &["purges_learned"]) < TAGS as u64,
        "the journal did not hold them all"
    );
    // Records that come back are refused: by a Larder that missed purges, and by one that starts
    // now.
    let three = fleet.larder(&origin, LONG);
    for larder in [&two, &three] {
        put_back(&fleet, &items);
        old.iter().take(2).for_each(|(target, old)| assert_ne!(text(larder, target), **old));
    }
}

fn servers_that_lost_the_journal_are_told_again(fleet: Fleet) {
    let origin = numbered();
    let (one, two) = (fleet.larder(&origin, LONG), fleet.larder(&origin, LONG));
    let old = text(&one, "/page");
    wait_counted(&one, "stores", 1);
    let items = old_items(&fleet);
    purge(&one, "/page", &[]);
    wait_counted(&two, "purges_learned", 1);
    drop(one);
    fleet.servers.iter().for_each(Server::flush);
    // Whoever is left writes it anew.
    wait_until("the journal to be back", || fleet.servers.iter().all(Server::has_journal));
    put_back(&fleet, &items);
    let three = fleet.larder(&origin, LONG);
    assert_ne!(text(&three, "/page"), old);
    assert_ne!(text(&two, "/page"), old);
}

fn the_fleet_is_not_believed_before_its_journal_was_read(fleet: Fleet) {
    let origin = numbered();
    let quick = format!("{LONG}\n{QUICK}");
    let (one, two) = (fleet.larder(&origin, &quick), fleet.larder(&origin, &quick));
    let old = text(&one, "/page");
    wait_counted(&one, "stores", 1);
    assert_eq!(text(&two, "/page"), old);
    let items = old_items(&fleet);
    (0..3).for_each(|server| fleet.signal(server, Signal::STOP));
    wait_counted(&two, "rounds_failed", 1);
    purge(&one, "/page", &[]);
    assert_ne!(text(&one, "/page"), old);
    (0..3).for_each(|server| fleet.signal(server, Signal::CONT));
    wait_changed(&two, "/page", &old);
    put_back(&fleet, &items);
    for larder in [&one, &two] {
        assert_ne!(text(larder, "/page"), old);
    }
}

/// A Larder at `port` whose peer is at `peer`; it has the token, and asks the fleet for purges once
/// an hour.
fn peer(fleet: &Fleet, origin: &Origin, token: &str, ports: [u16; 2]) -> Larder {
    let path = std::env::temp_dir().join(format!("larder-peer-{}-{token}", std::process::id()));
    std::fs::write(&path, format!("{token}\n")).unwrap();
    let [port, peer] = ports;
    let lines = format!(
        "local_copy = \"1h\"\npurge_interval = \"1h\"\npeers = [\"http://127.0.0.1:{peer}\"]\npeer_token_file = \"{}\"\n[http]\nlisten = [\"127.0.0.1:{port}\"]",
        path.display()
    );
    fleet.larder(origin, &lines)
}

fn peers_are_told_at_once_and_tell_nobody(fleet: Fleet) {
    let origin = numbered();
    let ports = [free_port(), free_port()];
    let one = peer(&fleet, &origin, "sesame", ports);
    let two = peer(&fleet, &origin, "sesame", [ports[1], ports[0]]);
    for target in ["/a", "/b", "/c"] {
        let old = text(&two, target);
        purge(&one, target, &[]);
        wait_changed(&two, target, &old);
    }
    wait_counted(&one, "purges_told", 3);
    wait_counted(&two, "purges_learned", 3);
    assert_eq!((counted(&two, "purges_told"), counted(&one, "parcels_heard")), (0, 0), "no loop");
    let old = text(&one, "/d");
    purge(&two, "/d", &[]);
    wait_changed(&one, "/d", &old);
    assert_eq!(counted(&one, "purges_told"), 3);
}

fn peers_believe_only_who_has_the_token(fleet: Fleet) {
    let origin = numbered();
    let ports = [free_port(), free_port()];
    let one = peer(&fleet, &origin, "sesame", ports);
    let two = peer(&fleet, &origin, "millet", [ports[1], ports[0]]);
    // It believes the fleet once it has read the journal, and reads it again in an hour.
    let has_read = |n: u64| {
        let target = format!("/{n}");
        let page = text(&one, &target);
        wait_counted(&one, "stores", n + 1);
        text(&two, &target) == page
    };
    assert!((0..1000).any(has_read));
    let old = text(&two, "/page");
    purge(&one, "/page", &[]);
    wait_counted(&one, "purges_untold", 1);
    assert_eq!(counted(&two, "parcels_heard"), 0);
    assert_eq!(text(&two, "/page"), old);
    let journal = "Larder-Purge: journal";
    let ask = |fields: &[&str]| {
        two.connect().ask("PURGE", "/", &[&["Host: x", journal], fields].concat())
    };
    ask(&["Larder-Journal: 00"]).assert_status(403);
    ask(&["Larder-Journal: 00", "Authorization: Bearer sesame"]).assert_status(403);
    ask(&["Larder-Journal: 00", "Authorization: Basic millet"]).assert_status(403);
    ask(&["Larder-Journal: 00", "Authorization: Bearer millet"]).assert_status(400);
    ask(&["Larder-Journal: zz", "Authorization: Bearer millet"]).assert_status(400);
    ask(&["Authorization: Bearer millet"]).assert_status(400);
    assert_eq!(text(&two, "/page"), old);
}

/// When a purge is answered, whoever reads the journal next hears of it: the author may die at
/// once.
fn a_purge_is_answered_when_the_journal_has_it(fleet: Fleet) {
    let origin = numbered();
    let one = fleet.larder(&origin, LONG);
    let answer = purge(&one, "/page", &[]);
    let json: serde_json::Value = serde_json::from_slice(&answer.assert_status(404).body).unwrap();
    let (written, of) = (&json["journal"]["written"], &json["journal"]["of"]);
    assert!(written == of && written.as_u64() >= Some(3), "{json}");
    assert!(fleet.servers.iter().all(Server::has_journal));
    signal(&one, Signal::KILL);
    let two = fleet.larder(&origin, LONG);
    wait_counted(&two, "purges_learned", 1);
}

#[test]
fn a_purge_that_no_server_takes_says_so() {
    let fleet = Fleet::memcached();
    let origin = numbered();
    let one = fleet.larder(&origin, "read_timeout = \"100ms\"\nconnect_timeout = \"100ms\"");
    (0..3).for_each(|server| fleet.signal(server, Signal::KILL));
    let answer = purge(&one, "/page", &["Larder-Purge: prefix"]);
    let json: serde_json::Value = serde_json::from_slice(&answer.assert_status(404).body).unwrap();
    assert_eq!(json["journal"], json!({"written": 0, "of": 3}));
}

larder_tests::on_every_fleet! {
    a_purge_is_answered_when_the_journal_has_it,
    every_kind_of_purge_reaches_copies_and_pages_of_its_own,
    a_server_that_comes_back_with_the_old_page_is_not_believed,
    a_frozen_server_thaws,
    a_page_sent_by_one_who_has_not_heard_of_the_purge_is_not_taken,
    one_who_was_away_hears_of_it_when_he_is_back,
    one_who_missed_purges_keeps_nothing,
    servers_that_lost_the_journal_are_told_again,
    the_fleet_is_not_believed_before_its_journal_was_read,
    peers_are_told_at_once_and_tell_nobody,
    peers_believe_only_who_has_the_token,
}
