//! The drivers: listeners, connection loops, the request flow, origins, the access log.
//!
//! The rooms and their order, and walks through them, are in ARCHITECTURE.md.

pub mod access_log;
pub mod acme;
mod admin;
pub mod app;
pub mod clock;
mod counters;
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
mod room;
mod server;
pub mod settings;
mod trace;
mod wire;
mod worker;

pub use admin::{AdminView, Order, OrderKind};
pub use net::{
    inherited::{Inherited, InheritedSocket},
    listen::Address,
};
pub use server::{FaceName, ReloadError, Server, StartError, told};
