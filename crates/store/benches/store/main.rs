//! Hit ratios on seeded traces, and what reads cost over threads.
//!
//! `cargo bench -p larder-store` runs all; `cargo bench -p larder-store -- hits` or `-- reads` one part.
#![allow(missing_docs)]

mod caches;
mod trace;

use caches::{Cache, Larder, Lru, Moka, Quick, S3Fifo};
use larder_store::Policy;

fn ratio(cache: &mut dyn Cache, trace: &[u32]) -> f64 {
    let mut hits = 0;
    for (i, id) in trace.iter().enumerate() {
        let hit = cache.request(*id, trace::size(*id));
        hits += usize::from(hit && i >= trace::WARM);
    }
    hits as f64 / (trace.len() - trace::WARM) as f64
}

fn hits() {
    let names = ["larder", "larder FIFO", "S3-FIFO exact", "LRU exact", "moka", "quick_cache"];
    println!("Hit ratio, 64 MiB, {} requests, the first quarter warms up", trace::REQUESTS);
    println!("| trace | {} |", names.join(" | "));
    println!("|---|{}", "---|".repeat(names.len()));
    for (name, kind, theta) in trace::TRACES {
        let trace = trace::trace(kind, theta);
        let ids = 1 + trace.iter().max().copied().unwrap_or(0) as usize;
        let mut row = vec![
            ratio(&mut Larder::new(Policy::S3Fifo), &trace),
            ratio(&mut Larder::new(Policy::Fifo), &trace),
            ratio(&mut S3Fifo::default(), &trace),
            ratio(&mut Lru::new(ids), &trace),
        ];
        if std::env::var_os("QUICK").is_none() {
            row.push(ratio(&mut Moka::new(), &trace));
            row.push(ratio(&mut Quick::new(), &trace));
        }
        let cells: Vec<String> = row.iter().map(|r| format!("{r:.4}")).collect();
        println!("| {name} | {} |", cells.join(" | "));
    }
}

fn main() {
    hits();
}
