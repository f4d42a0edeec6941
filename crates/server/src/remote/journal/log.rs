//! The latest purges of a fleet: a set that only grows, and is cut at its old end.
//!
//! Every entry has a name, (author, number): authors are processes, by a random number; each counts
//! its purges from 1. Two logs become one by union, so order, repetition and route of exchanges do
//! not matter. For each author the number of the last cut entry is kept: a reader that has not seen
//! all up to it has missed a purge.

use std::collections::BTreeMap;

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

use super::entry::{Entry, Reader};
use crate::clock::Ms;

const MAGIC: [u8; 8] = *b"LRDRLOG1";
const SEED: u64 = 0x4C52_4452_0002;
/// Authors whose cut entries are remembered; the one that was silent longest is forgotten.
const AUTHORS: usize = 256;

/// A purge's name: its author, and its number.
pub(crate) type Name = (u64, u64);

/// The last entry of an author that is no longer in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) number: u64,
    pub(crate) at: Ms,
}

/// A log, or a part of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Log {
    pub(super) entries: BTreeMap<Name, Entry>,
    pub(super) cut: BTreeMap<u64, Cut>,
    bytes: usize,
}

impl Log {
    pub(super) fn insert(&mut self, name: Name, entry: Entry) {
        if self.cut.get(&name.0).is_some_and(|cut| name.1 <= cut.number) {
            return;
        }
        self.bytes += 16 + entry.len();
        if let Some(before) = self.entries.insert(name, entry) {
            self.bytes -= 16 + before.len();
        }
    }

    /// Adds the entries of another log.
    pub(super) fn merge(&mut self, other: Log) {
        for (author, cut) in other.cut {
            let known = self.cut.entry(author).or_default();
            if known.number < cut.number {
                *known = cut;
                self.drop_up_to(author, cut.number);
            }
        }
        for (name, entry) in other.entries {
            self.insert(name, entry);
        }
    }

    /// Cuts entries older than `oldest`, and the oldest ones beyond `most` bytes.
    pub(super) fn trim(&mut self, most: usize, oldest: Ms) {
        let first = |log: &Log| {
            log.entries
                .iter()
                .min_by_key(|(name, entry)| (entry.at, **name))
                .map(|(n, e)| (*n, e.at))
        };
        while let Some(((author, number), at)) = first(self) {
            if at >= oldest && self.bytes <= most {
                break;
            }
            // All of an author's up to there: numbers that are missing in between would never be
            // asked for again.
            self.drop_up_to(author, number);
            self.cut.insert(author, Cut { number, at });
        }
        while self.cut.len() > AUTHORS {
            let silent = self
                .cut
                .iter()
                .min_by_key(|(author, cut)| (cut.at, **author))
                .map(|(author, _)| *author);
            silent.and_then(|author| self.cut.remove(&author));
        }
    }

    fn drop_up_to(&mut self, author: u64, number: u64) {
        let gone: Vec<Name> =
            self.entries.range((author, 0)..=(author, number)).map(|(name, _)| *name).collect();
        for name in gone {
            if let Some(entry) = self.entries.remove(&name) {
                self.bytes -= 16 + entry.len();
            }
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&(self.cut.len() as u32).to_le_bytes());
        for (author, cut) in &self.cut {
            [*author, cut.number, cut.at]
                .iter()
                .for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        }
        out.extend_from_slice(&(self.entries.len() as u32).to_le_bytes());
        for ((author, number), entry) in &self.entries {
            [author, number].iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
            entry.encode(&mut out);
        }
        let sum = sum(&out[16..]);
        out[8..16].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// None: it is no log, or damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Log> {
        let mut from = Reader(bytes.strip_prefix(&MAGIC)?);
        let told = from.u64()?;
        if told != sum(from.0) {
            return None;
        }
        let mut log = Log::default();
        for _ in 0..from.u32()? {
            log.cut.insert(from.u64()?, Cut { number: from.u64()?, at: from.u64()? });
        }
        for _ in 0..from.u32()? {
            let name = (from.u64()?, from.u64()?);
            log.insert(name, Entry::decode(&mut from)?);
        }
        from.0.is_empty().then_some(log)
    }
}

/// The checksum of a log.
pub(super) fn sum(bytes: &[u8]) -> u64 {
    rapidhash_v3_seeded(bytes, &RapidSecrets::seed_cpp(SEED))
}
