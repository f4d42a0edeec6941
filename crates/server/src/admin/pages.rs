//! Published pages: any process with the token can publish a page or a file on the site.
//!
//! A published page is a record like any other (docs/page-format.md), so ranges, conditions, HEAD,
//! purges and eviction work on it as on an origin's page. It replaces the origin's page of the same
//! URL until it is reset, expires or is evicted.

use std::sync::Arc;

use axum::{
    body::Bytes,
    extract::{Extension, Request, State},
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use larder_proto::{
    http::{CacheControl, Fields, Header, date, key},
    page::{Meta, PageFlags, Verify, view},
    rules::{Lifetime, ResponseFacts, compress, strip},
};
use larder_store::{EntryInfo, MAX_TAGS, PutError};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::page::head;
use crate::{
    admin::{
        App,
        answer::{self, Refused},
        measured::params,
        object,
        page_url::{PageUrl, site_name, url_of},
        purges::{http, whole, writer},
        thread::Peer,
        walk::{self, Bookmark},
    },
    clock::Ms,
    page::{ban, lookup::PAGES, writer::PageDraft},
    settings::RequestView,
};

/// The mark of a published page, in the client bits of its entry; fetched pages have 0.
pub(super) const PUBLISHED: u32 = 1;
/// Uploads at the same time: each body is in memory until it is stored.
pub(super) const UPLOADS: usize = 4;
/// The longest lifetime in HTTP (RFC 9111 section 1.2.2).
const FOREVER: u32 = i32::MAX as u32;
/// Longest tag, as for origins.
const TAG: usize = 1024;

/// Fields of the request that become fields of the page: they describe the representation, not the
/// publisher.
const KEPT: [header::HeaderName; 16] = [
    header::CONTENT_TYPE,
    header::CONTENT_LANGUAGE,
    header::CONTENT_ENCODING,
    header::CONTENT_DISPOSITION,
    header::CONTENT_LOCATION,
    header::CONTENT_SECURITY_POLICY,
    header::CACHE_CONTROL,
    header::EXPIRES,
    header::ETAG,
    header::LAST_MODIFIED,
    header::LINK,
    header::REFERRER_POLICY,
    header::X_CONTENT_TYPE_OPTIONS,
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
    header::ACCESS_CONTROL_EXPOSE_HEADERS,
    header::STRICT_TRANSPORT_SECURITY,
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    url: String,
    ttl: Option<String>,
    tags: Option<String>,
}

/// Publishes the body under a URL.
pub(super) async fn put(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, Refused> {
    let query: Params = params(request.uri())?;
    let place = PageUrl::of(&app, &query.url)?;
    let ttl = query.ttl.as_deref().map(seconds).transpose()?;
    let tags = tags(query.tags.as_deref().unwrap_or_default())?;
    let (parts, body) = request.into_parts();
    let body = upload(&app, body).await?;
    let replaced = publish(&app, &place, &parts.headers, ttl, &tags, &body)?;
    Ok(if replaced { StatusCode::NO_CONTENT } else { StatusCode::CREATED }.into_response())
}

/// Receives a body, unless there are too many uploads.
pub(super) async fn upload(app: &App, body: axum::body::Body) -> Result<Bytes, Refused> {
    let full = |_| Refused::busy(format!("{UPLOADS} pages come in already"));
    let _place = app.uploads.try_acquire().map_err(full)?;
    let limit = usize::try_from(app.admin().page_size).unwrap_or(usize::MAX);
    whole(body, limit).await
}

/// Seconds, or a time such as 1h30m.
fn seconds(text: &str) -> Result<u32, Refused> {
    let seconds = text.parse().ok().or_else(|| ban::seconds(text));
    let seconds =
        seconds.and_then(|seconds| u32::try_from(seconds).ok()).filter(|seconds| *seconds > 0);
    seconds.ok_or_else(|| {
        Refused::bad(
            "bad_parameter",
            format!("ttl is seconds or a time such as 1h30m, found {text:?}"),
        )
    })
}

fn tags(text: &str) -> Result<Vec<&[u8]>, Refused> {
    let tags: Vec<&[u8]> =
        text.split([',', ' ']).filter(|tag| !tag.is_empty()).map(str::as_bytes).collect();
    if tags.len() > MAX_TAGS || tags.iter().any(|tag| tag.len() > TAG) {
        let message = format!("a page has at most {MAX_TAGS} tags of at most {TAG} bytes");
        return Err(Refused::bad("bad_parameter", message));
    }
    Ok(tags)
}

/// Stores a page under its URL. Returns whether a published page was there.
pub(super) fn publish(
    app: &App,
    place: &PageUrl,
    headers: &HeaderMap,
    ttl: Option<u32>,
    tags: &[&[u8]],
    body: &[u8],
) -> Result<bool, Refused> {
    let shared = http(app)?;
    let draft = draft(place, headers, ttl, tags, body, app.now())?;
    if let Some(disk) = &shared.disk {
        disk.published(&draft.key);
    }
    writer(app, shared).publish(&draft, body).map_err(|error| match error {
        PutError::TooLarge => Refused::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            "the store does not take so large a page",
        ),
        _ => Refused::new(
            StatusCode::INSUFFICIENT_STORAGE,
            "full",
            "the store has no room for it now",
        ),
    })
}

/// The page of an upload.
fn draft(
    place: &PageUrl,
    headers: &HeaderMap,
    ttl: Option<u32>,
    tags: &[&[u8]],
    body: &[u8],
    now: Ms,
) -> Result<PageDraft, Refused> {
    let plain = place.path.split_once('?').map_or(place.path.as_str(), |(plain, _)| plain);
    let any = |_: &str, _: &mut dyn FnMut(&[u8]) -> bool| false;
    let policy = place.site.policy(&RequestView { method: "GET", path: plain, any: &any });
    if policy.pass {
        let message =
            "the site's rules pass requests for this URL: a page there would never be served";
        return Err(Refused::new(StatusCode::CONFLICT, "passed", message));
    }
    let lines = lines(headers, plain, body, now)?;
    let list: Vec<Header<'_>> =
        lines.iter().map(|(name, value)| Header { name, value: value.as_slice() }).collect();
    let fields = Fields::new(&list);
    let control = CacheControl::parse(fields.all("cache-control"));
    let limit = ttl.or(control.s_maxage).or(control.max_age).filter(|seconds| *seconds > 0);
    let facts = ResponseFacts { status: 200, fields, request_time: now, response_time: now };
    let lifetime = Lifetime {
        freshness: limit.unwrap_or(FOREVER).min(FOREVER),
        initial_age: 0,
        swr: 0,
        sie: 0,
        // A browser's reload must not ask the origin for a page that it does not have.
        flags: PageFlags::IMMUTABLE,
        date: now / 1000,
        last_modified: fields.get("last-modified").and_then(|value| date::parse(value, now / 1000)),
        partial: None,
    };
    let stored = strip::stored_head(&facts, "OK", &policy.cache);
    let flags = PageFlags::IMMUTABLE
        .with_if(PageFlags::COMPRESSIBLE, compress::compressible(&facts, &policy.cache));
    Ok(PageDraft {
        key: place.key(),
        meta: Meta { flags, ..lifetime.meta(&facts) },
        head: stored.head,
        withheld: stored.withheld,
        etag: fields.get("etag").map(<[u8]>::to_vec),
        vary: Vec::new(),
        tags: tags.iter().map(|tag| Box::from(*tag)).collect(),
        site: place.site.name.clone(),
        length: Some(body.len() as u64),
        expires: limit.map(|seconds| now + 1000 * u64::from(seconds)),
        flags: PUBLISHED,
    })
}

/// The page's fields: those of the request, and those that every page has.
fn lines(
    headers: &HeaderMap,
    path: &str,
    body: &[u8],
    now: Ms,
) -> Result<Vec<(String, Vec<u8>)>, Refused> {
    if headers.contains_key(header::VARY) {
        return Err(Refused::bad(
            "bad_header",
            "a published page is the same for everybody: it has no Vary",
        ));
    }
    let mut out: Vec<(String, Vec<u8>)> = Vec::new();
    for name in &KEPT {
        let values = headers.get_all(name).iter();
        out.extend(values.map(|value| (name.as_str().to_owned(), value.as_bytes().to_vec())));
    }
    let has = |out: &[(String, Vec<u8>)], name: &str| out.iter().any(|(held, _)| held == name);
    if !has(&out, "content-type") {
        out.insert(0, ("content-type".to_owned(), type_of(path).into_bytes()));
    }
    if !has(&out, "last-modified") {
        out.push(("last-modified".to_owned(), date::format(now / 1000).to_vec()));
    }
    if !has(&out, "etag") {
        let hash = rapidhash::v3::rapidhash_v3(body);
        out.push(("etag".to_owned(), format!("\"{:x}-{hash:016x}\"", body.len()).into_bytes()));
    }
    Ok(out)
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    #[serde(default = "hundred")]
    limit: usize,
    #[serde(default)]
    cursor: Bookmark,
}

fn hundred() -> usize {
    100
}

/// Approximate limit of pages in one answer.
const MOST: usize = 1000;

/// The stored published pages.
pub(super) async fn list(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Refused> {
    let query: Listed = params(&uri)?;
    let (pages, cursor) = published(&app, query.cursor, query.limit.clamp(1, MOST)).await?;
    Ok(answer::json(&json!({"pages": pages, "cursor": cursor})))
}

/// Some of the published pages, and the cursor for the next ones.
pub(super) async fn published(
    app: &App,
    from: Bookmark,
    limit: usize,
) -> Result<(Vec<Value>, Option<String>), Refused> {
    let (settings, now) = (app.settings(), app.now());
    walk::some(app, from, limit, |key: &[u8], info: &EntryInfo| {
        if info.flags != PUBLISHED || info.expires.is_some_and(|at| at <= now) {
            return None;
        }
        let entry = app.store.peek(PAGES, key, now)?;
        let page = view(entry.head(), entry.len(), Verify::Layout).ok()?;
        let parts = key::parse_key(key)?;
        Some(json!({
            "url": url_of(&parts).0,
            "site": site_name(&settings, parts.host),
            "content_type": head::field(page.head, "content-type").map(object::text),
            "size": page.content_len(),
            "etag": page.etag.map(object::text),
            "tags": page.tags.map(object::text).collect::<Vec<_>>(),
            "published_ms": page.meta.response_time,
            "expires_ms": entry.expires(),
            "read": info.fetched,
        }))
    })
    .await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    url: String,
}

/// Deletes a published page: the next request for its URL goes to the origin.
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Extension(peer): Extension<Peer>,
    uri: Uri,
) -> Result<Response, Refused> {
    let query: Named = params(&uri)?;
    let key = PageUrl::of(&app, &query.url)?.key();
    let shared = http(&app)?;
    let entry = app.store.peek(PAGES, &key, app.now()).filter(|entry| entry.flags() == PUBLISHED);
    // A page that was published again meanwhile stays.
    if !entry.is_some_and(|entry| app.store.delete_same(&entry, app.now())) {
        return Err(Refused::absent("not_published", "no page is published under this URL"));
    }
    let by = format!("{peer} API");
    shared.purges.note(app.now(), "reset", &query.url, false, 1, by);
    Ok(StatusCode::NO_CONTENT.into_response())
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

    #[test]
    fn nothing_of_the_publisher_becomes_the_pages() {
        let mut headers = HeaderMap::new();
        for name in
            ["authorization", "cookie", "x-forwarded-for", "host", "user-agent", "set-cookie"]
        {
            headers.insert(name, "secret".parse().expect("a value"));
        }
        headers.insert("content-language", "de".parse().expect("a value"));
        let lines = lines(&headers, "/a.txt", b"body", 0).expect("lines");
        let names: Vec<&str> = lines.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["content-type", "content-language", "last-modified", "etag"]);
        headers.insert("vary", "cookie".parse().expect("a value"));
        assert!(super::lines(&headers, "/", b"", 0).is_err());
    }

    #[test]
    fn times_are_seconds_or_written_out() {
        assert_eq!(seconds("90").ok(), Some(90));
        assert_eq!(seconds("1h30m").ok(), Some(5400));
        for wrong in ["", "0", "-1", "1 x", "500ms", "99999999999"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
