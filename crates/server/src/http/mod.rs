//! HTTP, the client side: from a connection to an answer.
//!
//! `conn` takes requests from a connection; `flow` is a request's life; `lookup` finds its page, `fetch` and `bring` get
//! it from the origin (`flight`: once for all who wait; `stow`: into the store), `deliver` (from the
//! store) and `reply` (as it streams by) send it.

mod answer;
mod ask;
mod asked;
mod body;
mod bring;
mod complete;
pub(crate) mod compose;
pub(crate) mod conn;
mod debug;
mod deliver;
mod fetch;
mod fleet;
pub(crate) mod flight;
mod flow;
mod log;
pub(crate) mod lookup;
mod place;
pub(crate) mod purge;
mod refuse;
mod reply;
mod sound;
mod stow;
mod tunnel;
mod variant;
pub(crate) mod worker;

use crate::net::{out, socket, stream};
