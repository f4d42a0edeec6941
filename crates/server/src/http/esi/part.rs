//! A part: a request of its own, answered by memory or by a fetch like any other.

use std::{borrow::Cow, rc::Rc, sync::Arc};

use larder_proto::{
    esi::{Target, resolve},
    http::{key, path::has_dot_segment},
    page::{Encoding, PageFlags, Verify, view},
};
use tokio::{
    sync::{Notify, oneshot},
    task::spawn_local,
    time::timeout,
};

use super::{
    Arrived, Coming, Content, Failed, Missing, Piece, Segment, TOO_LONG, Text, expand, is_made,
    read,
};
use crate::{
    fetch::{self, FetchResult, Reply, Source},
    http::{
        admittance,
        flow::{OnError, Step, step, stored_on_error},
        lookups::Lookups,
    },
    origin::RequestBody,
    page::{forms, head::field, lookup::StoredPage},
    request::{
        Request,
        part::PartRequest,
        route::{Refusal, Route, Way, route},
    },
};

/// A part that is wanted.
pub(super) struct Wanted {
    /// Where it is; where another one is, should the first fail.
    pub(super) places: Vec<Vec<u8>>,
    /// Its lifetime, and that of a stale one, where the page says so.
    pub(super) ttl: Option<u32>,
    pub(super) grace: Option<u32>,
}

/// The status of a part that cannot be requested at all.
const NOWHERE: u16 = 400;

/// A part from memory, or a task that requests it.
pub(super) fn begin(text: &Rc<Text>, wanted: Wanted) -> Result<Segment, Missing> {
    let mut failed = None;
    for at in 0..wanted.places.len() {
        let looked = match request(text, &wanted, at) {
            Ok(request) => from_memory(text, &request, &wanted)?,
            Err(status) => Looked::Failed(status),
        };
        match looked {
            Looked::Segments(segments) => return Ok(Segment::Arrived(Arrived::Segments(segments))),
            Looked::Failed(status) => failed = failed.or(Some((status, at))),
            Looked::Missing | Looked::Coded(_) if !text.budget.waits => return Err(Missing),
            Looked::Missing | Looked::Coded(_) => {
                return Ok(Segment::Part(spawn(text.clone(), wanted, at)));
            }
        }
    }
    let (status, at) = failed.unwrap_or((NOWHERE, 0));
    Ok(Segment::Arrived(Arrived::Failed(failure(&wanted, at, status))))
}

fn failure(wanted: &Wanted, at: usize, status: u16) -> Failed {
    let src = wanted.places.get(at).map(|src| String::from_utf8_lossy(src).into_owned());
    Failed { status, src: src.unwrap_or_default() }
}

/// The request for a part. It has the visitor's credentials if the rule of the part says so.
fn request(text: &Text, wanted: &Wanted, at: usize) -> Result<PartRequest, u16> {
    let pages = &text.budget.pages;
    let target = text
        .request
        .with(pages, |page| resolve(&wanted.places[at], page.head.target.path_and_query))
        .ok_or(NOWHERE)?;
    let Target { path_and_query, .. } = &target;
    // Visitors choose some of the bytes of a place: none of them leads out of its directory.
    if path_and_query.is_empty() || has_dot_segment(path_and_query.as_bytes()) {
        return Err(NOWHERE);
    }
    let without = text.request.to(pages, &target, false).ok_or(NOWHERE)?;
    let policy = without.with(pages, |request| match admittance::fault(request) {
        // The site of the part asks its clients for a certificate of its own.
        Some(refusal) => Err(refusal),
        None => route(request).map(|route| route.policy.into_owned()),
    });
    let policy = policy.map_err(|Refusal(status, _)| status)?;
    if policy.handling.as_ref().is_some_and(|handling| handling.redirect.is_some()) {
        return Err(302);
    }
    if !policy.parts.credentials {
        return Ok(without);
    }
    text.budget.private.set(true);
    text.request.to(pages, &target, true).ok_or(NOWHERE)
}

enum Looked {
    Segments(Vec<Segment>),
    Failed(u16),
    /// It has to be decoded first.
    Coded(StoredPage),
    Missing,
}

/// The part as it lies in memory, fresh or good enough.
fn from_memory(text: &Rc<Text>, request: &PartRequest, wanted: &Wanted) -> Result<Looked, Missing> {
    let pages = text.budget.pages.clone();
    let held = request.with(&pages, |request| {
        let Ok(mut route) = route(request) else { return None };
        if route.way != Way::Lookup {
            text.budget.private.set(true);
            return None;
        }
        overrule(text, request, &mut route, wanted);
        let now = request.now();
        request.settle_object(&route, now);
        let looked = route.find(request, now);
        match step(request, &route, looked, now) {
            Step::Serve(held, served) => {
                if served.refresh {
                    fetch::refresh(request, &route);
                }
                Some(held)
            }
            Step::Fetch(_) | Step::Refuse(_) => None,
        }
    });
    match held {
        Some(held) => stored(text, request, held),
        None => Ok(Looked::Missing),
    }
}

/// A part whose lifetime the page gives has it instead of its own, if both are of one host: a page
/// must not say how long others keep theirs.
fn overrule(text: &Text, request: &Request<'_, '_>, route: &mut Route<'_>, wanted: &Wanted) {
    let gives = wanted.ttl.is_some() || wanted.grace.is_some();
    let own = || text.request.with(&text.budget.pages, |page| page.host() == request.host());
    if !gives || !own() {
        return;
    }
    let mut policy = (**route.policy).clone();
    policy.cache.ttl = wanted.ttl.or(policy.cache.ttl);
    policy.cache.grace = wanted.grace.or(policy.cache.grace);
    route.policy = Cow::Owned(Arc::new(policy));
}

/// The segments of a stored page.
fn stored(text: &Rc<Text>, request: &PartRequest, held: StoredPage) -> Result<Looked, Missing> {
    if !is_good(held.meta.status) {
        return Ok(Looked::Failed(held.meta.status));
    }
    let Ok(page) = view(held.entry.head(), held.entry.len(), Verify::Layout) else {
        return Ok(Looked::Failed(500));
    };
    if key::parse_variant_key(held.entry.key()).is_some() {
        text.budget.varies_as(page.head);
    }
    if is_made(&held) {
        let Some(source) = Content::of(&held) else { return Ok(Looked::Failed(500)) };
        return nested(text, request, source);
    }
    if held.meta.flags.any(PageFlags::SLICED) {
        // A file so large is no part of a page.
        return Ok(Looked::Failed(502));
    }
    let (from, length) = (page.body_at as u64, page.body_len);
    if held.meta.flags.any(PageFlags::UNFRAMED) && length == 0 {
        return Ok(Looked::Failed(502));
    }
    if held.meta.encoding == Encoding::Identity {
        let piece = Piece::Stored(held.entry, from, from + length);
        return Ok(Looked::Segments(vec![Segment::Piece(piece)]));
    }
    let pages = &text.budget.pages;
    Ok(match forms::content(pages.store, &held, pages.clock.now()) {
        Some((entry, from, to)) => {
            Looked::Segments(vec![Segment::Piece(Piece::Stored(entry, from, to))])
        }
        None => Looked::Coded(held),
    })
}

/// The segments of a part that has parts.
fn nested(text: &Rc<Text>, request: &PartRequest, source: Content) -> Result<Looked, Missing> {
    let (budget, plan) = (text.budget.clone(), source.plan());
    if !budget.takes(&plan) {
        return Ok(Looked::Failed(TOO_LONG));
    }
    let inner = Text { source, request: request.clone(), depth: text.depth + 1, budget };
    let mut segments = Vec::new();
    expand::expand(&Rc::new(inner), plan, &mut segments)?;
    Ok(Looked::Segments(segments))
}

fn is_good(status: u16) -> bool {
    (200..300).contains(&status) && status != 206
}

/// A part that leaves nothing if it fails.
pub(super) fn continuing(part: Coming) -> Coming {
    let Coming { arrives, is_next } = part;
    let (mut send, out) = oneshot::channel();
    spawn_local(async move {
        let arrived = tokio::select! {
            arrived = arrives => arrived,
            () = send.closed() => return,
        };
        let _gone = send.send(match arrived {
            Ok(Arrived::Failed(_)) | Err(_) => Arrived::Segments(Vec::new()),
            Ok(arrived) => arrived,
        });
    });
    Coming { arrives: out, is_next }
}

/// Requests a part, from its place number `at` on, in a task of its own. It ends when nobody waits
/// for the part any more.
fn spawn(text: Rc<Text>, wanted: Wanted, at: usize) -> Coming {
    let budget = &text.budget;
    budget.begun.set(budget.begun.get() + 1);
    let (mut send, arrives) = oneshot::channel();
    let coming = Coming { arrives, is_next: Rc::default() };
    let is_next = coming.is_next.clone();
    spawn_local(async move {
        let arrived = {
            let comes = arrival(&text, &wanted, at, &is_next);
            tokio::select! {
                arrived = comes => arrived,
                () = send.closed() => return,
            }
        };
        let _gone = send.send(arrived);
    });
    coming
}

async fn arrival(text: &Rc<Text>, wanted: &Wanted, from: usize, is_next: &Notify) -> Arrived {
    let slot = text.budget.slot(is_next).await;
    let mut failed = (NOWHERE, from);
    for at in from..wanted.places.len() {
        let patience = text.budget.limits.timeout;
        let came = match request(text, wanted, at) {
            Ok(request) => {
                timeout(patience, fetched(text, &request, wanted)).await.unwrap_or(Err(504))
            }
            Err(status) => Err(status),
        };
        match came {
            Ok(Arrived::Alone(ahead, body, _)) => return Arrived::Alone(ahead, body, slot),
            Ok(arrived) => return arrived,
            Err(status) if at == from => failed = (status, at),
            Err(_) => {}
        }
    }
    Arrived::Failed(failure(wanted, failed.1, failed.0))
}

async fn fetched(text: &Rc<Text>, part: &PartRequest, wanted: &Wanted) -> Result<Arrived, u16> {
    let pages = text.budget.pages.clone();
    let obtained =
        part.with_later(&pages, async |request| obtain(text, request, wanted).await).await?;
    match obtained {
        Obtained::Stored(held) => match stored(text, part, held) {
            Ok(Looked::Coded(held)) => read::uncoded_page(&text.budget, &held).await,
            looked => looked_at(looked),
        },
        Obtained::Reply(reply) => arrived(text, part, *reply).await,
    }
}

/// A part that is there.
fn looked_at(looked: Result<Looked, Missing>) -> Result<Arrived, u16> {
    match looked {
        Ok(Looked::Segments(segments)) => Ok(Arrived::Segments(segments)),
        Ok(Looked::Failed(status)) => Err(status),
        Ok(Looked::Missing | Looked::Coded(_)) | Err(Missing) => Err(500),
    }
}

enum Obtained {
    Stored(StoredPage),
    Reply(Box<Reply>),
}

/// The answer to the request of a part: see `http::flow`.
async fn obtain(text: &Text, request: &Request<'_, '_>, wanted: &Wanted) -> Result<Obtained, u16> {
    let mut route = route(request).map_err(|Refusal(status, _)| status)?;
    overrule(text, request, &mut route, wanted);
    if let Some(rate) = route.policy.limit
        && admittance::exceeds(request, rate).is_some()
    {
        return Err(429);
    }
    // Interim answers to a part are nobody's.
    let interim = || fetch::interim().0;
    if route.way != Way::Lookup {
        return match fetch::pass(request, &route, RequestBody::Empty, interim()).await {
            FetchResult::Response(reply) => Ok(Obtained::Reply(reply)),
            FetchResult::Failed(failure) => Err(failure.status),
            FetchResult::LookAgain(_) => Err(502),
        };
    }
    let mut lookups = Lookups::default();
    loop {
        let plan = match lookups.look(request, &mut route).0 {
            Step::Serve(held, _) => return Ok(Obtained::Stored(held)),
            Step::Refuse(Refusal(status, _)) => return Err(status),
            Step::Fetch(plan) => plan,
        };
        let why = plan.why;
        match fetch::fetch(request, &route, lookups.limit(plan), interim()).await {
            FetchResult::Response(reply) => return Ok(Obtained::Reply(reply)),
            FetchResult::LookAgain(again) => lookups.again(why, again),
            FetchResult::Failed(failure) => {
                return match stored_on_error(request, &route, &failure) {
                    OnError::Serve(held, _) => Ok(Obtained::Stored(held)),
                    OnError::Fail(status) => Err(status),
                };
            }
        }
    }
}

/// A part that comes from the origin.
async fn arrived(text: &Rc<Text>, part: &PartRequest, reply: Reply) -> Result<Arrived, u16> {
    let status = reply.answer.status;
    if !is_good(status) {
        return Err(status);
    }
    let encoding = Encoding::of(field(&reply.answer.head, "content-encoding"));
    text.budget.varies_as(&reply.answer.head);
    match reply.source {
        Source::Template(template) => {
            // One that is not stored is for this client.
            if reply.answer.meta.is_none() {
                text.budget.private.set(true);
            }
            looked_at(nested(text, part, Content::Fetched(template)))
        }
        Source::Follow(follower) if encoding == Encoding::Identity => Ok(Arrived::Follow(follower)),
        Source::Follow(follower) => read::uncoded_follower(&text.budget, encoding, follower).await,
        Source::Alone(body) => {
            text.budget.private.set(true);
            read::alone(&text.budget, encoding, *body).await
        }
        Source::Tunnel(..) => Err(502),
    }
}
