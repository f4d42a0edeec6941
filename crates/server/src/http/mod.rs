//! HTTP, the clients' side: from a connection to an answer.
//!
//! `conn` is a connection, `opening` its first bytes, `h2` its HTTP/2; `h3` is a connection of
//! HTTP/3, `streams` what these two share; `flow` is a request's life; `deliver` (from the store),
//! `file` (a file of this machine) and `reply` (as it streams by) send the page that was looked up
//! or fetched, `esi` pages that are put together of parts, `slices` and `packed` those that are
//! kept in slices or in one coding alone, `dictionary` forms that need one; `wire` owns the bytes.

mod admittance;
mod adopt;
mod body;
mod challenge;
mod conn;
mod debug;
mod deliver;
mod dictionary;
mod esi;
mod exchange;
mod file;
mod flow;
pub(crate) mod h2;
pub(crate) mod h3;
mod hints;
mod log;
mod lookups;
mod opening;
mod packed;
mod pass;
mod passing;
mod plugins;
mod purge;
mod redirect;
mod refuse;
mod reply;
mod served;
mod slices;
mod stall;
mod streams;
mod tunnel;
pub(crate) mod worker;
