//! The facts of a stream beside its entries; they lie in its head.

use super::{StreamId, id_at, push_id};
use crate::resp::collection::{Damaged, number, push_number};

/// The facts of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The last ID that was given to an entry (Redis: `last-generated-id`).
    pub last: StreamId,
    /// The greatest ID of an entry that XDEL removed.
    pub max_deleted: StreamId,
    /// Number of entries ever added.
    pub added: u64,
    /// Number of consumer groups.
    pub groups: u64,
    /// Groups and consumers are numbered below this.
    pub numbers: u64,
}

impl State {
    /// Reads the facts.
    ///
    /// # Errors
    /// The bytes are none.
    pub fn read(bytes: &[u8]) -> Result<State, Damaged> {
        let (last, at) = id_at(bytes, 0)?;
        let (max_deleted, at) = id_at(bytes, at)?;
        let (added, at) = number(bytes, at)?;
        let (groups, at) = number(bytes, at)?;
        let (numbers, _) = number(bytes, at)?;
        Ok(State { last, max_deleted, added, groups, numbers })
    }

    /// Its bytes.
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32);
        push_id(&mut out, self.last);
        push_id(&mut out, self.max_deleted);
        for number in [self.added, self.groups, self.numbers] {
            push_number(&mut out, number);
        }
        out
    }
}
