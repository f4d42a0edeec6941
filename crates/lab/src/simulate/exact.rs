//! For whoever sends the same traces through real servers: the requests, and what an exact LRU makes of them.

use super::{
    cell,
    policy::Kind,
    trace::{self, Gather, Spec, Synthetic},
};
use crate::load::Source;

fn spec(name: &str, keys: u32, requests: u64) -> Result<Spec, String> {
    let base = Synthetic { keys, requests, ..Synthetic::default() };
    Spec::parse(name, None, base)
}

/// The requests of a made trace (`zipf:0.9`), its values' sizes with them.
pub(crate) fn source(name: &str, keys: u32, requests: u64) -> Result<Box<dyn Source>, String> {
    trace::made(&spec(name, keys, requests)?).ok_or_else(|| format!("there is no made trace {name:?}"))
}

/// The share of hits of an exact LRU that holds `size` bytes of keys and values, after the first `warm` part of the trace.
pub(crate) fn lru(name: &str, keys: u32, requests: u64, warm: f64, size: u64) -> Result<f64, String> {
    let trace = trace::read(&spec(name, keys, requests)?, &Gather { warm, ..Gather::default() })?;
    let kind = Kind::named("lru")?;
    Ok(cell::run(&trace, kind, size, 1)?.objects)
}
