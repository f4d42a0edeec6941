//! The page record: one byte format for a stored page in memory, on disk and in the remote tier.
//!
//! docs/page-format.md is the definition; this module reads and writes it. [`encode_head`] returns
//! all bytes before the body, [`Trailer`] the bytes after it, [`view`] reads a record without
//! copying or allocating. A record that cannot be read is [`Damaged`] and counts as a miss.

mod check;
mod encode;
mod objects;
mod parts;
mod slices;
mod view;

#[cfg(test)]
mod tests;

pub use check::{BodyCheck, Trailer};
pub use encode::{Parts, TooLarge, encode_head};
pub use objects::{object_of_disk, object_on_disk};
pub use parts::{Pairs, Tags};
pub use slices::{Slices, is_slice_on_disk, slice_on_disk};
pub use view::{Damaged, PageView, Verify, verify_trailer, view};

use crate::{Ms, Secs};

/// Bytes of the fixed header.
pub const HEADER_LEN: usize = 128;
/// Bytes of the trailer.
pub const TRAILER_LEN: usize = 24;
/// Greatest length of the bytes before the body: the store keeps them in one contiguous piece.
pub const MAX_HEAD_LEN: usize = 128 * 1024;

pub(crate) const MAGIC: [u8; 4] = *b"LRDP";
pub(crate) const TAIL_MAGIC: [u8; 8] = *b"LRDPTAIL";
pub(crate) const VERSION: u8 = 1;
pub(crate) const CHECKSUM_AT: usize = 120;

/// Kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Kind {
    /// A stored response.
    #[default]
    Page,
    /// Stored under the primary key of a resource that varies; names the fields that select a
    /// variant.
    VaryMarker,
    /// The last response was not storable: do not make requests for this key wait for each other.
    HitForMiss,
    /// A page in a content coding, made of the page that lies in memory.
    Form,
}

/// Content coding of the stored body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum Encoding {
    /// Not encoded.
    #[default]
    Identity,
    /// `gzip` or `x-gzip`
    Gzip,
    /// `br`
    Br,
    /// `zstd`
    Zstd,
    /// `deflate`
    Deflate,
    /// `dcb`: brotli with a dictionary; of forms alone.
    Dcb,
    /// `dcz`: zstd with a dictionary; of forms alone.
    Dcz,
    /// Another coding, or several.
    Other,
}

impl Encoding {
    /// Reads a `Content-Encoding` value; `None` means the field is absent.
    pub fn of(content_encoding: Option<&[u8]>) -> Self {
        let Some(value) = content_encoding.map(<[u8]>::trim_ascii) else { return Self::Identity };
        match value {
            v if v.is_empty() || v.eq_ignore_ascii_case(b"identity") => Self::Identity,
            v if v.eq_ignore_ascii_case(b"gzip") || v.eq_ignore_ascii_case(b"x-gzip") => Self::Gzip,
            v if v.eq_ignore_ascii_case(b"br") => Self::Br,
            v if v.eq_ignore_ascii_case(b"zstd") => Self::Zstd,
            v if v.eq_ignore_ascii_case(b"deflate") => Self::Deflate,
            _ => Self::Other,
        }
    }
}

/// Bits of [`Meta::flags`]: facts of the response that the hit path needs without reading its
/// fields again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PageFlags(pub u32);

impl PageFlags {
    /// `must-revalidate`: never served stale.
    pub const MUST_REVALIDATE: Self = Self(1);
    /// `proxy-revalidate`: never served stale by a shared cache.
    pub const PROXY_REVALIDATE: Self = Self(2);
    /// `no-cache` without field names: validated before each use.
    pub const NO_CACHE: Self = Self(4);
    /// `s-maxage` was given; it implies proxy-revalidate (RFC 9111 5.2.2.10).
    pub const S_MAXAGE: Self = Self(8);
    /// The lifetime is a guess (RFC 9111 4.2.2).
    pub const HEURISTIC: Self = Self(16);
    /// `immutable` (RFC 8246): a client's reload need not be validated while fresh.
    pub const IMMUTABLE: Self = Self(32);
    /// The stored head has a Content-Length; otherwise it is added on the hit.
    pub const HAS_LENGTH: Self = Self(64);
    /// The request carried Authorization (and the response allowed storing it).
    pub const AUTHORIZED: Self = Self(128);
    /// Kept by the operator's error or status TTL only.
    pub const NEGATIVE: Self = Self(256);
    /// `no-transform`: the body must not be recoded.
    pub const NO_TRANSFORM: Self = Self(512);
    /// A copy of a record of the remote tier: [`Meta::soft_purged_at`] is the time at which that
    /// tier must be asked again.
    pub const COPY: Self = Self(1024);
    /// Content without length or chunks, kept briefly: gone when its time is over, and never
    /// validated, as it may be but the beginning.
    pub const UNFRAMED: Self = Self(2048);
    /// The page is kept in compressed forms too; its head says `Vary: Accept-Encoding`.
    pub const COMPRESSIBLE: Self = Self(8192);
    /// The site gave it no lifetime, and its response does not vary on Cookie: the lifetime is a
    /// guess or the operator's, and only for requests without cookies that count.
    pub const COOKIELESS: Self = Self(4096);
    /// The page names parts of which it is made (ESI). Its body is followed by the plan of its
    /// markup, from [`Meta::nonce`] on.
    pub const ESI: Self = Self(16384);
    /// The content lies in slices of its own; its length is [`Meta::nonce`].
    pub const SLICED: Self = Self(32768);
    /// The body is kept in a coding alone, which is [`Meta::encoding`]; the length of the content
    /// is [`Meta::nonce`], and the head is that of the content. With [`Self::COMPRESSIBLE`]: it may
    /// become smaller.
    pub const PACKED: Self = Self(0x2_0000);
    /// The bytes of the record are not those of the content.
    pub const OTHER_BYTES: Self = Self(16384 | 32768 | 0x2_0000);
    /// The answer is made of more than the page alone.
    pub const COMPOSED: Self = Self(8192 | 16384 | 32768 | 0x2_0000);
    /// Never written to the disk: by rule, or because it is stored despite `private` or `no-store`.
    pub const NO_DISK: Self = Self(65536);
    /// A program gave it, not an origin.
    pub const PUBLISHED: Self = Self(0x4_0000);
    /// Every bit this version knows.
    pub const ALL: Self = Self(0x7_FFFF);
    /// Any of these forbids serving the page stale (RFC 9111 4.2.4).
    pub const NO_STALE: Self = Self(1 | 2 | 4 | 8);

    /// The empty set.
    pub const fn empty() -> Self {
        Self(0)
    }

    /// True when at least one bit of `other` is set.
    pub const fn any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Both sets together.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This set without the bits of `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The bits that both sets have.
    pub const fn only(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// `self` with the bits of `other` when `on`.
    pub const fn with_if(self, other: Self, on: bool) -> Self {
        if on { self.with(other) } else { self }
    }
}

/// The bytes of the complete representation that a partial page holds. `first <= last < total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partial {
    /// Position of the first byte.
    pub first: u64,
    /// Position of the last byte.
    pub last: u64,
    /// Length of the complete representation.
    pub total: u64,
}

impl Partial {
    /// Number of bytes it holds; saturates if the positions contradict each other.
    pub fn bytes(&self) -> u64 {
        self.last.saturating_sub(self.first).saturating_add(1)
    }

    /// `first <= last < total`
    pub fn coherent(&self) -> bool {
        self.first <= self.last && self.last < self.total
    }
}

/// The fixed facts of a stored page: all the data that the hit path decides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Meta {
    /// Kind of the record.
    pub kind: Kind,
    /// Status code of the response.
    pub status: u16,
    /// Restrictions and permissions from its directives.
    pub flags: PageFlags,
    /// When the response, or the response that validated it, was received.
    pub response_time: Ms,
    /// Corrected initial age in seconds (RFC 9111 4.2.3).
    pub initial_age: u32,
    /// Freshness lifetime in seconds.
    pub freshness: u32,
    /// stale-while-revalidate window in seconds.
    pub swr: u32,
    /// stale-if-error window in seconds.
    pub sie: u32,
    /// Date of the response.
    pub date: Secs,
    /// Last-Modified of the response.
    pub last_modified: Option<Secs>,
    /// Content coding of the body.
    pub encoding: Encoding,
    /// Set when the body is a part of the representation.
    pub partial: Option<Partial>,
    /// Vary marker: part of the key of every variant below it, so that a new marker orphans the old
    /// variants. With [`PageFlags::ESI`]: length of the page in bytes, behind which its plan lies;
    /// with [`PageFlags::SLICED`]: that of its content.
    pub nonce: u64,
    /// When the page was softly purged, 0 when it was not; with [`PageFlags::COPY`] it may be in
    /// the future. The store's stale mark has no time: set this field to the current time on the
    /// view then, and the stale windows start now.
    pub soft_purged_at: Ms,
}
