//! The dynamic table (RFC 7541 sections 2.3.2 and 4).

use std::collections::VecDeque;

use super::{ENTRY_OVERHEAD, MAX_TABLE_SIZE};

/// A dynamic table. Names and values stand in one buffer, new ones behind the old; bytes of evicted
/// entries are overwritten once they are half of it. So an entry is always one slice, and an
/// insertion moves less than its own length on average.
#[derive(Debug)]
pub(super) struct Table {
    bytes: Vec<u8>,
    /// Newest first.
    entries: VecDeque<Entry>,
    /// Size of all entries as section 4.1 counts it.
    size: u32,
    max: u32,
    /// Number of insertions and other changes.
    changes: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    at: u32,
    name: u16,
    value: u16,
    /// Index in the static table of an entry of this name, or 0.
    pub(super) static_name: u8,
    /// A note of the user of the table.
    pub(super) mark: u8,
}

impl Entry {
    fn size(&self) -> u32 {
        u32::from(self.name) + u32::from(self.value) + ENTRY_OVERHEAD as u32
    }

    /// Length of the value, in bytes.
    pub(super) fn value_len(&self) -> usize {
        usize::from(self.value)
    }
}

impl Table {
    pub(super) fn new(max: u32) -> Self {
        let max = max.min(MAX_TABLE_SIZE);
        Self { bytes: Vec::new(), entries: VecDeque::new(), size: 0, max, changes: 0 }
    }

    pub(super) fn max(&self) -> u32 {
        self.max
    }

    /// A number that differs after every change of the entries or of the maximum size.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of memory behind the table.
    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    /// Frees the memory of an empty table.
    pub(super) fn shrink(&mut self) {
        if self.entries.is_empty() {
            (self.bytes, self.entries) = (Vec::new(), VecDeque::new());
        }
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.size = 0;
        self.changes += 1;
    }

    /// Changes the maximum size; entries above it are evicted (section 4.3).
    pub(super) fn resize(&mut self, max: u32) {
        self.max = max.min(MAX_TABLE_SIZE);
        self.changes += 1;
        self.evict(self.max);
    }

    /// The entries, newest first.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Name, value and the entry itself; 0 is the newest.
    #[inline]
    pub(super) fn get_mut(&mut self, index: usize) -> Option<(&[u8], &[u8], &mut Entry)> {
        let entry = self.entries.get_mut(index)?;
        let (name, value) = slices(&self.bytes, entry);
        Some((name, value, entry))
    }

    /// Name and value; 0 is the newest.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        Some(slices(&self.bytes, self.entries.get(index)?))
    }

    /// Adds an entry (section 4.4): as many as needed are evicted for it, and one that is larger
    /// than the table empties it. Returns whether it was added.
    pub(super) fn insert(
        &mut self,
        name: Name<'_>,
        value: &[u8],
        static_name: u8,
        mark: u8,
    ) -> bool {
        let name_len = match name {
            Name::Given(name) => name.len(),
            Name::Entry(index) => {
                self.entries.get(index).map_or(0, |entry| usize::from(entry.name))
            }
        };
        let length = name_len + value.len();
        let size = length + ENTRY_OVERHEAD;
        if size > self.max as usize {
            self.clear();
            return false;
        }
        // The name may be of an entry that is evicted for this one: it is copied before.
        self.make_room(length);
        let at = self.bytes.len();
        match name {
            Name::Given(name) => self.bytes.extend_from_slice(name),
            Name::Entry(index) => {
                if let Some(entry) = self.entries.get(index) {
                    let start = entry.at as usize;
                    self.bytes.extend_from_within(start..start + name_len);
                }
            }
        }
        self.bytes.extend_from_slice(value);
        self.evict(self.max - size as u32);
        self.entries.push_front(Entry {
            at: at as u32,
            name: name_len as u16,
            value: value.len() as u16,
            static_name,
            mark,
        });
        self.size += size as u32;
        self.changes += 1;
        true
    }

    /// Removes the oldest entries until the size is at most `max`.
    #[inline]
    fn evict(&mut self, max: u32) {
        while self.size > max
            && let Some(entry) = self.entries.pop_back()
        {
            self.size -= entry.size();
        }
    }

    /// Moves the live bytes to the front when there is no room for `more` behind them and at least
    /// half of the buffer is free.
    #[inline]
    fn make_room(&mut self, more: usize) {
        if self.bytes.len() + more > self.bytes.capacity() {
            self.compact();
        }
    }

    fn compact(&mut self) {
        let start = self.entries.back().map_or(self.bytes.len(), |oldest| oldest.at as usize);
        if start < self.bytes.len() / 2 || start == 0 {
            return;
        }
        self.bytes.copy_within(start.., 0);
        self.bytes.truncate(self.bytes.len() - start);
        for entry in &mut self.entries {
            entry.at -= start as u32;
        }
    }
}

/// The name of a new entry.
#[derive(Clone, Copy, Debug)]
pub(super) enum Name<'a> {
    /// These bytes.
    Given(&'a [u8]),
    /// The name of the entry at this index.
    Entry(usize),
}

#[inline]
fn slices<'b>(bytes: &'b [u8], entry: &Entry) -> (&'b [u8], &'b [u8]) {
    let start = entry.at as usize;
    let end = start + usize::from(entry.name) + usize::from(entry.value);
    bytes[start..end].split_at(usize::from(entry.name))
}
