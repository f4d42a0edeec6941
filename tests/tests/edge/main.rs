//! The edge: TLS, HTTP/2, HTTP/3 and certificates.
//! One executable: a suite is a module, `cargo test --test edge SUITE::` runs one.

mod acme;
mod edge_clients;
mod http2;
mod http2_hostile;
mod http2_slow;
mod http3;
mod http3_hostile;
mod http3_memory;
mod http3_slow;
mod https;
mod https_clients;
mod https_origins;
mod https_sessions;
