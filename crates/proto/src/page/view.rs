//! Reading a record in place.

use super::check::{BodyCheck, head_checksum, stored_checksum};
use super::parts::{Pairs, Tags};
use super::{
    CHECKSUM_AT, Encoding, HEADER_LEN, Kind, MAGIC, MAX_HEAD_LEN, Meta, PageFlags, Partial,
    TAIL_MAGIC, TRAILER_LEN, VERSION,
};

/// How far a reader trusts the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// Bounds only: the memory tier, where the writer was this process.
    Layout,
    /// Checksums of head and body, and every sequence walked: disk and remote. Needs the whole
    /// record in one slice.
    All,
}

/// Why a record is not used. Always a miss, never an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damaged {
    /// Shorter than its own lengths, or not passed as a whole.
    Short,
    /// Not a record of this version, or with kinds, flags or codings this version does not know.
    Unknown,
    /// Lengths or positions that contradict each other.
    Layout,
    /// The bytes before the body do not have their checksum.
    Head,
    /// The body or the trailer does not match.
    Body,
}

impl std::fmt::Display for Damaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Short => "page record is cut short",
            Self::Unknown => "page record of an unknown version or kind",
            Self::Layout => "page record with lengths that contradict each other",
            Self::Head => "page record whose head does not match its checksum",
            Self::Body => "page record whose body does not match its trailer",
        })
    }
}

impl std::error::Error for Damaged {}

impl PageView<'_> {
    /// Length of the content in bytes: of the body without the plan that follows that of a page
    /// with [`PageFlags::ESI`], of all slices of one that has them, of the uncoded body of one that
    /// is packed.
    pub fn content_len(&self) -> u64 {
        if self.meta.flags.any(PageFlags::SLICED.with(PageFlags::PACKED)) {
            self.meta.nonce
        } else if self.meta.flags.any(PageFlags::ESI) {
            self.meta.nonce.min(self.body_len)
        } else {
            self.body_len
        }
    }
}

/// A record read in place.
#[derive(Clone, Copy, Debug)]
pub struct PageView<'a> {
    /// The fixed facts.
    pub meta: Meta,
    /// Entity tag, `None` when the response had none.
    pub etag: Option<&'a [u8]>,
    /// Selecting request fields.
    pub vary: Pairs<'a>,
    /// Surrogate keys.
    pub tags: Tags<'a>,
    /// Key the record was stored under.
    pub key: &'a [u8],
    /// Field lines as received that the head lacks or has rewritten.
    pub withheld: &'a [u8],
    /// Status line and fields, each line with its CRLF, without the closing empty line.
    pub head: &'a [u8],
    /// Offset of the body in the record.
    pub body_at: usize,
    /// Length of the body in bytes.
    pub body_len: u64,
}

/// Reads the record of `total_len` bytes that starts with `record_start`, which must hold at least
/// all bytes before the body (at most [`MAX_HEAD_LEN`]). Does not allocate with [`Verify::Layout`].
#[inline]
pub fn view<'a>(
    record_start: &'a [u8],
    total_len: u64,
    verify: Verify,
) -> Result<PageView<'a>, Damaged> {
    let header: &[u8; HEADER_LEN] = record_start.first_chunk().ok_or(Damaged::Short)?;
    let meta = read_meta(header)?;
    let mut at = HEADER_LEN;
    let mut parts = [&record_start[..0]; 6];
    for (slot, part) in parts.iter_mut().enumerate() {
        let len = u32_at(header, 96 + 4 * slot) as usize;
        if len > MAX_HEAD_LEN - at {
            return Err(Damaged::Layout);
        }
        *part = record_start.get(at..at + len).ok_or(Damaged::Short)?;
        at += len;
    }
    let body_len = total_len.checked_sub((at + TRAILER_LEN) as u64).ok_or(Damaged::Short)?;
    if let Some(part) = meta.partial
        && (!part.coherent() || part.bytes() != body_len)
    {
        return Err(Damaged::Layout);
    }
    let [etag, vary, tags, key, withheld, head] = parts;
    let page = PageView {
        meta,
        etag: (!etag.is_empty()).then_some(etag),
        vary: Pairs::new(vary),
        tags: Tags::new(tags),
        key,
        withheld,
        head,
        body_at: at,
        body_len,
    };
    if verify == Verify::All {
        verify_all(record_start, total_len, &page)?;
    }
    Ok(page)
}

/// Checks a trailer against the running check of a body that was read in pieces (disk).
pub fn verify_trailer(trailer: &[u8], check: &BodyCheck) -> Result<(), Damaged> {
    let trailer: &[u8; TRAILER_LEN] = trailer.try_into().map_err(|_| Damaged::Short)?;
    let fits =
        trailer[16..] == TAIL_MAGIC && (u64_at(trailer, 0), u64_at(trailer, 8)) == check.finish();
    if fits { Ok(()) } else { Err(Damaged::Body) }
}

#[cold]
fn verify_all(record: &[u8], total_len: u64, page: &PageView<'_>) -> Result<(), Damaged> {
    if record.len() as u64 != total_len {
        return Err(Damaged::Short);
    }
    if head_checksum(&record[..page.body_at]) != stored_checksum(record) {
        return Err(Damaged::Head);
    }
    if !page.vary.well_formed() || !page.tags.well_formed() {
        return Err(Damaged::Layout);
    }
    let (body, trailer) =
        record[page.body_at..].split_at(record.len() - page.body_at - TRAILER_LEN);
    let mut check = BodyCheck::new(record);
    check.update(body);
    verify_trailer(trailer, &check)
}

#[inline]
fn read_meta(header: &[u8; HEADER_LEN]) -> Result<Meta, Damaged> {
    const { assert!(CHECKSUM_AT == HEADER_LEN - 8) };
    let flags = PageFlags(u32_at(header, 8));
    let presence = header[13];
    if header[..4] != MAGIC
        || header[4] != VERSION
        || flags.any(PageFlags(!PageFlags::ALL.0))
        || presence > 3
    {
        return Err(Damaged::Unknown);
    }
    Ok(Meta {
        kind: match header[5] {
            0 => Kind::Page,
            1 => Kind::VaryMarker,
            2 => Kind::HitForMiss,
            3 => Kind::Form,
            _ => return Err(Damaged::Unknown),
        },
        status: u16::from_le_bytes([header[6], header[7]]),
        flags,
        response_time: u64_at(header, 16),
        initial_age: u32_at(header, 24),
        freshness: u32_at(header, 28),
        swr: u32_at(header, 32),
        sie: u32_at(header, 36),
        date: u64_at(header, 40),
        last_modified: (presence & 1 != 0).then(|| u64_at(header, 48)),
        encoding: match header[12] {
            0 => Encoding::Identity,
            1 => Encoding::Gzip,
            2 => Encoding::Br,
            3 => Encoding::Zstd,
            4 => Encoding::Deflate,
            5 => Encoding::Other,
            6 => Encoding::Dcb,
            7 => Encoding::Dcz,
            _ => return Err(Damaged::Unknown),
        },
        partial: (presence & 2 != 0).then(|| Partial {
            first: u64_at(header, 56),
            last: u64_at(header, 64),
            total: u64_at(header, 72),
        }),
        nonce: u64_at(header, 80),
        soft_purged_at: u64_at(header, 88),
    })
}

fn u32_at<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn u64_at<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}
