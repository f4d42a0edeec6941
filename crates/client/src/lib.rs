//! An asynchronous client of memcached servers.
//!
//! Few connections and large batches: whatever is asked of a server while its connection is busy goes out in one vectored
//! write. Keys are placed as libmemcached, spymemcached or twemproxy place them, byte for byte. A server that cannot be
//! reached costs one timeout, then nothing, until a single probe finds it well.
//!
//! ```no_run
//! use larder_client::{Client, Config, Server, Store};
//! use std::time::Duration;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::new(Config::new([Server::parse("10.0.0.1:11211")?, Server::parse("10.0.0.2:11211 weight=2")?]))?;
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
//! | room | what |
//! |---|---|
//! | [`Client`] | the operations; which server is asked, and what its failure means |
//! | [`Config`] | what a client is made of |
//! | [`Connector`] | connections of one's own making: TLS |
//! | [`Server`] | a server: address, weight, name |
//! | [`placement`] | which server has a key, as other clients place it |
//! | [`hash`] | the hashes placement is made with, as libmemcached computes them |
//! | [`Router`] | which server is asked, for who speaks to them in another language |
//! | [`Health`] | which servers are well, for all clients that share it |
//! | `peer`, `lane` | a server's connections; one connection: its queue, batches, answers in order |
//!
//! Dropping a future gives its answer up, never the connection: the answer is read and dropped when it comes. Clients are
//! made and used inside a tokio runtime with time and I/O enabled; a connection's task runs where it is first needed.
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
