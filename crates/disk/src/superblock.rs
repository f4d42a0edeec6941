//! The superblock: the file that makes all others valid. It has the random number that every
//! checksum is bound to, so a disk without it, or with another one, is empty.

use std::io;

use crate::files::{Files, Storage, existing};
use crate::format::{UNIT, hash, put_u64, u64_at};

const NAME: &str = "superblock";
const NEW: &str = "superblock.new";
const MAGIC: [u8; 4] = *b"LRDD";
const VERSION: u8 = 1;
const SEED: u64 = 0x4C52_4444_0001;

/// The content of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// The disk's number; no other has the same.
    pub(crate) random: u64,
    /// How often the disk was opened.
    pub(crate) starts: u64,
    /// Bytes of a segment.
    pub(crate) segment: u64,
}

impl Superblock {
    fn encode(&self) -> [u8; UNIT] {
        let mut out = [0; UNIT];
        out[..4].copy_from_slice(&MAGIC);
        out[4] = VERSION;
        put_u64(&mut out, 8, self.random);
        put_u64(&mut out, 16, self.starts);
        put_u64(&mut out, 24, self.segment);
        let sum = hash(&out[..56], SEED);
        put_u64(&mut out, 56, sum);
        out
    }

    fn decode(bytes: &[u8]) -> Option<Superblock> {
        let bytes = bytes.get(..UNIT)?;
        let read = Superblock {
            random: u64_at(bytes, 8),
            starts: u64_at(bytes, 16),
            segment: u64_at(bytes, 24),
        };
        (read.encode()[..] == *bytes).then_some(read)
    }

    /// Reads it; `None`: there is no valid one.
    ///
    /// # Errors
    /// The system's: there may be one.
    pub(crate) fn read<F: Files>(files: &F) -> io::Result<Option<Superblock>> {
        let mut bytes = [0; UNIT];
        let Some(file) = existing(files.open(NAME))? else { return Ok(None) };
        let read = file.read_full(&mut bytes, 0)?;
        Ok((read == UNIT).then(|| Superblock::decode(&bytes)).flatten())
    }

    /// Writes it, durably, in place of the one before.
    pub(crate) fn write<F: Files>(&self, files: &F) -> io::Result<()> {
        let file = files.create(NEW)?;
        file.write_full(&self.encode(), 0)?;
        file.sync()?;
        files.rename(NEW, NAME)?;
        files.sync()
    }

    /// Removes it, durably: the disk is empty for whoever opens it next.
    pub(crate) fn remove<F: Files>(files: &F) -> io::Result<()> {
        match files.remove(NAME) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => files.sync(),
        }
    }
}
