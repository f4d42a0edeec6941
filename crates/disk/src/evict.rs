//! Eviction: whole segments go. First one that has nothing left (all of it replaced, purged or
//! expired), else the oldest. Of the oldest, records that were asked for since they were written go
//! to the open segment again, those asked for most first, up to a part of a segment; that bounds
//! the bytes written for one byte accepted.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::disk::{Segment, file_name, read_frame};
use crate::files::Files;
use crate::format::{Listed, UNIT, seconds};
use crate::index::Place;
use crate::journal;
use crate::scan;
use crate::types::{Ms, PutError};
use crate::writer::{New, Origin, Writer};

/// Part of a segment that is written again when one is evicted: a fifth, so that 1.25 bytes are
/// written for one that was accepted.
const AGAIN: u64 = 5;
impl<F: Files> Writer<F> {
    /// Evicts until there is room for one more segment. `again`: records that are asked for are
    /// written again; there must be an open segment.
    pub(crate) fn make_room(&mut self, now: Ms, again: bool) -> Result<(), PutError> {
        let options = self.disk.options.clone();
        let usable = options.size - journal::length(options.size) - options.segment();
        loop {
            let (used, count) = {
                let segments = self.disk.segments.read();
                let all = segments.iter().flatten();
                all.fold((0, 0), |(used, count), segment| (used + segment.length(), count + 1))
            };
            if used <= usable && count < options.files() {
                return Ok(());
            }
            // Entries that are not in the index yet cannot be taken out of it.
            if self.disk.loading.load(Ordering::SeqCst) {
                return if again { Ok(()) } else { Err(PutError::Busy) };
            }
            let Some(victim) = self.victim(now) else { return Ok(()) };
            self.evict(&victim, now, again)?;
        }
    }

    /// Evicts one segment, as the file system is full; if there is none to evict, `full` is the
    /// error.
    pub(crate) fn make_way(&mut self, full: io::Error, now: Ms) -> Result<(), PutError> {
        if self.disk.loading.load(Ordering::SeqCst) {
            return Err(full.into());
        }
        match self.victim(now) {
            Some(victim) => self.evict(&victim, now, false),
            None => Err(full.into()),
        }
    }

    /// Removes a segment if the file system was full when something else was written.
    pub(crate) fn relieve(&mut self, now: Ms) -> io::Result<()> {
        if self.disk.loading.load(Ordering::SeqCst)
            || !self.disk.cramped.swap(false, Ordering::SeqCst)
        {
            return Ok(());
        }
        match self.victim(now).map_or(Ok(()), |victim| self.evict(&victim, now, false)) {
            Err(PutError::Io(error)) => Err(error),
            _ => Ok(()),
        }
    }

    fn victim(&self, now: Ms) -> Option<Arc<Segment<F::File>>> {
        let segments = self.disk.segments.read();
        let closed = || segments.iter().flatten().filter(|s| s.closed.load(Ordering::Relaxed));
        let dead = |segment: &&Arc<Segment<F::File>>| {
            segment.live.load(Ordering::Relaxed) == 0
                || segment.expires.load(Ordering::Relaxed) <= seconds(Some(now))
        };
        let oldest = || closed().min_by_key(|segment| segment.home.serial);
        closed().find(dead).or_else(oldest).cloned()
    }

    fn evict(
        &mut self,
        victim: &Arc<Segment<F::File>>,
        now: Ms,
        again: bool,
    ) -> Result<(), PutError> {
        let listed = scan::find(&victim.file, victim.home).ok().flatten();
        let entries = listed.map(|found| found.entries).unwrap_or_default();
        if again {
            self.write_again(victim, &entries, now)?;
        }
        // Durably, before its keys are forgotten: a purge of one of them is not written then.
        match self.disk.files.remove(&file_name(victim.home.serial)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => self.disk.files.sync()?,
        }
        let mut evicted = 0;
        for entry in &entries {
            let place = Place { segment: victim.number, at: entry.at };
            if let Some(gone) = self.disk.index.remove_at(entry.hash, place) {
                victim.live.fetch_sub(1, Ordering::Relaxed);
                evicted += u64::from(gone.expires > seconds(Some(now)));
            }
        }
        // Only where the list was damaged.
        if victim.live.load(Ordering::Relaxed) > 0 {
            evicted += self.disk.index.remove_segment(victim.number);
        }
        self.disk.counters.evicted.fetch_add(evicted, Ordering::Relaxed);
        // Its place may have another segment by now.
        if let Some(place) = self.disk.segments.write().get_mut(usize::from(victim.number))
            && place.as_ref().is_some_and(|segment| Arc::ptr_eq(segment, victim))
        {
            *place = None;
        }
        Ok(())
    }

    /// Writes the live records that were asked for again, as long as the open segment has room: a
    /// new one would have to make room itself. One that cannot be read is not.
    fn write_again(
        &mut self,
        victim: &Segment<F::File>,
        entries: &[Listed],
        now: Ms,
    ) -> Result<(), PutError> {
        let mut asked: Vec<(u8, &Listed)> = entries
            .iter()
            .filter_map(|listed| {
                let entry = self.disk.index.get(listed.hash)?;
                let here = entry.place == Place { segment: victim.number, at: listed.at };
                let wanted = here && entry.asked > 0 && entry.expires > seconds(Some(now));
                wanted.then_some((entry.asked, listed))
            })
            .collect();
        asked.sort_by_key(|(asked, listed)| (std::cmp::Reverse(*asked), listed.at));
        let mut budget = self.disk.options.segment() / AGAIN;
        for (_, listed) in asked {
            let length = u64::from(listed.units) * UNIT as u64;
            if length > budget {
                continue;
            }
            if !self.open.as_ref().is_some_and(|open| self.has_room(open, length)) {
                break;
            }
            let at = u64::from(listed.at) * UNIT as u64;
            let Ok(Some(record)) = read_frame(victim, at, length) else { continue };
            budget -= length;
            let place = Place { segment: victim.number, at: listed.at };
            self.append(
                &New {
                    key: record.key(),
                    pieces: &[record.bytes()],
                    ticket: record.ticket,
                    expires: record.expires,
                    origin: Origin::Moved(place),
                },
                now,
            )?;
        }
        Ok(self.flush(now)?)
    }
}
