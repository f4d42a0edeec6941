//! The load lab: `larder bench` and `larder-lab`.
//! One executable: a suite is a module, `cargo test --test lab SUITE::` runs one.

mod bench;
mod bench_compare;
mod bench_tls;
mod bench_truth;
mod lab_mediawiki;
mod lab_simulate;
