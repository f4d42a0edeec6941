//! Health, readiness, the dashboard's files, the description of the API, the sites.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde_json::json;
use tokio::sync::oneshot;

use super::{
    App,
    answer::{self, Refused},
    web,
};
use crate::{
    settings::{HostPattern, Site},
    worker::Command,
};

/// Time limit for a worker's answer; a slower worker counts as stuck.
const WORKER_PATIENCE: Duration = Duration::from_secs(1);

/// The process runs.
pub(super) async fn health() -> Response {
    answer::typed(StatusCode::OK, "text/plain; charset=utf-8", "ok\n")
}

/// Whether requests are served: the server does not stop, and every worker answers.
pub(super) async fn ready(State(app): State<Arc<App>>) -> Result<Response, Refused> {
    if app.is_draining() {
        return Err(Refused::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "draining",
            "the server is being stopped",
        ));
    }
    let stuck =
        || Refused::new(StatusCode::SERVICE_UNAVAILABLE, "stuck", "a worker does not answer");
    let mut answers = Vec::new();
    for commands in &app.commands {
        let (send, answer) = oneshot::channel();
        commands.try_send(Command::Answer(send)).map_err(|_| stuck())?;
        answers.push(answer);
    }
    let all = async {
        for answer in answers {
            answer.await.map_err(|_| stuck())?;
        }
        Ok(())
    };
    tokio::time::timeout(WORKER_PATIENCE, all).await.map_err(|_| stuck())??;
    Ok(answer::typed(StatusCode::OK, "text/plain; charset=utf-8", "ok\n"))
}

/// The dashboard's files.
pub(super) async fn asset(uri: Uri, headers: HeaderMap) -> Response {
    let Some(asset) = web::asset(uri.path()) else {
        return Refused::absent("no_route", "there is no such file").into_response();
    };
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| {
        known.to_str().is_ok_and(|known| {
            known.split(',').any(|tag| tag.trim().trim_start_matches("W/") == asset.etag)
        })
    });
    let mut response = if known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let mut response = Response::new(Body::from(asset.bytes));
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.content_type));
        response
    };
    let fields = response.headers_mut();
    fields.insert(header::ETAG, HeaderValue::from_static(asset.etag));
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// docs/openapi.json.
pub(super) async fn openapi() -> Response {
    answer::typed(StatusCode::OK, "application/json", include_str!("../../../../docs/openapi.json"))
}

/// The sites as configured.
pub(super) async fn sites(State(app): State<Arc<App>>) -> Response {
    let settings = app.settings();
    let sites: Vec<_> = settings.sites.iter().map(|site| site_view(site)).collect();
    answer::json(&json!({"sites": sites}))
}

fn site_view(site: &Site) -> serde_json::Value {
    let hosts: Vec<String> = site.hosts.iter().map(host_text).collect();
    json!({
        "name": site.name,
        "hosts": hosts,
        "origin": site.origin.name(),
        "rules": site.rules.len(),
    })
}

fn host_text(host: &HostPattern) -> String {
    match host {
        HostPattern::Exact(name) => name.clone(),
        HostPattern::Suffix(suffix) => format!("*{suffix}"),
    }
}
