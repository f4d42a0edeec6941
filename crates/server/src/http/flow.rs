//! The life of a request, step by step.
//!
//! ```text
//! receive -> route -> lookup -> hit ----------------------------> deliver -> log
//!                        |----> stale (served, refreshed behind) -> deliver -> log
//!                        |----> miss -> fetch (one for all) -----> deliver -> log
//!                        |----> file of this machine -----------> deliver -> log
//!               |-------------> pass -> fetch (past the cache) --> deliver -> log
//!               |-------------> purge ---------------------------> log
//! ```
//!
//! [`now`] takes a request as far as it goes without waiting: hits and stale hits end there.
//! [`later`] sees the others through. Both go through the same steps.

use std::{ops::ControlFlow, pin::pin};

use larder_metrics::Outcome;
use larder_proto::{
    http::BodyFraming,
    page::PageFlags,
    rules::{Decision, Forward, RevalidateWhy, StaleWhy, Unusable, decide, stale_on_error},
};

use crate::{
    clock::Ms,
    fetch::{self, FetchResult, Plan, Source},
    http::{
        admittance, challenge, debug, deliver, dictionary,
        esi::{self, Page},
        exchange::{Active, Exchange},
        file, hints,
        log::finish,
        lookups::Lookups,
        packed, pass, purge, redirect, refuse,
        reply::{self, Done},
        served::Served,
        slices,
    },
    net::{out::Out, socket::Ended},
    page::{
        flight::{Again, Failure},
        lookup::{Found, LookupResult, PAGES, StoredPage},
    },
    request::{
        Request,
        route::{Refusal, Route, Way, route},
    },
    room::{Held, Place},
};

/// Heads of waiting requests up to this many bytes are not counted as memory of clients.
const SHORT_HEAD: usize = 2048;
/// Memory of the task of a request that waits, in bytes: measured with 10,000 half requests over
/// HTTP/2. A build without optimisation takes more.
const TASK_MEMORY: usize = if cfg!(debug_assertions) { 50 } else { 22 } * 1024;
/// There is no memory for a request that waits.
pub(super) const CROWDED: Refusal = Refusal(503, "too many requests are waiting");

const NOTHING_STORED: Refusal = Refusal(504, "nothing stored answers this request");

/// Result of a request without waiting.
pub(crate) enum Now {
    /// It is answered. `keep`: the connection goes on.
    Answered { keep: bool },
    /// It has to wait, and goes on from here.
    Later(Box<Waiting>),
}

/// How far a request came that has to wait.
pub(crate) struct Waiting {
    route: Result<Route<'static>, Refusal>,
    /// The fetch to begin with, where the store was asked.
    plan: Option<Plan>,
}

impl Now {
    fn later(route: Result<Route<'_>, Refusal>, plan: Option<Plan>) -> Self {
        Self::Later(Box::new(Waiting { route: route.map(Route::into_owned), plan }))
    }
}

/// Answers what can be answered at once.
pub(crate) fn now(exchange: &Exchange<'_, '_>, out: &mut Out) -> Now {
    if exchange.request.config.looks_first
        && let Some(keep) = challenge::answer(exchange, out)
            .or_else(|| redirect::to_https(exchange, out))
            .or_else(|| admittance::refuse(exchange, out))
    {
        return Now::Answered { keep };
    }
    let mut route = match route(&exchange.request) {
        Ok(route) => route,
        Err(refusal) => {
            let waits = purge::is_journal(&exchange.request)
                || exchange.request.head.framing != BodyFraming::None;
            if waits {
                return Now::later(Err(refusal), None);
            }
            return Now::Answered { keep: refuse::refusal(exchange, out, &refusal) };
        }
    };
    // Purges have permissions of their own.
    if let Some(rate) = route.policy.limit
        && !matches!(route.way, Way::Purge)
        && let Some(keep) = admittance::limit(exchange, out, rate)
    {
        return Now::Answered { keep };
    }
    if let Some(keep) = redirect::by_rule(exchange, out, &route) {
        return Now::Answered { keep };
    }
    if route.way != Way::Lookup {
        return Now::later(Ok(route), None);
    }
    let now = exchange.request.pages.clock.at(exchange.request.since);
    exchange.request.settle_object(&route, now);
    let looked = route.find(&exchange.request, now);
    if exchange.request.head.known.larder_debug().is_some() {
        debug::note(&exchange.request, &route, &looked, now);
    }
    match step(&exchange.request, &route, looked, now) {
        Step::Serve(held, served) => {
            match deliver::entry(exchange, out, held, &served, &route.policy) {
                Ok(delivered) => {
                    if served.refresh {
                        fetch::refresh(&exchange.request, &route);
                    }
                    Now::Answered { keep: finish(exchange, &delivered) }
                }
                Err(_) => Now::later(Ok(route), None),
            }
        }
        Step::Refuse(refusal) => Now::Answered { keep: refuse::refusal(exchange, out, &refusal) },
        Step::Fetch(mut plan) => {
            let answered = dictionary::answer(exchange, out, &route, &mut plan)
                .or_else(|| file::answer(exchange, out, &route, now));
            match answered {
                Some(keep) => Now::Answered { keep },
                None => Now::later(Ok(route), Some(plan)),
            }
        }
    }
}

/// Memory of a request that waits: of its head, which is counted where it is long; and of its task,
/// which is counted where another request of the connection waits too, or where it has a body,
/// which a client may send as slowly as it likes.
fn waiting_memory(conn: &Active<'_>, exchange: &Exchange<'_, '_>) -> Result<Option<Held>, Refusal> {
    let head = Some(exchange.request.head.len).filter(|len| *len > SHORT_HEAD).unwrap_or_default();
    let has_body = exchange.request.head.framing != BodyFraming::None;
    let task = if has_body || conn.wire.has_company() { TASK_MEMORY } else { 0 };
    if head + task == 0 {
        return Ok(None);
    }
    let holder = conn.wire.watch().holder(&exchange.request.pages.shared.room);
    let mut held = Held::new(&holder, Place::Heap);
    if held.resize((head + task) as u64) { Ok(Some(held)) } else { Err(CROWDED) }
}

/// Sees a request through that has to wait. True: the connection goes on.
pub(crate) async fn later(
    conn: &mut Active<'_>,
    exchange: &Exchange<'_, '_>,
    waiting: Waiting,
) -> Result<bool, Ended> {
    let wire = conn.wire;
    wire.busy();
    let _waits = wire.watch().serves();
    let _memory = match waiting_memory(conn, exchange) {
        Ok(held) => held,
        Err(refusal) => {
            refuse::refusal(exchange, conn.out, &refusal);
            return Ok(false);
        }
    };
    if purge::is_journal(&exchange.request) {
        return Ok(purge::hear(conn.out, exchange));
    }
    let Waiting { route, plan } = waiting;
    let mut route = match route {
        Ok(route) => route,
        Err(refusal) => {
            refuse::refusal(exchange, conn.out, &refusal);
            return Ok(false);
        }
    };
    match route.way {
        Way::Lookup => pin!(cached(conn, exchange, &mut route, plan)).await,
        Way::Pass(why) => Box::pin(pass::serve(conn, exchange, &route, why)).await,
        Way::Purge => Ok(Box::pin(purge::serve(conn.out, exchange, &route)).await),
    }
}

/// The step after the lookup.
pub(super) enum Step {
    /// Serve this page.
    Serve(StoredPage, Served),
    /// Ask the origin.
    Fetch(Plan),
    /// Say no.
    Refuse(Refusal),
}

pub(super) fn step(
    request: &Request<'_, '_>,
    route: &Route<'_>,
    looked: LookupResult,
    now: Ms,
) -> Step {
    let LookupResult { found, variant } = looked;
    let plan = |why, held| Plan::new(why, held, variant.clone());
    let nothing = |why, solo| {
        if request.only_if_cached(&route.policy) {
            return Step::Refuse(NOTHING_STORED);
        }
        let mut plan = plan(why, None);
        let no_store = request.no_store(&route.policy);
        (plan.solo, plan.store) = (solo || no_store, !no_store);
        Step::Fetch(plan)
    };
    let held = match found {
        Found::Page(held) => held,
        Found::Nothing => return nothing(Forward::UriMiss, false),
        Found::VaryMiss => return nothing(Forward::VaryMiss, false),
        Found::HitForMiss => {
            request.stats.miss.set(Some(Outcome::HitForMiss));
            let mut step = nothing(Forward::UriMiss, true);
            if let Step::Fetch(plan) = &mut step {
                plan.marked = true;
            }
            return step;
        }
    };
    if request.is_for_others(&held.meta, &route.policy) {
        return for_itself(request, route, held, variant);
    }
    match decide(&request.view(), &held.meta, &route.policy.cache, now) {
        Decision::Fresh { age, ttl } => Step::Serve(held, Served::fresh(age, ttl)),
        Decision::Stale { age, ttl, why } => {
            Step::Serve(held, Served::stale(age, ttl, why == StaleWhy::SwrRefresh))
        }
        Decision::Revalidate { .. } if request.only_if_cached(&route.policy) => {
            Step::Refuse(NOTHING_STORED)
        }
        Decision::Revalidate { why, .. } => Step::Fetch(plan(forward(why), Some(held))),
        Decision::Unusable(Unusable::RequestNoStore) => nothing(Forward::Request, true),
        Decision::Unusable(_) => nothing(Forward::Miss, false),
        Decision::GatewayTimeout => Step::Refuse(NOTHING_STORED),
    }
}

/// The step of a request whose cookies may change a page that is stored for visitors without: it is
/// answered by the origin. The stored page is validated at most, and stays as it is.
fn for_itself(
    request: &Request<'_, '_>,
    route: &Route<'_>,
    held: StoredPage,
    variant: Option<Vec<u8>>,
) -> Step {
    if request.only_if_cached(&route.policy) {
        return Step::Refuse(NOTHING_STORED);
    }
    let held = held.meta.partial.is_none().then_some(held);
    let mut plan = Plan::new(Forward::Request, held, variant);
    (plan.solo, plan.store) = (true, !request.no_store(&route.policy));
    Step::Fetch(plan)
}

/// Why the origin is asked, in the words of RFC 9211.
fn forward(why: RevalidateWhy) -> Forward {
    match why {
        RevalidateWhy::Request => Forward::Request,
        _ => Forward::Stale,
    }
}

/// miss, fetch, deliver: asks the origin or joins a fetch, and looks again where the result says
/// so. `first`: the plan of the first fetch, where the store was asked.
async fn cached(
    conn: &mut Active<'_>,
    exchange: &Exchange<'_, '_>,
    route: &mut Route<'_>,
    first: Option<Plan>,
) -> Result<bool, Ended> {
    let mut lookups = Lookups::after(first);
    loop {
        let plan = match lookups.first.take() {
            Some(plan) => plan,
            None => match look_again(conn, exchange, route, &mut lookups) {
                Looked::Answered(keep) => return Ok(keep),
                Looked::Made(held, served) if held.meta.flags.any(PageFlags::SLICED) => {
                    match Box::pin(slices::serve(conn, exchange, route, &held, &served)).await? {
                        ControlFlow::Break(keep) => return Ok(keep),
                        // The page is another one now: what is stored of it is of no use.
                        ControlFlow::Continue(()) => {
                            let (store, version) = (exchange.request.pages.store, &held.entry);
                            store.delete_if(PAGES, version.key(), version.version());
                            exchange.request.pages.shared.replaced_on_disk(version.key());
                            continue;
                        }
                    }
                }
                Looked::Made(held, served) if held.meta.flags.any(PageFlags::PACKED) => {
                    let page = (&held, &served);
                    let serve = packed::serve(conn.wire, conn.out, exchange, &route.policy, page);
                    return Box::pin(serve).await;
                }
                Looked::Made(held, served) => {
                    let page = Page::Stored(held, served);
                    return Box::pin(esi::serve(conn, exchange, route, page)).await;
                }
                Looked::Fetch(plan) => plan,
            },
        };
        if lookups.fetches == 0 {
            Box::pin(hints::send(conn, exchange, route, plan.held.as_ref())).await?;
        }
        match pin!(ask(conn, exchange, route, lookups.limit(plan))).await? {
            ControlFlow::Break(keep) => return Ok(keep),
            ControlFlow::Continue((why, again)) => lookups.again(why, again),
        }
    }
}

/// The result of another lookup.
enum Looked {
    /// It is answered. True: the connection goes on.
    Answered(bool),
    /// The page is put together of parts, or lies in slices, some of which are not there; or it is
    /// long, and kept in a coding that the client does not take.
    Made(StoredPage, Served),
    Fetch(Plan),
}

/// Answers from the store, or says what to fetch.
fn look_again(
    conn: &mut Active<'_>,
    exchange: &Exchange<'_, '_>,
    route: &mut Route<'_>,
    lookups: &mut Lookups,
) -> Looked {
    let (request, out) = (&exchange.request, &mut *conn.out);
    let (held, served, variant) = match lookups.look(request, route) {
        (Step::Serve(held, served), variant) => (held, served, variant),
        (Step::Refuse(refusal), _) => {
            return Looked::Answered(refuse::refusal(exchange, out, &refusal));
        }
        (Step::Fetch(plan), _) => return Looked::Fetch(plan),
    };
    match deliver::entry(exchange, out, held, &served, &route.policy) {
        Ok(delivered) => {
            if served.refresh {
                fetch::refresh(request, route);
            }
            Looked::Answered(finish(exchange, &delivered))
        }
        Err(held)
            if held.meta.flags.any(PageFlags::SLICED.with(PageFlags::ESI))
                && request.only_if_cached(&route.policy) =>
        {
            // Slices and parts that are missing would be fetched.
            Looked::Answered(refuse::refusal(exchange, out, &NOTHING_STORED))
        }
        Err(held) if held.meta.flags.any(PageFlags::OTHER_BYTES) => {
            if served.refresh {
                fetch::refresh(request, route);
            }
            Looked::Made(held, served)
        }
        Err(_) if request.only_if_cached(&route.policy) => {
            Looked::Answered(refuse::refusal(exchange, out, &NOTHING_STORED))
        }
        Err(held) => Looked::Fetch(Plan::new(Forward::Partial, Some(held), variant)),
    }
}

/// fetch: once for all who wait, or alone. Whether the connection goes on, or why the store has to
/// be asked again.
async fn ask(
    conn: &mut Active<'_>,
    exchange: &Exchange<'_, '_>,
    route: &Route<'_>,
    plan: Plan,
) -> Result<ControlFlow<bool, (Forward, Again)>, Ended> {
    let why = plan.why;
    exchange.request.stats.forwarded(why);
    let (send, interim) = fetch::interim();
    let result = {
        let fetch = pin!(fetch::fetch(&exchange.request, route, plan, send));
        exchange.wait(conn.wire, conn.out, &route.policy, fetch, interim).await?
    };
    let keep = match result {
        FetchResult::LookAgain(again) => return Ok(ControlFlow::Continue((why, again))),
        FetchResult::Failed(failure) => Box::pin(failed(conn, exchange, route, &failure)).await?,
        FetchResult::Response(reply) if matches!(reply.source, Source::Template(_)) => {
            Box::pin(esi::serve(conn, exchange, route, Page::Fetched(reply))).await?
        }
        FetchResult::Response(reply) => {
            let done = pin!(reply::send(conn.wire, conn.out, exchange, *reply)).await?;
            matches!(done, Done::Answered { keep: true })
        }
    };
    Ok(ControlFlow::Break(keep))
}

/// The origin failed: the stored page if that is allowed, else the error.
async fn failed(
    conn: &mut Active<'_>,
    exchange: &Exchange<'_, '_>,
    route: &Route<'_>,
    failure: &Failure,
) -> Result<bool, Ended> {
    match stored_on_error(&exchange.request, route, failure) {
        OnError::Serve(held, served) => {
            match deliver::entry(exchange, conn.out, held, &served, &route.policy) {
                Ok(delivered) => Ok(finish(exchange, &delivered)),
                Err(held) if held.meta.flags.any(PageFlags::ESI) => {
                    Box::pin(esi::serve(conn, exchange, route, Page::Stored(held, served))).await
                }
                Err(held) if held.meta.flags.any(PageFlags::PACKED) => {
                    let page = (&held, &served);
                    let serve = packed::serve(conn.wire, conn.out, exchange, &route.policy, page);
                    Box::pin(serve).await
                }
                Err(held) if held.meta.flags.any(PageFlags::SLICED) => {
                    match Box::pin(slices::serve(conn, exchange, route, &held, &served)).await? {
                        ControlFlow::Break(keep) => Ok(keep),
                        ControlFlow::Continue(()) => {
                            Ok(refuse::failure(exchange, conn.out, failure))
                        }
                    }
                }
                Err(_) => Ok(refuse::failure(exchange, conn.out, failure)),
            }
        }
        OnError::Fail(status) => {
            let failure = Failure { status, detail: failure.detail.clone(), ..*failure };
            Ok(refuse::failure(exchange, conn.out, &failure))
        }
    }
}

/// The answer when the origin failed.
pub(super) enum OnError {
    /// Serve the stored page.
    Serve(StoredPage, Served),
    /// Say so, with this status.
    Fail(u16),
}

pub(super) fn stored_on_error(
    request: &Request<'_, '_>,
    route: &Route<'_>,
    failure: &Failure,
) -> OnError {
    let (now, view) = (request.now(), request.view());
    request.settle_object(route, now);
    let looked = route.look(request, now);
    let Found::Page(held) = looked.found else { return OnError::Fail(failure.status) };
    // Also for a visitor with cookies that may matter: the page is one of a visitor without, and
    // better than none.
    if stale_on_error(&held.meta, &route.policy.cache, &view, now, failure.cause) {
        let served = Served::on_error(&held.meta, now);
        return OnError::Serve(held, served);
    }
    // A page that must not be served stale, and an origin that cannot be asked: 504 (RFC 9111
    // section 5.2.2.2).
    let forbidden = held.meta.flags.any(PageFlags::NO_STALE);
    OnError::Fail(if forbidden { 504 } else { failure.status })
}
