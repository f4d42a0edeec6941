//! Memory lent out: segments that hold nothing while the borrower keeps as many bytes elsewhere, so
//! that both together stay within the budget. The system gets their pages back meanwhile. A smaller
//! budget is a loan that no borrower has.

use std::sync::atomic::Ordering;

use crate::staging;
use crate::store::Store;
use crate::types::{Ms, PutError};

/// Segments that hold nothing.
#[derive(Debug, Default)]
pub(crate) struct Lent(Vec<u32>);

impl Lent {
    /// Makes them `wanted`. An error: there are not as many, and nothing has changed.
    fn resize(&mut self, store: &Store, wanted: usize, now: Ms) -> Result<(), PutError> {
        let segments = &store.segments;
        let before = self.0.len();
        while self.0.len() < wanted {
            match store.take_bare_segment(staging::KIND, 0, now) {
                Ok(segment) => {
                    self.0.push(segment);
                    // SAFETY: a segment taken from the pool is its taker's alone, and nobody reads
                    // what was in it.
                    unsafe { segments.map.forget(segments.start(segment), segments.size()) };
                }
                Err(error) => {
                    self.shrink(store, before);
                    return Err(error);
                }
            }
        }
        self.shrink(store, wanted);
        Ok(())
    }

    fn shrink(&mut self, store: &Store, wanted: usize) {
        for segment in self.0.drain(wanted.min(self.0.len())..) {
            store.segments.release(segment, segment);
        }
    }
}

/// Segments lent to one borrower; they come back when it is dropped.
#[derive(Debug)]
pub struct Loan<'s> {
    store: &'s Store,
    lent: Lent,
}

impl Store {
    /// A loan of nothing.
    pub fn loan(&self) -> Loan<'_> {
        Loan { store: self, lent: Lent::default() }
    }

    /// Changes the budget to `bytes`, and less than a segment above it: at most to that of the
    /// options, for which index and tables were made, and not below the smallest that works. Evicts
    /// what has no place any more.
    ///
    /// # Errors
    /// `Full`: so much cannot be evicted. The budget stays as it was.
    pub fn set_budget(&self, bytes: u64, now: Ms) -> Result<(), PutError> {
        let less = (self.options.budget as u64).saturating_sub(bytes.max(self.least_budget()));
        let wanted = usize::try_from(less).unwrap_or(usize::MAX) / self.segments.size();
        let mut withheld = self.withheld.lock();
        let changed = withheld.resize(self, wanted, now);
        self.withheld_segments.store(withheld.0.len(), Ordering::Relaxed);
        changed
    }
}

impl Loan<'_> {
    /// Bytes lent: whole segments.
    pub fn bytes(&self) -> u64 {
        (self.lent.0.len() * self.store.segments.size()) as u64
    }

    /// Makes it at least `bytes`, and no more than a segment above it. Evicts as a write does that
    /// belongs to no group with a share.
    ///
    /// # Errors
    /// `Full`: there is not as much. Earlier loans stay.
    pub fn resize(&mut self, bytes: u64, now: Ms) -> Result<(), PutError> {
        let wanted = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.lent.resize(self.store, wanted.div_ceil(self.store.segments.size()), now)
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        self.lent.shrink(self.store, 0);
    }
}
