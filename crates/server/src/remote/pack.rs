//! From a page record to items and back: compressed, split.

use bytes::Bytes;
use larder_proto::{
    page::{Encoding, PageView},
    rules::split_head,
};

use super::record::{Bad, HEAD, Head, Kind, MAX_PARTS};
use crate::clock::Ms;

/// The level of zstd: the fastest, as the sender's time matters more than the size.
const LEVEL: i32 = 1;
/// More bytes than this are processed by another thread.
const INLINE: usize = 64 << 10;

/// The rules for packing a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packing {
    /// Largest value of the servers, in bytes.
    pub(crate) item: usize,
    /// The record is worth compressing.
    pub(crate) compress: bool,
    pub(crate) sent: Ms,
    pub(crate) write: u64,
}

/// The items of a record: the first under the record's name (whole, or the index), the others its
/// parts by number.
pub(crate) struct Packed {
    pub(crate) first: Bytes,
    pub(crate) parts: Vec<Bytes>,
}

/// Packs a record. None: it needs too many parts.
pub(crate) async fn pack(record: Vec<u8>, packing: Packing) -> Option<Packed> {
    if record.len() <= INLINE {
        return pack_now(record, packing);
    }
    // A task that panicked has packed nothing.
    tokio::task::spawn_blocking(move || pack_now(record, packing)).await.ok().flatten()
}

fn pack_now(record: Vec<u8>, packing: Packing) -> Option<Packed> {
    let length = record.len() as u64;
    let smaller = packing.compress.then(|| zstd::bulk::compress(&record, LEVEL).ok()).flatten();
    let smaller = smaller.filter(|smaller| smaller.len() < record.len() - record.len() / 16);
    let compressed = smaller.is_some();
    let payload = smaller.unwrap_or(record);
    let head = Head {
        kind: Kind::Whole,
        compressed,
        sent: packing.sent,
        write: packing.write,
        record: length,
        payload: payload.len() as u64,
    };
    let room = packing.item.checked_sub(HEAD).filter(|room| *room > 0)?;
    if payload.len() <= room {
        return Some(Packed { first: item(&head, &payload), parts: Vec::new() });
    }
    let count = payload.len().div_ceil(room);
    if count > MAX_PARTS {
        return None;
    }
    let parts = payload.chunks(room).zip(0..).map(|(piece, number)| {
        item(&Head { kind: Kind::Part(number), payload: piece.len() as u64, ..head }, piece)
    });
    let parts = parts.collect();
    Some(Packed { first: item(&Head { kind: Kind::Index(count as u32), ..head }, &[]), parts })
}

fn item(head: &Head, payload: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(HEAD + payload.len());
    out.extend_from_slice(&head.encode(payload));
    out.extend_from_slice(payload);
    out.into()
}

/// The payload of an index's parts, in order. If a part is missing or of another write, the whole
/// is unusable.
pub(crate) fn join<'p>(
    index: &Head,
    parts: impl Iterator<Item = &'p [u8]>,
) -> Result<Vec<u8>, Bad> {
    let mut out = Vec::with_capacity(index.payload as usize);
    for (item, number) in parts.zip(0..) {
        let (head, payload) = Head::decode(item)?;
        if head.kind != Kind::Part(number) || head.write != index.write {
            return Err(Bad::Foreign);
        }
        if payload.len() as u64 > index.payload - out.len() as u64 {
            return Err(Bad::Damaged);
        }
        out.extend_from_slice(payload);
    }
    if out.len() as u64 == index.payload { Ok(out) } else { Err(Bad::Damaged) }
}

/// The record of a payload. `head.record` is below the largest page allowed: no more is ever
/// unpacked.
pub(crate) async fn unpack(head: &Head, payload: Bytes) -> Result<Bytes, Bad> {
    let length = head.record as usize;
    if !head.compressed {
        return if payload.len() == length { Ok(payload) } else { Err(Bad::Damaged) };
    }
    let unpack = move || {
        let record = zstd::bulk::decompress(&payload, length).map_err(|_| Bad::Damaged)?;
        if record.len() == length { Ok(Bytes::from(record)) } else { Err(Bad::Damaged) }
    };
    if length <= INLINE {
        return unpack();
    }
    tokio::task::spawn_blocking(unpack).await.unwrap_or(Err(Bad::Damaged))
}

/// Whether a page is probably compressible, by its fields.
pub(crate) fn compressible(page: &PageView<'_>) -> bool {
    if page.meta.encoding != Encoding::Identity {
        return false;
    }
    let Some((_, lines)) = split_head(page.head) else { return false };
    let line = lines.split(|&b| b == b'\n').find(|line| {
        line.get(..13).is_some_and(|start| start.eq_ignore_ascii_case(b"content-type:"))
    });
    let kind =
        line.map(|line| line[13..].split(|&b| b == b';').next().unwrap_or_default().trim_ascii());
    // Without a type, text is likely; a mistake costs little time.
    let Some(kind) = kind.filter(|kind| !kind.is_empty()) else { return true };
    let kind = kind.to_ascii_lowercase();
    const ENDS: [&[u8]; 4] = [b"json", b"xml", b"javascript", b"wasm"];
    const FONTS: [&[u8]; 3] = [b"font/ttf", b"font/otf", b"image/svg+xml"];
    kind.starts_with(b"text/")
        || ENDS.iter().any(|end| kind.ends_with(end))
        || FONTS.contains(&&kind[..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at % 251) as u8).collect()
    }

    fn packing(item: usize, compress: bool) -> Packing {
        Packing { item, compress, sent: 1, write: 42 }
    }

    async fn back(packed: &Packed) -> Result<Bytes, Bad> {
        let (head, payload) = Head::decode(&packed.first)?;
        let payload = match head.kind {
            Kind::Index(_) => join(&head, packed.parts.iter().map(|part| &part[..]))?,
            _ => payload.to_vec(),
        };
        unpack(&head, payload.into()).await
    }

    #[tokio::test]
    async fn a_record_is_the_same_afterwards() {
        for (length, item, compress, parts) in [
            (100, 1 << 20, false, 0),
            (100_000, 1 << 20, true, 0),
            (100_000, 4096, false, 25),
            (1 << 20, 200, true, 2),
            (4096 - HEAD, 4096, false, 0),
            (4097 - HEAD, 4096, false, 2),
        ] {
            let packed = pack(record(length), packing(item, compress)).await.expect("packed");
            assert!(
                packed.first.len() <= item && packed.parts.iter().all(|part| part.len() <= item)
            );
            assert!(packed.parts.len() >= parts, "{length} in {item}: {}", packed.parts.len());
            assert_eq!(packed.parts.is_empty(), parts == 0, "{length} in {item}");
            assert_eq!(back(&packed).await.expect("the record"), record(length));
        }
        assert!(pack(record(1 << 20), packing(HEAD + 1, false)).await.is_none(), "too many parts");
    }

    #[tokio::test]
    async fn parts_of_two_writes_never_make_a_page() {
        let one = pack(record(10_000), packing(4096, false)).await.expect("packed");
        let two = pack(record(10_000), Packing { write: 43, ..packing(4096, false) })
            .await
            .expect("packed");
        let (head, _) = Head::decode(&one.first).expect("an index");
        let mixed = [&one.parts[0][..], &two.parts[1], &one.parts[2]];
        assert_eq!(join(&head, mixed.into_iter()), Err(Bad::Foreign));
        let twice = [&one.parts[0][..], &one.parts[0], &one.parts[2]];
        assert_eq!(join(&head, twice.into_iter()), Err(Bad::Foreign));
        let short = [&one.parts[0][..], &one.parts[1]];
        assert_eq!(join(&head, short.into_iter()), Err(Bad::Damaged));
    }

    #[tokio::test]
    async fn a_length_that_is_not_the_one_told_is_damage() {
        let smaller = zstd::bulk::compress(&record(100_000), 1).expect("compressed");
        for told in [99_999, 100_001, 10] {
            let head = Head {
                kind: Kind::Whole,
                compressed: true,
                sent: 0,
                write: 0,
                record: told,
                payload: smaller.len() as u64,
            };
            assert_eq!(unpack(&head, smaller.clone().into()).await, Err(Bad::Damaged), "{told}");
        }
    }
}
