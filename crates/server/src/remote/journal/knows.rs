//! What a Larder knew of purges when it sent a page: of each author the number up to which it had
//! carried out all.
//!
//! It stands before the page record in every item. A reader that was told of a purge which the
//! sender had not carried out does not take the page; no clock is asked.

use std::sync::Arc;

/// Authors told of; of more, those that are left out count as not known: rather a page fetched
/// again.
const AUTHORS: usize = 64;
/// Bytes of the longest one.
pub(crate) const MOST: usize = 2 + 16 * AUTHORS;

/// Authors in order, and how far each is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Knows(Arc<[(u64, u64)]>);

impl Knows {
    pub(super) fn new(all: impl Iterator<Item = (u64, u64)>) -> Knows {
        Knows(all.take(AUTHORS).collect())
    }

    pub(crate) fn has(&self, author: u64, number: u64) -> bool {
        self.0.binary_search_by_key(&author, |(known, _)| *known).is_ok_and(|at| self.0[at].1 >= number)
    }

    /// The bytes that go before a record.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = (self.0.len() as u16).to_le_bytes().to_vec();
        for (author, number) in self.0.iter() {
            out.extend_from_slice(&author.to_le_bytes());
            out.extend_from_slice(&number.to_le_bytes());
        }
        out
    }

    /// Reads what stands before a record, and how many bytes that is.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Knows, usize)> {
        let (count, rest) = bytes.split_first_chunk::<2>()?;
        let count = usize::from(u16::from_le_bytes(*count));
        let pairs = rest.get(..16 * count).filter(|_| count <= AUTHORS)?;
        let word = |at: &[u8]| at.first_chunk::<8>().map_or(0, |word| u64::from_le_bytes(*word));
        let all: Arc<[_]> = pairs.chunks_exact(16).map(|pair| (word(pair), word(&pair[8..]))).collect();
        all.is_sorted_by_key(|(author, _)| *author).then_some((Knows(all), 2 + 16 * count))
    }
}
