//! The fleet of memcached servers as a tier, and the client library.
//! One executable: a suite is a module, `cargo test --test fleet SUITE::` runs one.

mod client_claims;
mod client_cli;
mod client_faults;
mod client_hostile;
mod client_memory;
mod client_quiet;
mod client_tls;
mod client_verbs;
mod client_wire;
mod client_writes;
mod family;
mod family_faults;
mod remote;
mod remote_cluster;
mod remote_faults;
mod remote_forged;
mod remote_large;
mod remote_lease;
mod remote_purge;
mod remote_spelling;
