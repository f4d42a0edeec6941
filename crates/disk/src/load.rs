//! The start: fills the index, the newest segment first.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::disk::{Disk, Segment, file_name, serial_of};
use crate::files::{Files, Storage, existing};
use crate::format::{Home, Listed, seal, seconds};
use crate::index::{Entry, Place};
use crate::purges::FoundPurges;
use crate::scan;
use crate::types::Ms;
use crate::writer::Writer;

/// Result of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Loaded {
    /// Entries found.
    pub entries: u64,
    /// Segments found.
    pub segments: u64,
    /// Files that are no segments of this disk, or damaged: removed.
    pub removed: u64,
    /// Segments that could not be read. Their files stay for a later start.
    pub unread: u64,
    /// It was stopped before its end ([`Disk::stop_loading`]).
    pub stopped: bool,
}

impl<F: Files> Disk<F> {
    /// The writer of a disk that was just opened. Call it once, before anything else.
    ///
    /// # Errors
    /// The system's.
    pub fn writer(self: &Arc<Self>) -> io::Result<Writer<F>> {
        let last = self.files.list()?.iter().filter_map(|name| serial_of(name)).max();
        Ok(Writer::new(self.clone(), last.map_or(1, |last| last + 1)))
    }

    /// Fills the index with what is in the segments; waits for the device. Other threads may use
    /// the disk meanwhile. `before`: the number of the writer's first segment
    /// ([`Writer::first`]).
    pub fn load(&self, before: u64, now: Ms) -> Loaded {
        let names = self.files.list();
        self.unsure.fetch_or(names.is_err(), Ordering::SeqCst);
        let names = names.unwrap_or_default();
        let serials: BTreeSet<u64> = names.iter().filter_map(|name| serial_of(name)).collect();
        let mut loaded = Loaded::default();
        for serial in serials.into_iter().rev().filter(|serial| *serial < before) {
            if self.stopping.load(Ordering::SeqCst) {
                // The index stays as one that is being filled: it does not know all there is.
                return Loaded { stopped: true, ..loaded };
            }
            match self.load_segment(serial) {
                Ok(Some(entries)) => {
                    loaded.entries += entries;
                    loaded.segments += 1;
                }
                Ok(None) => {
                    let removed = existing(self.files.remove(&file_name(serial))).is_ok();
                    self.unsure.fetch_or(!removed, Ordering::SeqCst);
                    loaded.removed += 1;
                }
                Err(_) => {
                    self.unsure.store(true, Ordering::SeqCst);
                    loaded.unread += 1;
                }
            }
        }
        if loaded.removed > 0 && self.files.sync().is_err() {
            self.unsure.store(true, Ordering::SeqCst);
        }
        for (segment, expired) in self.index.loaded(seconds(Some(now))) {
            loaded.entries = loaded.entries.saturating_sub(expired);
            if let Some(segment) = self.segment(segment) {
                segment.live.fetch_sub(expired as u32, Ordering::Relaxed);
            }
        }
        self.loading.store(false, Ordering::SeqCst);
        *self.found.lock() = FoundPurges::default();
        loaded
    }

    /// Ends [`Disk::load`] after the segment that is being loaded: the disk is about to be closed.
    pub fn stop_loading(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    /// The entries found in a segment; `None`: it is of no use.
    fn load_segment(&self, serial: u64) -> io::Result<Option<u64>> {
        let home = Home { disk: self.superblock.random, serial };
        let Some(file) = existing(self.files.open(&file_name(serial)))? else { return Ok(None) };
        let Some(found) = scan::find(&file, home)?.filter(|found| !found.entries.is_empty()) else {
            return Ok(None);
        };
        if !found.sealed {
            // A segment that cannot be sealed is scanned again at the next start.
            let end = seal(home, found.end, &found.entries);
            let sealed = file
                .write_full(&end, found.end)
                .and_then(|()| file.set_length(found.end + end.len() as u64))
                .and_then(|()| file.sync());
            let _ = sealed;
        }
        let length = file.length()?;
        let segment = self.add_segment(home, file, length, found.entries.len());
        let Some(segment) = segment else { return Ok(None) };
        segment.closed.store(true, Ordering::Relaxed);
        let purges = self.found.lock();
        let mut entries = 0;
        for listed in found.entries.iter().rev() {
            segment.note(listed.hash, listed.ticket, listed.expires);
            entries += u64::from(self.load_entry(&segment, listed, &purges));
        }
        Ok(Some(entries))
    }

    /// Enters a record unless it was purged. An expired one, too, until all are loaded: it stands
    /// before older ones of its key.
    fn load_entry(
        &self,
        segment: &Segment<F::File>,
        listed: &Listed,
        purges: &FoundPurges,
    ) -> bool {
        if purges.mean(listed.hash, listed.ticket) {
            return false;
        }
        let place = Place { segment: segment.number, at: listed.at };
        let entry = Entry { place, units: listed.units, expires: listed.expires, asked: 0 };
        // Counted first: an entry that is found may be dropped at once.
        segment.live.fetch_add(1, Ordering::Relaxed);
        let loaded = self.index.load(listed.hash, &entry);
        if !loaded {
            segment.live.fetch_sub(1, Ordering::Relaxed);
        }
        loaded
    }
}
