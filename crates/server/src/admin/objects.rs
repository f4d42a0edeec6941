//! Lists of stored pages.

use std::sync::Arc;

use axum::{extract::State, http::Uri, response::Response};
use larder_metrics::ObjectRow;
use larder_proto::{
    http::key::{self, KeyParts},
    page::{Kind, PageView, Verify, view},
};
use larder_store::EntryInfo;
use serde::Deserialize;
use serde_json::json;

use super::{
    App,
    answer::{self, Refused},
    measured::params,
    object::{self, Freshness},
    page_url::{PageUrl, site_name, url_of},
    walk::{self, Bookmark},
};
use crate::page::head;
use crate::{
    clock::Ms,
    page::{lookup::PAGES, published::PUBLISHED},
    settings::Settings,
};

/// Approximate limit of objects in one answer.
const MOST: usize = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    prefix: Option<String>,
    site: Option<String>,
    tag: Option<String>,
    state: Option<String>,
    #[serde(default)]
    min_size: u64,
    #[serde(default = "hundred")]
    limit: usize,
    #[serde(default)]
    cursor: Bookmark,
}

fn hundred() -> usize {
    100
}

/// The filter of a list.
struct ListFilter {
    prefix: Option<PageUrl>,
    site: Option<String>,
    tag: Option<String>,
    /// Only stale pages, or only fresh ones; None: any.
    stale: Option<bool>,
    min_size: u64,
}

/// Lists stored pages.
pub(super) async fn objects(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Refused> {
    let query: Params = params(&uri)?;
    let wanted = ListFilter {
        prefix: query.prefix.as_deref().map(|url| PageUrl::verbatim(&app, url)).transpose()?,
        site: query.site,
        tag: query.tag,
        stale: match query.state.as_deref() {
            None | Some("any") => None,
            Some("fresh") => Some(false),
            Some("stale") => Some(true),
            Some(_) => return Err(Refused::bad("bad_parameter", "state is fresh, stale or any")),
        },
        min_size: query.min_size,
    };
    let (settings, now) = (app.settings(), app.now());
    let see = |key: &[u8], info: &EntryInfo| row(&app, &settings, &wanted, key, info, now);
    let (rows, cursor) = walk::some(&app, query.cursor, query.limit.clamp(1, MOST), see).await?;
    Ok(answer::json(&json!({"objects": rows, "cursor": cursor})))
}

impl ListFilter {
    /// Whether an entry may match, by its key and length: most entries need no further read.
    fn may(&self, settings: &Settings, key: &KeyParts<'_>, info: &EntryInfo) -> bool {
        let under = |place: &PageUrl| {
            let default = |port: Option<u16>| {
                port.filter(|port| *port != key.scheme.default_port()).unwrap_or(0)
            };
            key.host.eq_ignore_ascii_case(place.host.trim_end_matches('.'))
                && key.port == default(place.port)
                && key.path_and_query.starts_with(place.path.as_bytes())
        };
        info.len >= self.min_size
            && self.prefix.as_ref().is_none_or(under)
            && self.site.as_deref().is_none_or(|site| site == site_name(settings, key.host))
    }

    fn is(&self, page: &PageView<'_>, freshness: &Freshness) -> bool {
        page.meta.kind == Kind::Page
            && page.content_len() >= self.min_size
            && self.stale.is_none_or(|stale| stale == (freshness.state() == "stale"))
            && self
                .tag
                .as_ref()
                .is_none_or(|tag| page.tags.into_iter().any(|held| held == tag.as_bytes()))
    }
}

fn row(
    app: &App,
    settings: &Settings,
    wanted: &ListFilter,
    key: &[u8],
    info: &EntryInfo,
    now: Ms,
) -> Option<ObjectRow> {
    let parts = key::parse_key(key).filter(|parts| wanted.may(settings, parts, info))?;
    let entry = app.store.peek(PAGES, key, now)?;
    let page = view(entry.head(), entry.len(), Verify::Layout).ok()?;
    let purged = object::marker_of(app, key, now)?;
    let freshness = Freshness::of(&page.meta, &entry, purged, now);
    if !wanted.is(&page, &freshness) {
        return None;
    }
    let (url, forwarded_host, key_fields) = url_of(&parts);
    Some(ObjectRow {
        url,
        forwarded_host,
        key_fields,
        site: site_name(settings, parts.host).to_owned(),
        status: page.meta.status,
        content_type: head::field(page.head, "content-type").map(object::text),
        size: page.content_len(),
        age_s: freshness.age,
        ttl_s: freshness.ttl,
        state: freshness.state().into(),
        vary: key::parse_variant_key(key).map(|_| object::vary(&page)),
        tags: page.tags.map(object::text).collect(),
        published: info.flags == PUBLISHED,
        read: info.fetched,
        last_read_ms: info.last_access,
    })
}
