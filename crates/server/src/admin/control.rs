//! Orders to the process over the control socket: reload, stop, upgrade.
//!
//! The socket is for the user that the server runs as, and for root (`thread::accept_local`). The
//! same requests over TCP are refused, with a token too: a token permits changes of what is stored.

use std::{path::PathBuf, sync::Arc};

use axum::{
    body::Body,
    extract::{Extension, State},
    http::StatusCode,
    response::Response,
};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::oneshot;

use super::{
    App,
    answer::{self, Refused},
    purges,
    thread::Peer,
};

/// Largest order, in bytes.
const PATH_BYTES: usize = 16 << 10;
/// Orders that may wait for the main thread; further ones are refused.
pub(super) const ORDERS: usize = 4;

/// The kind of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderKind {
    /// Read the configuration again, open the logs anew.
    Reload,
    /// Let requests under way finish, then end.
    Stop,
    /// Have a new process take over, of this program or another one.
    Upgrade(Option<PathBuf>),
}

/// An order of an operator to the process.
#[derive(Debug)]
pub struct Order {
    /// The order.
    pub kind: OrderKind,
    /// Takes the outcome: a text for the operator; an error if nothing was changed.
    pub outcome: oneshot::Sender<Result<String, String>>,
}

/// This process, for commands that choose among several.
pub(super) async fn instance(State(app): State<Arc<App>>) -> Response {
    answer::json(&json!({
        "pid": std::process::id(),
        "version": env!("CARGO_PKG_VERSION"),
        "name": app.admin().name,
        "listening": *app.addresses.read(),
    }))
}

pub(super) async fn reload(
    State(app): State<Arc<App>>,
    Extension(peer): Extension<Peer>,
) -> Result<Response, Refused> {
    give(&app, peer, OrderKind::Reload).await
}

pub(super) async fn stop(
    State(app): State<Arc<App>>,
    Extension(peer): Extension<Peer>,
) -> Result<Response, Refused> {
    give(&app, peer, OrderKind::Stop).await
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct UpgradeRequest {
    /// The new program; absent: the same one.
    program: Option<PathBuf>,
}

pub(super) async fn upgrade(
    State(app): State<Arc<App>>,
    Extension(peer): Extension<Peer>,
    body: Body,
) -> Result<Response, Refused> {
    let body = purges::whole(body, PATH_BYTES).await?;
    let request = match &*body {
        b"" => UpgradeRequest::default(),
        body => serde_json::from_slice(body)
            .map_err(|error| Refused::bad("bad_request", format!("program: {error}")))?,
    };
    if request.program.as_ref().is_some_and(|path| !path.is_absolute()) {
        return Err(Refused::bad("bad_request", "program: a path from the root on"));
    }
    give(&app, peer, OrderKind::Upgrade(request.program)).await
}

async fn give(app: &App, peer: Peer, kind: OrderKind) -> Result<Response, Refused> {
    if !matches!(peer, Peer::Local(_)) {
        let message =
            "this is done over the control socket alone: `larder reload`, `stop`, `upgrade`";
        return Err(Refused::new(StatusCode::FORBIDDEN, "only_local", message));
    }
    let busy = || Refused::busy("the server is busy with another order, or stops");
    let (outcome, answered) = oneshot::channel();
    app.orders.try_send(Order { kind, outcome }).map_err(|_| busy())?;
    match answered.await.map_err(|_| busy())? {
        Ok(text) => Ok(answer::json(&json!({"done": text}))),
        Err(text) => Err(Refused::new(StatusCode::CONFLICT, "not_done", text)),
    }
}
