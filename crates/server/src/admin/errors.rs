//! The latest errors that Larder answered with itself.

use std::sync::Arc;

use axum::{
    extract::{Query, State},
    response::Response,
};
use serde::Deserialize;

use super::{App, answer};

#[derive(Deserialize)]
pub(super) struct Wanted {
    reference: Option<String>,
}

/// The latest errors, newest first; with `reference` the one of that name.
pub(super) async fn errors(State(app): State<Arc<App>>, Query(wanted): Query<Wanted>) -> Response {
    let reference = wanted.reference.as_deref();
    let latest = app.http.as_ref().map(|shared| shared.errors.latest(reference));
    answer::json(&latest.unwrap_or_default())
}
