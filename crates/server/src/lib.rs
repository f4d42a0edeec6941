//! The drivers: listeners, connection loops, the request flow, origins, the access log.
//!
//! A request is followed in one direction: `worker` (listener) -> `http::conn` -> `http::flow` -> `http::fetch` ->
//! `http::bring` -> `origin` -> `http::stow` -> `http::deliver` -> `access_log`. An object command: `worker` ->
//! `object::face` (door) -> `object::conn` (loop) -> `memcache` or `redis` (session) and back.

pub mod access_log;
mod admin;
pub mod clock;
pub mod counters;
mod fetch;
mod http;
pub mod measure;
mod memcache;
mod net;
mod object;
pub mod origin;
mod page;
mod redis;
pub mod remote;
mod request;
mod server;
pub mod settings;
mod trace;
mod wire;
mod worker;

pub use admin::AdminView;
pub use net::listen::Address;
pub use server::{FaceName, ReloadError, Server, StartError};
