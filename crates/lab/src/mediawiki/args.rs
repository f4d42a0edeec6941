//! Command line arguments of `larder lab mediawiki`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use larder_proto::units;

/// Server of MediaWiki.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Php {
    /// nginx with php-fpm, the usual setup
    #[default]
    Fpm,
    /// PHP's own server with several workers
    Cli,
}

impl Php {
    pub(super) fn name(self) -> &'static str {
        match self {
            Php::Fpm => "nginx with php-fpm",
            Php::Cli => "PHP's own server",
        }
    }
}

/// Arguments of `larder lab mediawiki`.
#[derive(Args, Debug)]
#[command(after_help = "Everything it needs comes from Debian's packages; what is missing is \
                        named. Servers are started on free ports of 127.0.0.1, in a directory of \
                        their own, and ended with the experiment.\n\nExit code: 0 every row is \
                        valid, 1 a row is not (the report says why), 2 wrong usage, 4 a program \
                        is missing or does not run.")]
pub(crate) struct MediawikiArgs {
    /// Articles of the wiki
    #[arg(
        long, value_name = "N", default_value_t = 93,
        value_parser = clap::value_parser!(u32).range(1..=10_000)
    )]
    pub(super) articles: u32,
    /// Factor for the usual number of requests of each row
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = scale)]
    pub(super) scale: f64,
    /// Concurrent users [default: as in the reference, 10 without a page cache and 5 with one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) threads: Option<u32>,
    /// Requests of each user, instead of --scale: a row has threads times loops requests
    #[arg(
        long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000),
        conflicts_with = "scale"
    )]
    pub(super) loops: Option<u32>,
    /// Only these rows; `--rows list` names them
    #[arg(long, value_name = "ROW,ROW,...", value_delimiter = ',')]
    pub(super) rows: Vec<String>,
    /// Additional time of each statement with a slow database
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = units::duration)]
    pub(super) delay: Duration,
    /// Time over which the start of users is spread
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::duration)]
    pub(super) ramp_up: Duration,
    /// Directory of the report: mediawiki.html, mediawiki.md, mediawiki.json
    #[arg(long, value_name = "DIR", default_value = "mediawiki-report")]
    pub(super) report: PathBuf,
    /// Also write every page, as the wiki renders it without a cache, to DIR/N.html
    #[arg(long, value_name = "DIR")]
    pub(super) save_pages: Option<PathBuf>,
    /// Keep the servers' directory with their logs
    #[arg(long)]
    pub(super) keep: bool,
    /// Seed of articles and request order
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Server of MediaWiki
    #[arg(long, value_enum, default_value_t)]
    pub(super) php: Php,
}

fn scale(text: &str) -> Result<f64, String> {
    let scale: f64 = text.parse().map_err(|_| "a number such as 0.1 or 2".to_owned())?;
    if scale > 0.0 && scale <= 1000.0 {
        Ok(scale)
    } else {
        Err("more than 0 and at most 1000".to_owned())
    }
}
