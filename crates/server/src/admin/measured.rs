//! Figures as JSON and as metrics.

use std::sync::Arc;

use axum::{
    extract::{Query, State},
    http::{HeaderMap, StatusCode, Uri, header},
    response::Response,
};
use larder_metrics::{By, Format};
use serde::{Deserialize, de::DeserializeOwned};

use super::{
    App,
    answer::{self, Refused},
};

/// The most URLs and keys in one answer.
const MOST: usize = 1000;

/// The parameters of a query; an unknown name is an error, so that typing errors are seen.
pub(super) fn params<T: DeserializeOwned>(uri: &Uri) -> Result<T, Refused> {
    Query::try_from_uri(uri).map(|Query(params)| params).map_err(|rejection| {
        use std::error::Error as _;
        let reason = rejection.source().map_or_else(|| rejection.to_string(), ToString::to_string);
        Refused::bad("bad_parameter", reason)
    })
}

/// The snapshot of this moment.
pub(super) async fn stats(State(app): State<Arc<App>>) -> Response {
    answer::json(&app.registry.snapshot(app.now()))
}

/// For Prometheus and its like.
pub(super) async fn metrics(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let accept =
        headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let openmetrics = accept.split(',').any(|range| {
        let kind = range.split(';').next().unwrap_or_default();
        kind.trim().eq_ignore_ascii_case("application/openmetrics-text")
    });
    let (format, content_type) = if openmetrics {
        (Format::OpenMetrics, "application/openmetrics-text; version=1.0.0; charset=utf-8")
    } else {
        (Format::Prometheus, "text/plain; version=0.0.4; charset=utf-8")
    };
    answer::typed(StatusCode::OK, content_type, app.registry.prometheus(app.now(), format))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Since {
    #[serde(default)]
    since: u64,
}

/// The last hour.
pub(super) async fn history(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Refused> {
    let Since { since } = params(&uri)?;
    Ok(answer::json(&app.history.since(since)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TopOf {
    by: Option<String>,
    #[serde(default = "twenty")]
    limit: usize,
}

fn twenty() -> usize {
    20
}

/// The hottest URLs.
pub(super) async fn top(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Refused> {
    let query: TopOf = params(&uri)?;
    let by = By::named(query.by.as_deref().unwrap_or("requests")).ok_or_else(|| {
        Refused::bad("bad_parameter", "by is one of requests, misses, bytes, slow, passes")
    })?;
    Ok(answer::json(&app.registry.top(by, query.limit.clamp(1, MOST))))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeysOf {
    face: Option<String>,
    #[serde(default = "twenty")]
    limit: usize,
}

/// The hottest keys of an object face.
pub(super) async fn keys(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Refused> {
    let query: KeysOf = params(&uri)?;
    let face = query.face.as_deref().unwrap_or("memcached");
    let limit = query.limit.clamp(1, MOST);
    let name = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    let keys = match face {
        "memcached" => {
            let absent = || Refused::absent("no_face", "memcached's protocol is not served here");
            app.memcached.as_ref().ok_or_else(absent)?.top_keys(limit, name)
        }
        "redis" => {
            let absent = || Refused::absent("no_face", "Redis's protocol is not served here");
            app.redis.as_ref().ok_or_else(absent)?.top_keys(limit, name)
        }
        _ => return Err(Refused::bad("bad_parameter", "face is memcached or redis")),
    };
    Ok(answer::json(&keys))
}
