//! Simulation of one policy with one size over a trace.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::policy::{Kind, Policy};
use super::trace::Trace;
use crate::load::Verb;
use crate::simulate::request::Request;

/// Result, over all requests after the warm-up; estimates if the trace is sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Outcome {
    /// Hit ratio by objects, 0 to 1.
    pub(crate) objects: f64,
    /// Hit ratio by bytes, 0 to 1.
    pub(crate) bytes: f64,
    /// 95 % confidence interval of `objects` due to the choice of sampled keys; 0 without sampling.
    pub(crate) error: f64,
    /// Misses: requests to the origin.
    pub(crate) origin_requests: f64,
    /// Bytes sent by the origin.
    pub(crate) origin_bytes: f64,
    /// Objects in the cache at the end.
    pub(crate) items: f64,
    /// Bytes of keys and values in the cache at the end.
    pub(crate) stored: f64,
}

/// A cache of this size, shrunk by the share of the keys that are simulated.
pub(super) fn open(
    kind: Kind,
    size: u64,
    sample: f64,
    ids: usize,
    seed: u64,
) -> Result<Box<dyn Policy>, String> {
    kind.open((size as f64 * sample).round() as u64, ids, seed)
}

/// Runs the simulation.
pub(crate) fn run(trace: &Trace, kind: Kind, size: u64, seed: u64) -> Result<Outcome, String> {
    let policy = open(kind, size, trace.sample, trace.hashes.len(), seed)?;
    let mut cache = Expiring::new(policy, trace);
    let sampled = trace.sample < 1.0;
    let mut by_key = vec![0u32; if sampled { trace.hashes.len() } else { 0 }];
    let (mut misses, mut missed) = (0u64, 0u64);
    for (at, request) in trace.requests.iter().enumerate() {
        if !cache.step(request) && at >= trace.warm_requests {
            misses += 1;
            missed += u64::from(request.size);
            if let Some(misses) = by_key.get_mut(request.id as usize) {
                *misses += 1;
            }
        }
    }
    let reads = (trace.total.reads - trace.warm.reads).max(1) as f64;
    let bytes = (trace.total.bytes - trace.warm.bytes).max(1) as f64;
    let (requests, missed) = (misses as f64 / trace.sample, missed as f64 / trace.sample);
    Ok(Outcome {
        objects: (1.0 - requests / reads).clamp(0.0, 1.0),
        bytes: (1.0 - missed / bytes).clamp(0.0, 1.0),
        error: 1.96 * deviation(&by_key, trace.sample) / reads,
        origin_requests: requests,
        origin_bytes: missed,
        items: cache.policy.items() as f64 / trace.sample,
        stored: cache.policy.used() as f64 / trace.sample,
    })
}

/// Standard deviation of the number of misses given a sample of keys (Horvitz and Thompson's
/// estimator).
fn deviation(by_key: &[u32], sample: f64) -> f64 {
    let squares: f64 = by_key.iter().map(|misses| f64::from(*misses).powi(2)).sum();
    (squares * (1.0 - sample)).sqrt() / sample
}

/// A cache whose objects expire, whether or not the policy knows about expiry.
pub(crate) struct Expiring {
    pub(crate) policy: Box<dyn Policy>,
    due: BinaryHeap<Reverse<(u64, u32)>>,
    expires: Vec<u64>,
}

impl Expiring {
    pub(crate) fn new(policy: Box<dyn Policy>, trace: &Trace) -> Expiring {
        let told = trace.expires && !policy.expires_by_itself();
        let expires = vec![u64::MAX; if told { trace.hashes.len() } else { 0 }];
        Expiring { policy, due: BinaryHeap::new(), expires }
    }

    /// One request: a miss stores the object. False: a miss.
    pub(crate) fn step(&mut self, request: &Request) -> bool {
        match request.verb() {
            Verb::Get | Verb::Head => {
                let found = self.get(request);
                if !found {
                    self.set(request);
                }
                return found;
            }
            Verb::Set => self.set(request),
            Verb::Delete => self.policy.remove(request.id),
        }
        true
    }

    pub(crate) fn get(&mut self, request: &Request) -> bool {
        self.expire(request.at);
        self.policy.get(request)
    }

    pub(crate) fn set(&mut self, request: &Request) {
        self.expire(request.at);
        self.policy.set(request);
        if let Some(expires) = self.expires.get_mut(request.id as usize) {
            *expires = request.expires();
            if *expires != u64::MAX {
                self.due.push(Reverse((*expires, request.id)));
            }
        }
    }

    fn expire(&mut self, now: u64) {
        while let Some(Reverse((at, id))) = self.due.peek().copied() {
            if at > now {
                return;
            }
            self.due.pop();
            // Unless it was stored again.
            if self.expires[id as usize] == at {
                self.policy.remove(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::trace::{LoadOptions, ReadTotals, Spec, Synthetic, Values, read};

    fn spec() -> Spec {
        let values = Values::Fixed(100);
        Spec::Synthetic(Synthetic {
            keys: 100_000,
            requests: 300_000,
            values,
            ..Synthetic::default()
        })
    }

    /// Of sixteen samples nearly all are within their confidence interval, and all within twice
    /// that.
    #[test]
    fn samples_are_as_near_as_they_say() {
        let size = 2 << 20;
        for kind in [Kind::Lru, Kind::S3Fifo] {
            let whole =
                run(&read(&spec(), &LoadOptions::default()).unwrap(), kind, size, 1).unwrap();
            assert!(whole.error == 0.0 && (0.2..0.9).contains(&whole.objects), "{whole:?}");
            let off = |salt| {
                let how = LoadOptions { sample: 0.1, salt, ..LoadOptions::default() };
                let part = run(&read(&spec(), &how).unwrap(), kind, size, 1).unwrap();
                assert!(part.error > 0.0 && part.error < 0.02, "{part:?}");
                (part.objects - whole.objects).abs() / part.error
            };
            let all: Vec<f64> = (0..16).map(off).collect();
            let within = all.iter().filter(|off| **off <= 1.0).count();
            assert!(within >= 13 && all.iter().all(|off| *off <= 2.0), "{} {all:?}", kind.name());
        }
    }

    #[test]
    fn what_expired_is_a_miss_for_every_policy() {
        let request = |at| Request::new(at, 0, 100, 10, Verb::Get);
        let trace = Trace {
            requests: [0, 9_999, 10_000, 19_999].map(request).to_vec(),
            hashes: vec![1],
            sample: 1.0,
            total: ReadTotals { reads: 4, bytes: 400 },
            warm: ReadTotals::default(),
            warm_requests: 0,
            expires: true,
        };
        let mut trace = trace;
        crate::simulate::request::look_ahead(&mut trace.requests, 1);
        for (kind, name) in Kind::ALL {
            let outcome = run(&trace, kind, 8 << 20, 1).unwrap();
            // Belady does not store objects that are never read again.
            assert_eq!((outcome.objects, outcome.origin_requests), (0.5, 2.0), "{name}");
        }
    }

    #[test]
    fn writes_and_deletions_are_no_reads() {
        use Verb::*;
        let request = |(at, verb)| Request::new(at, 0, 100, 0, verb);
        let requests = [(0, Set), (1, Get), (2, Delete), (3, Get), (4, Get)].map(request).to_vec();
        let total = ReadTotals { reads: 3, bytes: 300 };
        let (hashes, warm) = (vec![1], ReadTotals::default());
        let mut trace =
            Trace { requests, hashes, sample: 1.0, total, warm, warm_requests: 0, expires: false };
        crate::simulate::request::look_ahead(&mut trace.requests, 1);
        for (kind, name) in Kind::ALL {
            assert_eq!(run(&trace, kind, 8 << 20, 1).unwrap().origin_requests, 1.0, "{name}");
        }
    }
}
