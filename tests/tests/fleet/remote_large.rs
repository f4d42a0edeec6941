//! Pages of several MiB in the fleet: only so many at a time are held, and no small page waits for
//! them.

#![allow(clippy::unwrap_used)]

use larder_tests::fleet::{Fleet, Server, counted, wait_counted};
use larder_tests::{Answer, Larder, Origin, Usage, get, wait_until};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::thread;

/// Large pages that are asked for at once: some times as many as a worker takes at a time.
const PAGES: usize = 24;
/// Large pages a worker takes at a time (`LARGE` in `remote/mod.rs`).
const AT_ONCE: usize = 8;
const SIZE: usize = 2 << 20;

/// Nothing but what a test freezes makes anybody wait; a page is in some thirty parts, on all
/// servers.
const PATIENT: &str = "budget = \"1m\"\nread_timeout = \"1m\"\nwrite_timeout = \
                       \"1m\"\nconnect_timeout = \"1m\"\npurge_interval = \"1h\"\nitem_size = \
                       \"64KiB\"";

/// Bytes that no compression makes smaller, others for every target.
fn noise(target: &str, length: usize) -> Vec<u8> {
    let mut state = target
        .bytes()
        .fold(0x9E37_79B9_7F4A_7C15u64, |state, b| (state ^ u64::from(b)).rotate_left(9));
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..length / 8).flat_map(|_| next().to_le_bytes()).collect()
}

fn body(target: &str) -> Vec<u8> {
    if target.starts_with("/large/") { noise(target, SIZE) } else { target.as_bytes().to_vec() }
}

/// A Larder of one worker.
fn larder(fleet: &Fleet, origin: &Origin) -> Larder {
    let (protocol, servers, url) = (fleet.protocol(), fleet.addresses(), origin.url());
    Larder::with_config(&format!(
        "threads = 1\nmemory = \"256MiB\"\n[remote]\nprotocol = \"{protocol}\"\nservers = \
         [{servers}]\n{PATIENT}\n[[site]]\norigin = \"{url}\"\n"
    ))
}

/// Pages of the fleet by name: the server of each one's first item, and how many parts of it lie on
/// each server.
fn pages(fleet: &Fleet) -> BTreeMap<String, (usize, [usize; 3])> {
    let mut pages = BTreeMap::<String, (usize, [usize; 3])>::new();
    for (server, key) in fleet.items() {
        let words: Vec<&str> = key.split(':').collect();
        let (on, parts) = pages.entry(words[..3].join(":")).or_default();
        match words.len() {
            3 => *on = server,
            _ => parts[server] += 1,
        }
    }
    pages
}

/// How many keys a server has found so far.
fn found(server: &Server) -> usize {
    let count = match server {
        Server::Memcached(server) => server.connect().stat("get_hits"),
        Server::Redis(server) => {
            let stats = server.connect().say("INFO stats");
            let hits = stats.lines().find_map(|line| line.strip_prefix("keyspace_hits:"));
            hits.unwrap().trim().to_owned()
        }
    };
    count.parse().unwrap()
}

#[track_caller]
fn assert_from_the_fleet(answer: &Answer, target: &str) {
    assert!(
        answer.assert_status(200).cache_status_has("detail=remote"),
        "{target}: {:?}",
        answer.fields
    );
    assert!(answer.body == body(target), "{target}: {} bytes", answer.body.len());
}

/// Renders a page where no server is frozen; gives on which the fleet has it, or its index.
fn render(one: &Larder, fleet: &Fleet, target: &str) -> usize {
    let (stored, before) = (counted(one, "stores"), pages(fleet));
    get(one.addr(), target).assert_status(200);
    wait_counted(one, "stores", stored + 1);
    let now = pages(fleet);
    now.into_iter().find(|(name, _)| !before.contains_key(name)).unwrap().1.0
}

fn large_pages_wait_for_each_other_and_small_ones_for_none(fleet: Fleet) {
    let origin = Origin::start(|seen, reply| {
        reply.ok(&["Cache-Control: max-age=600", "Content-Type: image/png"], body(&seen.target));
    });
    let one = larder(&fleet, &origin);
    let targets: Vec<String> = (0..PAGES).map(|page| format!("/large/{page}")).collect();
    for (target, sent) in targets.iter().zip(1..) {
        get(one.addr(), target).assert_status(200);
        wait_counted(&one, "stores", sent);
    }
    let large = pages(&fleet);
    assert_eq!(large.len(), PAGES);
    // The server that has the fewest indexes freezes: of most pages the index is read, and not all
    // parts.
    let indexes = |server: usize| large.values().filter(|(on, _)| *on == server).count();
    let frozen = (0..3).min_by_key(|server| indexes(*server)).unwrap();
    let small = (0..)
        .map(|n| format!("/small/{n}"))
        .find(|target| render(&one, &fleet, target) != frozen)
        .unwrap();
    let rendered = origin.count();
    let two = larder(&fleet, &origin);
    // It has heard from all servers, and is to be measured as it is then.
    assert!(!get(two.addr(), "/other").is_hit());
    let found = || {
        (0..3)
            .filter(|server| *server != frozen)
            .map(|server| found(&fleet.servers[server]))
            .sum::<usize>()
    };
    fleet.signal(frozen, Signal::STOP);
    let (before, memory) = (found(), Usage::of(two.pid()).unwrap().rss);
    let clients: Vec<_> = targets
        .into_iter()
        .map(|target| {
            let addr = two.addr();
            thread::spawn(move || assert_from_the_fleet(&get(addr, &target), &target))
        })
        .collect();
    let begun: Vec<_> = large.values().filter(|(on, _)| *on != frozen).collect();
    let mut parts: Vec<usize> =
        begun.iter().map(|(_, on)| on.iter().sum::<usize>() - on[frozen]).collect();
    parts.sort_unstable();
    // All indexes, and the parts of those that have a place.
    let least = begun.len() + parts.iter().take(AT_ONCE).sum::<usize>();
    let most = begun.len() + parts.iter().rev().take(AT_ONCE).sum::<usize>();
    wait_until("all places to be taken", || found() - before >= least);
    assert_from_the_fleet(&get(two.addr(), &small), &small);
    let read = found() - before - 1;
    assert!(read <= most, "{read} items were read, at most {most} with {AT_ONCE} pages at a time");
    fleet.signal(frozen, Signal::CONT);
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert_eq!(origin.count(), rendered + 1, "all came from the fleet");
    // The pages are 48 MiB in its store, and 96 MiB in parts and joined: of those so many at a time
    // are 32.
    let grown = Usage::of(two.pid()).unwrap().peak_rss.saturating_sub(memory);
    assert!(grown < 130 << 20, "grown by {grown} bytes");
}

/// In a cluster the keys of a server that is away are misses at once.
mod large_pages_wait_for_each_other_and_small_ones_for_none {
    use larder_tests::fleet::Fleet;

    #[test]
    fn memcached() {
        super::large_pages_wait_for_each_other_and_small_ones_for_none(Fleet::memcached());
    }

    #[test]
    fn valkey() {
        super::large_pages_wait_for_each_other_and_small_ones_for_none(Fleet::valkey());
    }
}
