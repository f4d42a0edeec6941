//! Records together with the guard that keeps them in place: other files access records only
//! through these types.
//!
//! A record may be read as long as one of these holds: a pin that was taken while a slot pointed to
//! it (or while its segment was sealed, or while its log was locked with no writer in it); the lock
//! of its stripe, while it is linked there; or the caller is the thread that empties its segment.

use crate::index::Locked;
use crate::item::Record;
use crate::pin::Pin;
use crate::segment::{Loc, Segments};
use std::marker::PhantomData;
use std::sync::atomic::AtomicU64;

/// A pinned record: it stays in place until this is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Held<'s> {
    record: Record<'s>,
    _pin: Pin<'s>,
    /// Pin of the first middle piece, on behalf of all of them.
    _anchor: Option<Pin<'s>>,
}

impl<'s> Held<'s> {
    /// Pins the record `slot` points to, if the slot still holds `value`, and the record's middle
    /// pieces.
    #[inline(always)]
    pub(crate) fn by_slot(
        segments: &'s Segments,
        slot: &AtomicU64,
        value: u64,
        loc: Loc,
    ) -> Option<Held<'s>> {
        let pin = segments.pins.pin_if(loc.segment(), slot, value)?;
        // SAFETY: pinned while the slot pointed here, so the segment is not reused before the pin
        // is dropped, and outside this type the record is only lent while the pin exists.
        let record = unsafe { Record::at(segments, loc) };
        let anchor = match record.piece(0) {
            // The slot still points here after the second pin, so the pieces were not freed before
            // it.
            Some(first) => Some(segments.pins.pin_if(first, slot, value)?),
            None => None,
        };
        Some(Held { record, _pin: pin, _anchor: anchor })
    }

    /// Pins a linked record under the lock of its stripe.
    pub(crate) fn by_lock(segments: &'s Segments, _locked: &Locked<'_>, loc: Loc) -> Held<'s> {
        let pin = segments.pins.pin(loc.segment());
        // SAFETY: linked and locked now, so a thread that wants to reuse the segment will find the
        // pin first.
        let record = unsafe { Record::at(segments, loc) };
        let anchor = record.piece(0).map(|first| segments.pins.pin(first));
        Held { record, _pin: pin, _anchor: anchor }
    }

    #[inline]
    pub(crate) fn record(&self) -> Record<'_> {
        self.record
    }

    /// The bytes of the value from `offset` that lie in one piece; empty at the end.
    pub(crate) fn chunk_at(&self, offset: u64) -> &[u8] {
        let record = self.record();
        let (local, head) = (record.local(), record.head_len());
        if offset < head as u64 {
            return &local[offset as usize..head];
        }
        let middle = record.total() - local.len() as u64;
        let within = offset - head as u64;
        if within >= middle {
            return local[head..].get((within - middle) as usize..).unwrap_or_default();
        }
        let segments = record.segments();
        let size = segments.size() as u64;
        let Some(piece) = record.piece((within / size) as usize) else { return &[] };
        let from = within % size;
        let len = (size - from).min(middle - within);
        // SAFETY: the pieces belong to the record, are never written after its commit, and are not
        // reused before the anchor's pin is dropped.
        unsafe { segments.map.bytes(segments.start(piece) + from as usize, len as usize) }
    }
}

/// The record that a slot under this thread's lock points to.
pub(crate) fn locked<'a>(segments: &'a Segments, _locked: &'a Locked<'_>, loc: Loc) -> Record<'a> {
    // SAFETY: the location came from a slot of the locked stripe: while the lock is held it stays
    // linked, and a segment is not reused before its evictor has held the lock of every record in
    // it.
    unsafe { Record::at(segments, loc) }
}

/// Puts these bytes in place of the first ones of the value of a part with room (`edit.rs`), which
/// has as many.
pub(crate) fn rewrite(_locked: &Locked<'_>, record: &Record<'_>, parts: &[&[u8]]) {
    let (segments, mut at) = (record.segments(), record.value_at());
    let len: usize = parts.iter().map(|part| part.len()).sum();
    assert!(len <= record.local().len(), "it has room");
    for part in parts {
        // SAFETY: inside the value of the record, whose bytes are read and written under the lock
        // of its stripe alone, which this thread has: no reference to them is left, since those
        // that are made under the lock end with it.
        unsafe { segments.map.write(at, part) };
        at += part.len();
    }
}

/// Permission to walk a segment: for `'a` it is not reused, and no writer is left in it.
#[derive(Clone, Copy)]
pub(crate) struct Hold<'a>(PhantomData<&'a ()>);

impl<'a> Hold<'a> {
    /// The caller took the segment out of its queue.
    pub(crate) fn victim() -> Hold<'static> {
        Hold(PhantomData)
    }

    /// The segment was pinned while sealed, or while its log was locked.
    pub(crate) fn pinned(_pin: &'a Pin<'_>) -> Hold<'a> {
        Hold(PhantomData)
    }
}

/// Calls `f` with every record in the first `filled` bytes of a segment.
pub(crate) fn walk(
    segments: &Segments,
    _hold: Hold<'_>,
    segment: u32,
    filled: usize,
    mut f: impl FnMut(&Record<'_>),
) {
    let mut at = 0;
    while at < filled {
        // SAFETY: records follow one another up to `filled`, all are complete since no writer is
        // left, and the hold keeps the segment from being reused.
        let record = unsafe { Record::at(segments, Loc::new(segment, at)) };
        at += record.size();
        if !record.is_gap() {
            f(&record);
        }
    }
}
