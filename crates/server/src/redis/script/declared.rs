//! Scripts that declare their keys: those that have run to their end and used no other.
//!
//! A script that is not known to do so takes all stripes, so that it is one step to all clients
//! whatever it uses. The table has a fixed size; a script that is forgotten takes all stripes once
//! more.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use larder_proto::resp::{Args, table::Id};

/// Slots of the table.
const SLOTS: usize = 4096;

/// The scripts, by a hash of what EVAL or EVALSHA names them with.
pub(crate) struct Declared {
    slots: Box<[AtomicU64]>,
    /// Raised when functions change: a name may be another function then.
    functions: AtomicU64,
}

impl Default for Declared {
    fn default() -> Declared {
        Declared {
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
            functions: AtomicU64::new(1),
        }
    }
}

impl Declared {
    /// The hash of the script's text or sum, or of the function's name, that a command runs. 0 is
    /// an empty slot.
    pub(crate) fn hash(&self, id: Id, args: &Args<'_>) -> u64 {
        let hash = rapidhash::v3::rapidhash_v3;
        if !matches!(id, Id::Fcall | Id::FcallRo) {
            return hash(args.get(1)).max(1);
        }
        let generation = hash(&self.functions.load(Relaxed).to_le_bytes());
        (hash(&args.get(1).to_ascii_lowercase()) ^ generation).max(1)
    }

    /// Functions have changed.
    pub(crate) fn forget_functions(&self) {
        self.functions.fetch_add(1, Relaxed);
    }

    fn slot(&self, hash: u64) -> &AtomicU64 {
        &self.slots[hash as usize % SLOTS]
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
