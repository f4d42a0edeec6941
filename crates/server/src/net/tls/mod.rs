//! TLS of clients' connections: a session that stands between a socket and its connection.
//!
//! A session has no buffers while nothing is under way: received records are decrypted in a buffer
//! of the thread, sealed records leave from another. A session keeps no more than the sealed bytes
//! that the socket did not take, and the beginning of a record whose end is still to come.
//!
//! `send` reports bytes as sent once their record has left. Until then the caller offers them
//! again, as it does where a socket takes none.

mod client;
mod config;
mod facts;
mod records;
mod scratch;
mod session;
#[cfg(test)]
mod tests;
mod tickets;

pub(crate) use client::{Client, ClientCertificate};
pub(crate) use config::{Configs, face_config, quic_config};
pub(crate) use facts::{Handshake, Negotiated, TlsFailure};
pub(crate) use session::{Session, Transport};
