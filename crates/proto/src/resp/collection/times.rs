//! Times at which the fields of a hash that is a tree expire. Each separator of a node ends with
//! the first and the last of these times below its child, so that the field that is due next is
//! found without a walk, and the time at which the last field goes is known.

use super::{Damaged, Items, Node, Shape};

/// Bytes of a separator before its times: half of a hash value of a field.
pub const MARK: usize = 8;
/// Bytes of a separator with times.
const WHOLE: usize = MARK + 16;

/// The first and the last time at which some fields expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The first; `u64::MAX`: none of them expires.
    pub soonest: u64,
    /// The last; `u64::MAX`: one of them does not expire.
    pub last: u64,
}

impl Times {
    /// Of no field.
    pub const NONE: Times = Times { soonest: u64::MAX, last: 0 };
    /// Of fields that do not expire.
    pub const NEVER: Times = Times { soonest: u64::MAX, last: u64::MAX };

    /// Those of a field with this expiry.
    pub fn of(expires: Option<u64>) -> Times {
        match expires {
            None => Times::NEVER,
            Some(time) => {
                let time = time.min(u64::MAX - 1);
                Times { soonest: time, last: time }
            }
        }
    }

    /// Those of these and other fields.
    #[must_use]
    pub fn and(self, other: Times) -> Times {
        Times { soonest: self.soonest.min(other.soonest), last: self.last.max(other.last) }
    }

    /// Those of the fields of a run.
    ///
    /// # Errors
    /// The run is damaged.
    pub fn of_run(run: &[u8]) -> Result<Times, Damaged> {
        let mut items = Items::new(Shape::Field, run);
        items.try_fold(Times::NONE, |times, item| Ok(times.and(Times::of(item?.expires))))
    }

    /// Those of the fields below a node.
    ///
    /// # Errors
    /// The node is damaged.
    pub fn of_node(node: &[u8]) -> Result<Times, Damaged> {
        let mut children = Node(node).children();
        children.try_fold(Times::NONE, |times, child| Ok(times.and(Times::read(child?.separator))))
    }

    /// Those at the end of a separator.
    pub fn read(separator: &[u8]) -> Times {
        let word = |at: usize| {
            separator.get(at..)?.first_chunk().map(|raw: &[u8; 8]| u64::from_be_bytes(*raw))
        };
        match (word(MARK), word(MARK + 8)) {
            (Some(soonest), Some(last)) => Times { soonest, last },
            _ => Times::NEVER,
        }
    }

    /// Puts these at the end of a separator, in place of others.
    pub fn seal(self, separator: &mut Vec<u8>) {
        separator.truncate(MARK);
        if self.soonest < u64::MAX {
            separator.resize(MARK, 0);
            separator.reserve_exact(WHOLE - MARK);
            separator.extend_from_slice(&self.soonest.to_be_bytes());
            separator.extend_from_slice(&self.last.to_be_bytes());
        }
    }
}

/// A key that is not below a separator with this mark and any times.
pub fn mark_key(mark: u64) -> [u8; WHOLE] {
    let mut key = [u8::MAX; WHOLE];
    key[..MARK].copy_from_slice(&mark.to_be_bytes());
    key
}
