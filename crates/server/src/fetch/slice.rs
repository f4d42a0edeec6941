//! Large pages in slices: parts of equal length, each fetched, kept and evicted on its own.
//!
//! A page in slices has a map under its key: a record with the head, the facts and the entity tag
//! of the whole, and no content. It is looked up, judged, confirmed and purged like any page. Its
//! slices lie in a namespace of their own under the number of their map, so that they end with it:
//! nothing that was fetched for one version of a page is ever part of another.
//!
//! The first request for a page asks the origin for one slice of it. If the answer is a part with a
//! strong entity tag, it makes the map; all further slices are asked for under that tag (If-Range).

use std::sync::Arc;

use bytes::Bytes;
use http::header::{HeaderValue, IF_RANGE, RANGE};
use larder_proto::{
    http::{Fields, Method, RangeSet, RequestHead, range::RangeSpec},
    page::{Encoding, PageFlags, Partial, Slices, Verify, view},
    rules::{
        ErrorCause, Forward, Lifetime, ResponseFacts, Storable, esi, forward::Mode, partial,
        storable,
    },
};
use larder_store::{Entry, Put};

use super::outgoing;
use crate::{
    clock::Ms,
    disk::SliceRead,
    fetch::{
        FetchResult, Plan,
        complete::Extent,
        disk,
        job::{self, Job, Keep},
        store::NewPage,
    },
    origin::{self, Others, RequestBody, Response},
    page::{
        flight::{Again, Failure, Joined, Landing},
        forms::copied,
        head::Spelled,
        lookup::{PAGES, SLICES, StoredPage},
    },
    request::{Request, pages::Pages, route::Route},
    room::Holding,
    settings::{DiskUse, Slicing},
};

/// Bytes of a slice of a page that is kept so because it is asked for by ranges.
const AUTO: u64 = 1 << 20;
/// Bytes from which on such a page is kept in slices.
const AUTO_FROM: u64 = 4 << 20;
/// Slices of a page: 4 TiB of 1 MiB. Dropping them takes a step for each, of an origin's number.
const MOST_SLICES: u64 = 1 << 22;
/// How long a page that cannot be kept in slices is remembered as such, in milliseconds: its next
/// ranges are asked for once, not twice.
const WHOLE: Ms = 600_000;

/// Slices that are dropped between two looks at other tasks: about 0.1 ms.
const DROPPED: u64 = 512;
/// How often a slice that others fetch is looked for before it is asked for alone.
const ROUNDS: usize = 3;

/// The slice that a fetch asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Bytes of a slice.
    pub(crate) size: u64,
    pub(crate) number: u64,
}

impl Wanted {
    /// The first slice of what a client asks for. The end of a page whose length is not known is
    /// asked for by its begin.
    pub(crate) fn of(head: &RequestHead<'_>, size: u64) -> Self {
        let first = head.known.range().and_then(RangeSet::parse).and_then(|set| {
            match set.specs().first()? {
                RangeSpec::FromTo(first, _) | RangeSpec::From(first) => Some(*first),
                RangeSpec::Suffix(_) => None,
            }
        });
        Self { size, number: first.unwrap_or(0) / size }
    }

    fn first(self) -> u64 {
        self.number * self.size
    }

    /// The value of Range.
    pub(crate) fn range(self) -> String {
        format!("bytes={}-{}", self.first(), self.first().saturating_add(self.size - 1))
    }

    /// The part that it is of a page of so many bytes.
    fn part(self, total: u64) -> Partial {
        let last = self.first().saturating_add(self.size).min(total).saturating_sub(1);
        Partial { first: self.first(), last, total }
    }
}

/// The map of a page in slices.
pub(crate) struct Map {
    pub(crate) slices: Slices,
    etag: Vec<u8>,
}

impl Map {
    /// Reads the map of a page.
    pub(crate) fn of(held: &StoredPage) -> Option<Self> {
        let page = view(held.entry.head(), held.entry.len(), Verify::Layout).ok()?;
        let body = copied(&held.entry, page.body_at as u64, page.body_len);
        Some(Self { slices: Slices::of(&page, &body)?, etag: page.etag?.to_vec() })
    }

    /// A slice that is in memory.
    pub(crate) fn get(&self, request: &Request<'_, '_>, number: u64) -> Option<Entry<'static>> {
        let entry = request.pages.store.get(SLICES, &self.slices.key(number), request.now())?;
        (entry.len() == self.slices.length(number)).then_some(entry)
    }

    /// The same, not counted as a read: eviction hands on to the disk that which is read again.
    fn peek(&self, pages: &Pages, number: u64) -> Option<Entry<'static>> {
        let entry = pages.store.peek(SLICES, &self.slices.key(number), pages.clock.now())?;
        (entry.len() == self.slices.length(number)).then_some(entry)
    }

    /// Where a slice is now, without a wait.
    pub(crate) fn place(&self, request: &Request<'_, '_>, number: u64) -> Place {
        let disk = || request.pages.shared.disk.as_ref();
        match self.peek(request.pages, number) {
            Some(_) => Place::Memory,
            None if disk().is_some_and(|disk| disk.has_slice(&self.slices.key(number))) => {
                Place::Disk
            }
            None => Place::Origin,
        }
    }
}

/// Where a slice is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Memory,
    /// As far as its index knows.
    Disk,
    Origin,
}

/// A slice for one client.
pub(crate) enum Slice {
    Stored(Entry<'static>),
    /// The store did not take it.
    Ready(Bytes),
}

/// Why there is no slice.
pub(crate) enum NoSlice {
    /// The page is another one now.
    Changed,
    Failed(Arc<Failure>),
}

const BROKEN: Failure = Failure {
    cause: ErrorCause::Disconnected,
    status: 502,
    why: "the site behind this cache did not send the part that it was asked for",
    detail: None,
};

/// Makes the map of a page from the answer to the request for one of its slices, and keeps both.
/// Everybody looks again: for the map, or, where the page cannot be kept in slices, without.
pub(super) async fn first(mut job: Job, mut response: Response, facts: &ResponseFacts<'_>) {
    let made = match &job.keep {
        Some(keep) => map(&job, keep, &mut response, facts).await,
        None => None,
    };
    if let (None, Some(keep)) = (made, &job.keep) {
        remember_whole(&job.pages, keep);
    }
    let stored = made.map(|()| (Again::Sliced, Again::Stored));
    let (own, others) = stored.unwrap_or((Again::Unsliced, Again::Unsliced));
    job.lead.flight.land(Landing::LookAgain(others));
    job.tell(FetchResult::LookAgain(own));
}

async fn map(
    job: &Job,
    keep: &Keep,
    response: &mut Response,
    facts: &ResponseFacts<'_>,
) -> Option<()> {
    let wanted = keep.slice?;
    let part = partial::content_range(facts.fields)?;
    let etag = facts.fields.get("etag").filter(|tag| tag.starts_with(b"\""))?;
    let short = keep.policy.slice == Slicing::Auto && part.total < AUTO_FROM;
    if short || part.total / wanted.size >= MOST_SLICES || part != wanted.part(part.total) {
        return None;
    }
    let whole = ResponseFacts { status: 200, ..*facts };
    let lifetime = keep.with_request(|head| {
        match storable(&job::request_view(head), &whole, &keep.policy.cache) {
            Storable::Yes(lifetime) => Some(lifetime),
            Storable::No(_) => None,
        }
    })?;
    let never = esi::applies(&whole, &keep.policy.cache)
        || keep.cookies && lifetime.flags.any(PageFlags::COOKIELESS);
    if never || Encoding::of(facts.fields.get("content-encoding")) != Encoding::Identity {
        return None;
    }
    let (number, size) = (job.pages.nonce(), wanted.size);
    let slices = Slices { number, size, total: part.total };
    let map = Map { slices, etag: etag.to_vec() };
    // Before the map: whoever finds it finds the slice.
    let body = read(job.pages.as_ref(), response, part.bytes()).await?;
    let flags = lifetime.flags.with(disk::flags(keep, facts.fields));
    let always = keep.policy.disk == DiskUse::Always;
    let kept = put(&job.pages, &map, (keep.key(), flags, always), wanted.number, &body);
    (kept && put_map(job, keep, response, facts, lifetime, &map)).then_some(())
}

/// Puts the map of a page into the store. False: it is not there.
fn put_map(
    job: &Job,
    keep: &Keep,
    response: &Response,
    facts: &ResponseFacts<'_>,
    lifetime: Lifetime,
    map: &Map,
) -> bool {
    let flags = lifetime.flags.without(PageFlags::COMPOSED).with(PageFlags::SLICED);
    let lifetime = Lifetime { flags, partial: None, ..lifetime };
    let whole = ResponseFacts { status: 200, ..*facts };
    let extent = Extent { meta: lifetime.meta(&whole), before: 0, length: None };
    let page = NewPage::of(job, keep, response, facts, &lifetime, extent);
    let Some(mut page) = page else { return false };
    page.draft.meta.nonce = map.slices.total;
    page.put(job, &[&map.slices.number.to_le_bytes(), &map.slices.size.to_le_bytes()])
}

/// Reads a body of exactly so many bytes.
async fn read(pages: &Pages, response: &mut Response, length: u64) -> Option<Vec<u8>> {
    let mut held = Holding::new(&pages.shared.room);
    if !held.wait_for(length).await {
        return None;
    }
    let mut out = Vec::with_capacity(length as usize);
    while let Some(data) = response.body.chunk().await.ok()? {
        if (out.len() + data.len()) as u64 > length {
            return None;
        }
        out.extend_from_slice(&data);
    }
    (out.len() as u64 == length).then_some(out)
}

/// Puts a slice into memory, and by rule on the disk. `page`: key and flags of its map, and whether
/// it is for the disk at once.
fn put(
    pages: &Pages,
    map: &Map,
    (page, flags, always): (&[u8], PageFlags, bool),
    number: u64,
    body: &[u8],
) -> bool {
    let tier = pages.shared.disk.as_ref();
    let mark = tier.map_or(0, |disk| disk.slice_mark(page, flags));
    let (key, put) =
        (map.slices.key(number), Put { value: &[body], flags: mark, ..Put::default() });
    let stored = pages.store.set(SLICES, &key, put, pages.clock.now());
    if stored.is_err() {
        pages.counters.store_refused.one();
    }
    if let Some(disk) = tier.filter(|_| always && mark != 0 && stored.is_ok()) {
        disk.keep_slice(&key);
    }
    stored.is_ok()
}

/// A slice of a page, from memory, the disk or the origin: read or fetched once for all who want
/// it.
pub(crate) async fn slice(
    request: &Request<'_, '_>,
    route: &Route<'_>,
    held: &StoredPage,
    map: &Map,
    number: u64,
) -> Result<Slice, NoSlice> {
    let flights = &request.pages.shared.flights;
    let key = map.slices.key(number);
    for round in 0.. {
        if let Some(entry) = map.get(request, number) {
            return Ok(Slice::Stored(entry));
        }
        if round == ROUNDS {
            break;
        }
        match flights.join(&key, &route.key, request.hops(), request.client()) {
            Joined::Leader(lead) => {
                let others = Some(lead.flight.others.clone());
                let fetched = match on_disk(request, held, map, number).await {
                    Some(slice) => Ok(slice),
                    None => fetch(request, route, held, map, (number, others)).await,
                };
                let landing = match &fetched {
                    Err(NoSlice::Failed(failure)) => Landing::Failed(failure.clone()),
                    _ => Landing::LookAgain(Again::Changed),
                };
                lead.flight.land(landing);
                return fetched;
            }
            Joined::Follower(flight) => {
                request.pages.counters.coalesced_waits.one();
                if let Landing::Failed(failure) = flight.landed().await {
                    return Err(NoSlice::Failed(failure));
                }
                let now = request.now();
                let current = request.pages.store.peek(PAGES, held.entry.key(), now);
                if current.and_then(|entry| map_number(&entry)) != Some(map.slices.number) {
                    return Err(NoSlice::Changed);
                }
            }
        }
    }
    fetch(request, route, held, map, (number, None)).await
}

/// A slice that is on the disk. Purges need no look: they mean the map.
async fn on_disk(
    request: &Request<'_, '_>,
    held: &StoredPage,
    map: &Map,
    number: u64,
) -> Option<Slice> {
    let disk = request.pages.shared.disk.as_ref()?;
    let read = disk.slice(&map.slices.key(number), map.slices.length(number)).await?;
    keep_map(request, held);
    Some(match read {
        SliceRead::Stored(entry) => Slice::Stored(entry),
        SliceRead::Bytes(bytes) => Slice::Ready(bytes),
    })
}

/// Sees to it that the disk has the map: one that only memory has would be lost at a crash, and its
/// slices with it.
fn keep_map(request: &Request<'_, '_>, held: &StoredPage) {
    if let Some(disk) = &request.pages.shared.disk {
        disk.keep_map(held.entry.key(), held.meta.flags);
    }
}

/// Takes all slices of a page out of memory, in steps.
pub(super) async fn drop_all(pages: &Pages, held: &StoredPage) {
    let Some(Map { slices, .. }) = Map::of(held) else { return };
    for number in 0..slices.count() {
        pages.store.delete(SLICES, &slices.key(number), pages.clock.now());
        if number % DROPPED == DROPPED - 1 {
            tokio::task::yield_now().await;
        }
    }
}

/// The number of the map that is stored now.
fn map_number(entry: &Entry<'_>) -> Option<u64> {
    let page = view(entry.head(), entry.len(), Verify::Layout).ok()?;
    let body = copied(entry, page.body_at as u64, page.body_len);
    Some(u64::from_le_bytes(*body.first_chunk::<8>()?))
}

/// Fetches this slice for its client, and for the others that wait for it.
async fn fetch(
    request: &Request<'_, '_>,
    route: &Route<'_>,
    held: &StoredPage,
    map: &Map,
    (number, others): (u64, Option<Arc<Others>>),
) -> Result<Slice, NoSlice> {
    let broken = || NoSlice::Failed(Arc::new(BROKEN));
    // Where the disk should have had it: the answer's head may not say so any more.
    request.stats.forwarded(Forward::Partial);
    let wanted = Wanted { size: map.slices.size, number };
    let mode = Mode::Complete { range: wanted.range(), validator: map.etag.clone() };
    let mut outgoing = outgoing::request(request, route, &mode, RequestBody::Empty, false);
    outgoing.method = http::Method::GET;
    outgoing.asker.others = others;
    let origin = request.config.origin(&route.site, &route.policy).ok_or_else(broken)?;
    let mut response = match origin.send(outgoing, None).await {
        Ok(response) => response,
        Err(error) => {
            request.pages.counters.origin_failures.one();
            return Err(NoSlice::Failed(Arc::new(Failure::of(&error))));
        }
    };
    let spelled = Spelled::of(&response.headers);
    let headers = spelled.headers();
    let fields = Fields::new(&headers);
    let same_tag = fields.get("etag").is_none_or(|tag| tag == map.etag);
    let part = partial::content_range(fields);
    match response.status {
        206 if same_tag && part == Some(wanted.part(map.slices.total)) => {}
        // Another version, or none any more: all slices of this one are of no use.
        200 | 206 | 404 | 410 | 416 => {
            request.pages.store.delete_if(PAGES, held.entry.key(), held.entry.version());
            request.pages.shared.replaced_on_disk(held.entry.key());
            return Err(NoSlice::Changed);
        }
        status => {
            let cause = ErrorCause::Status(status);
            return Err(NoSlice::Failed(Arc::new(Failure { cause, ..BROKEN })));
        }
    }
    let Some(body) =
        read(request.pages, &mut response, wanted.part(map.slices.total).bytes()).await
    else {
        request.pages.counters.truncated.one();
        return Err(broken());
    };
    let always = route.policy.disk == DiskUse::Always;
    let page = (held.entry.key(), held.meta.flags, always);
    keep_map(request, held);
    if put(request.pages, map, page, number, &body)
        && let Some(entry) = map.peek(request.pages, number)
    {
        return Ok(Slice::Stored(entry));
    }
    Ok(Slice::Ready(Bytes::from(body)))
}

/// The slice that is fetched of a page in slices; None: the page is not fetched so. A page that is
/// stored whole stays whole while it is good.
pub(super) fn sliced(
    request: &Request<'_, '_>,
    route: &Route<'_>,
    plan: &Plan,
    by_get: bool,
) -> Option<Wanted> {
    if !(plan.slice && plan.store && !plan.whole) {
        return None;
    }
    let get = request.head.method == Method::Get || by_get;
    let known = &request.head.known;
    let held = plan.held.as_ref();
    let is_map = |held: &StoredPage| held.meta.flags.any(PageFlags::SLICED);
    let whole = |held: &StoredPage| held.meta.partial.is_none() && !is_map(held);
    if !get || known.authorization().is_some() || held.is_some_and(whole) {
        return None;
    }
    let size = match route.policy.slice {
        Slicing::Never => return None,
        Slicing::Every(size) => size,
        // Its slices are of use for as long as it is not another page.
        Slicing::Auto if held.is_some_and(is_map) => AUTO,
        Slicing::Auto => {
            let known_short =
                |held: &StoredPage| held.meta.partial.is_some_and(|part| part.total < AUTO_FROM);
            let range = known.range().and_then(RangeSet::parse)?;
            let alone = plan.solo || range.specs().len() > 1 || held.is_some_and(known_short);
            if alone || is_known_whole(request, plan.variant.as_deref().unwrap_or(&route.key)) {
                return None;
            }
            AUTO
        }
    };
    Some(Wanted::of(request.head, size))
}

/// The key under which a page that cannot be kept in slices is remembered: no slice has it.
fn whole_key(page: &[u8]) -> Vec<u8> {
    [b"\xffwhole ", page].concat()
}

fn remember_whole(pages: &Pages, keep: &Keep) {
    if keep.policy.slice == Slicing::Auto {
        let now = pages.clock.now();
        let put = Put { expires: Some(now + WHOLE), ..Put::default() };
        // A full store forgets this, and the next range is asked for twice.
        let _taken = pages.store.set(SLICES, &whole_key(keep.key()), put, now);
    }
}

fn is_known_whole(request: &Request<'_, '_>, page: &[u8]) -> bool {
    let pages = request.pages;
    pages.store.get(SLICES, &whole_key(page), request.now()).is_some()
}

/// Whether a request may be answered with other bytes than those of its first range: with the
/// whole, where If-Range does not hold (RFC 9110 section 13.1.5), or with another range.
pub(super) fn asks_for_more(fields: &Fields<'_>) -> bool {
    fields.all(IF_RANGE.as_str()).next().is_some()
        || fields.all(RANGE.as_str()).any(|value| value.contains(&b','))
}

/// Has a fetch ask for a slice.
pub(super) fn asks(outgoing: &mut origin::Request, keep: &mut Keep, wanted: Wanted) {
    outgoing.headers.remove(IF_RANGE);
    if let Ok(range) = HeaderValue::from_str(&wanted.range()) {
        outgoing.headers.insert(RANGE, range);
        (keep.slice, keep.ranged) = (Some(wanted), true);
    }
}
