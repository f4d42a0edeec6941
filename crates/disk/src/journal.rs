//! The journal of purges: a file that is appended to, and durable before a purge is answered.
//!
//! ```text
//! head (64) | record | record | ... | zeros to the end
//! record    magic 4 | version 1 | kind 1 | 0 (2) | number 8 | length 4 | 0 (4) | checksum 8 | content
//!           | zeros to a multiple of 64
//! ```
//! The file has its whole length from the start, so that a full device refuses no purge. Anything
//! but records followed by zeros is damage: then purges may be missing, and the disk is emptied. A
//! purge is needed as long as a record with a smaller ticket may be in a segment; a journal that is
//! full is written anew without the others.
//!
//! Purges of keys wait apart from the others, by the hash of the key: a key has one, the latest.
//! Those of keys that no segment has a record of are not written ([`Journal::flush`]); the others
//! share records, 16 bytes each.

use std::collections::HashMap;
use std::io;

use parking_lot::Mutex;

use crate::files::{Files, Storage, existing};
use crate::format::{UNIT, hash, put_u32, put_u64, u32_at, u64_at, whole};

const NAME: &str = "purges";
const NEW: &str = "purges.new";
const MAGIC: [u8; 4] = *b"LRDJ";
const RECORD: [u8; 4] = *b"LRDP";
const VERSION: u8 = 1;
const SEED: u64 = 0x4C52_444A_0001;
/// Bytes of a record before its content.
const HEAD: usize = 32;
/// Longest content, in bytes; longer ones become purges of everything.
const LONGEST: usize = 64 << 10;
/// Most purges that wait to be written, and their bytes. With more (the device is slow, or fails),
/// one of everything takes their place.
const WAITING: usize = 16 << 10;
const WAITING_BYTES: usize = 4 << 20;
/// Most purges of keys that wait, where the journal has room for so many: about 8 MB.
const WAITING_KEYS: usize = 256 << 10;
/// Bytes of a key in a record of many: its hash and the number of its purge.
const PAIR: usize = 16;
/// Most keys in one record: where the journal is full, records become purges of everything.
const PACK: usize = 1024;

/// Kind of a purge that means all records with a smaller ticket.
pub(crate) const EVERYTHING: u8 = 0;
/// Kind of a purge that means one key; its content is the key's hash.
pub(crate) const KEY: u8 = 1;
/// First kind that is the caller's.
pub(crate) const OTHERS: u8 = 2;
/// Kind of a record with purges of many keys: a hash and a number each. Its own number is the
/// greatest of them.
pub(crate) const KEYS: u8 = 255;

/// A purge in the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purge {
    /// It means records with a smaller ticket.
    pub number: u64,
    /// The meaning of `what`: the caller's own numbers, from 2 on; 0: everything.
    pub kind: u8,
    /// The target of the purge.
    pub what: Vec<u8>,
}

/// How far the journal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Journalled {
    /// Purges up to this number are durable.
    pub durable: u64,
    /// Purges written now.
    pub written: u64,
}

/// A purge of a key that waits to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitingKey {
    number: u64,
    /// A segment has a record of the key, or may get one that is on its way. Else it is to be found
    /// out whether any has.
    pub(crate) needed: bool,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Purge>,
    /// Bytes of their contents.
    bytes: usize,
    /// Purges of keys, by the hash of the key.
    keys: HashMap<u64, WaitingKey>,
    /// The number of the latest purge.
    latest: u64,
    durable: u64,
}

impl Queue {
    /// One purge stands for all that wait.
    fn collapse(&mut self) {
        self.waiting = vec![everything(self.latest)];
        self.bytes = 0;
        self.keys = HashMap::new();
    }
}

fn everything(number: u64) -> Purge {
    Purge { number, kind: EVERYTHING, what: Vec::new() }
}

struct Open<S> {
    file: S,
    end: u64,
    /// The end of the file is unknown: a write or a sync failed.
    broken: bool,
}

/// See the module.
pub(crate) struct Journal<F: Files> {
    random: u64,
    /// Length of the file.
    most: u64,
    queue: Mutex<Queue>,
    open: Mutex<Open<F::File>>,
}

/// Bytes of the journal of a disk.
pub(crate) fn length(size: u64) -> u64 {
    (size / 64).clamp(256 << 10, 64 << 20) / UNIT as u64 * UNIT as u64
}

fn head(random: u64) -> [u8; UNIT] {
    let mut out = [0; UNIT];
    out[..4].copy_from_slice(&MAGIC);
    out[4] = VERSION;
    put_u64(&mut out, 8, random);
    let sum = hash(&out[..56], SEED);
    put_u64(&mut out, 56, sum);
    out
}

impl Purge {
    fn length(&self) -> u64 {
        whole((HEAD + self.what.len()) as u64)
    }

    fn write(&self, random: u64, at: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + HEAD, 0);
        let record = &mut out[start..];
        record[..4].copy_from_slice(&RECORD);
        (record[4], record[5]) = (VERSION, self.kind);
        put_u64(record, 8, self.number);
        put_u32(record, 16, self.what.len() as u32);
        let sum = sum(&record[..24], random, at, &self.what);
        put_u64(record, 24, sum);
        out.extend_from_slice(&self.what);
        out.resize(start + self.length() as usize, 0);
    }

    fn read(random: u64, at: u64, bytes: &[u8]) -> Option<Purge> {
        let record = bytes.get(..HEAD)?;
        if record[..4] != RECORD || record[4] != VERSION {
            return None;
        }
        let length = u32_at(record, 16) as usize;
        let what = bytes.get(HEAD..HEAD + length)?;
        let purge = Purge { number: u64_at(record, 8), kind: record[5], what: what.to_vec() };
        let rest = bytes.get(HEAD + length..purge.length() as usize)?;
        let whole = u64_at(record, 24) == sum(&record[..24], random, at, what)
            && rest.iter().all(|byte| *byte == 0);
        whole.then_some(purge)
    }
}

fn sum(head: &[u8], random: u64, at: u64, what: &[u8]) -> u64 {
    hash(what, hash(head, random ^ hash(&at.to_le_bytes(), SEED)))
}

/// The records of a file; `None`: it is damaged.
fn parse(random: u64, bytes: &[u8]) -> Option<(Vec<Purge>, u64)> {
    if bytes.get(..UNIT)? != &head(random)[..] {
        return None;
    }
    let (mut found, mut at) = (Vec::new(), UNIT);
    while bytes.get(at..at + 4).is_some_and(|magic| magic != [0; 4]) {
        let purge = Purge::read(random, at as u64, &bytes[at..])?;
        at += purge.length() as usize;
        found.push(purge);
    }
    bytes[at..].iter().all(|byte| *byte == 0).then_some((found, at as u64))
}

/// Reads the bytes of a journal of the disk with this random number; `None`: they are damaged.
#[doc(hidden)]
pub fn read_journal(random: u64, bytes: &[u8]) -> Option<Vec<Purge>> {
    parse(random, bytes).map(|(purges, _)| purges)
}

/// A journal of these purges.
#[doc(hidden)]
pub fn write_journal(random: u64, purges: &[Purge]) -> Vec<u8> {
    let mut bytes = head(random).to_vec();
    for purge in purges {
        let at = bytes.len() as u64;
        purge.write(random, at, &mut bytes);
    }
    bytes
}

fn read_file<S: Storage>(file: &S, most: u64) -> io::Result<Vec<u8>> {
    let length = file.length()?.min(most.max(64 << 20));
    let mut bytes = vec![0; length as usize];
    let read = file.read_full(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

impl<F: Files> Journal<F> {
    /// Opens the journal of a disk. `None`: it is not there, or damaged.
    ///
    /// # Errors
    /// The system's: it may be good.
    pub(crate) fn open(
        files: &F,
        random: u64,
        most: u64,
    ) -> io::Result<Option<(Self, Vec<Purge>)>> {
        let Some(file) = existing(files.open(NAME))? else { return Ok(None) };
        let bytes = read_file(&file, most)?;
        let broken = file.length()? != most;
        let Some((purges, end)) = parse(random, &bytes) else { return Ok(None) };
        let open = Open { file, end, broken };
        let journal = Self { random, most, queue: Mutex::default(), open: Mutex::new(open) };
        Ok(Some((journal, purges)))
    }

    /// The purges of a disk that another process may have open; `None`: damaged.
    pub(crate) fn look(files: &F, random: u64) -> Option<Vec<Purge>> {
        let bytes = read_file(&files.open(NAME).ok()?, 0).ok()?;
        parse(random, &bytes).map(|(purges, _)| purges)
    }

    /// Makes an empty journal.
    pub(crate) fn create(files: &F, random: u64, most: u64) -> io::Result<Self> {
        let (file, end) = write_new(files, random, most, &[])?;
        let open = Open { file, end, broken: false };
        Ok(Self { random, most, queue: Mutex::default(), open: Mutex::new(open) })
    }

    /// Adds a purge, which is written by the next [`Journal::flush`]. `number` gives its number.
    pub(crate) fn add(&self, kind: u8, what: &[u8], number: impl FnOnce() -> u64) -> u64 {
        let mut queue = self.queue.lock();
        let number = number();
        queue.latest = number;
        let purge = Purge { number, kind, what: what.to_vec() };
        let purge = if what.len() > LONGEST { everything(number) } else { purge };
        queue.bytes += purge.what.len();
        queue.waiting.push(purge);
        if queue.waiting.len() > WAITING || queue.bytes > WAITING_BYTES {
            queue.collapse();
        }
        number
    }

    /// Adds a purge of a key. `needed`: a record of it is on the disk, or was on its way; else it
    /// is written only if a segment may have one ([`Journal::flush`]).
    pub(crate) fn add_key(&self, hash: u64, needed: bool, number: impl FnOnce() -> u64) -> u64 {
        let mut queue = self.queue.lock();
        let number = number();
        queue.latest = number;
        let before = queue.keys.insert(hash, WaitingKey { number, needed });
        if before.is_some_and(|before| before.needed)
            && let Some(waiting) = queue.keys.get_mut(&hash)
        {
            waiting.needed = true;
        }
        if queue.keys.len() > self.most_keys() {
            queue.collapse();
        }
        number
    }

    /// Most purges of keys that wait: with more than half of the journal's room, they would stand
    /// for everything when they are written.
    fn most_keys(&self) -> usize {
        (self.most as usize / 2 / PAIR).clamp(WAITING, WAITING_KEYS)
    }

    /// Whether there is something to write.
    pub(crate) fn is_waiting(&self) -> bool {
        let queue = self.queue.lock();
        !queue.waiting.is_empty() || !queue.keys.is_empty()
    }

    /// The latest durable number.
    pub(crate) fn durable(&self) -> u64 {
        self.queue.lock().durable
    }

    /// Writes what waits and makes it durable. Purges up to `needless` mean nothing any more.
    /// `choose` takes out the purges of keys that mean nothing.
    pub(crate) fn flush(
        &self,
        files: &F,
        needless: u64,
        choose: impl FnOnce(&mut HashMap<u64, WaitingKey>),
    ) -> io::Result<Journalled> {
        let mut open = self.open.lock();
        let (waiting, mut keys, last) = {
            let mut queue = self.queue.lock();
            queue.bytes = 0;
            let waiting = std::mem::take(&mut queue.waiting);
            (waiting, std::mem::take(&mut queue.keys), queue.latest)
        };
        if !keys.is_empty() {
            choose(&mut keys);
        }
        let all = in_order(waiting.iter().cloned(), &keys);
        match self.append(&mut open, files, &all, needless) {
            Ok(()) => {
                let mut queue = self.queue.lock();
                queue.durable = queue.durable.max(last);
                let written = (waiting.len() + keys.len()) as u64;
                Ok(Journalled { durable: queue.durable, written })
            }
            Err(error) => {
                open.broken = true;
                let mut queue = self.queue.lock();
                let later = std::mem::replace(&mut queue.waiting, waiting);
                queue.waiting.extend(later);
                queue.bytes = queue.waiting.iter().map(|purge| purge.what.len()).sum();
                for (hash, before) in keys {
                    let waiting = queue.keys.entry(hash).or_insert(before);
                    waiting.needed |= before.needed;
                }
                Err(error)
            }
        }
    }

    fn append(
        &self,
        open: &mut Open<F::File>,
        files: &F,
        purges: &[Purge],
        needless: u64,
    ) -> io::Result<()> {
        if purges.is_empty() {
            return Ok(());
        }
        let length: u64 = purges.iter().map(Purge::length).sum();
        if open.broken || open.end + length > self.most {
            return self.rewrite(open, files, purges, needless);
        }
        let mut bytes = Vec::with_capacity(length as usize);
        for purge in purges {
            purge.write(self.random, open.end + bytes.len() as u64, &mut bytes);
        }
        open.file.write_full(&bytes, open.end)?;
        open.file.sync()?;
        open.end += length;
        Ok(())
    }

    /// Writes the journal anew, without the purges that mean nothing any more. If the old one
    /// cannot be read, or half of the room is taken, purges of everything stand for others.
    fn rewrite(
        &self,
        open: &mut Open<F::File>,
        files: &F,
        purges: &[Purge],
        needless: u64,
    ) -> io::Result<()> {
        let before = read_file(&open.file, self.most).ok();
        let valid = before.and_then(|bytes| {
            let end = (open.end as usize).min(bytes.len());
            parse(self.random, &bytes[..end])
        });
        let last = purges.last().map_or(0, |purge| purge.number);
        let mut kept = match valid {
            Some((mut kept, _)) => {
                kept.extend_from_slice(purges);
                compact(kept, needless)
            }
            None => vec![everything(last)],
        };
        let mut length: u64 = kept.iter().map(Purge::length).sum();
        if length > self.most / 2 {
            let mut dropped = 0;
            let at = kept.iter().position(|purge| {
                length -= purge.length();
                dropped = purge.number;
                length <= self.most / 4
            });
            kept.drain(..=at.unwrap_or(kept.len() - 1));
            kept.insert(0, everything(dropped));
        }
        let (file, end) = write_new(files, self.random, self.most, &kept)?;
        *open = Open { file, end, broken: false };
        Ok(())
    }
}

impl Purge {
    /// The keys that it means by their hashes, and since when; none: it is another purge.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (u64, u64)> {
        let one = (self.kind == KEY).then(|| (u64_at(&self.what, 0), self.number));
        let many = if self.kind == KEYS { &self.what[..] } else { &[] };
        let pairs = many.chunks_exact(PAIR).map(|pair| (u64_at(pair, 0), u64_at(pair, 8)));
        one.into_iter().chain(pairs)
    }
}

/// Purges without those that mean nothing any more; a key has one, its latest.
fn compact(purges: Vec<Purge>, needless: u64) -> Vec<Purge> {
    let mut keys: HashMap<u64, WaitingKey> = HashMap::new();
    for (hash, number) in purges.iter().flat_map(Purge::keys).filter(|(_, n)| *n > needless) {
        let latest = keys.entry(hash).or_insert(WaitingKey { number, needed: true });
        latest.number = latest.number.max(number);
    }
    let other = |purge: &Purge| !matches!(purge.kind, KEY | KEYS) && purge.number > needless;
    in_order(purges.into_iter().filter(other), &keys)
}

/// Purges and those of keys, in the order of their numbers.
fn in_order(purges: impl Iterator<Item = Purge>, keys: &HashMap<u64, WaitingKey>) -> Vec<Purge> {
    let mut all: Vec<Purge> = purges.collect();
    let mut pairs: Vec<(u64, u64)> = keys.iter().map(|(hash, key)| (*hash, key.number)).collect();
    pairs.sort_unstable_by_key(|(_, number)| *number);
    all.extend(pairs.chunks(PACK).map(|pairs| match pairs {
        [(hash, number)] => Purge { number: *number, kind: KEY, what: hash.to_le_bytes().to_vec() },
        pairs => {
            let words = pairs.iter().flat_map(|(hash, number)| [*hash, *number]);
            let number = pairs.last().map_or(0, |(_, number)| *number);
            Purge { number, kind: KEYS, what: words.flat_map(u64::to_le_bytes).collect() }
        }
    }));
    all.sort_by_key(|purge| purge.number);
    all
}

/// Writes a journal, durably, in place of the one before.
fn write_new<F: Files>(
    files: &F,
    random: u64,
    most: u64,
    purges: &[Purge],
) -> io::Result<(F::File, u64)> {
    let bytes = write_journal(random, purges);
    let file = files.create(NEW)?;
    let written =
        file.allocate(most).and_then(|()| file.write_full(&bytes, 0)).and_then(|()| file.sync());
    if let Err(error) = written {
        // Its room may be what is missing.
        let _ = files.remove(NEW);
        return Err(error);
    }
    files.rename(NEW, NAME)?;
    files.sync()?;
    Ok((file, bytes.len() as u64))
}
