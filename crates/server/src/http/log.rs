//! The end of a request: what it is counted as, and who is told of it: the access log, those who
//! watch, a trace.

use std::{net::SocketAddr, sync::Arc};

use larder_metrics::{HotUrls, Outcome, Seen, Source};
use larder_proto::rules::CacheStatus;
use larder_proto::{http::cookie::cookies, rules::Forward};

use super::{deliver::Delivered, exchange::Exchange};
use crate::{
    access_log::{Hierarchy, Record, ResultCode, Tls, WorkerLog, live::LiveFeed},
    clock::Clock,
    counters::{Cause, Finding, trackers},
    http::worker::Worker,
    page::software,
    trace::{Kind, RequestAttributes, Span, TraceIds, Tracer, cut},
};

/// The last step: counts the request and tells of it wherever it is asked for. Returns whether the
/// connection goes on.
pub(crate) fn finish(exchange: &Exchange<'_, '_>, delivered: &Delivered) -> bool {
    let (worker, stats) = (exchange.worker, &exchange.request.stats);
    let outcome = delivered.outcome(stats.miss.get());
    stats.outcome.set(Some(outcome));
    exchange.request.config.counted.at(stats.site.get()).count(
        outcome,
        delivered.status,
        delivered.bytes,
    );
    if let Some(why) = stats.forward_reason.get() {
        worker.pages.counters.forwards.one(why);
        find(exchange, delivered.status, why);
    }
    let second = exchange.request.since / 1_000_000;
    if let Some((hot, weight)) = worker.pages.counters.urls.due(outcome == Outcome::Hit, second) {
        watch(exchange, delivered, outcome, hot, weight);
    }
    if let Some(log) = &worker.log {
        record(log, exchange, delivered);
    }
    if let Some(feed) = worker.feed.as_ref().filter(|feed| feed.watched()) {
        show(feed, exchange, delivered, outcome);
    }
    if let (Some(tracer), Some(traced)) = (&worker.pages.tracer, &exchange.request.trace) {
        trace(tracer, traced, exchange, delivered);
    }
    delivered.keep
}

/// Counts a request whose client left before it was answered.
pub(crate) fn abandoned(exchange: &Exchange<'_, '_>) {
    let stats = &exchange.request.stats;
    if stats.outcome.get().is_some() {
        return;
    }
    stats.outcome.set(Some(Outcome::Aborted));
    exchange.request.config.counted.at(stats.site.get()).count(Outcome::Aborted, 0, 0);
    if let Some(why) = stats.forward_reason.get() {
        exchange.request.pages.counters.forwards.one(why);
    }
}

/// Counts and writes down a request that could not be read.
pub(crate) fn unread(worker: &Worker, peer: SocketAddr, status: u16, bytes: u64) {
    worker.pages.config().counted.at(0).count(Outcome::Refused, status, bytes);
    if let Some(log) = &worker.log {
        refused(log, worker.pages.clock, peer, status, bytes);
    }
}

/// Whether the software of the request's site is worth to be looked for.
pub(super) fn is_unknown(exchange: &Exchange<'_, '_>) -> bool {
    let request = &exchange.request;
    let host = request.head.host.as_ref().map_or("", |authority| authority.host);
    request.config.site_for(host).is_some_and(|(site, _)| {
        site.preset.is_none() && request.pages.shared.findings.is_unknown(&site.name)
    })
}

/// Notes why a request was not answered from memory; the first pages of a site that are not kept
/// for want of a lifetime are told on the terminal.
#[cold]
fn find(exchange: &Exchange<'_, '_>, status: u16, why: Forward) {
    let (request, stats) = (&exchange.request, &exchange.request.stats);
    let head = request.head;
    let host = head.host.as_ref().map_or("", |authority| authority.host);
    let Some((site, _)) = request.config.site_for(host).filter(|_| why != Forward::Method) else {
        return;
    };
    let target = head.target.path_and_query;
    let trackers = || Some(trackers(target)).filter(|names| !names.is_empty());
    let cookies = || {
        let all = head.fields.all("cookie").flat_map(cookies);
        all.map(|cookie| String::from_utf8_lossy(cookie.name()).into_owned()).take(8).collect()
    };
    let (cause, names) = match (stats.detail.get().and_then(Cause::named), why) {
        // Only pages are expected to have a lifetime.
        (Some(Cause::NoFreshness), _) if status != 200 => (None, Vec::new()),
        (Some(cause @ (Cause::Cookie | Cause::BypassCookie)), _) => (Some(cause), cookies()),
        (Some(cause), _) => (Some(cause), Vec::new()),
        (None, Forward::VaryMiss) => {
            let varies = stats.varies.take().unwrap_or_default();
            (Some(Cause::Vary), vec![String::from_utf8_lossy(&varies).into_owned()])
        }
        (None, Forward::UriMiss) => match trackers() {
            Some(names) => (Some(Cause::Query), names),
            None => (None, Vec::new()),
        },
        (None, _) => (None, Vec::new()),
    };
    let cache = &site.defaults.cache;
    let url = url(exchange);
    let finding = Finding {
        site: &site.name,
        cause,
        url: &url,
        names,
        software: stats
            .software
            .get()
            .or_else(|| site.preset.as_deref().and_then(software::by_preset)),
        preset: site.preset.is_some(),
        settled: cache.ttl.is_some() || cache.refresh.is_some() || site.preset.is_some(),
    };
    if let Some(line) = request.pages.shared.findings.note(request.now(), finding) {
        eprintln!("{line}");
    }
}

/// Writes a request down.
fn record(log: &WorkerLog, exchange: &Exchange<'_, '_>, delivered: &Delivered) {
    log.record(&of(exchange, delivered, &url(exchange)));
}

/// Shows a request to those who watch.
#[cold]
fn show(feed: &LiveFeed, exchange: &Exchange<'_, '_>, delivered: &Delivered, outcome: Outcome) {
    feed.send(&of(exchange, delivered, &url(exchange)), outcome);
}

fn of<'r>(exchange: &'r Exchange<'_, '_>, delivered: &'r Delivered, url: &'r str) -> Record<'r> {
    let head = exchange.request.head;
    let ended = exchange.request.pages.clock.micros();
    Record {
        time: exchange.request.pages.clock.at(ended),
        elapsed_us: ended - exchange.request.since,
        client: exchange.request.client(),
        method: head.method.as_str(),
        url,
        http_version: head.version.as_str(),
        status: delivered.status,
        bytes: delivered.bytes,
        body_bytes: delivered.body_bytes,
        result: delivered.result,
        hierarchy: delivered.hierarchy,
        content_type: delivered.content_type.as_deref(),
        user: exchange.request.certificate().map(|certificate| certificate.subject.as_bytes()),
        referer: head.known.referer(),
        user_agent: head.known.user_agent(),
        cache_status: delivered.cache_status.as_deref(),
        reference: exchange.request.stats.reference.get().map(|reference| &**reference),
        tls: exchange.request.peer.negotiated.map(|negotiated| Tls {
            version: negotiated.version(),
            cipher: negotiated.cipher(),
            resumed: negotiated.resumed,
        }),
    }
}

/// As the client meant it.
pub(super) fn url(exchange: &Exchange<'_, '_>) -> String {
    let host = exchange
        .request
        .head
        .known
        .host()
        .and_then(|host| std::str::from_utf8(host).ok())
        .unwrap_or("-");
    format!(
        "{}://{host}{}",
        exchange.request.scheme().as_str(),
        exchange.request.head.target.path_and_query
    )
}

/// Cache-Status as the log writes it; nothing is composed when nothing is logged.
pub(super) fn logged_status(
    exchange: &Exchange<'_, '_>,
    status: &CacheStatus<'_>,
) -> Option<Vec<u8>> {
    if !exchange.worker.shows() {
        return None;
    }
    let mut out = Vec::with_capacity(48);
    status
        .write(exchange.request.config.settings.http.via.as_deref().unwrap_or("larder"), &mut out);
    Some(out)
}

/// Looks at a request for the hottest URLs, for `weight` of its kind. A request that
/// reached no site has no page.
#[cold]
fn watch(
    exchange: &Exchange<'_, '_>,
    delivered: &Delivered,
    outcome: Outcome,
    hot: &HotUrls,
    weight: u64,
) {
    let source = match outcome {
        Outcome::Hit | Outcome::Stale => Source::Hit,
        Outcome::Pass | Outcome::Tunnel => Source::Pass,
        Outcome::Purge | Outcome::Denied | Outcome::Refused => return,
        _ => Source::Miss,
    };
    let host = exchange.request.head.host.as_ref().map_or("", |authority| authority.host);
    let site =
        exchange.request.config.settings.site_for(host).map_or("", |site| site.name.as_str());
    let micros = exchange.request.pages.clock.micros().saturating_sub(exchange.request.since);
    let url = url(exchange);
    hot.see(&Seen { url: &url, site, source, bytes: delivered.bytes, micros }, weight);
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
        reference: None,
        tls: None,
    });
}

/// Hands over what is to be told of a request that is recorded: its span, and that of its fetch if
/// it made one.
fn trace(tracer: &Tracer, traced: &TraceIds, exchange: &Exchange<'_, '_>, delivered: &Delivered) {
    let head = exchange.request.head;
    let clock = exchange.request.pages.clock;
    let (path, query) = match head.target.path_and_query.split_once('?') {
        Some((path, query)) => (path, Some(cut(query.as_bytes()))),
        None => (head.target.path_and_query, None),
    };
    let request = Arc::new(RequestAttributes {
        method: head.method.as_str().to_owned(),
        scheme: exchange.request.scheme().as_str(),
        host: exchange.request.host().unwrap_or_default(),
        path: cut(path.as_bytes()),
        query,
        client: exchange.request.client(),
        agent: head.known.user_agent().map(cut),
    });
    let (sent, came) = traced.fetched.get();
    let span = Span {
        kind: Kind::Server,
        trace: traced.trace,
        id: traced.span,
        parent: traced.parent,
        start_us: clock.wall_micros(exchange.request.since),
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
