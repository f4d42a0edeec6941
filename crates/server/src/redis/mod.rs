//! The Redis face: RESP2 and RESP3 over the shared store.
//!
//! A connection's bytes pass through [`session`] (framing, states), [`dispatch`] (table, rights,
//! locks, counting) and then one handler per command: those of the connection in [`conn`], of the
//! server in [`admin`], of the data in `data`. [`Shared`] holds the state of all connections of the
//! process.
//!
//! | file | contents |
//! |---|---|
//! | `session.rs`, `muted.rs`, `state.rs`, `known.rs` | one connection: bytes, private and public state |
//! | `dispatch.rs`, `extra.rs`, `ctx.rs` | from a command's name to its function |
//! | `acl/` | users and their rights |
//! | `locks.rs`, `multi.rs` | isolation; MULTI, EXEC, WATCH |
//! | `job.rs`, `freed.rs` | commands in steps, and what they leave |
//! | `script/` | Lua scripts |
//! | `hub.rs`, `subscribers.rs`, `notify.rs`, `tracking.rs`, `monitor.rs` | messages between clients |
//! | `untold.rs` | messages in delivery, in the steps after a command |
//! | `waiting.rs` | clients in blocking commands |
//! | `attention.rs` | flags that tell which messages anybody wants |
//! | `due_fields.rs` | fields of hashes that expire, for the sweep |
//! | `config/`, `counters.rs`, `stats.rs` | data of CONFIG and INFO |
//! | `slowlog.rs`, `events.rs` | data of SLOWLOG and LATENCY |
//! | `pause.rs`, `refusals.rs` | commands that wait for CLIENT UNPAUSE, or are refused by a setting |

mod acl;
mod admin;
mod attention;
mod config;
mod conn;
mod counters;
mod ctx;
mod data;
mod dispatch;
mod due_fields;
mod events;
mod extra;
mod face;
mod figures;
mod freed;
mod hub;
mod job;
mod known;
mod locks;
mod monitor;
mod multi;
mod muted;
mod names;
mod notify;
mod on_demand;
mod pause;
mod refusals;
mod script;
mod session;
mod shared;
mod slowlog;
mod state;
mod stats;
mod subscribers;
#[cfg(test)]
mod tests;
mod tracking;
mod untold;
mod waiter;
mod waiting;
mod watched;

pub(crate) use counters::Counters;
pub(crate) use script::Functions;
pub(crate) use session::Session;
pub(crate) use shared::{Face, Shared};
