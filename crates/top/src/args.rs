//! Command line arguments.

use std::{path::PathBuf, str::FromStr, time::Duration};

use clap::Args;
use larder_proto::units;

use crate::{
    address::Address,
    table::{Alarms, Column},
};

const TOP_HELP: &str = "\
Which kind of server answers is found out; http://, memcached:// and redis:// before an address \
                        say it.\n\nKeys: q quit, ? help, < > sort column, r reverse, space \
                        freeze, l since start, c commands, Enter one server.\n\nExit code: 0 \
                        done; with --once 1 when a server is down and 4 when all are; 2 wrong \
                        usage; 130, 143 ended by a signal.";

const LOG_HELP: &str = "\
Filters are the server's work; all that are given must hold. Times are UTC.\n\nExit code: 0 done, \
                        2 wrong usage, 3 refused, 4 server not reached at the start or no Larder.";

/// Arguments of `larder top`.
#[derive(Args, Clone, Debug)]
#[command(after_help = TOP_HELP)]
pub struct TopArgs {
    /// Larders (by their admin address or control socket), memcached and Redis servers [default:
    /// your Larders on this machine, else 127.0.0.1:8081, else 127.0.0.1:11211]
    #[arg(value_name = "ADDR", value_parser = Address::parse)]
    pub(crate) servers: Vec<Address>,
    /// Further servers, one a line; `#` begins a comment
    #[arg(long, value_name = "FILE")]
    pub(crate) servers_file: Option<PathBuf>,
    /// Time between two polls
    #[arg(short, long, value_name = "TIME", default_value = "2s", value_parser = interval)]
    pub(crate) interval: Duration,
    /// Time a server has to answer
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = interval)]
    pub(crate) timeout: Duration,
    /// Rates and ratios since each server's start instead of the last interval
    #[arg(short, long)]
    pub(crate) lifetime: bool,
    /// A column for each kind of command
    #[arg(short, long)]
    pub(crate) commands: bool,
    /// Print the table once and end: two polls an interval apart (one with --lifetime)
    #[arg(long)]
    pub(crate) once: bool,
    /// With --once: as JSON
    #[arg(long, requires = "once")]
    pub(crate) json: bool,
    /// Sort by this column: instance, usage, hit, conn, time, evict, gets, sets, read, write
    #[arg(long, value_name = "COL", value_parser = Column::from_str)]
    pub(crate) sort: Option<Column>,
    /// Alarm thresholds: usage and evictions from, hit ratio below, connections and response time
    /// from; `none` switches all off
    #[arg(
        long, value_name = "LIST", default_value = "usage=90,hit=50,time=100ms",
        value_parser = Alarms::from_str
    )]
    pub(crate) alarm: Alarms,
    /// File with the token for the admin APIs; sent to servers named with http:// or https://
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

/// Arguments of `larder log`.
#[derive(Args, Clone, Debug)]
#[command(after_help = LOG_HELP)]
pub struct LogArgs {
    /// The Larder's admin address, or its control socket `unix:PATH` [default: your Larder on this
    /// machine, else 127.0.0.1:8081]
    #[arg(value_name = "ADDR", value_parser = Address::parse_admin)]
    pub(crate) server: Option<Address>,
    /// Requests whose URL contains this text
    #[arg(long, value_name = "SUBSTR")]
    pub(crate) url: Option<String>,
    /// Requests whose URL matches this regular expression
    #[arg(long, value_name = "RE")]
    pub(crate) regex: Option<String>,
    /// Requests with this status: `404`, `5xx`, several separated by commas
    #[arg(long, value_name = "STATUS")]
    pub(crate) status: Option<String>,
    /// Requests with this result: `hit`, `miss`, `TCP_REFRESH_MODIFIED`, several separated by
    /// commas
    #[arg(long, value_name = "RESULT")]
    pub(crate) result: Option<String>,
    /// Requests to this site
    #[arg(long, value_name = "SITE")]
    pub(crate) site: Option<String>,
    /// Requests with this method
    #[arg(long, value_name = "METHOD")]
    pub(crate) method: Option<String>,
    /// Requests that took at least this long
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) slower_than: Option<Duration>,
    /// One JSON object a line, as the server sends it
    #[arg(long)]
    pub(crate) json: bool,
    /// End after this many requests
    #[arg(short = 'n', long, value_name = "COUNT")]
    pub(crate) count: Option<u64>,
    /// File with the token for the admin API
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

/// Arguments of `larder hist`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Keys: q quit, space freeze, < > how many seconds are shown.\n\nExit \
                        code: 0 done, 2 wrong usage, 3 refused, 4 server not reached or no \
                        Larder; 130, 143 ended by a signal.")]
pub struct HistArgs {
    /// The Larder's admin address, or its control socket `unix:PATH` [default: your Larder on this
    /// machine, else 127.0.0.1:8081]
    #[arg(value_name = "ADDR", value_parser = Address::parse_admin)]
    pub(crate) server: Option<Address>,
    /// Number of seconds shown together
    #[arg(
        long, value_name = "SECONDS", default_value_t = 10,
        value_parser = clap::value_parser!(u16).range(1..=600)
    )]
    pub(crate) window: u16,
    /// Print the histogram of the next --window seconds and end
    #[arg(long)]
    pub(crate) once: bool,
    /// File with the token for the admin API
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

impl TopArgs {
    /// Whether a server is named, or a file of them.
    pub fn names_server(&self) -> bool {
        !self.servers.is_empty() || self.servers_file.is_some() || self.token_file.is_some()
    }
}

impl LogArgs {
    /// Whether a server is named.
    pub fn names_server(&self) -> bool {
        self.server.is_some()
    }
}

impl HistArgs {
    /// Whether a server is named.
    pub fn names_server(&self) -> bool {
        self.server.is_some()
    }
}

/// Parses a duration such as `500ms`, `2s`, `1m`; a bare number is in seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let bare = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    bare.map_or_else(|| units::duration(text), Ok)
        .map_err(|_| format!("expected a time such as \"500ms\", \"2s\" or \"1m\", found {text:?}"))
}

/// Shorter intervals would load the server; longer ones are typing errors.
fn interval(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&time) {
        Ok(time)
    } else {
        Err("at least 100ms, at most 1h".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        let ms = |text| duration(text).map(|time| time.as_millis()).ok();
        assert_eq!(
            ["500ms", "2s", "2", "1.5", "1m", "1h", "5000us"].map(ms),
            [Some(500), Some(2000), Some(2000), Some(1500), Some(60_000), Some(3_600_000), Some(5)]
        );
        assert_eq!(["", "s", "1x", "-1s", "1.2.3", "1e99h"].map(ms), [None; 6]);
        assert!(interval("50ms").is_err() && interval("2h").is_err() && interval("100ms").is_ok());
    }
}
