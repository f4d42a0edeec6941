//! Dictionaries by which pages are compressed (RFC 9842): those that an origin names, and the one
//! that is made of a site's documents.
//!
//! A dictionary is a page like any. A record beside it, in the namespace of forms, leads from the
//! origin (scheme, host, port) and the hash of the content to that page; so a dictionary of another
//! origin is never found. The record of a dictionary that is made here has its content too, since
//! clients still have the one before when the page is the next.
//!
//! Dictionaries and the pages that are compressed with them are public ([`is_public`]): bytes that
//! anyone gets who asks without cookies and credentials.

mod build;
mod samples;

pub(crate) use build::{Sample, build};
pub(crate) use samples::Samples;

use aws_lc_rs::digest;
use larder_proto::{
    http::{CacheControl, Fields, KeyParts, Restriction, Scheme, dictionary, key},
    page::{Encoding, Kind, Meta, PageFlags, PageView, Parts, Verify, view},
    rules::{split_head, update::with_fields},
};
use larder_store::{Entry, PutError, Store};

pub(crate) use larder_proto::http::dictionary::Hash;

use crate::{
    clock::Ms,
    page::{
        coding,
        forms::{self, FORMS, LARGEST_BODY, copied},
        lookup::PAGES,
        packed,
    },
};

/// Fields by whose value a page is selected and is still for anybody.
const NEUTRAL: [&str; 4] = ["accept", "accept-encoding", "accept-language", "user-agent"];

/// The hash by which clients name a dictionary.
pub(crate) fn hash_of(content: &[u8]) -> Hash {
    let mut hash = Hash::default();
    hash.copy_from_slice(digest::digest(&digest::SHA256, content).as_ref());
    hash
}

/// Whether a page is one that anyone gets: it came over HTTPS, and nothing that selects it, or that
/// was sent for it, says whom it is for.
pub(crate) fn is_public(page: &PageView<'_>) -> bool {
    let meta = &page.meta;
    let other = PageFlags::AUTHORIZED.with(PageFlags::ESI).with(PageFlags::SLICED);
    meta.kind == Kind::Page
        && meta.status == 200
        && meta.partial.is_none()
        && !meta.flags.any(other)
        && meta.flags.any(PageFlags::PACKED) == (meta.encoding != Encoding::Identity)
        && key::parse_key(page.key).is_some_and(|parts| {
            let target = parts.path_and_query;
            parts.scheme == Scheme::Https && key::split_behind(target).0.len() == target.len()
        })
        && { page.vary }.all(|(name, value)| value.is_none() || NEUTRAL.contains(&name))
        && says_nothing_private(page.head)
}

/// Whether the fields of a page are those of an answer for all. A page may be stored despite them
/// (`cache = true`, `allow_set_cookie`).
fn says_nothing_private(head: &[u8]) -> bool {
    let Some((_, lines)) = split_head(head) else { return false };
    let read = with_fields(lines, |fields| {
        let control = CacheControl::parse(fields.all("cache-control"));
        control.private == Restriction::Absent && !control.no_store && !fields.has("set-cookie")
    });
    read.unwrap_or(false)
}

/// The key of the record of a dictionary of an origin; of a page's key, those of its scheme, host
/// and port count.
fn record_key(parts: &KeyParts<'_>, hash: &Hash) -> Vec<u8> {
    let mut key = vec![b'd'];
    key::write_key(&mut key, parts.scheme, parts.host, parts.port, b"");
    key.extend_from_slice(hash);
    key
}

/// The key of the page that is the dictionary of an origin's documents.
pub(crate) fn own_key(parts: &KeyParts<'_>) -> Vec<u8> {
    let mut key = Vec::new();
    let path = dictionary::PATH.as_bytes();
    key::write_key(&mut key, parts.scheme, parts.host, parts.port, path);
    key
}

/// The entity tag of a dictionary that is made here.
pub(crate) fn tag(hash: &Hash) -> String {
    format!("\"{}\"", hex(hash))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The name of a coding with a dictionary in entity tags: forms with different dictionaries have
/// different bytes.
pub(crate) fn tag_suffix(coding: &str, hash: &Hash) -> String {
    format!("{coding}-{}", hex(&hash[..8]))
}

/// Result of a lookup of a dictionary.
pub(crate) enum Lookup {
    /// It is there, and may be used for the request.
    Usable,
    /// The page of this key has it, and has to be read once more.
    Forgotten(Vec<u8>),
    /// There is none, or not for this request.
    Unusable,
}

/// Looks for the dictionary of this hash for a request for `target` that the page with the key
/// `page` answers.
pub(crate) fn look(
    store: &'static Store,
    page: &[u8],
    hash: &Hash,
    target: &[u8],
    now: Ms,
) -> Lookup {
    let Some(parts) = key::parse_key(page) else { return Lookup::Unusable };
    let Some(record) = Record::find(store, &parts, hash, now) else {
        return forgotten(store, &parts, hash, now);
    };
    let origin = KeyParts { path_and_query: b"", ..parts }.to_string();
    let Some(base) = key::parse_key(&record.page) else { return Lookup::Unusable };
    let base = base.path_and_query;
    if !dictionary::matches(&record.pattern, base, origin.as_bytes(), target) {
        return Lookup::Unusable;
    }
    match store.peek(PAGES, &record.page, now) {
        Some(page) if record.is_of(&page) => Lookup::Usable,
        // The page was written anew: with the same content, as the thread will find, or another.
        Some(_) => {
            store.delete_if(FORMS, record.entry.key(), record.entry.version());
            Lookup::Forgotten(record.page)
        }
        None => Lookup::Unusable,
    }
}

/// The record of a dictionary that is made here may have left memory before its page.
fn forgotten(store: &'static Store, parts: &KeyParts<'_>, hash: &Hash, now: Ms) -> Lookup {
    let own = own_key(parts);
    let is = |entry: &Entry<'_>| {
        let page = packed::viewed(entry);
        page.is_some_and(|page| page.etag == Some(tag(hash).as_bytes()))
    };
    match store.peek(PAGES, &own, now) {
        Some(entry) if is(&entry) => Lookup::Forgotten(own),
        _ => Lookup::Unusable,
    }
}

/// The content of a dictionary of the origin of a page.
pub(crate) fn content(store: &'static Store, page: &[u8], hash: &Hash, now: Ms) -> Option<Vec<u8>> {
    let record = Record::find(store, &key::parse_key(page)?, hash, now)?;
    let entry = store.peek(PAGES, &record.page, now).filter(|entry| record.is_of(entry))?;
    let content = match record.content() {
        Some(content) => content,
        None => packed::content(&entry, &packed::viewed(&entry)?)?,
    };
    (hash_of(&content) == *hash).then_some(content)
}

/// A dictionary, as it is found by its hash.
struct Record {
    /// The key of its page.
    page: Vec<u8>,
    /// The value of `match`.
    pattern: Vec<u8>,
    /// Number of the write of the page; None: the record has the content.
    of: Option<u64>,
    entry: Entry<'static>,
}

impl Record {
    fn find(store: &'static Store, parts: &KeyParts<'_>, hash: &Hash, now: Ms) -> Option<Self> {
        let entry = store.get(FORMS, &record_key(parts, hash), now)?;
        let record = view(entry.head(), entry.len(), Verify::Layout).ok()?;
        let (page, pattern) = (record.key.to_vec(), record.head.to_vec());
        let of = (record.body_len == 0).then_some(record.meta.nonce);
        Some(Self { page, pattern, of, entry })
    }

    /// Whether the page is still there as the record knows it. One that is made here may have been
    /// made anew meanwhile; once it is purged, none of its contents is used.
    fn is_of(&self, page: &Entry<'_>) -> bool {
        self.of.is_none_or(|of| of == page.written())
    }

    fn content(&self) -> Option<Vec<u8>> {
        let record = packed::viewed(&self.entry)?;
        let (at, length) = (record.body_at as u64, record.body_len);
        self.of.is_none().then(|| copied(&self.entry, at, length))
    }
}

/// Notes a page that is a dictionary. Nothing happens if it is none, or not for everyone.
pub(crate) fn learn(
    store: &'static Store,
    entry: &Entry<'static>,
    page: &PageView<'_>,
    now: Ms,
) -> Result<(), PutError> {
    let pattern = pattern(page.head);
    let (Some(pattern), Some(parts)) = (pattern, key::parse_key(page.key)) else { return Ok(()) };
    if !is_public(page) || page.content_len() > LARGEST_BODY {
        return Ok(());
    }
    let Some(content) = packed::content(entry, page) else { return Ok(()) };
    let key = record_key(&parts, &hash_of(&content));
    let meta = Meta { kind: Kind::Form, nonce: entry.written(), ..Meta::default() };
    let record = Parts { key: page.key, head: &pattern, ..Parts::default() };
    forms::put(store, &key, (&meta, &record), &[], entry.expires(), now)
}

/// The value of `match` in the head of a page.
pub(crate) fn pattern(head: &[u8]) -> Option<Vec<u8>> {
    let (_, lines) = split_head(head)?;
    let of = |fields: Fields<'_>| {
        dictionary::pattern(fields.all("use-as-dictionary")).map(<[u8]>::to_vec)
    };
    with_fields(lines, of).ok().flatten()
}

/// Keeps the content of a dictionary that is made here, until `expires`.
pub(crate) fn keep(
    store: &'static Store,
    page: &[u8],
    content: &[u8],
    expires: Ms,
    now: Ms,
) -> Result<(), PutError> {
    let Some(parts) = key::parse_key(page) else { return Ok(()) };
    let key = record_key(&parts, &hash_of(content));
    let meta = Meta { kind: Kind::Form, ..Meta::default() };
    let record = Parts { key: page, head: b"/*", ..Parts::default() };
    forms::put(store, &key, (&meta, &record), content, Some(expires), now)
}

/// A body in a coding with a dictionary: the first bytes that name the dictionary, and the stream.
pub(crate) fn coded(
    encoding: Encoding,
    effort: coding::Effort,
    body: &[u8],
    (hash, content): (&Hash, &[u8]),
) -> std::io::Result<Vec<u8>> {
    let start: &[u8] = match encoding {
        Encoding::Dcb => &dictionary::DCB_START,
        _ => &dictionary::DCZ_START,
    };
    let stream = coding::coded_with(encoding, effort, body, content)?;
    Ok([start, hash, &stream].concat())
}
