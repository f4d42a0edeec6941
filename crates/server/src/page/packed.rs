//! Pages that are kept in one coding alone (`store_forms = "one"`).
//!
//! The record of such a page has the head of its content and the coded body. All else of the page
//! stays: it is looked up, judged, validated, purged and evicted like any.

use larder_proto::{
    http::Codings,
    page::{
        Encoding, Meta, PageFlags, PageView, Parts, TRAILER_LEN, Trailer, Verify, encode_head, view,
    },
};
use larder_store::{Entry, PutError, Store};

use crate::{
    clock::Ms,
    page::{
        coding::{self, Effort, Undecoded},
        compressor::Goal,
        forms::{self, LARGEST_BODY, copied},
        head,
    },
};

/// The codings that a page can be packed in.
const ENCODINGS: [Encoding; 3] = [Encoding::Zstd, Encoding::Br, Encoding::Gzip];

/// To keep a page in the smallest coding of those that its site has.
pub(crate) fn goal(order: &[Codings]) -> Goal {
    Goal::Pack(order.iter().fold(Codings::IDENTITY, |all, coding| all.with(*coding)))
}

/// The content of a page, packed or not; None: it is damaged.
pub(crate) fn content(entry: &Entry<'_>, page: &PageView<'_>) -> Option<Vec<u8>> {
    let body = copied(entry, page.body_at as u64, page.body_len);
    if !page.meta.flags.any(PageFlags::PACKED) {
        return Some(body);
    }
    let content = unpacked(page, &body).ok()?;
    Some(content.to_vec())
}

/// The content of a packed page, by its body.
pub(crate) fn unpacked(page: &PageView<'_>, body: &[u8]) -> Result<bytes::Bytes, Undecoded> {
    let length = page.content_len();
    if length > LARGEST_BODY {
        return Err(Undecoded::TooLong);
    }
    let content = coding::decoded_now(page.meta.encoding, body, length)?;
    if content.len() as u64 == length { Ok(content) } else { Err(Undecoded::Damaged) }
}

/// The codings of a set.
pub(crate) fn encodings(codings: Codings) -> impl Iterator<Item = Encoding> {
    ENCODINGS.into_iter().filter(move |encoding| {
        forms::codings(*encoding).is_some_and(|coding| codings.contains(coding))
    })
}

/// The smallest of some codings of a body, and which one it is.
pub(crate) fn smallest(
    codings: Codings,
    effort: Effort,
    body: &[u8],
) -> Option<(Encoding, Vec<u8>)> {
    let coded = |encoding| Some((encoding, coding::coded(encoding, effort, body).ok()?));
    encodings(codings).filter_map(coded).min_by_key(|(_, coded)| coded.len())
}

/// Keeps a page as `coded` alone, if it is still the one that is stored. `more`: it may become
/// smaller.
pub(crate) fn pack(
    store: &Store,
    entry: &Entry<'_>,
    page: &PageView<'_>,
    (encoding, coded): (Encoding, &[u8]),
    more: bool,
    now: Ms,
) -> Result<(), PutError> {
    let flags = page.meta.flags.without(PageFlags::HAS_LENGTH.with(PageFlags::COMPRESSIBLE));
    let flags = flags.with(PageFlags::PACKED).with_if(PageFlags::COMPRESSIBLE, more);
    let meta = Meta { encoding, flags, nonce: page.content_len(), ..page.meta };
    let (head, vary): (_, Vec<_>) = (head::without_length(page.head), page.vary.collect());
    let tags: Vec<_> = page.tags.collect();
    let parts = Parts {
        etag: page.etag.unwrap_or_default(),
        vary: &vary,
        tags: &tags,
        key: page.key,
        withheld: page.withheld,
        head: &head,
    };
    let record = encode_head(&meta, &parts).map_err(|_| PutError::TooLarge)?;
    let mut trailer = Trailer::new(&record);
    trailer.update(coded);
    let trailer: [u8; TRAILER_LEN] = trailer.finish();
    store.recode(entry, &[&record, coded, &trailer], now)
}

/// Whether the body of a packed page that others wrote is within the limits.
pub(crate) fn is_possible(page: &PageView<'_>) -> bool {
    let meta = &page.meta;
    meta.status == 200
        && forms::codings(meta.encoding).is_some()
        && page.content_len() <= LARGEST_BODY
        && !meta.flags.any(PageFlags::ESI.with(PageFlags::SLICED).with(PageFlags::HAS_LENGTH))
}

/// Reads the record of a page.
pub(crate) fn viewed<'e>(entry: &'e Entry<'_>) -> Option<PageView<'e>> {
    view(entry.head(), entry.len(), Verify::Layout).ok()
}
