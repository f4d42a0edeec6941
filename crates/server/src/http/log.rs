//! The end of a request: what it is counted as, and who is told of it: the access log, those who watch, a trace.

use std::{net::SocketAddr, sync::Arc};

use larder_proto::http::Version;

use super::{asked::Asked, deliver::Delivered};
use crate::{
    access_log::{Hierarchy, Record, ResultCode, WorkerLog},
    admin::tail::Feed,
    clock::Clock,
    http::worker::Worker,
    measure::{
        counted::Outcome,
        hot::{Became, Hot, Seen},
    },
    trace::{Kind, Span, Told, Traced, Tracer, cut},
};

/// The last step: counts the request and tells of it wherever it is asked for. Returns whether the connection goes on.
pub(crate) fn finish(asked: &Asked<'_, '_>, delivered: &Delivered) -> bool {
    let (worker, noted) = (asked.worker, &asked.noted);
    let outcome = delivered.outcome(noted.miss.get());
    noted.outcome.set(Some(outcome));
    asked.config.counted.at(noted.site.get()).count(outcome, delivered.status, delivered.bytes);
    if let Some(why) = noted.why.get() {
        worker.counters.forwards.one(why);
    }
    if let Some((hot, weight)) = worker.counters.watched.due(outcome == Outcome::Hit) {
        watch(asked, delivered, outcome, hot, weight);
    }
    if let Some(log) = &worker.log {
        record(log, asked, delivered);
    }
    if let Some(feed) = worker.feed.as_ref().filter(|feed| feed.watched()) {
        show(feed, asked, delivered, outcome);
    }
    if let (Some(tracer), Some(traced)) = (&worker.tracer, &asked.trace) {
        trace(tracer, traced, asked, delivered);
    }
    delivered.keep
}

/// Counts a request whose client left before it was answered.
pub(crate) fn abandoned(asked: &Asked<'_, '_>) {
    let noted = &asked.noted;
    if noted.outcome.get().is_some() {
        return;
    }
    noted.outcome.set(Some(Outcome::Aborted));
    asked.config.counted.at(noted.site.get()).count(Outcome::Aborted, 0, 0);
    if let Some(why) = noted.why.get() {
        asked.worker.counters.forwards.one(why);
    }
}

/// Counts and writes down a request that could not be read.
pub(crate) fn unread(worker: &Worker, peer: SocketAddr, status: u16, bytes: u64) {
    worker.config().counted.at(0).count(Outcome::Rejected, status, bytes);
    if let Some(log) = &worker.log {
        refused(log, worker.clock, peer, status, bytes);
    }
}

/// Writes a request down.
fn record(log: &WorkerLog, asked: &Asked<'_, '_>, delivered: &Delivered) {
    log.record(&of(asked, delivered, &url(asked)));
}

/// Shows a request to those who watch.
#[cold]
fn show(feed: &Feed, asked: &Asked<'_, '_>, delivered: &Delivered, outcome: Outcome) {
    feed.tell(&of(asked, delivered, &url(asked)), outcome);
}

fn of<'r>(asked: &'r Asked<'_, '_>, delivered: &'r Delivered, url: &'r str) -> Record<'r> {
    let head = asked.head;
    let ended = asked.worker.clock.micros();
    Record {
        time: asked.worker.clock.at(ended),
        elapsed_us: ended - asked.since,
        client: asked.client(),
        method: head.method.as_str(),
        url,
        http_version: if head.version == Version::Http10 { "HTTP/1.0" } else { "HTTP/1.1" },
        status: delivered.status,
        bytes: delivered.bytes,
        body_bytes: delivered.body_bytes,
        result: delivered.result,
        hierarchy: delivered.hierarchy,
        content_type: delivered.content_type.as_deref(),
        user: None,
        referer: head.known.referer(),
        user_agent: head.known.user_agent(),
        cache_status: delivered.cache_status.as_deref(),
    }
}

/// As the client meant it.
fn url(asked: &Asked<'_, '_>) -> String {
    let host = asked.head.known.host().and_then(|host| std::str::from_utf8(host).ok()).unwrap_or("-");
    format!("{}://{host}{}", asked.scheme().as_str(), asked.head.target.path_and_query)
}

/// Looks at a request for the hottest URLs, for `weight` of its kind. What reached no site has no page.
#[cold]
fn watch(asked: &Asked<'_, '_>, delivered: &Delivered, outcome: Outcome, hot: &Hot, weight: u64) {
    let became = match outcome {
        Outcome::Hit | Outcome::Stale => Became::Hit,
        Outcome::Pass | Outcome::Tunnel => Became::Pass,
        Outcome::Purge | Outcome::Denied | Outcome::Refused => return,
        _ => Became::Miss,
    };
    let host = asked.head.host.as_ref().map_or("", |authority| authority.host);
    let site = asked.config.settings.site_for(host).map_or("", |site| site.name.as_str());
    let micros = asked.worker.clock.micros().saturating_sub(asked.since);
    let url = url(asked);
    hot.see(&Seen { url: &url, site, became, bytes: delivered.bytes, micros }, weight);
}

/// Writes down a request that could not be read: there is no method and no URL to name.
fn refused(log: &WorkerLog, clock: Clock, peer: SocketAddr, status: u16, bytes: u64) {
    log.record(&Record {
        time: clock.now(),
        elapsed_us: 0,
        client: peer.ip().to_canonical(),
        method: "NONE",
        url: "error:invalid-request",
        http_version: "HTTP/1.1",
        status,
        bytes,
        body_bytes: 0,
        result: ResultCode::None,
        hierarchy: Hierarchy::None,
        content_type: Some(b"text/html"),
        user: None,
        referer: None,
        user_agent: None,
        cache_status: None,
    });
}

/// Hands over what is to be told of a request that is recorded: its span, and that of its fetch if it made one.
fn trace(tracer: &Tracer, traced: &Traced, asked: &Asked<'_, '_>, delivered: &Delivered) {
    let head = asked.head;
    let clock = asked.worker.clock;
    let (path, query) = match head.target.path_and_query.split_once('?') {
        Some((path, query)) => (path, Some(cut(query.as_bytes()))),
        None => (head.target.path_and_query, None),
    };
    let request = Arc::new(Told {
        method: head.method.as_str().to_owned(),
        scheme: asked.scheme().as_str(),
        host: asked.host().unwrap_or_default(),
        path: cut(path.as_bytes()),
        query,
        client: asked.client(),
        agent: head.known.user_agent().map(cut),
    });
    let (sent, came) = traced.fetched.get();
    let span = Span {
        kind: Kind::Server,
        trace: traced.trace,
        id: traced.span,
        parent: traced.parent,
        start_us: clock.wall_micros(asked.since),
        end_us: clock.wall_micros(clock.micros()),
        request,
        status: delivered.status,
        result: Some(delivered.result.as_str()),
        body_bytes: delivered.body_bytes,
    };
    if came > 0 && sent > 0 {
        tracer.end(Span {
            kind: Kind::Client,
            id: traced.fetch,
            parent: Some(traced.span),
            start_us: clock.wall_micros(sent),
            end_us: clock.wall_micros(came),
            request: span.request.clone(),
            result: None,
            ..span
        });
    }
    tracer.end(span);
}
