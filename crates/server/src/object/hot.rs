//! The hottest keys of an object face: a Space-Saving sketch per worker of a sample of the gets.
//!
//! One in [`EVERY`] gets is sampled on average. The gap to the next sample is random: with a fixed
//! one, a client that asks for the same keys in turns would always show the same of them. A sample
//! costs a search among 128 hashes, and no allocation once the sketch is full.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use larder_metrics::{HotKey, Sketch, TopKeys, hash};
use parking_lot::Mutex;

/// Gets per sample, on average.
const EVERY: u32 = 64;
/// Longest sampled key in bytes: memcached's longest. (Redis's may be longer; those are skipped.)
const LONGEST: usize = 250;
/// Samples after which all counts are halved, so that the figures describe the recent past.
const HALVE: u64 = 1 << 14;

/// The sampled gets of one worker.
#[derive(Debug, Default)]
pub(crate) struct Hot {
    /// Gets until the next sample. Written by the worker alone.
    left: AtomicU32,
    samples: Mutex<Samples>,
}

impl Hot {
    /// Whether this get is the next sample. Only the owning worker may call it.
    #[inline]
    pub(crate) fn due(&self) -> bool {
        let left = self.left.load(Relaxed);
        self.left.store(left.wrapping_sub(1), Relaxed);
        left == 0
    }

    /// Counts the key of a get that was due.
    #[cold]
    pub(crate) fn sample(&self, key: &[u8]) {
        let mut samples = self.samples.lock();
        self.left.store(samples.gap(), Relaxed);
        samples.add(key);
    }

    /// Forgets all keys.
    pub(crate) fn forget(&self) {
        let mut samples = self.samples.lock();
        *samples = Samples { random: samples.random, ..Samples::default() };
    }
}

#[derive(Debug)]
struct Samples {
    sketch: Sketch<()>,
    count: u64,
    random: u64,
}

impl Default for Samples {
    fn default() -> Self {
        Self { sketch: Sketch::new(LONGEST), count: 0, random: 0x9E37_79B9_7F4A_7C15 }
    }
}

impl Samples {
    /// Gets until the next sample: evenly from 0 to twice the mean (xorshift64).
    fn gap(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % u64::from(2 * EVERY - 1)) as u32
    }

    fn add(&mut self, key: &[u8]) {
        if key.len() > LONGEST {
            return;
        }
        self.count += 1;
        if self.count >= HALVE {
            self.count /= 2;
            self.sketch.halve(|()| {});
        }
        self.sketch.add(hash(key), key, 1);
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
    let mut merged: HashMap<Vec<u8>, (u64, u64)> = HashMap::new();
    let mut count = 0;
    for hot in workers {
        let samples = hot.samples.lock();
        count += samples.count;
        for (_, slot) in samples.sketch.iter() {
            let sum = merged.entry(slot.key.clone()).or_default();
            sum.0 += slot.count;
            sum.1 += slot.count - slot.inherited;
        }
    }
    let mut keys: Vec<_> = merged.into_iter().filter(|(_, (_, sure))| *sure > 0).collect();
    keys.sort_unstable_by(|(a, one), (b, other)| other.1.cmp(&one.1).then_with(|| a.cmp(b)));
    keys.truncate(limit);
    let every = u64::from(EVERY);
    let view = |(key, (gets, sure)): (Vec<u8>, (u64, u64))| HotKey {
        key: name(&key),
        gets: gets * every,
        gets_at_least: sure * every,
    };
    TopKeys {
        face: face.to_owned(),
        sampled_one_in: EVERY,
        gets: count * every,
        keys: keys.into_iter().map(view).collect(),
    }
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
        if hot.due() {
            hot.sample(key);
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
            keys[0].gets_at_least <= keys[0].gets
                && keys[1].gets_at_least * 10 < keys[0].gets_at_least
        );
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
        (0..10_000).for_each(|_| hot.sample(b"yesterday"));
        (0..100_000).for_each(|_| hot.sample(b"today"));
        let (keys, gets) = hottest([&hot].into_iter(), 9);
        assert_eq!(keys[0].key, "today");
        assert!(keys.get(1).is_none_or(|key| key.gets < keys[0].gets / 50));
        assert!(gets <= HALVE * u64::from(EVERY));
    }

    #[test]
    fn too_long_a_key_and_forgetting() {
        let hot = Hot::default();
        hot.sample(&[b'k'; LONGEST + 1]);
        hot.sample(&[b'k'; LONGEST]);
        assert_eq!(hottest([&hot].into_iter(), 9).0.len(), 1);
        hot.forget();
        assert_eq!(hottest([&hot].into_iter(), 9), (Vec::new(), 0));
    }
}
