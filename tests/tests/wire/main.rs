//! The wire of HTTP/1.1: framing, limits, faults, slow clients; regressions.
//! One executable: a suite is a module, `cargo test --test wire SUITE::` runs one.

mod conditions;
mod connections;
mod debug;
mod faults;
mod forwarded;
mod framing;
mod limits;
mod proxy_protocol;
mod regressions_leaving;
mod regressions_load;
mod regressions_parts;
mod regressions_purge;
mod regressions_requests;
mod regressions_sharing;
mod slow;
mod slow_clients;
mod slow_databases;
mod terminators;
mod tracing;
