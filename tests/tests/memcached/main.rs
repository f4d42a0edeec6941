//! The memcached face, and what both object faces share.
//! One executable: a suite is a module, `cargo test --test memcached SUITE::` runs one.

mod access;
mod clients;
mod details;
mod differential;
mod object_memory;
mod object_tls;
mod object_turns;
mod prints;
mod promises;
mod queue_children;
mod queue_crash;
mod queue_faults;
mod queues;
mod stats;
mod writes;
