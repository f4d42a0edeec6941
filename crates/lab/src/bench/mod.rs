//! `larder bench`: the command line over `load`, `engine` and `report`.

mod args;
mod fill;
mod limit;
mod live;
mod single;
mod target;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::{compare, peers::command};

/// Arguments of `larder bench`.
#[derive(Args, Debug)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Load an HTTP server or cache
    Http(args::HttpArgs),
    /// Load memcached, or a server of its text and meta commands
    Memcached(args::MemcachedArgs),
    /// Load Redis, or a server of RESP2
    Redis(args::RedisArgs),
    /// Compare several servers in short interleaved rounds: ratios with their spread
    Compare(compare::CompareArgs),
    /// Serve canned pages: the least a server can cost, and an origin for caches
    Origin(command::OriginArgs),
    /// Start servers as compare does, to inspect them or to load them by hand
    Peer(command::PeerArgs),
}

pub(crate) fn run(args: &BenchArgs) -> ExitCode {
    match &args.what {
        What::Http(args) => single::http(args),
        What::Memcached(args) => single::memcached(args),
        What::Redis(args) => single::redis(args),
        What::Compare(args) => compare::run(args),
        What::Origin(args) => command::origin(args),
        What::Peer(args) => command::peer(args),
    }
}
