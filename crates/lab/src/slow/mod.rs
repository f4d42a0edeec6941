//! `larder slow`: a proxy that delays, limits and breaks what goes through it.
//!
//! [`rule`] defines rules, [`script`] reads them from TOML, `plan` selects the rules of one
//! connection or request, and `layer` applies them to bytes. `larder_proto::dialogue` finds
//! requests and answers in the stream; `connection` combines these, `proxy` runs them on one
//! thread. `timer` makes waits precise.
//!
//! Within the same process:
//!
//! ```ignore
//! let mut config = slow::Config::new(listen, database);
//! config.protocol = slow::Protocol::Mysql;
//! config.rules = vec![slow::Rule::delay(Duration::from_millis(300))];
//! let slow = slow::start(config)?;
//! connect_to(slow.address());
//! ```

mod args;
mod connection;
mod layer;
mod pending;
mod plan;
mod proxy;
mod queue;
mod record;
mod report;
pub mod rule;
pub mod script;
mod stream;
mod timer;

use larder_proto::dialogue::Dialect;

use crate::engine::Address;

pub use args::SlowArgs;
pub(crate) use args::run;
pub use proxy::{Error, Handle, start};
pub use record::{Request, Totals};
pub use rule::{Conditions, Direction, Faults, Per, Rule, Spread, Stall};
pub use script::Script;

/// How requests are recognised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Protocol {
    /// By turns: bytes of the client after bytes of the server.
    #[default]
    Tcp,
    /// HTTP/1 requests, including pipelined ones.
    Http,
    /// Statements of MySQL.
    Mysql,
    /// Statements of PostgreSQL.
    Postgres,
    /// By turns: a batch is one request.
    Memcached,
    /// By turns: a batch is one request.
    Redis,
}

impl Protocol {
    /// The parser of its connections.
    fn dialect(self) -> Dialect {
        match self {
            // These clients take turns; a pipelined batch is one request.
            Protocol::Tcp | Protocol::Memcached | Protocol::Redis => Dialect::turns(false),
            Protocol::Http => Dialect::http(),
            Protocol::Mysql => Dialect::mysql(),
            Protocol::Postgres => Dialect::postgres(),
        }
    }
}

/// Configuration of a proxy.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address to listen on; port 0 selects a free one.
    pub listen: Address,
    /// The server.
    pub to: Address,
    /// Protocol. Default: any.
    pub protocol: Protocol,
    /// Seed of random choices.
    pub seed: u64,
    /// Rules. Default: none.
    pub rules: Vec<Rule>,
    /// Number of finished requests kept for [`Handle::requests`]. Default: none.
    pub keep: usize,
    /// Receiver of error messages. Default: none.
    pub tell: Option<fn(&str)>,
}

impl Config {
    /// A proxy without rules.
    pub fn new(listen: Address, to: Address) -> Config {
        Config {
            listen,
            to,
            protocol: Protocol::Tcp,
            seed: 0,
            rules: Vec::new(),
            keep: 0,
            tell: None,
        }
    }
}
