//! Traces in memory: requests with numbers for keys, for all keys or a sample.
//!
//! # Sampling
//!
//! With a rate R, the requests of those keys are kept whose hash falls into a share R of its range
//! (SHARDS: Waldspurger et al., FAST '15), and caches are R times as large (miniature simulation:
//! Waldspurger et al., ATC '17). Misses are counted among the kept requests and divided by R; all
//! requests are counted. So it does not matter which of the hottest keys are in the sample, as they
//! are seldom missed.

mod spec;
mod synthetic;

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

pub(crate) use self::spec::{Spec, Synthetic, Values};
use super::request::{MAX_TIME, Request, look_ahead};
use crate::load::{Load, Operation, Source, Verb, trace as recorded};

/// Most requests kept in memory: 3 GiB. Longer traces must be sampled.
const MOST: usize = 1 << 27;
/// Resolution of the sampling rate.
const STEPS: u64 = 1 << 24;

/// A trace to simulate.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) requests: Vec<Request>,
    /// 64-bit hash of each object's key.
    pub(crate) hashes: Vec<u64>,
    /// Share of keys that were kept.
    pub(crate) sample: f64,
    /// All reads, kept or not, and their bytes; those of the warm-up separately.
    pub(crate) total: ReadTotals,
    pub(crate) warm: ReadTotals,
    /// Kept requests of the warm-up.
    pub(crate) warm_requests: usize,
    /// Whether any object expires.
    pub(crate) expires: bool,
}

/// Number of reads and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadTotals {
    pub(crate) reads: u64,
    pub(crate) bytes: u64,
}

/// Options of loading a trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadOptions {
    /// Share of keys to keep, above 0, at most 1.
    pub(crate) sample: f64,
    /// Selects the sample.
    pub(crate) salt: u64,
    /// Share of requests that only warm the caches.
    pub(crate) warm: f64,
    /// Most requests read from the file.
    pub(crate) requests: u64,
    /// Requests per second if the trace has no times.
    pub(crate) rate: f64,
    /// Bytes added to each object's key and value.
    pub(crate) overhead: u32,
    /// Time to live in seconds if the trace has none; 0: no limit.
    pub(crate) ttl: u32,
}

impl Default for LoadOptions {
    fn default() -> LoadOptions {
        LoadOptions {
            sample: 1.0,
            salt: 0,
            warm: 0.0,
            requests: u64::MAX,
            rate: 10_000.0,
            overhead: 0,
            ttl: 0,
        }
    }
}

/// Hasher of keys that are hashes already.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// The requests of a synthetic trace. `None`: it is a recorded one.
pub(crate) fn synthetic_source(spec: &Spec) -> Option<Box<dyn Source>> {
    match spec {
        Spec::Synthetic(spec) => Some(Box::new(synthetic::Generator::new(*spec))),
        Spec::File(..) => None,
    }
}

/// Loads the trace described by `spec`.
pub(crate) fn read(spec: &Spec, how: &LoadOptions) -> Result<Trace, String> {
    let (path, format) = match spec {
        Spec::Synthetic(spec) => return load(&mut synthetic::Generator::new(*spec), how),
        Spec::File(path, format) => (path, format),
    };
    let recorded = Load::recorded(recorded::Trace::open(path, *format)?);
    let trace = load(&mut *recorded.source(0, 1, 0), how)?;
    if let Some(skipped) = recorded.skipped() {
        eprint!("{skipped}");
    }
    match recorded.skipped().and_then(recorded::SkippedLines::broken) {
        Some(why) => Err(format!("trace {}: {why}", path.display())),
        None => Ok(trace),
    }
}

/// Loads a trace. Two keys with the same 64-bit hash become one object: among a hundred million
/// keys the probability is one in four thousand.
pub(crate) fn load(source: &mut dyn Source, how: &LoadOptions) -> Result<Trace, String> {
    let limit = (how.sample * STEPS as f64).round().clamp(1.0, STEPS as f64) as u64;
    let secrets = RapidSecrets::seed_cpp(how.salt);
    let mut numbers: HashMap<u64, u32, BuildHasherDefault<IdentityHasher>> = HashMap::default();
    let mut trace = Trace {
        requests: Vec::new(),
        hashes: Vec::new(),
        sample: limit as f64 / STEPS as f64,
        total: ReadTotals::default(),
        warm: ReadTotals::default(),
        warm_requests: 0,
        expires: false,
    };
    // Reads up to each tick, to find the end of the warm-up once the length is known.
    let mut ticks: Vec<(usize, ReadTotals)> = Vec::new();
    let (mut operation, mut count, mut last) = (Operation::default(), 0u64, 0u64);
    while count < how.requests && source.next(&mut operation) {
        if count.is_multiple_of(TICK) {
            ticks.push((trace.requests.len(), trace.total));
        }
        let size = u32::try_from(operation.size.saturating_add(operation.key.len()))
            .unwrap_or(u32::MAX)
            .saturating_add(how.overhead);
        if matches!(operation.verb, Verb::Get | Verb::Head) {
            trace.total.reads += 1;
            trace.total.bytes += u64::from(size);
        }
        let own = operation.at.map(|at| u64::try_from(at.as_millis()).unwrap_or(u64::MAX));
        // Recorded times may decrease slightly; simulated times do not.
        last = last.max(own.unwrap_or((count as f64 * 1000.0 / how.rate) as u64));
        count += 1;
        if last > MAX_TIME {
            return Err(format!(
                "request {count} of the trace comes {} years after the first, and {} are \
                 simulated at the most: are its times in another unit, or --rate too low?",
                last / YEAR,
                MAX_TIME / YEAR
            ));
        }
        let hash = rapidhash_v3_seeded(&operation.key, &secrets);
        if (hash >> 40) >= limit {
            continue;
        }
        let next = numbers.len() as u32;
        let id = *numbers.entry(hash).or_insert(next);
        if id == next {
            trace.hashes.push(hash);
        }
        if trace.requests.len() == MOST {
            return Err(format!(
                "the trace has more than {MOST} requests to keep in memory: take a sample of its \
                 keys (--sample 0.01) or fewer requests (--requests)"
            ));
        }
        let ttl = if operation.ttl == 0 { how.ttl } else { operation.ttl };
        trace.expires |= ttl != 0;
        trace.requests.push(Request::new(last, id, size, ttl, operation.verb));
    }
    let warm = ticks.get((how.warm * (count / TICK) as f64) as usize).filter(|_| how.warm > 0.0);
    (trace.warm_requests, trace.warm) = warm.copied().unwrap_or_default();
    look_ahead(&mut trace.requests, trace.hashes.len());
    // Without reads after the warm-up there is no hit ratio.
    if trace.total.reads == trace.warm.reads {
        return Err(format!("the trace has no reads among its {count} requests"));
    }
    if trace.requests.len() == trace.warm_requests {
        return Err(
            "no key of the trace is in the sample: take a larger sample (--sample)".to_owned()
        );
    }
    Ok(trace)
}

/// Requests between two possible ends of the warm-up.
const TICK: u64 = 1000;
/// Milliseconds in a year.
const YEAR: u64 = 365 * 86_400_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn small(requests: u64, how: LoadOptions) -> Trace {
        read(&Spec::Synthetic(Synthetic { requests, keys: 10_000, ..Synthetic::default() }), &how)
            .unwrap()
    }

    #[test]
    fn a_sample_keeps_all_requests_of_its_keys_and_no_others() {
        let all = small(100_000, LoadOptions::default());
        let some = small(100_000, LoadOptions { sample: 0.1, ..LoadOptions::default() });
        assert_eq!((all.total, all.requests.len()), (some.total, 100_000));
        let share = some.hashes.len() as f64 / all.hashes.len() as f64;
        assert!((0.08..0.12).contains(&share), "{share}");
        let of = |trace: &Trace, hash| {
            let id = trace.hashes.iter().position(|known| *known == hash).unwrap() as u32;
            trace.requests.iter().filter(|request| request.id == id).count()
        };
        for hash in some.hashes.iter().take(20) {
            assert_eq!(of(&some, *hash), of(&all, *hash));
        }
    }

    #[test]
    fn the_warm_up_is_a_part_of_all_requests() {
        let how = LoadOptions { warm: 0.25, ..LoadOptions::default() };
        let trace = small(100_000, how);
        assert_eq!((trace.warm.reads, trace.warm_requests), (25_000, 25_000));
        assert_eq!(trace.requests[10_000].at, 1000, "ten requests a millisecond");
    }
}
