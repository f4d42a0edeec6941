//! Objects of memcached or Redis clients that are served as pages (`[publish]`).
//!
//! The page of a URL is the object under PREFIX HOST PATH. Each request for such a page looks at
//! its object first and brings the stored page to its state ([`ObjectPages::settle`]): a page is
//! made when the object has been written since, and removed when there is no object. The request
//! then finds the page as it finds any other, with conditions, ranges and compressed forms. So the
//! object decides at every request, whoever changed it; a page in memory is a copy of it.

use std::borrow::Cow;

use larder_proto::{
    fcgi::{HeadLimits, parse_head},
    http::key::{self, KeyParts},
    page::{Verify, view},
    resp::hash::{self, Hash},
    rules::strip,
};
use larder_store::{Entry, Namespace, PutError, Store};

use crate::{
    clock::Ms,
    page::{
        lookup::PAGES,
        published::{Line, OBJECT, Published, complete},
        tags::TAG_FIELDS,
    },
    request::{Request, pages::Pages, route::Route},
    settings::{ObjectSpace, PublishSettings, Settings},
};

/// Flag of a memcached item that begins with a head: bit 16, the first of those that PHP's client
/// leaves to its user (`OPT_USER_FLAGS`).
const WITH_HEAD: u32 = 1 << 16;
/// Flag by which Python's clients mark a text. All others mean a form of the client's own.
const TEXT: u32 = 1 << 4;
/// The largest object that becomes a page, in bytes: it is copied in one go, in about 2 ms.
const LARGEST: u64 = 8 << 20;
/// Limits of the head in an object.
const HEAD: HeadLimits = HeadLimits { bytes: 16 << 10, fields: 64 };
/// Fields of a Redis hash.
const HEAD_FIELD: &[u8] = b"head";
const BODY_FIELD: &[u8] = b"body";
/// Name of the withheld line in the page's record: number and version of the object's write.
const WRITE: &str = "larder-object: ";

/// Fields that no object gives a page, beside the hop-by-hop ones: those that Larder writes, those
/// that only an origin's answer to one client can have, and orders to servers on the way.
const REFUSED: [&str; 22] = [
    "age",
    "alt-svc",
    "authentication-info",
    "cache-groups",
    "cache-status",
    "cache-tag",
    "cdn-cache-control",
    "content-length",
    "content-range",
    "date",
    "edge-control",
    "set-cookie",
    "set-cookie2",
    "surrogate-control",
    "vary",
    "via",
    "www-authenticate",
    "x-accel-expires",
    "x-accel-redirect",
    "x-cache",
    "x-cache-lookup",
    "x-sendfile",
];

/// Why an object is not a page: a reason of `larder_http_not_stored_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unfit(&'static str);

const FORM: Unfit = Unfit("object-form");
const SIZE: Unfit = Unfit("object-size");
const MALFORMED: Unfit = Unfit("object-head");
const FULL: Unfit = Unfit("store-full");

/// Which objects are pages.
pub(crate) struct ObjectPages {
    settings: PublishSettings,
    namespace: Namespace,
}

impl ObjectPages {
    /// None: no objects are pages.
    pub(crate) fn new(settings: &Settings) -> Option<Self> {
        let publish = settings.publish.clone()?;
        let shared = settings.redis.as_ref().is_some_and(|redis| redis.share_memcached);
        let namespace = match publish.objects {
            ObjectSpace::Memcached => Namespace(1),
            ObjectSpace::Redis(0) if shared => Namespace(1),
            ObjectSpace::Redis(database) => Namespace(2 + database),
        };
        Some(Self { settings: publish, namespace })
    }

    /// The key of the object that is this page. None: the page is not an object's, because of its
    /// host or because a proxy named another one.
    fn object_key(&self, page: &KeyParts<'_>) -> Option<Vec<u8>> {
        let (path, behind) = key::split_behind(page.path_and_query);
        if behind.forwarded_host.is_some() || !self.settings.is_for(page.host) {
            return None;
        }
        let (prefix, host) = (self.settings.prefix.as_bytes(), page.host.as_bytes());
        let mut out = Vec::with_capacity(prefix.len() + host.len() + path.len() + 6);
        out.extend_from_slice(prefix);
        out.extend_from_slice(host);
        if page.port != 0 {
            out.extend_from_slice(format!(":{}", page.port).as_bytes());
        }
        out.extend_from_slice(path);
        Some(out)
    }

    /// Host, port (0: the scheme's default) and path of the page that an object is.
    fn page_of<'k>(&self, object: &'k [u8]) -> Option<(&'k str, u16, &'k [u8])> {
        let rest = object.strip_prefix(self.settings.prefix.as_bytes())?;
        let (authority, path) = rest.split_at(rest.iter().position(|&byte| byte == b'/')?);
        let authority = std::str::from_utf8(authority).ok()?;
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
            _ => (authority, 0),
        };
        self.settings.is_for(host).then_some((host, port, path))
    }

    /// Brings the stored page of a request to the state of its object.
    fn settle(&self, request: &Request<'_, '_>, route: &Route<'_>, now: Ms) {
        let pages = request.pages;
        let store = pages.store;
        let object = key::parse_key(&route.key)
            .and_then(|parts| self.object_key(&parts))
            .and_then(|key| store.peek(self.namespace, &key, now));
        let page = store.peek(PAGES, &route.key, now).filter(|entry| entry.flags() == OBJECT);
        if let Some(object) = &object {
            store.bump(object, now);
            if page.as_ref().is_some_and(|page| is_of(page, object)) {
                return;
            }
            match make(pages, route, object, now) {
                Ok(()) => return pages.counters.stored.one(),
                Err(Unfit(reason)) => pages.counters.not_stored.one(reason),
            }
        }
        if let Some(page) = page {
            store.delete_same(&page, now);
        }
    }

    /// Deletes the object of a page, whose key is given without a variant. Whether there was one.
    pub(crate) fn delete(&self, store: &Store, page: &[u8], now: Ms) -> bool {
        let key = key::parse_key(page).and_then(|parts| self.object_key(&parts));
        let entry = key.and_then(|key| store.peek(self.namespace, &key, now));
        entry.is_some_and(|entry| is_page(entry.flags()) && store.delete_same(&entry, now))
    }

    /// Where a purge of many pages finds their objects.
    pub(crate) fn namespace(&self) -> Namespace {
        self.namespace
    }

    /// Whether this object is a page of this host and port whose path and query begin so.
    pub(crate) fn is_below(&self, object: &[u8], flags: u32, wanted: &KeyParts<'_>) -> bool {
        is_page(flags)
            && self.page_of(object).is_some_and(|(host, port, path)| {
                (host, port) == (wanted.host, wanted.port)
                    && path.starts_with(wanted.path_and_query)
            })
    }

    /// Whether this object is any page.
    pub(crate) fn is_any(&self, object: &[u8], flags: u32) -> bool {
        is_page(flags) && self.page_of(object).is_some()
    }
}

impl Request<'_, '_> {
    /// Has the stored page follow its object, where objects are pages. Before each lookup.
    #[inline]
    pub(crate) fn settle_object(&self, route: &Route<'_>, now: Ms) {
        if self.config.has_object_pages {
            settle(self, route, now);
        }
    }
}

#[cold]
fn settle(request: &Request<'_, '_>, route: &Route<'_>, now: Ms) {
    if let Some(objects) = &request.pages.shared.object_pages {
        objects.settle(request, route, now);
    }
}

/// Whether an entry with these flags can be a page.
fn is_page(flags: u32) -> bool {
    hash::is_hash(flags) || flags & !(WITH_HEAD | TEXT) == 0
}

/// Whether a page was made of this object as it is now.
fn is_of(page: &Entry<'_>, object: &Entry<'_>) -> bool {
    let Ok(page) = view(page.head(), page.len(), Verify::Layout) else { return false };
    page.withheld.ends_with(&write_line(object))
}

fn write_line(object: &Entry<'_>) -> Vec<u8> {
    format!("{WRITE}{} {}\r\n", object.written(), object.version()).into_bytes()
}

/// Makes the page of an object, over what is stored.
fn make(pages: &Pages, route: &Route<'_>, object: &Entry<'_>, now: Ms) -> Result<(), Unfit> {
    if object.len() > LARGEST {
        return Err(SIZE);
    }
    let bytes = whole(object);
    let content = Content::read(&bytes, object.flags(), now)?;
    let plain = route.path.split_once('?').map_or(&*route.path, |(plain, _)| plain);
    let mut lines = content.lines;
    complete(&mut lines, plain, content.body, now);
    let published = Published {
        key: route.key.clone(),
        policy: &route.policy,
        site: &route.site.name,
        status: content.status,
        reason: &content.reason,
        lines: &lines,
        ttl: Some(u32::MAX),
        tags: Vec::new(),
        length: content.body.len() as u64,
        mark: OBJECT,
    };
    let mut draft = published.draft(now);
    draft.withheld.extend_from_slice(&write_line(object));
    // With the next of its fields to expire, the page is made anew.
    let of_field = Some(&bytes).filter(|_| hash::is_hash(object.flags()));
    let of_field = of_field.and_then(|bytes| Hash::read(bytes).ok()?.next_expiry(now));
    draft.expires = of_field.into_iter().chain(object.expires()).min();
    let published = pages.writer().publish(&draft, content.body);
    // After it: from now on the page before it cannot leave memory for the disk any more.
    pages.shared.replaced_on_disk(&draft.key);
    published.map(|_| ()).map_err(|error| match error {
        PutError::TooLarge => SIZE,
        _ => FULL,
    })
}

fn whole<'e>(object: &'e Entry<'_>) -> Cow<'e, [u8]> {
    let first = object.head();
    if first.len() as u64 == object.len() {
        return Cow::Borrowed(first);
    }
    Cow::Owned(object.chunks().flatten().copied().collect())
}

/// An object as a page.
#[derive(Debug, PartialEq, Eq)]
struct Content<'b> {
    status: u16,
    reason: String,
    lines: Vec<Line>,
    body: &'b [u8],
}

impl<'b> Content<'b> {
    /// Reads an object with these flags.
    fn read(bytes: &'b [u8], flags: u32, now: Ms) -> Result<Self, Unfit> {
        if hash::is_hash(flags) {
            let hash = Hash::read(bytes).map_err(|_| FORM)?;
            let field = |name| hash.get_live(name, now).map_err(|_| FORM);
            let body = field(BODY_FIELD)?.ok_or(FORM)?;
            return match field(HEAD_FIELD)? {
                None => Ok(Self::plain(body)),
                Some(head) => {
                    let text = [head.trim_ascii_end(), b"\n\n"].concat();
                    let (read, used) = Self::with_head(&text)?;
                    // No empty line inside: what is behind it would be neither head nor body.
                    let read = if used == text.len() { Ok(read) } else { Err(MALFORMED) };
                    read.map(|read| Content { body, ..read })
                }
            };
        }
        if !is_page(flags) {
            return Err(FORM);
        }
        if flags & WITH_HEAD == 0 {
            return Ok(Self::plain(bytes));
        }
        let (read, used) = Self::with_head(bytes)?;
        Ok(Content { body: &bytes[used..], ..read })
    }

    fn plain(body: &'b [u8]) -> Self {
        Self { status: 200, reason: "OK".to_owned(), lines: Vec::new(), body }
    }

    /// The head at the start of `bytes`, and its length.
    fn with_head(bytes: &[u8]) -> Result<(Content<'static>, usize), Unfit> {
        let head = parse_head(bytes, HEAD).ok().flatten().ok_or(MALFORMED)?;
        // Statuses of a page for everybody that has a body.
        let whole = !matches!(head.status, 204..=206 | 304 | 401 | 407 | 416 | 421 | 600..);
        if !whole {
            return Err(MALFORMED);
        }
        let mut lines: Vec<Line> = Vec::with_capacity(head.fields.len() + 3);
        for (name, value) in &head.fields {
            let name = name.to_ascii_lowercase();
            let refused = strip::is_hop_by_hop(&name)
                || name.starts_with("larder-")
                || TAG_FIELDS.contains(&name.as_str())
                || REFUSED.contains(&name.as_str());
            if refused {
                return Err(MALFORMED);
            }
            lines.push((name, value.to_vec()));
        }
        let reason = match (head.reason, head.status) {
            (b"", 200) => "OK".to_owned(),
            (reason, _) => String::from_utf8_lossy(reason).into_owned(),
        };
        let content = Content { status: head.status, reason, lines, body: &[] };
        Ok((content, head.used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Content<'_>, Unfit> {
        Content::read(bytes, WITH_HEAD, 0)
    }

    #[test]
    fn a_head_is_read_and_the_body_follows() {
        let page =
            read(b"Status: 404 Not Here\nContent-Type: text/plain\r\n\r\nbody\r\n\r\n").unwrap();
        assert_eq!((page.status, page.reason.as_str()), (404, "Not Here"));
        assert_eq!(page.lines, [("content-type".to_owned(), b"text/plain".to_vec())]);
        assert_eq!(page.body, b"body\r\n\r\n");
        let moved = read(b"Location: /there\n\n").unwrap();
        assert_eq!((moved.status, moved.body), (302, &b""[..]));
    }

    #[test]
    fn fields_that_an_object_must_not_set_spoil_it() {
        for field in [
            "Connection: close",
            "Transfer-Encoding: chunked",
            "Content-Length: 3",
            "Set-Cookie: a=b",
            "SET-COOKIE: a=b",
            "Vary: Cookie",
            "X-Accel-Redirect: /etc/passwd",
            "Larder-Object: 7",
            "Cache-Tags: a",
            "Purge-Cache-Tags: a",
            "X-Magento-Tags: a",
            "Cache-Tag: a",
            "Cache-Groups: \"a\"",
            "X-Cache: hit",
            "X-A: b\rSet-Cookie: c=d",
            "X-A: b\0",
            "X A: b",
            " folded",
            "Status: 304",
            "Status: 99",
            "Status: 204",
            "Status: 200 OK\nStatus: 201 OK",
            "",
        ] {
            let object = format!("{field}\r\n\r\nbody");
            assert_eq!(read(object.as_bytes()), Err(MALFORMED), "{field:?}");
        }
        assert_eq!(read(b"Content-Type: text/html\r\n"), Err(MALFORMED), "no end");
    }

    #[test]
    fn forms_of_clients_are_no_pages() {
        for flags in [1, 2, 8, 48, 1 << 17, u32::MAX, WITH_HEAD | 1] {
            assert_eq!(Content::read(b"body", flags, 0), Err(FORM), "{flags}");
        }
        for flags in [0, TEXT] {
            assert_eq!(Content::read(b"body", flags, 0).unwrap().body, b"body", "{flags}");
        }
    }

    #[test]
    fn a_hash_has_a_body_and_may_have_a_head() {
        let read = |pairs: &[(&[u8], &[u8])]| {
            let bytes = hash::pack(pairs).unwrap();
            Content::read(&bytes, hash::FLAGS, 0).map(|page| (page.status, page.body.to_vec()))
        };
        assert_eq!(read(&[(b"body", b"b")]), Ok((200, b"b".to_vec())));
        let head = b"Status: 410 Gone\r\nX-A: b";
        assert_eq!(read(&[(b"head", head), (b"body", b"b")]), Ok((410, b"b".to_vec())));
        assert_eq!(read(&[(b"head", b"X-A: b")]), Err(FORM), "no body");
        let inside = b"X-A: b\n\nX-B: c";
        assert_eq!(read(&[(b"head", inside), (b"body", b"b")]), Err(MALFORMED));
    }
}
