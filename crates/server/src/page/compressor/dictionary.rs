//! Dictionaries, and forms of pages with them.

use std::{collections::HashSet, io, sync::atomic::Ordering::Relaxed};

use larder_proto::{
    http::{Scheme, date, dictionary as fields, key},
    page::{Encoding, Meta, PageFlags, PageView, Parts, TRAILER_LEN, Trailer, encode_head},
    rules::compress::{LEAST_BODY, is_html},
};
use larder_store::{Entry, Put, PutError, Store};

use super::{LARGEST_BEST, Queue};
use crate::{
    clock::{Clock, Ms},
    page::{
        coding::Effort,
        dictionary::{self, Hash, Sample},
        forms::LARGEST_BODY,
        head,
        lookup::PAGES,
        packed,
    },
    settings::DictionarySettings,
};

/// Documents that a dictionary is made of, at the least: fewer say little of the others.
const LEAST_DOCUMENTS: usize = 8;

impl Queue {
    /// Notes a document of which its site's dictionary may be made, and a page that is a dictionary
    /// and may have been forgotten.
    pub(super) fn note(
        &self,
        store: &'static Store,
        clock: Clock,
        (entry, page): (&Entry<'static>, &PageView<'_>),
    ) {
        // Documents of sites with a dictionary say so.
        if fields::is_linked(page.head) && is_document(page) && dictionary::is_public(page) {
            self.samples.lock().note(page.key);
        }
        if dictionary::pattern(page.head).is_some() {
            let _with_the_next_request = self.learn(store, clock, (entry, page));
        }
    }

    pub(super) fn learn(
        &self,
        store: &'static Store,
        clock: Clock,
        (entry, page): (&Entry<'static>, &PageView<'_>),
    ) -> Result<(), PutError> {
        dictionary::learn(store, entry, page, clock.now())
    }

    /// Makes a form of a public page with the dictionary of this hash.
    pub(super) fn form_with(
        &self,
        store: &'static Store,
        clock: Clock,
        (entry, page): (&Entry<'static>, &PageView<'_>),
        (encoding, hash): (Encoding, &Hash),
        effort: Effort,
    ) -> Result<(), PutError> {
        let most = if effort == Effort::Best { LARGEST_BEST } else { LARGEST_BODY };
        let may = page.meta.flags.any(PageFlags::COMPRESSIBLE.with(PageFlags::PACKED))
            && (LEAST_BODY..=most).contains(&page.content_len())
            && dictionary::is_public(page);
        if !may {
            return Ok(());
        }
        let code = |body: &[u8]| {
            let content = dictionary::content(store, page.key, hash, clock.now());
            let content = content.ok_or(io::ErrorKind::NotFound)?;
            dictionary::coded(encoding, effort, body, (hash, &content))
        };
        let body = || packed::content(entry, page);
        self.one_form(store, clock, (entry, page), (encoding, Some(hash), effort), body, code)
    }

    /// Makes the dictionary of an origin's documents, whose page has this key.
    pub(super) fn make_dictionary(
        &self,
        store: &'static Store,
        clock: Clock,
        page: &[u8],
        settings: DictionarySettings,
    ) -> Result<(), PutError> {
        let Some(parts) = key::parse_key(page).filter(|parts| parts.scheme == Scheme::Https) else {
            return Ok(());
        };
        let taken = self.samples.lock().take(&parts, LEAST_DOCUMENTS, clock.now());
        let (mut samples, mut known) = (Vec::new(), HashSet::new());
        for key in taken.unwrap_or_default() {
            if samples.len() >= settings.pages {
                break;
            }
            // One document under several paths is one.
            let sample = sample(store, &key, clock.now());
            samples.extend(sample.filter(|Sample(text)| known.insert(self.hash(text))));
        }
        if samples.len() < LEAST_DOCUMENTS {
            return Ok(());
        }
        let Some(content) = dictionary::build(&samples, settings.size as usize) else {
            return Ok(());
        };
        let now = clock.now();
        // Clients have the dictionary for as long as it is fresh, and pages are compressed with it
        // while they fetch the next.
        let expires = now + 2000 * u64::from(settings.refresh);
        dictionary::keep(store, page, &content, expires, now)?;
        publish(store, page, &content, (settings.refresh, expires), now)?;
        self.samples.lock().made(&parts);
        self.counters.dictionaries.fetch_add(1, Relaxed);
        Ok(())
    }
}

fn is_document(page: &PageView<'_>) -> bool {
    head::field(page.head, "content-type").is_some_and(is_html)
}

/// A document, if it is still there and for everyone.
fn sample(store: &'static Store, key: &[u8], now: Ms) -> Option<Sample> {
    let entry = store.peek(PAGES, key, now)?;
    let page = packed::viewed(&entry)?;
    let fits = page.content_len() <= LARGEST_BODY;
    let public = fits && is_document(&page) && dictionary::is_public(&page);
    if public { packed::content(&entry, &page).map(Sample) } else { None }
}

/// Puts a dictionary where clients fetch it.
fn publish(
    store: &'static Store,
    key: &[u8],
    content: &[u8],
    (refresh, expires): (u32, Ms),
    now: Ms,
) -> Result<(), PutError> {
    let etag = dictionary::tag(&dictionary::hash_of(content));
    let control = format!("public, max-age={refresh}");
    let mut lines = b"HTTP/1.1 200 OK\r\n".to_vec();
    for (name, value) in [
        ("Date", &date::format(now / 1000)[..]),
        ("Content-Type", b"application/octet-stream"),
        ("X-Content-Type-Options", b"nosniff"),
        ("Cache-Control", control.as_bytes()),
        ("ETag", etag.as_bytes()),
        ("Use-As-Dictionary", fields::USE.as_bytes()),
        ("Vary", b"Accept-Encoding"),
    ] {
        lines.extend_from_slice(&[name.as_bytes(), b": ", value, b"\r\n"].concat());
    }
    head::number_line(&mut lines, "Content-Length", content.len() as u64);
    let flags = PageFlags::HAS_LENGTH.with(PageFlags::COMPRESSIBLE).with(PageFlags::NO_DISK);
    let meta = Meta {
        status: 200,
        flags,
        response_time: now,
        date: now / 1000,
        freshness: refresh,
        ..Meta::default()
    };
    let parts = Parts { etag: etag.as_bytes(), key, head: &lines, ..Parts::default() };
    let record = encode_head(&meta, &parts).map_err(|_| PutError::TooLarge)?;
    let mut trailer = Trailer::new(&record);
    trailer.update(content);
    let trailer: [u8; TRAILER_LEN] = trailer.finish();
    let value: [&[u8]; 3] = [&record, content, &trailer];
    let put = Put { value: &value, expires: Some(expires), ..Put::default() };
    store.set(PAGES, key, put, now).map(|_| ())
}
