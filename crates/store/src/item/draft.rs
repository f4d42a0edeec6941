//! Records before they are written: their size and their bytes (see `item.rs` for the format).

use super::{
    CHOSEN, E, F, FAR, KEY_SHIFT, NEVER, NS_SHIFT, SHAPE_SHIFT, SHORT_VALUE, V, X, origin_at,
    prefix,
};
use crate::log::Space;
use crate::segment::{SHORT_EXPIRY, SHORT_PAST, Segments};
use crate::types::{Ms, Namespace};
use std::sync::atomic::Ordering;

/// A record to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draft<'a> {
    pub(crate) ns: Namespace,
    pub(crate) key: &'a [u8],
    pub(crate) flags: u32,
    pub(crate) expires: Option<Ms>,
    /// Origin from an earlier place.
    pub(crate) origin: Option<u64>,
    /// The version chosen by the writer; `None`: its origin.
    pub(crate) version: Option<u64>,
    /// Tags, 8 bytes each.
    pub(crate) tags: &'a [u8],
    /// Middle pieces, 4 bytes each.
    pub(crate) pieces: &'a [u8],
    /// Bytes before the middle pieces.
    pub(crate) head: usize,
    /// Bytes in the record.
    pub(crate) local: usize,
    /// Bytes of the whole value.
    pub(crate) total: u64,
    pub(crate) word: u32,
    /// Keeps a field for an expiry even if the record has none, or one too far for the short form.
    pub(crate) roomy: bool,
}

impl Draft<'_> {
    /// Which parts the header has, for a record written at `now`.
    #[inline]
    pub(crate) fn shape(&self, now: Ms) -> u32 {
        let short = self.expires.is_some_and(|t| t + SHORT_PAST >= now && t < now + SHORT_EXPIRY);
        let wide = self.key.len() > 255
            || self.local > SHORT_VALUE
            || self.version.is_some()
            || !self.tags.is_empty()
            || !self.pieces.is_empty()
            || self.total != self.local as u64
            || (self.expires.is_some() && !short);
        (E * u32::from(short | self.roomy))
            | (F * u32::from(self.flags != 0))
            | (V * u32::from(self.origin.is_some()))
            | (X * u32::from(wide))
    }

    /// Size of the entry as the policy counts it, in bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        // Of a stub, the bytes that are here.
        let value = if self.pieces.is_empty() { self.local as u64 } else { self.total };
        self.key.len() as u64 + value
    }

    /// Bytes of the record, a multiple of four.
    #[inline]
    pub(crate) fn size(&self, now: Ms) -> usize {
        self.size_as(self.shape(now))
    }

    /// [`Draft::size`] for a known shape.
    #[inline]
    pub(crate) fn size_as(&self, shape: u32) -> usize {
        let chosen = 8 * usize::from(self.version.is_some());
        let fields = chosen + self.key.len() + self.local + self.tags.len() + self.pieces.len();
        (prefix(shape) + fields).next_multiple_of(4)
    }

    /// Writes the record; `space` has [`Draft::size`] of the same `now`. Returns its version.
    #[inline]
    pub(crate) fn write(
        &self,
        segments: &Segments,
        space: &mut Space<'_>,
        now: Ms,
        value: &[&[u8]],
    ) -> u64 {
        self.write_as(self.shape(now), self.word, segments, space, value)
    }

    /// [`Draft::write`] for a known shape, with another changing word.
    #[inline]
    pub(crate) fn write_as(
        &self,
        shape: u32,
        word: u32,
        segments: &Segments,
        space: &mut Space<'_>,
        value: &[&[u8]],
    ) -> u64 {
        let (klen, vlen) =
            if shape & X != 0 { (0, 0) } else { (self.key.len() as u32, self.local as u32) };
        let desc =
            u32::from(self.ns.0) << NS_SHIFT | shape << SHAPE_SHIFT | klen << KEY_SHIFT | vlen;
        let loc = space.loc();
        space.put_word(two_words(desc, word));
        if let Some(t) = self.expires {
            let earliest = &segments.heat(loc.segment()).expiry;
            // It only ever falls while this space is held (a sweep of open segments waits for that
            // too).
            if t < earliest.load(Ordering::Relaxed) {
                earliest.fetch_min(t, Ordering::Relaxed);
            }
        }
        if shape & E != 0 {
            let base = segments.base(loc.segment());
            let short = self.expires.map_or(NEVER, |t| short_expiry(t, base, shape & X != 0));
            space.put_word(short.to_ne_bytes());
        }
        if shape & F != 0 {
            space.put_word(self.flags.to_ne_bytes());
        }
        if let Some(origin) = self.origin {
            space.put_word(origin.to_ne_bytes());
        }
        if shape & X != 0 {
            self.write_wide(space);
        }
        space.put(self.key);
        value.iter().for_each(|part| space.put(part));
        self.version.or(self.origin).unwrap_or_else(|| origin_at(segments, loc))
    }

    #[inline(never)]
    fn write_wide(&self, space: &mut Space<'_>) {
        space.put(&(self.key.len() as u16).to_ne_bytes());
        let chosen = if self.version.is_some() { CHOSEN } else { 0 };
        space.put(&(((self.tags.len() / 8) | chosen) as u16).to_ne_bytes());
        space.put(&((self.pieces.len() / 4) as u32).to_ne_bytes());
        space.put(&(self.local as u32).to_ne_bytes());
        space.put(&(self.head as u32).to_ne_bytes());
        space.put(&self.total.to_ne_bytes());
        space.put(&self.expires.unwrap_or(u64::MAX).to_ne_bytes());
        if let Some(version) = self.version {
            space.put(&version.to_ne_bytes());
        }
        space.put(self.tags);
        space.put(self.pieces);
    }
}

fn two_words(first: u32, second: u32) -> [u8; 8] {
    let (low, high) =
        if cfg!(target_endian = "little") { (first, second) } else { (second, first) };
    (u64::from(high) << 32 | u64::from(low)).to_ne_bytes()
}

/// E for an expiry. If X has the expiry, values that E cannot hold are left to X.
fn short_expiry(t: Ms, base: Ms, wide: bool) -> u32 {
    match t.checked_sub(base) {
        Some(d) if d < Ms::from(FAR) => d as u32,
        _ if wide => FAR,
        Some(_) => FAR - 1,
        None => 0,
    }
}
