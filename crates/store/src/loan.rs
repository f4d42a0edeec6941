//! Memory lent out: segments that hold nothing while the borrower keeps as many bytes elsewhere, so
//! that both together stay within the budget. The system gets their pages back meanwhile.

use crate::staging;
use crate::store::Store;
use crate::types::{Ms, PutError};

/// Segments lent to one borrower; they come back when it is dropped.
#[derive(Debug)]
pub struct Loan<'s> {
    store: &'s Store,
    segments: Vec<u32>,
}

impl Store {
    /// A loan of nothing.
    pub fn loan(&self) -> Loan<'_> {
        Loan { store: self, segments: Vec::new() }
    }
}

impl Loan<'_> {
    /// Bytes lent: whole segments.
    pub fn bytes(&self) -> u64 {
        (self.segments.len() * self.store.segments.size()) as u64
    }

    /// Makes it at least `bytes`, and no more than a segment above it. Evicts as a write does that
    /// belongs to no group with a share.
    ///
    /// # Errors
    /// `Full`: there is not as much. Earlier loans stay.
    pub fn resize(&mut self, bytes: u64, now: Ms) -> Result<(), PutError> {
        let segments = &self.store.segments;
        let wanted = usize::try_from(bytes).unwrap_or(usize::MAX).div_ceil(segments.size());
        let before = self.segments.len();
        while self.segments.len() < wanted {
            match self.store.take_segment(staging::KIND, 0, now) {
                Ok(segment) => {
                    self.segments.push(segment);
                    // SAFETY: a segment taken from the pool is its taker's alone, and nobody reads
                    // what was in it.
                    unsafe { segments.map.forget(segments.start(segment), segments.size()) };
                }
                Err(error) => {
                    self.shrink(before);
                    return Err(error);
                }
            }
        }
        self.shrink(wanted);
        Ok(())
    }

    fn shrink(&mut self, segments: usize) {
        for segment in self.segments.drain(segments.min(self.segments.len())..) {
            self.store.segments.release(segment, segment);
        }
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        self.shrink(0);
    }
}
