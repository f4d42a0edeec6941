//! The one writer: records go to a buffer, and from there to the end of the open segment. A full
//! segment is sealed, with its summary, and another one opened.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::disk::{Disk, MOST_SEGMENTS, Segment, file_name};
use crate::files::{Files, Storage};
use crate::filter::Filter;
use crate::format::{FrameHead, Home, LISTED, Listed, UNIT, key_hash, seal, seconds, whole};
use crate::index::{Entered, Entry, Place};
use crate::types::{Ms, PutError, is_full};

/// Bytes of the buffer at which it is written.
const BUFFER: usize = 1 << 20;
/// How long records wait in the buffer, at most.
const WAIT: Ms = 250;
/// How long written bytes are not durable, at most.
const SYNC: Ms = 1_000;
/// Bytes of a typical record, until the first segment is full.
const TYPICAL: u64 = 4 << 10;
/// Seconds of the limit on bytes that may be used at once.
const BURST: u64 = 2;

/// Where a record that is written again was.
#[derive(Clone, Copy)]
pub(crate) enum Origin {
    /// In memory.
    Memory,
    /// In another segment.
    Moved(Place),
}

/// A record in the buffer, or written and not entered in the index yet.
struct Unentered {
    hash: u64,
    ticket: u64,
    entry: Entry,
    origin: Origin,
}

/// The segment that is being written.
pub(crate) struct Open<S> {
    pub(crate) segment: Arc<Segment<S>>,
    buffer: Vec<u8>,
    /// Where the buffer begins.
    at: u64,
    entries: Vec<Listed>,
    unentered: Vec<Unentered>,
    /// When the oldest record in the buffer came.
    since: Ms,
    /// When the oldest byte that is not durable was written.
    unsynced: Option<Ms>,
}

impl<S> Open<S> {
    fn end(&self) -> u64 {
        self.at + self.buffer.len() as u64
    }
}

/// A record to be written.
pub(crate) struct New<'r> {
    pub(crate) key: &'r [u8],
    pub(crate) pieces: &'r [&'r [u8]],
    pub(crate) ticket: u64,
    pub(crate) expires: Option<Ms>,
    pub(crate) origin: Origin,
}

/// Writes to a disk. There is one for each.
pub struct Writer<F: Files> {
    pub(crate) disk: Arc<Disk<F>>,
    pub(crate) open: Option<Open<F::File>>,
    /// Number of the next segment.
    pub(crate) serial: u64,
    /// Bytes that may be written now, and when that was so. Below 0 after a long record, and after
    /// records that were written again.
    allowance: (i64, Ms),
    /// The limit on bytes per second; 0: none.
    limit: u64,
    /// Records of the latest sealed segment.
    records: usize,
}

impl<F: Files> Writer<F> {
    /// The writer of a disk; `serial`: greater than the numbers of all segments there.
    pub(crate) fn new(disk: Arc<Disk<F>>, serial: u64) -> Self {
        let records = (disk.options.segment() / TYPICAL) as usize;
        let limit = disk.options.write_limit;
        Self { disk, open: None, serial, allowance: (0, 0), limit, records }
    }

    /// The number of its next segment: at first, all with a smaller one are to be loaded
    /// ([`Disk::load`]).
    pub fn first(&self) -> u64 {
        self.serial
    }

    /// Writes without a limit on bytes per second from now on.
    pub fn unlimited(&mut self) {
        self.limit = 0;
    }

    /// Writes a record that was announced ([`Disk::register`]), given in pieces. It is found once
    /// it is out of the buffer, which is after [`Writer::tick`] at the latest.
    ///
    /// # Errors
    /// See [`PutError`]; the announcement has ended. After [`PutError::Io`], records that were in
    /// the buffer are lost, and another call tries with a new segment.
    pub fn put(
        &mut self,
        key: &[u8],
        pieces: &[&[u8]],
        ticket: u64,
        expires: Option<Ms>,
        now: Ms,
    ) -> Result<(), PutError> {
        let hash = key_hash(key);
        if !self.disk.index.is_pending(hash, ticket) {
            return Err(PutError::Gone);
        }
        let new = New { key, pieces, ticket, expires, origin: Origin::Memory };
        let done = self.admit(&new, now).and_then(|()| self.append(&new, now));
        if done.is_err() {
            self.disk.index.withdraw(hash, ticket);
        }
        done
    }

    fn admit(&mut self, new: &New<'_>, now: Ms) -> Result<(), PutError> {
        let bytes = new.frame();
        if bytes > self.disk.options.most() {
            return Err(PutError::TooLarge);
        }
        if self.limit == 0 {
            return Ok(());
        }
        let (left, at) = self.allowance;
        let most = self.limit.saturating_mul(BURST).min(i64::MAX as u64) as i64;
        let passed = u128::from(now.saturating_sub(at));
        let gained = i64::try_from(passed * u128::from(self.limit) / 1000).unwrap_or(i64::MAX);
        let left = if at == 0 { most } else { left.saturating_add(gained).min(most) };
        self.allowance = (left, now.max(1));
        // A record that is longer than all that may be used at once has its turn, too.
        if left < (bytes as i64).min(most) {
            return Err(PutError::Limited);
        }
        self.allowance.0 -= bytes as i64;
        Ok(())
    }

    /// Puts a record into the buffer.
    pub(crate) fn append(&mut self, new: &New<'_>, now: Ms) -> Result<(), PutError> {
        let bytes = new.frame();
        if self.open.as_ref().is_some_and(|open| !self.has_room(open, bytes)) {
            self.seal()?;
        }
        if self.open.is_none() {
            self.open_segment(now)?;
        }
        let Some(open) = &mut self.open else { return Err(PutError::Busy) };
        let (home, at) = (open.segment.home, open.end());
        let (key, record) = (new.key.len() as u32, new.record() as u32);
        let hash = key_hash(new.key);
        let head =
            FrameHead { ticket: new.ticket, expires: new.expires, hash, key, record, sum: 0 };
        let content = std::iter::once(new.key).chain(new.pieces.iter().copied());
        let head = head.for_content(home, at, content);
        if open.buffer.is_empty() {
            open.since = now;
        }
        open.buffer.extend_from_slice(&head.encode(home, at));
        open.buffer.extend_from_slice(new.key);
        new.pieces.iter().for_each(|piece| open.buffer.extend_from_slice(piece));
        open.buffer.resize((at + bytes - open.at) as usize, 0);
        open.entries.push(Listed::of(&head, at));
        let units = (bytes / UNIT as u64) as u32;
        let place = Place { segment: open.segment.number, at: (at / UNIT as u64) as u32 };
        let entry = Entry { place, units, expires: seconds(new.expires), asked: 0 };
        open.segment.note(hash, new.ticket, entry.expires);
        open.unentered.push(Unentered { hash, ticket: new.ticket, entry, origin: new.origin });
        let count = match new.origin {
            Origin::Memory => &self.disk.counters.accepted,
            Origin::Moved(_) => {
                self.allowance.0 = self.allowance.0.saturating_sub(bytes as i64);
                &self.disk.counters.rewritten
            }
        };
        count.fetch_add(new.record(), Ordering::Relaxed);
        if open.buffer.len() >= BUFFER { Ok(self.flush(now)?) } else { Ok(()) }
    }

    /// Whether a frame and the summary after it have room in the open segment.
    pub(crate) fn has_room(&self, open: &Open<F::File>, bytes: u64) -> bool {
        let summary = whole(((open.entries.len() + 1) * LISTED) as u64) + UNIT as u64;
        open.end() + bytes + summary <= self.disk.options.segment()
    }

    /// Writes the buffer, and enters its records in the index.
    ///
    /// # Errors
    /// The system's. The records in the buffer are lost.
    pub fn flush(&mut self, now: Ms) -> io::Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        if open.buffer.is_empty() {
            return Ok(());
        }
        if let Err(error) = open.segment.file.write_full(&open.buffer, open.at) {
            self.give_up(&error);
            return Err(error);
        }
        self.disk.counters.written.fetch_add(open.buffer.len() as u64, Ordering::Relaxed);
        open.at = open.end();
        open.buffer.clear();
        open.unsynced = open.unsynced.or(Some(now));
        for written in open.unentered.drain(..) {
            enter(&self.disk, &open.segment, &written);
        }
        Ok(())
    }

    /// Gives up the open segment after an error; what was entered from it stays. The records in the
    /// buffer may be in the file all the same: it is cut, and they are purged, since nobody tells
    /// the disk of newer ones of their keys. The room that the segment does not use is given back.
    fn give_up(&mut self, error: &io::Error) {
        let Some(open) = self.open.take() else { return };
        let disk = &self.disk;
        for lost in &open.unentered {
            disk.index.withdraw(lost.hash, lost.ticket);
            disk.journal.add_key(lost.hash, true, || disk.next_ticket());
        }
        disk.cramped.fetch_or(is_full(error), Ordering::SeqCst);
        if open.segment.file.set_length(open.at).is_ok() {
            open.segment.length.store(open.at, Ordering::Relaxed);
        }
        open.segment.closed.store(true, Ordering::Relaxed);
    }

    /// To be called some times a second: writes what has waited for long, and makes it durable.
    ///
    /// # Errors
    /// As [`Writer::flush`].
    pub fn tick(&mut self, now: Ms) -> io::Result<()> {
        self.relieve(now)?;
        let Some(open) = &self.open else { return Ok(()) };
        if !open.buffer.is_empty() && now >= open.since.saturating_add(WAIT) {
            self.flush(now)?;
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        if open.unsynced.is_some_and(|since| now >= since.saturating_add(SYNC)) {
            open.unsynced = None;
            if let Err(error) = open.segment.file.sync() {
                self.give_up(&error);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Writes what is left, and seals the open segment.
    ///
    /// # Errors
    /// As [`Writer::flush`].
    pub fn close(&mut self, now: Ms) -> io::Result<()> {
        self.flush(now)?;
        self.seal()
    }

    /// Ends the open segment with its summary.
    fn seal(&mut self) -> io::Result<()> {
        self.flush(0)?;
        let Some(open) = &self.open else { return Ok(()) };
        let (segment, at) = (open.segment.clone(), open.at);
        let end = seal(segment.home, at, &open.entries);
        let length = at + end.len() as u64;
        let sealed = segment
            .file
            .write_full(&end, at)
            .and_then(|()| segment.file.set_length(length))
            .and_then(|()| segment.file.sync());
        let filter = Filter::new(open.entries.len());
        open.entries.iter().for_each(|entry| filter.add(entry.hash));
        *segment.filter.write() = filter;
        self.records = open.entries.len() + open.entries.len() / 8 + 8;
        if let Err(error) = sealed {
            // Without a summary, its frames are scanned at the next start.
            self.give_up(&error);
            return Err(error);
        }
        segment.closed.store(true, Ordering::Relaxed);
        self.open = None;
        self.disk.counters.written.fetch_add(end.len() as u64, Ordering::Relaxed);
        segment.length.store(length, Ordering::Relaxed);
        Ok(())
    }

    /// Makes the file of a segment, with all its room; none is left where that fails.
    fn create(&self, name: &str, home: Home) -> io::Result<F::File> {
        let files = &self.disk.files;
        let file = files.create(name)?;
        let begun = file
            .allocate(self.disk.options.segment())
            .and_then(|()| file.write_full(&home.head(), 0))
            .and_then(|()| files.sync());
        if begun.is_err() {
            let _ = files.remove(name);
        }
        begun.map(|()| file)
    }

    /// Opens a segment, and makes room for the next one.
    fn open_segment(&mut self, now: Ms) -> Result<(), PutError> {
        self.make_room(now, false)?;
        let serial = self.serial;
        self.serial += 1;
        let home = Home { disk: self.disk.superblock.random, serial };
        let size = self.disk.options.segment();
        let name = file_name(serial);
        let file = loop {
            match self.create(&name, home) {
                Ok(file) => break file,
                // Others took room of the file system: older segments make place for this one.
                Err(error) if is_full(&error) => {
                    self.make_way(error, now)?;
                }
                Err(error) => return Err(error.into()),
            }
        };
        let Some(segment) = self.disk.add_segment(home, file, size, self.records) else {
            let _ = self.disk.files.remove(&name);
            return Err(PutError::Busy);
        };
        self.disk.counters.written.fetch_add(UNIT as u64, Ordering::Relaxed);
        self.open = Some(Open {
            segment,
            buffer: Vec::with_capacity(BUFFER + BUFFER / 4),
            at: UNIT as u64,
            entries: Vec::new(),
            unentered: Vec::new(),
            since: 0,
            unsynced: None,
        });
        self.make_room(now, true)
    }
}

impl New<'_> {
    fn record(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len() as u64).sum()
    }

    fn frame(&self) -> u64 {
        whole(UNIT as u64 + self.key.len() as u64 + self.record())
    }
}

/// Enters a written record, unless it was forgotten meanwhile.
fn enter<F: Files>(disk: &Disk<F>, segment: &Segment<F::File>, written: &Unentered) {
    // Counted first: an entry that is found may be dropped at once.
    segment.live.fetch_add(1, Ordering::Relaxed);
    let left = match written.origin {
        Origin::Memory => match disk.index.enter(written.hash, written.ticket, &written.entry) {
            Entered::Yes(before) => before.map(|before| before.place.segment),
            Entered::Unwanted => Some(segment.number),
        },
        Origin::Moved(from) => {
            let moved = disk.index.moved(written.hash, from, &written.entry);
            Some(if moved { from.segment } else { segment.number })
        }
    };
    if let Some(left) = left {
        disk.left(left);
    }
}

impl<F: Files> Disk<F> {
    /// Adds a segment to the table; `None`: the table is full.
    pub(crate) fn add_segment(
        &self,
        home: Home,
        file: F::File,
        length: u64,
        records: usize,
    ) -> Option<Arc<Segment<F::File>>> {
        let mut segments = self.segments.write();
        let free = segments.iter().position(Option::is_none).unwrap_or(segments.len());
        if free >= MOST_SEGMENTS {
            return None;
        }
        let segment = Arc::new(Segment::new(free as u16, home, file, length, records));
        if free == segments.len() {
            segments.push(None);
        }
        segments[free] = Some(segment.clone());
        Some(segment)
    }
}
