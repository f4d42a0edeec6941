//! Shares: groups of namespaces with a guaranteed amount of memory (a floor) or a limit (a
//! ceiling).
//!
//! Every group has its own logs and queues, so that a segment holds records of one group only and
//! taking memory from a group costs the others nothing. The next victim is chosen as if there were
//! no groups (`queues.rs`), among groups that may lose something:
//!
//! - a group above its ceiling loses its own segments, to its own writer, before that writer gets a
//!   new one;
//! - a segment is not evicted if its live bytes would take its group below its floor;
//! - if no segment is left by these rules, a writer evicts from its own group, and is refused
//!   (`Full`) if there is none either.
//!
//! Without shares there is one group, and nothing is counted here. With them, each thread counts in
//! its own line; the sums are taken when a segment is needed.

use crate::succession::{Image, Saved};
use crate::sync::count;
use crate::types::{MAX_SHARES, NAMESPACES, Namespace, OpenError, Share};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Most groups: those with a share, and all other namespaces together (group 0).
pub(crate) const GROUPS: usize = MAX_SHARES + 1;

#[derive(Debug, Default)]
#[repr(align(128))]
struct Row([AtomicU64; GROUPS]);

/// See the module.
#[derive(Debug)]
pub(crate) struct Shares {
    group: [u8; NAMESPACES],
    floor: [usize; GROUPS],
    ceiling: [usize; GROUPS],
    groups: usize,
    /// Bytes of linked records; none if there are no shares.
    rows: Box<[Row]>,
}

fn rows(threads: usize) -> usize {
    (threads + 2).next_power_of_two().min(256)
}

impl Shares {
    pub(crate) fn new(
        shares: &[Share],
        budget: usize,
        threads: usize,
    ) -> Result<Shares, OpenError> {
        let mut new = Shares {
            group: [0; NAMESPACES],
            floor: [0; GROUPS],
            ceiling: [usize::MAX; GROUPS],
            groups: 1 + shares.len(),
            rows: Box::default(),
        };
        if shares.len() > MAX_SHARES {
            return Err(OpenError::Shares(
                "too many groups of namespaces with a share of the memory",
            ));
        }
        for (n, share) in shares.iter().enumerate() {
            let (first, last) = (usize::from(share.first.0), usize::from(share.last.0));
            let Some(group) = new.group.get_mut(first..=last).filter(|g| !g.is_empty()) else {
                return Err(OpenError::Shares(
                    "a share of the memory is for namespaces that do not exist",
                ));
            };
            if group.iter().any(|g| *g != 0) {
                return Err(OpenError::Shares(
                    "two shares of the memory are for the same namespace",
                ));
            }
            if share.floor > share.ceiling {
                return Err(OpenError::Shares("a floor is above its ceiling"));
            }
            group.fill(n as u8 + 1);
            new.floor[n + 1] = share.floor;
            new.ceiling[n + 1] = share.ceiling;
        }
        let promised = new.floor.iter().try_fold(0usize, |sum, f| sum.checked_add(*f));
        if promised.is_none_or(|sum| sum > budget) {
            return Err(OpenError::Shares("the floors together are more than the memory there is"));
        }
        if !shares.is_empty() {
            new.rows = (0..rows(threads)).map(|_| Row::default()).collect();
        }
        Ok(new)
    }

    pub(crate) fn size(shares: &[Share], threads: usize) -> usize {
        if shares.is_empty() { 0 } else { rows(threads) * size_of::<Row>() }
    }

    pub(crate) fn save(&self, out: &mut Image) {
        out.list(self.group.iter().map(|group| u64::from(*group)));
        let sum = |group: usize| {
            self.rows.iter().fold(0u64, |sum, row| sum.wrapping_add(row.0[group].load(Relaxed)))
        };
        out.list((0..GROUPS).map(sum));
    }

    /// `None`: the groups are others.
    pub(crate) fn load(&self, from: &mut Saved<'_>) -> Option<()> {
        let groups = from.list()?;
        if !self.group.iter().map(|group| u64::from(*group)).eq(groups) {
            return None;
        }
        let sums = from.list()?;
        if let Some(row) = self.rows.last() {
            row.0.iter().zip(sums).for_each(|(to, sum)| to.store(sum, Relaxed));
        }
        Some(())
    }

    /// No record is left.
    pub(crate) fn clear(&self) {
        for group in 0..GROUPS {
            let bytes = self.bytes(group) as u64;
            count(&self.rows, |row| &row.0[group], bytes.wrapping_neg());
        }
    }

    pub(crate) fn groups(&self) -> usize {
        self.groups
    }

    /// Does any group have a limit?
    #[inline]
    pub(crate) fn limited(&self) -> bool {
        self.groups > 1
    }

    /// Group of `ns`, which is valid.
    #[inline]
    pub(crate) fn of(&self, ns: Namespace) -> usize {
        usize::from(self.group[usize::from(ns.0)])
    }

    /// Counts a record of this many bytes that was linked.
    #[inline]
    pub(crate) fn add(&self, ns: Namespace, bytes: usize) {
        if self.limited() {
            count(&self.rows, |row| &row.0[self.of(ns)], bytes as u64);
        }
    }

    /// Removes a record that was unlinked from the counters.
    #[inline]
    pub(crate) fn sub(&self, ns: Namespace, bytes: usize) {
        self.add(ns, bytes.wrapping_neg());
    }

    /// Bytes of a group's records. (Unfinished writes may be counted in part.)
    pub(crate) fn bytes(&self, group: usize) -> usize {
        let sum =
            self.rows.iter().fold(0u64, |sum, row| sum.wrapping_add(row.0[group].load(Relaxed)));
        usize::try_from(sum as i64).unwrap_or(0)
    }

    /// Would `coming` more bytes take the group above its ceiling?
    pub(crate) fn over(&self, group: usize, coming: u64) -> bool {
        let ceiling = self.ceiling[group] as u64;
        ceiling != usize::MAX as u64 && self.bytes(group) as u64 + coming > ceiling
    }

    pub(crate) fn ceiling(&self, group: usize) -> u64 {
        self.ceiling[group] as u64
    }

    /// Bytes that a group may lose, of which `leaving` are being removed already.
    pub(crate) fn spare(&self, group: usize, leaving: usize) -> usize {
        match self.floor[group] {
            0 => usize::MAX,
            floor => self.bytes(group).saturating_sub(floor + leaving),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(first: u8, last: u8, floor: usize, ceiling: usize) -> Share {
        Share { first: Namespace(first), last: Namespace(last), floor, ceiling }
    }

    #[test]
    fn contradictions_are_refused() {
        let bad: [&[Share]; 6] = [
            &[share(0, 0, 2, 1)],
            &[share(3, 2, 0, 1)],
            &[share(30, 31, 0, 1)],
            &[share(0, 4, 0, 1), share(4, 5, 0, 1)],
            &[share(0, 0, 60, 100), share(1, 1, 41, 100)],
            &[share(0, 0, usize::MAX, usize::MAX), share(1, 1, 1, 1)],
        ];
        for shares in bad {
            assert!(matches!(Shares::new(shares, 100, 1), Err(OpenError::Shares(_))), "{shares:?}");
        }
        assert!(Shares::new(&[share(0, 30, 0, 1); 4], 100, 1).is_err());
    }

    #[test]
    fn bytes_and_limits_of_groups() {
        let shares =
            Shares::new(&[share(0, 0, 100, 1000), share(2, 17, 0, 50)], 1000, 4).expect("sane");
        assert_eq!([0, 1, 2, 17, 30].map(|ns| shares.of(Namespace(ns))), [1, 0, 2, 2, 0]);
        shares.add(Namespace(0), 160);
        std::thread::scope(|s| s.spawn(|| shares.sub(Namespace(0), 40)).join()).expect("no panic");
        assert_eq!((shares.bytes(1), shares.bytes(0), shares.bytes(2)), (120, 0, 0));
        assert_eq!((shares.spare(1, 0), shares.spare(1, 15), shares.spare(1, 50)), (20, 5, 0));
        assert_eq!((shares.spare(0, 0), shares.over(0, 1 << 40)), (usize::MAX, false));
        assert_eq!(
            (shares.over(1, 880), shares.over(1, 881), shares.over(2, 51)),
            (false, true, true)
        );
    }
}
