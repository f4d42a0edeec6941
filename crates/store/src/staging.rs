//! Staging memory of fills: runs of units, a sixteenth of a segment each, so that a slow fill holds
//! little more than its own bytes. A committed value is copied to a log at its exact size; only
//! whole segments in the middle of large values stay in place.

use crate::segment::{Kind, Segments};
use parking_lot::Mutex;

/// Units of a segment.
pub(crate) const UNITS: usize = 16;

/// Adjacent units of one segment that belong to the holder.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) segment: u32,
    pub(crate) first: usize,
    pub(crate) units: usize,
}

/// Segments in use and their units taken.
#[derive(Debug)]
pub(crate) struct Staging {
    segments: Mutex<Vec<(u32, u16)>>,
}

fn mask(first: usize, units: usize) -> u16 {
    ((u32::from(u16::MAX) >> (UNITS - units)) << first) as u16
}

impl Staging {
    pub(crate) fn new() -> Staging {
        Staging { segments: Mutex::new(Vec::new()) }
    }

    /// A run in the staging segments, and in `fresh` if one is given (which then becomes one of
    /// them).
    pub(crate) fn take(&self, units: usize, fresh: Option<u32>) -> Option<Run> {
        let mut segments = self.segments.lock();
        segments.extend(fresh.map(|s| (s, 0)));
        segments.iter_mut().find_map(|(segment, taken)| {
            let first = (0..=UNITS - units).find(|first| *taken & mask(*first, units) == 0)?;
            *taken |= mask(first, units);
            Some(Run { segment: *segment, first, units })
        })
    }

    pub(crate) fn give_back(&self, pool: &Segments, run: &Run) {
        let mut segments = self.segments.lock();
        let Some(at) = segments.iter().position(|(s, _)| *s == run.segment) else { return };
        segments[at].1 &= !mask(run.first, run.units);
        if segments[at].1 == 0 {
            segments.swap_remove(at);
            drop(segments);
            pool.release(run.segment, run.segment);
        }
    }
}

/// Bytes of a unit.
pub(crate) fn unit(segments: &Segments) -> usize {
    segments.size() / UNITS
}

/// A run of at least `bytes`, at most a segment.
pub(crate) fn units_for(segments: &Segments, bytes: usize) -> usize {
    bytes.div_ceil(unit(segments)).clamp(1, UNITS)
}

pub(crate) const KIND: Kind = Kind::Staging;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_do_not_overlap_and_come_back() {
        let staging = Staging::new();
        assert!(staging.take(4, None).is_none());
        let a = staging.take(4, Some(7)).expect("a fresh segment has room");
        let b = staging.take(12, None).expect("the rest of it");
        assert_eq!((a.first, b.first, b.segment), (0, 4, 7));
        assert!(staging.take(1, None).is_none());
    }

    #[test]
    fn masks() {
        assert_eq!(mask(0, 16), 0xffff);
        assert_eq!(mask(2, 3), 0b11100);
    }
}
