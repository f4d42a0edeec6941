//! Synthetic traces and the results of an exact LRU, for comparisons with real servers.

use super::{
    cell,
    policy::Kind,
    trace::{self, LoadOptions, Spec, Synthetic},
};
use crate::load::Source;

fn spec(name: &str, keys: u32, requests: u64) -> Result<Spec, String> {
    let base = Synthetic { keys, requests, ..Synthetic::default() };
    Spec::parse(name, None, base)
}

/// The requests of a synthetic trace (`zipf:0.9`), with value sizes.
pub(crate) fn source(name: &str, keys: u32, requests: u64) -> Result<Box<dyn Source>, String> {
    trace::synthetic_source(&spec(name, keys, requests)?)
        .ok_or_else(|| format!("there is no made trace {name:?}"))
}

/// Hit ratio of an exact LRU of `size` bytes of keys and values, after the first `warm` share of
/// the trace.
pub(crate) fn lru(
    name: &str,
    keys: u32,
    requests: u64,
    warm: f64,
    size: u64,
) -> Result<f64, String> {
    let trace =
        trace::read(&spec(name, keys, requests)?, &LoadOptions { warm, ..LoadOptions::default() })?;
    let kind = Kind::named("lru")?;
    Ok(cell::run(&trace, kind, size, 1)?.objects)
}
