//! The Redis face: every suite that speaks RESP.
//! One executable: a suite is a module, `cargo test --test redis SUITE::` runs one.

mod acl;
mod answers;
mod blocking;
mod clients;
mod collection_edits;
mod collection_steps;
mod collections;
mod compat;
mod connections;
mod databases;
mod differential;
mod dump;
mod found_by_suites;
mod functions;
mod hash_expiry;
mod hash_trees;
mod long_fields;
mod pipelines;
mod places;
mod programs;
mod pubsub;
mod scripts;
mod steps;
mod streams;
mod suite;
mod turns;
