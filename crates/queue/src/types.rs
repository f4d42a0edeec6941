//! Values that callers and queues exchange.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::journal::Place;

/// Rules of one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most waiting items; 0: no limit.
    pub items: u64,
    /// Most bytes of waiting items; 0: no limit.
    pub bytes: u64,
    /// Largest item in bytes.
    pub item_size: u64,
    /// Longest time an item waits, in milliseconds; 0: no limit.
    pub max_age: u64,
    /// Time until an item expires that came without an expiry, in milliseconds; 0: never.
    pub default_expiry: u64,
    /// A full queue discards its oldest items instead of refusing new ones.
    pub discard_oldest: bool,
    /// Aborted reads after which an item goes to the error queue, or is discarded; 0: no limit.
    pub max_aborts: u32,
    /// The queue for items that were aborted too often.
    pub error_queue: Option<Arc<[u8]>>,
    /// Items are in memory only, and lost with the process.
    pub memory_only: bool,
    /// Items go to the children (`name+child`) only.
    pub fanout_only: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            items: 0,
            bytes: 0,
            item_size: 1 << 20,
            max_age: 0,
            default_expiry: 0,
            discard_oldest: false,
            max_aborts: 0,
            error_queue: None,
            memory_only: false,
            fanout_only: false,
        }
    }
}

/// Rules of all queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Of queues without a name here.
    pub default: Limits,
    /// By name. A child without rules of its own has its parent's.
    pub named: Vec<(Arc<[u8]>, Limits)>,
    /// Most queues.
    pub queues: usize,
}

impl Rules {
    /// The rules of the queue of this name.
    pub fn of(&self, name: &[u8]) -> &Limits {
        let named = |name: &[u8]| self.named.iter().find(|(other, _)| **other == *name);
        named(name)
            .or_else(|| crate::name::parent(name).and_then(named))
            .map_or(&self.default, |(_, limits)| limits)
    }
}

/// Where and how the queues are kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory of all journals.
    pub path: PathBuf,
    /// Memory for items, in bytes; further items are on disk only.
    pub memory: u64,
    /// Length from which on a segment of a journal is followed by the next, in bytes.
    pub segment: u64,
    /// Changed items are to be on the device before they are answered: moves between queues wait
    /// for it.
    pub always: bool,
}

/// An item of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewItem {
    /// The client's flags.
    pub flags: u32,
    /// When it expires, UNIX milliseconds; 0: as the queue's rules say.
    pub expires: u64,
    /// The content.
    pub data: Bytes,
}

/// An item for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The flags it came with.
    pub flags: u32,
    /// The content.
    pub data: Bytes,
    /// With it an item that did not reach its client takes its old place.
    pub ticket: Ticket,
}

/// The place of an item in its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticket {
    pub(crate) epoch: u64,
    pub(crate) id: u64,
    pub(crate) added: u64,
    pub(crate) expires: u64,
    pub(crate) aborts: u32,
    /// Where the journal has the item.
    pub(crate) place: Place,
}

/// Kinds of reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The item is removed.
    Take,
    /// The item is set aside until the client confirms or aborts, or leaves.
    Open,
    /// The item stays.
    Peek,
}

/// Result of adding an item.
#[derive(Debug)]
pub enum Put {
    /// Added.
    Stored,
    /// The queue is full.
    Full,
    /// The item is larger than the queue's items may be.
    TooLarge,
    /// There are as many queues as there may be.
    TooManyQueues,
    /// The queue's files cannot be written.
    Failed(std::io::Error),
}

/// Figures of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Items that wait.
    pub items: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Items in memory, and their bytes.
    pub memory_items: u64,
    /// Bytes of items in memory.
    pub memory_bytes: u64,
    /// Bytes of the journal.
    pub journal: u64,
    /// Items that clients have opened.
    pub open: u64,
    /// Since the start.
    pub counters: Counters,
}

/// Counters of a queue since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Items added.
    pub added: u64,
    /// Items taken or opened.
    pub taken: u64,
    /// Items refused, since the queue was full.
    pub refused: u64,
    /// Items discarded to make room.
    pub discarded: u64,
    /// Expired items.
    pub expired: u64,
    /// Reads that were opened, with an item or not.
    pub opened: u64,
    /// Open reads that were aborted, by the client or by its end.
    pub aborted: u64,
    /// Items that went to the error queue, or were discarded after too many aborts.
    pub failed: u64,
    /// Items that could not be read back: their bytes on disk were damaged.
    pub damaged: u64,
    /// Flushes.
    pub flushes: u64,
    /// How long the last item that was read had waited, in milliseconds; 0 once the queue is empty.
    pub age: u64,
    /// When the queue was made or loaded, UNIX milliseconds.
    pub created: u64,
}

/// Memory that items of all queues have.
#[derive(Debug)]
pub(crate) struct Memory {
    used: AtomicU64,
    limit: u64,
}

impl Memory {
    pub(crate) fn new(limit: u64) -> Arc<Memory> {
        Arc::new(Memory { used: AtomicU64::new(0), limit })
    }

    /// Whether so many bytes more are within the limit.
    pub(crate) fn has(&self, bytes: u64) -> bool {
        self.used.load(Ordering::Relaxed) + bytes <= self.limit
    }

    pub(crate) fn add(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}
