//! Hit ratios on seeded traces, and the cost of reads over threads.
//!
//! `cargo bench -p larder-store --bench store` runs both; `-- hits` or `-- reads` one of them.
#![allow(missing_docs)]

mod caches;
mod reads;
mod trace;

use caches::{Cache, Larder, Lru, Moka, Quick, S3Fifo, Seg};
use larder_store::Policy;

/// Share of requests, and of requested bytes, that were hits.
fn ratios(cache: &mut dyn Cache, trace: &[u32]) -> (f64, f64) {
    let (mut hits, mut hit_bytes, mut bytes) = (0, 0, 0);
    for (i, id) in trace.iter().enumerate() {
        let size = trace::size(*id);
        let counted = usize::from(cache.request(*id, size) && i >= trace::WARM);
        hits += counted;
        hit_bytes += counted * size;
        bytes += if i >= trace::WARM { size } else { 0 };
    }
    (hits as f64 / (trace.len() - trace::WARM) as f64, hit_bytes as f64 / bytes as f64)
}

fn hits() {
    let names = [
        "larder",
        "larder FIFO",
        "S3-FIFO exact",
        "LRU exact",
        "moka",
        "quick_cache",
        "segcache",
        "segcache S3-FIFO",
    ];
    println!(
        "Hit ratio (and of bytes), 64 MiB, {} requests, the first quarter warms up",
        trace::REQUESTS
    );
    println!("| trace | {} |", names.join(" | "));
    println!("|---|{}", "---|".repeat(names.len()));
    for (name, kind, theta) in trace::TRACES {
        let trace = trace::trace(kind, theta);
        let ids = 1 + trace.iter().max().copied().unwrap_or(0) as usize;
        let contenders: [&dyn Fn() -> Box<dyn Cache>; 8] = [
            &|| Box::new(Larder::new(Policy::S3Fifo)),
            &|| Box::new(Larder::new(Policy::Fifo)),
            &|| Box::new(S3Fifo::default()),
            &|| Box::new(Lru::new(ids)),
            &|| Box::new(Moka::new(caches::BUDGET)),
            &|| Box::new(Quick::new(caches::BUDGET, 484)),
            &|| Box::new(Seg::new(segcache::Policy::Merge { max: 8, merge: 4, compact: 2 })),
            &|| Box::new(Seg::new(segcache::Policy::S3Fifo { admission_ratio: 0.1 })),
        ];
        let cells = contenders.iter().map(|new| {
            let (hits, bytes) = ratios(new().as_mut(), &trace);
            format!("{hits:.4} ({bytes:.3})")
        });
        println!("| {name} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
}

fn main() {
    let only: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    if only.is_empty() || only.iter().any(|a| a == "hits") {
        hits();
    }
    if only.is_empty() || only.iter().any(|a| a == "reads") {
        reads::reads();
    }
}
