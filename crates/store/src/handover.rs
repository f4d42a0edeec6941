//! Entries that leave for lack of memory, handed over to a caller that keeps them elsewhere.
//!
//! The entry comes pinned, so that nothing is copied by the thread that evicts. While a sixteenth
//! of the segments waits for readers, no further entries are handed over: a caller that is slow
//! loses entries instead of taking memory.

use crate::entry::Entry;
use crate::hash::Hash;
use crate::held::Held;
use crate::index::Locked;
use crate::item::Record;
use crate::segment::Kind;
use crate::store::Store;
use crate::types::Namespace;
use std::fmt;
use std::sync::OnceLock;

/// Part of the segments that may wait for readers.
const WAITING: usize = 16;

type Ticket = Box<dyn Fn() -> u64 + Send + Sync>;
type Take = Box<dyn Fn(Namespace, Entry<'static>, u64) + Send + Sync>;

/// The receiver of entries.
pub(crate) struct Handover {
    store: &'static Store,
    of: &'static [Namespace],
    ticket: Ticket,
    take: Take,
}

/// The place of the receiver.
#[derive(Default)]
pub(crate) struct Receiver(OnceLock<Handover>);

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Receiver({})", self.0.get().is_some())
    }
}

/// An entry that is handed over once no lock is held.
pub(crate) struct Handed<'s>(&'s Handover, Namespace, Entry<'static>, u64);

impl Handed<'_> {
    pub(crate) fn give(self) {
        (self.0.take)(self.1, self.2, self.3);
    }
}

impl Store {
    /// Hands live entries of these namespaces that are evicted to `take`, if they were asked for
    /// more than once: read since they were stored, or stored again soon after an eviction. Entries
    /// marked stale are not. `ticket` is called before an entry is taken out, `take` after, with
    /// the result; both by the thread that evicts, and neither may write to the store. False, and
    /// nothing changed, if there is a receiver already.
    pub fn hand_over(&'static self, of: &'static [Namespace], ticket: Ticket, take: Take) -> bool {
        self.receiver.0.set(Handover { store: self, of, ticket, take }).is_ok()
    }

    /// A number from the receiver, if this record would be handed over. Called before the lock is
    /// taken under which the record is unlinked.
    pub(crate) fn handover_ticket(&self, record: &Record<'_>, kind: Kind) -> Option<u64> {
        let to = self.receiver.0.get()?;
        let word = record.word();
        let wanted = to.of.contains(&record.ns()) && !word.stale();
        let again = word.fetched() || kind == Kind::Main;
        let waiting = self.segments.number(Kind::Limbo) * WAITING > self.segments.count();
        (wanted && again && !waiting).then(|| (to.ticket)())
    }

    /// Pins a record that is about to be unlinked under this lock.
    pub(crate) fn handed(
        &self,
        locked: &Locked<'_>,
        record: &Record<'_>,
        hash: Hash,
        ticket: u64,
    ) -> Option<Handed<'_>> {
        let to = self.receiver.0.get()?;
        let held = Held::by_lock(&to.store.segments, locked, record.loc());
        Some(Handed(to, record.ns(), Entry::of(to.store, held, hash), ticket))
    }
}
