//! A set of ids as ranges.

use std::collections::BTreeMap;

/// A set of ids. Readers remove items nearly in order, so a set of millions is a few ranges.
#[derive(Debug, Default)]
pub(crate) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds the ids from `from` up to `to`, which is not added.
    pub(crate) fn insert(&mut self, mut from: u64, mut to: u64) {
        if from >= to {
            return;
        }
        if let Some((&start, &end)) = self.0.range(..=from).next_back()
            && end >= from
        {
            (from, to) = (start, to.max(end));
        }
        while let Some((&start, &end)) = self.0.range(from..=to).next() {
            self.0.remove(&start);
            to = to.max(end);
        }
        self.0.insert(from, to);
    }

    pub(crate) fn contains(&self, id: u64) -> bool {
        self.0.range(..=id).next_back().is_some_and(|(_, &end)| id < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ranges_are_a_set() {
        let mut random = 1u64;
        for _ in 0..200 {
            let (mut ranges, mut set) = (Ranges::default(), HashSet::new());
            for _ in 0..20 {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let from = (random >> 33) % 60;
                let to = from + (random >> 50) % 5;
                ranges.insert(from, to);
                set.extend(from..to);
            }
            for id in 0..70 {
                assert_eq!(ranges.contains(id), set.contains(&id), "{id} {ranges:?}");
            }
            let parts: Vec<_> = ranges.0.iter().collect();
            assert!(parts.windows(2).all(|pair| pair[0].1 < pair[1].0), "{parts:?}");
        }
    }
}
