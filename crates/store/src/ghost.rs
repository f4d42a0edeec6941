//! The ghost: fingerprints of recently dropped entries. An entry stored again after the small queue
//! dropped it goes to the main queue; one stored again just after being dropped, from either queue,
//! tells which of the two should have been larger.
//!
//! A set-associative table of cache lines: one word of cursor, fifteen words of 23 bits of hash,
//! one bit of queue and 8 bits of time. Each queue's time is measured in the bytes it dropped, so
//! that memory reaches equally far for any size of entries. Entries may be lost to races between
//! threads; the worst result is a second miss.

use crate::hash::Hash;
use crate::segment::Kind;
use crate::succession::{Image, Saved};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const WAYS: u64 = 15;
/// Ticks for which an entry is remembered. The eight bits hold twice as many.
const TICKS: u32 = 126;
/// Ticks that count as "just after": a twentieth of the memory.
const NEAR: u32 = TICKS / 18;

/// The ghost's knowledge of an entry that is stored again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Memory {
    /// The queue that dropped it.
    pub(crate) queue: Kind,
    /// A queue larger by a twentieth of the memory would still have it.
    pub(crate) near: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Ghost {
    lines: Box<[[AtomicU32; 16]]>,
    /// Bytes dropped by the small and by the main queue.
    dropped: [AtomicU64; 2],
    /// Dropped bytes per tick.
    tick: u64,
}

fn lines(budget: usize) -> usize {
    // One fingerprint for each 512 to 1024 bytes of the budget: 0.4 to 0.8 % of it.
    (budget / 512 / WAYS as usize).next_power_of_two() / 2
}

impl Ghost {
    /// A ghost that remembers the entries in the last `reach` bytes that each queue dropped.
    pub(crate) fn new(budget: usize, reach: u64) -> Ghost {
        let line = |_| std::array::from_fn(|_| AtomicU32::new(0));
        Ghost {
            lines: (0..lines(budget)).map(line).collect(),
            dropped: Default::default(),
            tick: (reach / u64::from(TICKS)).max(1),
        }
    }

    pub(crate) fn size(budget: usize) -> usize {
        lines(budget) * 64
    }

    fn time(&self, main: u32) -> u32 {
        (self.dropped[main as usize].load(Ordering::Relaxed) / self.tick) as u32 & 255
    }

    /// Line and fingerprint: the ghost needs more bits of the hash than the index keeps.
    fn find(&self, hash: Hash) -> (&[AtomicU32; 16], u32) {
        let line = hash.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (&self.lines[line as usize & (self.lines.len() - 1)], (hash.low() & 0x7f_ffff) << 9)
    }

    pub(crate) fn add(&self, hash: Hash, queue: Kind, bytes: usize) {
        let main = u32::from(queue == Kind::Main);
        self.dropped[main as usize].fetch_add(bytes as u64, Ordering::Relaxed);
        let (line, print) = self.find(hash);
        let at = u64::from(line[0].load(Ordering::Relaxed));
        line[0].store(((at + 1) % WAYS) as u32, Ordering::Relaxed);
        line[1 + (at % WAYS) as usize]
            .store(print | main << 8 | self.time(main), Ordering::Relaxed);
    }

    pub(crate) fn save(&self, out: &mut Image) {
        out.list(self.dropped.iter().map(|bytes| bytes.load(Ordering::Relaxed)));
        let words = self.lines.iter().flatten().map(|word| word.load(Ordering::Relaxed));
        out.words(words);
    }

    pub(crate) fn load(&self, from: &mut Saved<'_>) -> Option<()> {
        for (to, bytes) in self.dropped.iter().zip(from.list()?) {
            to.store(bytes, Ordering::Relaxed);
        }
        let words = from.words()?;
        if words.len() != self.lines.len() * 16 {
            return None;
        }
        let to = self.lines.iter().flatten();
        to.zip(words).for_each(|(to, word)| to.store(word, Ordering::Relaxed));
        Some(())
    }

    /// Was it dropped lately? Forgets it.
    pub(crate) fn take(&self, hash: Hash) -> Option<Memory> {
        let (line, print) = self.find(hash);
        line[1..].iter().find_map(|word| {
            let value = word.load(Ordering::Relaxed);
            if value & !0x1ff != print || value == 0 {
                return None;
            }
            let main = value >> 8 & 1;
            let age = self.time(main).wrapping_sub(value) & 255;
            if age > TICKS {
                return None;
            }
            word.store(0, Ordering::Relaxed);
            Some(Memory {
                queue: if main == 1 { Kind::Main } else { Kind::Small },
                near: age <= NEAR,
            })
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
        ghost.add(hash(1), Kind::Small, 100);
        ghost.add(hash(3), Kind::Main, 100);
        assert_eq!(ghost.take(hash(2)), None);
        assert_eq!(ghost.take(hash(1)), Some(Memory { queue: Kind::Small, near: true }));
        assert_eq!(ghost.take(hash(3)), Some(Memory { queue: Kind::Main, near: true }));
        assert_eq!(ghost.take(hash(1)), None, "forgotten once taken");
    }

    #[test]
    fn forgets_after_its_reach() {
        let ghost = Ghost::new(16 << 20, 1 << 20);
        ghost.add(hash(1), Kind::Small, 100);
        ghost.add(hash(2), Kind::Small, 100);
        ghost.add(hash(3), Kind::Main, 1 << 20);
        assert!(ghost.take(hash(2)).is_some_and(|m| m.near), "the other queue's time is its own");
        ghost.add(hash(4), Kind::Small, 1 << 19);
        assert_eq!(ghost.take(hash(1)), Some(Memory { queue: Kind::Small, near: false }));
        ghost.add(hash(5), Kind::Small, 100);
        ghost.add(hash(6), Kind::Small, (1 << 20) + (1 << 18));
        assert_eq!(ghost.take(hash(5)), None);
    }
}
