//! Compressed forms of pages: how one is found, and its record.
//!
//! A form is a copy of a page's bytes in a content coding, in a namespace of its own. It decides
//! nothing: callers look up the page first, by every rule, and a form belongs to one write of that
//! page ([`Entry::written`]). So a purge, an expiry or a replacement of the page ends its forms
//! with it; bytes that no page refers to any more are evicted as unused ones are.

use larder_proto::{
    http::Codings,
    page::{
        Encoding, Kind, Meta, PageFlags, PageView, Parts, TRAILER_LEN, Trailer, Verify,
        encode_head, view,
    },
    rules::compress::{self, LEAST_BODY},
};
use larder_store::{Entry, Namespace, Put, PutError, Store};

use crate::{
    clock::Ms,
    page::{
        coding::Effort,
        dictionary::{self, Hash},
        head,
        lookup::StoredPage,
    },
};

/// Where forms live.
pub(crate) const FORMS: Namespace = Namespace(19);

/// The codings that forms are made in.
const CODINGS: [(Codings, Encoding, u8); 3] = [
    (Codings::GZIP, Encoding::Gzip, b'g'),
    (Codings::BR, Encoding::Br, b'b'),
    (Codings::ZSTD, Encoding::Zstd, b'z'),
];

/// The same of codings with a dictionary, beside those of the site that allow them.
const WITH_DICTIONARY: [(Codings, Codings, Encoding, u8); 2] = [
    (Codings::BR, Codings::DCB, Encoding::Dcb, b'B'),
    (Codings::ZSTD, Codings::DCZ, Encoding::Dcz, b'Z'),
];

/// The letter of the content of a page that its origin coded.
const CONTENT: u8 = b'i';

/// Largest body that is compressed, in bytes: the thread that does it holds one body, its form, and
/// the tables of the compression, outside the store.
pub(crate) const LARGEST_BODY: u64 = 2 << 20;

/// Result of a lookup of the form for a request.
pub(crate) enum FormLookup {
    /// It is there, as hard compressed as this. A coding that the site prefers is missing.
    Ready(Entry<'static>, Encoding, Effort, Option<Encoding>),
    /// It is not there, and worth making.
    Missing(Encoding),
    /// The page as it is.
    Plain,
}

/// The form of a page for a client that takes `accepted`, the first of `order` that there is.
/// `page` is the record of `held`.
pub(crate) fn look(
    store: &'static Store,
    held: &StoredPage,
    page: &PageView<'_>,
    order: &[Codings],
    accepted: Codings,
    now: Ms,
) -> FormLookup {
    if !(LEAST_BODY..=LARGEST_BODY).contains(&page.body_len) {
        return FormLookup::Plain;
    }
    let wanted = order.iter().filter(|coding| accepted.contains(**coding)).filter_map(known);
    first(store, held, page, (wanted.map(|(_, encoding, letter)| (encoding, letter)), &[][..]), now)
}

/// The form of a page with the dictionary of this hash. Those of a coding that the site has are
/// offered.
pub(crate) fn look_with(
    store: &'static Store,
    held: &StoredPage,
    page: &PageView<'_>,
    (order, accepted): (&[Codings], Codings),
    dictionary: &Hash,
    now: Ms,
) -> FormLookup {
    if !(LEAST_BODY..=LARGEST_BODY).contains(&page.content_len()) {
        return FormLookup::Plain;
    }
    let offered = |coding: &Codings| {
        let found = WITH_DICTIONARY.iter().find(|(of, ..)| of == coding);
        found.filter(|(_, wanted, ..)| accepted.contains(*wanted))
    };
    let wanted = order.iter().filter_map(offered);
    let wanted = wanted.map(|(.., encoding, letter)| (*encoding, *letter));
    first(store, held, page, (wanted, &dictionary[..]), now)
}

/// The first form of a page that there is.
#[inline]
fn first(
    store: &'static Store,
    held: &StoredPage,
    page: &PageView<'_>,
    (wanted, dictionary): (impl Iterator<Item = (Encoding, u8)>, &[u8]),
    now: Ms,
) -> FormLookup {
    let mut missing = None;
    let mut key = Vec::with_capacity(page.key.len() + dictionary.len() + 1);
    for (encoding, letter) in wanted {
        write_key(&mut key, page.key, dictionary, letter);
        let found = store.get(FORMS, &key, now).and_then(|entry| {
            let form = view(entry.head(), entry.len(), Verify::Layout).ok()?;
            let (of, effort, empty) = (form.meta.nonce, effort(&form.meta), form.body_len == 0);
            (of == held.entry.written()).then_some((entry, effort, empty))
        });
        match found {
            Some((entry, effort, false)) => {
                return FormLookup::Ready(entry, encoding, effort, missing);
            }
            // The coding gains nothing.
            Some((_, _, true)) => {}
            None => missing = missing.or(Some(encoding)),
        }
    }
    missing.map_or(FormLookup::Plain, FormLookup::Missing)
}

/// The facts of a page that is sent in a form.
pub(crate) fn meta(page: &Meta) -> Meta {
    Meta { flags: page.flags.with(PageFlags::HAS_LENGTH), ..*page }
}

/// The coding that a site calls by this name.
pub(crate) fn encoding(coding: Codings) -> Option<Encoding> {
    known(&coding).map(|(_, encoding, _)| encoding)
}

/// A coding as one that clients take.
pub(crate) fn codings(encoding: Encoding) -> Option<Codings> {
    CODINGS.into_iter().find(|(_, known, _)| *known == encoding).map(|(coding, ..)| coding)
}

fn known(coding: &Codings) -> Option<(Codings, Encoding, u8)> {
    CODINGS.into_iter().find(|(known, ..)| known == coding)
}

/// `dictionary`: its hash; empty: none.
#[inline]
fn write_key(out: &mut Vec<u8>, page: &[u8], dictionary: &[u8], letter: u8) {
    out.clear();
    out.extend_from_slice(page);
    out.extend_from_slice(dictionary);
    out.push(letter);
}

fn effort(meta: &Meta) -> Effort {
    if meta.initial_age >= Effort::Best as u32 { Effort::Best } else { Effort::Good }
}

/// The key of the form of a page in a coding, with a dictionary or without.
pub(crate) fn key(page: &[u8], encoding: Encoding, dictionary: Option<&Hash>) -> Option<Vec<u8>> {
    let codings = CODINGS.into_iter().map(|(_, encoding, letter)| (encoding, letter));
    let others = WITH_DICTIONARY.into_iter().map(|(.., encoding, letter)| (encoding, letter));
    let (_, letter) = codings.chain(others).find(|(known, _)| *known == encoding)?;
    let dictionary: &[u8] = dictionary.map_or(&[], |hash| hash);
    let mut key = Vec::with_capacity(page.len() + dictionary.len() + 1);
    write_key(&mut key, page, dictionary, letter);
    Some(key)
}

/// A form about to be stored.
pub(crate) struct Form<'a> {
    encoding: Encoding,
    /// The dictionary that it was compressed with.
    dictionary: Option<Hash>,
    effort: Effort,
    /// Number of the write of the page.
    of: u64,
    /// Hash of the page's body: a page that is written anew with the same body keeps its forms.
    body_hash: u64,
    /// The coded body; empty if the coding gains nothing.
    body: &'a [u8],
    expires: Option<Ms>,
}

impl<'a> Form<'a> {
    /// The form of the page in `entry`.
    pub(crate) fn of(
        entry: &Entry<'_>,
        (encoding, effort): (Encoding, Effort),
        body_hash: u64,
        body: &'a [u8],
    ) -> Self {
        let (of, expires) = (entry.written(), entry.expires());
        Self { encoding, dictionary: None, effort, of, body_hash, body, expires }
    }

    /// The same, compressed with the dictionary of this hash.
    pub(crate) fn with(self, dictionary: Option<Hash>) -> Self {
        Self { dictionary, ..self }
    }

    /// Stores the form of `page`.
    pub(crate) fn store(
        &self,
        store: &'static Store,
        page: &PageView<'_>,
        now: Ms,
    ) -> Result<(), PutError> {
        let dictionary = self.dictionary.as_ref();
        let (Some(key), Some(coding)) =
            (key(page.key, self.encoding, dictionary), compress::name(self.encoding))
        else {
            return Ok(());
        };
        let etag = page.etag.map(|etag| match dictionary {
            None => compress::form_tag(etag, coding),
            Some(hash) => compress::form_tag(etag, &dictionary::tag_suffix(coding, hash)),
        });
        let lines = lines(page.head, coding, etag.as_deref(), Some(self.body.len() as u64));
        let meta = Meta {
            kind: Kind::Form,
            status: page.meta.status,
            flags: PageFlags::HAS_LENGTH,
            encoding: self.encoding,
            initial_age: self.effort as u32,
            nonce: self.of,
            soft_purged_at: self.body_hash,
            ..Meta::default()
        };
        let etag = etag.as_deref().unwrap_or_default();
        let parts = Parts { etag, key: page.key, head: &lines, ..Parts::default() };
        put(store, &key, (&meta, &parts), self.body, self.expires, now)
    }
}

/// The head of a page with the fields that are true of a form of it.
pub(crate) fn lines(
    head: &[u8],
    coding: &str,
    etag: Option<&[u8]>,
    length: Option<u64>,
) -> Vec<u8> {
    let mut lines = head::without(head, &compress::OF_THE_BYTES);
    let mut line = |name: &str, value: &[u8]| {
        lines.extend_from_slice(name.as_bytes());
        lines.extend_from_slice(b": ");
        lines.extend_from_slice(value);
        lines.extend_from_slice(b"\r\n");
    };
    line("Content-Encoding", coding.as_bytes());
    if let Some(etag) = etag {
        line("ETag", etag);
    }
    if let Some(length) = length {
        head::number_line(&mut lines, "Content-Length", length);
    }
    lines
}

/// Writes the record of a form.
pub(super) fn put(
    store: &'static Store,
    key: &[u8],
    (meta, parts): (&Meta, &Parts<'_>),
    body: &[u8],
    expires: Option<Ms>,
    now: Ms,
) -> Result<(), PutError> {
    let record = encode_head(meta, parts).map_err(|_| PutError::TooLarge)?;
    let mut trailer = Trailer::new(&record);
    trailer.update(body);
    let trailer: [u8; TRAILER_LEN] = trailer.finish();
    let value: [&[u8]; 3] = [&record, body, &trailer];
    let put = Put { value: &value, expires, ..Put::default() };
    store.set(FORMS, key, put, now).map(|_| ())
}

fn content_key(page: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(page.len() + 1);
    write_key(&mut key, page, &[], CONTENT);
    key
}

/// Keeps the content of a page that its origin coded, for the pages that it is a part of.
pub(crate) fn keep_content(store: &'static Store, held: &StoredPage, content: &[u8], now: Ms) {
    let key = content_key(held.entry.key());
    let meta = Meta { kind: Kind::Form, nonce: held.entry.written(), ..Meta::default() };
    let parts = Parts { key: held.entry.key(), ..Parts::default() };
    // A full store does not take it, and it is decoded again.
    let _taken = put(store, &key, (&meta, &parts), content, held.entry.expires(), now);
}

/// The content of a page that its origin coded, and where it lies in its record; None: it is not
/// there.
pub(crate) fn content(
    store: &'static Store,
    held: &StoredPage,
    now: Ms,
) -> Option<(Entry<'static>, u64, u64)> {
    let entry = store.get(FORMS, &content_key(held.entry.key()), now)?;
    let form = view(entry.head(), entry.len(), Verify::Layout).ok()?;
    let (of, from, length) = (form.meta.nonce, form.body_at as u64, form.body_len);
    (of == held.entry.written()).then_some((entry, from, from + length))
}

/// Keeps the coded answer that was put together of a page and its parts; `hash` names its pieces.
/// An empty one says that the coding gains nothing.
pub(crate) fn keep_assembled(
    store: &'static Store,
    page: &[u8],
    (encoding, hash): (Encoding, u64),
    coded: &[u8],
    expires: Option<Ms>,
    now: Ms,
) {
    let Some(key) = key(page, encoding, None) else { return };
    let meta = Meta { kind: Kind::Form, encoding, nonce: hash, ..Meta::default() };
    let parts = Parts { key: page, ..Parts::default() };
    // A full store does not take it, and it is compressed again.
    let _taken = put(store, &key, (&meta, &parts), coded, expires, now);
}

/// The coded answer that was put together of a page and its parts, and where it lies in its record.
pub(crate) fn assembled(
    store: &'static Store,
    page: &[u8],
    encoding: Encoding,
    hash: u64,
    now: Ms,
) -> Option<(Entry<'static>, u64, u64)> {
    let entry = store.get(FORMS, &key(page, encoding, None)?, now)?;
    let form = view(entry.head(), entry.len(), Verify::Layout).ok()?;
    let (of, from, length) = (form.meta.nonce, form.body_at as u64, form.body_len);
    (of == hash).then_some((entry, from, from + length))
}

/// A form that is stored under the key of a page, for whichever write of it.
pub(crate) struct StoredForm {
    pub(crate) effort: Effort,
    /// Number of the write of the page.
    pub(crate) of: u64,
    pub(crate) body_hash: u64,
    entry: Entry<'static>,
    body: (u64, u64),
}

impl StoredForm {
    /// The form of a page in a coding, with a dictionary or without, if there is one.
    pub(crate) fn find(
        store: &'static Store,
        page: &[u8],
        (encoding, dictionary): (Encoding, Option<&Hash>),
        now: Ms,
    ) -> Option<Self> {
        let entry = store.peek(FORMS, &key(page, encoding, dictionary)?, now)?;
        let form = view(entry.head(), entry.len(), Verify::Layout).ok()?;
        let (meta, body) = (form.meta, (form.body_at as u64, form.body_len));
        let (of, body_hash) = (meta.nonce, meta.soft_purged_at);
        Some(Self { effort: effort(&meta), of, body_hash, entry, body })
    }

    /// The coded body.
    pub(crate) fn body(&self) -> Vec<u8> {
        copied(&self.entry, self.body.0, self.body.1)
    }
}

/// `len` bytes of an entry from a position on.
pub(crate) fn copied(entry: &Entry<'_>, at: u64, len: u64) -> Vec<u8> {
    let (mut skip, mut left) = (at as usize, len as usize);
    let mut out = Vec::with_capacity(left);
    for chunk in entry.chunks() {
        let from = skip.min(chunk.len());
        skip -= from;
        let take = left.min(chunk.len() - from);
        out.extend_from_slice(&chunk[from..from + take]);
        left -= take;
        if left == 0 {
            break;
        }
    }
    out
}
