//! One page in full: the stored response of a URL, its variants, and why it is fresh or not.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::{HeaderValue, Uri, header},
    response::Response,
};
use http_body::Frame;
use larder_proto::{
    http::key,
    page::{Encoding, Kind, Meta, PageFlags, PageView, Verify, view},
    rules::compress,
};
use larder_store::Entry;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    App,
    answer::{self, Refused},
    measured::params,
    page_url::PageUrl,
    walk,
};
use crate::{
    clock::Ms,
    page::{lookup::PAGES, published::PUBLISHED},
};

/// The most variants of a page in an answer.
const VARIANTS: usize = 100;
/// Bytes of a body that are sent at once.
const PIECE: usize = 64 << 10;

/// Selecting request fields with the values a variant is for; None: requests without the field.
pub(super) type Vary = BTreeMap<String, Option<String>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    url: String,
    #[serde(default)]
    body: u8,
    #[serde(default)]
    variant: usize,
}

/// The stored page of a URL.
pub(super) async fn object(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Refused> {
    let query: Params = params(&uri)?;
    let primary = PageUrl::of(&app, &query.url)?.key();
    let absent = || Refused::absent("not_stored", "nothing is stored under this URL");
    let entry = app.store.peek(PAGES, &primary, app.now()).ok_or_else(absent)?;
    let page = view(entry.head(), entry.len(), Verify::Layout).map_err(|_| absent())?;
    let keys = match page.meta.kind {
        Kind::Page => vec![primary.clone()],
        Kind::VaryMarker => variants(&app, &primary, page.meta.nonce).await?,
        Kind::HitForMiss | Kind::Form => Vec::new(),
    };
    if query.body != 0 {
        let key = keys.get(query.variant).ok_or_else(absent)?;
        return app.store.peek(PAGES, key, app.now()).and_then(body).ok_or_else(absent);
    }
    let variants: Vec<Value> = keys.iter().filter_map(|key| full(&app, key)).collect();
    Ok(answer::json(&json!({
        "url": query.url,
        "key": primary.escape_ascii().to_string(),
        "hit_for_miss": page.meta.kind == Kind::HitForMiss,
        "variants": variants,
    })))
}

/// The keys of a page's variants. Only a walk finds them, as a marker has no list of values.
async fn variants(app: &App, primary: &[u8], nonce: u64) -> Result<Vec<Vec<u8>>, Refused> {
    let mut start = Vec::new();
    key::start_variant_key(&mut start, primary, nonce);
    let mut keys: Vec<Vec<u8>> = Vec::new();
    walk::all(app, |key| {
        if key.starts_with(&start) && !keys.iter().any(|held| held == key) {
            keys.push(key.to_vec());
        }
        keys.len() < VARIANTS
    })
    .await?;
    keys.sort_unstable();
    Ok(keys)
}

/// The time at which the page of a key was softly purged as a whole; 0: never. None: a variant
/// without a marker, which no request finds.
pub(super) fn marker_of(app: &App, key: &[u8], now: Ms) -> Option<Ms> {
    let Some((primary, nonce, _)) = key::parse_variant_key(key) else { return Some(0) };
    let marker = app.store.peek(PAGES, primary, now)?;
    let meta = view(marker.head(), marker.len(), Verify::Layout).ok()?.meta;
    (meta.kind == Kind::VaryMarker && meta.nonce == nonce).then_some(meta.soft_purged_at)
}

/// The age of a page and the rest of its freshness (RFC 9111 section 4.2).
pub(super) struct Freshness {
    /// Current age in seconds.
    pub(super) age: u64,
    /// Freshness left in seconds; negative: stale for that long.
    pub(super) ttl: i64,
    /// The time of its soft purge, if it was purged.
    purged_at: Option<Ms>,
}

impl Freshness {
    /// `marked`: the store's stale mark. `marker_purged`: see [`marker_of`].
    pub(super) fn of(meta: &Meta, marked: bool, marker_purged: Ms, now: Ms) -> Freshness {
        let age = u64::from(meta.initial_age) + now.saturating_sub(meta.response_time) / 1000;
        let ttl = i64::from(meta.freshness) - i64::try_from(age).unwrap_or(i64::MAX);
        let purged_at = match marked {
            true => Some(now),
            false if marker_purged > meta.response_time => Some(marker_purged),
            false => Some(meta.soft_purged_at).filter(|at| *at != 0 && *at <= now),
        };
        Freshness { age, ttl, purged_at }
    }

    pub(super) fn state(&self) -> &'static str {
        if self.purged_at.is_some() || self.ttl <= 0 { "stale" } else { "fresh" }
    }
}

/// All facts about one stored response.
fn full(app: &App, key: &[u8]) -> Option<Value> {
    let now = app.now();
    let entry = app.store.peek(PAGES, key, now)?;
    let page = view(entry.head(), entry.len(), Verify::Layout).ok()?;
    let meta = &page.meta;
    let freshness = Freshness::of(meta, entry.stale(), marker_of(app, key, now)?, now);
    let variant = key::parse_variant_key(key).is_some();
    Some(json!({
        "vary": variant.then(|| vary(&page)),
        "status": meta.status,
        "head": lines(page.head),
        "withheld": lines(page.withheld),
        "etag": page.etag.map(text),
        "encoding": encoding(meta.encoding),
        "tags": page.tags.map(text).collect::<Vec<_>>(),
        "size": page.content_len(),
        "record_size": entry.len(),
        "part": meta.partial.map(|part| json!({"first": part.first, "last": part.last, "total": part.total})),
        "published": entry.flags() == PUBLISHED,
        "state": freshness.state(),
        "response_time_ms": meta.response_time,
        "initial_age_s": meta.initial_age,
        "resident_s": now.saturating_sub(meta.response_time) / 1000,
        "age_s": freshness.age,
        "freshness_s": meta.freshness,
        "ttl_s": freshness.ttl,
        "stale_while_revalidate_s": meta.swr,
        "stale_if_error_s": meta.sie,
        "date_s": meta.date,
        "last_modified_s": meta.last_modified,
        "soft_purged_ms": freshness.purged_at,
        "flags": flags(meta.flags),
        "expires_ms": entry.expires(),
        "last_read_ms": entry.last_access(),
        "read": entry.fetched(),
        "frequency": entry.frequency(),
        "version": entry.version().to_string(),
    }))
}

fn flags(flags: PageFlags) -> Vec<&'static str> {
    let names = [
        (PageFlags::MUST_REVALIDATE, "must-revalidate"),
        (PageFlags::PROXY_REVALIDATE, "proxy-revalidate"),
        (PageFlags::NO_CACHE, "no-cache"),
        (PageFlags::S_MAXAGE, "s-maxage"),
        (PageFlags::HEURISTIC, "heuristic"),
        (PageFlags::IMMUTABLE, "immutable"),
        (PageFlags::AUTHORIZED, "authorized"),
        (PageFlags::NEGATIVE, "negative"),
        (PageFlags::NO_TRANSFORM, "no-transform"),
        (PageFlags::COPY, "copy"),
        (PageFlags::COOKIELESS, "cookieless"),
    ];
    names.into_iter().filter(|(flag, _)| flags.any(*flag)).map(|(_, name)| name).collect()
}

fn encoding(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Identity => "identity",
        Encoding::Gzip => "gzip",
        Encoding::Br => "br",
        Encoding::Zstd => "zstd",
        Encoding::Deflate => "deflate",
        Encoding::Dcb => "dcb",
        Encoding::Dcz => "dcz",
        Encoding::Other => "other",
    }
}

/// The fields that select a variant.
pub(super) fn vary(page: &PageView<'_>) -> Vary {
    page.vary.map(|(name, value)| (name.to_owned(), value.map(text))).collect()
}

/// Bytes as text for people.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn lines(head: &[u8]) -> Vec<String> {
    let lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    lines.filter(|line| !line.is_empty()).map(text).collect()
}

/// The stored body as a download: a browser must not show it as a page of this server.
fn body(entry: Entry<'static>) -> Option<Response> {
    let page = view(entry.head(), entry.len(), Verify::Layout).ok()?;
    // The content of a page in slices is not in its record.
    let (sliced, packed) = (PageFlags::SLICED, PageFlags::PACKED);
    let length = match page.meta.flags {
        flags if flags.any(sliced) => 0,
        flags if flags.any(packed) => page.body_len,
        _ => page.content_len(),
    };
    let coding = compress::name(page.meta.encoding).filter(|_| page.meta.flags.any(packed));
    let (at, end) = (page.body_at as u64, page.body_at as u64 + length);
    let mut response = Response::new(Body::new(Stored { entry, at, end }));
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    fields.insert(
        header::CONTENT_DISPOSITION,
        HeaderValue::from_static("attachment; filename=\"body\""),
    );
    fields.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    if let Some(coding) = coding {
        fields.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding));
    }
    Some(response)
}

/// A stored body that is sent piece by piece.
struct Stored {
    entry: Entry<'static>,
    at: u64,
    end: u64,
}

impl http_body::Body for Stored {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let chunk = self.entry.chunk_at(self.at);
        let take =
            (chunk.len() as u64).min(self.end.saturating_sub(self.at)).min(PIECE as u64) as usize;
        if take == 0 {
            return Poll::Ready(None);
        }
        let piece = Bytes::copy_from_slice(&chunk[..take]);
        self.at += take as u64;
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.end.saturating_sub(self.at))
    }
}
