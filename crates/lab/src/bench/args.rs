//! Command line arguments of `larder bench http`, `memcached` and `redis`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use larder_proto::units;

use super::limit::Limit;
use crate::load::LoadArgs;

const LOOP: &str = "Connections and pace";
const SPAN: &str = "Duration";
const RESULT: &str = "Results";

/// Arguments common to all three.
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
    /// Open loop: this many requests a second whatever the server does; latency counts from the due
    /// time
    #[arg(long, value_name = "PER_SECOND", value_parser = rate, help_heading = LOOP)]
    pub(super) rate: Option<f64>,
    /// Gaps between the requests of an open loop
    #[arg(long, value_enum, default_value_t = Gaps::Even, requires = "rate", help_heading = LOOP)]
    pub(super) arrivals: Gaps,
    /// Open loop at the times of a trace, this many times as fast as recorded
    #[arg(
        long, value_name = "TIMES", value_parser = rate, requires = "trace",
        conflicts_with = "rate", help_heading = LOOP
    )]
    pub(super) speed: Option<f64>,
    /// Open a new connection for each request; connecting is part of the latency
    #[arg(long, help_heading = LOOP)]
    pub(super) reconnect: bool,
    /// Start connections spread over this time
    #[arg(
        long, value_name = "TIME", value_parser = time, default_value = "0s", help_heading = LOOP
    )]
    pub(super) ramp_up: Duration,
    /// Timeout of an answer; the request counts as an error and its connection is replaced
    #[arg(
        long, value_name = "TIME", value_parser = time, default_value = "10s", help_heading = LOOP
    )]
    pub(super) timeout: Duration,

    /// Length of the run [default: 10s, unless something else ends the run]
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = SPAN)]
    pub(super) duration: Option<Duration>,
    /// Number of requests, without those of the warm-up
    #[arg(long, value_name = "N", help_heading = SPAN)]
    pub(super) requests: Option<u64>,
    /// Requests of each connection, after which it is done: the loops of a virtual user
    #[arg(long, value_name = "N", help_heading = SPAN)]
    pub(super) per_connection: Option<u64>,
    /// Requests that begin within this time from the start are not counted
    #[arg(
        long, value_name = "TIME", value_parser = time, default_value = "0s", help_heading = SPAN
    )]
    pub(super) warm_up: Duration,

    /// Check of the answers [default: framing; bytes for objects this run writes]
    #[arg(long, value_enum, help_heading = RESULT)]
    pub(super) check: Option<CheckName>,
    /// Process of the server whose processor time is read, with its threads and children;
    /// repeatable
    #[arg(long, value_name = "PID", help_heading = RESULT)]
    pub(super) server_pid: Vec<u32>,
    /// Limit that must hold, such as p99<5ms, rate>10000, errors=0, wrong=0, hits>90%, cpu<8us;
    /// repeatable
    #[arg(long, value_name = "LIMIT", help_heading = RESULT)]
    pub(super) limit: Vec<Limit>,
    /// Name in the report [default: the address]
    #[arg(long, value_name = "NAME", help_heading = RESULT)]
    pub(super) name: Option<String>,
    /// Write the result as JSON; - is standard output, instead of the text
    #[arg(long, value_name = "FILE", help_heading = RESULT)]
    pub(super) json: Option<PathBuf>,
    /// Write a report as one HTML file, with plots
    #[arg(long, value_name = "FILE", help_heading = RESULT)]
    pub(super) html: Option<PathBuf>,
    /// Print nothing on standard output, and no live line
    #[arg(short, long, help_heading = RESULT)]
    pub(super) quiet: bool,

    #[command(flatten)]
    pub(super) load: LoadArgs,
}

const EXITS: &str = "Exit code: 0 done, 1 a limit was missed or bytes were wrong, 2 wrong usage, \
                     4 server not reached. Ctrl-C ends the run and shows what was measured; a \
                     second one ends at once.";

/// Arguments of `larder bench http`.
#[derive(Args, Debug)]
#[command(after_help = EXITS)]
pub(crate) struct HttpArgs {
    /// URLs to request, such as http://127.0.0.1:8080/page; several are chosen by --popularity
    #[arg(value_name = "URL", required = true)]
    pub(super) urls: Vec<String>,
    /// Connect to this address, whatever the URLs say: HOST:PORT or unix:PATH
    #[arg(long, value_name = "ADDR")]
    pub(super) connect: Option<String>,
    /// `Host` of the requests [default: the URL's]
    #[arg(long, value_name = "HOST")]
    pub(super) host: Option<String>,
    /// Additional field of every request, as `Name: value`; repeatable
    #[arg(short = 'H', long, value_name = "FIELD")]
    pub(super) header: Vec<String>,
    /// Speak HTTP/2; with http:// by prior knowledge. --depth is the streams of a connection
    #[arg(long)]
    pub(super) http2: bool,
    /// Speak HTTP/3. --depth is the streams of a connection
    #[arg(long, conflicts_with = "http2")]
    pub(super) http3: bool,
    /// Believe servers that an authority of this file (PEM) vouches for [default: the system's]
    #[arg(long, value_name = "FILE")]
    pub(super) cacert: Option<PathBuf>,
    /// Do not verify the certificates of servers
    #[arg(long, conflicts_with = "cacert")]
    pub(super) insecure: bool,
    /// Resume sessions of TLS with tickets of earlier connections; without this, each connection has
    /// a full handshake
    #[arg(long)]
    pub(super) resume: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Arguments of `larder bench memcached`.
#[derive(Args, Debug)]
#[command(after_help = EXITS)]
pub(crate) struct MemcachedArgs {
    /// Address: HOST:PORT, HOST (port 11211), or unix:PATH
    #[arg(value_name = "ADDR")]
    pub(super) address: String,
    /// Kind of commands
    #[arg(long, value_enum, default_value_t = Commands::Text)]
    pub(super) protocol: Commands,
    /// Write all keys first, so that gets hit
    #[arg(long)]
    pub(super) fill: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Arguments of `larder bench redis`.
#[derive(Args, Debug)]
#[command(after_help = EXITS)]
pub(crate) struct RedisArgs {
    /// Address: HOST:PORT, HOST (port 6379), or unix:PATH
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
    /// Equal gaps
    Even,
    /// Exponential gaps, as of many independent clients
    Poisson,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum CheckName {
    /// Well-formed
    Framing,
    /// Values equal those this program writes under their keys; a page is the same each time
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
