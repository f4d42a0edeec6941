//! Health checks: one task for an origin, on one worker, asks every server of it.
//!
//! A check has a connection of its own: a server whose connections are all in use is busy, not
//! unwell.

use std::{
    rc::{Rc, Weak},
    sync::Arc,
    time::Duration,
};

use http::{HeaderMap, HeaderValue, Method, header};
use tokio::{
    task::spawn_local,
    time::{sleep, timeout},
};

use super::{
    Group,
    state::{GroupState, MemberState},
};
use crate::{
    origin::{Asker, Origin, OriginError, Request, RequestBody},
    settings::{HealthCheck, OriginSettings},
};

/// Bytes of a page in which the text of a check is looked for; the rest is not read.
const BODY: usize = 64 << 10;

/// A server, as checks reach it.
struct Checked {
    state: Arc<MemberState>,
    origin: Rc<Origin>,
}

/// Checks the servers of `group` until it is dropped.
pub(super) fn start(group: &Rc<Group>, check: HealthCheck) {
    spawn_local(run(Rc::downgrade(group), Rc::new(check)));
}

async fn run(group: Weak<Group>, check: Rc<HealthCheck>) {
    let mut servers: Vec<Rc<Checked>> = Vec::new();
    loop {
        let Some(alive) = group.upgrade() else { return };
        let shared = alive.state.clone();
        servers = reached(&alive, &check, &servers);
        drop(alive);
        let begin =
            |server: &Rc<Checked>| spawn_local(one(shared.clone(), server.clone(), check.clone()));
        let asked: Vec<_> = servers.iter().map(begin).collect();
        for answer in asked {
            let _ = answer.await;
        }
        sleep(check.interval).await;
    }
}

/// The servers of the moment; those known before keep their connection settings.
fn reached(group: &Group, check: &HealthCheck, before: &[Rc<Checked>]) -> Vec<Rc<Checked>> {
    let members = group.members();
    let reach = |member: &super::Member| {
        let known = before.iter().find(|known| Arc::ptr_eq(&known.state, &member.state));
        known.cloned().unwrap_or_else(|| {
            let settings = with_own_connection(member.origin.settings(), check.timeout);
            let origin = Origin::new(Arc::new(settings), Arc::default());
            Rc::new(Checked { state: member.state.clone(), origin })
        })
    };
    members.iter().map(reach).collect()
}

fn with_own_connection(settings: &OriginSettings, limit: Duration) -> OriginSettings {
    OriginSettings {
        connect_timeout: limit,
        first_byte_timeout: limit,
        between_bytes_timeout: limit,
        total_timeout: limit,
        max_connections: 1,
        max_waiting: 1,
        idle_connections: 0,
        ..settings.clone()
    }
}

async fn one(group: Arc<GroupState>, server: Rc<Checked>, check: Rc<HealthCheck>) {
    let late = Err("no answer in time".to_owned());
    let answer = timeout(check.timeout, ask(&server.origin, &check)).await.unwrap_or(late);
    let name = || server.origin.settings().name();
    match answer {
        Ok(()) if group.well(&server.state) => {
            eprintln!("larder: {}: the health check succeeds again", name());
        }
        Err(why) if group.unwell(&server.state) => {
            eprintln!("larder: {}: the health check fails: {why}", name());
        }
        _ => {}
    }
}

/// An error: why it is unwell.
async fn ask(origin: &Rc<Origin>, check: &HealthCheck) -> Result<(), String> {
    let text = |error: OriginError| error.to_string();
    let mut response = origin.send(request(check), None).await.map_err(text)?;
    let status = response.status;
    if !check.status.iter().any(|(first, last)| (*first..=*last).contains(&status)) {
        return Err(format!("status {status}"));
    }
    let Some(wanted) = &check.body else { return Ok(()) };
    let mut body = Vec::new();
    while body.len() < BODY
        && let Some(piece) = response.body.chunk().await.map_err(text)?
    {
        body.extend_from_slice(&piece);
    }
    match body.windows(wanted.len().max(1)).any(|part| part == wanted.as_bytes()) {
        true => Ok(()),
        false => Err(format!("{wanted:?} is not in the page")),
    }
}

fn request(check: &HealthCheck) -> Request {
    let mut headers = HeaderMap::new();
    headers.insert(header::USER_AGENT, HeaderValue::from_static("larder-health-check"));
    if let Some(host) = check.host.as_deref().and_then(|host| HeaderValue::from_str(host).ok()) {
        headers.insert(header::HOST, host);
    }
    Request {
        method: Method::GET,
        target: check.path.clone(),
        visited: None,
        headers,
        body: RequestBody::Empty,
        upgrade: false,
        asker: Asker::default(),
    }
}
