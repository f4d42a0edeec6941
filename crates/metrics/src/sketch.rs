//! The keys with the highest counts, in bounded memory: "Space-Saving" (Metwally, Agrawal and
//! El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams", ICDT 2005).
//!
//! A key without a slot takes the slot with the lowest count and inherits that count, so a key with
//! more than one in [`SLOTS`] of all counts is never missing.

/// Slots of a sketch.
pub(crate) const SLOTS: usize = 128;

/// A key, its count, and further figures about it.
#[derive(Clone, Debug, Default)]
pub struct Slot<T> {
    /// The key, or its beginning if it is longer than the sketch keeps.
    pub key: Vec<u8>,
    /// The estimated count: at most `inherited` too high.
    pub count: u64,
    /// The part of the count that came from earlier keys of the slot.
    pub inherited: u64,
    /// Further figures, since the key has the slot.
    pub data: T,
}

/// A sketch. Slots keep their memory when their key changes.
#[derive(Clone, Debug)]
pub struct Sketch<T> {
    /// Hashes of the keys, in the order of the slots: a lookup runs over these.
    hashes: Vec<u64>,
    slots: Vec<Slot<T>>,
    longest: usize,
}

/// The hash by which keys are compared.
#[inline]
pub fn hash(key: &[u8]) -> u64 {
    rapidhash::v3::rapidhash_v3(key)
}

impl<T: Default> Sketch<T> {
    /// An empty sketch that keeps the first `longest` bytes of each key.
    pub fn new(longest: usize) -> Self {
        Self { hashes: Vec::with_capacity(SLOTS), slots: Vec::with_capacity(SLOTS), longest }
    }

    /// Adds `weight` to the count of a key. `hash` is [`hash`] of the whole key.
    pub fn add(&mut self, hash: u64, key: &[u8], weight: u64) -> &mut Slot<T> {
        let at = self.find(hash).unwrap_or_else(|| {
            let least = self.least();
            self.take(least, hash, key, least.map_or(0, |at| self.slots[at].count))
        });
        let slot = &mut self.slots[at];
        slot.count += weight;
        slot
    }

    /// Ranks keys by their highest value instead of their sum. None: the value is not among the
    /// highest.
    pub fn raise(&mut self, hash: u64, key: &[u8], value: u64) -> Option<&mut Slot<T>> {
        let at = match self.find(hash) {
            Some(at) => at,
            None => {
                let least = self.least();
                if least.is_some_and(|at| value <= self.slots[at].count) {
                    return None;
                }
                self.take(least, hash, key, 0)
            }
        };
        let slot = &mut self.slots[at];
        slot.count = slot.count.max(value);
        Some(slot)
    }

    /// Halves all counts, so that the recent past weighs most. `halve` does so with the further
    /// figures.
    pub fn halve(&mut self, halve: impl Fn(&mut T)) {
        for slot in &mut self.slots {
            (slot.count, slot.inherited) = (slot.count / 2, slot.inherited / 2);
            halve(&mut slot.data);
        }
    }

    /// All slots with the hashes of their keys, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Slot<T>)> {
        self.hashes.iter().copied().zip(&self.slots)
    }

    fn find(&self, hash: u64) -> Option<usize> {
        self.hashes.iter().position(|known| *known == hash)
    }

    /// The slot with the lowest count; None: there are free slots.
    fn least(&self) -> Option<usize> {
        let full = self.slots.len() == SLOTS;
        full.then(|| (0..SLOTS).min_by_key(|at| self.slots[*at].count).unwrap_or(0))
    }

    fn take(&mut self, at: Option<usize>, hash: u64, key: &[u8], inherited: u64) -> usize {
        let at = at.unwrap_or_else(|| {
            self.hashes.push(0);
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        self.hashes[at] = hash;
        let slot = &mut self.slots[at];
        slot.key.clear();
        slot.key.extend_from_slice(&key[..key.len().min(self.longest)]);
        (slot.count, slot.inherited, slot.data) = (inherited, inherited, T::default());
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frequent_key_is_never_missing_and_its_bounds_hold() {
        let mut sketch = Sketch::<u32>::new(8);
        let mut add = |key: String| {
            sketch.add(hash(key.as_bytes()), key.as_bytes(), 1).data += 1;
        };
        for n in 0..20_000 {
            add(format!("cold{n}"));
            if n % 20 == 0 {
                add("frequent key".to_owned());
            }
        }
        let (_, slot) =
            sketch.iter().find(|(_, slot)| slot.key == b"frequent").expect("the key, cut");
        assert!(slot.count >= 1000 && slot.count - slot.inherited <= 1000, "{slot:?}");
        assert!(
            sketch.iter().count() == SLOTS && sketch.iter().all(|(_, slot)| slot.key.len() <= 8)
        );
    }

    #[test]
    fn the_highest_values_stay() {
        let mut sketch = Sketch::<()>::new(8);
        for n in 0..1000_u64 {
            sketch.raise(n, &n.to_le_bytes(), 1000 - n);
        }
        assert!(sketch.raise(2000, b"low", 1).is_none());
        assert!(sketch.raise(2001, b"high", 5000).is_some());
        let mut counts: Vec<_> = sketch.iter().map(|(_, slot)| slot.count).collect();
        counts.sort_unstable();
        assert_eq!((counts[0], counts[SLOTS - 2], counts[SLOTS - 1]), (874, 1000, 5000));
        sketch.halve(|()| {});
        assert_eq!(sketch.iter().map(|(_, slot)| slot.count).max(), Some(2500));
    }
}
