//! The journal of one queue: a directory of segments, of which the last is appended to.
//!
//! Records go to a buffer first, and to the file with [`Journal::write`]: one call of the system
//! for all commands that were received together. Whether they are on the device then is the
//! caller's business ([`Work`]).

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::format::{Decoded, FRAME, HEAD, LONGEST, Record, decode, encode};
use crate::work::Work;

/// Bytes read at once where records are wanted in their order.
pub(crate) const CHUNK: usize = 64 << 10;
/// Bytes of the buffer that a queue without commands keeps: there may be a thousand queues.
const BUFFER: usize = 4 << 10;
/// After a write has failed: bytes of removals that are kept for the next attempt. New items are
/// refused then; those that come back are not counted.
const KEPT: u64 = 16 << 20;

/// A place in a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) segment: u64,
    pub(crate) offset: u64,
}

/// A segment file.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    /// Bytes of valid records.
    pub(crate) len: u64,
    /// Items in it that the queue has a reference to.
    pub(crate) held: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Journal {
    directory: PathBuf,
    /// The last one is appended to; there is always one.
    pub(crate) segments: VecDeque<Segment>,
    /// None: it was not used for a while, and is opened when it is.
    file: Option<Arc<File>>,
    /// Records behind the written bytes of the last segment.
    buffer: Vec<u8>,
    /// Bytes of the last segment in its file.
    written: u64,
    /// Length from which on the next segment is begun.
    pub(crate) limit: u64,
    /// The last segment has bytes that may not be on the device.
    dirty: bool,
    pending: Work,
    /// The last write failed.
    failed: bool,
    /// Bytes of the buffer that are items which came back.
    excused: u64,
    /// The segment that was read last.
    reading: Option<(u64, Arc<File>)>,
    /// A file was used since the last [`Journal::rest`].
    used: bool,
}

/// The path of a segment.
pub(crate) fn path_of(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:016x}.log"))
}

impl Journal {
    /// Begins a segment behind `before`, the older ones in their order. Its number is `least` at
    /// the least.
    pub(crate) fn begin(
        directory: PathBuf,
        before: Vec<Segment>,
        least: u64,
        next_id: u64,
        limit: u64,
    ) -> io::Result<Journal> {
        let number = before.last().map_or(least, |last| least.max(last.number + 1));
        let file = match create(&directory, number) {
            Err(error) if is_full(&error) => None,
            created => Some(created?),
        };
        let mut pending = Work::default();
        pending.directories.push(directory.clone());
        let mut journal = Journal {
            directory,
            segments: before.into(),
            file,
            buffer: Vec::new(),
            written: 0,
            limit,
            dirty: false,
            pending,
            failed: false,
            excused: 0,
            reading: None,
            used: false,
        };
        journal.head(number, next_id);
        match journal.write() {
            // Its items can be read. The head is written with the next records.
            Err(error) if is_full(&error) => journal.file = None,
            written => written?,
        }
        Ok(journal)
    }

    fn head(&mut self, number: u64, next_id: u64) {
        self.segments.push_back(Segment { number, len: 0, held: 0 });
        self.written = 0;
        self.append_here(&Record::Head { number, next_id });
    }

    fn append_here(&mut self, record: &Record<'_>) -> Place {
        let encoded = encode(record, &mut self.buffer) as u64;
        let Some(last) = self.segments.back_mut() else { return Place::default() };
        let place = Place { segment: last.number, offset: last.len };
        last.len += encoded;
        place
    }

    /// Appends a record; it is in the file after the next [`Journal::write`].
    pub(crate) fn append(&mut self, record: &Record<'_>, next_id: u64) -> Place {
        if self.last().len >= self.limit {
            self.roll(next_id);
        }
        self.append_here(record)
    }

    fn last(&self) -> &Segment {
        // There is always one: `begin` adds it, and the last is never removed.
        &self.segments[self.segments.len() - 1]
    }

    /// Begins the next segment. Where that fails the old one goes on.
    pub(crate) fn roll(&mut self, next_id: u64) {
        let number = self.last().number + 1;
        if self.write().is_err() {
            return;
        }
        if let Ok(file) = create(&self.directory, number) {
            match self.file.replace(file) {
                Some(old) => self.pending.files.push(old),
                None => self.pending.closed.push(path_of(&self.directory, number - 1)),
            }
            self.pending.directories.push(self.directory.clone());
            self.head(number, next_id);
        }
    }

    /// Writes the buffer to the file. After an error the same bytes are written with the next call.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let file = self.last_file();
        let written = file.and_then(|file| file.write_all_at(&self.buffer, self.written));
        self.failed = written.is_err();
        written?;
        self.dirty = true;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER);
        self.excused = 0;
        Ok(())
    }

    /// Whether items are refused: the last write failed. Tries again.
    pub(crate) fn is_failing(&mut self) -> bool {
        self.failed && self.write().is_err()
    }

    /// Whether removals are refused, too.
    pub(crate) fn is_full(&self) -> bool {
        self.failed && self.buffer.len() as u64 > KEPT + self.excused
    }

    /// So many bytes of the last record are an item that came back, which must stay readable.
    pub(crate) fn excuse(&mut self, bytes: u64) {
        self.excused += bytes;
    }

    /// Whether a place is in a segment that is not about to be removed.
    pub(crate) fn has(&self, place: Place) -> bool {
        self.segments.binary_search_by_key(&place.segment, |segment| segment.number).is_ok()
    }

    /// Whether the last write failed. Does not try again.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// The step that brings these bytes to the device. `sync`: also of the last segment. Files are
    /// removed only when all records are written: the buffer may have the copy of an item that was
    /// in one of them, or the removal of an item.
    pub(crate) fn take_work(&mut self, sync: bool, into: &mut Work) {
        let removes = self.buffer.is_empty() && !self.pending.remove.is_empty();
        // A segment is removed when others say why it is not needed.
        if self.dirty && (sync || removes) {
            self.dirty = false;
            match &self.file {
                Some(file) => into.files.push(file.clone()),
                None => into.closed.push(path_of(&self.directory, self.last().number)),
            }
        }
        into.files.append(&mut self.pending.files);
        into.closed.append(&mut self.pending.closed);
        into.directories.append(&mut self.pending.directories);
        if removes {
            into.remove.append(&mut self.pending.remove);
        }
    }

    /// Whether [`Journal::take_work`] has something to do, now or after the next write.
    pub(crate) fn has_work(&self) -> bool {
        self.dirty || !self.buffer.is_empty() || !self.pending.is_empty()
    }

    /// Has what was written on the device, now.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.write()?;
        self.last_file()?.sync_data()
    }

    /// Closes files that were not used since the last call: there may be more queues than the
    /// process may have descriptors.
    pub(crate) fn rest(&mut self) {
        if !std::mem::take(&mut self.used) {
            self.reading = None;
            if self.buffer.is_empty() {
                self.file = None;
            }
        }
    }

    /// Changes the number of items that the queue has a reference to in the segment of `place`.
    pub(crate) fn hold(&mut self, place: Place, more: bool) {
        let Some(first) = self.segments.front().map(|first| first.number) else { return };
        let at = place.segment.wrapping_sub(first) as usize;
        // Numbers follow each other, unless a segment was missing at the start.
        let at = match self.segments.get(at) {
            Some(segment) if segment.number == place.segment => at,
            _ => match self.segments.binary_search_by_key(&place.segment, |s| s.number) {
                Ok(at) => at,
                Err(_) => return,
            },
        };
        let held = &mut self.segments[at].held;
        *held = if more { *held + 1 } else { held.saturating_sub(1) };
    }

    /// Nothing in the oldest segment is needed any more. Returns whether something was.
    pub(crate) fn give_up_oldest(&mut self) -> bool {
        self.segments.front_mut().is_some_and(|oldest| std::mem::take(&mut oldest.held) > 0)
    }

    /// Removes the oldest segments without items that are needed. `reader`: the segment from which
    /// on items were not read yet.
    pub(crate) fn trim(&mut self, reader: u64) {
        // While nothing can be written, items that come back stay in their segments.
        if self.failed {
            return;
        }
        while self.segments.len() > 1
            && let Some(first) = self.segments.front()
            && first.held == 0
            && first.number < reader
        {
            self.pending.remove.push(path_of(&self.directory, first.number));
            if self.reading.as_ref().is_some_and(|(number, _)| *number == first.number) {
                self.reading = None;
            }
            self.segments.pop_front();
        }
    }

    /// Bytes of all segments.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.len).sum()
    }

    /// Where the next record goes.
    pub(crate) fn end(&self) -> Place {
        let last = self.last();
        Place { segment: last.number, offset: last.len }
    }

    /// The place of the first record that is not before `place`; `None`: the end.
    pub(crate) fn advance(&self, place: Place) -> Option<Place> {
        let at = self.segments.partition_point(|segment| segment.number < place.segment);
        let segment = self.segments.get(at)?;
        if segment.number != place.segment {
            return Some(Place { segment: segment.number, offset: HEAD.min(segment.len) })
                .filter(|start| start.offset < segment.len)
                .or_else(|| self.advance(Place { segment: segment.number + 1, offset: 0 }));
        }
        if place.offset < segment.len {
            return Some(place);
        }
        self.advance(Place { segment: place.segment + 1, offset: 0 })
    }

    /// Reads up to `want` bytes at a place, fewer at the end of its segment.
    pub(crate) fn read(&mut self, place: Place, want: usize) -> io::Result<Vec<u8>> {
        let Some(len) = self.segments.iter().find(|s| s.number == place.segment).map(|s| s.len)
        else {
            return Ok(Vec::new());
        };
        let mut bytes = vec![0; want.min(len.saturating_sub(place.offset) as usize)];
        let mut in_file = bytes.len();
        if place.segment == self.last().number {
            in_file = in_file.min(self.written.saturating_sub(place.offset) as usize);
            // The rest is not written yet, and perhaps cannot be.
            let from = (place.offset + in_file as u64).saturating_sub(self.written) as usize;
            let rest = bytes.len() - in_file;
            let Some(unwritten) = self.buffer.get(from..from + rest) else {
                return Ok(Vec::new());
            };
            bytes[in_file..].copy_from_slice(unwritten);
        }
        if in_file > 0 {
            self.file_of(place.segment)?.read_exact_at(&mut bytes[..in_file], place.offset)?;
        }
        Ok(bytes)
    }

    /// The same from one record on, all of it: at least `want` bytes, if there are so many.
    pub(crate) fn read_record(&mut self, place: Place, want: usize) -> io::Result<Vec<u8>> {
        let bytes = self.read(place, want.max(FRAME))?;
        match decode(&bytes) {
            Decoded::Partial(whole) if whole > bytes.len() && whole <= FRAME + LONGEST => {
                self.read(place, whole)
            }
            _ => Ok(bytes),
        }
    }

    fn last_file(&mut self) -> io::Result<Arc<File>> {
        self.used = true;
        if let Some(file) = &self.file {
            return Ok(file.clone());
        }
        let path = path_of(&self.directory, self.last().number);
        let mut options = OpenOptions::new();
        // Perhaps it could not be made before.
        options.read(true).write(true).create(self.written == 0);
        let file = Arc::new(options.open(path)?);
        self.file = Some(file.clone());
        Ok(file)
    }

    fn file_of(&mut self, number: u64) -> io::Result<Arc<File>> {
        if number == self.last().number {
            return self.last_file();
        }
        self.used = true;
        match &self.reading {
            Some((open, file)) if *open == number => Ok(file.clone()),
            _ => {
                let file = Arc::new(File::open(path_of(&self.directory, number))?);
                self.reading = Some((number, file.clone()));
                Ok(file)
            }
        }
    }
}

/// Whether there may be room later.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn create(directory: &Path, number: u64) -> io::Result<Arc<File>> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    options.open(path_of(directory, number)).map(Arc::new)
}

/// The numbers of the segments in a directory, ascending.
pub(crate) fn numbers(directory: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".log"));
        let number = number.filter(|digits| digits.len() == 16);
        numbers.extend(number.and_then(|digits| u64::from_str_radix(digits, 16).ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// The valid records of a segment file, in their order.
pub(crate) struct Scan {
    path: PathBuf,
    file: File,
    len: u64,
    /// Bytes from `at` on that were read.
    bytes: Vec<u8>,
    start: usize,
    pub(crate) at: u64,
}

/// Bytes read at once at the start.
const SCAN: usize = 1 << 20;

impl Scan {
    pub(crate) fn open(directory: &Path, number: u64) -> io::Result<Scan> {
        let path = path_of(directory, number);
        let file = File::open(&path)?;
        let len = file.metadata()?.len();
        Ok(Scan { path, file, len, bytes: Vec::new(), start: 0, at: 0 })
    }

    /// Calls `each` with every record and its offset, up to the end or to the first bytes that are
    /// no record. Returns whether that is the end of the file.
    pub(crate) fn run(&mut self, mut each: impl FnMut(Record<'_>, u64)) -> io::Result<bool> {
        loop {
            let wanted = match decode(&self.bytes[self.start..]) {
                Decoded::Record(record, used) => {
                    each(record, self.at);
                    self.start += used;
                    self.at += used as u64;
                    continue;
                }
                Decoded::Bad => return Ok(false),
                Decoded::Partial(wanted) => wanted as u64,
            };
            let left = self.len - self.at;
            if left < wanted {
                return Ok(left == 0);
            }
            let more = wanted.max(SCAN as u64).min(left) as usize;
            self.bytes.resize(more, 0);
            self.start = 0;
            self.file.read_exact_at(&mut self.bytes, self.at)?;
        }
    }

    /// Cuts off what follows the valid records, or removes a file without one.
    pub(crate) fn cut(self) -> io::Result<()> {
        if self.at < HEAD {
            return fs::remove_file(&self.path);
        }
        let file = OpenOptions::new().write(true).open(&self.path)?;
        file.set_len(self.at)?;
        file.sync_all()
    }
}
