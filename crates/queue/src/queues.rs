//! All queues by name: a queue and its children, error queues, what clients have open.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

use crate::aborts::Failing;
use crate::journal::{Journal, path_of};
use crate::lend::is_locked;
use crate::name::{directory, is_valid, of_directory, parent};
use crate::queue::Queue;
use crate::read::SWEEP;
use crate::replay::Flaw;
use crate::types::{Figures, Item, Limits, Memory, NewItem, Options, Put, Read, Rules};
use crate::work::{Undone, Work};

/// The file that keeps a second process out.
const LOCK: &str = ".lock";
/// Directories of deleted queues begin so.
const DELETED: &str = ".deleted-";

pub(crate) type Name = Arc<[u8]>;

/// Bytes of a journal that are no records, or missing segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The queue.
    pub queue: Vec<u8>,
    /// Number of the segment.
    pub segment: u64,
    /// Where its valid records end.
    pub offset: u64,
    /// It is the end of the journal: the process or the machine died while it was written.
    pub is_tail: bool,
    /// So many segments are missing, this one and those behind it.
    pub missing: u64,
    /// The file of the segment.
    pub path: PathBuf,
}

/// All queues.
#[derive(Debug)]
pub struct Queues {
    pub(crate) options: Options,
    rules: Rules,
    memory: Arc<Memory>,
    pub(crate) queues: BTreeMap<Name, Queue>,
    /// Queues that have something to write.
    pub(crate) changed: BTreeSet<Name>,
    /// Queues whose files may not be on the device.
    unsynced: BTreeSet<Name>,
    /// Files without a queue.
    pending: Work,
    deleted: u64,
    /// Numbers of segments of new queues begin here: the files of a deleted queue may still be
    /// about to be removed, and the new one of its name has none of theirs.
    next_segment: u64,
    /// Queues made since the start.
    epoch: u64,
    /// Items that have gone to error queues since the last write.
    pub(crate) failing: Vec<Failing>,
    /// A sync has failed: nobody knows what the device has. No item is taken and no file removed
    /// until the queues are opened anew.
    pub(crate) broken: Option<String>,
    /// Held as long as the queues are open.
    pub(crate) lock: File,
}

impl Queues {
    /// Opens the queues in a directory, which is made if it is missing. `None`: another process has
    /// them open.
    ///
    /// # Errors
    /// Those of the files.
    pub fn open(
        options: Options,
        rules: Rules,
        now: u64,
    ) -> io::Result<Option<(Queues, Vec<Damage>)>> {
        fs::create_dir_all(&options.path)?;
        let lock = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(options.path.join(LOCK))?;
        if !is_locked(&lock)? {
            return Ok(None);
        }
        let memory = Memory::new(options.memory);
        let mut queues = Queues {
            options,
            rules,
            memory,
            queues: BTreeMap::new(),
            changed: BTreeSet::new(),
            unsynced: BTreeSet::new(),
            pending: Work::default(),
            deleted: 0,
            next_segment: 1,
            epoch: 0,
            failing: Vec::new(),
            broken: None,
            lock,
        };
        let damage = queues.load(now)?;
        Ok(Some((queues, damage)))
    }

    /// Opens all durable queues, in the place of those that were open. Those in memory only stay.
    pub(crate) fn load(&mut self, now: u64) -> io::Result<Vec<Damage>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.options.path)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|_| entry.path().is_dir()) else { continue };
            if name.starts_with(DELETED) {
                self.pending.remove_directories.push(entry.path());
            } else {
                found.extend(of_directory(name).map(|name| (name, entry.path())));
            }
        }
        let (mut loaded, mut damage) = (BTreeMap::new(), Vec::new());
        for (queue, path) in found {
            let limits = self.rules(&queue).clone();
            if limits.memory_only {
                // It was durable under other rules: its items stay on disk, untouched.
                continue;
            }
            let (segment, memory) = ((1, self.options.segment), self.memory.clone());
            let (mut opened, flaws) = Queue::open(path.clone(), segment, limits, memory, now)?;
            damage.extend(flaws.into_iter().map(|Flaw { place, is_tail, missing }| Damage {
                queue: queue.clone(),
                segment: place.segment,
                offset: place.offset,
                is_tail,
                missing,
                path: path_of(&path, place.segment),
            }));
            if let Some(before) = self.queues.get(&queue[..]) {
                (opened.counters, opened.epoch) = (before.counters, before.epoch);
            }
            loaded.insert(Name::from(queue), opened);
        }
        self.queues.retain(|_, queue| queue.journal.is_none());
        self.unsynced.extend(loaded.keys().cloned());
        self.queues.append(&mut loaded);
        Ok(damage)
    }

    /// Uses other rules from now on. Whether a queue is kept in memory only does not change while
    /// it exists.
    pub fn reload(&mut self, rules: Rules) {
        self.rules = rules;
        for (name, queue) in &mut self.queues {
            let memory_only = queue.limits.memory_only;
            queue.limits = Limits { memory_only, ..self.rules.of(name).clone() };
        }
    }

    /// The rules of a queue, whether it exists or not.
    pub fn rules(&self, name: &[u8]) -> &Limits {
        self.queues.get(name).map_or_else(|| self.rules.of(name), |queue| &queue.limits)
    }

    /// The queue of this name, made if it is missing. `Ok(None)`: there are too many.
    fn make(&mut self, name: &[u8], now: u64) -> io::Result<Option<(Name, &mut Queue)>> {
        // Two look-ups: the borrow of an early return would last too long otherwise.
        if self.queues.contains_key(name) {
            let name = Name::from(name);
            return Ok(self.queues.get_mut(&name).map(|queue| (name, queue)));
        }
        if self.queues.len() >= self.rules.queues || !is_valid(name) {
            return Ok(None);
        }
        let limits = self.rules.of(name).clone();
        let mut queue = if limits.memory_only {
            Queue::in_memory(limits, self.memory.clone(), now)
        } else {
            let path = self.directory(name);
            match fs::create_dir(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            self.pending.directories.push(self.options.path.clone());
            let segment = (self.next_segment, self.options.segment);
            let queue = Queue::open(path, segment, limits, self.memory.clone(), now)?.0;
            if queue.journal.as_ref().is_some_and(Journal::has_failed) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            queue
        };
        self.epoch += 1;
        queue.epoch = self.epoch;
        let name = Name::from(name);
        self.unsynced.insert(name.clone());
        Ok(Some((name.clone(), self.queues.entry(name).or_insert(queue))))
    }

    fn directory(&self, name: &[u8]) -> PathBuf {
        self.options.path.join(directory(name))
    }

    /// Adds an item to a queue, and, where that takes it, to its children; a child that is full
    /// goes without.
    pub fn put(&mut self, name: &[u8], item: &NewItem, now: u64) -> Put {
        let put = self.put_own(name, item, now);
        if matches!(put, Put::Stored) {
            for child in self.children(name) {
                let _ = self.put_copy(&child, item, now);
            }
        }
        put
    }

    /// The same without its children. Each of them is to get a copy then.
    pub fn put_own(&mut self, name: &[u8], item: &NewItem, now: u64) -> Put {
        if let Some(broken) = &self.broken {
            return Put::Failed(io::Error::other(broken.clone()));
        }
        if self.rules(name).fanout_only {
            let is_too_large = item.data.len() as u64 > self.rules(name).item_size;
            return if is_too_large { Put::TooLarge } else { Put::Stored };
        }
        match self.make(name, now) {
            Err(error) => Put::Failed(error),
            Ok(None) => Put::TooManyQueues,
            Ok(Some((name, queue))) => {
                let put = queue.put(item, now);
                self.changed.insert(name);
                put
            }
        }
    }

    /// Adds an item to a child whose parent has taken it. A child that was deleted goes without.
    pub fn put_copy(&mut self, child: &[u8], item: &NewItem, now: u64) -> Put {
        if let Some(broken) = &self.broken {
            return Put::Failed(io::Error::other(broken.clone()));
        }
        let Some((child, queue)) = self.existing(child) else { return Put::Stored };
        let put = queue.put(item, now);
        self.changed.insert(child);
        put
    }

    /// The children of a queue: they get its items too.
    pub fn children(&self, name: &[u8]) -> Vec<Arc<[u8]>> {
        let start = [name, b"+"].concat();
        let from = (Bound::Included(&start[..]), Bound::Unbounded);
        let names = self.queues.range::<[u8], _>(from).map(|(name, _)| name);
        let names = names.take_while(|other| parent(name).is_none() && other.starts_with(&start));
        names.cloned().collect()
    }

    /// Whether it has any.
    pub fn has_children(&self, name: &[u8]) -> bool {
        let start = [name, b"+"].concat();
        let from = (Bound::Included(&start[..]), Bound::Unbounded);
        let next = self.queues.range::<[u8], _>(from).next();
        parent(name).is_none() && next.is_some_and(|(next, _)| next.starts_with(&start))
    }

    /// Gives the first item of a queue to a client. A child is made by the first read: it gets
    /// items from then on.
    ///
    /// # Errors
    /// The item cannot be read from the queue's files, or its removal cannot be written.
    pub fn read(
        &mut self,
        name: &[u8],
        read: Read,
        client: u64,
        now: u64,
    ) -> io::Result<Option<Item>> {
        if parent(name).is_some() {
            self.make(name, now)?;
        }
        let Some((name, queue)) = self.existing(name) else { return Ok(None) };
        let item = queue.read(read, client, now);
        self.changed.insert(name);
        item
    }

    /// Whether the last read of a queue has found nothing but expired items, and others may be
    /// behind them: to be asked again when others had their turn.
    pub fn is_sweeping(&self, name: &[u8]) -> bool {
        self.queues.get(name).is_some_and(|queue| queue.is_sweeping)
    }

    pub(crate) fn existing(&mut self, name: &[u8]) -> Option<(Name, &mut Queue)> {
        let name = self.queues.get_key_value(name)?.0.clone();
        self.queues.get_mut(&name).map(|queue| (name, queue))
    }

    /// Puts an item back that a client was to get by [`Read::Take`], and that did not reach it. An
    /// item of a queue that was deleted meanwhile is gone with it.
    pub fn restore(&mut self, name: &[u8], item: Item) {
        if let Some((name, queue)) = self.existing(name)
            && queue.epoch == item.ticket.epoch
        {
            queue.restore(item);
            self.changed.insert(name);
        }
    }

    /// Items of a queue that a client has open.
    pub fn opened_by(&self, name: &[u8], client: u64) -> usize {
        self.queues.get(name).map_or(0, |queue| queue.opened_by(client))
    }

    /// Removes up to `most` items that a client has opened, the oldest reads first. Returns their
    /// number.
    pub fn confirm(&mut self, name: &[u8], client: u64, most: usize) -> usize {
        let Some((name, queue)) = self.existing(name) else { return 0 };
        let confirmed = queue.confirm(client, most);
        if confirmed > 0 {
            self.changed.insert(name);
        }
        confirmed
    }

    /// Removes all items of a queue that wait.
    pub fn flush(&mut self, name: &[u8]) {
        if let Some((name, queue)) = self.existing(name) {
            queue.flush();
            self.changed.insert(name);
        }
    }

    /// Discards expired items at the head of a queue, some thousands at most. Returns their number.
    ///
    /// # Errors
    /// The items cannot be read.
    pub fn flush_expired(&mut self, name: &[u8], now: u64) -> io::Result<u64> {
        let Some((name, queue)) = self.existing(name) else { return Ok(0) };
        let discarded = queue.discard_expired(now)?;
        if discarded > 0 {
            self.changed.insert(name);
        }
        Ok(discarded)
    }

    /// Deletes a queue with its items, the opened ones too. Returns whether it existed.
    ///
    /// # Errors
    /// Its directory cannot be renamed; nothing is deleted then.
    pub fn delete(&mut self, name: &[u8]) -> io::Result<bool> {
        let Some((name, queue)) = self.existing(name) else { return Ok(false) };
        if let Some(journal) = &queue.journal {
            let last = journal.end().segment;
            self.next_segment = self.next_segment.max(last + 1);
            let to = loop {
                self.deleted += 1;
                let to = self.options.path.join(format!("{DELETED}{}", self.deleted));
                if !to.exists() {
                    break to;
                }
            };
            fs::rename(self.directory(&name), &to)?;
            self.pending.directories.push(self.options.path.clone());
            self.pending.remove_directories.push(to);
        }
        self.queues.remove(&name);
        self.changed.remove(&name);
        self.unsynced.remove(&name);
        Ok(true)
    }

    /// Writes what the commands since the last call have changed to the files. Returns the names of
    /// queues for which that failed; their records are written with the next call.
    pub fn write(&mut self) -> Vec<(Arc<[u8]>, io::Error)> {
        let mut failed = self.settle();
        for name in std::mem::take(&mut self.changed) {
            let Some(journal) = self.queues.get_mut(&name).and_then(|q| q.journal.as_mut()) else {
                continue;
            };
            if let Err(error) = journal.write() {
                self.changed.insert(name.clone());
                failed.push((name.clone(), error));
            }
            if journal.has_work() {
                self.unsynced.insert(name);
            }
        }
        failed
    }

    /// Whether something that was written may not be on the device.
    pub fn is_dirty(&self) -> bool {
        !self.unsynced.is_empty() || !self.pending.is_empty()
    }

    /// The work that has everything written so far on the device. Without `sync` only the work that
    /// removes files, and what must be there before.
    pub fn take_work(&mut self, sync: bool) -> Work {
        let mut work = std::mem::take(&mut self.pending);
        for name in std::mem::take(&mut self.unsynced) {
            let Some(journal) = self.queues.get_mut(&name).and_then(|q| q.journal.as_mut()) else {
                continue;
            };
            journal.take_work(sync, &mut work);
            if journal.has_work() {
                self.unsynced.insert(name);
            }
        }
        if self.broken.is_some() {
            // The reasons of removals may not be on the device.
            self.pending.remove = std::mem::take(&mut work.remove);
        }
        work
    }

    /// Takes work back that was not done. Its removals are in the next, or, where the device has
    /// failed, in none until the queues are opened anew.
    pub fn undone(&mut self, undone: Undone) {
        let Undone { error, is_synced, mut work } = undone;
        if !is_synced {
            self.broken.get_or_insert_with(|| format!("the device failed: {error}"));
        }
        work.remove.append(&mut self.pending.remove);
        work.remove_directories.append(&mut self.pending.remove_directories);
        (self.pending.remove, self.pending.remove_directories) =
            (work.remove, work.remove_directories);
    }

    /// Why no item is taken, if that is so: the device has failed.
    pub fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// The work of now and then: expired items go, sparse segments are packed. Returns
    /// whether there is more to do at once.
    pub fn maintain(&mut self, now: u64) -> bool {
        let mut more = false;
        for (name, queue) in &mut self.queues {
            let expired = queue.discard_expired(now).unwrap_or(0);
            let packed = queue.pack().unwrap_or(false);
            more |= expired == SWEEP || packed;
            queue.journal.iter_mut().for_each(Journal::rest);
            if expired > 0 || packed {
                self.changed.insert(name.clone());
            }
        }
        more
    }

    /// All queues in the order of their names, with their figures.
    pub fn figures(&self) -> impl Iterator<Item = (&[u8], Figures)> {
        self.queues.iter().map(|(name, queue)| (&**name, queue.figures()))
    }

    /// Memory of the items in memory, in bytes.
    pub fn memory(&self) -> u64 {
        self.memory.used()
    }

    /// The names of all queues.
    pub fn names(&self) -> Vec<Arc<[u8]>> {
        self.queues.keys().cloned().collect()
    }

    /// Writes all that is left, and has it on the device.
    ///
    /// # Errors
    /// Those of the files.
    pub fn close(mut self) -> io::Result<()> {
        let failed = self.write().into_iter().next();
        self.take_work(true).run().map_err(|undone| undone.error)?;
        let _ = self.lock.unlock();
        failed.map_or(Ok(()), |(_, error)| Err(error))
    }
}
