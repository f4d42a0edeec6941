//! Published pages: any process with the token can publish a page or a file on the site.
//!
//! A published page is a record like any other (docs/page-format.md), so ranges, conditions, HEAD,
//! purges and eviction work on it as on an origin's page. It replaces the origin's page of the same
//! URL until it is reset, expires or is evicted. Where there is a disk it is written there, and
//! found again after a restart.

use std::sync::Arc;

use axum::{
    body::Bytes,
    extract::{Extension, Request, State},
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use larder_proto::{
    http::key,
    page::{PageFlags, Verify, view},
};
use larder_store::{Entry, EntryInfo, MAX_TAGS, PutError};
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
    disk::{self, Begun, Tier},
    page::{
        ban,
        lookup::PAGES,
        published::{Line, PUBLISHED, Published, complete},
        writer::PageDraft,
    },
    settings::RequestView,
};

/// Uploads at the same time: each body is in memory until it is stored.
pub(super) const UPLOADS: usize = 4;
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
    let keys = [draft.key.clone()];
    let begun = shared.disk.as_ref().map(|disk| disk.publishing(&keys));
    let published = writer(app, shared).publish(&draft, body);
    drop(begun);
    if let (Some(disk), Ok(_)) = (&shared.disk, &published) {
        disk.keep_published(&keys[0]);
    }
    published.map_err(|error| match error {
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
    let mut lines = lines(headers)?;
    complete(&mut lines, plain, body, now);
    let published = Published {
        key: place.key(),
        policy: &policy,
        site: &place.site.name,
        status: 200,
        reason: "OK",
        lines: &lines,
        ttl,
        tags: tags.iter().map(|tag| Box::from(*tag)).collect(),
        length: body.len() as u64,
        mark: PUBLISHED,
    };
    Ok(published.draft(now))
}

/// The fields that the request gives the page.
fn lines(headers: &HeaderMap) -> Result<Vec<Line>, Refused> {
    if headers.contains_key(header::VARY) {
        return Err(Refused::bad(
            "bad_header",
            "a published page is the same for everybody: it has no Vary",
        ));
    }
    let mut out = Vec::new();
    for name in &KEPT {
        let values = headers.get_all(name).iter();
        out.extend(values.map(|value| (name.as_str().to_owned(), value.as_bytes().to_vec())));
    }
    Ok(out)
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
    let keys = [PageUrl::of(&app, &query.url)?.key()];
    let shared = http(&app)?;
    let published = |entry: &Entry<'_>| entry.flags() == PUBLISHED;
    let entry = app.store.peek(PAGES, &keys[0], app.now()).filter(published);
    let disk = shared.disk.as_ref();
    let known = match (&entry, disk) {
        (Some(_), _) => true,
        (None, Some(disk)) => is_on_disk(&app, disk, &keys[0]).await,
        (None, None) => false,
    };
    let begun = disk.filter(|_| known).map(|disk| disk.publishing(&keys));
    // The disk's page may have come to memory meanwhile.
    let entry = entry.or_else(|| app.store.peek(PAGES, &keys[0], app.now()).filter(published));
    // A page that was published again meanwhile stays.
    let deleted = entry.is_some_and(|entry| app.store.delete_same(&entry, app.now()));
    let deleted = deleted | begun.as_ref().is_some_and(Begun::found);
    drop(begun);
    if !deleted {
        return Err(Refused::absent("not_published", "no page is published under this URL"));
    }
    let mut safe = true;
    if let Some(disk) = disk {
        let newer = app.store.peek(PAGES, &keys[0], app.now()).is_some_and(|e| published(&e));
        if newer {
            disk.keep_published(&keys[0]);
        }
        safe = disk.settled().await;
    }
    let by = format!("{peer} API");
    shared.purges.note(app.now(), "reset", &query.url, false, 1, by);
    // As of a purge: a restart could bring it back.
    Ok(match safe {
        true => StatusCode::NO_CONTENT.into_response(),
        false => answer::json(&json!({"disk": false})),
    })
}

/// Whether a published page is on the disk alone, or may be: the disk is slow, or has not found all
/// that it has.
async fn is_on_disk(app: &App, disk: &Arc<Tier>, key: &[u8]) -> bool {
    if !disk.may_be_published(key) || app.store.peek(PAGES, key, app.now()).is_some() {
        return false;
    }
    match disk.get(key).await {
        disk::Answer::Record(found) => {
            found.page().is_some_and(|page| page.meta.flags.any(PageFlags::PUBLISHED))
        }
        disk::Answer::Nothing => disk.may_be_published(key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_publisher_becomes_the_pages() {
        let mut headers = HeaderMap::new();
        for name in
            ["authorization", "cookie", "x-forwarded-for", "host", "user-agent", "set-cookie"]
        {
            headers.insert(name, "secret".parse().expect("a value"));
        }
        headers.insert("content-language", "de".parse().expect("a value"));
        let mut lines = lines(&headers).expect("lines");
        complete(&mut lines, "/a.txt", b"body", 0);
        let names: Vec<&str> = lines.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["content-type", "content-language", "last-modified", "etag"]);
        headers.insert("vary", "cookie".parse().expect("a value"));
        assert!(super::lines(&headers).is_err());
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
