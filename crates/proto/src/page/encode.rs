//! Writing a record's bytes before the body.

use super::check::head_checksum;
use super::parts::{push_pair, push_tag};
use super::{CHECKSUM_AT, Encoding, HEADER_LEN, Kind, MAGIC, MAX_HEAD_LEN, Meta, VERSION};

/// The parts of a record that vary in length.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts<'a> {
    /// Entity tag as received; empty for none.
    pub etag: &'a [u8],
    /// Selecting request fields, lower case, with their normalised values (`None`: the request
    /// lacked the field). All fields that the response's Vary names must be here: a 304 whose Vary
    /// names others does not fit the page.
    pub vary: &'a [(&'a str, Option<&'a [u8]>)],
    /// Surrogate keys.
    pub tags: &'a [&'a [u8]],
    /// The key the record is stored under.
    pub key: &'a [u8],
    /// Field lines as received that the head lacks or has rewritten, see
    /// [`crate::rules::strip::stored_head`].
    pub withheld: &'a [u8],
    /// Status line and fields, without the closing empty line.
    pub head: &'a [u8],
}

/// The parts together exceed [`MAX_HEAD_LEN`] (or one exceeds its length field): the page is not
/// stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

impl std::fmt::Display for TooLarge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "head of the page is larger than {MAX_HEAD_LEN} bytes")
    }
}

impl std::error::Error for TooLarge {}

/// All bytes before the body, with their checksum.
pub fn encode_head(meta: &Meta, parts: &Parts<'_>) -> Result<Vec<u8>, TooLarge> {
    let guess = HEADER_LEN
        + parts.etag.len()
        + parts.key.len()
        + parts.withheld.len()
        + parts.head.len()
        + 256;
    let mut out = Vec::with_capacity(guess.min(MAX_HEAD_LEN));
    out.resize(HEADER_LEN, 0);
    write_meta(&mut out, meta);
    let mut lengths = [0u32; 6];
    let mut mark = out.len();
    for (slot, length) in lengths.iter_mut().enumerate() {
        let fits = match slot {
            0 => append(&mut out, parts.etag),
            1 => parts.vary.iter().all(|(name, value)| push_pair(&mut out, name, *value)),
            2 => parts.tags.iter().all(|tag| push_tag(&mut out, tag)),
            3 => append(&mut out, parts.key),
            4 => append(&mut out, parts.withheld),
            _ => append(&mut out, parts.head),
        };
        if !fits || out.len() > MAX_HEAD_LEN {
            return Err(TooLarge);
        }
        *length = (out.len() - mark) as u32;
        mark = out.len();
    }
    for (slot, length) in lengths.iter().enumerate() {
        put(&mut out, 96 + 4 * slot, &length.to_le_bytes());
    }
    let sum = head_checksum(&out);
    put(&mut out, CHECKSUM_AT, &sum.to_le_bytes());
    Ok(out)
}

fn append(out: &mut Vec<u8>, bytes: &[u8]) -> bool {
    out.extend_from_slice(bytes);
    true
}

fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    out[at..at + bytes.len()].copy_from_slice(bytes);
}

fn write_meta(out: &mut [u8], meta: &Meta) {
    put(out, 0, &MAGIC);
    out[4] = VERSION;
    out[5] = match meta.kind {
        Kind::Page => 0,
        Kind::VaryMarker => 1,
        Kind::HitForMiss => 2,
        Kind::Form => 3,
    };
    put(out, 6, &meta.status.to_le_bytes());
    put(out, 8, &meta.flags.0.to_le_bytes());
    out[12] = match meta.encoding {
        Encoding::Identity => 0,
        Encoding::Gzip => 1,
        Encoding::Br => 2,
        Encoding::Zstd => 3,
        Encoding::Deflate => 4,
        Encoding::Other => 5,
        Encoding::Dcb => 6,
        Encoding::Dcz => 7,
    };
    out[13] = u8::from(meta.last_modified.is_some()) | u8::from(meta.partial.is_some()) << 1;
    put(out, 16, &meta.response_time.to_le_bytes());
    for (at, secs) in [(24, meta.initial_age), (28, meta.freshness), (32, meta.swr), (36, meta.sie)]
    {
        put(out, at, &secs.to_le_bytes());
    }
    put(out, 40, &meta.date.to_le_bytes());
    put(out, 48, &meta.last_modified.unwrap_or(0).to_le_bytes());
    if let Some(part) = meta.partial {
        for (at, position) in [(56, part.first), (64, part.last), (72, part.total)] {
            put(out, at, &position.to_le_bytes());
        }
    }
    put(out, 80, &meta.nonce.to_le_bytes());
    put(out, 88, &meta.soft_purged_at.to_le_bytes());
}
