//! The hottest keys of an object face: a Space-Saving sketch per worker of a sample of the gets.
//!
//! The first [`EXACT`] gets of a second are all counted. Of further ones, one in [`EVERY`] is
//! sampled on average. The gap to the next sample is random: with a fixed
//! one, a client that asks for the same keys in turns would always show the same of them. A sample
//! costs a search among 128 hashes, and no allocation once the sketch is full.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use larder_metrics::{HotKey, Pace, Sketch, TopKeys, hash};
use parking_lot::Mutex;

use crate::clock::Ms;

/// Gets of a worker that are counted one by one in each second: so many cost less than a
/// thousandth of its time.
const EXACT: u32 = 1024;
/// Gets per sample beyond, on average.
const EVERY: u32 = 64;
/// Longest sampled key in bytes: memcached's longest. (Redis's may be longer; those are skipped.)
const LONGEST: usize = 250;
/// Samples after which all counts are halved, so that the figures describe the recent past.
const HALVE: u64 = 1 << 14;

/// The sampled gets of one worker.
#[derive(Debug)]
pub(crate) struct Hot {
    pace: Pace,
    /// State of the random gaps (xorshift64).
    random: AtomicU64,
    samples: Mutex<Samples>,
}

impl Default for Hot {
    fn default() -> Self {
        Self {
            pace: Pace::default(),
            random: AtomicU64::new(0x9E37_79B9_7F4A_7C15),
            samples: Mutex::default(),
        }
    }
}

impl Hot {
    /// The number of gets that this get at `now` stands for, if it is a sample. Only the owning
    /// worker may call it.
    #[inline]
    pub(crate) fn due(&self, now: Ms) -> Option<u32> {
        self.pace.due(now / 1000, EXACT, || self.gap())
    }

    /// Gets up to the next sample: evenly from 1 to twice the mean.
    fn gap(&self) -> u32 {
        let mut random = self.random.load(Relaxed);
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        self.random.store(random, Relaxed);
        1 + (random % u64::from(2 * EVERY - 1)) as u32
    }

    /// Counts the key of a get that was due, for `weight` gets.
    #[cold]
    pub(crate) fn sample(&self, key: &[u8], weight: u32) {
        self.samples.lock().add(key, weight);
    }

    /// Forgets all keys.
    pub(crate) fn forget(&self) {
        *self.samples.lock() = Samples::default();
    }
}

#[derive(Debug)]
struct Samples {
    /// With each key: how many gets were certainly of it.
    sketch: Sketch<u64>,
    samples: u64,
    /// Gets that the samples stand for.
    gets: u64,
}

impl Default for Samples {
    fn default() -> Self {
        Self { sketch: Sketch::new(LONGEST), samples: 0, gets: 0 }
    }
}

impl Samples {
    fn add(&mut self, key: &[u8], weight: u32) {
        if key.len() > LONGEST {
            return;
        }
        (self.samples, self.gets) = (self.samples + 1, self.gets + u64::from(weight));
        if self.samples >= HALVE {
            (self.samples, self.gets) = (self.samples / 2, self.gets / 2);
            self.sketch.halve(|seen| *seen /= 2);
        }
        self.sketch.add(hash(key), key, u64::from(weight)).data += 1;
    }
}

/// The `limit` hottest keys of all workers, hottest first. Bytes of keys that are not UTF-8 are
/// escaped by `name`.
pub(crate) fn hottest<'a>(
    face: &str,
    workers: impl Iterator<Item = &'a Hot>,
    limit: usize,
    name: fn(&[u8]) -> String,
) -> TopKeys {
    let mut merged: HashMap<Vec<u8>, Sum> = HashMap::new();
    let mut gets = 0;
    for hot in workers {
        let samples = hot.samples.lock();
        gets += samples.gets;
        for (_, slot) in samples.sketch.iter() {
            let sum = merged.entry(slot.key.clone()).or_default();
            sum.gets += slot.count;
            sum.own += slot.count - slot.inherited;
            sum.seen += slot.data;
        }
    }
    let mut keys: Vec<_> = merged.into_iter().filter(|(_, sum)| sum.seen > 0).collect();
    keys.sort_unstable_by(|(a, one), (b, other)| other.own.cmp(&one.own).then_with(|| a.cmp(b)));
    keys.truncate(limit);
    let view = |(key, sum): (Vec<u8>, Sum)| HotKey {
        key: name(&key),
        gets: sum.gets,
        gets_at_least: sum.seen,
    };
    TopKeys {
        face: face.to_owned(),
        sampled_one_in: EVERY,
        exact_per_second: EXACT,
        gets,
        keys: keys.into_iter().map(view).collect(),
    }
}

/// The figures of one key over all workers.
#[derive(Clone, Copy, Default)]
struct Sum {
    /// Estimated gets, those included that may have been of other keys.
    gets: u64,
    /// The same without them: the order of the keys.
    own: u64,
    /// Gets that were seen.
    seen: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hottest<'a>(workers: impl Iterator<Item = &'a Hot>, limit: usize) -> (Vec<HotKey>, u64) {
        let top = super::hottest("memcached", workers, limit, |key| {
            String::from_utf8_lossy(key).into_owned()
        });
        (top.keys, top.gets)
    }

    fn get(hot: &Hot, key: &[u8]) {
        if let Some(weight) = hot.due(1000) {
            hot.sample(key, weight);
        }
    }

    #[test]
    fn a_hot_key_is_found_among_many() {
        let (one, two) = (Hot::default(), Hot::default());
        for n in 0..200_000_u32 {
            get(&one, format!("cold{n}").as_bytes());
            get(&one, b"hot");
            get(&two, format!("other{n}").as_bytes());
        }
        let (keys, gets) = hottest([&one, &two].into_iter(), 3);
        assert_eq!((keys.len(), keys[0].key.as_str()), (3, "hot"));
        assert!((550_000..650_000).contains(&gets), "{gets}");
        assert!((170_000..230_000).contains(&keys[0].gets), "{:?}", keys[0]);
        assert!(
            keys[0].gets_at_least <= 200_000 && keys[1].gets_at_least * 10 < keys[0].gets_at_least
        );
    }

    #[test]
    fn keys_are_counted_exactly_while_few_are_asked_for() {
        let hot = Hot::default();
        for second in 0..10 {
            for n in 0..20_u64 {
                let key = if n == 0 { b"rare" } else { b"more" };
                let weight = hot.due(second * 1000 + n).expect("all are counted");
                hot.sample(key, weight);
            }
        }
        let (keys, gets) = hottest([&hot].into_iter(), 9);
        let figures = |key: &HotKey| (key.key.clone(), key.gets, key.gets_at_least);
        assert_eq!(
            keys.iter().map(figures).collect::<Vec<_>>(),
            [("more".to_owned(), 190, 190), ("rare".to_owned(), 10, 10)]
        );
        assert_eq!(gets, 200);
    }

    #[test]
    fn a_lower_bound_is_never_above_the_truth() {
        let hot = Hot::default();
        for n in 0..200_000_u32 {
            get(&hot, format!("once{n}").as_bytes());
        }
        let (keys, _) = hottest([&hot].into_iter(), 200);
        assert!(keys.len() > 100 && keys.iter().all(|key| key.gets_at_least == 1), "{keys:?}");
    }

    #[test]
    fn keys_asked_for_in_turns_are_all_seen() {
        let hot = Hot::default();
        for n in 0..64 * 4000 {
            get(&hot, &[b'a' + (n % 64) as u8]);
        }
        assert_eq!(hottest([&hot].into_iter(), 100).0.len(), 64);
    }

    #[test]
    fn old_keys_give_way() {
        let hot = Hot::default();
        (0..10_000).for_each(|_| hot.sample(b"yesterday", 1));
        (0..100_000).for_each(|_| hot.sample(b"today", 1));
        let (keys, gets) = hottest([&hot].into_iter(), 9);
        assert_eq!(keys[0].key, "today");
        assert!(keys.get(1).is_none_or(|key| key.gets < keys[0].gets / 50));
        assert!(gets <= HALVE);
    }

    #[test]
    fn too_long_a_key_and_forgetting() {
        let hot = Hot::default();
        hot.sample(&[b'k'; LONGEST + 1], 1);
        hot.sample(&[b'k'; LONGEST], 1);
        assert_eq!(hottest([&hot].into_iter(), 9).0.len(), 1);
        hot.forget();
        assert_eq!(hottest([&hot].into_iter(), 9), (Vec::new(), 0));
    }
}
