//! A hash in one value: its fields and values packed, in the order they came.
//!
//! ```text
//! form     1 byte    1: plain, 2: with an index; 3 and 4: the same with fields that expire
//! count    4 bytes   fields, little endian
//! expiry   forms 3 and 4: of the key (8 bytes, 0: none), of the field that expires first (8),
//!          number of fields that expire (4)
//! index    forms 2 and 4, for each field: offset of its entry in the record (4 bytes); by field
//! expiries forms 3 and 4, for each field that expires: offset of its entry from the first entry
//!          (4 bytes), time (8 bytes, ms since the epoch); sorted by offset
//! entries  for each field: length of field, length of value (LEB128 each), field, value
//! ```
//!
//! Beyond [`INDEX_FROM`] fields there is an index, so that looking up a field costs the logarithm
//! of their number. (A hash table was rejected: clients choose fields, and a table whose key they
//! can guess makes every write slow.) Bytes that are not such a record are [`Damaged`]: every
//! length and position is checked before it is used.

//!
//! A hash whose fields all expire leaves the store with the last of them: the expiry of its entry
//! is the earlier of this time and the key's own, which therefore stands in the record.

mod expiries;
mod merge;
mod purge;

use std::cmp::Ordering;

pub use expiries::{Expiring, is_due, key_expiry};
pub use merge::{Change, Expiry, Merged, Value, merge};
pub use purge::purge;

/// The flags of an entry that holds a hash.
pub const FLAGS: u32 = 0x9d41_7e5a;
/// The flags of one with fields that expire.
pub const EXPIRING: u32 = 0x9d41_7e59;
/// The flags of one whose entry expires with its last field.
pub const FADING: u32 = 0x9d41_7e58;

/// Are these the flags of a hash in one record? (A large one is a [`super::collection`].)
#[inline]
pub fn is_hash(flags: u32) -> bool {
    matches!(flags, FLAGS | EXPIRING | FADING)
}

/// The number of fields that the first bytes of a record name; 0: they are no record.
pub fn count(bytes: &[u8]) -> usize {
    let raw = bytes.get(1..).and_then(|rest| rest.first_chunk());
    raw.map_or(0, |raw| u32::from_le_bytes(*raw) as usize)
}

/// Records with more fields than this have an index.
pub const INDEX_FROM: usize = 64;

const PLAIN: u8 = 1;
const INDEXED: u8 = 2;
const PLAIN_EXPIRING: u8 = 3;
const INDEXED_EXPIRING: u8 = 4;
const HEAD: usize = 5;
/// Head of a record with fields that expire.
const EXPIRING_HEAD: usize = 25;
/// Bytes of an expiry among [`expiries`].
const EXPIRY: usize = 12;
/// Most bytes of a length.
const MAX_LENGTH: usize = 5;

/// The bytes are not a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

/// A field and its value.
pub type Pair<'a> = (&'a [u8], &'a [u8]);

/// A packed hash to read.
#[derive(Clone, Copy, Debug)]
pub struct Hash<'a> {
    bytes: &'a [u8],
    count: usize,
    indexed: bool,
    /// Length of the head.
    head: usize,
    /// Number of fields that expire.
    expiring: usize,
}

impl<'a> Hash<'a> {
    /// Reads the head of a record.
    ///
    /// # Errors
    /// The bytes are not a hash. (Later parts may still turn out damaged.)
    pub fn read(bytes: &'a [u8]) -> Result<Self, Damaged> {
        let (&form, rest) = bytes.split_first().ok_or(Damaged)?;
        let count =
            rest.first_chunk().map(|raw| u32::from_le_bytes(*raw) as usize).ok_or(Damaged)?;
        let (indexed, expires) = match form {
            PLAIN => (false, false),
            INDEXED => (true, false),
            PLAIN_EXPIRING => (false, true),
            INDEXED_EXPIRING => (true, true),
            _ => return Err(Damaged),
        };
        let (head, expiring) =
            if expires { (EXPIRING_HEAD, expiries::number(bytes)?) } else { (HEAD, 0) };
        // An entry takes at least two bytes.
        let least = head as u64
            + count as u64 * if indexed { 6 } else { 2 }
            + expiring as u64 * EXPIRY as u64;
        if count == 0 || expiring > count || least > bytes.len() as u64 {
            return Err(Damaged);
        }
        Ok(Self { bytes, count, indexed, head, expiring })
    }

    /// How many fields it has; at least one.
    #[allow(clippy::len_without_is_empty)] // a hash without fields is not there
    pub fn len(&self) -> usize {
        self.count
    }

    /// The value of a field.
    ///
    /// # Errors
    /// The record is damaged.
    #[inline]
    pub fn get(&self, field: &[u8]) -> Result<Option<&'a [u8]>, Damaged> {
        Ok(self.find(field)?.map(|(_, value)| value))
    }

    /// Where the entry of a field starts, and its value.
    #[inline]
    fn find(&self, field: &[u8]) -> Result<Option<(usize, &'a [u8])>, Damaged> {
        if !self.indexed {
            let mut fields = self.iter();
            loop {
                let at = fields.at;
                let Some(pair) = fields.next() else { return Ok(None) };
                let (known, value) = pair?;
                if known == field {
                    return Ok(Some((at, value)));
                }
            }
        }
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            let at = self.start(middle)?;
            let ((known, value), _) = entry(self.bytes, at)?;
            match known.cmp(field) {
                Ordering::Equal => return Ok(Some((at, value))),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }

    /// The field of this rank, and its value, in an order of its own that covers all fields.
    ///
    /// # Errors
    /// The record is damaged, or there are fewer fields.
    pub fn nth(&self, rank: usize) -> Result<Pair<'a>, Damaged> {
        if self.indexed && rank < self.count {
            return self.indexed_pair(rank);
        }
        self.iter().nth(rank).unwrap_or(Err(Damaged))
    }

    fn indexed_pair(&self, rank: usize) -> Result<Pair<'a>, Damaged> {
        Ok(entry(self.bytes, self.start(rank)?)?.0)
    }

    /// Where the entry of this rank starts.
    fn start(&self, rank: usize) -> Result<usize, Damaged> {
        let raw = self
            .bytes
            .get(self.head + 4 * rank..)
            .and_then(|rest| rest.first_chunk())
            .ok_or(Damaged)?;
        let at = u32::from_le_bytes(*raw) as usize;
        if at < self.entries() { Err(Damaged) } else { Ok(at) }
    }

    /// Where the entries start.
    fn entries(&self) -> usize {
        self.head + if self.indexed { self.count * 4 } else { 0 } + self.expiring * EXPIRY
    }

    /// Fields and values in the order they came. Ends after the first error.
    pub fn iter(&self) -> Iter<'a> {
        Iter { bytes: self.bytes, at: self.entries(), left: self.count }
    }

    /// The same from the offset of an entry on, of which so many are left ([`Iter::place`]).
    pub fn iter_from(&self, (at, left): (usize, usize)) -> Iter<'a> {
        Iter { bytes: self.bytes, at, left }
    }

    /// All fields and values in the order they came.
    ///
    /// # Errors
    /// The record is damaged.
    pub fn pairs(&self) -> Result<Vec<Pair<'a>>, Damaged> {
        self.iter().collect()
    }
}

/// See [`Hash::iter`].
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    bytes: &'a [u8],
    at: usize,
    left: usize,
}

impl Iter<'_> {
    /// Where the next entry starts, and how many are left.
    pub fn place(&self) -> (usize, usize) {
        (self.at, self.left)
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = Result<Pair<'a>, Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        match entry(self.bytes, self.at) {
            // Nothing may follow the last entry.
            Ok((_, end)) if self.left == 1 && end != self.bytes.len() => {
                self.left = 0;
                Some(Err(Damaged))
            }
            Ok((pair, end)) => {
                (self.at, self.left) = (end, self.left - 1);
                Some(Ok(pair))
            }
            Err(damaged) => {
                self.left = 0;
                Some(Err(damaged))
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.left))
    }
}

/// The entry at `at`, and where it ends.
#[inline]
fn entry(bytes: &[u8], at: usize) -> Result<(Pair<'_>, usize), Damaged> {
    let (field, at) = length(bytes, at)?;
    let (value, at) = length(bytes, at)?;
    let middle = at.checked_add(field).ok_or(Damaged)?;
    let end = middle.checked_add(value).ok_or(Damaged)?;
    let pair = (bytes.get(at..middle).ok_or(Damaged)?, bytes.get(middle..end).ok_or(Damaged)?);
    Ok((pair, end))
}

#[inline]
fn length(bytes: &[u8], at: usize) -> Result<(usize, usize), Damaged> {
    let mut length = 0u64;
    for place in 0..MAX_LENGTH {
        let byte = *bytes.get(at + place).ok_or(Damaged)?;
        length |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            return Ok((usize::try_from(length).map_err(|_| Damaged)?, at + place + 1));
        }
    }
    Err(Damaged)
}

fn push_length(out: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

/// Packs fields, each given once, and values in this order. `None`: there are none, or they are too
/// large for one record (4 GiB).
pub fn pack(pairs: &[Pair<'_>]) -> Option<Vec<u8>> {
    let indexed = pairs.len() > INDEX_FROM;
    let bytes: usize =
        pairs.iter().map(|(field, value)| field.len() + value.len() + 2 * MAX_LENGTH).sum();
    let index = if indexed { pairs.len() * 4 } else { 0 };
    if pairs.is_empty() || HEAD + index + bytes > u32::MAX as usize {
        return None;
    }
    let mut out = Vec::with_capacity(HEAD + index + bytes);
    out.push(if indexed { INDEXED } else { PLAIN });
    out.extend_from_slice(&(pairs.len() as u32).to_le_bytes());
    out.resize(HEAD + index, 0);
    let mut starts = Vec::with_capacity(if indexed { pairs.len() } else { 0 });
    for (field, value) in pairs {
        if indexed {
            starts.push(out.len() as u32);
        }
        push_length(&mut out, field.len());
        push_length(&mut out, value.len());
        out.extend_from_slice(field);
        out.extend_from_slice(value);
    }
    if indexed {
        let mut order: Vec<u32> = (0..pairs.len() as u32).collect();
        order.sort_unstable_by_key(|&at| pairs[at as usize].0);
        for (slot, at) in out[HEAD..HEAD + index].chunks_exact_mut(4).zip(order) {
            slot.copy_from_slice(&starts[at as usize].to_le_bytes());
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(count: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        (0..count)
            .map(|n| (format!("f{}", n * 7919 % 10_007).into_bytes(), vec![b'v'; n % 300]))
            .collect()
    }

    fn borrowed(pairs: &[(Vec<u8>, Vec<u8>)]) -> Vec<Pair<'_>> {
        pairs.iter().map(|(field, value)| (&field[..], &value[..])).collect()
    }

    #[test]
    fn what_was_packed_is_found_and_listed_in_order() {
        for count in [1, 2, INDEX_FROM, INDEX_FROM + 1, 1000] {
            let pairs = fields(count);
            let packed = pack(&borrowed(&pairs)).unwrap();
            let hash = Hash::read(&packed).unwrap();
            assert_eq!(hash.len(), count);
            assert_eq!(hash.pairs().unwrap(), borrowed(&pairs));
            for (field, value) in &pairs {
                assert_eq!(hash.get(field), Ok(Some(&value[..])));
            }
            assert_eq!(hash.get(b"not there"), Ok(None));
        }
        assert_eq!(pack(&[]), None, "a hash without fields is not there");
    }

    #[test]
    fn damage_is_told_and_never_believed() {
        for count in [3, 100] {
            let pairs = fields(count);
            let packed = pack(&borrowed(&pairs)).unwrap();
            for cut in 0..packed.len() {
                let whole = Hash::read(&packed[..cut]).and_then(|hash| hash.pairs());
                assert_eq!(whole, Err(Damaged), "cut at {cut}");
            }
            let longer = [&packed[..], b"x"].concat();
            assert_eq!(Hash::read(&longer).and_then(|hash| hash.pairs()), Err(Damaged));
        }
        assert_eq!(Hash::read(b"\x01\xff\xff\xff\xff\0\0").err(), Some(Damaged));
        assert_eq!(Hash::read(b"\x03\x01\0\0\0\0\0").err(), Some(Damaged));
    }
}
