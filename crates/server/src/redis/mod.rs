//! The Redis face: RESP2 and RESP3 over the one store.
//!
//! A connection's bytes go through [`session`] (framing, states), [`dispatch`] (table, rights,
//! locks, counting) and then to one function per command: those of the connection in [`conn`],
//! those of the server in [`admin`], those of the data in `data`. What all connections of the
//! process share is in [`Shared`].
//!
//! | file | what |
//! |---|---|
//! | `session.rs`, `state.rs`, `known.rs` | one connection: its bytes, its state, what others may know of it |
//! | `dispatch.rs`, `extra.rs`, `ctx.rs` | from a command's name to its function |
//! | `locks.rs`, `multi.rs` | isolation; MULTI, EXEC, WATCH |
//! | `job.rs` | commands that go on in steps |
//! | `hub.rs`, `notify.rs`, `tracking.rs`, `monitor.rs` | what is told to others: channels, keyspace events, invalidations |
//! | `attention.rs` | who must be told anything: nobody, usually |
//! | `config/`, `counters.rs`, `stats.rs`, `slowlog.rs` | what CONFIG, INFO and SLOWLOG tell |

mod admin;
mod attention;
mod config;
mod conn;
mod counters;
mod ctx;
mod data;
mod dispatch;
mod door;
mod extra;
mod figures;
mod hub;
mod job;
mod known;
mod locks;
mod monitor;
mod multi;
mod names;
mod notify;
mod on_demand;
mod pause;
mod session;
mod shared;
mod slowlog;
mod state;
mod stats;
#[cfg(test)]
mod tests;
mod tracking;
mod watched;

pub(crate) use counters::Counters;
pub(crate) use session::Session;
pub(crate) use shared::{Face, Shared};
