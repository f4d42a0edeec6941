//! Inner nodes: the children in order, each with the number of items below it, the number of its
//! part, and a separator: a key that is not above the keys below this child, and above all keys
//! before it. The first child's separator does not count.

use super::{Damaged, number, push_number, slice};

/// A node to read.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a>(pub &'a [u8]);

/// A child of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// Number of items below it.
    pub count: u64,
    /// The number of its part.
    pub part: u64,
    /// Its separator.
    pub separator: &'a [u8],
    /// Where it starts in the node.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// Number of items before it in the node.
    pub before: u64,
}

impl<'a> Node<'a> {
    /// The children. Ends after the first error.
    pub fn children(self) -> impl Iterator<Item = Result<Place<'a>, Damaged>> {
        let (mut at, mut before) = (0, 0u64);
        std::iter::from_fn(move || {
            if at >= self.0.len() {
                return None;
            }
            let child = child(self.0, at, before);
            match &child {
                Ok(child) => (at, before) = (child.end, before.saturating_add(child.count)),
                Err(Damaged) => at = self.0.len(),
            }
            Some(child)
        })
    }

    /// The child with the item at `position`; the last child if there are not as many.
    ///
    /// # Errors
    /// The node is damaged, or has no child.
    pub fn at(self, position: u64) -> Result<Place<'a>, Damaged> {
        self.last_of(|before, _| before <= position)
    }

    /// The child below which `key` is, or would be.
    ///
    /// # Errors
    /// The node is damaged, or has no child.
    pub fn with(self, key: &[u8]) -> Result<Place<'a>, Damaged> {
        let first = key.first_chunk().map(|first| u64::from_be_bytes(*first));
        self.last_of(|_, separator| is_up_to(separator, key, first))
    }

    /// The last child of the first ones for which `f` is true; it is given the number of items
    /// before the child, and the separator. The first child counts in any case.
    #[inline(always)]
    fn last_of(self, f: impl Fn(u64, &[u8]) -> bool) -> Result<Place<'a>, Damaged> {
        let (mut found, mut at, mut before) = (None, 0, 0u64);
        while at < self.0.len() {
            let (count, _, len, place) = child_numbers(self.0, at)?;
            let (separator, end) = slice(self.0, place, len)?;
            if found.is_some() && !f(before, separator) {
                break;
            }
            found = Some((at, before));
            (at, before) = (end, before.saturating_add(count));
        }
        let (at, before) = found.ok_or(Damaged)?;
        child(self.0, at, before)
    }
}

/// Is a separator not above a key? `first`: the first bytes of the key. Nearly always the first
/// bytes tell, and a comparison of numbers is ten times as fast as one of slices.
#[inline(always)]
fn is_up_to(separator: &[u8], key: &[u8], first: Option<u64>) -> bool {
    if let (Some(own), Some(first)) = (separator.first_chunk(), first) {
        let own = u64::from_be_bytes(*own);
        if own != first {
            return own < first;
        }
    }
    separator <= key
}

#[inline]
fn child(node: &[u8], start: usize, before: u64) -> Result<Place<'_>, Damaged> {
    let (count, part, len, at) = child_numbers(node, start)?;
    let (separator, end) = slice(node, at, len)?;

    if count == 0 || count >> 48 != 0 {
        return Err(Damaged);
    }
    Ok(Place { count, part, separator, start, end, before })
}

/// Count, part and the length of the separator of a child, and where these numbers end.
#[inline(always)]
fn child_numbers(node: &[u8], start: usize) -> Result<(u64, u64, u64, usize), Damaged> {
    if let Some(numbers) = numbers(node, start) {
        return Ok(numbers);
    }
    let (count, at) = number(node, start)?;
    let (part, at) = number(node, at)?;
    let (len, at) = number(node, at)?;
    Ok((count, part, len, at))
}

/// The three numbers in front of a separator, and where they end, if they are in eight bytes and
/// none has more than four: a search reads dozens of them, and a loop over each takes twice as
/// long.
#[inline(always)]
fn numbers(node: &[u8], start: usize) -> Option<(u64, u64, u64, usize)> {
    let word = u64::from_le_bytes(*node.get(start..)?.first_chunk()?);
    // The last byte of a number has no top bit.
    let first = !word & 0x8080_8080_8080_8080;
    let second = first & first.wrapping_sub(1);
    let third = second & second.wrapping_sub(1);
    if third == 0 {
        return None;
    }
    let [first, second, third] = [first, second, third].map(|ends| ends.trailing_zeros() + 1);
    let (part, len) = (second - first, third - second);
    if first > 32 || part > 32 || len > 32 {
        return None;
    }
    let at = start + third as usize / 8;
    Some((joined(word, first), joined(word >> first, part), joined(word >> second, len), at))
}

/// The number in the lowest bits of a word, 32 of them at most: seven of each byte.
#[inline(always)]
fn joined(word: u64, bits: u32) -> u64 {
    let word = word & (u64::MAX >> (64 - bits));
    word & 0x7f | word >> 1 & 0x3f80 | word >> 2 & 0x1f_c000 | word >> 3 & 0x0fe0_0000
}

/// Appends a child to a node.
pub fn push_child(node: &mut Vec<u8>, count: u64, part: u64, separator: &[u8]) {
    push_number(node, count);
    push_number(node, part);
    push_number(node, separator.len() as u64);
    node.extend_from_slice(separator);
}
