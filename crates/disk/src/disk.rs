//! The disk as all threads share it.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::files::{Files, Storage};
use crate::filter::Filter;
use crate::format::{FrameHead, Home, UNIT, key_hash, seconds, u64_at};
use crate::index::{Entry, Index, MOST_ASKED, Place, Registered};
use crate::journal::{self, Journal, Journalled, Purge};
use crate::superblock::Superblock;
use crate::types::{Figures, Ms, Options, ReadError, Record};

/// Bits of a ticket below the number of starts.
const STARTS_SHIFT: u32 = 40;
/// Most segments: the index has 16 bits for them.
pub(crate) const MOST_SEGMENTS: usize = 1 << 16;

/// A segment and what is known of it.
pub(crate) struct Segment<S> {
    pub(crate) number: u16,
    pub(crate) home: Home,
    pub(crate) file: S,
    /// Bytes of the file.
    pub(crate) length: AtomicU64,
    /// Entries of the index that are in it.
    pub(crate) live: AtomicU32,
    /// Smallest ticket of its records.
    pub(crate) oldest: AtomicU64,
    /// Second at which the last of its records expires.
    pub(crate) expires: AtomicU32,
    /// No more is written to it.
    pub(crate) closed: AtomicBool,
    /// The keys of all its records, those in the buffer included.
    pub(crate) filter: RwLock<Filter>,
}

impl<S> Segment<S> {
    /// `records`: about how many records it has or will have.
    pub(crate) fn new(number: u16, home: Home, file: S, length: u64, records: usize) -> Self {
        Self {
            number,
            home,
            file,
            length: AtomicU64::new(length),
            live: AtomicU32::new(0),
            oldest: AtomicU64::new(u64::MAX),
            expires: AtomicU32::new(0),
            closed: AtomicBool::new(false),
            filter: RwLock::new(Filter::new(records)),
        }
    }

    /// Counts a record in it, live or not.
    pub(crate) fn note(&self, hash: u64, ticket: u64, expires: u32) {
        self.oldest.fetch_min(ticket, Ordering::Relaxed);
        self.expires.fetch_max(expires, Ordering::Relaxed);
        self.filter.read().add(hash);
    }

    pub(crate) fn length(&self) -> u64 {
        self.length.load(Ordering::Relaxed)
    }
}

/// The name of a segment's file.
pub(crate) fn file_name(serial: u64) -> String {
    format!("{serial:016x}.segment")
}

/// The number in a segment's file name.
pub(crate) fn serial_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".segment").filter(|digits| digits.len() == 16)?;
    // The greatest would leave none for the next segment.
    u64::from_str_radix(digits, 16).ok().filter(|serial| *serial < u64::MAX)
}

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) accepted: AtomicU64,
    pub(crate) rewritten: AtomicU64,
    pub(crate) written: AtomicU64,
    pub(crate) evicted: AtomicU64,
    pub(crate) damaged: AtomicU64,
    pub(crate) purges: AtomicU64,
}

/// The table of segments, by their place in it.
type Segments<S> = Vec<Option<Arc<Segment<S>>>>;

/// Which purges mean nothing any more.
#[derive(Default)]
struct Settled {
    /// When that was found out.
    at: Ms,
    /// Purges up to this number.
    needless: u64,
    /// The latest number then.
    ticket: u64,
}

/// The purges found at the start that the index has to know.
#[derive(Default)]
pub(crate) struct FoundPurges {
    /// The latest purge of each hash.
    pub(crate) keys: HashMap<u64, u64>,
    /// Records with a smaller ticket are purged.
    pub(crate) floor: u64,
}

impl FoundPurges {
    /// These, and those that are the caller's.
    fn of(purges: Vec<Purge>) -> (FoundPurges, Vec<Purge>) {
        let (mut found, mut others) = (FoundPurges::default(), Vec::new());
        for purge in purges {
            match purge.kind {
                journal::EVERYTHING => found.floor = found.floor.max(purge.number),
                journal::KEY => {
                    let latest = found.keys.entry(u64_at(&purge.what, 0)).or_default();
                    *latest = purge.number.max(*latest);
                }
                _ => others.push(purge),
            }
        }
        (found, others)
    }
}

/// A disk, shared by all threads. None of its functions but [`Disk::read`] and
/// [`Disk::write_purges`] waits for the device.
pub struct Disk<F: Files> {
    pub(crate) files: F,
    pub(crate) options: Options,
    pub(crate) superblock: Superblock,
    pub(crate) index: Index,
    pub(crate) segments: RwLock<Segments<F::File>>,
    /// The number of the latest purge.
    tickets: AtomicU64,
    journal: Journal<F>,
    /// The index is being filled.
    pub(crate) loading: AtomicBool,
    /// A segment could not be read or removed: a start may find what it has.
    pub(crate) unsure: AtomicBool,
    /// The superblock was removed, as a purge could not be written.
    emptied: AtomicBool,
    settled: Mutex<Settled>,
    /// The purges found at the start, until the index is filled.
    pub(crate) found: Mutex<FoundPurges>,
    pub(crate) counters: Counters,
}

/// Where a record is.
pub struct Reading<F: Files> {
    segment: Arc<Segment<F::File>>,
    entry: Entry,
    hash: u64,
}

impl<F: Files> Reading<F> {
    /// Bytes that are read, at most.
    pub fn length(&self) -> u64 {
        u64::from(self.entry.units) * UNIT as u64
    }
}

impl<F: Files> Disk<F> {
    /// Opens the disk in these files, or makes an empty one where there is none or what is there
    /// cannot be used. The index is empty until [`Disk::load`] has filled it. Returns the purges
    /// that the caller has to know: records that one of them means must not be used.
    ///
    /// # Errors
    /// The system's: nothing can be written there, or it cannot be read now, which is no reason to
    /// remove anything.
    pub fn open(files: F, options: Options) -> io::Result<(Disk<F>, Vec<Purge>)> {
        let most = journal::length(options.size);
        let before = Superblock::read(&files)?.filter(|s| s.segment == options.segment());
        let journal = match before {
            Some(before) => Journal::open(&files, before.random, most)?,
            None => None,
        };
        let (superblock, journal, purges) = match (before, journal) {
            (Some(before), Some((journal, purges))) => {
                let next = Superblock { starts: before.starts + 1, ..before };
                (next, journal, purges)
            }
            _ => {
                Superblock::remove(&files)?;
                clear(&files)?;
                let random = options.random;
                let superblock = Superblock { random, starts: 1, segment: options.segment() };
                (superblock, Journal::create(&files, random, most)?, Vec::new())
            }
        };
        superblock.write(&files)?;
        let first = superblock.starts << STARTS_SHIFT;
        let (found, purges) = FoundPurges::of(purges);
        let disk = Disk {
            files,
            options,
            superblock,
            index: Index::new(),
            segments: RwLock::default(),
            tickets: AtomicU64::new(first),
            journal,
            loading: AtomicBool::new(true),
            unsure: AtomicBool::new(false),
            emptied: AtomicBool::new(false),
            settled: Mutex::default(),
            found: Mutex::new(found),
            counters: Counters::default(),
        };
        Ok((disk, purges))
    }

    /// The ticket for records that are still in memory now: to be read before they are taken out.
    pub fn ticket(&self) -> u64 {
        self.tickets.load(Ordering::SeqCst)
    }

    fn next_ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Announces a record that was taken from memory: true if it is to be given to
    /// [`crate::Writer::put`], which ends the announcement, as [`Disk::withdraw`] does. False: the
    /// disk has it, it was forgotten meanwhile, or too many are on their way.
    pub fn register(&self, key: &[u8], ticket: u64) -> bool {
        self.index.register(key_hash(key), ticket) == Registered::Yes
    }

    /// Ends the announcement of a record that is not written.
    pub fn withdraw(&self, key: &[u8], ticket: u64) {
        self.index.withdraw(key_hash(key), ticket);
    }

    /// Whether the disk has a key, as far as the index knows.
    pub fn has(&self, key: &[u8]) -> bool {
        self.index.get(key_hash(key)).is_some()
    }

    /// Looks for a key, and counts the request.
    pub fn find(&self, key: &[u8], now: Ms) -> Option<Reading<F>> {
        let hash = key_hash(key);
        let entry = self.index.get(hash)?;
        if entry.expires <= seconds(Some(now)) {
            // While the index is being filled it stands before older ones.
            if !self.loading.load(Ordering::SeqCst) {
                self.drop_entry(hash, entry.place);
            }
            return None;
        }
        let segment = self.segment(entry.place.segment)?;
        if entry.asked < MOST_ASKED {
            self.index.ask(hash);
        }
        Some(Reading { segment, entry, hash })
    }

    /// Reads a record and checks all of it. Waits for the device.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn read(&self, reading: &Reading<F>, key: &[u8]) -> Result<Record, ReadError> {
        let at = u64::from(reading.entry.place.at) * UNIT as u64;
        match read_frame(&reading.segment, at, reading.length()) {
            Ok(Some(record)) if record.key() == key => Ok(record),
            Err(error) => {
                self.drop_entry(reading.hash, reading.entry.place);
                Err(error.into())
            }
            Ok(_) => {
                self.drop_entry(reading.hash, reading.entry.place);
                self.counters.damaged.fetch_add(1, Ordering::Relaxed);
                Err(ReadError::Damaged)
            }
        }
    }

    pub(crate) fn segment(&self, number: u16) -> Option<Arc<Segment<F::File>>> {
        self.segments.read().get(usize::from(number)).cloned().flatten()
    }

    /// Takes an entry out of the index, if it is still at this place.
    fn drop_entry(&self, hash: u64, place: Place) {
        if self.index.remove_at(hash, place).is_some() {
            self.left(place.segment);
        }
    }

    /// Counts an entry that is no longer in this segment.
    pub(crate) fn left(&self, segment: u16) {
        if let Some(segment) = self.segment(segment) {
            segment.live.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Forgets a key: a newer record of it is in memory. Whether it was there or on its way. A
    /// start does not find it either once the next [`Disk::write_purges`] is done.
    pub fn forget(&self, key: &[u8]) -> bool {
        self.forget_hashed(key_hash(key))
    }

    /// [`Disk::forget`] of a key by its hash.
    pub fn forget_hashed(&self, hash: u64) -> bool {
        let found = self.forget_hash(hash);
        if found || self.loading.load(Ordering::SeqCst) {
            self.journal.add_forgotten(hash, || self.next_ticket());
        }
        found
    }

    fn forget_hash(&self, hash: u64) -> bool {
        let floor = self.next_ticket();
        let loading = self.loading.load(Ordering::SeqCst);
        let (entry, pending) = self.index.forget(hash, floor, loading);
        if let Some(entry) = &entry {
            self.left(entry.place.segment);
        }
        entry.is_some() || pending
    }

    /// Purges a key: it is forgotten at once, and durably once its number is durable
    /// ([`Disk::durable`]). `None`: there is nothing that a crash could bring back.
    pub fn purge_key(&self, key: &[u8]) -> (bool, Option<u64>) {
        let hash = key_hash(key);
        let found = self.forget_hash(hash);
        let needed = found || self.may_come_back(hash);
        let number = needed
            .then(|| self.journal.add(journal::KEY, &hash.to_le_bytes(), || self.next_ticket()));
        (found, number)
    }

    /// Ends the purge of a key: takes out what came to the disk while it was under way. The number
    /// that has to be durable, where something came.
    pub fn purge_rest(&self, key: &[u8]) -> Option<u64> {
        let hash = key_hash(key);
        let needed = self.forget_hash(hash) || self.may_come_back(hash);
        needed.then(|| self.journal.add(journal::KEY, &hash.to_le_bytes(), || self.next_ticket()))
    }

    /// Whether a start may find a record of a key that is not in the index.
    fn may_come_back(&self, hash: u64) -> bool {
        self.loading.load(Ordering::SeqCst)
            || self.unsure.load(Ordering::SeqCst)
            || self.segments.read().iter().flatten().any(|s| s.filter.read().may_have(hash))
    }

    /// Forgets a record that was found and is of no use.
    pub fn discard(&self, reading: &Reading<F>) {
        self.drop_entry(reading.hash, reading.entry.place);
    }

    /// Notes a purge of the caller's own kind, which must be 2 or greater. It is durable once its
    /// number is.
    pub fn purge(&self, kind: u8, what: &[u8]) -> u64 {
        self.journal.add(kind.max(journal::OTHERS), what, || self.next_ticket())
    }

    /// Whether purges wait for [`Disk::write_purges`].
    pub fn has_purges(&self) -> bool {
        self.journal.is_waiting()
    }

    /// Purges up to this number are durable.
    pub fn durable(&self) -> u64 {
        self.journal.durable()
    }

    /// Makes all purges so far durable. Waits for the device. If that fails, the superblock is
    /// removed, so that whoever opens the disk next finds it empty; the purges are kept for another
    /// call, which writes the superblock again.
    ///
    /// # Errors
    /// `(error, true)`: they are not durable, but the disk counts as empty after a crash;
    /// `(error, false)`: not even that.
    pub fn write_purges(&self) -> Result<Journalled, (io::Error, bool)> {
        let written = self.journal.flush(&self.files, self.needless());
        let restored = written.and_then(|journalled| {
            if self.emptied.load(Ordering::SeqCst) {
                self.superblock.write(&self.files)?;
                self.emptied.store(false, Ordering::SeqCst);
            }
            Ok(journalled)
        });
        match restored {
            Ok(journalled) => {
                self.counters.purges.fetch_add(journalled.written, Ordering::Relaxed);
                Ok(journalled)
            }
            Err(error) => {
                self.emptied.store(true, Ordering::SeqCst);
                let removed = Superblock::remove(&self.files).is_ok();
                Err((error, removed))
            }
        }
    }

    /// Purges up to this number mean nothing any more: no record has a smaller ticket. Call
    /// [`Disk::settle`] now and then.
    pub fn needless(&self) -> u64 {
        self.settled.lock().needless
    }

    /// Finds out which purges mean nothing any more, once a minute. A record that is being taken
    /// from memory may have an older ticket than all known ones, for moments: only purges that were
    /// there at the call before are dropped.
    pub fn settle(&self, now: Ms) {
        const PAUSE: Ms = 60_000;
        let mut settled = self.settled.lock();
        // Tickets of a segment that could not be read are not known.
        if self.unsure.load(Ordering::SeqCst) {
            return;
        }
        if self.loading.load(Ordering::SeqCst) || now < settled.at.saturating_add(PAUSE) {
            return;
        }
        let ticket = std::mem::replace(&mut settled.ticket, self.ticket());
        settled.at = now;
        let segments = self.segments.read();
        let oldest = segments.iter().flatten().map(|s| s.oldest.load(Ordering::Relaxed)).min();
        let pending = self.index.oldest_pending();
        let oldest = [oldest, pending].into_iter().flatten().fold(ticket, u64::min);
        settled.needless = settled.needless.max(oldest);
    }

    /// Figures since the disk was opened.
    pub fn figures(&self) -> Figures {
        let (entries, index) = self.index.figures();
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let segments = self.segments.read();
        let filters: u64 = segments.iter().flatten().map(|s| s.filter.read().memory()).sum();
        Figures {
            size: self.options.size,
            used: segments.iter().flatten().map(|segment| segment.length()).sum(),
            segments: segments.iter().flatten().count() as u64,
            entries,
            index: index + filters,
            accepted: load(&self.counters.accepted),
            rewritten: load(&self.counters.rewritten),
            written: load(&self.counters.written),
            evicted: load(&self.counters.evicted),
            damaged: load(&self.counters.damaged),
            purges: load(&self.counters.purges),
        }
    }
}

/// Reads and checks the frame at a place that has at most this length; `None`: it is damaged.
pub(crate) fn read_frame<S: Storage>(
    segment: &Segment<S>,
    at: u64,
    length: u64,
) -> io::Result<Option<Record>> {
    frame(&segment.file, segment.home, at, length)
}

/// [`read_frame`] of a file.
pub(crate) fn frame<S: Storage>(
    file: &S,
    home: Home,
    at: u64,
    length: u64,
) -> io::Result<Option<Record>> {
    let mut bytes = vec![0; length as usize];
    let read = file.read_full(&mut bytes, at)?;
    let Some(head) = FrameHead::decode(home, at, &bytes[..read]) else { return Ok(None) };
    let end = UNIT + head.content() as usize;
    let whole = bytes[..read].get(UNIT..end).is_some_and(|content| head.fits(home, at, content));
    if !whole {
        return Ok(None);
    }
    bytes.truncate(end);
    let start = UNIT + head.key as usize;
    let record = Record { bytes, start, ticket: head.ticket, expires: head.expires };
    Ok((key_hash(record.key()) == head.hash).then_some(record))
}

/// Removes every file of a disk.
pub(crate) fn clear<F: Files>(files: &F) -> io::Result<()> {
    const OTHERS: [&str; 3] = ["superblock.new", "purges", "purges.new"];
    for name in files.list()? {
        if serial_of(&name).is_some() || OTHERS.contains(&name.as_str()) {
            files.remove(&name)?;
        }
    }
    files.sync()
}
