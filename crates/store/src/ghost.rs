//! The ghost: fingerprints of entries dropped from the small queue. Who comes back while remembered goes to the main queue.
//!
//! A set-associative table of cache lines: one word of cursor, fifteen of 24 bits of hash and 8 bits of time. Time is
//! measured in bytes dropped, so that memory reaches equally far whatever the size of entries. Entries may be lost to races
//! between threads; the worst is a second miss.

use crate::hash::Hash;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const WAYS: u64 = 15;
/// Ticks in the time an entry is remembered.
const TICKS: u64 = 64;

/// See the module.
#[derive(Debug)]
pub(crate) struct Ghost {
    lines: Box<[[AtomicU32; 16]]>,
    dropped: AtomicU64,
    /// Dropped bytes per tick.
    tick: u64,
}

fn lines(budget: usize) -> usize {
    // One fingerprint for each 512 bytes of the budget: 0.8 % of it.
    (budget / 512 / WAYS as usize).next_power_of_two() / 2
}

impl Ghost {
    /// Remembers what was dropped within the last `reach` dropped bytes.
    pub(crate) fn new(budget: usize, reach: u64) -> Ghost {
        let line = |_| std::array::from_fn(|_| AtomicU32::new(0));
        Ghost {
            lines: (0..lines(budget)).map(line).collect(),
            dropped: AtomicU64::new(0),
            tick: (reach / TICKS).max(1),
        }
    }

    pub(crate) fn size(budget: usize) -> usize {
        lines(budget) * 64
    }

    fn time(&self) -> u32 {
        (self.dropped.load(Ordering::Relaxed) / self.tick) as u32
    }

    /// Line and fingerprint from the hash's halves: the ghost needs more bits than the index keeps.
    fn find(&self, hash: Hash) -> (&[AtomicU32; 16], u32) {
        let line = hash.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (&self.lines[line as usize & (self.lines.len() - 1)], hash.low() & 0xff_ffff)
    }

    pub(crate) fn add(&self, hash: Hash, bytes: usize) {
        self.dropped.fetch_add(bytes as u64, Ordering::Relaxed);
        let (line, print) = self.find(hash);
        let at = u64::from(line[0].load(Ordering::Relaxed));
        line[0].store(((at + 1) % WAYS) as u32, Ordering::Relaxed);
        line[1 + (at % WAYS) as usize].store(print << 8 | self.time() & 255, Ordering::Relaxed);
    }

    /// Was it dropped lately? Forgets it.
    pub(crate) fn take(&self, hash: Hash) -> bool {
        let (line, print) = self.find(hash);
        let now = self.time();
        line[1..].iter().any(|word| {
            let value = word.load(Ordering::Relaxed);
            let hit = value >> 8 == print && value != 0 && u64::from(now.wrapping_sub(value) & 255) <= TICKS;
            if hit {
                word.store(0, Ordering::Relaxed);
            }
            hit
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(n: u64) -> Hash {
        Hash(n.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ n << 40)
    }

    #[test]
    fn remembers_lately_dropped_once() {
        let ghost = Ghost::new(16 << 20, 1 << 20);
        ghost.add(hash(1), 100);
        assert!(!ghost.take(hash(2)));
        assert!(ghost.take(hash(1)));
        assert!(!ghost.take(hash(1)), "forgotten once taken");
    }

    #[test]
    fn forgets_after_its_reach() {
        let ghost = Ghost::new(16 << 20, 1 << 20);
        ghost.add(hash(1), 100);
        ghost.add(hash(2), 3 << 20);
        assert!(!ghost.take(hash(1)));
    }
}
