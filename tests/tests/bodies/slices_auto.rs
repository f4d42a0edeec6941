//! Large pages that are kept in slices because clients ask for ranges of them (`slice = "auto"`),
//! and ranges of pages that are not stored, without slices.

// A helper that fails ends its test.
#![allow(clippy::unwrap_used)]

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use larder_tests::{Answer, Larder, Origin, get, get_with};

const MIB: u64 = 1 << 20;
/// Bytes of the file that eight clients read: another number may be given, 1 GiB for example.
const SIZE: &str = "LARDER_TEST_SLICES_MIB";

/// Content of which each part is known by its place; nothing of it is kept.
fn content(from: u64, to: u64) -> Vec<u8> {
    let word = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
    let all: Vec<u8> = (from / 8..to.div_ceil(8)).flat_map(word).collect();
    let first = (from % 8) as usize;
    all[first..first + (to - from) as usize].to_vec()
}

/// An origin of one file, which counts the bytes that it sends.
fn serve(total: u64, fields: &'static [&'static str]) -> (Origin, Arc<AtomicU64>) {
    let sent = Arc::new(AtomicU64::new(0));
    let origin = Origin::start({
        let sent = sent.clone();
        move |seen, reply| {
            let range = seen.get("range").and_then(|range| range.strip_prefix("bytes="));
            let (status, from, to) = match range.and_then(|range| range.split_once('-')) {
                Some((first, last)) => {
                    let last = last.parse().unwrap_or(u64::MAX).min(total - 1);
                    (206, first.parse::<u64>().unwrap(), last + 1)
                }
                None => (200, 0, total),
            };
            sent.fetch_add(to - from, Relaxed);
            let place = format!("Content-Range: bytes {from}-{}/{total}", to - 1);
            let mut all = fields.to_vec();
            if status == 206 {
                all.push(&place);
            }
            reply.answer(status, &all, content(from, to));
        }
    });
    (origin, sent)
}

const FIELDS: &[&str] = &["Cache-Control: max-age=600", "ETag: \"one\""];

fn larder(origin: &Origin, memory: u64, lines: &str) -> Larder {
    Larder::with_config(&format!(
        "memory = \"{memory}MiB\"\n[http]\nlisten = \"127.0.0.1:0\"\n[[site]]\norigin = \"{}\"\n{lines}\n",
        origin.url()
    ))
}

fn range(larder: &Larder, from: u64, to: u64) -> Answer {
    get_with(larder.addr(), "/file", &[&format!("Range: bytes={from}-{}", to - 1)])
}

#[track_caller]
fn check(larder: &Larder, from: u64, to: u64) -> Answer {
    let answer = range(larder, from, to);
    assert_eq!(answer.status, 206, "{from}-{to}");
    assert!(answer.body == content(from, to), "{from}-{to}");
    answer
}

/// The proof of docs/operations.md: eight clients at random places, and each byte comes once.
#[test]
fn eight_clients_at_random_places_cost_each_byte_once() {
    let mib = std::env::var(SIZE).map_or(64, |mib| mib.parse().unwrap());
    let total = mib * MIB + 12_345;
    let (origin, sent) = serve(total, FIELDS);
    let larder = larder(&origin, 2 * mib + 64, "slice = \"auto\"");
    std::thread::scope(|scope| {
        for client in 0..8_u64 {
            let larder = &larder;
            scope.spawn(move || {
                let mut state = client.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
                let mut random = |below: u64| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 33) % below
                };
                for _ in 0..mib / 2 {
                    let from = random(total);
                    check(larder, from, (from + 1 + random(MIB)).min(total));
                }
            });
        }
    });
    let sent = sent.load(Relaxed);
    println!("{sent} of {total} bytes were fetched");
    assert!(sent > total / 2, "{sent} of {total}: too few to say something");
    assert!(sent * 100 <= total * 102, "{sent} of {total}");
}

#[test]
fn large_pages_are_learnt_from_ranges() {
    let total = 16 * MIB;
    let (origin, sent) = serve(total, FIELDS);
    let larder = larder(&origin, 64, "slice = \"auto\"");
    check(&larder, 5 * MIB + 10, 5 * MIB + 20);
    assert_eq!(sent.load(Relaxed), MIB, "a slice");
    assert!(check(&larder, 5 * MIB, 6 * MIB).is_hit());
    check(&larder, 0, 10);
    assert_eq!((sent.load(Relaxed), origin.count()), (2 * MIB, 2));
    // The whole costs what is missing.
    assert!(get(larder.addr(), "/file").body == content(0, total));
    assert_eq!(sent.load(Relaxed), total);
    // A request for another file as a whole costs one request.
    let before = origin.count();
    assert!(get(larder.addr(), "/other").body == content(0, total));
    assert_eq!(origin.count(), before + 1);
}

#[test]
fn small_pages_are_asked_for_in_vain_once() {
    let total = 2 * MIB;
    for fields in [FIELDS, &["Cache-Control: no-store", "ETag: \"one\""]] {
        let (origin, _) = serve(total, fields);
        let larder = larder(&origin, 64, "slice = \"auto\"");
        for n in 0..4 {
            check(&larder, n * 100, n * 100 + 10);
        }
        // One request for a slice, and one for each range that is not stored.
        assert!(origin.count() <= 5, "{}", origin.count());
        let slices = |range: &str| range == "bytes=0-1048575";
        let vain = origin.requests().iter().filter(|r| r.get("range").is_some_and(slices)).count();
        assert_eq!(vain, 1);
    }
}

/// Without slices a range of a page that is not stored costs the origin this range.
#[test]
fn a_range_of_nothing_stored_costs_the_range() {
    for lines in ["", "slice = \"0\"", "preset = \"anonymous\""] {
        let (origin, sent) = serve(16 * MIB, FIELDS);
        let larder = larder(&origin, 64, lines);
        for (n, from) in [3 * MIB, 9 * MIB, 100].into_iter().enumerate() {
            check(&larder, from, from + 100);
            assert_eq!((sent.load(Relaxed), origin.count()), (100 * (n as u64 + 1), n + 1));
        }
    }
}
