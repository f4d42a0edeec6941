//! Pages that are kept in one coding alone (`store_forms = "one"`).
//!
//! The record of such a page has the head of its content and the coded body. All else of the page
//! stays: it is looked up, judged, validated, purged and evicted like any.

use std::collections::HashMap;

use larder_proto::{
    http::Codings,
    page::{
        Encoding, Meta, PageFlags, PageView, Parts, TRAILER_LEN, Trailer, Verify, encode_head, view,
    },
    rules::compress,
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

/// Pages that are compressed in every coding before one of them is believed to be the smallest.
const TRIALS: u32 = 16;
/// After so many pages one is compressed in every coding again, since pages change.
const RETRY: u32 = 64;

/// The coding that pages are smallest in, as it was found: trying each takes three times as long.
/// There is an entry for each set of codings that sites have, seven at most, and each effort.
#[derive(Default)]
pub(crate) struct Smallest(HashMap<(Codings, Effort), Findings>);

/// Of pages that were compressed in every coding, how often each was the smallest, by the order of
/// [`ENCODINGS`]. The last [`TRIALS`] or so count.
#[derive(Default)]
struct Findings {
    best: [u32; ENCODINGS.len()],
    /// Pages since the last trial.
    since: u32,
}

impl Smallest {
    /// The codings to compress a page in.
    pub(crate) fn candidates(&mut self, codings: Codings, effort: Effort) -> Vec<Encoding> {
        let findings = self.0.entry((codings, effort)).or_default();
        findings.since += 1;
        let tried: u32 = findings.best.iter().sum();
        if tried < TRIALS || findings.since > RETRY {
            return encodings(codings).collect();
        }
        let of = |encoding: &Encoding| findings.of(*encoding).map_or(0, |at| findings.best[at]);
        encodings(codings).max_by_key(of).into_iter().collect()
    }

    /// A page was compressed in every coding, and was smallest in this one.
    pub(crate) fn found(&mut self, codings: Codings, effort: Effort, smallest: Encoding) {
        let findings = self.0.entry((codings, effort)).or_default();
        findings.since = 0;
        if findings.best.iter().sum::<u32>() >= 2 * TRIALS {
            findings.best.iter_mut().for_each(|times| *times /= 2);
        }
        if let Some(at) = findings.of(smallest) {
            findings.best[at] += 1;
        }
    }
}

impl Findings {
    fn of(&self, encoding: Encoding) -> Option<usize> {
        ENCODINGS.iter().position(|known| *known == encoding)
    }
}

/// The smallest of some codings of a body, and which one it is.
pub(crate) fn smallest(
    encodings: &[Encoding],
    effort: Effort,
    body: &[u8],
) -> Option<(Encoding, Vec<u8>)> {
    let coded =
        |encoding: &Encoding| Some((*encoding, coding::coded(*encoding, effort, body).ok()?));
    encodings.iter().filter_map(coded).min_by_key(|(_, coded)| coded.len())
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
    compress::is_kept_coded(meta.status)
        && forms::codings(meta.encoding).is_some()
        && page.content_len() <= LARGEST_BODY
        && !meta.flags.any(PageFlags::ESI.with(PageFlags::SLICED).with(PageFlags::HAS_LENGTH))
}

/// Reads the record of a page.
pub(crate) fn viewed<'e>(entry: &'e Entry<'_>) -> Option<PageView<'e>> {
    view(entry.head(), entry.len(), Verify::Layout).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Codings = Codings::ZSTD.with(Codings::BR).with(Codings::GZIP);

    /// Packs so many pages that are smallest in a coding; returns the compressions.
    fn pack(known: &mut Smallest, pages: u32, best: Encoding) -> usize {
        let mut compressions = 0;
        for _ in 0..pages {
            let tried = known.candidates(ALL, Effort::Good);
            compressions += tried.len();
            if tried.len() > 1 {
                known.found(ALL, Effort::Good, best);
            }
        }
        compressions
    }

    #[test]
    fn most_pages_are_compressed_once() {
        let mut known = Smallest::default();
        assert_eq!(pack(&mut known, TRIALS, Encoding::Br), 3 * TRIALS as usize);
        assert_eq!(known.candidates(ALL, Effort::Good), [Encoding::Br]);
        assert!(pack(&mut known, 1000, Encoding::Br) < 1050);
        // Another set of codings, and another effort, are learnt by themselves.
        assert_eq!(known.candidates(ALL, Effort::Best).len(), 3);
        let one = known.candidates(Codings::GZIP, Effort::Good);
        assert_eq!(one, [Encoding::Gzip]);
    }

    #[test]
    fn pages_that_change_are_found() {
        let mut known = Smallest::default();
        pack(&mut known, 5000, Encoding::Br);
        pack(&mut known, 4 * TRIALS * RETRY, Encoding::Zstd);
        assert_eq!(known.candidates(ALL, Effort::Good), [Encoding::Zstd]);
    }
}
