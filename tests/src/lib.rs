//! Drives the real binary over real sockets.
//!
//! Everything here is blocking and plain: a test reads from top to bottom as one story of bytes.
//! Four pieces:
//!
//! - [`Larder`] starts the program, learns its address from what it prints, and kills it when
//!   dropped.
//! - [`Origin`] is a scripted server: a closure answers each request, byte by byte if it likes, and
//!   every request is kept.
//! - [`Wire`] sends exact bytes and reads strictly framed answers; what is not HTTP/1.1 to the
//!   letter fails the test.
//! - [`Gate`] and [`wait_until`] synchronise; no test sleeps and hopes.
//!
//! Every wait has a deadline ([`PATIENCE`]), long enough for a loaded machine and never part of
//! what is asserted.

// A harness reports by panicking: that is how a test fails.
#![allow(clippy::unwrap_used)]

pub mod admin;
pub mod answer;
pub mod apps;
pub mod client;
pub mod databases;
pub mod editor;
pub mod failing_server;
pub mod fastcgi;
pub mod fault_origin;
pub mod fleet;
pub mod h2_client;
pub mod h2_raw;
pub mod h3_client;
pub mod helper;
pub mod larder;
pub mod listening;
pub mod mediawiki;
pub mod memcache;
pub mod memcache_answers;
pub mod memcache_stream;
pub mod mount;
pub mod origin;
pub mod origin_request;
pub mod papers;
pub mod pebble;
pub mod php;
mod printed;
pub mod process;
pub mod queues;
pub mod redis;
pub mod redis_stream;
pub mod refusing;
pub mod scratch;
pub mod sized;
pub mod slow_proxy;
pub mod source;
pub mod started;
pub mod visitor;
pub mod wait;
pub mod wire;
pub mod words;

pub use admin::Admin;
pub use answer::{Answer, Fields};
pub use h2_client::H2;
pub use h3_client::H3;
pub use helper::Helper;
pub use larder::Larder;
pub use memcache::{Memcached, Talk};
pub use origin::{Origin, Reply};
pub use origin_request::Seen;
pub use papers::Papers;
pub use pebble::Pebble;
pub use php::Php;
pub use process::Usage;
pub use redis::{Redis, Resp, Value};
pub use scratch::Scratch;
pub use slow_proxy::SlowProxy;
pub use started::Started;
pub use visitor::Visitor;
pub use wait::{Gate, PATIENCE, wait_for, wait_until};
pub use wire::{Wire, get, get_with};
