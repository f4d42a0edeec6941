//! The content of a file, read piece by piece.

use std::{
    fs::File,
    io::{self, IoSliceMut},
    os::unix::fs::FileExt,
    sync::Arc,
};

use bytes::Bytes;
use larder_proto::Secs;
use rustix::{
    fs::{Stat, fstat},
    io::{Errno, ReadWriteFlags, preadv2},
};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::origin::OriginError;

/// Bytes of one piece.
const PIECE_BYTES: u64 = 128 << 10;

/// A file, or a part of it, that is being read.
#[derive(Debug)]
pub(in crate::origin) struct Content {
    file: Arc<File>,
    /// Identity of the content when the answer began.
    version: Version,
    /// The next byte, and the one behind the last.
    at: u64,
    end: u64,
    /// A piece that comes from the disk.
    reading: Option<JoinHandle<io::Result<Bytes>>>,
}

/// Identity of a file's content: a change of the file changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) inode: u64,
    pub(super) size: u64,
    /// Time of the last change, in seconds since the epoch and nanoseconds.
    pub(super) modified: (i64, u64),
}

impl Version {
    pub(super) fn of(stat: &Stat) -> Version {
        Version {
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            modified: (stat.st_mtime, stat.st_mtime_nsec),
        }
    }

    /// Strong: a change of the file changes it.
    pub(super) fn etag(&self) -> String {
        let (seconds, nanoseconds) = self.modified;
        format!("\"{:x}-{:x}-{seconds:x}.{nanoseconds:x}\"", self.inode, self.size)
    }

    /// Never later than now (RFC 9110 section 8.8.2.1).
    pub(super) fn last_modified(&self, now: Secs) -> Option<Secs> {
        u64::try_from(self.modified.0).ok().filter(|modified| *modified <= now)
    }
}

impl Content {
    /// The bytes from `at` to `end`.
    pub(super) fn new(file: File, version: Version, at: u64, end: u64) -> Content {
        Content { file: Arc::new(file), version, at, end, reading: None }
    }

    /// The next piece, never empty. `Ok(None)`: all of it was read, and the file has not changed
    /// meanwhile. Cancel safe.
    ///
    /// A piece that the system has in memory is read at once; for others a thread waits.
    pub(in crate::origin) async fn chunk(&mut self) -> Result<Option<Bytes>, OriginError> {
        if self.at >= self.end {
            return match fstat(&self.file) {
                Ok(stat) if Version::of(&stat) == self.version => Ok(None),
                _ => Err(OriginError::Truncated),
            };
        }
        let length = (self.end - self.at).min(PIECE_BYTES) as usize;
        if self.reading.is_none() {
            match self.read_now(length) {
                Ok(piece) => return self.take(piece),
                Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
                Err(error) => return Err(OriginError::Local(error.into())),
            }
        }
        let (file, at) = (&self.file, self.at);
        let reading = self.reading.get_or_insert_with(|| {
            let file = file.clone();
            spawn_blocking(move || {
                let mut piece = vec![0; length];
                let read = file.read_at(&mut piece, at)?;
                piece.truncate(read);
                Ok(Bytes::from(piece))
            })
        });
        let read = reading.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        self.reading = None;
        self.take(read.map_err(OriginError::Local)?)
    }

    fn read_now(&self, length: usize) -> Result<Bytes, Errno> {
        let mut piece = vec![0; length];
        let mut into = [IoSliceMut::new(&mut piece)];
        let read = preadv2(&self.file, &mut into, self.at, ReadWriteFlags::NOWAIT)?;
        piece.truncate(read);
        Ok(Bytes::from(piece))
    }

    /// An empty piece before the end: the file has become shorter.
    fn take(&mut self, piece: Bytes) -> Result<Option<Bytes>, OriginError> {
        if piece.is_empty() {
            return Err(OriginError::Truncated);
        }
        self.at += piece.len() as u64;
        Ok(Some(piece))
    }
}
