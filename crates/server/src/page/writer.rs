//! Writes page records into the store. Nothing else does.
//!
//! A page is a record of one format (docs/page-format.md): head, body, trailer.
//! [`PageWriter::begin`] writes the head, [`PageFill`] takes the body as it comes,
//! [`PageWriter::commit`] makes the record visible. A fill that is dropped before that leaves
//! nothing.
//!
//! The race with purges is decided here. A purge first marks the flights of the pages it means,
//! then removes what is stored. A commit holds its flight's mark ([`Flight::hold_purges`]): either
//! the mark came first, and nothing is committed; or the commit came first, and the purge finds the
//! page.

use std::sync::Arc;

use larder_proto::page::{
    Kind, MAX_HEAD_LEN, Meta, PageFlags, PageView, Parts, TRAILER_LEN, Trailer, encode_head,
};
use larder_store::{Fill, FillOptions, FillReader, If, Put, PutError, Store};

use crate::{
    clock::{Clock, Ms},
    page::{
        answer::has_body,
        flight::{Flight, Flights},
        head,
        lookup::PAGES,
        spelling::{self, Rules},
        tags,
        variant::{Marker, Values},
    },
};

/// How long a key whose response was not to be stored is remembered as such, in milliseconds.
const HIT_FOR_MISS: Ms = 60_000;
/// Bytes copied between two yields to other tasks.
const COPY_STEP: usize = 1 << 20;
/// How often a published page is written again when a fetch that began before it took its place.
const PUBLISH_ATTEMPTS: usize = 3;

const _: () = assert!(MAX_HEAD_LEN <= larder_store::MAX_CONTIGUOUS);

/// A page about to be written: everything but the body.
pub(crate) struct PageDraft {
    /// Key of the page, or of the variant.
    pub(crate) key: Vec<u8>,
    /// Its facts. [`PageFlags::HAS_LENGTH`] is set by the writer.
    pub(crate) meta: Meta,
    /// Status line and field lines, without Content-Length and without the empty line.
    pub(crate) head: Vec<u8>,
    /// Field lines that clients do not get.
    pub(crate) withheld: Vec<u8>,
    /// Entity tag as received.
    pub(crate) etag: Option<Vec<u8>>,
    /// Selecting request fields and their values.
    pub(crate) vary: Values,
    /// Surrogate keys.
    pub(crate) tags: Vec<Box<[u8]>>,
    /// Name of the site: tags are the site's own.
    pub(crate) site: String,
    /// Length of the body in bytes, where it is known beforehand.
    pub(crate) length: Option<u64>,
    /// When the page is of no more use. `None`: never.
    pub(crate) expires: Option<Ms>,
    /// Client's bits of the entry; 0 for fetched pages.
    pub(crate) flags: u32,
}

impl PageDraft {
    /// The draft of a copy of `page` under other facts.
    pub(crate) fn copy_of(page: &PageView<'_>, meta: Meta, site: &str, expires: Ms) -> Self {
        Self {
            key: page.key.to_vec(),
            meta,
            head: head::without_length(page.head),
            withheld: page.withheld.to_vec(),
            etag: page.etag.map(<[u8]>::to_vec),
            vary: page
                .vary
                .map(|(name, value)| (name.to_owned(), value.map(<[u8]>::to_vec)))
                .collect(),
            tags: page.tags.map(Box::from).collect(),
            site: site.to_owned(),
            // Of a page whose content is not in the record the length is no field of the head.
            length: (!meta.flags.any(PageFlags::OTHER_BYTES)).then_some(page.body_len),
            expires: Some(expires),
            flags: 0,
        }
    }

    /// The record up to the body.
    fn encode(&self) -> Result<Vec<u8>, PutError> {
        let mut lines = self.head.clone();
        let mut meta = self.meta;
        let length = self.length.filter(|_| has_body(false, meta.status));
        meta.flags = meta
            .flags
            .without(PageFlags::HAS_LENGTH)
            .with_if(PageFlags::HAS_LENGTH, length.is_some());
        if let Some(length) = length {
            head::number_line(&mut lines, "Content-Length", length);
        }
        let vary: Vec<(&str, Option<&[u8]>)> =
            self.vary.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
        let tags: Vec<&[u8]> = self.tags.iter().map(|tag| &**tag).collect();
        let parts = Parts {
            etag: self.etag.as_deref().unwrap_or_default(),
            vary: &vary,
            tags: &tags,
            key: &self.key,
            withheld: &self.withheld,
            head: &lines,
        };
        encode_head(&meta, &parts).map_err(|_| PutError::TooLarge)
    }

    /// The tags as the store and a purge know them.
    fn store_tags(&self) -> Vec<Box<[u8]>> {
        let spelled = spelling::rule_of(&self.head).is_some();
        tags::tags(&self.site, &self.tags, &self.key, spelled)
    }
}

/// A page that is being written.
pub(crate) struct PageFill {
    fill: Fill<'static>,
    trailer: Trailer,
    flags: u32,
    expires: Option<Ms>,
    /// Offset of the body in the record, in bytes.
    pub(crate) body_at: u64,
}

impl PageFill {
    /// Reads the record as it grows.
    pub(crate) fn reader(&self) -> FillReader<'static> {
        self.fill.reader()
    }

    /// Appends to the body. After an error some of `data` may have been taken; see
    /// [`FillReader::written`].
    pub(crate) fn write(&mut self, data: &[u8]) -> Result<(), PutError> {
        self.fill.write(data)?;
        self.trailer.update(data);
        Ok(())
    }

    /// Appends `length` bytes. `bytes_at` returns the bytes from a position on, as many as lie
    /// together; none are an error. Yields between steps so that other requests are served
    /// meanwhile.
    pub(crate) async fn copy<'b>(
        &mut self,
        length: u64,
        bytes_at: impl Fn(u64) -> &'b [u8],
    ) -> Result<(), PutError> {
        let mut at = 0;
        while at < length {
            let bytes = bytes_at(at);
            let take = (bytes.len() as u64).min(length - at).min(COPY_STEP as u64) as usize;
            if take == 0 {
                return Err(PutError::TooLarge);
            }
            self.write(&bytes[..take])?;
            at += take as u64;
            if at < length {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// The body is complete: appends the trailer.
    pub(crate) fn finish(&mut self) -> Result<(), PutError> {
        let trailer = std::mem::replace(&mut self.trailer, Trailer::new(&[])).finish();
        self.fill.write(&trailer)
    }
}

/// Result of a commit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Committed {
    /// The page is visible, under this version.
    Stored(u64),
    /// It was purged while it was fetched: nothing is kept.
    Purged,
}

/// Writes pages into one store.
#[derive(Clone, Copy)]
pub(crate) struct PageWriter<'f> {
    pub(crate) store: &'static Store,
    pub(crate) flights: &'f Flights,
    pub(crate) clock: Clock,
}

impl PageWriter<'_> {
    /// Opens a page for `flight` and writes everything before its body.
    pub(crate) fn begin(
        &self,
        draft: &PageDraft,
        flight: &Arc<Flight>,
    ) -> Result<PageFill, PutError> {
        let record = draft.encode()?;
        let size_hint =
            draft.length.map(|length| record.len() as u64 + length + TRAILER_LEN as u64);
        let options =
            FillOptions { flags: draft.flags, expires: None, size_hint, contiguous: record.len() };
        let mut fill = self.store.fill(PAGES, &draft.key, options, self.clock.now())?;
        fill.write(&record)?;
        let tags = draft.store_tags();
        fill.set_tags(&tags.iter().map(|tag| &**tag).collect::<Vec<_>>());
        self.flights.set_tags(flight, tags);
        Ok(PageFill {
            fill,
            trailer: Trailer::new(&record),
            flags: draft.flags,
            expires: draft.expires,
            body_at: record.len() as u64,
        })
    }

    /// Makes a finished page visible if the condition holds, unless it was purged meanwhile.
    ///
    /// # Errors
    /// `Exists`, `NotFound`: there is another page now, or none.
    pub(crate) fn commit(
        &self,
        page: PageFill,
        flight: &Flight,
        condition: If<'_, '_>,
    ) -> Result<Committed, PutError> {
        self.commit_while(page, flight, condition, || true)
    }

    /// The same for a page of another tier: `still` says whether that tier has not heard of a
    /// purge.
    pub(crate) fn commit_while(
        &self,
        page: PageFill,
        flight: &Flight,
        condition: If<'_, '_>,
        still: impl FnOnce() -> bool,
    ) -> Result<Committed, PutError> {
        let PageFill { fill, flags, expires, .. } = page;
        flight.hold_purges(|is_purged| {
            if is_purged || !still() {
                return Ok(Committed::Purged);
            }
            let put = Put { flags, expires, ..Put::default() };
            fill.commit_put(put, condition, self.clock.now()).map(Committed::Stored)
        })
    }

    /// Puts a whole page over what is there. Fetches under way for this URL are delivered
    /// and not kept. Returns whether an entry with the same client's bits was there.
    pub(crate) fn publish(&self, draft: &PageDraft, body: &[u8]) -> Result<bool, PutError> {
        let record = draft.encode()?;
        let mut trailer = Trailer::new(&record);
        trailer.update(body);
        let trailer = trailer.finish();
        let tags = draft.store_tags();
        let tags: Vec<&[u8]> = tags.iter().map(|tag| &**tag).collect();
        let value: [&[u8]; 3] = [&record, body, &trailer];
        let found = || self.store.peek(PAGES, &draft.key, self.clock.now());
        let replaced = found().is_some_and(|entry| entry.flags() == draft.flags);
        self.forget_fetches(&draft.key);
        for _ in 0..PUBLISH_ATTEMPTS {
            let put = Put {
                value: &value,
                flags: draft.flags,
                expires: draft.expires,
                tags: &tags,
                ..Put::default()
            };
            let version = self.store.set(PAGES, &draft.key, put, self.clock.now())?;
            // A fetch that began after the first mark may have committed over the page. Once the
            // page is there, no further fetch begins.
            self.forget_fetches(&draft.key);
            if found().is_none_or(|entry| entry.version() == version) {
                break;
            }
        }
        Ok(replaced)
    }

    /// Marks the fetches under way for a page, so that none of them commits from now on.
    fn forget_fetches(&self, key: &[u8]) {
        self.flights.purge(|primary| primary == key);
    }

    /// Writes the marker of a page that varies, for what `flight` brings. A marker has no expiry:
    /// it is a hundred bytes, and goes when nobody asks for it.
    ///
    /// Variants that were softly purged under the marker before stay so.
    pub(crate) fn marker(
        &self,
        flight: &Flight,
        primary: &[u8],
        marker: &Marker,
    ) -> Result<(), PutError> {
        flight.hold_purges(|is_purged| {
            if is_purged {
                return Ok(());
            }
            let now = self.clock.now();
            let before = Marker::soft_purged(self.store, primary, marker.nonce, now);
            self.put_marker(primary, marker, before)
        })
    }

    /// Puts a marker back that lay in another tier, unless there is one, or the page was purged
    /// meanwhile, as far as the flight or that tier (`still`) knows. Whether it is there.
    pub(crate) fn restore_marker(
        &self,
        flight: &Flight,
        primary: &[u8],
        marker: &Marker,
        soft_purged_at: Ms,
        still: impl FnOnce() -> bool,
    ) -> Result<bool, PutError> {
        flight.hold_purges(|is_purged| {
            let now = self.clock.now();
            if is_purged || !still() || self.store.peek(PAGES, primary, now).is_some() {
                return Ok(false);
            }
            self.put_marker(primary, marker, soft_purged_at).map(|()| true)
        })
    }

    /// Writes a marker under which all variants received before `soft_purged_at` are stale; 0: none
    /// is.
    pub(crate) fn put_marker(
        &self,
        primary: &[u8],
        marker: &Marker,
        soft_purged_at: Ms,
    ) -> Result<(), PutError> {
        let meta =
            Meta { kind: Kind::VaryMarker, nonce: marker.nonce, soft_purged_at, ..Meta::default() };
        self.put_record(primary, &meta, &marker.pairs(), None)
    }

    /// Writes the rules of a path. They are no content: a purge does not mean them.
    pub(crate) fn put_rules(&self, key: &[u8], rules: &Rules) -> Result<(), PutError> {
        let meta =
            Meta { kind: Kind::VaryMarker, response_time: rules.written(), ..Meta::default() };
        let expires = rules.written() + spelling::LASTING;
        self.put_record(key, &meta, &rules.pairs(), Some(expires))
    }

    /// Remembers for a minute that requests for this key should not wait for each other.
    pub(crate) fn hit_for_miss(&self, key: &[u8]) -> Result<(), PutError> {
        let meta = Meta { kind: Kind::HitForMiss, ..Meta::default() };
        self.put_record(key, &meta, &[], Some(self.clock.now() + HIT_FOR_MISS))
    }

    /// Writes a record without head and body.
    fn put_record(
        &self,
        key: &[u8],
        meta: &Meta,
        vary: &[(&str, Option<&[u8]>)],
        expires: Option<Ms>,
    ) -> Result<(), PutError> {
        let parts = Parts { vary, key, ..Parts::default() };
        let record = encode_head(meta, &parts).map_err(|_| PutError::TooLarge)?;
        let trailer = Trailer::new(&record).finish();
        let put = Put { value: &[&record, &trailer], expires, ..Put::default() };
        self.store.set(PAGES, key, put, self.clock.now()).map(|_| ())
    }
}
