//! An asynchronous client of memcached servers.
//!
//! Few connections and large batches: requests that arrive while a connection is busy go out in one
//! vectored write. Keys are placed exactly as libmemcached, spymemcached or twemproxy place them.
//! An unreachable server costs one timeout and then nothing until a probe succeeds.
//!
//! ```no_run
//! use larder_client::{Client, Config, Server, Store};
//! use std::time::Duration;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let servers = [Server::parse("10.0.0.1:11211")?, Server::parse("10.0.0.2:11211 weight=2")?];
//! let client = Client::new(Config::new(servers))?;
//! client.set(b"greeting", "hello".into(), Store::lasting(Duration::from_secs(60))).await?;
//! if let Some(item) = client.get(b"greeting").await? {
//!     assert_eq!(item.value, "hello");
//! }
//! for answer in client.get_many(&[b"greeting", b"other"]).await {
//!     println!("{:?}", answer?);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`Client`] | the operations; choosing a server, and handling its failure |
//! | [`Config`] | the configuration |
//! | [`Connector`] | custom connections: TLS |
//! | [`Server`] | a server: address, weight, name |
//! | [`placement`] | mapping of keys to servers, as other clients do it |
//! | [`hash`] | the hashes of placement, as libmemcached computes them |
//! | [`Router`] | choice of server for users of other protocols |
//! | [`Health`] | health of the servers, shared between clients |
//! | `peer` | a server: its connections and probes |
//! | `lane` | one connection: its queue, batches, replies in order |
//!
//! Dropping a future abandons its answer, not the connection: the answer is read and dropped.
//! Clients are made and used inside a tokio runtime with time and I/O enabled; a connection's task
//! runs in the runtime that first needs it.
#![forbid(unsafe_code)]

mod client;
mod config;
mod connect;
mod counters;
mod error;
mod expiry;
pub mod hash;
mod health;
mod item;
mod lane;
mod many;
mod op;
mod peer;
pub mod placement;
mod rings;
mod router;
pub mod server;
mod view;

pub use client::Client;
pub use config::{
    Auth, Config, Eject, Failure, MAX_CONNECTIONS, MAX_PREFIX, MAX_SERVERS, Protocol, Timeouts,
};
pub use connect::{Connecting, Connection, Connector, SharedConnector, dial};
pub use counters::{Count, Counters};
pub use error::{ConfigError, Error};
pub use health::Health;
pub use item::{Expiry, Item, Store, Stored};
pub use placement::{Distribution, Placement, Ring};
pub use router::{Probe, Router};
pub use server::{Address, Server, ServerError};
pub use view::{ServerView, State};
