//! The answer that streams by: a response on its way into the store, or past it.

use std::{io::IoSlice, pin::pin};

use crate::access_log::ResultCode;
use crate::{
    fetch::{Reply, Source},
    http::{
        deliver::{Delivered, content_type, end_head},
        exchange::Exchange,
        log::{self, finish, logged_status},
        passing::{Passed, Passing},
    },
    net::{out::Out, socket::Ended},
    origin::{Body, Tunnel},
    page::{
        coding::Coder,
        flight::{Follower, Piece},
        head, software,
    },
    wire::{
        Wire,
        h1::{Framing, HeadWriter},
        meta,
        meta::ResponseMeta,
    },
};
use http::HeaderMap;
use larder_proto::{
    page::Encoding,
    rules::{CacheStatus, Forward, Precondition, current_age, evaluate, strip},
};

/// How an answer ended.
pub(crate) enum Done {
    Answered {
        /// The connection goes on.
        keep: bool,
    },
    /// The head of a 101 is out: what follows is another protocol.
    Tunnel(Tunnel, Delivered),
}

/// Sends a response that is not whole in the store (yet), or never will be.
pub(crate) async fn send(
    wire: Wire<'_>,
    out: &mut Out,
    exchange: &Exchange<'_, '_>,
    reply: Reply,
) -> Result<Done, Ended> {
    exchange.started.set(true);
    note(exchange, &reply);
    let mut delivered = head_of(exchange, out, &reply);
    if delivered.status != reply.answer.status {
        delivered.bytes = out.pending();
        return Ok(Done::Answered { keep: finish(exchange, &delivered) });
    }
    let framing = framing(exchange, &reply);
    let head_bytes = out.pending();
    let sent = match reply.source {
        Source::Tunnel(upgraded, _) => {
            (delivered.result, delivered.bytes) = (ResultCode::TcpTunnel, head_bytes);
            exchange.send(wire, out).await?;
            return Ok(Done::Tunnel(upgraded, delivered));
        }
        _ if !framing.bodied() => Ok((0, None)),
        Source::Follow(follower) => {
            pin!(follow(wire, out, exchange, follower, Pieces::plain(framing))).await
        }
        Source::Alone(body) => pin!(pour(wire, out, exchange, *body, Pieces::plain(framing))).await,
        // Its parts are put in by `esi`.
        Source::Template(_) => Err(Cut::Origin),
    };
    let keep = conclude(wire, out, exchange, (framing, head_bytes), delivered, sent).await?;
    Ok(Done::Answered { keep })
}

/// Ends an answer whose body went out, or was cut: what follows it, the counters and the log. True:
/// the connection goes on.
pub(super) async fn conclude(
    wire: Wire<'_>,
    out: &mut Out,
    exchange: &Exchange<'_, '_>,
    (framing, head_bytes): (Framing, u64),
    mut delivered: Delivered,
    sent: Sent,
) -> Result<bool, Ended> {
    let sent = match sent {
        Ok((bytes, trailers)) if framing.bodied() => {
            wire.end(framing, trailers.as_ref(), out);
            exchange.send(wire, out).await.map(|()| bytes).map_err(Cut::from)
        }
        Ok((bytes, _)) => Ok(bytes),
        Err(cut) => Err(cut),
    };
    match sent {
        Ok(body) => {
            (delivered.bytes, delivered.body_bytes) = (head_bytes + body, body);
            Ok(finish(exchange, &delivered))
        }
        Err(Cut::Origin) => {
            delivered.bytes = head_bytes;
            delivered.keep = false;
            finish(exchange, &delivered);
            if framing == Framing::Close {
                wire.reset();
            }
            Err(Ended::Closed)
        }
        Err(Cut::Client(ended)) => {
            (delivered.result, delivered.keep) = (ResultCode::TcpMissAborted, false);
            finish(exchange, &delivered);
            Err(ended)
        }
    }
}

/// Keeps what advice is made of.
pub(super) fn note(exchange: &Exchange<'_, '_>, reply: &Reply) {
    let (stats, head) = (&exchange.request.stats, &reply.answer.head);
    if reply.detail.is_some() {
        stats.detail.set(reply.detail);
        if log::is_unknown(exchange) {
            let known = software::by_head(head);
            stats.software.set(known);
            let coding = Encoding::of(head::field(head, "content-encoding"));
            stats.looks.set(known.is_none().then_some(coding));
        }
    }
    if reply.why == Forward::VaryMiss {
        stats.varies.set(head::field(head, "vary").map(<[u8]>::to_vec));
    }
}

pub(super) fn cache_status(reply: &Reply) -> CacheStatus<'static> {
    let status = reply.answer.status;
    CacheStatus {
        fwd: Some(reply.why),
        fwd_status: (status != 304).then_some(status),
        stored: reply.answer.meta.is_some(),
        collapsed: reply.collapsed,
        detail: reply.detail,
        ..CacheStatus::default()
    }
}

/// Composes the head: of the response, or of what the client's own conditions make of it.
fn head_of(exchange: &Exchange<'_, '_>, out: &mut Out, reply: &Reply) -> Delivered {
    let answer = &reply.answer;
    super::debug::tier(&exchange.request, "origin");
    let cache_status = cache_status(reply);
    // The head of whoever asked first has the Age it came with.
    let age = answer
        .meta
        .as_ref()
        .filter(|_| reply.collapsed)
        .map(|meta| current_age(meta, exchange.request.now()));
    let told = ResponseMeta { hit: false, found: reply.found, age, cache_status };
    let mut delivered = Delivered {
        status: answer.status,
        bytes: 0,
        body_bytes: 0,
        keep: exchange.keep(),
        result: if reply.collapsed { ResultCode::TcpCfHit } else { miss_code(reply) },
        hierarchy: reply.hierarchy,
        content_type: exchange.worker.shows().then(|| content_type(&answer.head)).flatten(),
        cache_status: logged_status(exchange, &told.cache_status),
    };
    let version = exchange.request.head.version;
    let mut head = HeadWriter(out.scratch());
    let precondition = match &answer.meta {
        Some(meta) if reply.conditions => {
            evaluate(&exchange.request.view(), meta, answer.etag.as_deref())
        }
        _ => Precondition::Full,
    };
    if precondition == Precondition::NotModified {
        head.stored_as(304, &answer.head, |name| !strip::sent_with_304(name));
        delivered.status = 304;
    } else if matches!(reply.source, Source::Tunnel(..)) && version.has_streams() {
        // The stream itself is the tunnel (RFC 8441 section 5, RFC 9220).
        head.stored_as(200, &answer.head, |name| name.eq_ignore_ascii_case("sec-websocket-accept"));
    } else {
        head.stored(&answer.head);
        if let Source::Tunnel(_, protocol) = &reply.source {
            head.upgrade(protocol);
        } else {
            let framing = framing(exchange, reply);
            head.framing(framing, answer.length);
            delivered.keep &= framing != Framing::Close;
        }
    }
    meta::meta_lines(&mut head, &exchange.request.config.settings.http, &told);
    if matches!(reply.source, Source::Tunnel(..)) {
        head.end();
    } else {
        end_head(exchange, head, &answer.head, delivered.keep);
    }
    delivered
}

pub(super) fn miss_code(reply: &Reply) -> ResultCode {
    match reply.why {
        Forward::Stale => ResultCode::TcpRefreshModified,
        Forward::Request => ResultCode::TcpClientRefreshMiss,
        _ => ResultCode::TcpMiss,
    }
}

fn framing(exchange: &Exchange<'_, '_>, reply: &Reply) -> Framing {
    let request = &exchange.request;
    Framing::of(request.head.version, request.is_head(), reply.answer.status, reply.answer.length)
}

/// Why a body did not go out whole.
pub(super) enum Cut {
    Origin,
    Client(Ended),
}

impl From<Ended> for Cut {
    fn from(ended: Ended) -> Self {
        Cut::Client(ended)
    }
}

/// Bytes of a body that went out, and its trailers.
pub(super) type Sent = Result<(u64, Option<HeaderMap>), Cut>;

/// Sends a body that others may follow too, as it grows.
pub(super) async fn follow(
    wire: Wire<'_>,
    out: &mut Out,
    exchange: &Exchange<'_, '_>,
    mut follower: Follower,
    mut pieces: Pieces<'_>,
) -> Sent {
    let mut at = 0;
    let streaming = follower.streaming.clone();
    let mut passing = Passing::new(wire, exchange);
    let held = || streaming.written();
    loop {
        let next = tokio::select! {
            biased;
            next = follower.next(at) => next,
            () = wire.gone() => return Err(Cut::Client(Ended::Closed)),
        };
        match next {
            Piece::Stored(data) => {
                piece(wire, out, exchange, &mut pieces, data, &held).await?;
                at += data.len() as u64;
            }
            Piece::Passed(data) => {
                let sends = pin!(piece(wire, out, exchange, &mut pieces, &data, &held));
                passing.send(data.len(), sends).await?;
                at += data.len() as u64;
            }
            Piece::End(trailers) => return Ok((at, trailers)),
            Piece::Broken => {
                exchange.send(wire, out).await?;
                return Err(Cut::Origin);
            }
        }
    }
}

/// Sends a body that is for this client alone.
pub(super) async fn pour(
    wire: Wire<'_>,
    out: &mut Out,
    exchange: &Exchange<'_, '_>,
    body: Body,
    mut pieces: Pieces<'_>,
) -> Sent {
    let mut at = 0;
    let mut body = Passed::new(body, wire, exchange);
    loop {
        let next = tokio::select! {
            biased;
            next = body.next() => next,
            () = wire.gone() => return Err(Cut::Client(Ended::Closed)),
        };
        match next {
            Ok(Some(data)) => {
                let stats = &exchange.request.stats;
                if let Some(coding) = stats.looks.take() {
                    stats.software.set(software::by_content(coding, &data));
                }
                let sends = pin!(piece(wire, out, exchange, &mut pieces, &data, &|| 0));
                body.send(data.len(), sends).await?;
                at += data.len() as u64;
            }
            Ok(None) => return Ok((at, body.trailers())),
            Err(_) => {
                exchange.request.pages.counters.truncated.one();
                exchange.send(wire, out).await?;
                return Err(Cut::Origin);
            }
        }
    }
}

/// How the pieces of a body are sent.
pub(super) struct Pieces<'c> {
    pub(super) framing: Framing,
    /// Compresses them on the way.
    pub(super) coder: Option<&'c mut Coder>,
}

impl Pieces<'_> {
    fn plain(framing: Framing) -> Self {
        Self { framing, coder: None }
    }
}

/// Sends what was composed and one piece of the body, in one write where it fits.
async fn piece(
    wire: Wire<'_>,
    out: &mut Out,
    exchange: &Exchange<'_, '_>,
    pieces: &mut Pieces<'_>,
    data: &[u8],
    pinned: &dyn Fn() -> u64,
) -> Result<(), Ended> {
    let coded = match &mut pieces.coder {
        None => None,
        Some(coder) => {
            let coded = coder.write(data).and_then(|()| coder.take(true));
            Some(coded.map_err(|_| Ended::Closed)?)
        }
    };
    let data = coded.as_deref().unwrap_or(data);
    let behind = pieces.framing.piece(data.len(), out.scratch());
    let slices = [IoSlice::new(data), IoSlice::new(behind)];
    exchange.send_with(wire, out, &slices, pinned).await
}
