//! The reader's side of a queue: the first item, open reads, and what is read from the journal.

use std::collections::VecDeque;
use std::io;

use bytes::Bytes;

use crate::format::{Decoded, Record, decode};
use crate::journal::{CHUNK, Journal, Place};
use crate::queue::{Held, OVERHEAD, Queue};
use crate::types::{Item, Read, Ticket};

/// Bytes read for an item when memory is scarce.
const LITTLE: usize = 4096;
/// Most expired items that are discarded at once: some milliseconds. The rest is found by the next
/// command, or by [`Queue::discard_expired`] in the background.
pub(crate) const SWEEP: u64 = 10_000;
/// Bytes of items that are moved from an old segment at once.
const PACK: u64 = 1 << 20;

/// An item as its client gets it.
fn given(held: &Held, data: Bytes, epoch: u64) -> Item {
    let Held { id, added, expires, aborts, flags, place, .. } = *held;
    Item { flags, data, ticket: Ticket { epoch, id, added, expires, aborts, place } }
}

/// Whether bytes cannot be read now or later, as opposed to a lack of descriptors or memory.
fn is_lost(error: &io::Error) -> bool {
    /// EIO, EBADMSG and EUCLEAN of Linux: the device or the file system has lost them.
    const LOST: [i32; 3] = [5, 74, 117];
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof)
        || error.raw_os_error().is_some_and(|code| LOST.contains(&code))
}

impl Queue {
    /// Gives the first item to a client.
    pub(crate) fn read(&mut self, read: Read, client: u64, now: u64) -> io::Result<Option<Item>> {
        if read == Read::Open {
            self.counters.opened += 1;
        }
        if read != Read::Peek && self.journal.as_ref().is_some_and(Journal::is_full) {
            return Err(io::Error::other("its journal cannot be written"));
        }
        self.is_sweeping = self.discard_expired(now)? == SWEEP;
        if self.is_sweeping {
            return Ok(None);
        }
        let item = self.first(read, client)?;
        if let Some(item) = item.as_ref().filter(|_| read != Read::Peek) {
            let waited = now.saturating_sub(item.ticket.added);
            self.counters.taken += 1;
            self.counters.age = if self.items() == 0 { 0 } else { waited };
        }
        Ok(item)
    }

    fn first(&mut self, read: Read, client: u64) -> io::Result<Option<Item>> {
        while self.fill()? {
            let Some(data) = self.load_first()? else { continue };
            if read == Read::Peek {
                return Ok(self.ready.front().map(|first| given(first, data, self.epoch)));
            }
            let Some(held) = self.pop() else { break };
            let item = given(&held, data, self.epoch);
            match read {
                Read::Open => self.set_aside(held, client),
                _ => self.removed(&held),
            }
            return Ok(Some(item));
        }
        Ok(None)
    }

    /// Puts an item back that was taken, and did not reach its client. While its segment is there a
    /// small record says so, which a full file system may still have room for.
    pub(crate) fn restore(&mut self, item: Item) {
        let Item { flags, data, ticket } = item;
        let Ticket { id, added, expires, aborts, place, .. } = ticket;
        let len = data.len() as u32;
        let place = if self.journal.as_ref().is_some_and(|journal| journal.has(place)) {
            let Place { segment, offset } = place;
            let bytes = len;
            self.append(&Record::Returned {
                id,
                added,
                expires,
                flags,
                aborts,
                segment,
                offset,
                bytes,
            });
            place
        } else {
            let moved = Some(aborts);
            let record = Record::Item { id, added, expires, flags, moved, data: &data };
            let place = self.append(&record);
            self.journal.iter_mut().for_each(|journal| journal.excuse(u64::from(len)));
            place
        };
        let keeps = self.journal.is_none() || self.memory.has(u64::from(len));
        let data = Some(data).filter(|_| keeps);
        self.push(Held { id, place, len, flags, added, expires, aborts, data });
    }

    /// Keeps an item for a client that has opened it.
    fn set_aside(&mut self, mut held: Held, client: u64) {
        if let Some(journal) = &mut self.journal {
            journal.hold(held.place, true);
            // The journal has it, should it come back.
            if !self.memory.has(held.data.as_ref().map_or(0, |data| data.len() as u64)) {
                held.data = None;
            }
        }
        self.keep(OVERHEAD + held.data.as_ref().map_or(0, |data| data.len() as u64));
        self.open.entry(client).or_default().push_back(held);
    }

    /// Takes back what was set aside, the oldest reads first.
    fn take_aside(&mut self, client: u64, most: usize) -> Vec<Held> {
        let Some(opened) = self.open.get_mut(&client) else { return Vec::new() };
        let taken: Vec<_> = opened.drain(..most.min(opened.len())).collect();
        if opened.is_empty() {
            self.open.remove(&client);
        }
        taken.iter().for_each(|held| self.let_go(held));
        taken
    }

    /// Items that a client has open.
    pub(crate) fn opened_by(&self, client: u64) -> usize {
        self.open.get(&client).map_or(0, |opened| opened.len())
    }

    /// Removes items that a client has opened, the oldest reads first.
    pub(crate) fn confirm(&mut self, client: u64, most: usize) -> usize {
        let taken = self.take_aside(client, most);
        taken.iter().for_each(|held| self.removed(held));
        taken.len()
    }

    /// Gives items back that a client has opened: they are the first in line again. With `counts`
    /// the abort is counted for each; those with too many aborts are returned instead.
    pub(crate) fn abort(&mut self, client: u64, counts: bool) -> Vec<Held> {
        let mut failed = Vec::new();
        for mut held in self.take_aside(client, usize::MAX) {
            self.counters.aborted += 1;
            let most = self.limits.max_aborts;
            if counts && most > 0 {
                held.aborts += 1;
                self.append(&Record::Aborted { id: held.id, aborts: held.aborts });
                if held.aborts >= most {
                    failed.push(held);
                    continue;
                }
            }
            self.push(held);
        }
        failed
    }

    /// Sees to it that the first item is in `ready`, if there is one. After a start there may be
    /// items in the journal before those of `ready`, which were moved or restored; they were open.
    pub(crate) fn fill(&mut self) -> io::Result<bool> {
        while self.unread.items > 0
            && self.ready.front().is_none_or(|first| first.id > self.unread.from)
        {
            self.read_on()?;
        }
        Ok(!self.ready.is_empty())
    }

    /// Reads items from the journal, at least one record, and at most [`CHUNK`].
    fn read_on(&mut self) -> io::Result<()> {
        let want = if self.memory.has(2 * CHUNK as u64) { CHUNK } else { LITTLE };
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let Some(at) = journal.advance(self.unread.at) else {
            // Fewer were there than counted: damage while running.
            self.counters.damaged += self.unread.items;
            self.unread = Default::default();
            self.trim();
            return Ok(());
        };
        let bytes = match journal.read_record(at, want) {
            // Perhaps the bytes further on only.
            Err(error) if is_lost(&error) && want > LITTLE => journal.read_record(at, LITTLE),
            read => read,
        };
        let bytes = match bytes {
            Err(error) if is_lost(&error) => {
                // The rest of this segment cannot be read. Its file stays: it may be readable after
                // a restart.
                journal.hold(at, true);
                Vec::new()
            }
            read => read?,
        };
        let mut used = 0;
        while let Decoded::Record(record, len) = decode(&bytes[used..]) {
            let place = Place { offset: at.offset + used as u64, ..at };
            used += len;
            // With scarce memory one item is enough.
            if self.take_in(&record, place) && want == LITTLE || self.unread.items == 0 {
                break;
            }
        }
        self.unread.at = Place { offset: at.offset + used as u64, ..at };
        if used == 0 {
            // The rest of this segment is damaged.
            self.unread.at = Place { segment: at.segment + 1, offset: 0 };
        }
        self.trim();
        Ok(())
    }

    /// Puts an item of the journal into `ready` unless it is gone, or is there already.
    fn take_in(&mut self, record: &Record<'_>, place: Place) -> bool {
        let Record::Item { id, added, expires, flags, moved: None, data } = *record else {
            return false;
        };
        if id < self.unread.from {
            return false;
        }
        self.unread.from = id + 1;
        let mut aborts = 0;
        if let Some(replayed) = self.replayed.as_deref().filter(|replayed| id < replayed.until) {
            if replayed.removed.contains(id) || replayed.moved.contains(&id) {
                return false;
            }
            aborts = replayed.aborts.get(&id).copied().unwrap_or(0);
        }
        let len = data.len() as u32;
        self.unread.items = self.unread.items.saturating_sub(1);
        self.unread.bytes = self.unread.bytes.saturating_sub(u64::from(len));
        // With every queue's first item in memory the limit would be none.
        let fits = self.memory.has(u64::from(len) + OVERHEAD);
        let data = fits.then(|| Bytes::copy_from_slice(data));
        self.push(Held { id, place, len, flags, added, expires, aborts, data });
        true
    }

    /// The data of the first item of `ready`. `None`: it could not be read, and is gone.
    fn load_first(&mut self) -> io::Result<Option<Bytes>> {
        let Some(first) = self.ready.front() else { return Ok(None) };
        if let Some(data) = &first.data {
            return Ok(Some(data.clone()));
        }
        let (id, place, len) = (first.id, first.place, first.len);
        match self.load(id, place, len) {
            Err(error) if !is_lost(&error) => Err(error),
            Ok(Some(data)) => Ok(Some(data)),
            damaged => {
                let held = self.pop();
                self.damaged(held, damaged.is_err());
                Ok(None)
            }
        }
    }

    /// An item cannot be read. `stays`: by an error of the device; it is passed over, and stays in
    /// its file, where a restart may find it readable.
    fn damaged(&mut self, held: Option<Held>, stays: bool) {
        let Some(held) = held else { return };
        self.counters.damaged += 1;
        match &mut self.journal {
            Some(journal) if stays => journal.hold(held.place, true),
            _ => self.removed(&held),
        }
    }

    /// The data of an item from the journal; `None`: it is damaged.
    pub(crate) fn load(&mut self, id: u64, place: Place, len: u32) -> io::Result<Option<Bytes>> {
        let Some(journal) = &mut self.journal else { return Ok(None) };
        let bytes = journal.read_record(place, len as usize + 64)?;
        Ok(match decode(&bytes) {
            Decoded::Record(Record::Item { id: found, data, .. }, _) if found == id => {
                Some(Bytes::copy_from_slice(data))
            }
            _ => None,
        })
    }

    /// Discards expired items at the head, [`SWEEP`] at most. Returns their number.
    pub(crate) fn discard_expired(&mut self, now: u64) -> io::Result<u64> {
        let mut discarded = 0;
        while discarded < SWEEP && self.fill()? {
            let expired = |held: &&Held| held.expires != 0 && held.expires <= now;
            if self.ready.front().filter(expired).is_none() {
                break;
            }
            if let Some(held) = self.pop() {
                self.removed(&held);
                discarded += 1;
            }
        }
        self.counters.expired += discarded;
        Ok(discarded)
    }

    /// Whether old segments take much more of the disk than the items that wait, for the sake of a
    /// few: clients that keep items open, or queues that are read with gaps.
    fn is_sparse(&self) -> bool {
        let Some(journal) = &self.journal else { return false };
        let Some(first) = journal.segments.front() else { return false };
        let read = self.unread.items == 0 || first.number < self.unread.at.segment;
        let opened: u64 = self.open.values().flatten().map(|held| u64::from(held.len)).sum();
        let needed = self.bytes() + opened + 64 * self.items();
        journal.segments.len() > 4 && read && journal.bytes() > 2 * needed + 4 * journal.limit
    }

    /// Moves items out of the oldest segment, a part at a time, so that it can be removed. Returns
    /// whether there was something to do.
    pub(crate) fn pack(&mut self) -> io::Result<bool> {
        // Copies that cannot be written are none.
        if !self.is_sparse() || self.journal.as_ref().is_none_or(Journal::has_failed) {
            return Ok(false);
        }
        let Some(oldest) = self.journal.as_ref().and_then(|j| j.segments.front()) else {
            return Ok(false);
        };
        let number = oldest.number;
        let items = self.ready.iter().chain(self.open.values().flatten());
        let here = items.filter(|held| held.place.segment == number);
        let mut budget = PACK;
        let mut wanted = Vec::new();
        for held in here {
            wanted.push((held.id, held.place, held.len));
            budget = budget.saturating_sub(u64::from(held.len) + 64);
            if budget == 0 {
                break;
            }
        }
        if wanted.is_empty() {
            // Items that could not be read keep it: they have waited long enough.
            return Ok(self.journal.as_mut().is_some_and(Journal::give_up_oldest));
        }
        for (id, place, len) in wanted {
            self.move_item(id, place, len)?;
        }
        self.trim();
        Ok(true)
    }

    fn move_item(&mut self, id: u64, place: Place, len: u32) -> io::Result<()> {
        let loaded = match self.load(id, place, len) {
            Err(error) if !is_lost(&error) => return Err(error),
            loaded => loaded,
        };
        let Some(held) = self.held(id) else { return Ok(()) };
        let (added, expires, flags, aborts) = (held.added, held.expires, held.flags, held.aborts);
        let data = held.data.clone();
        let Some(data) = loaded.unwrap_or_default().or(data) else {
            let held = self.forget(id);
            self.damaged(held, false);
            return Ok(());
        };
        let record = Record::Item { id, added, expires, flags, moved: Some(aborts), data: &data };
        let moved = self.append(&record);
        if let Some(journal) = &mut self.journal {
            journal.hold(place, false);
            journal.hold(moved, true);
        }
        if let Some(held) = self.held(id) {
            held.place = moved;
        }
        Ok(())
    }

    /// Takes an item out of `ready`, or from the client that has it open.
    fn forget(&mut self, id: u64) -> Option<Held> {
        if let Ok(at) = self.ready.binary_search_by_key(&id, |held| held.id) {
            return self.take_out(at);
        }
        let of = |opened: &VecDeque<Held>| opened.iter().position(|held| held.id == id);
        let (client, at) =
            self.open.iter().find_map(|(client, opened)| Some((*client, of(opened)?)))?;
        let opened = self.open.get_mut(&client)?;
        let held = opened.remove(at)?;
        if opened.is_empty() {
            self.open.remove(&client);
        }
        self.let_go(&held);
        Some(held)
    }

    fn held(&mut self, id: u64) -> Option<&mut Held> {
        match self.ready.binary_search_by_key(&id, |held| held.id) {
            Ok(at) => self.ready.get_mut(at),
            Err(_) => self.open.values_mut().flatten().find(|held| held.id == id),
        }
    }
}
