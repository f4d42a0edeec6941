//! The drivers: listeners, connection loops, the request flow, origins, the access log.
//!
//! A request is followed in one direction: `worker` (listener) -> `http::conn` -> `http::flow` -> `http::flight` ->
//! `origin` -> `http::deliver` -> `access_log`.

pub mod access_log;
pub mod origin;
pub mod settings;
