//! The routes of Monkey's cache plugin, for programs that use it: `/cache/stats`, `/cache/add/URI`,
//! `/cache/reset/URI`. Monkey's routes are GETs that change things without a password; these are
//! POSTs with the token.
//!
//! That plugin has one server and paths. Here a path belongs to a host: the one in `?host=`, else
//! the first host of the first site; of a site without hosts, the name this request was sent to, at
//! the port that pages are served at.

use std::sync::Arc;

use axum::{
    extract::{Extension, Path, Request, State},
    http::{Uri, header},
    response::Response,
};
use serde::Deserialize;
use serde_json::json;

use super::{
    App,
    answer::{self, Refused},
    measured::params,
    page_url::PageUrl,
    pages,
    purges::{http, writer},
    thread::Peer,
    walk::Bookmark,
};
use crate::{
    request::purge::{Purger, keys},
    settings::HostPattern,
};

/// The most files in the list.
const FILES: usize = 1000;
/// Milliseconds of the history that are read for the requests of the last second.
const LATELY: u64 = 3000;

const ADD: &str = "/cache/add/";
const RESET: &str = "/cache/reset/";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    host: Option<String>,
}

fn enabled(app: &App) -> Result<(), Refused> {
    if app.admin().monkey_api {
        return Ok(());
    }
    Err(Refused::absent("no_route", "these routes are off: write monkey_api = true into [admin]"))
}

/// The page of a path.
fn place(app: &App, request_host: &str, uri: &Uri, path: &str) -> Result<PageUrl, Refused> {
    let query: Params = params(uri)?;
    let settings = app.settings();
    let named = || {
        let first = settings.sites.first()?.hosts.iter().find_map(|host| match host {
            HostPattern::Exact(name) => Some(name.clone()),
            HostPattern::Suffix(_) => None,
        });
        let name = request_host.rsplit_once(':').map_or(request_host, |(name, _)| name);
        let port = settings.http.listen.first().map(|address| address.port())?;
        Some(first.unwrap_or_else(|| format!("{name}:{port}")))
    };
    let host = query.host.clone().or_else(named);
    let host = host.ok_or_else(|| Refused::bad("no_host", "say which host: ?host=example.org"))?;
    PageUrl::of(app, &format!("http://{host}/{path}"))
}

fn host_of(request: &Request) -> String {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    host.unwrap_or_default().to_owned()
}

/// Memory, requests served in the last second, and the files published.
pub(super) async fn stats(State(app): State<Arc<App>>) -> Result<Response, Refused> {
    enabled(&app)?;
    let now = app.now();
    let snapshot = app.registry.snapshot(now);
    let lately = app.history.since(now.saturating_sub(LATELY));
    let (pages, _) = pages::published(&app, Bookmark::default(), FILES).await?;
    let files: Vec<_> =
        pages.iter().map(|page| json!({"uri": page["url"], "size": page["size"]})).collect();
    Ok(answer::json(&json!({
        "memory": {"used": snapshot.memory.used, "size": snapshot.memory.budget},
        "requests_per_second": lately.columns.get("requests").and_then(|column| column.last()).copied().unwrap_or(0),
        "files": files,
    })))
}

/// Publishes the body under a path.
pub(super) async fn add(
    State(app): State<Arc<App>>,
    Path(path): Path<String>,
    request: Request,
) -> Result<Response, Refused> {
    enabled(&app)?;
    let place = place(&app, &host_of(&request), request.uri(), spelled(request.uri(), ADD))?;
    let (parts, body) = request.into_parts();
    let body = pages::upload(&app, body).await?;
    let mut headers = parts.headers;
    // The type that programs send by default says nothing about the file.
    if headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind == "application/x-www-form-urlencoded")
    {
        headers.remove(header::CONTENT_TYPE);
    }
    pages::publish(&app, &place, &headers, None, &[], &body)?;
    Ok(answer::json(&json!({"added": format!("/{path}"), "size": body.len()})))
}

/// Deletes the page of a path, published or fetched.
pub(super) async fn reset(
    State(app): State<Arc<App>>,
    Extension(peer): Extension<Peer>,
    Path(path): Path<String>,
    request: Request,
) -> Result<Response, Refused> {
    enabled(&app)?;
    let place = place(&app, &host_of(&request), request.uri(), spelled(request.uri(), RESET))?;
    let shared = http(&app)?;
    let purger = Purger::new(writer(&app, shared), shared.tiers(), false);
    let found = purger.page(&keys(&place.host, place.port, &place.path)).await;
    let by = format!("{peer} API");
    shared.purges.note(app.now(), "reset", &format!("/{path}"), false, u64::from(found), by);
    Ok(answer::json(&json!({"reset": format!("/{path}"), "purged": u64::from(found)})))
}

/// The path below the route, as the request spells it: pages are keyed by the spelling of their
/// requests.
fn spelled<'a>(uri: &'a Uri, route: &str) -> &'a str {
    uri.path().strip_prefix(route).unwrap_or_default()
}
