//! Cost of a read: nanoseconds of processor time, over threads.
//!
//! One million entries of 16-byte keys and 100-byte values, read at random (most reads miss the
//! processor's caches). Thread counts above the number of processors are left out: they measure
//! nothing.

use crate::caches::{BYTES, Cache, Moka, Quick};
use crate::trace;
use larder_store::{Namespace, Options, Policy, Put, Store};
use std::time::Instant;

const ITEMS: u32 = 1_000_000;
const READS: u32 = 4_000_000;
const NS: Namespace = Namespace(0);

fn open() -> Store {
    let options = Options {
        budget: 256 << 20,
        max_value: 1 << 20,
        policy: Policy::S3Fifo,
        seed: 42,
        threads: 64,
        ..Options::default()
    };
    let store = Store::open(options).expect("256 MiB work");
    for id in 0..ITEMS {
        let put = Put { value: &[&BYTES[..100]], ..Put::default() };
        store.set(NS, &trace::key(id), put, 1000).expect("there is room");
    }
    store
}

/// Nanoseconds per read with this number of threads, each over its own random walk of `keys`
/// entries.
fn time(threads: u32, keys: u32, read: &(dyn Fn(u32) -> bool + Sync)) -> f64 {
    let start = Instant::now();
    std::thread::scope(|s| {
        for t in 0..threads {
            s.spawn(move || {
                let mut state = u64::from(t);
                for _ in 0..READS {
                    let id = (trace::next(&mut state) >> 32) as u32 % keys;
                    assert!(read(id));
                }
            });
        }
    });
    start.elapsed().as_nanos() as f64 / f64::from(READS)
}

/// Prints the table.
pub(crate) fn reads() {
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    let steps: Vec<u32> =
        [1, 2, 4, 8, 16, 32, 64].into_iter().filter(|n| *n <= processors).collect();
    println!(
        "\nNanoseconds per read and thread, {ITEMS} entries of 116 bytes (the same as threads are \
         added: scales)"
    );
    println!(
        "| | {} |",
        steps.iter().map(|n| format!("{n} threads")).collect::<Vec<_>>().join(" | ")
    );
    println!("|---|{}", "---|".repeat(steps.len()));
    let row = |name: &str, keys: u32, read: &(dyn Fn(u32) -> bool + Sync)| {
        let cells: Vec<String> =
            steps.iter().map(|n| format!("{:.0}", time(*n, keys, read))).collect();
        println!("| {name} | {} |", cells.join(" | "));
    };
    let store = open();
    row("larder, all entries", ITEMS, &|id| store.get(NS, &trace::key(id), 1000).is_some());
    row("larder, 1,000 of them", 1000, &|id| store.get(NS, &trace::key(id), 1000).is_some());
    row("larder, one of them", 1, &|id| store.get(NS, &trace::key(id), 1000).is_some());
    drop(store);
    let (mut moka, mut quick) = (Moka::new(256 << 20), Quick::new(256 << 20, 116));
    (0..ITEMS).for_each(|id| {
        moka.request(id, 100);
        quick.request(id, 100);
    });
    row("moka, 1,000 of them", 1000, &|id| moka.0.get(&trace::key(id)).is_some());
    row("moka, one of them", 1, &|id| moka.0.get(&trace::key(id)).is_some());
    row("quick_cache, 1,000 of them", 1000, &|id| quick.0.get(&trace::key(id)).is_some());
    row("quick_cache, one of them", 1, &|id| quick.0.get(&trace::key(id)).is_some());
}
