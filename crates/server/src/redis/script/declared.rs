//! Scripts that declare their keys: those that have run to their end and used no other.
//!
//! A script that is not known to do so takes all stripes, so that it is one step to all clients
//! whatever it uses. The table has a fixed size; a script that is forgotten takes all stripes once
//! more.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Slots of the table.
const SLOTS: usize = 4096;

/// The scripts, by a hash of what EVAL or EVALSHA names them with.
pub(crate) struct Declared(Box<[AtomicU64]>);

impl Default for Declared {
    fn default() -> Declared {
        Declared((0..SLOTS).map(|_| AtomicU64::new(0)).collect())
    }
}

/// The hash of a script's text or sum. 0 is an empty slot.
pub(crate) fn hash(script: &[u8]) -> u64 {
    rapidhash::v3::rapidhash_v3(script).max(1)
}

impl Declared {
    fn slot(&self, hash: u64) -> &AtomicU64 {
        &self.0[hash as usize % SLOTS]
    }

    /// Returns whether the script is known to use the keys alone that it declares.
    pub(crate) fn knows(&self, hash: u64) -> bool {
        self.slot(hash).load(Relaxed) == hash
    }

    /// The script has ended; `strayed`: it has used a key that it had not declared.
    pub(crate) fn learn(&self, hash: u64, strayed: bool) {
        let slot = self.slot(hash);
        if !strayed {
            slot.store(hash, Relaxed);
        } else if slot.load(Relaxed) == hash {
            slot.store(0, Relaxed);
        }
    }
}
