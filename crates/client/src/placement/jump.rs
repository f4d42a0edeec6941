//! Jump hash (Lamping and Veach, "A Fast, Minimal Memory, Consistent Hash Algorithm", 2014).
//!
//! The paper's hash numbers its slots and knows no absent ones. A key whose server is absent is
//! drawn again with a key derived from it, so that the other keys stay where they are.

use crate::hash::{fnv1a_wide, mix};

/// Draws before falling back to the next live server in the list; with half of the servers absent,
/// one key in 4 billion gets there.
const DRAWS: u64 = 32;

/// The paper's algorithm takes a 64-bit key: `mix(fnv1a64(key))`, both as for rendezvous; the n-th
/// draw after an absent server uses `mix` of that plus n.
#[derive(Clone, Debug)]
pub(super) struct Jump {
    slots: Vec<u16>,
    alive: Vec<u16>,
}

impl Jump {
    /// `slots`: the server of each slot; `alive`: the live servers, in order.
    pub(super) fn new(slots: Vec<u16>, alive: Vec<u16>) -> Jump {
        Jump { slots, alive }
    }

    pub(super) fn locate(&self, key: &[u8]) -> u16 {
        self.next(key, &[])
    }

    /// The server of `key` that is not in `taken`. At least one server must not be taken.
    pub(super) fn next(&self, key: &[u8], taken: &[u16]) -> u16 {
        let usable =
            |server: &u16| self.alive.binary_search(server).is_ok() && !taken.contains(server);
        let first = mix(fnv1a_wide(key));
        let key = |draw| if draw == 0 { first } else { mix(first.wrapping_add(draw)) };
        let drawn = (0..DRAWS).map(|draw| self.slots[jump(key(draw), self.slots.len())]);
        drawn.into_iter().find(usable).unwrap_or_else(|| {
            let start = first as usize % self.alive.len();
            let around = self.alive[start..].iter().chain(&self.alive[..start]);
            around.copied().find(usable).unwrap_or(self.alive[0])
        })
    }

    pub(super) fn len(&self) -> usize {
        self.alive.len()
    }
}

/// The paper's figure 1. `slots`: 1 to [`super::MAX_SLOTS`].
pub(super) fn jump(mut key: u64, slots: usize) -> usize {
    let (mut slot, mut next) = (0, 0i64);
    while next < slots as i64 {
        slot = next;
        key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        next = ((slot + 1) as f64 * ((1u64 << 31) as f64 / ((key >> 33) + 1) as f64)) as i64;
    }
    slot as usize
}
