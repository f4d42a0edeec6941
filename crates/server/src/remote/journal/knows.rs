//! The purges that a Larder knew when it sent a page: for each author, the number up to which it
//! had executed all.
//!
//! It precedes the page record in every item. A reader that knows a purge which the sender had not
//! executed does not use the page; no clock is involved.

use std::sync::Arc;

/// The most authors; omitted ones count as not known, so that a page is fetched again.
const AUTHORS: usize = 64;
/// Bytes of the longest one.
pub(crate) const MOST: usize = 2 + 16 * AUTHORS;

/// Authors in order, and the number up to which each is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownPurges(Arc<[(u64, u64)]>);

impl KnownPurges {
    pub(super) fn new(all: impl Iterator<Item = (u64, u64)>) -> KnownPurges {
        KnownPurges(all.take(AUTHORS).collect())
    }

    pub(crate) fn has(&self, author: u64, number: u64) -> bool {
        self.0
            .binary_search_by_key(&author, |(known, _)| *known)
            .is_ok_and(|at| self.0[at].1 >= number)
    }

    /// The bytes before a record.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = (self.0.len() as u16).to_le_bytes().to_vec();
        for (author, number) in self.0.iter() {
            out.extend_from_slice(&author.to_le_bytes());
            out.extend_from_slice(&number.to_le_bytes());
        }
        out
    }

    /// Parses the bytes before a record. Returns their number as well.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(KnownPurges, usize)> {
        let (count, rest) = bytes.split_first_chunk::<2>()?;
        let count = usize::from(u16::from_le_bytes(*count));
        let pairs = rest.get(..16 * count).filter(|_| count <= AUTHORS)?;
        let word = |at: &[u8]| at.first_chunk::<8>().map_or(0, |word| u64::from_le_bytes(*word));
        let all: Arc<[_]> =
            pairs.chunks_exact(16).map(|pair| (word(pair), word(&pair[8..]))).collect();
        all.is_sorted_by_key(|(author, _)| *author).then_some((KnownPurges(all), 2 + 16 * count))
    }
}
