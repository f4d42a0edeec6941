//! Requests that are passed to the origin, past the cache.

use larder_metrics::Outcome;
use larder_proto::{http::BodyFraming, rules::Forward};

use crate::{
    fetch::{self, FetchResult},
    http::{
        body::{BodyError, Incoming},
        conn::Active,
        debug,
        exchange::Exchange,
        refuse,
        reply::{self, Done},
        tunnel,
    },
    net::{
        conns::IoBuffers,
        out::Out,
        socket::{Ended, Socket},
    },
    origin::RequestBody,
    request::route::{Refusal, Route},
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
    if exchange.request.head.known.larder_debug().is_some() {
        debug::passed(&exchange.request, route, why);
    }
    let Active { socket, buffers } = conn;
    let IoBuffers { buf, at, out } = &mut **buffers;
    // A small body is taken whole before the origin is asked: a client that sends it byte by byte
    // holds no connection to the origin meanwhile.
    let mut expect = exchange.request.head.expect_continue;
    if let BodyFraming::Length(length @ ..=SMALL_BODY) = exchange.request.head.framing {
        let mut incoming = Incoming::new(exchange, socket, buf, at, expect);
        if let Err(failed) = incoming.have(length as usize).await {
            return body_failed(exchange, socket, out, failed);
        }
        expect = false;
    }
    let (body, frames) = fetch::body(exchange.request.head.framing);
    let Some(frames) = frames else {
        return match passed(socket, out, exchange, route, why, body).await? {
            Done::Answered { keep } => Ok(keep),
            Done::Tunnel(upgraded, delivered) => {
                tunnel::run(exchange, socket, &buf[*at..], upgraded, delivered).await
            }
        };
    };
    let mut incoming = Incoming::new(exchange, socket, buf, at, expect);
    let failed = {
        let pump = incoming.pump(exchange.request.head.framing, frames);
        let answer = passed(socket, out, exchange, route, why, body);
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
    body_failed(exchange, socket, out, failed)
}

/// Answers a request whose body did not arrive. Nothing was sent yet: an answer that has begun ends
/// the wait first.
fn body_failed(
    exchange: &Exchange<'_, '_>,
    socket: &Socket,
    out: &mut Out,
    failed: BodyError,
) -> Result<bool, Ended> {
    let (status, why) = match failed {
        BodyError::Ended(Ended::TimedOut) => {
            exchange.request.pages.counters.timeouts.body.one();
            socket.watch.forgive();
            (408, "the request body stopped coming")
        }
        BodyError::Ended(ended) => return Err(ended),
        BodyError::Reject(reject) => {
            exchange.request.pages.counters.reject(reject.reason);
            (reject.status, reject.reason.as_str())
        }
        BodyError::TooLarge => (413, "the request body is larger than allowed"),
        BodyError::Unwanted => return Ok(false),
    };
    if exchange.started.get() {
        return Err(Ended::Closed);
    }
    refuse::refusal(exchange, out, &Refusal(status, why));
    Ok(false)
}

/// The answer to a passed request.
async fn passed(
    socket: &Socket,
    out: &mut Out,
    exchange: &Exchange<'_, '_>,
    route: &Route<'_>,
    why: Forward,
    body: RequestBody,
) -> Result<Done, Ended> {
    let (send, interim) = fetch::interim();
    let fetch = fetch::pass(&exchange.request, route, body, send);
    match exchange.wait(socket, out, fetch, interim).await? {
        FetchResult::Response(mut reply) => {
            (reply.why, reply.conditions) = (why, false);
            fetch::invalidate(&exchange.request, route, &reply).await;
            reply::send(socket, out, exchange, *reply).await
        }
        FetchResult::Failed(failure) => {
            Ok(Done::Answered { keep: refuse::failure(exchange, out, &failure) })
        }
        FetchResult::LookAgain(_) => Ok(Done::Answered { keep: false }),
    }
}
