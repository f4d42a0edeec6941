//! Reclaiming memory without eviction (`Options::evict` is false): only expired, removed or
//! replaced entries are freed.
//!
//! Segments with expired entries are swept, then the segment with the most dead bytes is compacted.
//! Dead bytes of less than a sixteenth in every segment are left in place: a store of small entries
//! can be filled to about 94 % by live ones in any sequence of removals and writes. The search
//! reads a few words of every segment, and is made by each write that finds no free segment (also
//! by each that is refused).

use crate::segment::Kind;
use crate::store::Store;
use crate::types::Ms;
use std::sync::atomic::Ordering::Relaxed;

impl Store {
    /// Frees some memory; false if none is worth the work. No lock may be held.
    pub(crate) fn reclaim(&self, now: Ms) -> bool {
        let mut freed = self.sweep_open(now);
        for segment in 0..self.segments.count() as u32 {
            self.sweep_outdated(segment, now, &mut freed);
        }
        // Dead bytes in open segments count too, and their records must not stay in place for ever.
        let worth = self.segments.size() / 16;
        self.close(None, |segment, fill| {
            fill.saturating_sub(self.segments.heat(segment).live()) >= worth
        });
        let compacted =
            self.deadest(worth).is_some_and(|(segment, kind)| self.compact(segment, kind, now));
        compacted || freed > 0
    }

    /// The sealed segment with the most dead bytes, if these are at least `worth`.
    fn deadest(&self, worth: usize) -> Option<(u32, Kind)> {
        let dead = |segment: u32| {
            let (kind, heat) = (self.segments.kind(segment), self.segments.heat(segment));
            self.segments.sealed(segment).filter(|_| matches!(kind, Kind::Small | Kind::Main))?;
            let dead = (heat.filled.load(Relaxed) as usize).saturating_sub(heat.live());
            (dead >= worth && !heat.busy()).then_some((dead, segment, kind))
        };
        let most =
            (0..self.segments.count() as u32).filter_map(dead).max_by_key(|found| found.0)?;
        Some((most.1, most.2))
    }
}
