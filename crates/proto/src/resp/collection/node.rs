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
        let mut last = Err(Damaged);
        for child in self.children() {
            let child = child?;
            if position < child.before + child.count {
                return Ok(child);
            }
            last = Ok(child);
        }
        last
    }

    /// The child below which `key` is, or would be.
    ///
    /// # Errors
    /// The node is damaged, or has no child.
    pub fn with(self, key: &[u8]) -> Result<Place<'a>, Damaged> {
        let mut last = Err(Damaged);
        for child in self.children() {
            let child = child?;
            if last.is_ok() && child.separator > key {
                break;
            }
            last = Ok(child);
        }
        last
    }
}

fn child(node: &[u8], start: usize, before: u64) -> Result<Place<'_>, Damaged> {
    let (count, at) = number(node, start)?;
    let (part, at) = number(node, at)?;
    let (len, at) = number(node, at)?;
    let (separator, end) = slice(node, at, len)?;

    if count == 0 || count >> 48 != 0 {
        return Err(Damaged);
    }
    Ok(Place { count, part, separator, start, end, before })
}

/// Appends a child to a node.
pub fn push_child(node: &mut Vec<u8>, count: u64, part: u64, separator: &[u8]) {
    push_number(node, count);
    push_number(node, part);
    push_number(node, separator.len() as u64);
    node.extend_from_slice(separator);
}
