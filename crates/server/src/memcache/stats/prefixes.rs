//! Figures by key prefix (`stats detail`, `stats prefixes`): the part before the first delimiter.
//!
//! A table per worker behind a lock; only readers of the figures contend for it. While it is off,
//! commands do not touch it. Keys without a delimiter are not counted, as in memcached.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;

/// Most prefixes per worker, since clients choose keys. All further prefixes share one row,
/// [`OTHERS`].
pub(crate) const LIMIT: usize = 1024;
/// The row of all prefixes beyond the limit.
pub(crate) const OTHERS: &[u8] = b"(others)";

/// Figures of a prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    /// Requested keys.
    pub(crate) gets: u64,
    /// Requested keys that were found.
    pub(crate) hits: u64,
    /// Values sent to be stored.
    pub(crate) sets: u64,
    /// Requested deletions.
    pub(crate) deletes: u64,
    /// Bytes of the values found.
    pub(crate) bytes_out: u64,
    /// Bytes of the values sent to be stored.
    pub(crate) bytes_in: u64,
}

/// One worker's table.
#[derive(Debug, Default)]
pub(crate) struct Prefixes(Mutex<HashMap<Box<[u8]>, Row>>);

impl Prefixes {
    /// Counts in the row of the key's prefix, if it has one.
    pub(crate) fn count(&self, key: &[u8], delimiter: u8, change: impl FnOnce(&mut Row)) {
        let Some(end) = key.iter().position(|byte| *byte == delimiter) else { return };
        let mut rows = self.0.lock();
        if let Some(row) = rows.get_mut(&key[..end]) {
            return change(row);
        }
        let name = if rows.len() < LIMIT { &key[..end] } else { OTHERS };
        change(rows.entry(name.into()).or_default());
    }

    /// Clears the table.
    pub(crate) fn forget(&self) {
        self.0.lock().clear();
    }
}

/// All workers' rows, by prefix.
pub(crate) fn merged<'a>(all: impl Iterator<Item = &'a Prefixes>) -> BTreeMap<Box<[u8]>, Row> {
    let mut sums: BTreeMap<Box<[u8]>, Row> = BTreeMap::new();
    for table in all {
        for (prefix, row) in table.0.lock().iter() {
            let sum = sums.entry(prefix.clone()).or_default();
            sum.gets += row.gets;
            sum.hits += row.hits;
            sum.sets += row.sets;
            sum.deletes += row.deletes;
            sum.bytes_out += row.bytes_out;
            sum.bytes_in += row.bytes_in;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_all_workers_by_prefix() {
        let (one, two) = (Prefixes::default(), Prefixes::default());
        one.count(b"user:1", b':', |row| row.gets += 1);
        one.count(b"user:2:x", b':', |row| row.hits += 1);
        two.count(b"user:3", b':', |row| row.gets += 2);
        two.count(b":", b':', |row| row.sets += 1);
        two.count(b"none", b':', |row| row.sets += 1);
        let rows = merged([&one, &two].into_iter());
        assert_eq!(rows.keys().map(|k| &k[..]).collect::<Vec<_>>(), [b"".as_slice(), b"user"]);
        assert_eq!(rows[b"user".as_slice()], Row { gets: 3, hits: 1, ..Row::default() });
    }

    #[test]
    fn prefixes_beyond_the_limit_share_a_row() {
        let table = Prefixes::default();
        for n in 0..LIMIT + 10 {
            table.count(format!("{n}:x").as_bytes(), b':', |row| row.sets += 1);
        }
        let rows = merged([&table].into_iter());
        assert_eq!((rows.len(), rows[OTHERS].sets), (LIMIT + 1, 10));
        table.forget();
        assert!(merged([&table].into_iter()).is_empty());
    }
}
