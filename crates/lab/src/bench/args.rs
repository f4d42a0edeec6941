//! The command line of `larder bench http`, `memcached` and `redis`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use larder_proto::units;

use super::limit::Limit;
use crate::load::LoadArgs;

const LOOP: &str = "Connections and pace";
const SPAN: &str = "Duration";
const RESULT: &str = "Results";

/// What all three take.
#[derive(Args, Debug)]
pub(super) struct Common {
    /// Connections, all threads together
    #[arg(short, long, value_name = "N", default_value_t = 10, help_heading = LOOP)]
    pub(super) connections: usize,
    /// Requests under way on one connection (pipelining)
    #[arg(short, long, value_name = "N", default_value_t = 1, help_heading = LOOP)]
    pub(super) depth: usize,
    /// Threads; each has its share of the connections
    #[arg(short, long, value_name = "N", default_value_t = 1, help_heading = LOOP)]
    pub(super) threads: usize,
    /// Open loop: so many requests a second whatever the server does; latency counts from when each was due
    #[arg(long, value_name = "PER_SECOND", value_parser = rate, help_heading = LOOP)]
    pub(super) rate: Option<f64>,
    /// Gaps between the requests of an open loop
    #[arg(long, value_enum, default_value_t = Gaps::Even, requires = "rate", help_heading = LOOP)]
    pub(super) arrivals: Gaps,
    /// Open loop at the times of a trace, so many times as fast as recorded
    #[arg(long, value_name = "TIMES", value_parser = rate, requires = "trace", conflicts_with = "rate", help_heading = LOOP)]
    pub(super) speed: Option<f64>,
    /// A new connection for each request; its time counts
    #[arg(long, help_heading = LOOP)]
    pub(super) reconnect: bool,
    /// Connections begin spread over this time
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "0s", help_heading = LOOP)]
    pub(super) ramp_up: Duration,
    /// An answer that takes longer is an error, and its connection is made anew
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10s", help_heading = LOOP)]
    pub(super) timeout: Duration,

    /// How long [default: 10s, where nothing else ends the run]
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = SPAN)]
    pub(super) duration: Option<Duration>,
    /// How many requests, those of the warm-up not counted
    #[arg(long, value_name = "N", help_heading = SPAN)]
    pub(super) requests: Option<u64>,
    /// Requests of each connection, which then is done: a virtual user's loops
    #[arg(long, value_name = "N", help_heading = SPAN)]
    pub(super) per_connection: Option<u64>,
    /// Requests that begin within this time from the start are not counted
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "0s", help_heading = SPAN)]
    pub(super) warm_up: Duration,

    /// What an answer must hold [default: framing; bytes for objects where this run writes them]
    #[arg(long, value_enum, help_heading = RESULT)]
    pub(super) check: Option<CheckName>,
    /// A process of the server, whose processor time is read, with its threads and children; may be given several times
    #[arg(long, value_name = "PID", help_heading = RESULT)]
    pub(super) server_pid: Vec<u32>,
    /// What must hold, such as p99<5ms, rate>10000, errors=0, wrong=0, hits>90%, cpu<8us; may be given several times
    #[arg(long, value_name = "LIMIT", help_heading = RESULT)]
    pub(super) limit: Vec<Limit>,
    /// What the report calls it [default: the address]
    #[arg(long, value_name = "NAME", help_heading = RESULT)]
    pub(super) name: Option<String>,
    /// Write the result as JSON; - is standard output, in place of the text
    #[arg(long, value_name = "FILE", help_heading = RESULT)]
    pub(super) json: Option<PathBuf>,
    /// Write a report as one HTML file, with plots
    #[arg(long, value_name = "FILE", help_heading = RESULT)]
    pub(super) html: Option<PathBuf>,
    /// Show nothing on standard output, and no live line
    #[arg(short, long, help_heading = RESULT)]
    pub(super) quiet: bool,

    #[command(flatten)]
    pub(super) load: LoadArgs,
}

const EXITS: &str = "Exit code: 0 done, 1 a limit was missed or bytes were wrong, 2 wrong usage, 4 server not reached. Ctrl-C ends \
    the run and shows what was measured; a second one ends at once.";

/// `larder bench http`.
#[derive(Args, Debug)]
#[command(after_help = EXITS)]
pub(crate) struct HttpArgs {
    /// What to ask for, such as http://127.0.0.1:8080/page; several take turns as --popularity says
    #[arg(value_name = "URL", required = true)]
    pub(super) urls: Vec<String>,
    /// Go to this address, whatever the URLs say: HOST:PORT or unix:PATH
    #[arg(long, value_name = "ADDR")]
    pub(super) connect: Option<String>,
    /// `Host` of the requests [default: the URL's]
    #[arg(long, value_name = "HOST")]
    pub(super) host: Option<String>,
    /// A further field of every request, as `Name: value`; may be given several times
    #[arg(short = 'H', long, value_name = "FIELD")]
    pub(super) header: Vec<String>,
    #[command(flatten)]
    pub(super) common: Common,
}

/// `larder bench memcached`.
#[derive(Args, Debug)]
#[command(after_help = EXITS)]
pub(crate) struct MemcachedArgs {
    /// Where: HOST:PORT, HOST (port 11211), or unix:PATH
    #[arg(value_name = "ADDR")]
    pub(super) address: String,
    /// Which commands
    #[arg(long, value_enum, default_value_t = Commands::Text)]
    pub(super) protocol: Commands,
    /// Write all keys first, so that gets hit
    #[arg(long)]
    pub(super) fill: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

/// `larder bench redis`.
#[derive(Args, Debug)]
#[command(after_help = EXITS)]
pub(crate) struct RedisArgs {
    /// Where: HOST:PORT, HOST (port 6379), or unix:PATH
    #[arg(value_name = "ADDR")]
    pub(super) address: String,
    /// Write all keys first, so that gets hit
    #[arg(long)]
    pub(super) fill: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Gaps {
    /// All alike
    Even,
    /// As of many independent clients
    Poisson,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum CheckName {
    /// Well-formed is enough
    Framing,
    /// Values are what this program writes under their keys; a page is the same each time
    Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Commands {
    /// get, set, delete
    Text,
    /// mg, ms, md
    Meta,
}

fn time(text: &str) -> Result<Duration, String> {
    units::duration(text).map_err(|expected| format!("expected {expected}"))
}

fn rate(text: &str) -> Result<f64, String> {
    let plain = text.replace(['_', ','], "");
    let (digits, factor) = match plain.strip_suffix('k') {
        Some(digits) => (digits, 1000.0),
        None => (plain.as_str(), 1.0),
    };
    let number = digits.parse::<f64>().ok().map(|number| number * factor);
    number
        .filter(|number| number.is_finite() && *number > 0.0)
        .ok_or_else(|| "expected a number above 0".to_owned())
}
