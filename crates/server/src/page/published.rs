//! The record of a page that a program gives instead of an origin: by the API, or as an object.

use larder_proto::{
    http::{CacheControl, Fields, Header, date},
    page::{Meta, PageFlags},
    rules::{Lifetime, ResponseFacts, compress, strip},
};

use crate::{
    clock::Ms,
    page::writer::PageDraft,
    settings::{DiskUse, RulePolicy},
};

/// The marks of entries, in their client bits; fetched pages have 0.
pub(crate) const PUBLISHED: u32 = 1;
/// The mark of a stored page with these flags.
pub(crate) fn mark_of(flags: PageFlags) -> u32 {
    if flags.any(PageFlags::PUBLISHED) { PUBLISHED } else { 0 }
}

/// A page that is an object.
pub(crate) const OBJECT: u32 = 2;
/// The longest lifetime in HTTP (RFC 9111 section 1.2.2).
const FOREVER: u32 = i32::MAX as u32;

/// A field of a page, its name in lower case.
pub(crate) type Line = (String, Vec<u8>);

/// A page as its program gives it.
pub(crate) struct Published<'a> {
    pub(crate) key: Vec<u8>,
    pub(crate) policy: &'a RulePolicy,
    /// Name of the site.
    pub(crate) site: &'a str,
    pub(crate) status: u16,
    pub(crate) reason: &'a str,
    /// All fields but for the length.
    pub(crate) lines: &'a [Line],
    /// Seconds after which it is of no more use, if not for ever. None: what its Cache-Control
    /// says.
    pub(crate) ttl: Option<u32>,
    pub(crate) tags: Vec<Box<[u8]>>,
    /// Bytes of the body.
    pub(crate) length: u64,
    /// The mark of its entry.
    pub(crate) mark: u32,
}

impl Published<'_> {
    /// The page without its body.
    pub(crate) fn draft(self, now: Ms) -> PageDraft {
        let list: Vec<Header<'_>> = self
            .lines
            .iter()
            .map(|(name, value)| Header { name, value: value.as_slice() })
            .collect();
        let fields = Fields::new(&list);
        let control = CacheControl::parse(fields.all("cache-control"));
        let of_fields = control.s_maxage.or(control.max_age);
        let limit = self.ttl.or(of_fields).filter(|seconds| *seconds > 0);
        let facts =
            ResponseFacts { status: self.status, fields, request_time: now, response_time: now };
        let last_modified = fields.get("last-modified");
        let lifetime = Lifetime {
            freshness: limit.unwrap_or(FOREVER).min(FOREVER),
            initial_age: 0,
            swr: 0,
            sie: 0,
            // A browser's reload must not ask the origin for a page that it does not have.
            flags: PageFlags::IMMUTABLE,
            date: now / 1000,
            last_modified: last_modified.and_then(|value| date::parse(value, now / 1000)),
            partial: None,
        };
        let stored = strip::stored_head(&facts, self.reason, &self.policy.cache);
        let compressible = compress::compressible(&facts, &self.policy.cache);
        let meta = lifetime.meta(&facts);
        let never = self.policy.disk == DiskUse::Never;
        let flags = PageFlags::IMMUTABLE
            .with_if(PageFlags::COMPRESSIBLE, compressible)
            .with_if(PageFlags::PUBLISHED, self.mark == PUBLISHED)
            .with_if(PageFlags::NO_DISK, never);
        PageDraft {
            key: self.key,
            meta: Meta { flags, ..meta },
            head: stored.head,
            withheld: stored.withheld,
            etag: fields.get("etag").map(<[u8]>::to_vec),
            vary: Vec::new(),
            tags: self.tags,
            site: self.site.to_owned(),
            length: Some(self.length),
            expires: limit.map(|seconds| now + 1000 * u64::from(seconds)),
            flags: self.mark,
        }
    }
}

/// Adds the fields that every page has: its type by the extension of the path, the time, an entity
/// tag of the body.
pub(crate) fn complete(lines: &mut Vec<Line>, path: &str, body: &[u8], now: Ms) {
    let has = |lines: &[Line], name: &str| lines.iter().any(|(held, _)| held == name);
    if !has(lines, "content-type") {
        lines.insert(0, ("content-type".to_owned(), type_of(path).into_bytes()));
    }
    if !has(lines, "last-modified") {
        lines.push(("last-modified".to_owned(), date::format(now / 1000).to_vec()));
    }
    if !has(lines, "etag") {
        let hash = rapidhash::v3::rapidhash_v3(body);
        lines.push(("etag".to_owned(), format!("\"{:x}-{hash:016x}\"", body.len()).into_bytes()));
    }
}

/// The type by the extension of the path; without one, HTML.
fn type_of(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    let Some((_, extension)) = name.rsplit_once('.') else {
        return "text/html; charset=utf-8".to_owned();
    };
    let guess = mime_guess::from_ext(extension).first_or_octet_stream();
    if guess.type_() == "text" { format!("{guess}; charset=utf-8") } else { guess.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_come_from_extensions() {
        for (path, expected) in [
            ("/a.css", "text/css; charset=utf-8"),
            ("/x/a.b.PNG", "image/png"),
            ("/a.json", "application/json"),
            ("/", "text/html; charset=utf-8"),
            ("/wiki/Main_Page", "text/html; charset=utf-8"),
            ("/a.unheard-of", "application/octet-stream"),
        ] {
            assert_eq!(type_of(path), expected, "{path}");
        }
    }
}
