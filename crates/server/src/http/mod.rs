//! HTTP, the clients' side: from a connection to an answer.
//!
//! `conn` is a connection, `opening` its first bytes, `h2` its HTTP/2; `flow` is a request's life;
//! `deliver` (from the store) and `reply` (as it streams by) send the page that was looked up or
//! fetched; `wire` owns the bytes.

mod body;
mod challenge;
mod conn;
mod debug;
mod deliver;
mod exchange;
mod flow;
pub(crate) mod h2;
mod hints;
mod log;
mod opening;
mod pass;
mod passing;
mod purge;
mod redirect;
mod refuse;
mod reply;
mod tunnel;
pub(crate) mod worker;
