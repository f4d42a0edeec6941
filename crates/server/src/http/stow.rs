//! Putting a page into the store while its clients follow it.
//!
//! A page is a record of one format (docs/page-format.md): head, body, trailer. The head is written first, so that
//! followers can be told at once; the body as it comes; the trailer, with length and checksum, at the complete end. Only
//! then does the record become visible. A body that breaks off leaves nothing.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use larder_proto::{
    page::{MAX_HEAD_LEN, Meta, PageFlags, Parts, TRAILER_LEN, Trailer, Verify, encode_head, view},
    rules::{
        Lifetime, Policy, ResponseFacts,
        strip::{self, StoredHead},
        update::Freshened,
    },
};
use larder_store::{Fill, FillOptions, PutError};
use tokio::sync::mpsc::{self, error::TrySendError};

use super::{
    answer::Answer,
    bring::{self, Job, Keep, Purpose, Unstored},
    complete::{self, Extent},
    compose,
    fetch::{News, Source},
    fleet,
    flight::{Landing, Purged, Streaming, Tail},
    lookup::PAGES,
    place::{self, Place},
    purge::site_tag,
    refuse,
};
use crate::{clock::Ms, origin::Response};

/// Bytes copied between two looks at other tasks when a page is written anew.
const COPY_STEP: usize = 1 << 20;
/// How long one of several readers may hold up the others once the body no longer goes through the store.
const SPILL_PATIENCE: Duration = Duration::from_secs(2);

/// Stores a response and lets everybody follow. One that cannot be stored goes to its client alone; a part that
/// cannot complete what is stored goes to nobody.
pub(crate) async fn store(job: Job, response: Response, facts: &ResponseFacts<'_>, lifetime: Lifetime) {
    let Some(keep) = &job.keep else { return };
    let parcel = Parcel::new(&job, keep, &response, facts, lifetime);
    let parcel = parcel.filter(|parcel| parcel.length.is_none_or(|length| length <= keep.policy.max_object));
    let opened = match parcel {
        None => Err(Unstored { detail: "too-large", mark: true }),
        Some(parcel) => match parcel.open(&job) {
            Ok(fill) => Ok((parcel, fill)),
            Err(_) => Err(Unstored { detail: "store-full", mark: false }),
        },
    };
    match opened {
        Ok((parcel, fill)) => parcel.fill(job, response, facts, fill).await,
        Err(why) => {
            job.worker.counters.store_refused.one();
            if keep.purpose == Purpose::Complete && facts.status == 206 {
                return bring::forget(job);
            }
            bring::pass_on(job, response, facts, Some(why)).await;
        }
    }
}

/// A page about to be stored.
struct Parcel {
    place: Place,
    /// The record up to the body.
    record: Vec<u8>,
    meta: Meta,
    /// Status line and fields as stored, without Content-Length.
    head: StoredHead,
    etag: Option<Vec<u8>>,
    tags: Vec<Box<[u8]>>,
    /// Length of the body, where known.
    length: Option<u64>,
    expires: Ms,
    /// Bytes of the stored part that come before the answer's.
    before: u64,
}

impl Parcel {
    fn new(
        job: &Job,
        keep: &Keep,
        response: &Response,
        facts: &ResponseFacts<'_>,
        lifetime: Lifetime,
    ) -> Option<Self> {
        let Extent { meta, before, length } =
            complete::extent(keep, facts, &lifetime, response.body.declared_length())?;
        let same = meta.status == facts.status;
        let reason = if same { bring::reason(response) } else { refuse::phrase(meta.status).to_owned() };
        let whole = ResponseFacts { status: meta.status, ..*facts };
        let StoredHead { head, withheld } = strip::stored_head(&whole, &reason, &keep.policy.cache);
        let without: &[&str] = if same { &["content-length"] } else { &["content-length", "content-range"] };
        let head = StoredHead { head: compose::without(&head, without), withheld };
        let place = place::place(job, keep, facts.fields)?;
        let tags = place::tags(facts.fields);
        let etag = facts.fields.get("etag").map(<[u8]>::to_vec);
        let expires = facts.response_time
            + 1000
                * lifetime.useful_for(&keep.policy.cache, etag.is_some() || lifetime.last_modified.is_some());
        let mut parcel = Self { place, record: Vec::new(), meta, head, etag, tags, length, expires, before };
        parcel.record = parcel.encode()?;
        Some(parcel)
    }

    fn encode(&mut self) -> Option<Vec<u8>> {
        let mut head = self.head.head.clone();
        self.meta.flags = self.meta.flags.without(PageFlags::HAS_LENGTH);
        if let Some(length) = self.length {
            compose::number_line(&mut head, "Content-Length", length);
            self.meta.flags = self.meta.flags.with(PageFlags::HAS_LENGTH);
        }
        let vary: Vec<(&str, Option<&[u8]>)> =
            self.place.vary.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
        let tags: Vec<&[u8]> = self.tags.iter().map(|tag| &**tag).collect();
        let parts = Parts {
            etag: self.etag.as_deref().unwrap_or_default(),
            vary: &vary,
            tags: &tags,
            key: &self.place.key,
            withheld: &self.head.withheld,
            head: &head,
        };
        encode_head(&self.meta, &parts).ok()
    }

    /// The tags as the store and a purge know them.
    fn site_tags(&self, job: &Job) -> Vec<Box<[u8]>> {
        let site = job.keep.as_ref().map_or("", |keep| &keep.site);
        self.tags.iter().map(|tag| site_tag(site, tag).into()).collect()
    }

    fn open(&self, job: &Job) -> Result<Fill<'static>, PutError> {
        let now = job.worker.clock.now();
        let size_hint = self.length.map(|length| self.record.len() as u64 + length + TRAILER_LEN as u64);
        let options = FillOptions { flags: 0, expires: None, size_hint, contiguous: self.record.len() };
        let mut fill = job.worker.store.fill(PAGES, &self.place.key, options, now)?;
        fill.write(&self.record)?;
        let tags = self.site_tags(job);
        fill.set_tags(&tags.iter().map(|tag| &**tag).collect::<Vec<_>>());
        Ok(fill)
    }

    async fn fill(
        self,
        mut job: Job,
        response: Response,
        facts: &ResponseFacts<'_>,
        mut fill: Fill<'static>,
    ) {
        if let Some(marker) = &self.place.marker {
            let primary = job.keep.as_ref().map_or(&self.place.key, |keep| &keep.primary);
            place::put_marker(&job.worker, &job.lead.flight, primary, marker);
        }
        let answer = Arc::new(Answer {
            status: self.meta.status,
            head: self.head.head.clone(),
            length: self.length,
            meta: Some(self.meta),
            etag: self.etag.clone(),
            vary: self.place.vary.clone(),
        });
        let mut trailer = Trailer::new(&self.record);
        if self.before > 0 && !complete::copy_before(&job, &mut fill, &mut trailer, self.before) {
            job.worker.counters.store_refused.one();
            job.lead.flight.land(Landing::Stored { validated: false });
            return job.tell(News::LookAgain);
        }
        let streaming = Streaming::new(answer.clone(), fill.reader(), self.record.len() as u64);
        job.worker.shared.flights.set_tags(&job.lead.flight, self.site_tags(&job));
        if let (Some(follower), true) = (streaming.follow(), job.client.is_some()) {
            let own = self.own_answer(&job, facts, &response);
            let reply = job.reply(Arc::new(own), Source::Follow(follower), &response);
            job.tell(News::Reply(Box::new(reply)));
        }
        job.worker.shared.flights.alias(&job.lead.flight, &self.place.key);
        job.lead.flight.land(Landing::Streaming(streaming.clone()));
        let max = job.keep.as_ref().map_or(u64::MAX, |keep| keep.policy.max_object);
        let exact = self.length.filter(|_| self.meta.partial.is_some() || self.before > 0);
        let _guard = SpillGuard(streaming.clone());
        let filling = Filling { fill, trailer, streaming: &streaming, total: self.before, max, exact };
        match filling.run(response).await {
            Ok(fill) => {
                streaming.whole();
                self.commit(&job, fill);
            }
            Err(Broken::Origin) => {
                job.worker.counters.truncated.one();
                job.worker.counters.not_stored.one("truncated");
            }
            Err(Broken::Store) => {
                job.worker.counters.store_refused.one();
                job.worker.counters.not_stored.one("store-full");
            }
        }
    }

    /// The head for the client the fetch was made for: what is not stored (`no-cache="set-cookie"`) is for it alone.
    fn own_answer(&self, job: &Job, facts: &ResponseFacts<'_>, response: &Response) -> Answer {
        let head = if self.meta.status == facts.status {
            compose::without_length(&strip::forwarded_head(
                facts,
                &bring::reason(response),
                &job.policy.cache,
            ))
        } else {
            self.head.head.clone()
        };
        Answer {
            status: self.meta.status,
            head,
            length: self.length,
            meta: Some(self.meta),
            etag: self.etag.clone(),
            vary: Vec::new(),
        }
    }

    fn commit(&self, job: &Job, fill: Fill<'static>) {
        let now = job.worker.clock.now();
        if job.lead.flight.purged() == Purged::Gone {
            return;
        }
        match fill.commit(Some(self.expires), now) {
            Ok(version) => {
                job.worker.counters.stored.one();
                // A purge that came before this moment marked the flight; one that comes after it finds the page.
                match job.lead.flight.purged() {
                    Purged::No => fleet::share(job, &self.place.key, version),
                    Purged::Softly => {
                        job.worker.store.mark_stale(PAGES, &self.place.key, now);
                    }
                    Purged::Gone => {
                        job.worker.store.delete_if(PAGES, &self.place.key, version);
                    }
                }
            }
            Err(_) => job.worker.counters.store_refused.one(),
        }
    }
}

/// Why a fill ended without a page.
enum Broken {
    Origin,
    Store,
}

struct Filling<'s> {
    fill: Fill<'static>,
    trailer: Trailer,
    streaming: &'s Streaming,
    total: u64,
    max: u64,
    /// What the total has to be, where the framing does not see to it.
    exact: Option<u64>,
}

/// Whoever follows a fill whose task ends without a word (dropped, panicked) must see the break.
struct SpillGuard(Arc<Streaming>);

impl Drop for SpillGuard {
    fn drop(&mut self) {
        if !self.0.is_whole() {
            self.0.spill();
        }
    }
}

impl Filling<'_> {
    async fn run(mut self, mut response: Response) -> Result<Fill<'static>, Broken> {
        loop {
            match response.body.chunk().await {
                Ok(Some(data)) => {
                    if self.exact.is_some_and(|exact| self.total + data.len() as u64 > exact) {
                        self.streaming.spill();
                        return Err(Broken::Origin);
                    }
                    if let Err(rest) = self.take(&data) {
                        spill(self.fill, self.streaming, rest, response).await;
                        return Err(Broken::Store);
                    }
                }
                Ok(None) if self.exact.is_none_or(|exact| exact == self.total) => break,
                Ok(None) | Err(_) => {
                    // Before the fill is dropped: who sees it aborted must find that nothing follows.
                    self.streaming.spill();
                    return Err(Broken::Origin);
                }
            }
        }
        *self.streaming.trailers.lock() = response.body.trailers();
        self.streaming.ends_at(self.total);
        match self.fill.write(&self.trailer.finish()) {
            Ok(()) => Ok(self.fill),
            Err(_) => {
                self.streaming.whole();
                Err(Broken::Store)
            }
        }
    }

    /// Puts a piece into the store; an error gives back what did not fit.
    fn take(&mut self, data: &Bytes) -> Result<(), Bytes> {
        self.total += data.len() as u64;
        if self.total > self.max {
            return Err(data.clone());
        }
        let before = self.streaming.written();
        if self.fill.write(data).is_err() {
            return Err(data.slice((self.streaming.written() - before) as usize..));
        }
        self.trailer.update(data);
        Ok(())
    }
}

/// The store takes no more: who follows gets the rest directly, at the pace of the slowest.
async fn spill(fill: Fill<'static>, streaming: &Streaming, first: Bytes, mut response: Response) {
    let mut tails = streaming.spill();
    drop(fill);
    send_all(&mut tails, || Tail::Data(first.clone())).await;
    while !tails.is_empty() {
        match response.body.chunk().await {
            Ok(Some(data)) => send_all(&mut tails, || Tail::Data(data.clone())).await,
            Ok(None) => {
                let trailers = response.body.trailers();
                return send_all(&mut tails, || Tail::End(trailers.clone())).await;
            }
            Err(_) => return,
        }
    }
}

/// Waits for a reader that is alone as long as it takes (its own connection has a limit), for one of several
/// [`SPILL_PATIENCE`]: then it is cut off, so that one that stands still does not hold up the others.
async fn send_all(tails: &mut Vec<mpsc::Sender<Tail>>, piece: impl Fn() -> Tail) {
    let several = tails.len() > 1;
    let mut kept = Vec::with_capacity(tails.len());
    for tail in tails.drain(..) {
        let sent = match tail.try_send(piece()) {
            Ok(()) => true,
            Err(TrySendError::Closed(_)) => false,
            Err(TrySendError::Full(piece)) if several => {
                tail.send_timeout(piece, SPILL_PATIENCE).await.is_ok()
            }
            Err(TrySendError::Full(piece)) => tail.send(piece).await.is_ok(),
        };
        if sent {
            kept.push(tail);
        }
    }
    *tails = kept;
}

/// The stored page under a new head: its body is copied, in steps, so that other requests are served meanwhile.
pub(crate) async fn refreshed(job: &Job, fresh: &Freshened) -> Option<()> {
    let keep = job.keep.as_ref()?;
    let held = keep.held.as_ref()?;
    let page = view(held.entry.head(), held.entry.len(), Verify::Layout).ok()?;
    let vary = page.vary.map(|(name, value)| (name.to_owned(), value.map(<[u8]>::to_vec))).collect();
    let meta = fresh.meta;
    let head =
        StoredHead { head: compose::without_length(&fresh.head.head), withheld: fresh.head.withheld.clone() };
    let useful = useful_for(&meta, &keep.policy.cache, !fresh.etag.is_empty());
    let mut parcel = Parcel {
        place: Place { key: held.entry.key().to_vec(), vary, marker: None },
        record: Vec::new(),
        meta,
        head,
        etag: (!fresh.etag.is_empty()).then(|| fresh.etag.clone()),
        tags: page.tags.map(Box::from).collect(),
        length: Some(page.body_len),
        expires: meta.response_time + 1000 * useful,
        before: 0,
    };
    parcel.record = parcel.encode()?;
    let mut fill = parcel.open(job).ok()?;
    let mut trailer = Trailer::new(&parcel.record);
    let (mut at, end) = (page.body_at as u64, page.body_at as u64 + page.body_len);
    while at < end {
        let chunk = held.entry.chunk_at(at);
        let take = (chunk.len() as u64).min(end - at).min(COPY_STEP as u64) as usize;
        if take == 0 {
            return None;
        }
        fill.write(&chunk[..take]).ok()?;
        trailer.update(&chunk[..take]);
        at += take as u64;
        if at < end {
            tokio::task::yield_now().await;
        }
    }
    fill.write(&trailer.finish()).ok()?;
    job.worker.shared.flights.set_tags(&job.lead.flight, parcel.site_tags(job));
    // Another fetch may have brought a newer page meanwhile: this body is not to take its place.
    let still = job.worker.store.peek(PAGES, &parcel.place.key, job.worker.clock.now());
    if still.is_none_or(|entry| entry.version() != held.entry.version()) {
        return None;
    }
    parcel.commit(job, fill);
    Some(())
}

/// The same window as of a new response with these facts.
pub(super) fn useful_for(meta: &Meta, policy: &Policy, tagged: bool) -> u64 {
    let lifetime = Lifetime {
        freshness: meta.freshness,
        initial_age: meta.initial_age,
        swr: meta.swr,
        sie: meta.sie,
        flags: meta.flags,
        date: meta.date,
        last_modified: meta.last_modified,
        partial: meta.partial,
    };
    lifetime.useful_for(policy, tagged || meta.last_modified.is_some())
}

const _: () = assert!(MAX_HEAD_LEN <= larder_store::MAX_CONTIGUOUS);
