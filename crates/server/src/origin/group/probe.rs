//! Trials of servers that are out: requests of Larder's own, so that no visitor waits for a server
//! that has just failed, and so that one comes back whatever visitors send.
//!
//! A trial is a HEAD of the page that a visitor asked for when the pause was over, without the
//! visitor's fields: a page that others answer, and nothing that may be executed twice.

use std::{rc::Rc, sync::Arc};

use http::{HeaderMap, HeaderValue, Method, header};
use tokio::task::spawn_local;

use super::{
    Group, Member,
    state::{Phase, Ticket},
};
use crate::{
    origin::{Asker, Origin, Request, RequestBody},
    settings::OriginGroup,
};

/// Begins a trial of each member whose pause is over, unless one is under way. None while the
/// budget is spent: a member that comes back and fails costs a retry.
pub(super) fn those_due(group: &Group, members: &[Member], request: &Request) {
    if members.len() < 2 || !group.budget.has_left() {
        return;
    }
    let now = group.state.now();
    for member in members {
        let Phase::Due(due) = member.state.phase(now) else { continue };
        if let Some(ticket) = group.state.try_again(&member.state, due) {
            let (origin, settings) = (member.origin.clone(), group.settings.clone());
            spawn_local(run(origin, trial(request), ticket, settings));
        }
    }
}

/// It ends at the latest with the time limits of the origin.
async fn run(origin: Rc<Origin>, trial: Request, ticket: Ticket, settings: Arc<OriginGroup>) {
    match origin.send(trial, None).await {
        Ok(response) if settings.retry_status.contains(&response.status) => ticket.failed(),
        Ok(_) => ticket.succeeded(),
        Err(error) if error.blames_server() => ticket.failed(),
        Err(_) => {}
    }
}

fn trial(request: &Request) -> Request {
    let mut headers = HeaderMap::new();
    headers.insert(header::USER_AGENT, HeaderValue::from_static("larder-health-check"));
    if let Some(host) = request.headers.get(header::HOST) {
        headers.insert(header::HOST, host.clone());
    }
    // The target of OPTIONS may be `*`.
    let is_path = request.target.starts_with('/');
    Request {
        method: Method::HEAD,
        target: if is_path { request.target.clone() } else { "/".to_owned() },
        visited: None,
        headers,
        body: RequestBody::Empty,
        upgrade: false,
        asker: Asker::default(),
    }
}
