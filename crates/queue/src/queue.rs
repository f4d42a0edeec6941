//! One queue: its items in order, those in memory first, those on disk behind them.
//!
//! ```text
//! opened by clients   ready (in memory, some without their data)   unread (in the journal only)
//! ```
//! Items are ordered by their ids. `ready` has the oldest items that wait; items behind them are
//! read from the journal in its order, where `unread` begins. An item that comes back from a client
//! takes its old place, so the order is the same as after a restart.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use crate::format::Record;
use crate::journal::{Journal, Place};
use crate::ranges::Ranges;
use crate::replay::{Flaw, Replay};
use crate::types::{Counters, Figures, Limits, Memory, NewItem, Put};

/// An item that the queue knows.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) id: u64,
    /// Where it is in the journal.
    pub(crate) place: Place,
    pub(crate) len: u32,
    pub(crate) flags: u32,
    pub(crate) added: u64,
    pub(crate) expires: u64,
    pub(crate) aborts: u32,
    /// None: in the journal only.
    pub(crate) data: Option<Bytes>,
}

/// Memory of an item beside its data, in bytes: [`Held`], its share of a deque that doubles, and
/// the head of its allocation.
pub(crate) const OVERHEAD: u64 = 2 * size_of::<Held>() as u64 + 48;
/// Items behind `ready`.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    pub(crate) items: u64,
    pub(crate) bytes: u64,
    /// Where the first of them is, or something before it.
    pub(crate) at: Place,
    /// Their ids begin here.
    pub(crate) from: u64,
}

/// The finds of the start about items that were not read since.
#[derive(Debug)]
pub(crate) struct Replayed {
    pub(crate) removed: Ranges,
    pub(crate) moved: HashSet<u64>,
    pub(crate) aborts: HashMap<u64, u32>,
    /// Items from this id on came later.
    pub(crate) until: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) limits: Limits,
    pub(crate) journal: Option<Journal>,
    pub(crate) ready: VecDeque<Held>,
    /// By client, in the order of their reads.
    pub(crate) open: BTreeMap<u64, VecDeque<Held>>,
    pub(crate) unread: Unread,
    pub(crate) replayed: Option<Box<Replayed>>,
    /// Tells it from a deleted one of the same name.
    pub(crate) epoch: u64,
    /// The last read has ended at expired items: there may be others behind them.
    pub(crate) is_sweeping: bool,
    next_id: u64,
    /// Bytes of the items in `ready`.
    ready_bytes: u64,
    /// Memory of this queue's items, and of all queues'.
    resident: u64,
    pub(crate) memory: Arc<Memory>,
    pub(crate) counters: Counters,
}

impl Queue {
    /// A queue in memory only.
    pub(crate) fn in_memory(limits: Limits, memory: Arc<Memory>, now: u64) -> Queue {
        Queue {
            limits,
            journal: None,
            ready: VecDeque::new(),
            open: BTreeMap::new(),
            unread: Unread::default(),
            replayed: None,
            epoch: 0,
            is_sweeping: false,
            next_id: 1,
            ready_bytes: 0,
            resident: 0,
            memory,
            counters: Counters { created: now, ..Counters::default() },
        }
    }

    /// A queue with its journal, as that was left. `segment`: the number of its next segment, at
    /// the least, and the length of a segment.
    pub(crate) fn open(
        directory: PathBuf,
        (least, segment): (u64, u64),
        limits: Limits,
        memory: Arc<Memory>,
        now: u64,
    ) -> io::Result<(Queue, Vec<Flaw>)> {
        let mut replay = Replay::read(&directory, true)?;
        let segments = std::mem::take(&mut replay.segments);
        let next_id = replay.next_id;
        let first = segments.first().map(|first| first.number);
        let journal = Journal::begin(directory, segments, least, next_id, segment)?;
        let mut queue = Queue::in_memory(limits, memory, now);
        queue.next_id = next_id;
        let end = journal.end();
        queue.journal = Some(journal);
        let (items, bytes) = (replay.items, replay.bytes);
        let mut moved: Vec<_> = replay.moved.iter().collect();
        moved.sort_unstable_by_key(|(id, _)| **id);
        for (id, moved) in moved {
            queue.push(Held {
                id: *id,
                place: moved.place,
                len: moved.len,
                flags: moved.flags,
                added: moved.added,
                expires: moved.expires,
                aborts: moved.aborts,
                data: None,
            });
        }
        queue.unread = Unread {
            items: items.saturating_sub(queue.ready.len() as u64),
            bytes: bytes.saturating_sub(queue.ready_bytes),
            at: first.map_or(end, |segment| Place { segment, offset: 0 }),
            from: replay.base,
        };
        if queue.unread.items > 0 {
            queue.replayed = Some(Box::new(Replayed {
                removed: replay.removed,
                moved: replay.moved.into_keys().collect(),
                aborts: replay.aborts,
                until: next_id,
            }));
        }
        queue.trim();
        if let Some(journal) = &mut queue.journal {
            // Once for its use until now, and once more: there may be thousands of queues.
            journal.rest();
            journal.rest();
        }
        Ok((queue, replay.flaws))
    }

    /// Items that wait.
    pub(crate) fn items(&self) -> u64 {
        self.ready.len() as u64 + self.unread.items
    }

    /// Their bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.ready_bytes + self.unread.bytes
    }

    pub(crate) fn keep(&mut self, bytes: u64) {
        self.resident += bytes;
        self.memory.add(bytes);
    }

    pub(crate) fn release(&mut self, bytes: u64) {
        self.resident -= bytes;
        self.memory.remove(bytes);
    }

    /// Adds an item at the end of `ready`, or where its id belongs.
    pub(crate) fn push(&mut self, held: Held) {
        self.ready_bytes += u64::from(held.len);
        if let Some(journal) = &mut self.journal {
            journal.hold(held.place, true);
        }
        self.keep(OVERHEAD + held.data.as_ref().map_or(0, |data| data.len() as u64));
        let at = match self.ready.back() {
            Some(last) if last.id > held.id => self.ready.partition_point(|h| h.id < held.id),
            _ => self.ready.len(),
        };
        self.ready.insert(at, held);
    }

    /// Takes the first of `ready` out of it; it stays the queue's.
    pub(crate) fn pop(&mut self) -> Option<Held> {
        self.take_out(0)
    }

    /// The same of another.
    pub(crate) fn take_out(&mut self, at: usize) -> Option<Held> {
        let held = self.ready.remove(at)?;
        self.ready_bytes -= u64::from(held.len);
        if self.ready.is_empty() {
            self.ready.shrink_to(64);
        }
        self.let_go(&held);
        Some(held)
    }

    /// An item is neither ready nor open any more: its memory, and its share of a segment.
    pub(crate) fn let_go(&mut self, held: &Held) {
        self.release(OVERHEAD + held.data.as_ref().map_or(0, |data| data.len() as u64));
        if let Some(journal) = &mut self.journal {
            journal.hold(held.place, false);
        }
    }

    pub(crate) fn append(&mut self, record: &Record<'_>) -> Place {
        let next_id = self.next_id;
        self.journal.as_mut().map_or_else(Place::default, |journal| journal.append(record, next_id))
    }

    fn is_over(&self, more: u64) -> bool {
        let Limits { items, bytes, .. } = self.limits;
        (items > 0 && self.items() >= items) || (bytes > 0 && self.bytes() + more > bytes)
    }

    /// Adds an item.
    pub(crate) fn put(&mut self, item: &NewItem, now: u64) -> Put {
        let len = item.data.len() as u64;
        if len > self.limits.item_size {
            return Put::TooLarge;
        }
        if self.journal.as_mut().is_some_and(Journal::is_failing) {
            return Put::Failed(io::Error::other("the last write to its journal failed"));
        }
        if let Err(error) = self.make_room(len, now) {
            return Put::Failed(error);
        }
        let fits = self.memory.has(len + OVERHEAD);
        if self.is_over(len) || (self.journal.is_none() && !fits) {
            self.counters.refused += 1;
            return Put::Full;
        }
        let expires = self.expiry(item.expires, now);
        let id = self.next_id;
        let (data, flags) = (&item.data, item.flags);
        let record = Record::Item { id, added: now, expires, flags, moved: None, data };
        let place = self.append(&record);
        self.next_id += 1;
        self.counters.added += 1;
        if self.journal.is_none() || (self.unread.items == 0 && fits) {
            let data = Some(item.data.clone());
            let len = len as u32;
            self.push(Held { id, place, len, flags, added: now, expires, aborts: 0, data });
            return Put::Stored;
        }
        if self.unread.items == 0 {
            (self.unread.at, self.unread.from) = (place, id);
        }
        self.unread.items += 1;
        self.unread.bytes += len;
        Put::Stored
    }

    /// Discards what has expired, and the oldest items where the rules say so.
    fn make_room(&mut self, len: u64, now: u64) -> io::Result<()> {
        if !self.is_over(len) {
            return Ok(());
        }
        self.discard_expired(now)?;
        let bytes = self.limits.bytes;
        if !self.limits.discard_oldest || (bytes > 0 && len > bytes) {
            return Ok(());
        }
        while self.is_over(len) && self.items() > 0 {
            if !self.fill()? {
                break;
            }
            if let Some(held) = self.pop() {
                self.removed(&held);
                self.counters.discarded += 1;
            }
        }
        Ok(())
    }

    /// When an item expires: as its client said, within the queue's rules.
    fn expiry(&self, wanted: u64, now: u64) -> u64 {
        let Limits { max_age, default_expiry, .. } = self.limits;
        let wanted = match (wanted, default_expiry) {
            (0, 0) => 0,
            (0, default) => now.saturating_add(default),
            (wanted, _) => wanted,
        };
        match (wanted, max_age) {
            (wanted, 0) => wanted,
            (0, age) => now.saturating_add(age),
            (wanted, age) => wanted.min(now.saturating_add(age)),
        }
    }

    /// Writes that an item is gone.
    pub(crate) fn removed(&mut self, held: &Held) {
        self.append(&Record::Removed { id: held.id, bytes: held.len });
        self.tidy();
    }

    /// A queue without items whose last segment has grown begins a new one; old ones go.
    fn tidy(&mut self) {
        let (next_id, is_empty) = (self.next_id, self.items() == 0 && self.open.is_empty());
        if let Some(journal) = &mut self.journal
            && is_empty
            && journal.end().offset >= journal.limit / 4
        {
            journal.roll(next_id);
        }
        self.trim();
    }

    /// Removes segments that nothing refers to.
    pub(crate) fn trim(&mut self) {
        let reader = if self.unread.items > 0 { self.unread.at.segment } else { u64::MAX };
        if let Some(journal) = &mut self.journal {
            journal.trim(reader);
        }
        if self.unread.items == 0 {
            self.replayed = None;
        }
    }

    /// Removes all items that wait. Those that clients have opened stay theirs.
    pub(crate) fn flush(&mut self) {
        self.counters.flushes += 1;
        self.counters.age = 0;
        // Ids may be missing between those of `ready`: opened items stay.
        let mut range: Option<(u64, u64, u64, u64)> = None;
        while let Some(held) = self.pop() {
            let (id, len) = (held.id, u64::from(held.len));
            range = match range {
                Some((from, to, items, bytes)) if to == id => {
                    Some((from, id + 1, items + 1, bytes + len))
                }
                other => {
                    self.flushed(other);
                    Some((id, id + 1, 1, len))
                }
            };
        }
        self.flushed(range);
        if self.unread.items > 0 {
            self.flush_unread();
        }
        self.tidy();
    }

    /// The same for the items that are in the journal only: a range of ids, around those of opened
    /// items, which may lie in it after a restart.
    fn flush_unread(&mut self) {
        let Unread { mut items, mut bytes, mut from, .. } = std::mem::take(&mut self.unread);
        let mut opened: Vec<_> = self.open.values().flatten().map(|held| held.id).collect();
        opened.retain(|id| *id >= from);
        opened.sort_unstable();
        for to in opened.into_iter().chain([self.next_id]) {
            // The sum of all parts counts.
            self.flushed(Some((from, to, std::mem::take(&mut items), std::mem::take(&mut bytes))));
            from = to + 1;
        }
    }

    fn flushed(&mut self, range: Option<(u64, u64, u64, u64)>) {
        if let Some((from, to, items, bytes)) = range {
            self.append(&Record::Range { from, to, items, bytes });
        }
    }

    /// Its figures.
    pub(crate) fn figures(&self) -> Figures {
        Figures {
            items: self.items(),
            bytes: self.bytes(),
            memory_items: self.ready.len() as u64,
            memory_bytes: self.resident,
            journal: self.journal.as_ref().map_or(0, Journal::bytes),
            open: self.open.values().map(|opened| opened.len() as u64).sum(),
            counters: self.counters,
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.memory.remove(self.resident);
    }
}
