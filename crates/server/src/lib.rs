//! The drivers: listeners, connection loops, the request flow, origins, the access log.
//!
//! The rooms and their order, and walks through them, are in ARCHITECTURE.md.

/// Writes a line to the terminal. Unlike the standard library's macro of this name it does not
/// panic where nobody reads any more: a server goes on when its terminal or log pipe is closed.
macro_rules! eprintln {
    ($($arg:tt)*) => {{
        use std::io::Write as _;
        let _nobody_reads = writeln!(std::io::stderr(), $($arg)*);
    }};
}

pub mod access_log;
pub mod acme;
mod admin;
pub mod app;
mod asked;
pub mod clock;
mod counters;
mod disk;
mod family;
mod fetch;
mod http;
pub mod measure;
mod memcache;
mod net;
mod object;
pub mod origin;
mod page;
mod queue;
mod redis;
pub mod remote;
mod request;
mod room;
mod server;
pub mod settings;
mod trace;
mod wire;
mod worker;

pub use admin::{AdminView, Documents, Order, OrderKind, provide_documents};
pub use net::{
    face_name::{FaceName, told},
    inherited::{Inherited, InheritedSocket},
    link::Link,
    listen::Address,
};
pub use server::{Beat, ReloadError, Server, StartError, Successor, succeed};
