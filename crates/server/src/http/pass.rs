//! Requests that are passed to the origin, past the cache.

use std::pin::pin;

use larder_metrics::Outcome;
use larder_proto::{
    http::BodyFraming,
    rules::{ErrorCause, Forward},
};

use crate::{
    fetch::{self, FetchResult, Reply, Source},
    http::{
        body::{BodyError, Incoming},
        debug,
        esi::{self, Page},
        exchange::{Active, Exchange},
        refuse,
        reply::{self, Done},
        tunnel,
    },
    net::{out::Out, socket::Ended},
    origin::RequestBody,
    page::flight::Failure,
    request::route::{Refusal, Route},
    wire::Wire,
};

/// Request bodies up to this many bytes are read before the origin is asked.
const SMALL_BODY: u64 = 64 * 1024;

/// pass: past the cache. The request's body goes up while the answer comes down.
pub(super) async fn serve(
    conn: &mut Active<'_>,
    exchange: &Exchange<'_, '_>,
    route: &Route<'_>,
    why: Forward,
) -> Result<bool, Ended> {
    exchange.request.pages.counters.passes.one();
    exchange.request.stats.forwarded(why);
    exchange.request.stats.miss.set(Some(Outcome::Pass));
    let mut cookies = exchange.request.head.fields.all("cookie");
    if why == Forward::Bypass && cookies.any(|line| route.policy.bypassed_by(line)) {
        exchange.request.stats.detail.set(Some("bypass-cookie"));
    }
    if exchange.request.head.known.larder_debug().is_some() {
        debug::passed(&exchange.request, route, why);
    }
    let Active { wire, out, body: received } = conn;
    let (wire, framing) = (*wire, exchange.request.head.framing);
    let mut incoming = Incoming::new(exchange, received);
    // A small body is taken whole before the origin is asked: a client that sends it byte by byte
    // holds no connection to the origin meanwhile.
    if let BodyFraming::Length(length @ ..=SMALL_BODY) = framing
        && let Err(failed) = incoming.have(length as usize).await
    {
        return body_failed(exchange, wire, out, failed);
    }
    let (body, frames) = fetch::body(framing);
    let Some(frames) = frames else {
        return match passed(wire, out, exchange, route, why, body).await? {
            Done::Answered { keep } => Ok(keep),
            Done::Tunnel(upgraded, delivered) => {
                Box::pin(tunnel::run(exchange, received, out, upgraded, delivered)).await
            }
        };
    };
    let failed = {
        let pump = incoming.pump(framing, frames);
        let answer = passed(wire, out, exchange, route, why, body);
        tokio::pin!(pump, answer);
        tokio::select! {
            biased;
            pumped = &mut pump => match pumped {
                // Whole, or the origin does not want the rest: its answer says what it made of it.
                Ok(()) => {
                    let done = answer.await?;
                    return Ok(matches!(done, Done::Answered { keep: true }));
                }
                Err(BodyError::Unwanted) => return answer.await.map(|_| false),
                Err(failed) => failed,
            },
            // The rest of the body is unread: this connection ends.
            keep = &mut answer => return keep.map(|_| false),
        }
    };
    body_failed(exchange, wire, out, failed)
}

/// Answers a request whose body did not arrive. Nothing was sent yet: an answer that has begun ends
/// the wait first.
fn body_failed(
    exchange: &Exchange<'_, '_>,
    wire: Wire<'_>,
    out: &mut Out,
    failed: BodyError,
) -> Result<bool, Ended> {
    let (status, why) = match failed {
        BodyError::Ended(Ended::TimedOut) => {
            exchange.request.pages.counters.timeouts.body.one();
            wire.forgive();
            (408, "the request body stopped coming")
        }
        BodyError::Ended(ended) => return Err(ended),
        BodyError::Reject(reject) => {
            exchange.request.pages.counters.reject(reject.reason);
            (reject.status, reject.reason.as_str())
        }
        BodyError::TooLarge => (413, "the request body is larger than allowed"),
        BodyError::Crowded => (503, "too many requests are arriving"),
        BodyError::Unwanted => return Ok(false),
    };
    if exchange.started.get() {
        return Err(Ended::Closed);
    }
    refuse::refusal(exchange, out, &Refusal(status, why));
    Ok(false)
}

/// The origin did not switch to the protocol that a stream was opened for.
const NOT_SWITCHED: Failure = Failure {
    cause: ErrorCause::Status(502),
    status: 502,
    why: "the site behind this cache did not switch protocols",
    detail: None,
};

/// The stream was opened for another protocol, and the origin sent a page: to the client its
/// status, 2xx, would say that the stream speaks that protocol (RFC 8441 section 5).
fn poses_as_tunnel(exchange: &Exchange<'_, '_>, reply: &Reply) -> bool {
    let request = &exchange.request;
    request.head.version.has_streams()
        && request.upgrade().is_some()
        && (200..300).contains(&reply.answer.status)
        && !matches!(reply.source, Source::Tunnel(..))
}

/// The answer to a passed request.
async fn passed(
    wire: Wire<'_>,
    out: &mut Out,
    exchange: &Exchange<'_, '_>,
    route: &Route<'_>,
    why: Forward,
    body: RequestBody,
) -> Result<Done, Ended> {
    let (send, interim) = fetch::interim();
    let result = {
        let fetch = pin!(fetch::pass(&exchange.request, route, body, send));
        exchange.wait(wire, out, &route.policy, fetch, interim).await?
    };
    match result {
        FetchResult::Response(reply) if poses_as_tunnel(exchange, &reply) => {
            Ok(Done::Answered { keep: refuse::failure(exchange, out, &NOT_SWITCHED) })
        }
        FetchResult::Response(mut reply) => {
            (reply.why, reply.conditions) = (why, false);
            Box::pin(fetch::invalidate(&exchange.request, route, &reply)).await;
            if matches!(reply.source, Source::Template(_)) {
                let page = Page::Fetched(reply);
                let keep = Box::pin(esi::serve_on(wire, out, exchange, route, page)).await?;
                return Ok(Done::Answered { keep });
            }
            reply::send(wire, out, exchange, *reply).await
        }
        FetchResult::Failed(failure) => {
            Ok(Done::Answered { keep: refuse::failure(exchange, out, &failure) })
        }
        FetchResult::LookAgain(_) => Ok(Done::Answered { keep: false }),
    }
}
