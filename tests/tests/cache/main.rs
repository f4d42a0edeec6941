//! The rules of the cache: keys, freshness, variants, conditions, purges.
//! One executable: a suite is a module, `cargo test --test cache SUITE::` runs one.

mod access_log;
mod cache_suite;
mod coalescing;
mod conditionals;
mod hits;
mod key_codings;
mod key_cookies;
mod key_heads;
mod key_overrides;
mod keys;
mod metrics;
mod no_vary_search;
mod purge;
mod ranges;
mod routing;
mod rules;
mod staleness;
mod vary;
mod vary_by;
