//! Purges through the API, as the PURGE method does, and bans.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::{Extension, Request, State},
    http::StatusCode,
    response::Response,
};
use http_body_util::{BodyExt as _, Limited};
use larder_proto::http::key;
use serde::Deserialize;
use serde_json::json;

use crate::{
    admin::{
        App,
        answer::{self, Refused},
        page_url::PageUrl,
        thread::Peer,
    },
    page::{ban::Ban, writer::PageWriter},
    request::{
        pages::Shared,
        purge::{Purger, keys},
    },
};

/// Largest purge request, in bytes.
const REQUEST: usize = 64 << 10;
/// The most tags in one request.
const TAGS: usize = 1000;
/// Time limit for a whole body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// A whole body of at most `limit` bytes, within the time a body may take.
pub(super) async fn whole(body: Body, limit: usize) -> Result<Bytes, Refused> {
    let too_large = || {
        let message = format!("at most {limit} bytes are taken here");
        Refused::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
    };
    // A body with a too large declared length is not read.
    if http_body::Body::size_hint(&body).lower() > limit as u64 {
        return Err(too_large());
    }
    let late = |_| {
        let status = StatusCode::REQUEST_TIMEOUT;
        Refused::new(status, "timeout", "the body did not arrive in time")
    };
    let collected = Limited::new(body, limit).collect();
    let collected = tokio::time::timeout(BODY_TIMEOUT, collected).await.map_err(late)?;
    collected.map(|body| body.to_bytes()).map_err(|error| {
        if error.is::<http_body_util::LengthLimitError>() {
            too_large()
        } else {
            Refused::bad("broken_body", "the body broke off")
        }
    })
}

/// The HTTP face, if it is served.
pub(super) fn http(app: &App) -> Result<&Arc<Shared>, Refused> {
    app.http
        .as_ref()
        .ok_or_else(|| Refused::absent("no_face", "HTTP is not served here: there are no pages"))
}

/// The page writer for requests of the API.
pub(super) fn writer<'a>(app: &App, shared: &'a Shared) -> PageWriter<'a> {
    PageWriter { store: app.store, flights: &shared.flights, clock: app.clock }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PurgeRequest {
    url: Option<String>,
    prefix: Option<String>,
    tags: Option<Vec<String>>,
    host: Option<String>,
    ban: Option<String>,
    #[serde(default)]
    soft: bool,
}

/// Executes a purge.
pub(super) async fn purge(
    State(app): State<Arc<App>>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Result<Response, Refused> {
    let bytes = whole(request.into_body(), REQUEST).await?;
    let request: PurgeRequest = serde_json::from_slice(&bytes)
        .map_err(|error| Refused::bad("bad_json", error.to_string()))?;
    let shared = http(&app)?;
    let soft = request.soft;
    let purger = Purger::new(writer(&app, shared), shared.tiers(), soft);
    let (kind, what, purged) = match &request {
        PurgeRequest {
            url: Some(url), prefix: None, tags: None, ban: None, host: None, ..
        } => {
            let place = PageUrl::of(&app, url)?;
            let found = purger.page(&keys(&place.host, place.port, &place.path)).await;
            ("url", url.clone(), u64::from(found))
        }
        PurgeRequest {
            prefix: Some(url), url: None, tags: None, ban: None, host: None, ..
        } => {
            let key = PageUrl::verbatim(&app, url)?.key();
            let _turn = app.turns.take().await?;
            let purged = match key::parse_key(&key) {
                Some(wanted) => purger.prefix(wanted).await,
                None => 0,
            };
            ("prefix", url.clone(), purged)
        }
        PurgeRequest { tags: Some(tags), url: None, prefix: None, ban: None, host, .. } => {
            ("tags", tags.join(" "), by_tags(&app, &purger, tags, host.as_deref()).await?)
        }
        PurgeRequest {
            ban: Some(text), url: None, prefix: None, tags: None, host: None, ..
        } => {
            let ban =
                Ban::parse(text).map_err(|wrong| Refused::bad("bad_ban", wrong.to_string()))?;
            let _turn = app.turns.take().await?;
            // Pages stored during the walk were requested after its begin, or marked at its begin.
            let purger = Purger::new(writer(&app, shared), shared.tiers(), soft);
            ("ban", text.clone(), purger.ban(text, &ban).await)
        }
        _ => {
            let message =
                "a request has exactly one of url, prefix, tags, ban; host goes with tags";
            return Err(Refused::bad("bad_order", message));
        }
    };
    let settled = purger.settled().await;
    let by = format!("{peer} API");
    shared.purges.note(app.now(), kind, &what, soft, purged, by);
    let mut told = json!({"purged": purged});
    if let Some(journal) = settled.journal {
        told["journal"] = json!({"written": journal.written, "of": journal.of});
    }
    if !settled.disk {
        told["disk"] = json!(false);
    }
    Ok(answer::json(&told))
}

/// Purges tags of the host's site; without a host, of all sites.
async fn by_tags(
    app: &App,
    purger: &Purger<'_>,
    tags: &[String],
    host: Option<&str>,
) -> Result<u64, Refused> {
    if tags.is_empty() || tags.len() > TAGS || tags.iter().any(String::is_empty) {
        return Err(Refused::bad("bad_order", format!("tags are 1 to {TAGS}, none of them empty")));
    }
    let tags: Vec<Vec<u8>> = tags.iter().map(|tag| tag.clone().into_bytes()).collect();
    let settings = app.settings();
    let Some(host) = host else {
        let mut purged = 0;
        for site in &settings.sites {
            purged += purger.tags(&site.name, &tags).await;
        }
        return Ok(purged);
    };
    let site = settings.site_for(host).ok_or_else(|| {
        Refused::absent("no_site", format!("no site of this server has the host {host:?}"))
    })?;
    Ok(purger.tags(&site.name, &tags).await)
}

/// The latest purges, newest first.
pub(super) async fn purges(State(app): State<Arc<App>>) -> Response {
    let latest = app.http.as_ref().map(|shared| shared.purges.latest()).unwrap_or_default();
    answer::json(&latest)
}
