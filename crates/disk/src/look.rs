//! Looking at a disk without opening it: nothing is written, and another process may have it.

use std::io;

use crate::disk::{file_name, frame, serial_of};
use crate::files::{Files, Storage};
use crate::format::{FrameHead, Home, UNIT};
use crate::journal::{Journal, Purge};
use crate::purges::FoundPurges;
use crate::scan::{self, Entry, Scanned};
use crate::superblock::Superblock;
use crate::types::Record;

/// Longest key.
const MOST_KEY: u64 = 16 << 10;

/// A disk that is looked at.
pub struct Look<F: Files> {
    files: F,
    superblock: Superblock,
}

/// The start of a record.
pub struct Start {
    /// Its key.
    pub key: Vec<u8>,
    /// Bytes of the record.
    pub length: u64,
    /// The first of them.
    pub bytes: Vec<u8>,
}

/// A segment that is looked at.
pub struct LookedSegment<S> {
    /// Its number.
    pub serial: u64,
    /// Bytes of its file.
    pub bytes: u64,
    /// Its records; `None`: it is not of this disk.
    pub scanned: Option<Scanned>,
    home: Home,
    file: S,
}

impl<F: Files> Look<F> {
    /// Looks at the disk in these files; `None`: there is none, or it counts as empty.
    pub fn open(files: F) -> Option<Look<F>> {
        let superblock = Superblock::read(&files).ok().flatten()?;
        Some(Look { files, superblock })
    }

    /// How often the disk was opened, and the bytes of a segment.
    pub fn facts(&self) -> (u64, u64) {
        (self.superblock.starts, self.superblock.segment)
    }

    /// All purges in the journal; `None`: it is damaged, and the next start empties the disk.
    pub fn purges(&self) -> Option<Vec<Purge>> {
        Journal::look(&self.files, self.superblock.random)
    }

    /// Numbers of all segments, the oldest first.
    ///
    /// # Errors
    /// The system's.
    pub fn segments(&self) -> io::Result<Vec<u64>> {
        let mut found: Vec<u64> =
            self.files.list()?.iter().filter_map(|name| serial_of(name)).collect();
        found.sort_unstable();
        Ok(found)
    }

    /// A segment and its records.
    ///
    /// # Errors
    /// The system's; it may have been evicted meanwhile.
    pub fn segment(&self, serial: u64) -> io::Result<LookedSegment<F::File>> {
        let file = self.files.open(&file_name(serial))?;
        let (disk, bytes) = (self.superblock.random, file.length()?);
        let scanned = scan::scan(&file, disk, serial)?;
        Ok(LookedSegment { serial, bytes, scanned, home: Home { disk, serial }, file })
    }
}

impl<S: Storage> LookedSegment<S> {
    /// Key, length and first bytes of one of its records (up to `most`), whose content is not
    /// checked; `None`: not even its head is whole.
    ///
    /// # Errors
    /// The system's.
    pub fn start(&self, entry: &Entry, most: u64) -> io::Result<Option<Start>> {
        let length = entry.length.min(self.bytes).min(UNIT as u64 + MOST_KEY + most);
        let mut bytes = vec![0; length as usize];
        let read = self.file.read_full(&mut bytes, entry.at)?;
        bytes.truncate(read);
        let Some(head) = FrameHead::decode(self.home, entry.at, &bytes) else { return Ok(None) };
        let at = UNIT + head.key as usize;
        let (Some(key), Some(rest)) = (bytes.get(UNIT..at), bytes.get(at..)) else {
            return Ok(None);
        };
        let rest = &rest[..rest.len().min(head.record as usize)];
        let length = u64::from(head.record);
        Ok(Some(Start { key: key.to_vec(), length, bytes: rest.to_vec() }))
    }

    /// Reads one of its records, with all checks; `None`: it is damaged.
    ///
    /// # Errors
    /// The system's.
    pub fn read(&self, entry: &Entry) -> io::Result<Option<Record>> {
        frame(&self.file, self.home, entry.at, entry.length.min(self.bytes))
    }
}

/// The purges that the disk itself understands: of keys, and of everything.
pub struct Purged(FoundPurges);

impl Purged {
    /// Those among the purges of a disk ([`Look::purges`]).
    pub fn of(purges: Vec<Purge>) -> Purged {
        Purged(FoundPurges::of(purges).0)
    }

    /// Whether one of them means a record.
    pub fn mean(&self, entry: &Entry) -> bool {
        self.0.mean(entry.hash, entry.ticket)
    }
}

/// Removes everything of a disk from a directory that was taken.
///
/// # Errors
/// The system's.
pub fn empty<F: Files>(files: &F) -> io::Result<()> {
    Superblock::remove(files)?;
    crate::disk::clear(files)
}
