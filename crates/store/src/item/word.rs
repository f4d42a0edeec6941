//! The word of a record that changes while it is linked: last access and marks (see `item.rs` for
//! the format).

use crate::types::Ms;

pub(super) const FREQUENCY: u32 = 3;
pub(super) const FETCHED: u32 = 4;
/// In the changing word: marked stale.
pub(crate) const STALE: u32 = 8;
/// In the changing word: claimed.
pub(crate) const CLAIMED: u32 = 16;
/// Bits below the seconds.
const LOW: u32 = 5;

/// The changing word of a new record.
pub(crate) fn fresh_word(now: Ms) -> u32 {
    ((now / 1000) as u32) << LOW
}

/// A record's changing word at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Word(pub(crate) u32);

impl Word {
    #[inline]
    pub(crate) fn frequency(self) -> u32 {
        self.0 & FREQUENCY
    }

    pub(crate) fn with_frequency(self, frequency: u32) -> u32 {
        self.0 & !FREQUENCY | frequency
    }

    pub(crate) fn fetched(self) -> bool {
        self.0 & FETCHED != 0
    }

    pub(crate) fn stale(self) -> bool {
        self.0 & STALE != 0
    }

    /// The same, marked stale at `now`.
    pub(crate) fn stale_at(self, now: Ms) -> u32 {
        fresh_word(now) | self.0 & ((1 << LOW) - 1) | STALE
    }

    pub(crate) fn claimed(self) -> bool {
        self.0 & CLAIMED != 0
    }

    /// When it was last accessed (`used`: then), and whether it was ever read.
    pub(crate) fn history(self, used: Option<Ms>) -> u32 {
        used.map_or(self.0 >> LOW << LOW, fresh_word) | self.0 & FETCHED
    }

    /// The 27 bits of seconds that lie nearest to `base`: correct for two years in both directions.
    pub(crate) fn last_access(self, base: Ms) -> Ms {
        let near = base / 1000;
        let ahead = (self.0 >> LOW).wrapping_sub(near as u32) << LOW;
        let distance = i64::from(ahead as i32 >> LOW);
        near.saturating_add_signed(distance) * 1000
    }
}
