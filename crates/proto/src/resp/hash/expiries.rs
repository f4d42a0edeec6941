//! Expiries of fields: read, and composed for a new record.

use super::super::collection::key_times;
use super::{
    Damaged, EXPIRING_HEAD, EXPIRY, HEAD, Hash, INDEXED, INDEXED_EXPIRING, PLAIN, PLAIN_EXPIRING,
};

/// An expiry: offset of the field's entry from the first entry, and the time.
pub(super) type At = (u32, u64);

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|raw| u64::from_le_bytes(*raw))
}

fn expires(bytes: &[u8]) -> bool {
    matches!(bytes.first(), Some(&(PLAIN_EXPIRING | INDEXED_EXPIRING)))
}

/// Number of fields that expire, of a record of such a form.
pub(super) fn number(bytes: &[u8]) -> Result<usize, Damaged> {
    let raw = bytes.get(HEAD + 16..).and_then(|rest| rest.first_chunk()).ok_or(Damaged)?;
    match u32::from_le_bytes(*raw) as usize {
        0 => Err(Damaged),
        number => Ok(number),
    }
}

/// The key's own expiry, which stands in a record with fields that expire (its first
/// `EXPIRING_HEAD` bytes are enough), and in the head of such a tree. `None`: it is none of these;
/// `Some(None)`: the key has none.
pub fn key_expiry(bytes: &[u8]) -> Option<Option<u64>> {
    if let Some(times) = key_times(bytes) {
        return (times.soonest != 0).then_some((times.key != 0).then_some(times.key));
    }
    let at = word(bytes, HEAD).filter(|_| expires(bytes))?;
    Some((at != 0).then_some(at))
}

/// Has a field of this record, or of the tree with this head, expired? The first bytes are enough.
pub fn is_due(bytes: &[u8], now: u64) -> bool {
    if let Some(times) = key_times(bytes) {
        return times.soonest != 0 && times.soonest <= now;
    }
    expires(bytes) && word(bytes, HEAD + 8).is_some_and(|soonest| soonest <= now)
}

/// A field's value, and when it expires, in milliseconds since the UNIX epoch.
pub type Expiring<'a> = (&'a [u8], Option<u64>);

impl<'a> Hash<'a> {
    /// Number of fields that expire.
    pub fn expiring(&self) -> usize {
        self.expiring
    }

    /// The expiry of the field that expires first.
    pub fn soonest(&self) -> Option<u64> {
        word(self.bytes, HEAD + 8).filter(|_| self.expiring > 0)
    }

    /// The first expiry of a field after this time.
    pub fn next_expiry(&self, now: u64) -> Option<u64> {
        self.expiries().map(|(_, time)| time).filter(|time| *time > now).min()
    }

    /// The value of a field, and its expiry.
    ///
    /// # Errors
    /// The record is damaged.
    pub fn get_expiring(&self, field: &[u8]) -> Result<Option<Expiring<'a>>, Damaged> {
        Ok(self.find(field)?.map(|(at, value)| (value, self.expiry_at(at))))
    }

    /// The value of a field that has not expired.
    ///
    /// # Errors
    /// The record is damaged.
    pub fn get_live(&self, field: &[u8], now: u64) -> Result<Option<&'a [u8]>, Damaged> {
        let found = self.get_expiring(field)?;
        Ok(found.filter(|(_, at)| at.is_none_or(|at| at > now)).map(|(value, _)| value))
    }

    /// The expiry of the field whose entry starts there ([`super::Iter::place`]).
    pub fn expiry_at(&self, at: usize) -> Option<u64> {
        let offset = u32::try_from(at.checked_sub(self.entries())?).ok()?;
        let (mut low, mut high) = (0, self.expiring);
        while low < high {
            let middle = low + (high - low) / 2;
            let (known, time) = self.expiry(middle)?;
            match known.cmp(&offset) {
                std::cmp::Ordering::Equal => return Some(time),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    fn expiry(&self, nth: usize) -> Option<At> {
        let start = self.entries() - (self.expiring - nth) * EXPIRY;
        let raw = self.bytes.get(start..)?.first_chunk::<EXPIRY>()?;
        let (offset, _) = raw.split_first_chunk::<4>()?;
        Some((u32::from_le_bytes(*offset), word(raw, 4)?))
    }

    /// All expiries, by offset.
    pub(super) fn expiries(&self) -> impl Iterator<Item = At> + use<'_, 'a> {
        (0..self.expiring).filter_map(|nth| self.expiry(nth))
    }
}

/// The head of a new record, its index apart.
pub(super) fn head(count: usize, indexed: bool, expiries: &[At], key: Option<u64>) -> Vec<u8> {
    let form = match (indexed, expiries.is_empty()) {
        (false, true) => PLAIN,
        (true, true) => INDEXED,
        (false, false) => PLAIN_EXPIRING,
        (true, false) => INDEXED_EXPIRING,
    };
    let mut head = Vec::with_capacity(EXPIRING_HEAD);
    head.push(form);
    head.extend_from_slice(&(count as u32).to_le_bytes());
    if let Some(soonest) = expiries.iter().map(|(_, time)| *time).min() {
        head.extend_from_slice(&key.unwrap_or(0).to_le_bytes());
        head.extend_from_slice(&soonest.to_le_bytes());
        head.extend_from_slice(&(expiries.len() as u32).to_le_bytes());
    }
    head
}

/// Appends the expiries to head and index.
pub(super) fn push(head: &mut Vec<u8>, expiries: &[At]) {
    head.reserve_exact(expiries.len() * EXPIRY);
    for (offset, time) in expiries {
        head.extend_from_slice(&offset.to_le_bytes());
        head.extend_from_slice(&time.to_le_bytes());
    }
}
