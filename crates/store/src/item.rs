//! Records: the bytes of an entry in a segment.
//!
//! ```text
//! 0   u32  namespace 5 | shape 4 | key length 8 | value length 15   (31: a gap, in words)
//! 4   u32  last access, seconds 27 | claimed 1 | stale 1 | fetched 1 | frequency 2   changes
//!     u32  E  expiry in ms on the segment's clock                        changes
//!     u32  F  the client's flags
//!     u64  V  origin, once a record has been moved (else: serial of the segment and offset)
//!     32 B X  u16 key length, u16 tags (top bit: C is there), u32 middle pieces,
//!             u32 local length, u32 head length, u64 whole length, u64 expiry
//!     u64  C  the version its writer chose (else: the origin)
//!             then the tags (u64 each) and the middle pieces (segments, u32 each)
//!     key, then the value's local bytes: head, tail. Middle pieces lie between them, a segment each.
//! ```
//! Fields marked `changes` change while the record is linked. `Store::mark_stale` puts its own time
//! in place of the last access. The origin identifies the write that
//! made an entry: no two writes have the same, and a flush compares it. E, F, V and X are present
//! only when needed, so that a small entry has 8 bytes of header. Records start at multiples of
//! four. In a store that evicts nothing every record has E: once full, it has no other place for a
//! record that gets an expiry.

mod draft;
mod word;

pub(crate) use draft::Draft;
pub(crate) use word::{CLAIMED, STALE, Word, fresh_word};
use word::{FETCHED, FREQUENCY};

use crate::segment::{Loc, OFFSET_BITS, Segments};
use crate::types::{EntryInfo, Ms, Namespace};
use std::sync::atomic::{AtomicU32, Ordering, fence};

const E: u32 = 1;
const F: u32 = 2;
const V: u32 = 4;
const X: u32 = 8;
const GAP: u32 = 31;
const NS_SHIFT: u32 = 27;
const SHAPE_SHIFT: u32 = 23;
const KEY_SHIFT: u32 = 15;
/// Longest value in the short form.
const SHORT_VALUE: usize = (1 << KEY_SHIFT) - 1;
/// Among X's tags: a chosen version follows.
const CHOSEN: usize = 1 << 15;
const X_SIZE: usize = 32;
/// E when the entry never expires.
const NEVER: u32 = u32::MAX;
/// E when the expiry is the one in X.
const FAR: u32 = NEVER - 1;

/// Longest header, in bytes, without tags and middle pieces.
pub(crate) const MAX_HEADER: usize = 8 + 4 + 4 + 8 + X_SIZE + 8;

/// The words of a gap of `len` bytes that a walk needs.
pub(crate) fn pad(len: usize) -> [u8; 4] {
    (GAP << NS_SHIFT | (len / 4) as u32).to_ne_bytes()
}

/// Bytes before the chosen version, tags, pieces and key.
#[inline]
fn prefix(shape: u32) -> usize {
    usize::from(PREFIX[(shape & 15) as usize])
}

const PREFIX: [u8; 16] = {
    let mut sizes = [0; 16];
    let mut shape = 0;
    while shape < 16 {
        sizes[shape as usize] = (8 + 4 * (shape & E) + 2 * (shape & F) + 2 * (shape & V)) as u8
            + (shape / X) as u8 * X_SIZE as u8;
        shape += 1;
    }
    sizes
};

fn origin_at(segments: &Segments, loc: Loc) -> u64 {
    segments.serial(loc.segment()) << OFFSET_BITS | (loc.byte() >> 2) as u64
}

/// A record that stays in place and complete for `'a`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    segments: &'a Segments,
    loc: Loc,
    desc: u32,
}

impl<'a> Record<'a> {
    /// The record at `loc`.
    ///
    /// # Safety
    /// A complete record starts there, and its segment is not reused before the end of `'a`: a
    /// validated pin is held, or the lock of its stripe while it is linked, or the segment is the
    /// caller's victim.
    #[inline]
    pub(crate) unsafe fn at(segments: &'a Segments, loc: Loc) -> Record<'a> {
        // The descriptor never changes; the load is atomic because `Map::word` is the safe way.
        let desc = segments.map.word(segments.at(loc)).load(Ordering::Relaxed);
        Record { segments, loc, desc }
    }

    #[inline]
    pub(crate) fn loc(&self) -> Loc {
        self.loc
    }

    /// The segments that contain it.
    #[inline]
    pub(crate) fn segments(&self) -> &'a Segments {
        self.segments
    }

    #[inline]
    pub(crate) fn is_gap(&self) -> bool {
        self.desc >> NS_SHIFT == GAP
    }

    #[inline]
    pub(crate) fn ns(&self) -> Namespace {
        Namespace((self.desc >> NS_SHIFT) as u8)
    }

    #[inline]
    fn shape(&self) -> u32 {
        self.desc >> SHAPE_SHIFT & 15
    }

    #[inline]
    fn bytes(&self, offset: usize, len: usize) -> &'a [u8] {
        // SAFETY: inside the record, whose plain bytes nobody writes while it is in place
        // (`Record::at`); the two words that change are never read this way, and the value of a
        // part with room only under the lock under which it changes (`edit.rs`).
        unsafe { self.segments.map.bytes(self.segments.at(self.loc) + offset, len) }
    }

    #[inline]
    fn u16(&self, offset: usize) -> usize {
        usize::from(u16::from_ne_bytes(self.bytes(offset, 2).try_into().unwrap_or_default()))
    }

    #[inline]
    fn u32(&self, offset: usize) -> usize {
        u32::from_ne_bytes(self.bytes(offset, 4).try_into().unwrap_or_default()) as usize
    }

    #[inline]
    fn u64(&self, offset: usize) -> u64 {
        u64::from_ne_bytes(self.bytes(offset, 8).try_into().unwrap_or_default())
    }

    /// Offset of X's field at `field`.
    #[inline]
    fn wide(&self, field: usize) -> usize {
        prefix(self.shape()) - X_SIZE + field
    }

    /// Does it have the long header, with tags, pieces, a chosen version or large lengths?
    #[inline]
    pub(crate) fn is_wide(&self) -> bool {
        self.shape() & X != 0
    }

    #[inline]
    fn key_len(&self) -> usize {
        if self.is_wide() {
            self.u16(self.wide(0))
        } else {
            (self.desc >> KEY_SHIFT & 255) as usize
        }
    }

    /// Does it have a version chosen by its writer?
    #[inline]
    fn is_chosen(&self) -> bool {
        self.is_wide() && self.u16(self.wide(2)) & CHOSEN != 0
    }

    #[inline]
    fn tag_bytes(&self) -> usize {
        if self.is_wide() { 8 * (self.u16(self.wide(2)) & !CHOSEN) } else { 0 }
    }

    /// Where the tags start.
    #[inline]
    fn tags_at(&self) -> usize {
        prefix(self.shape()) + if self.is_chosen() { 8 } else { 0 }
    }

    #[inline]
    fn piece_bytes(&self) -> usize {
        if self.is_wide() { 4 * self.u32(self.wide(4)) } else { 0 }
    }

    #[inline]
    fn local_len(&self) -> usize {
        if self.is_wide() { self.u32(self.wide(8)) } else { self.desc as usize & SHORT_VALUE }
    }

    #[inline]
    fn key_at(&self) -> usize {
        if !self.is_wide() {
            return prefix(self.shape());
        }
        self.tags_at() + self.tag_bytes() + self.piece_bytes()
    }

    #[inline(always)]
    pub(crate) fn key(&self) -> &'a [u8] {
        self.bytes(self.key_at(), self.key_len())
    }

    #[inline(always)]
    pub(crate) fn is(&self, ns: Namespace, key: &[u8]) -> bool {
        if self.is_wide() {
            return self.is_by_parts(ns, key);
        }
        // Namespace and length at once; a longer key has no such description.
        let wanted = u32::from(ns.0) << NS_SHIFT | (key.len() as u32) << KEY_SHIFT;
        (self.desc ^ wanted) & (GAP << NS_SHIFT | 255 << KEY_SHIFT) == 0
            && key.len() < 256
            && self.bytes(prefix(self.shape()), key.len()) == key
    }

    #[inline(never)]
    fn is_by_parts(&self, ns: Namespace, key: &[u8]) -> bool {
        self.ns() == ns && self.key_len() == key.len() && self.key() == key
    }

    /// Bytes of the record and of its entry, if the header is short.
    #[inline]
    pub(crate) fn short_sizes(&self) -> Option<(usize, u64)> {
        if self.is_wide() {
            return None;
        }
        let entry = (self.desc >> KEY_SHIFT & 255) as usize + (self.desc as usize & SHORT_VALUE);
        Some(((prefix(self.shape()) + entry).next_multiple_of(4), entry as u64))
    }

    /// Size in its segment, in bytes.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        if self.is_gap() {
            return 4 * (self.desc & ((1 << NS_SHIFT) - 1)) as usize;
        }
        (self.key_at() + self.key_len() + self.local_len()).next_multiple_of(4)
    }

    /// Tags, 8 bytes each.
    #[inline]
    pub(crate) fn tags(&self) -> &'a [u8] {
        self.bytes(self.tags_at(), self.tag_bytes())
    }

    pub(crate) fn has_tag(&self, tag: u64) -> bool {
        self.tags().chunks_exact(8).any(|t| t == tag.to_ne_bytes())
    }

    /// Segments of the middle, 4 bytes each.
    #[inline]
    pub(crate) fn pieces(&self) -> &'a [u8] {
        self.bytes(self.tags_at() + self.tag_bytes(), self.piece_bytes())
    }

    #[inline]
    pub(crate) fn piece(&self, n: usize) -> Option<u32> {
        if !self.is_wide() {
            return None;
        }
        let p = self.pieces().get(4 * n..4 * n + 4)?;
        Some(u32::from_ne_bytes([p[0], p[1], p[2], p[3]]))
    }

    /// The value's bytes in the record: head, then tail.
    #[inline(always)]
    pub(crate) fn local(&self) -> &'a [u8] {
        self.bytes(self.key_at() + self.key_len(), self.local_len())
    }

    /// Offset of the value's first byte in the mapping.
    #[inline]
    pub(crate) fn value_at(&self) -> usize {
        self.segments.at(self.loc) + self.key_at() + self.key_len()
    }

    /// The local bytes before the middle.
    #[inline]
    pub(crate) fn head(&self) -> &'a [u8] {
        if self.is_wide() { &self.local()[..self.head_len()] } else { self.local() }
    }

    /// How many of the local bytes come before the middle.
    #[inline]
    pub(crate) fn head_len(&self) -> usize {
        if self.is_wide() { self.u32(self.wide(12)) } else { self.local_len() }
    }

    /// Bytes of the whole value.
    #[inline]
    pub(crate) fn total(&self) -> u64 {
        if self.is_wide() { self.u64(self.wide(16)) } else { self.local_len() as u64 }
    }

    /// Is it a stub, whose value lies elsewhere (`away.rs`)?
    #[inline]
    pub(crate) fn is_away(&self) -> bool {
        self.is_wide() && self.piece_bytes() == 0 && self.total() != self.local_len() as u64
    }

    /// Bytes of the entry: key and value.
    #[inline]
    pub(crate) fn bytes_of_entry(&self) -> u64 {
        self.key_len() as u64 + self.total()
    }

    pub(crate) fn flags(&self) -> u32 {
        let at = 8 + 4 * (self.shape() & E) as usize;
        if self.shape() & F != 0 { self.u32(at) as u32 } else { 0 }
    }

    #[inline]
    fn expiry_word(&self) -> Option<&'a AtomicU32> {
        (self.shape() & E != 0).then(|| self.segments.map.word(self.segments.at(self.loc) + 8))
    }

    #[inline(always)]
    pub(crate) fn expires(&self) -> Option<Ms> {
        if self.shape() & (E | X) == 0 {
            return None;
        }
        if let Some(word) = self.expiry_word() {
            let d = word.load(Ordering::Relaxed);
            return match d {
                NEVER => None,
                FAR => self.long_expiry(),
                d => Some(self.segments.base(self.loc.segment()) + Ms::from(d)),
            };
        }
        self.long_expiry()
    }

    /// X's expiry, if there is one.
    #[inline]
    fn long_expiry(&self) -> Option<Ms> {
        if !self.is_wide() {
            return None;
        }
        let long = self.u64(self.wide(24));
        (long != u64::MAX).then_some(long)
    }

    /// Changes the expiry in place; false if the record has no field for this one.
    pub(crate) fn touch(&self, expires: Option<Ms>) -> bool {
        let Some(word) = self.expiry_word() else { return expires == self.expires() };
        let segment = self.loc.segment();
        let Some(t) = expires else {
            word.store(NEVER, Ordering::Relaxed);
            return true;
        };
        // The sweep uses the reverse order: it sees the new expiry or leaves the segment's time.
        let base = self.segments.base(segment);
        if t < base || t - base >= u64::from(FAR) {
            return expires == self.expires();
        }
        word.store((t - base) as u32, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.segments.heat(segment).expiry.fetch_min(t, Ordering::Relaxed);
        true
    }

    #[inline]
    pub(crate) fn expired(&self, now: Ms) -> bool {
        self.expires().is_some_and(|t| t <= now)
    }

    #[inline]
    pub(crate) fn version(&self) -> u64 {
        if self.is_chosen() { self.u64(prefix(self.shape())) } else { self.origin() }
    }

    /// Number of the write that made it: it stays when the record is moved.
    #[inline]
    pub(crate) fn origin(&self) -> u64 {
        if self.shape() & V == 0 {
            return origin_at(self.segments, self.loc);
        }
        self.u64(8 + (4 * (self.shape() & E) + 2 * (self.shape() & F)) as usize)
    }

    /// Serial of the segment it was first written to: orders writes before and after a flush.
    #[inline]
    pub(crate) fn serial(&self) -> u64 {
        self.origin() >> OFFSET_BITS
    }

    #[inline]
    fn changing(&self) -> &'a AtomicU32 {
        self.segments.map.word(self.segments.at(self.loc) + 4)
    }

    #[inline]
    pub(crate) fn word(&self) -> Word {
        Word(self.changing().load(Ordering::Relaxed))
    }

    /// Records a read; writes only if that changes something.
    #[inline]
    pub(crate) fn note_read(&self, old: Word, now: Ms) {
        let frequency = (old.frequency() + 1).min(FREQUENCY);
        let new = fresh_word(now) | old.0 & (STALE | CLAIMED) | FETCHED | frequency;
        if new != old.0 {
            // If another thread changes the word now, this read is not recorded: harmless.
            let _ =
                self.changing().compare_exchange(old.0, new, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    pub(crate) fn mark_stale(&self) {
        self.changing().fetch_or(STALE, Ordering::Relaxed);
    }

    /// Marks it stale, with the time in place of its last access; a mark that is there stays.
    pub(crate) fn mark_stale_at(&self, now: Ms) {
        let marked = |old| (!Word(old).stale()).then(|| Word(old).stale_at(now));
        let _ = self.changing().fetch_update(Ordering::Relaxed, Ordering::Relaxed, marked);
    }

    /// Clears the claim. Under the lock of its stripe.
    pub(crate) fn unclaim(&self) {
        self.changing().fetch_and(!CLAIMED, Ordering::Relaxed);
    }

    /// Sets the claim; true for the first caller. Under its stripe's lock, so no move loses it.
    pub(crate) fn claim(&self) -> bool {
        self.changing().fetch_or(CLAIMED, Ordering::AcqRel) & CLAIMED == 0
    }

    pub(crate) fn base(&self) -> Ms {
        self.segments.base(self.loc.segment())
    }

    pub(crate) fn info(&self) -> EntryInfo {
        let word = self.word();
        EntryInfo {
            len: self.total(),
            flags: self.flags(),
            expires: self.expires(),
            version: self.version(),
            last_access: word.last_access(self.base()),
            fetched: word.fetched(),
            stale: word.stale(),
            claimed: word.claimed(),
        }
    }

    /// The same entry for another place, with its version. `roomy`: see [`Draft`].
    pub(crate) fn draft(&self, word: u32, roomy: bool) -> Draft<'a> {
        Draft {
            ns: self.ns(),
            key: self.key(),
            flags: self.flags(),
            expires: self.expires(),
            origin: Some(self.origin()),
            version: self.is_chosen().then(|| self.version()),
            tags: self.tags(),
            pieces: self.pieces(),
            head: self.head_len(),
            local: self.local_len(),
            total: self.total(),
            word,
            roomy,
        }
    }
}
