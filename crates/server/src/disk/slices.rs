//! Slices of large pages on the disk.
//!
//! The map of such a page is a page: it is found, judged and purged as any. A slice lies under the
//! number of its map, which no other map has, so a slice of a map that is purged or replaced is
//! never looked for again, and goes with its segment.

use std::sync::Arc;

use bytes::Bytes;
use larder_proto::{
    http::key,
    page::{PageFlags, slice_on_disk},
};
use larder_store::{Entry, If, Namespace, Put};
use tokio::time::timeout;

use super::{DiskRecord, Tier};
use crate::page::lookup::SLICES;

/// Mark of a slice in memory that may be on the disk, in its client bits: its map may be, too.
pub(super) const FOR_DISK: u32 = 1;

/// Whether an entry is a slice that is not for the disk.
pub(super) fn is_for_memory(ns: Namespace, entry: &Entry<'_>) -> bool {
    ns == SLICES && entry.flags() & FOR_DISK == 0
}

/// Whether a page with this key and these flags may be on the disk: one that a site's origin gave,
/// for everybody, found by its URL alone.
pub(super) fn may_have(page: &[u8], flags: PageFlags) -> bool {
    let not = PageFlags::NO_DISK.with(PageFlags::COPY).with(PageFlags::UNFRAMED);
    let primary = key::parse_variant_key(page).map_or(page, |(primary, ..)| primary);
    !flags.any(not) && key::url_key(primary).len() == primary.len()
}

/// A slice that was read.
pub(crate) enum SliceRead {
    /// It is in memory again.
    Stored(Entry<'static>),
    /// Memory has no room for it.
    Bytes(Bytes),
}

impl Tier {
    /// The mark of slices in memory of a page with this key and these flags.
    pub(crate) fn slice_mark(&self, page: &[u8], flags: PageFlags) -> u32 {
        if may_have(page, flags) { FOR_DISK } else { 0 }
    }

    /// Whether the disk may have a slice: no wait.
    pub(crate) fn has_slice(&self, slice: &[u8]) -> bool {
        self.has(&slice_on_disk(slice))
    }

    /// Writes a slice that memory has now.
    pub(crate) fn keep_slice(&self, slice: &[u8]) {
        self.keep_in(SLICES, slice);
    }

    /// Writes the map of a page that memory has, unless the disk has it or must not.
    pub(crate) fn keep_map(&self, page: &[u8], flags: PageFlags) {
        if may_have(page, flags) && self.writable().is_some_and(|disk| !disk.has(page)) {
            self.keep(page);
        }
    }

    /// Reads a slice of this length into memory; waits as long as the settings say. None: there is
    /// no usable one.
    pub(crate) async fn slice(self: &Arc<Self>, slice: &[u8], length: u64) -> Option<SliceRead> {
        let (on_disk, slice) = (slice_on_disk(slice), Box::<[u8]>::from(slice));
        // By the thread that reads: a copy of a long slice takes longer than a worker has.
        let take = move |tier: &Tier, found: DiskRecord| tier.take_slice(&slice, length, &found);
        let read = timeout(self.patience(), self.read(&on_disk, take)).await;
        let read = read.unwrap_or_else(|_| {
            self.counters.slow.one();
            None
        });
        let found = read.flatten();
        if found.is_some() {
            self.counters.slice_hits.one();
        }
        found
    }

    fn take_slice(&self, slice: &[u8], length: u64, found: &DiskRecord) -> Option<SliceRead> {
        let bytes = found.bytes();
        if bytes.len() as u64 != length {
            self.lose(found);
            return None;
        }
        let now = self.clock.now();
        let put = Put { value: &[bytes], flags: FOR_DISK, ..Put::default() };
        // Another thread may have put it there: the same bytes.
        let _there = self.store.put(SLICES, slice, put, If::Absent, now);
        match self.store.peek(SLICES, slice, now).filter(|entry| entry.len() == length) {
            Some(entry) => Some(SliceRead::Stored(entry)),
            None => Some(SliceRead::Bytes(Bytes::copy_from_slice(bytes))),
        }
    }
}
