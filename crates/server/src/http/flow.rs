//! The life of a request, step by step.
//!
//! ```text
//! receive -> route -> lookup -> hit ----------------------------> deliver -> log
//!                        |----> stale (served, refreshed behind) -> deliver -> log
//!                        |----> miss -> fetch (one for all) -----> deliver -> log
//!               |-------------> pass -> fetch (past the cache) --> deliver -> log
//!               |-------------> purge ---------------------------> log
//! ```
//!
//! [`now`] takes a request as far as it goes without waiting: hits and stale hits end there. [`later`] sees the others
//! through. Both go through the same steps.

use std::{borrow::Cow, sync::Arc};

use larder_proto::{
    http::{BodyFraming, Method, key, query},
    page::PageFlags,
    rules::{Decision, Forward, RevalidateWhy, StaleWhy, Unusable, decide, only_if_cached, stale_on_error},
};

use super::{
    asked::Asked,
    body::{BodyError, Incoming},
    conn::Conn,
    debug,
    deliver::{self, Delivered, Served},
    fetch::{self, Failure, News, Passing, Plan, Waiting},
    log::finish,
    lookup::{Found, Held, Looked, look},
    out::Out,
    purge, refuse,
    reply::{self, Done},
    socket::{Ended, Socket},
    tunnel,
};
use crate::{
    access_log::ResultCode,
    clock::Ms,
    measure::counted::Outcome,
    settings::{RequestView as RuleView, RulePolicy, Site},
};

/// Request bodies up to this many bytes are read before the origin is asked.
const SMALL_BODY: u64 = 64 * 1024;
/// How often a request may find that what it waited for is not for it, before it asks for itself.
const ROUNDS: usize = 3;

/// Where a request goes.
pub(crate) struct Route<'a> {
    pub(crate) site: &'a Arc<Site>,
    pub(crate) policy: Cow<'a, Arc<RulePolicy>>,
    /// Path and query, as looked up and as sent to the origin.
    pub(crate) path: Cow<'a, str>,
    pub(crate) key: Vec<u8>,
    pub(crate) way: Way,
}

/// Which steps a request takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Lookup,
    Pass(Forward),
    Purge,
}

/// A request that is answered by us: status and reason.
pub(crate) struct Refusal(pub(crate) u16, pub(crate) &'static str);

const NOTHING_STORED: Refusal = Refusal(504, "nothing stored answers this request");

/// What came of a request that was given no time.
pub(crate) enum Now {
    /// It is answered. `keep`: the connection goes on.
    Answered { keep: bool },
    /// It has to wait.
    Later,
}

/// Answers what can be answered at once.
pub(crate) fn now(asked: &Asked<'_, '_>, out: &mut Out) -> Now {
    let route = match route(asked) {
        Ok(route) => route,
        Err(_) if purge::request::is_journal(asked) => return Now::Later,
        Err(_) if asked.head.framing != BodyFraming::None => return Now::Later,
        Err(refusal) => return Now::Answered { keep: answer_refusal(asked, out, &refusal) },
    };
    if route.way != Way::Lookup {
        return Now::Later;
    }
    let now = asked.worker.clock.at(asked.since);
    let looked = look(asked.worker.store, &route.key, &asked.view(), &route.policy, now);
    if asked.head.known.larder_debug().is_some() {
        debug::note(asked, &route, &looked, now);
    }
    match step(asked, &route, looked, now) {
        Step::Serve(held, served) => match deliver::entry(asked, out, held, &served) {
            Ok(delivered) => {
                if served.refresh {
                    fetch::refresh(asked, &route);
                }
                Now::Answered { keep: finish(asked, &delivered) }
            }
            Err(_) => Now::Later,
        },
        Step::Refuse(refusal) => Now::Answered { keep: answer_refusal(asked, out, &refusal) },
        Step::Fetch(_) => Now::Later,
    }
}

/// Sees a request through that has to wait. True: the connection goes on.
pub(crate) async fn later(conn: &mut Conn, asked: &Asked<'_, '_>) -> Result<bool, Ended> {
    conn.socket.watch.busy();
    if purge::request::is_journal(asked) {
        return Ok(purge::request::hear(conn, asked));
    }
    let route = match route(asked) {
        Ok(route) => route,
        Err(refusal) => {
            answer_refusal(asked, &mut conn.out, &refusal);
            return Ok(false);
        }
    };
    match route.way {
        Way::Lookup => cached(conn, asked, &route).await,
        Way::Pass(why) => pass(conn, asked, &route, why).await,
        Way::Purge => purge::request::serve(conn, asked, &route).await,
    }
}

/// receive, route: whose page is it, under what key, by which rules.
fn route<'a>(asked: &Asked<'a, '_>) -> Result<Route<'a>, Refusal> {
    let head = asked.head;
    if matches!(head.method, Method::Connect | Method::Trace) {
        return Err(Refusal(405, "this method is not served here"));
    }
    if head.method == Method::Options && asked.max_forwards() == Some(0) {
        return Err(Refusal(200, "this cache answers for itself: the request was not to be passed on"));
    }
    if asked.loops() {
        return Err(Refusal(508, "the request came back to where it was sent from"));
    }
    let host = head.host.as_ref().map_or("", |authority| authority.host);
    let Some((site, place)) = asked.config.site_for(host) else {
        return Err(Refusal(421, "no site of this name is served here"));
    };
    asked.noted.site.set(place);
    let target = head.target.path_and_query;
    let path = target.split_once('?').map_or(target, |(path, _)| path);
    let fields = head.fields;
    let any = |name: &str, test: &mut dyn FnMut(&[u8]) -> bool| fields.all(name).any(test);
    // A purge means the page that a GET would get.
    let method = if head.method == Method::Purge { "GET" } else { head.method.as_str() };
    let policy = site.policy(&RuleView { method, path, any: &any });
    let path = query::normalise_query(target, &policy.drop_query, policy.sort_query);
    let mut key = Vec::with_capacity(64 + path.len());
    let port = head.host.as_ref().and_then(|authority| authority.port).unwrap_or(0);
    key::write_key(&mut key, asked.scheme(), host, port, path.as_bytes());
    asked.write_forwarded_host(&mut key);
    let way = way(asked, &policy);
    Ok(Route { site, policy, path, key, way })
}

fn way(asked: &Asked<'_, '_>, policy: &RulePolicy) -> Way {
    let head = asked.head;
    match head.method {
        Method::Purge => return Way::Purge,
        Method::Get | Method::Head => {}
        _ => return Way::Pass(Forward::Method),
    }
    // A condition on the origin's state is not for a cache to judge (RFC 9111 section 4.3.2).
    if head.known.if_match().is_some() || head.known.if_unmodified_since().is_some() {
        return Way::Pass(Forward::Request);
    }
    let cookies =
        || head.known.cookie().is_some() && head.fields.all("cookie").any(|line| policy.bypassed_by(line));
    // A GET with a body: what the origin makes of the body is in no key.
    let special =
        head.framing != BodyFraming::None || asked.upgrade().is_some() || asked.connection_hides_fields();
    if policy.pass || special || cookies() {
        return Way::Pass(Forward::Bypass);
    }
    Way::Lookup
}

/// The step after the lookup.
enum Step {
    /// Serve this page.
    Serve(Held, Served),
    /// Ask the origin.
    Fetch(Plan),
    /// Say no.
    Refuse(Refusal),
}

fn step(asked: &Asked<'_, '_>, route: &Route<'_>, looked: Looked, now: Ms) -> Step {
    let Looked { found, variant } = looked;
    let plan = |why, held| Plan::new(why, held, variant.clone());
    let nothing = |why, solo| {
        if only_if_cached(&asked.view(), &route.policy.cache) {
            return Step::Refuse(NOTHING_STORED);
        }
        let mut plan = plan(why, None);
        let no_store = asked.no_store(&route.policy);
        (plan.solo, plan.store) = (solo || no_store, !no_store);
        Step::Fetch(plan)
    };
    let held = match found {
        Found::Page(held) => held,
        Found::Nothing => return nothing(Forward::UriMiss, false),
        Found::VaryMiss => return nothing(Forward::VaryMiss, false),
        Found::HitForMiss => {
            asked.noted.miss.set(Some(Outcome::HitForMiss));
            return nothing(Forward::UriMiss, true);
        }
    };
    match decide(&asked.view(), &held.meta, &route.policy.cache, now) {
        Decision::Fresh { age, ttl } => Step::Serve(held, Served::fresh(age, ttl)),
        Decision::Stale { age, ttl, why } => {
            Step::Serve(held, Served::stale(age, ttl, why == StaleWhy::SwrRefresh))
        }
        Decision::Revalidate { why, .. } => Step::Fetch(plan(forward(why), Some(held))),
        Decision::Unusable(Unusable::RequestNoStore) => nothing(Forward::Request, true),
        Decision::Unusable(_) => nothing(Forward::Miss, false),
        Decision::GatewayTimeout => Step::Refuse(NOTHING_STORED),
    }
}

/// Why the origin is asked, in the words of RFC 9211.
fn forward(why: RevalidateWhy) -> Forward {
    match why {
        RevalidateWhy::Request => Forward::Request,
        _ => Forward::Stale,
    }
}

/// miss, fetch, deliver: looks, asks the origin or joins who does, and looks again where that says so.
async fn cached(conn: &mut Conn, asked: &Asked<'_, '_>, route: &Route<'_>) -> Result<bool, Ended> {
    let mut again = Again::Anew;
    let mut fleet = true;
    let mut alone = false;
    for round in 0.. {
        // What the fleet gave does not do for this request: it is not asked for the same again.
        fleet &= !matches!(again, Again::Shared);
        let now = asked.now();
        let looked = look(asked.worker.store, &route.key, &asked.view(), &route.policy, now);
        if asked.head.known.larder_debug().is_some() {
            debug::note(asked, route, &looked, now);
        }
        let variant = looked.variant.clone();
        let (held, served) = match (step(asked, route, looked, now), again) {
            (Step::Serve(held, served), Again::Anew) => (held, served),
            (Step::Serve(held, served), Again::Shared) => (held, served.shared()),
            (Step::Serve(held, _) | Step::Fetch(Plan { held: Some(held), .. }), Again::Validated(why)) => {
                let served = Served::validated(&held.meta, now, why);
                (held, served)
            }
            (Step::Refuse(refusal), _) => return Ok(answer_refusal(asked, &mut conn.out, &refusal)),
            (Step::Fetch(mut plan), _) => {
                plan.fleet &= fleet;
                match ask(conn, asked, route, plan, round, &mut alone).await? {
                    Asking::Done(keep) => return Ok(keep),
                    Asking::Again(found) => again = found,
                }
                continue;
            }
        };
        let held = match deliver::entry(asked, &mut conn.out, held, &served) {
            Ok(delivered) => {
                if served.refresh {
                    fetch::refresh(asked, route);
                }
                return Ok(finish(asked, &delivered));
            }
            Err(_) if only_if_cached(&asked.view(), &route.policy.cache) => {
                return Ok(answer_refusal(asked, &mut conn.out, &NOTHING_STORED));
            }
            Err(held) => held,
        };
        let plan = Plan::new(Forward::Partial, Some(held), variant);
        match ask(conn, asked, route, plan, round, &mut alone).await? {
            Asking::Done(keep) => return Ok(keep),
            Asking::Again(found) => again = found,
        }
    }
    Ok(false)
}

/// What asking the origin came to.
enum Asking {
    /// The request is answered; whether the connection goes on.
    Done(bool),
    /// Look again.
    Again(Again),
}

/// What is known of the page there when the store is looked into again.
#[derive(Clone, Copy)]
enum Again {
    /// Nothing.
    Anew,
    /// The origin confirmed it, whatever its age says: why it was asked.
    Validated(Forward),
    /// It came from the fleet just now.
    Shared,
}

/// fetch: once for all who wait, or alone when waiting was of no use.
async fn ask(
    conn: &mut Conn,
    asked: &Asked<'_, '_>,
    route: &Route<'_>,
    mut plan: Plan,
    round: usize,
    alone: &mut bool,
) -> Result<Asking, Ended> {
    plan.solo |= *alone || round >= ROUNDS;
    if round > ROUNDS {
        // What the store has does not answer this request, and what the origin says of it does not help: the answer
        // is this client's alone.
        plan = Plan { solo: true, store: false, ..Plan::new(plan.why, None, None) };
    }
    let why = plan.why;
    asked.noted.forwarded(why);
    match fetch::fetch(conn, asked, route, plan).await? {
        News::Reply(reply) => match reply::send(&conn.socket, &mut conn.out, asked, *reply).await? {
            Done::Answered { keep } => Ok(Asking::Done(keep)),
            Done::Tunnel(..) => Ok(Asking::Done(false)),
        },
        News::LookAgain => Ok(Asking::Again(Again::Anew)),
        News::Shared => Ok(Asking::Again(Again::Shared)),
        News::Validated => Ok(Asking::Again(Again::Validated(why))),
        News::Alone => {
            *alone = true;
            Ok(Asking::Again(Again::Anew))
        }
        News::Failed(failure) => Ok(Asking::Done(failed(conn, asked, route, &failure))),
    }
}

/// The origin failed: the stored page if that is allowed, else the error.
fn failed(conn: &mut Conn, asked: &Asked<'_, '_>, route: &Route<'_>, failure: &Failure) -> bool {
    let now = asked.now();
    let looked = look(asked.worker.store, &route.key, &asked.view(), &route.policy, now);
    let Found::Page(held) = looked.found else { return failure_page(asked, &mut conn.out, failure) };
    if stale_on_error(&held.meta, &route.policy.cache, &asked.view(), now, failure.cause) {
        let served = Served::on_error(&held.meta, now);
        if let Ok(delivered) = deliver::entry(asked, &mut conn.out, held, &served) {
            return finish(asked, &delivered);
        }
    } else if held.meta.flags.any(PageFlags::NO_STALE) {
        // A page that must not be served stale, and an origin that cannot be asked: 504 (RFC 9111 section 5.2.2.2).
        let failure = Failure { status: 504, ..*failure };
        return failure_page(asked, &mut conn.out, &failure);
    }
    failure_page(asked, &mut conn.out, failure)
}

/// pass: past the cache. The request's body goes up while the answer comes down.
async fn pass(
    conn: &mut Conn,
    asked: &Asked<'_, '_>,
    route: &Route<'_>,
    why: Forward,
) -> Result<bool, Ended> {
    asked.worker.counters.passes.one();
    asked.noted.forwarded(why);
    asked.noted.miss.set(Some(Outcome::Pass));
    if asked.head.known.larder_debug().is_some() {
        debug::passed(asked, route, why);
    }
    let Conn { socket, buf, at, out, .. } = conn;
    // A small body is taken whole before the origin is asked: a client that sends it byte by byte holds no connection
    // to the origin meanwhile.
    let mut expect = asked.head.expect_continue;
    if let BodyFraming::Length(length @ ..=SMALL_BODY) = asked.head.framing {
        let mut incoming = Incoming::new(asked, socket, buf, at, expect);
        if let Err(failed) = incoming.have(length as usize).await {
            return body_failed(asked, socket, out, failed);
        }
        expect = false;
    }
    let Passing { waiting, frames } = fetch::pass(asked, route)?;
    let Some(frames) = frames else {
        return match passed(socket, out, asked, route, why, waiting).await? {
            Done::Answered { keep } => Ok(keep),
            Done::Tunnel(upgraded, delivered) => {
                tunnel::run(asked, socket, &buf[*at..], upgraded, delivered).await
            }
        };
    };
    let mut incoming = Incoming::new(asked, socket, buf, at, expect);
    let failed = {
        let pump = incoming.pump(asked.head.framing, frames);
        let answer = passed(socket, out, asked, route, why, waiting);
        tokio::pin!(pump, answer);
        tokio::select! {
            biased;
            pumped = &mut pump => match pumped {
                // Whole, or the origin does not want the rest: its answer says what it made of it.
                Ok(()) => return answer.await.map(|done| matches!(done, Done::Answered { keep: true })),
                Err(BodyError::Unwanted) => return answer.await.map(|_| false),
                Err(failed) => failed,
            },
            // The rest of the body is unread: this connection ends.
            keep = &mut answer => return keep.map(|_| false),
        }
    };
    body_failed(asked, socket, out, failed)
}

/// Answers a request whose body did not arrive. Nothing was sent yet: an answer that has begun ends the wait first.
fn body_failed(
    asked: &Asked<'_, '_>,
    socket: &Socket,
    out: &mut Out,
    failed: BodyError,
) -> Result<bool, Ended> {
    let (status, why) = match failed {
        BodyError::Ended(Ended::TimedOut) => {
            asked.worker.counters.body_timeouts.one();
            socket.watch.forgive();
            (408, "the request body stopped coming")
        }
        BodyError::Ended(ended) => return Err(ended),
        BodyError::Reject(reject) => {
            asked.worker.counters.reject(reject.reason);
            (reject.status, reject.reason.as_str())
        }
        BodyError::TooLarge => {
            asked.worker.counters.rejected.one();
            (413, "the request body is larger than allowed")
        }
        BodyError::Unwanted => return Ok(false),
    };
    if asked.begun.get() {
        return Err(Ended::Closed);
    }
    answer_refusal(asked, out, &Refusal(status, why));
    Ok(false)
}

/// The answer to a passed request.
async fn passed(
    socket: &Socket,
    out: &mut Out,
    asked: &Asked<'_, '_>,
    route: &Route<'_>,
    why: Forward,
    waiting: Waiting,
) -> Result<Done, Ended> {
    match fetch::wait(socket, out, asked, waiting).await? {
        News::Reply(mut reply) => {
            (reply.why, reply.conditions) = (why, false);
            fetch::invalidate(asked, route, &reply);
            reply::send(socket, out, asked, *reply).await
        }
        News::Failed(failure) => Ok(Done::Answered { keep: failure_page(asked, out, &failure) }),
        News::LookAgain | News::Shared | News::Validated | News::Alone => Ok(Done::Answered { keep: false }),
    }
}

/// The page that says that the origin failed.
fn failure_page(asked: &Asked<'_, '_>, out: &mut Out, failure: &Failure) -> bool {
    asked.noted.miss.set(Some(Outcome::Error));
    let keep = asked.keep();
    let before = out.pending();
    refuse::compose(out.scratch(), asked.now(), failure.status, failure.why, keep, asked.is_head());
    let mut delivered = Delivered::own(failure.status, out.pending() - before);
    (delivered.result, delivered.keep) = (ResultCode::TcpMiss, keep);
    finish(asked, &delivered)
}

/// Says no. A body that follows is not read: the connection ends then.
fn answer_refusal(asked: &Asked<'_, '_>, out: &mut Out, refusal: &Refusal) -> bool {
    // What follows a CONNECT is not HTTP.
    let keep =
        asked.keep() && asked.head.framing == BodyFraming::None && asked.head.method != Method::Connect;
    let before = out.pending();
    refuse::compose(out.scratch(), asked.now(), refusal.0, refusal.1, keep, asked.is_head());
    let mut delivered = Delivered::own(refusal.0, out.pending() - before);
    delivered.keep = keep;
    finish(asked, &delivered)
}
