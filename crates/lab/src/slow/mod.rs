//! `larder slow`: a proxy that delays, limits and breaks what goes through it.
//!
//! [`rule`] says when what is done, [`script`] reads it from TOML, `plan` makes of it what befalls one connection or request, and
//! `layer` what befalls its bytes. `larder_proto::dialogue` finds requests and answers in what passes; `conn` puts it together, `proxy` runs it on
//! one thread. `timer` makes waits end in time.
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
mod asked;
mod conn;
mod layer;
mod plan;
mod proxy;
mod queue;
mod record;
pub mod rule;
pub mod script;
mod stream;
mod tell;
mod timer;

use larder_proto::dialogue::Dialect;

use crate::engine::Address;

pub use args::SlowArgs;
pub(crate) use args::run;
pub use proxy::{Error, Handle, start};
pub use record::{Request, Totals};
pub use rule::{Direction, Per, Rule, Spread, Stall, What, When};
pub use script::Script;

/// How requests are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Protocol {
    /// By who speaks: what a client says after the server spoke.
    #[default]
    Tcp,
    /// HTTP/1 requests, pipelined ones too.
    Http,
    /// Statements.
    Mysql,
    /// Statements.
    Postgres,
    /// By who speaks: a batch is one.
    Memcached,
    /// By who speaks: a batch is one.
    Redis,
}

impl Protocol {
    /// Who reads a connection of it.
    fn dialect(self) -> Dialect {
        match self {
            // Their clients speak in turns; a pipelined batch is one request.
            Protocol::Tcp | Protocol::Memcached | Protocol::Redis => Dialect::turns(false),
            Protocol::Http => Dialect::http(),
            Protocol::Mysql => Dialect::mysql(),
            Protocol::Postgres => Dialect::postgres(),
        }
    }
}

/// A proxy to be.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen; port 0 takes any.
    pub listen: Address,
    /// The server.
    pub to: Address,
    /// What is spoken. Default: anything.
    pub protocol: Protocol,
    /// Where chance begins.
    pub seed: u64,
    /// What is done. Default: nothing.
    pub rules: Vec<Rule>,
    /// Finished requests to keep for [`Handle::requests`], the latest. Default: none.
    pub keep: usize,
    /// Who is told what goes wrong. Default: nobody.
    pub tell: Option<fn(&str)>,
}

impl Config {
    /// A proxy that does nothing yet.
    pub fn new(listen: Address, to: Address) -> Config {
        Config { listen, to, protocol: Protocol::Tcp, seed: 0, rules: Vec::new(), keep: 0, tell: None }
    }
}
