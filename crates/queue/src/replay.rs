//! The start: a journal read from its first record to its last valid one.
//!
//! The memory this takes depends on the items that were moved or aborted and on the gaps between
//! removed ids, not on the number of items.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use crate::format::{HEAD, Record};
use crate::journal::{Place, Scan, Segment, numbers};
use crate::ranges::Ranges;

/// A copy of an item from an older segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    pub(crate) place: Place,
    pub(crate) len: u32,
    pub(crate) flags: u32,
    pub(crate) added: u64,
    pub(crate) expires: u64,
    pub(crate) aborts: u32,
}

/// Something that is wrong with a journal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flaw {
    /// Bytes follow here that are no records.
    pub(crate) place: Place,
    /// They are a cut tail of the last segment: the process or the machine died while it wrote.
    pub(crate) is_tail: bool,
    /// Or: so many segments are missing, this one and those behind it.
    pub(crate) missing: u64,
}

/// The state of a queue as its journal has it.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    pub(crate) segments: Vec<Segment>,
    pub(crate) next_id: u64,
    /// Items that wait, the moved ones too, and their bytes.
    pub(crate) items: u64,
    pub(crate) bytes: u64,
    pub(crate) removed: Ranges,
    pub(crate) moved: HashMap<u64, Moved>,
    pub(crate) aborts: HashMap<u64, u32>,
    pub(crate) flaws: Vec<Flaw>,
    /// Ids of the first segment begin here.
    pub(crate) base: u64,
    /// The counts are not exact: they are made anew.
    recount: bool,
}

impl Replay {
    /// Reads the segments in `directory`. `cut`: a torn tail is removed from its file.
    pub(crate) fn read(directory: &Path, cut: bool) -> io::Result<Replay> {
        let numbers = numbers(directory)?;
        let mut replay = Replay { next_id: 1, ..Replay::default() };
        for (at, number) in numbers.iter().enumerate() {
            let is_last = at + 1 == numbers.len();
            if at > 0 {
                replay.gap(numbers[at - 1] + 1, *number);
            }
            replay.segment(directory, *number, is_last, cut)?;
        }
        if replay.recount || !replay.moved.is_empty() {
            replay.count(directory)?;
        }
        Ok(replay)
    }

    /// The segments before this number and from that one on are not there, where it is another
    /// one. Larder removes the oldest ones only.
    fn gap(&mut self, first: u64, number: u64) {
        if first < number && !self.segments.is_empty() {
            let place = Place { segment: first, offset: 0 };
            self.flaws.push(Flaw { place, is_tail: false, missing: number - first });
            // Removals of their items are counted, and the items are not.
            self.recount = true;
        }
    }

    fn segment(
        &mut self,
        directory: &Path,
        number: u64,
        is_last: bool,
        cut: bool,
    ) -> io::Result<()> {
        let mut scan = Scan::open(directory, number)?;
        let mut headed = false;
        let whole = scan.run(|record, offset| match record {
            Record::Head { next_id, .. } => {
                if self.segments.is_empty() && !headed {
                    self.base = next_id;
                }
                headed = true;
                self.next_id = self.next_id.max(next_id);
            }
            record => self.record(&record, Place { segment: number, offset }),
        })?;
        let len = scan.at;
        if !whole {
            let place = Place { segment: number, offset: len };
            self.flaws.push(Flaw { place, is_tail: is_last, missing: 0 });
            self.recount |= !is_last;
            if is_last && cut {
                scan.cut()?;
            }
        }
        if len >= HEAD {
            self.segments.push(Segment { number, len, held: 0 });
        }
        Ok(())
    }

    fn record(&mut self, record: &Record<'_>, place: Place) {
        match *record {
            Record::Head { .. } => {}
            Record::Item { id, added, expires, flags, moved, data } => {
                let len = data.len() as u32;
                self.next_id = self.next_id.max(id.saturating_add(1));
                if let Some(aborts) = moved {
                    self.moved(id, Moved { place, len, flags, added, expires, aborts });
                } else {
                    self.items += 1;
                    self.bytes += u64::from(len);
                }
            }
            Record::Removed { id, bytes } => {
                self.next_id = self.next_id.max(id.saturating_add(1));
                if id >= self.base && !self.removed.contains(id) {
                    self.recount |= self.items == 0;
                    self.items = self.items.saturating_sub(1);
                    self.bytes = self.bytes.saturating_sub(u64::from(bytes));
                }
                self.forget(id);
                self.removed.insert(id, id.saturating_add(1));
            }
            Record::Range { from, to, items, bytes } => {
                self.next_id = self.next_id.max(to);
                if from >= self.base {
                    self.recount |= self.items < items;
                    self.items = self.items.saturating_sub(items);
                    self.bytes = self.bytes.saturating_sub(bytes);
                } else if to > self.base {
                    self.recount = true;
                }
                self.moved.retain(|id, _| !(from..to).contains(id));
                self.aborts.retain(|id, _| !(from..to).contains(id));
                self.removed.insert(from, to);
            }
            Record::Aborted { id, aborts } => {
                if let Some(moved) = self.moved.get_mut(&id) {
                    moved.aborts = aborts;
                }
                self.aborts.insert(id, aborts);
            }
            Record::Returned { id, added, expires, flags, aborts, segment, offset, bytes } => {
                self.next_id = self.next_id.max(id.saturating_add(1));
                let place = Place { segment, offset };
                self.moved(id, Moved { place, len: bytes, flags, added, expires, aborts });
            }
        }
    }

    /// An item has its record at another place than in the order of the items.
    fn moved(&mut self, id: u64, moved: Moved) {
        // A taken item that came back was counted as removed: a range would count it once more.
        self.recount |= self.removed.contains(id);
        self.moved.insert(id, moved);
    }

    fn forget(&mut self, id: u64) {
        self.moved.remove(&id);
        self.aborts.remove(&id);
    }

    /// Counts the items anew, by a second look at all segments.
    fn count(&mut self, directory: &Path) -> io::Result<()> {
        let (mut items, mut bytes) = (0, 0);
        for segment in &self.segments {
            Scan::open(directory, segment.number)?.run(|record, _| {
                if let Record::Item { id, moved: None, data, .. } = record
                    && !self.removed.contains(id)
                    && !self.moved.contains_key(&id)
                {
                    items += 1;
                    bytes += data.len() as u64;
                }
            })?;
        }
        let moved: u64 = self.moved.values().map(|moved| u64::from(moved.len)).sum();
        self.items = items + self.moved.len() as u64;
        self.bytes = bytes + moved;
        Ok(())
    }
}
