//! Command line arguments of a load, and their validation.

use std::{
    io,
    path::{Path, PathBuf},
};

use clap::Args;
use larder_proto::units;

use super::{
    Keys, Load, Mix, Popularity, Sizes, Think,
    keys::NameList,
    plan::MULTI,
    trace::{
        Format, Trace,
        lines::{Line, Lines},
    },
};

const KEYS: &str = "Keys";
const VALUES: &str = "Operations and values";
/// Number of keys of a pattern by default.
const COUNT: u64 = 100_000;

/// Arguments that describe a load, flattened into several commands.
#[derive(Args, Clone, Debug, Default)]
pub struct LoadArgs {
    /// A key, or for HTTP a target such as /page?id=1; may be given several times
    #[arg(
        long, value_name = "KEY", help_heading = KEYS,
        conflicts_with_all = ["keys_file", "pattern", "trace"]
    )]
    pub key: Vec<String>,
    /// A file with one key or target per line, held in memory; may be zstd-compressed
    #[arg(
        long, value_name = "FILE", help_heading = KEYS, conflicts_with_all = ["pattern", "trace"]
    )]
    pub keys_file: Option<PathBuf>,
    /// Keys with a number in them: {}, or {:08} for at least eight digits [default: key-{:08} for
    /// objects]
    #[arg(long, value_name = "PATTERN", help_heading = KEYS, conflicts_with = "trace")]
    pub pattern: Option<String>,
    /// Numbers of the pattern: how many, or FIRST-LAST [default: 100000]
    #[arg(long, value_name = "N|FIRST-LAST", help_heading = KEYS)]
    pub keys: Option<String>,
    /// A recorded trace, streamed; may be zstd-compressed
    #[arg(long, value_name = "FILE", help_heading = KEYS)]
    pub trace: Option<PathBuf>,
    /// Its format: squid, common, json, twitter, msr, csv, csv:TIME,KEY,SIZE (columns), keys
    /// [default: by its first lines]
    #[arg(long, value_name = "FORMAT", help_heading = KEYS, requires = "trace")]
    pub trace_format: Option<String>,
    /// Begin the trace again when it ends
    #[arg(long = "loop", help_heading = KEYS, requires = "trace")]
    pub repeat: bool,
    /// Choice of keys: zipf:0.99, uniform, hot=1%:90% (1 % of the keys get 90 % of the requests),
    /// sequential, once [default: uniform]
    #[arg(long, value_name = "HOW", help_heading = KEYS, conflicts_with = "trace")]
    pub popularity: Option<String>,
    /// Seed of all random choices: the same seed gives the same requests [default: 1]
    #[arg(long, value_name = "N", help_heading = KEYS)]
    pub seed: Option<u64>,
    /// Operations and their shares: get=90,set=10 (also delete, head) [default: get=1, or the
    /// trace's own]
    #[arg(long, value_name = "SHARES", help_heading = VALUES)]
    pub mix: Option<String>,
    /// Size of values: 100, 1k-10k, lognormal:4k:1.2 or pareto:4k:1.5 (median, shape),
    /// 100:60,1k:30,10k:10 [default: 100, or the trace's own]
    #[arg(long, value_name = "SIZE", help_heading = VALUES)]
    pub size: Option<String>,
    /// Wait after an answer: 10ms, 1ms-20ms, exp:10ms [default: none]
    #[arg(long, value_name = "TIME", help_heading = VALUES)]
    pub think: Option<String>,
    /// Keys per get [default: 1]
    #[arg(long, value_name = "N", help_heading = VALUES, conflicts_with = "trace")]
    pub multi: Option<usize>,
    /// Time to live of written values: 1h [default: no limit, or the trace's own]
    #[arg(long, value_name = "TIME", help_heading = VALUES)]
    pub ttl: Option<String>,
}

impl LoadArgs {
    /// Validates the arguments for keys of objects. Reads key files and opens traces; errors say
    /// what was expected.
    pub fn validate(&self) -> Result<Load, String> {
        self.checked(false, || Keys::pattern("key-{:08}", self.range()?))
    }

    /// Validates the arguments for HTTP targets; `path` is the default target.
    pub fn validate_http(&self, path: &str) -> Result<Load, String> {
        let check = |key: &[u8]| match key {
            [b'/', ..] => Ok(()),
            // A URL contains its own host.
            _ if key.starts_with(b"http://") => Ok(()),
            _ => Err(format!("{:?}: a target begins with /", String::from_utf8_lossy(key))),
        };
        for key in self.key.iter().map(String::as_str).chain(self.pattern.as_deref()) {
            check(key.as_bytes())?;
        }
        self.checked(true, || Keys::list([path]))
    }

    fn checked(
        &self,
        targets: bool,
        fallback: impl Fn() -> Result<Keys, String>,
    ) -> Result<Load, String> {
        if self.keys.is_some()
            && (self.trace.is_some() || self.keys_file.is_some() || !self.key.is_empty())
        {
            return Err(
                "--keys numbers a --pattern; a list, a file and a trace have their own".to_owned()
            );
        }
        let mut load = match &self.trace {
            Some(path) => {
                let format = self.trace_format.as_deref().map(Format::parse).transpose()?;
                Load::recorded(Trace::open(path, format)?.targets(targets).repeated(self.repeat))
            }
            None => Load::of(self.named(targets, fallback)?),
        };
        if let Some(popularity) = &self.popularity {
            load = load.popularity(Popularity::parse(popularity)?);
        }
        if let Some(mix) = &self.mix {
            load = load.mix(Mix::parse(mix)?);
        }
        if let Some(size) = &self.size {
            load = load.sizes(Sizes::parse(size)?);
        }
        if let Some(think) = &self.think {
            load = load.think(Think::parse(think)?);
        }
        if let Some(ttl) = &self.ttl {
            load = load.ttl(seconds(ttl)?);
        }
        match self.multi {
            Some(multi) if (1..=MULTI).contains(&multi) => load = load.multi(multi),
            Some(multi) => return Err(format!("--multi {multi}: expected 1 to {MULTI} keys")),
            None => {}
        }
        Ok(load.seed(self.seed.unwrap_or(1)))
    }

    fn named(
        &self,
        targets: bool,
        fallback: impl Fn() -> Result<Keys, String>,
    ) -> Result<Keys, String> {
        match (&self.keys_file, &self.pattern) {
            _ if !self.key.is_empty() => {
                Keys::list(&self.key).map_err(|why| format!("--key: {why}"))
            }
            (Some(path), _) => read(path, targets),
            (None, Some(pattern)) => Keys::pattern(pattern, self.range()?),
            (None, None) if targets && self.keys.is_some() => {
                Err("--keys numbers a --pattern, and there is none".to_owned())
            }
            (None, None) => fallback(),
        }
    }

    fn range(&self) -> Result<std::ops::Range<u64>, String> {
        let Some(text) = &self.keys else { return Ok(0..COUNT) };
        let wrong = || {
            format!(
                "--keys {text:?}: expected how many, such as 100000, or FIRST-LAST, such as 1-100"
            )
        };
        let number = |text: &str| text.trim().replace('_', "").parse::<u64>().map_err(|_| wrong());
        let range = match text.split_once('-') {
            None => 0..number(text)?,
            Some((first, last)) => {
                number(first)?..number(last)?.checked_add(1).ok_or_else(wrong)?
            }
        };
        if range.is_empty() { Err(wrong()) } else { Ok(range) }
    }
}

fn seconds(text: &str) -> Result<u32, String> {
    let wrong = || format!("--ttl {text:?}: expected whole seconds, such as 30s or 1h");
    let time = units::duration(text).map_err(|_| wrong())?;
    if time.subsec_nanos() > 0 || time.is_zero() {
        return Err(wrong());
    }
    u32::try_from(time.as_secs()).map_err(|_| wrong())
}

/// All lines of a file except empty ones.
fn read(path: &Path, targets: bool) -> Result<Keys, String> {
    let named = |why: String| format!("--keys-file {}: {why}", path.display());
    let unread = |error: io::Error| named(error.to_string());
    let mut lines = Lines::open(path).map_err(unread)?;
    let mut names = NameList::default();
    while let Some(line) = lines.next(|_| true).map_err(unread)? {
        let (number, key) = match line {
            Line::TooLong(number) => {
                return Err(named(format!("line {number} is longer than 64 KiB")));
            }
            Line::Text(number, text) => (number, text.trim_ascii_end()),
        };
        if targets && !key.is_empty() && key[0] != b'/' {
            return Err(named(format!("line {number}: a target begins with /")));
        }
        if !key.is_empty() {
            names.push(key).map_err(|why| named(format!("line {number}: {why}")))?;
        }
    }
    Keys::named(names).map_err(named)
}
