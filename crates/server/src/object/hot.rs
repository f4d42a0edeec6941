//! The keys asked for most: a space-saving sketch (Metwally et al., ICDT '05) per worker, fed by a sample of the gets.
//!
//! One get in [`EVERY`] is looked at, on average: the gap to the next is random, since with an equal one a client that
//! asks for the same keys in turns would always show the same of them. A key that is looked at costs a search among
//! [`PLACES`] hashes, and no memory.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use parking_lot::Mutex;

/// Gets per sample, on average.
pub(crate) const EVERY: u32 = 64;
/// Keys remembered per worker. A key with more than one get in so many is never missed.
const PLACES: usize = 128;
/// Longest key remembered: memcached's longest. (Redis's may be longer; those are passed over.)
const LONGEST: usize = 250;
/// After so many samples all counts are halved, so that the figures follow what is asked for now.
const HALVE: u64 = 1 << 14;

/// One worker's sketch of what a face's clients ask for, and the way to it.
#[derive(Debug, Default)]
pub(crate) struct Hot {
    /// Gets until the next sample. Written by the worker alone.
    left: AtomicU32,
    sketch: Mutex<Sketch>,
}

/// A key with its estimate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HotKey {
    /// The key.
    pub(crate) key: Vec<u8>,
    /// Gets, estimated; too high by at most what `sure` is lower.
    pub(crate) gets: u64,
    /// Gets that were certainly this key's, as far as the sample goes.
    pub(crate) sure: u64,
}

impl Hot {
    /// Is this get the next to be looked at? Only the owning worker may call it.
    #[inline]
    pub(crate) fn due(&self) -> bool {
        let left = self.left.load(Relaxed);
        self.left.store(left.wrapping_sub(1), Relaxed);
        left == 0
    }

    /// Looks at the key of a get that was due.
    #[cold]
    pub(crate) fn sample(&self, key: &[u8]) {
        let mut sketch = self.sketch.lock();
        self.left.store(sketch.gap(), Relaxed);
        sketch.add(key);
    }

    /// Forgets all keys.
    pub(crate) fn forget(&self) {
        let mut sketch = self.sketch.lock();
        *sketch = Sketch { random: sketch.random, ..Sketch::default() };
    }
}

#[derive(Debug)]
struct Sketch {
    places: Vec<Place>,
    /// Beside the places: what a search runs over.
    hashes: [u64; PLACES],
    samples: u64,
    random: u64,
}

#[derive(Debug)]
struct Place {
    key: [u8; LONGEST],
    len: usize,
    count: u64,
    /// What the place had counted for the keys before.
    inherited: u64,
}

impl Default for Sketch {
    fn default() -> Self {
        Self {
            places: Vec::with_capacity(PLACES),
            hashes: [0; PLACES],
            samples: 0,
            random: 0x9E37_79B9_7F4A_7C15,
        }
    }
}

impl Sketch {
    /// Gets until the next sample: evenly from 0 to twice the mean (xorshift64).
    fn gap(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % u64::from(2 * EVERY - 1)) as u32
    }

    fn add(&mut self, key: &[u8]) {
        let Some(len) = Some(key.len()).filter(|len| *len <= LONGEST) else { return };
        self.samples += 1;
        if self.samples >= HALVE {
            self.halve();
        }
        let hash = rapidhash::v3::rapidhash_v3(key);
        let known = self.hashes[..self.places.len()].iter().position(|h| *h == hash);
        if let Some(place) = known.map(|at| &mut self.places[at]).filter(|p| &p.key[..p.len] == key) {
            place.count += 1;
            return;
        }
        let mut bytes = [0; LONGEST];
        bytes[..len].copy_from_slice(key);
        if self.places.len() < PLACES {
            self.hashes[self.places.len()] = hash;
            self.places.push(Place { key: bytes, len, count: 1, inherited: 0 });
            return;
        }
        let least = (0..PLACES).min_by_key(|at| self.places[*at].count).unwrap_or(0);
        let inherited = self.places[least].count;
        self.hashes[least] = hash;
        self.places[least] = Place { key: bytes, len, count: inherited + 1, inherited };
    }

    fn halve(&mut self) {
        self.samples /= 2;
        for place in &mut self.places {
            (place.count, place.inherited) = (place.count / 2, place.inherited / 2);
        }
    }
}

/// The `limit` hottest keys of all workers, hottest first, and the gets they are an estimate of.
pub(crate) fn hottest<'a>(all: impl Iterator<Item = &'a Hot>, limit: usize) -> (Vec<HotKey>, u64) {
    let mut merged: std::collections::HashMap<Vec<u8>, (u64, u64)> = std::collections::HashMap::new();
    let mut samples = 0;
    for hot in all {
        let sketch = hot.sketch.lock();
        samples += sketch.samples;
        for place in &sketch.places {
            let sum = merged.entry(place.key[..place.len].to_vec()).or_default();
            sum.0 += place.count;
            sum.1 += place.count - place.inherited;
        }
    }
    let every = u64::from(EVERY);
    let keys = merged.into_iter().filter(|(_, (_, sure))| *sure > 0);
    let mut keys: Vec<_> =
        keys.map(|(key, (count, sure))| HotKey { key, gets: count * every, sure: sure * every }).collect();
    keys.sort_unstable_by(|a, b| b.sure.cmp(&a.sure).then_with(|| a.key.cmp(&b.key)));
    keys.truncate(limit);
    (keys, samples * every)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!((keys.len(), keys[0].key.as_slice()), (3, b"hot".as_slice()));
        assert!((550_000..650_000).contains(&gets), "{gets}");
        assert!((170_000..230_000).contains(&keys[0].gets), "{:?}", keys[0]);
        assert!(keys[0].sure <= keys[0].gets && keys[1].sure * 10 < keys[0].sure);
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
    fn what_was_hot_is_outlived() {
        let hot = Hot::default();
        (0..10_000).for_each(|_| hot.sample(b"yesterday"));
        (0..100_000).for_each(|_| hot.sample(b"today"));
        let (keys, gets) = hottest([&hot].into_iter(), 9);
        assert_eq!(keys[0].key, b"today");
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
