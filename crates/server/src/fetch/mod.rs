//! Asking the origin, or waiting for a fetch that is under way: the requester's side. The other
//! side is `bring`.
//!
//! A fetch knows no connection. The futures here end when the result is there; a requester that
//! leaves drops them.

mod behind;
mod complete;
mod disk;
mod job;
mod lead;
mod mend;
mod outgoing;
mod peers;
mod remote;
mod reply;
mod slice;
mod spill;
mod store;
mod target;
mod template;
mod uncoded;
mod verdict;

use std::{pin::pin, rc::Rc, sync::Arc};

pub(crate) use reply::{FetchResult, Reply, Source};
pub(crate) use slice::{Map, NoSlice, Place, Slice, slice};
pub(crate) use template::Template;

use larder_proto::{
    http::{
        BodyFraming, Fields, KnownField, Method, RangeSet, parse_fields, query, structured::strings,
    },
    page::{Meta, PageFlags, Verify, view},
    rules::{Esi, Forward, Uri, conditions, invalidate, partial, split_head, update::with_fields},
};
use larder_store::MAX_TAGS;
use tokio::{sync::mpsc, task::spawn_local};

use crate::{
    access_log::Hierarchy,
    fetch::{job::Keep, outgoing::Mode},
    net::passing::Parcel,
    origin::{self, BodyFrame, Interim, InterimHeads, RequestBody},
    page::{
        flight::{Again, Joined, Landing},
        lookup::{Found, StoredPage},
        tags::group_tag,
        variant,
    },
    request::{Request, route::Route},
    settings::{DiskUse, RequestView as RuleView},
};

/// Pieces of a request body that may wait for the origin.
const FRAMES: usize = 4;
/// Interim responses that may wait for the client.
const INTERIM: usize = 8;

/// A way for interim responses to the client, and its other end.
pub(crate) fn interim() -> (Interim, InterimHeads) {
    origin::interim(INTERIM)
}

/// The page to be fetched, and the reason.
pub(crate) struct Plan {
    pub(crate) why: Forward,
    /// The stored page: to be validated, completed, or served if the origin fails.
    pub(crate) held: Option<StoredPage>,
    /// The key of the variant; None: the primary key.
    pub(crate) variant: Option<Vec<u8>>,
    /// Do not wait for others, do not let others wait.
    pub(crate) solo: bool,
    /// An answer to the same request was not kept a moment ago, and this is why it goes alone.
    pub(crate) marked: bool,
    /// The response may be stored.
    pub(crate) store: bool,
    /// Others who share the fleet may have what is wanted.
    pub(crate) fleet: bool,
    /// The whole page is fetched, whatever part the client wants.
    pub(crate) whole: bool,
    /// The disk may have what is wanted.
    pub(crate) disk: bool,
    /// It may be fetched in slices.
    pub(crate) slice: bool,
}

impl Plan {
    pub(crate) fn new(why: Forward, held: Option<StoredPage>, variant: Option<Vec<u8>>) -> Self {
        let fleet =
            matches!(why, Forward::UriMiss | Forward::VaryMiss | Forward::Miss | Forward::Stale);
        // The disk has nothing newer than the page that is held.
        let disk = fleet && held.is_none();
        Self {
            why,
            held,
            variant,
            solo: false,
            marked: false,
            store: true,
            fleet,
            whole: false,
            slice: true,
            disk,
        }
    }
}

/// Fetches what a request asks for: leads a flight or joins one.
pub(crate) async fn fetch(
    request: &Request<'_, '_>,
    route: &Route<'_>,
    plan: Plan,
    interim: Interim,
) -> FetchResult {
    let mut plan = plan;
    // A part of a page is put together of parts as the whole is.
    plan.whole |= plan.held.as_ref().is_some_and(is(PageFlags::ESI));
    // A request that fetches alone has found that what others have is not for it.
    plan.fleet &= plan.store && !plan.solo;
    plan.disk &= plan.store && !plan.solo;
    let by_get = is_converted(request, route, &plan);
    // Most pages of such a site have markup, and are fetched whole.
    plan.slice &= route.policy.cache.esi != Esi::Always || wants_part(request);
    let sliced = slice::sliced(request, route, &plan, by_get);
    if sliced.is_some() {
        // A part that was stored before is of no use.
        plan.held = plan.held.filter(is(PageFlags::SLICED));
    }
    let solo = plan.solo || !(joins(request, &plan) || by_get || sliced.is_some());
    let key = plan.variant.as_deref().unwrap_or(&route.key);
    let flights = &request.pages.shared.flights;
    let lead = if solo {
        flights.solo(key, &route.key)
    } else {
        match flights.join(key, &route.key, request.hops(), request.client()) {
            Joined::Leader(lead) => lead,
            Joined::Follower(flight) => {
                request.pages.counters.coalesced_waits.one();
                return follow(request, route, &plan, flight.landed().await);
            }
        }
    };
    if !solo && overtaken(request, route, &plan) {
        lead.flight.land(Landing::LookAgain(Again::Changed));
        return FetchResult::LookAgain(Again::Changed);
    }
    let why = plan.why;
    let found = plan.held.is_some();
    let range = wants_part(request) && !by_get && !plan.whole && sliced.is_none();
    let (mut outgoing, mut keep) = prepare(request, route, plan, solo, range);
    if let Some(wanted) = sliced {
        slice::asks(&mut outgoing, &mut keep, wanted);
    }
    if by_get {
        outgoing.method = http::Method::GET;
        keep.head = Rc::new(keep.head.as_get());
    }
    let led = pin!(lead::to_end(request, route, lead, outgoing, interim, Some(keep)));
    let mut result = led.await;
    if let FetchResult::Response(reply) = &mut result {
        (reply.why, reply.found) = (why, found);
    }
    result
}

/// Whether the client wants a part. An invalid range is ignored (RFC 9110 section 14.2), and the
/// origin does not see it.
fn wants_part(request: &Request<'_, '_>) -> bool {
    let known = &request.head.known;
    !known.is_repeated(KnownField::Range)
        && known.range().is_some_and(|value| RangeSet::parse(value).is_some())
}

/// Whether others may wait for this request's response, and it for theirs. A range or the answer to
/// a HEAD is of no use to others; what was fetched with credentials is not theirs.
fn joins(request: &Request<'_, '_>, plan: &Plan) -> bool {
    let known = &request.head.known;
    plan.store
        && request.head.method == Method::Get
        && (plan.whole || known.range().is_none())
        && known.authorization().is_none()
}

/// Whether a HEAD is sent as a GET, so that the page is kept: also one that is stored and stale, of
/// which the answer to a HEAD could at most say that it has changed (RFC 9111 section 4.3.5). A
/// page that was not kept is no exception: after a change of the settings it may be kept, and the
/// answer says why it is not.
fn is_converted(request: &Request<'_, '_>, route: &Route<'_>, plan: &Plan) -> bool {
    request.is_head()
        && route.policy.convert_head
        && plan.store
        && (!plan.solo || plan.marked)
        && plan.held.as_ref().is_none_or(|held| {
            held.meta.partial.is_none() || held.meta.flags.any(PageFlags::OTHER_BYTES)
        })
        && request.head.known.authorization().is_none()
}

/// Pages with these flags.
fn is(flags: PageFlags) -> impl Fn(&StoredPage) -> bool {
    move |held| held.meta.flags.any(flags)
}

/// Between the lookup and the lead somebody else may have landed.
fn overtaken(request: &Request<'_, '_>, route: &Route<'_>, plan: &Plan) -> bool {
    let looked = route.look(request, request.now());
    let before = plan.held.as_ref().map(|held| held.entry.version());
    match looked.found {
        Found::Page(held) => before != Some(held.entry.version()),
        Found::HitForMiss => true,
        _ => looked.variant != plan.variant || route.is_spelled_anew(request),
    }
}

/// The result of another request's fetch, for this request.
fn follow(
    request: &Request<'_, '_>,
    route: &Route<'_>,
    plan: &Plan,
    landing: Landing,
) -> FetchResult {
    let streaming = match landing {
        Landing::Streaming(streaming) => streaming,
        Landing::LookAgain(again) => return FetchResult::LookAgain(again),
        Landing::Failed(failure) => return FetchResult::Failed(failure),
    };
    if !variant::selects(&streaming.answer.vary, &request.view(), &route.policy) {
        return FetchResult::LookAgain(Again::Changed);
    }
    let answers = match &streaming.answer.spelling {
        Some(spelling) => spelling.answers(route.asked()),
        None => route.spelled.is_none(),
    };
    if !answers {
        return FetchResult::LookAgain(Again::Changed);
    }
    let for_others = |meta| request.is_for_others(meta, &route.policy);
    if streaming.answer.meta.as_ref().is_some_and(for_others) {
        return FetchResult::LookAgain(Again::Alone);
    }
    let Some(follower) = streaming.follow() else { return FetchResult::LookAgain(Again::Alone) };
    FetchResult::Response(Box::new(Reply {
        answer: streaming.answer.clone(),
        source: Source::Follow(follower),
        why: plan.why,
        collapsed: true,
        found: plan.held.is_some(),
        detail: None,
        hierarchy: Hierarchy::None,
        conditions: true,
    }))
}

/// The request's body as the origin gets it, and where its pieces go; None: there is no body.
pub(crate) fn body(framing: BodyFraming) -> (RequestBody, Option<mpsc::Sender<BodyFrame>>) {
    let length = match framing {
        BodyFraming::None => return (RequestBody::Empty, None),
        BodyFraming::Length(length) => Some(length),
        BodyFraming::Chunked => None,
    };
    let (send, frames) = mpsc::channel(FRAMES);
    (RequestBody::Stream { length, frames }, Some(send))
}

/// Fetches past the cache.
pub(crate) async fn pass(
    request: &Request<'_, '_>,
    route: &Route<'_>,
    body: RequestBody,
    interim: Interim,
) -> FetchResult {
    let lead = request.pages.shared.flights.solo(&[], &[]);
    let outgoing =
        outgoing::request(request, route, &Mode::Pass, body, request.upgrade().is_some());
    pin!(lead::to_end(request, route, lead, outgoing, interim, None)).await
}

/// Forgets the pages that a successful unsafe request changed (RFC 9111 section 4.4), and those of
/// the groups that its response names (RFC 9875 section 3).
pub(crate) async fn invalidate(request: &Request<'_, '_>, route: &Route<'_>, reply: &Reply) {
    let Some((_, lines)) = split_head(&reply.answer.head) else { return };
    let authority = request.head.host.map(|host| host.to_string()).unwrap_or_default();
    let uri = Uri {
        scheme: request.scheme().as_str(),
        authority: &authority,
        path_and_query: &route.path,
    };
    let status = reply.answer.status;
    let targets = with_fields(lines, |fields| {
        let targets = invalidate::targets(&request.head.method, &uri, status, fields);
        (targets, group_tags(request, status, fields))
    });
    let (targets, groups) = targets.unwrap_or_default();
    let changes = &request.pages.shared.changes;
    if !groups.is_empty() {
        changes.tell(|| Parcel::Tags(route.site.name.clone(), groups.clone()));
    }
    request.pages.purger(false).tags(&route.site.name, &groups).await;
    let any = |_: &str, _: &mut dyn FnMut(&[u8]) -> bool| false;
    for path in targets {
        // The key a GET would look under.
        let plain = path.split_once('?').map_or(&*path, |(plain, _)| plain);
        let policy = route.site.policy(&RuleView { method: "GET", path: plain, any: &any });
        let path = query::normalise_query(&path, &policy.drop_query, policy.sort_query);
        let keys = request.page_keys(&path);
        changes.tell(|| Parcel::Keys(keys.clone()));
        request.pages.purger(false).page(&keys).await;
    }
}

/// The groups of pages that a response invalidates, as tags.
fn group_tags(request: &Request<'_, '_>, status: u16, fields: Fields<'_>) -> Vec<Vec<u8>> {
    if !invalidate::applies(&request.head.method, status) {
        return Vec::new();
    }
    let groups = strings(fields.all("cache-group-invalidation")).unwrap_or_default();
    let keys = if groups.is_empty() { Vec::new() } else { request.page_keys("/") };
    let Some(page) = keys.first() else { return Vec::new() };
    groups.iter().take(MAX_TAGS).filter_map(|group| group_tag(page, group)).collect()
}

/// Refreshes a stale page behind the back of the client that was served it.
///
/// It goes out in that client's name, so a client with credentials does not cause one: what it got
/// would not be stored.
pub(crate) fn refresh(request: &Request<'_, '_>, route: &Route<'_>) {
    let by_get = request.is_head() && route.policy.convert_head;
    let gets = request.head.method == Method::Get || by_get;
    if !gets || request.head.known.authorization().is_some() {
        return;
    }
    let looked = route.look(request, request.now());
    let Found::Page(held) = looked.found else { return };
    let key = looked.variant.as_deref().unwrap_or(&route.key).to_vec();
    let joined =
        request.pages.shared.flights.join(&key, &route.key, request.hops(), request.client());
    let Joined::Leader(lead) = joined else { return };
    let plan = Plan::new(Forward::Stale, Some(held), looked.variant);
    let sliced = slice::sliced(request, route, &plan, by_get);
    let (mut outgoing, mut keep) = prepare(request, route, plan, false, false);
    if by_get {
        outgoing.method = http::Method::GET;
        keep.head = Rc::new(keep.head.as_get());
    }
    if let Some(wanted) = sliced {
        slice::asks(&mut outgoing, &mut keep, wanted);
    }
    if let Some(job) = lead::job(request, route, lead, outgoing, None, Some(keep)) {
        spawn_local(job);
    }
}

/// The request to the origin, and what is needed to judge and store its answer. `range`: the client
/// wants a part.
fn prepare(
    request: &Request<'_, '_>,
    route: &Route<'_>,
    plan: Plan,
    solo: bool,
    range: bool,
) -> (origin::Request, Keep) {
    let mut slots = [larder_proto::http::EMPTY_HEADER; 256];
    let page = plan.held.as_ref().and_then(|held| {
        view(held.entry.head(), held.entry.len(), Verify::Layout)
            .ok()
            .map(|page| (page, &held.meta))
    });
    let fields = page
        .as_ref()
        .and_then(|(page, _)| split_head(page.head))
        .and_then(|(_, fields)| parse_fields(fields, &mut slots).ok());
    let mode = match (&page, fields) {
        (Some((page, meta)), Some(fields)) => mode(range, meta, page.etag, fields),
        _ if range => Mode::Range,
        _ => Mode::Whole,
    };
    let mut outgoing = outgoing::request(request, route, &mode, RequestBody::Empty, false);
    if plan.marked || !plan.store {
        outgoing::accept_codings(&mut outgoing, request);
    }
    let ranged = matches!(mode, Mode::Range);
    let purpose = match mode {
        Mode::Validate(_) => job::Purpose::Validate,
        Mode::Complete { .. } => job::Purpose::Complete,
        _ => job::Purpose::Fetch,
    };
    let keep = Keep {
        head: request.owned_head(),
        policy: Arc::clone(&route.policy),
        primary: route.key.clone(),
        spelled: route.spelled.clone(),
        variant: plan.variant,
        held: plan.held,
        purpose,
        ranged,
        slice: None,
        cookies: request.counts_cookies(&route.policy),
        site: route.site.name.clone(),
        store: plan.store,
        mark: !solo,
        ask_disk: plan.disk && route.policy.disk != DiskUse::Never,
        ask_fleet: plan.fleet && route.site.remote && request.pages.remote.is_some(),
        shared: plan.store && route.site.remote,
    };
    (outgoing, keep)
}

/// How to ask when the store has something. A part is never asked for where the whole page is
/// stored: it would take its place.
fn mode<'a>(range: bool, meta: &Meta, etag: Option<&'a [u8]>, fields: Fields<'a>) -> Mode<'a> {
    if let Some(part) = &meta.partial {
        if range {
            return Mode::Range;
        }
        // Without a strong tag the parts could not be told to be of one version.
        let validator = etag.filter(|tag| tag.starts_with(b"\"")).map(<[u8]>::to_vec);
        return match (partial::missing(part, None), validator) {
            (Some(range), Some(validator)) => Mode::Complete { range, validator },
            _ => Mode::Whole,
        };
    }
    if meta.flags.any(PageFlags::UNFRAMED) {
        return Mode::Whole;
    }
    let conditions = conditions(etag, fields);
    if conditions.is_empty() { Mode::Whole } else { Mode::Validate(conditions) }
}
