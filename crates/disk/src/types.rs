//! Types of the interface.

use std::io;

/// Milliseconds on the caller's clock.
pub type Ms = u64;

/// How to open a disk.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes for everything.
    pub size: u64,
    /// Bytes written per second, at most, on average over a few seconds; 0: no limit.
    pub write_limit: u64,
    /// A number that no other disk has, for a disk that is made anew.
    pub random: u64,
}

/// Smallest disk, in bytes.
pub const LEAST: u64 = 16 << 20;
/// Largest disk, in bytes: half the segments that the index can tell apart.
pub const MOST: u64 = 2 << 40;
/// Longest segment, in bytes.
pub(crate) const LONGEST_SEGMENT: u64 = 64 << 20;

impl Options {
    /// Bytes of a segment: enough segments for eviction to choose, large enough for large pages.
    pub fn segment(&self) -> u64 {
        let part = (self.size / 128).max(1);
        (1 << part.ilog2()).clamp(1 << 20, LONGEST_SEGMENT)
    }

    /// Most segments: each is an open file. Small ones, of many starts, are evicted beyond that.
    pub fn files(&self) -> usize {
        ((self.size / self.segment() * 2) as usize + 64).min(crate::disk::MOST_SEGMENTS)
    }

    /// Longest record with its key, in bytes.
    pub fn most(&self) -> u64 {
        self.segment() - self.segment() / 16
    }
}

/// Whether an error says that the file system has no room, or the user has used up its quota.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Why a record was not taken.
#[derive(Debug)]
pub enum PutError {
    /// It is longer than [`Options::most`].
    TooLarge,
    /// The limit on bytes per second is reached.
    Limited,
    /// There is no room while the index is being filled.
    Busy,
    /// It was purged or replaced meanwhile.
    Gone,
    /// The device failed.
    Io(io::Error),
}

impl From<io::Error> for PutError {
    fn from(error: io::Error) -> Self {
        PutError::Io(error)
    }
}

/// Why a record could not be read.
#[derive(Debug)]
pub enum ReadError {
    /// The bytes there are not the record of this key: damaged, or of another key with the same
    /// hash. The entry is gone from the index.
    Damaged,
    /// The device failed. The entry is gone from the index, here and for a start: the place may be
    /// bad for good.
    Io(io::Error),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        ReadError::Io(error)
    }
}

/// A record that was read and is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The frame: its head, the key, the bytes.
    pub(crate) bytes: Vec<u8>,
    pub(crate) start: usize,
    /// The number of purges when it was taken from memory: purges with a greater number may mean
    /// it.
    pub ticket: u64,
    /// Time of its expiry; `None`: never.
    pub expires: Option<Ms>,
}

impl Record {
    /// The bytes as they were given to [`crate::Writer::put`].
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.bytes[crate::format::UNIT..self.start]
    }
}

/// Figures since the disk was opened, in bytes unless said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    /// Size of the disk.
    pub size: u64,
    /// Bytes in files.
    pub used: u64,
    /// Segments (number).
    pub segments: u64,
    /// Entries in the index (number).
    pub entries: u64,
    /// Memory of the index.
    pub index: u64,
    /// Records accepted from memory.
    pub accepted: u64,
    /// Records written again when their segment was evicted.
    pub rewritten: u64,
    /// All bytes written to the device.
    pub written: u64,
    /// Entries dropped to make room (number).
    pub evicted: u64,
    /// Records found damaged when they were read (number).
    pub damaged: u64,
    /// Purges written to the journal (number).
    pub purges: u64,
}
