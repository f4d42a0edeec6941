//! The disk as all threads share it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::files::{Files, Storage};
use crate::filter::Filter;
use crate::format::{FrameHead, Home, UNIT, key_hash, seconds, whole};
use crate::index::{Entry, Index, MOST_ASKED, Place, Registered};
use crate::journal::{self, Journal, Purge};
use crate::purges::{FoundPurges, Settled};
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
    pub(crate) journal: Journal<F>,
    /// The index is being filled.
    pub(crate) loading: AtomicBool,
    /// Nobody needs the index any more: no further segment is loaded.
    pub(crate) stopping: AtomicBool,
    /// The file system is full: a segment is to make room.
    pub(crate) cramped: AtomicBool,
    /// A segment could not be read or removed: a start may find what it has.
    pub(crate) unsure: AtomicBool,
    /// The superblock was removed, as a purge could not be written.
    pub(crate) emptied: AtomicBool,
    pub(crate) settled: Mutex<Settled>,
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
            stopping: AtomicBool::new(false),
            cramped: AtomicBool::new(false),
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

    pub(crate) fn next_ticket(&self) -> u64 {
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

    /// Whether a record is short enough to be written, by the bytes of its key and its own.
    pub fn takes(&self, key: u64, record: u64) -> bool {
        whole((UNIT as u64).saturating_add(key).saturating_add(record)) <= self.options.most()
    }

    /// Whether entries of before the start are still being found.
    pub fn is_loading(&self) -> bool {
        self.loading.load(Ordering::SeqCst)
    }

    /// Whether the disk has a key, as far as the index knows.
    pub fn has(&self, key: &[u8]) -> bool {
        self.index.get(key_hash(key)).is_some()
    }

    /// Whether a record of this key was announced, and is neither found yet nor given up.
    pub fn awaits(&self, key: &[u8]) -> bool {
        self.index.awaits(key_hash(key))
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
                self.lose(reading);
                Err(error.into())
            }
            Ok(_) => {
                self.lose(reading);
                self.counters.damaged.fetch_add(1, Ordering::Relaxed);
                Err(ReadError::Damaged)
            }
        }
    }

    pub(crate) fn segment(&self, number: u16) -> Option<Arc<Segment<F::File>>> {
        self.segments.read().get(usize::from(number)).cloned().flatten()
    }

    /// Takes an entry out of the index, if it is still at this place.
    fn drop_entry(&self, hash: u64, place: Place) -> bool {
        let there = self.index.remove_at(hash, place).is_some();
        if there {
            self.left(place.segment);
        }
        there
    }

    /// Forgets a record that cannot be read. A start does not find it either: from now on nobody
    /// tells the disk of a newer record of its key ([`Disk::forget`]).
    pub fn lose(&self, reading: &Reading<F>) {
        if self.drop_entry(reading.hash, reading.entry.place) {
            self.journal.add_key(reading.hash, true, || self.next_ticket());
        }
    }

    /// Whether a record that was found is still the one of its key: neither forgotten nor purged,
    /// nor moved or evicted.
    pub fn still(&self, reading: &Reading<F>) -> bool {
        let entry = self.index.get(reading.hash);
        entry.is_some_and(|entry| entry.place == reading.entry.place)
    }

    /// Counts an entry that is no longer in this segment.
    pub(crate) fn left(&self, segment: u16) {
        if let Some(segment) = self.segment(segment) {
            segment.live.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Forgets a record that was found and that a purge means.
    pub fn discard(&self, reading: &Reading<F>) {
        self.drop_entry(reading.hash, reading.entry.place);
    }

    /// All bytes written to the device since the disk was opened.
    pub fn written(&self) -> u64 {
        self.counters.written.load(Ordering::Relaxed)
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
