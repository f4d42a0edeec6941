//! Traces in memory: requests with numbers for keys, all of them or those of a sample of keys.
//!
//! # Sampling
//!
//! With a rate R, requests for those keys are kept whose hash falls into a share R of its range (SHARDS: Waldspurger et al., FAST '15),
//! and caches are R times as large (miniature simulation: Waldspurger et al., ATC '17). Misses are counted among the kept
//! requests and divided by R; all requests are counted. So how often the hottest keys were hit or missed the sample does not
//! matter, as they are seldom missed.

mod spec;
mod synthetic;

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

pub(crate) use self::spec::{Spec, Synthetic, Values};
use super::request::{MAX_TIME, Request, look_ahead};
use crate::load::{Ask, Load, Source, Verb, trace as recorded};

/// Most requests kept in memory: 3 GiB of them. Longer traces are sampled.
const MOST: usize = 1 << 27;
/// Steps of the sampling rate.
const STEPS: u64 = 1 << 24;

/// What is simulated.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) requests: Vec<Request>,
    /// 64 bits of each object's key.
    pub(crate) hashes: Vec<u64>,
    /// The share of keys that were kept.
    pub(crate) sample: f64,
    /// All requests, kept or not, and their bytes; those of the first part, which only warms caches up, apart.
    pub(crate) asked: Asked,
    pub(crate) warm: Asked,
    /// Kept requests of that first part.
    pub(crate) warm_requests: usize,
    /// Does anything expire?
    pub(crate) expires: bool,
}

/// Reads and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) reads: u64,
    pub(crate) bytes: u64,
}

/// How a trace is brought into memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gather {
    /// The share of keys to keep, above 0, at most 1.
    pub(crate) sample: f64,
    /// Which sample of that size.
    pub(crate) salt: u64,
    /// The share of requests that only warm caches up.
    pub(crate) warm: f64,
    /// Most requests read; more are left in the file.
    pub(crate) requests: u64,
    /// Requests a second, where the trace has no times.
    pub(crate) rate: f64,
    /// Bytes counted on top of each object's key and value.
    pub(crate) overhead: u32,
    /// Seconds to live where the trace gives none; 0: for ever.
    pub(crate) ttl: u32,
}

impl Default for Gather {
    fn default() -> Gather {
        Gather { sample: 1.0, salt: 0, warm: 0.0, requests: u64::MAX, rate: 10_000.0, overhead: 0, ttl: 0 }
    }
}

/// Keys are hashed already.
#[derive(Default)]
struct Known(u64);

impl Hasher for Known {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// The requests of a made trace, one after the other. `None`: it is a recorded one.
pub(crate) fn made(spec: &Spec) -> Option<Box<dyn Source>> {
    match spec {
        Spec::Synthetic(spec) => Some(Box::new(synthetic::Generator::new(*spec))),
        Spec::File(..) => None,
    }
}

/// Brings what is asked for into memory.
pub(crate) fn read(spec: &Spec, how: &Gather) -> Result<Trace, String> {
    let (path, format) = match spec {
        Spec::Synthetic(spec) => return gather(&mut synthetic::Generator::new(*spec), how),
        Spec::File(path, format) => (path, format),
    };
    let recorded = Load::recorded(recorded::Trace::open(path, *format)?);
    let trace = gather(&mut *recorded.source(0, 1, 0), how)?;
    if let Some(troubles) = recorded.troubles() {
        eprint!("{troubles}");
    }
    match recorded.troubles().and_then(recorded::Troubles::broken) {
        Some(why) => Err(format!("trace {}: {why}", path.display())),
        None => Ok(trace),
    }
}

/// Brings a trace into memory. Two keys with one hash of 64 bits would be one object: among a hundred million keys that is a
/// chance of one in four thousand.
pub(crate) fn gather(source: &mut dyn Source, how: &Gather) -> Result<Trace, String> {
    let limit = (how.sample * STEPS as f64).round().clamp(1.0, STEPS as f64) as u64;
    let secrets = RapidSecrets::seed_cpp(how.salt);
    let mut numbers: HashMap<u64, u32, BuildHasherDefault<Known>> = HashMap::default();
    let mut trace = Trace {
        requests: Vec::new(),
        hashes: Vec::new(),
        sample: limit as f64 / STEPS as f64,
        asked: Asked::default(),
        warm: Asked::default(),
        warm_requests: 0,
        expires: false,
    };
    // Reads up to each tick, so that the end of the warm-up can be found once the trace's length is known.
    let mut ticks: Vec<(usize, Asked)> = Vec::new();
    let (mut ask, mut count, mut last) = (Ask::default(), 0u64, 0u64);
    while count < how.requests && source.next(&mut ask) {
        if count.is_multiple_of(TICK) {
            ticks.push((trace.requests.len(), trace.asked));
        }
        let size = u32::try_from(ask.size.saturating_add(ask.key.len()))
            .unwrap_or(u32::MAX)
            .saturating_add(how.overhead);
        if matches!(ask.verb, Verb::Get | Verb::Head) {
            trace.asked.reads += 1;
            trace.asked.bytes += u64::from(size);
        }
        let own = ask.at.map(|at| u64::try_from(at.as_millis()).unwrap_or(u64::MAX));
        // Recorded times may step back a little; a simulation's do not.
        last = last.max(own.unwrap_or((count as f64 * 1000.0 / how.rate) as u64));
        count += 1;
        if last > MAX_TIME {
            return Err(format!(
                "request {count} of the trace comes {} years after the first, and {} are simulated at the most: are its times in another unit, or --rate too low?",
                last / YEAR,
                MAX_TIME / YEAR
            ));
        }
        let hash = rapidhash_v3_seeded(&ask.key, &secrets);
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
                "the trace has more than {MOST} requests to keep in memory: take a sample of its keys (--sample 0.01) or fewer requests (--requests)"
            ));
        }
        let ttl = if ask.ttl == 0 { how.ttl } else { ask.ttl };
        trace.expires |= ttl != 0;
        trace.requests.push(Request::new(last, id, size, ttl, ask.verb));
    }
    let warm = ticks.get((how.warm * (count / TICK) as f64) as usize).filter(|_| how.warm > 0.0);
    (trace.warm_requests, trace.warm) = warm.copied().unwrap_or_default();
    look_ahead(&mut trace.requests, trace.hashes.len());
    // Of nothing any share would be found.
    if trace.asked.reads == trace.warm.reads {
        return Err(format!("the trace has no reads among its {count} requests"));
    }
    if trace.requests.len() == trace.warm_requests {
        return Err("no key of the trace is in the sample: take a larger sample (--sample)".to_owned());
    }
    Ok(trace)
}

/// Requests between two places where the warm-up may end.
const TICK: u64 = 1000;
/// Milliseconds.
const YEAR: u64 = 365 * 86_400_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn small(requests: u64, how: Gather) -> Trace {
        read(&Spec::Synthetic(Synthetic { requests, keys: 10_000, ..Synthetic::default() }), &how).unwrap()
    }

    #[test]
    fn a_sample_keeps_all_requests_of_its_keys_and_no_others() {
        let all = small(100_000, Gather::default());
        let some = small(100_000, Gather { sample: 0.1, ..Gather::default() });
        assert_eq!((all.asked, all.requests.len()), (some.asked, 100_000));
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
        let how = Gather { warm: 0.25, ..Gather::default() };
        let trace = small(100_000, how);
        assert_eq!((trace.warm.reads, trace.warm_requests), (25_000, 25_000));
        assert_eq!(trace.requests[10_000].at, 1000, "ten requests a millisecond");
    }
}
