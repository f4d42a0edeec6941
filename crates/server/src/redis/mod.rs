//! The Redis face: RESP2 and RESP3 over the one store.
//!
//! A connection's bytes go through [`session`] (framing, states), [`dispatch`] (table, rights, locks, counting) and then
//! to one function per command: those of the connection and the server in [`conn`] and [`admin`], those of the data in
//! [`data`]. What all connections of the process share is in [`Shared`].

mod ctx;
mod dispatch;
mod door;
mod session;
mod shared;

pub(crate) use session::Session;
pub(crate) use shared::{Face, Shared};
