//! Command line arguments of `larder lab simulate`.

use std::{num::NonZero, path::PathBuf};

use clap::Args;
use larder_proto::units;

use super::policy::Kind;
use super::scenario;
use super::topology::Topology;
use super::trace::{LoadOptions, Spec, Synthetic, Values};

/// Most sizes of one run: more points do not improve a curve.
const MAX_SIZES: usize = 64;
/// Largest simulated cache in bytes: floating-point numbers are exact up to here.
pub(super) const MAX_SIZE: u64 = 1 << 50;
/// Most keys of a synthetic trace: the cumulative shares take 2 GiB.
const MAX_KEYS: u32 = 1 << 28;
/// Least and most requests per second of trace time, which is kept in milliseconds for at most 136
/// years.
const RATES: std::ops::RangeInclusive<f64> = 0.001..=1e9;
/// Most simulations in parallel: more than machines have processors.
const MAX_THREADS: usize = 256;

/// Arguments of `larder lab simulate`.
#[derive(Args, Clone, Debug)]
pub(crate) struct SimulateArgs {
    /// Read trace, policies, sizes and a topology of Larders and servers from a file (docs/lab.md)
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// zipf:SKEW, uniform, scan:SKEW, onehit:SKEW, drift:SKEW (synthetic), or the path of a
    /// recorded trace
    #[arg(long, default_value = "zipf:0.9")]
    pub(super) trace: String,
    /// Format of a recorded trace: squid, common, json, twitter, msr, csv:TIME,KEY,SIZE, keys
    /// [default: detected]
    #[arg(long)]
    pub(super) trace_format: Option<String>,
    /// Requests of a synthetic trace, or most requests of a recorded one (10M: ten million)
    #[arg(long, value_parser = count)]
    pub(super) requests: Option<u64>,
    /// Keys of a synthetic trace
    #[arg(long, default_value = "1M", value_parser = count)]
    pub(super) keys: u64,
    /// Sizes of a synthetic trace's values: a size for all, or `lognormal` (median 300, 16 to 4096)
    #[arg(long, default_value = "lognormal")]
    pub(super) value: String,
    /// Share of writes in a synthetic trace, 0 to 1
    #[arg(long, default_value_t = 0.0)]
    pub(super) writes: f64,
    /// Time to live if the trace has none; 0s: no limit
    #[arg(long, default_value = "0s")]
    pub(super) ttl: String,
    /// Requests per second if the trace has no times
    #[arg(long, default_value_t = 10_000.0)]
    pub(super) rate: f64,
    /// Bytes added to the key and value of every object
    #[arg(long, default_value = "0")]
    pub(super) overhead: String,
    /// Policies, separated by commas: fifo, clock, sieve, lru, lfu, s3fifo, tinylfu, arc, gdsf,
    /// belady, larder, memcached, redis-lru, redis-lfu
    #[arg(long, value_delimiter = ',', default_value = "lru,s3fifo,larder")]
    pub(super) policies: Vec<String>,
    /// Cache sizes, separated by commas (64MiB,1GiB), or ranges: 64MiB..4GiB*16 is sixteen in
    /// geometric steps
    #[arg(long, value_delimiter = ',', default_value = "16MiB,64MiB,256MiB")]
    pub(super) sizes: Vec<String>,
    /// Share of requests that only warm the caches, 0 to less than 1
    #[arg(long, default_value_t = 0.0)]
    pub(super) warm: f64,
    /// Share of keys to simulate, above 0, at most 1: caches shrink and figures are scaled
    /// accordingly
    #[arg(long, default_value_t = 1.0)]
    pub(super) sample: f64,
    /// Seed of all random choices
    #[arg(long, default_value_t = 11)]
    pub(super) seed: u64,
    /// Simulations in parallel [default: the number of processors]
    #[arg(long)]
    threads: Option<usize>,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write tables and plots as one HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Validated arguments.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub(crate) name: String,
    pub(crate) spec: Spec,
    pub(crate) options: LoadOptions,
    pub(crate) policies: Vec<Kind>,
    pub(crate) sizes: Vec<u64>,
    pub(crate) topology: Option<Topology>,
    pub(crate) seed: u64,
    pub(crate) threads: usize,
    pub(crate) json: Option<PathBuf>,
    pub(crate) html: Option<PathBuf>,
}

impl SimulateArgs {
    pub(crate) fn input(&self) -> Result<Input, String> {
        match &self.scenario {
            None => self.parsed(),
            Some(path) => scenario::read(path, self),
        }
    }

    /// The arguments given by flags.
    pub(super) fn parsed(&self) -> Result<Input, String> {
        let ttl = units::duration(&self.ttl)
            .map_err(|expected| format!("--ttl takes {expected}"))?
            .as_secs();
        let ttl = u32::try_from(ttl).map_err(|_| "--ttl is longer than a century".to_owned())?;
        let overhead = bytes("--overhead", &self.overhead)?;
        let base = Synthetic {
            keys: u32::try_from(self.keys)
                .ok()
                .filter(|keys| (1..=MAX_KEYS).contains(keys))
                .ok_or_else(|| format!("--keys takes 1 to {MAX_KEYS}, found {}", self.keys))?,
            requests: self.requests.unwrap_or(Synthetic::default().requests),
            values: match self.value.as_str() {
                "lognormal" => Values::Lognormal,
                size => Values::Fixed(bytes("--value", size)?),
            },
            ttl,
            writes: within("--writes", self.writes, |share| (0.0..=1.0).contains(&share))?,
            rate: within("--rate", self.rate, |rate| RATES.contains(&rate))?,
            seed: self.seed,
            ..Synthetic::default()
        };
        let options = LoadOptions {
            sample: within("--sample", self.sample, |share| share > 0.0 && share <= 1.0)?,
            salt: self.seed,
            warm: within("--warm", self.warm, |share| (0.0..1.0).contains(&share))?,
            requests: self.requests.unwrap_or(u64::MAX),
            rate: self.rate,
            overhead,
            ttl,
        };
        let mut policies = Vec::new();
        for name in &self.policies {
            let kind = Kind::named(name.trim())?;
            if !policies.contains(&kind) {
                policies.push(kind);
            }
        }
        let threads = self.threads.unwrap_or_else(processors);
        if !(1..=MAX_THREADS).contains(&threads) {
            return Err(format!("--threads takes 1 to {MAX_THREADS}, found {threads}"));
        }
        Ok(Input {
            name: self.trace.clone(),
            spec: Spec::parse(&self.trace, self.trace_format.as_deref(), base)?,
            options,
            policies,
            sizes: sizes(&self.sizes)?,
            topology: None,
            seed: self.seed,
            threads,
            json: self.json.clone(),
            html: self.html.clone(),
        })
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

fn within(name: &str, value: f64, holds: impl Fn(f64) -> bool) -> Result<f64, String> {
    if holds(value) {
        Ok(value)
    } else {
        Err(format!("{name} {value} is out of its range, see --help"))
    }
}

fn bytes(name: &str, text: &str) -> Result<u32, String> {
    let size =
        units::size(text).map_err(|expected| format!("{name} takes {expected}, not {text:?}"))?;
    u32::try_from(size)
        .map_err(|_| format!("{name} {text} is too large: less than 4GiB is expected"))
}

/// Parses `10M`, `500k`, `1G`: in steps of a thousand, as these are not bytes.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let (number, factor) = match text.char_indices().last() {
        Some((at, 'k')) => (&text[..at], 1_000),
        Some((at, 'M')) => (&text[..at], 1_000_000),
        Some((at, 'G')) => (&text[..at], 1_000_000_000),
        _ => (text, 1),
    };
    let number = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    number
        .filter(|number| *number > 0)
        .ok_or_else(|| "a number such as 500k or 10M is expected".to_owned())
}

/// Parses cache sizes and ranges of them, and sorts them.
pub(crate) fn sizes(texts: &[String]) -> Result<Vec<u64>, String> {
    let one = |text: &str| {
        let size = units::size(text)
            .map_err(|expected| format!("--sizes takes {expected}, not {text:?}"))?;
        if (1..=MAX_SIZE).contains(&size) {
            Ok(size)
        } else {
            Err(format!("--sizes {text}: 1 byte to 1024TiB"))
        }
    };
    let mut all = Vec::new();
    for text in texts {
        let Some((low, rest)) = text.split_once("..") else {
            all.push(one(text)?);
            continue;
        };
        let (high, number) = rest.split_once('*').unwrap_or((rest, "8"));
        let number: usize =
            number.parse().ok().filter(|n| (2..=MAX_SIZES).contains(n)).ok_or_else(|| {
                format!(
                    "--sizes {text}: behind the * stands how many, 2 to {MAX_SIZES}, as in \
                     64MiB..4GiB*16"
                )
            })?;
        let (low, high) = (one(low)? as f64, one(high)? as f64);
        let step = (high / low).ln() / (number - 1) as f64;
        all.extend((0..number).map(|at| (low * (step * at as f64).exp()).round() as u64));
    }
    all.sort_unstable();
    all.dedup();
    if all.is_empty() || all.len() > MAX_SIZES {
        return Err(format!("--sizes takes 1 to {MAX_SIZES} sizes, found {}", all.len()));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_sizes() {
        let of = |text: &str| sizes(&[text.to_owned()]);
        assert_eq!(of("1MiB..8MiB*4"), Ok(vec![1 << 20, 2 << 20, 4 << 20, 8 << 20]));
        assert_eq!(of("1GiB"), Ok(vec![1 << 30]));
        assert!(of("1MiB..8MiB*1").is_err() && of("0").is_err() && of("much").is_err());
    }

    #[test]
    fn numbers_of_requests() {
        assert_eq!((count("10M"), count("7"), count("2k")), (Ok(10_000_000), Ok(7), Ok(2_000)));
        assert!(count("0").is_err() && count("M").is_err() && count("").is_err());
    }
}
