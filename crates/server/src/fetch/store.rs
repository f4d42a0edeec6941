//! Storing a response while its clients follow it.
//!
//! The head is written first, so that followers can be told at once; the body as it comes. Only at
//! the complete end does the page become visible. A body that breaks off leaves nothing.

use std::sync::Arc;

use bytes::Bytes;
use larder_proto::{
    page::{Meta, PageFlags, Verify, view},
    rules::{
        Lifetime, Policy, ResponseFacts,
        no_vary_search::Rule,
        strip::{self, StoredHead},
        update::{Freshened, with_fields},
    },
};
use larder_store::{If, PutError};

use crate::{
    fetch::{
        FetchResult, Source, behind,
        complete::{self, Extent},
        disk,
        job::{self, Job, Keep, Purpose, Unstored},
        remote, slice,
        spill::spill,
        target,
        target::Destination,
    },
    origin::Response,
    page::{
        answer::Answer,
        flight::{Again, Landing, Streaming},
        head,
        spelling::{self, Spelling},
        variant::Marker,
        writer::{Committed, PageDraft, PageFill},
    },
    settings::phrase,
};

/// Stores a response and lets everybody follow. One that cannot be stored goes to its client alone;
/// a part that cannot complete what is stored goes to nobody.
pub(crate) async fn store(
    job: Job,
    response: Response,
    facts: &ResponseFacts<'_>,
    lifetime: Lifetime,
) {
    let Some(keep) = &job.keep else { return };
    let page = NewPage::new(&job, keep, &response, facts, lifetime);
    let fits =
        |page: &NewPage| page.draft.length.is_none_or(|length| length <= keep.policy.max_object);
    let opened = match page.filter(fits) {
        None => Err(Unstored { detail: "too-large", mark: true }),
        Some(page) => match job.pages.writer().begin(&page.draft, &job.lead.flight) {
            Ok(fill) => Ok((page, fill)),
            Err(_) => Err(Unstored { detail: "store-full", mark: false }),
        },
    };
    match opened {
        Ok((page, fill)) => page.fill(job, response, facts, fill).await,
        Err(why) => {
            job.pages.counters.store_refused.one();
            if keep.purpose == Purpose::Complete && facts.status == 206 {
                return job::forget(job);
            }
            job::pass_on(job, response, facts, Some(why)).await;
        }
    }
}

/// A page about to be stored.
pub(super) struct NewPage {
    pub(super) draft: PageDraft,
    /// The key without variant.
    primary: Vec<u8>,
    /// A marker to be written first.
    marker: Option<Marker>,
    /// The rule by which other spellings of the query are this page.
    rule: Option<Rule>,
    /// Bytes of the stored part that come before the answer's.
    before: u64,
}

impl NewPage {
    pub(super) fn new(
        job: &Job,
        keep: &Keep,
        response: &Response,
        facts: &ResponseFacts<'_>,
        lifetime: Lifetime,
    ) -> Option<Self> {
        let extent = complete::extent(keep, facts, &lifetime, response.body.declared_length())?;
        match complete::merged(keep, facts) {
            None => Self::of(job, keep, response, facts, &lifetime, extent),
            Some(lines) => with_fields(&lines, |fields| {
                Self::of(
                    job,
                    keep,
                    response,
                    &ResponseFacts { fields, ..*facts },
                    &lifetime,
                    extent,
                )
            })
            .ok()?,
        }
    }

    pub(super) fn of(
        job: &Job,
        keep: &Keep,
        response: &Response,
        facts: &ResponseFacts<'_>,
        lifetime: &Lifetime,
        extent: Extent,
    ) -> Option<Self> {
        let Extent { meta, before, length } = extent;
        let same = meta.status == facts.status;
        let reason = if same { job::reason(response) } else { phrase(meta.status).to_owned() };
        let whole = ResponseFacts { status: meta.status, ..*facts };
        let StoredHead { head, withheld } = strip::stored_head(&whole, &reason, &keep.policy.cache);
        // Of a whole that is made of a part, or that the part is a slice of.
        let of_the_part = ["content-length", "content-range", "content-digest", "content-md5"];
        let without = if same { &of_the_part[..1] } else { &of_the_part[..] };
        let mut meta = meta;
        meta.flags = meta.flags.with(disk::flags(keep, facts.fields));
        let Destination { primary, key, vary, marker, rule } =
            target::destination(job, keep, facts.fields)?;
        let etag = facts.fields.get("etag").map(<[u8]>::to_vec);
        let validators = etag.is_some() || lifetime.last_modified.is_some();
        let useful = lifetime.useful_for(&keep.policy.cache, validators);
        let draft = PageDraft {
            key,
            meta,
            head: head::without(&head, without),
            withheld,
            etag,
            vary,
            tags: target::tags(facts.fields, &primary),
            site: keep.site.clone(),
            length,
            expires: Some(facts.response_time + 1000 * useful),
            flags: 0,
        };
        Some(NewPage { draft, primary, marker, rule, before })
    }

    /// Puts a page with this body into the store. False: it is not there.
    pub(super) fn put(&self, job: &Job, body: &[&[u8]]) -> bool {
        self.announce(job);
        let write = || {
            let mut fill = job.pages.writer().begin(&self.draft, &job.lead.flight)?;
            body.iter().try_for_each(|piece| fill.write(piece))?;
            fill.finish()?;
            Ok::<_, PutError>(fill)
        };
        match write() {
            Ok(fill) => commit(job, &self.draft, fill),
            Err(_) => {
                job.pages.counters.store_refused.one();
                false
            }
        }
    }

    /// Writes what the page is found by.
    fn announce(&self, job: &Job) {
        target::announce(job, &self.primary, self.rule.as_ref());
        if let Some(marker) = &self.marker {
            put_marker(job, &self.primary, marker);
        }
    }

    async fn fill(
        self,
        mut job: Job,
        response: Response,
        facts: &ResponseFacts<'_>,
        mut fill: PageFill,
    ) {
        let Some(keep) = &job.keep else { return };
        self.announce(&job);
        if self.before > 0 && complete::copy_before(keep, &mut fill, self.before).await.is_none() {
            job.pages.counters.store_refused.one();
            job.lead.flight.land(Landing::LookAgain(Again::Changed));
            return job.tell(FetchResult::LookAgain(Again::Changed));
        }
        let max = keep.policy.max_object;
        let draft = &self.draft;
        let answer = Arc::new(Answer {
            status: draft.meta.status,
            head: draft.head.clone(),
            length: draft.length,
            meta: Some(draft.meta),
            etag: draft.etag.clone(),
            vary: draft.vary.clone(),
            spelling: self.spelling(keep),
        });
        let streaming = Streaming::new(answer, fill.reader(), fill.body_at);
        if let (Some(follower), true) = (streaming.follow(), job.client.is_some()) {
            let own = self.own_answer(&job, facts, &response);
            let reply = job.reply(Arc::new(own), Source::Follow(follower), &response);
            job.tell(FetchResult::Response(Box::new(reply)));
        }
        let flight = &job.lead.flight;
        job.pages.shared.flights.alias(flight, &draft.key);
        flight.land(if flight.is_purged() {
            // Those who wait may have come after the purge.
            Landing::LookAgain(Again::Changed)
        } else {
            Landing::Streaming(streaming.clone())
        });
        let exact = draft.length.filter(|_| draft.meta.partial.is_some() || self.before > 0);
        let _guard = SpillGuard(streaming.clone());
        let filling =
            Filling { job: &job, fill, streaming: &streaming, total: self.before, max, exact };
        match filling.run(response).await {
            Ok(fill) => {
                streaming.whole();
                let _counted = commit(&job, draft, fill);
            }
            Err(Broken::Origin) => {
                job.pages.counters.truncated.one();
                job.pages.counters.not_stored.one("truncated");
                if self.before > 0 {
                    // The next one is not to be cut at the same place: it gets the whole.
                    job::drop_held(&job);
                }
            }
            Err(Broken::Store) => {
                job.pages.counters.store_refused.one();
                job.pages.counters.not_stored.one("store-full");
            }
        }
    }

    /// The head for the client the fetch was made for: what is not stored (`no-cache="set-cookie"`)
    /// is for it alone.
    pub(super) fn own_answer(
        &self,
        job: &Job,
        facts: &ResponseFacts<'_>,
        response: &Response,
    ) -> Answer {
        let draft = &self.draft;
        let head = if draft.meta.status == facts.status {
            strip::forwarded_head(facts, &job::reason(response), &job.policy.cache)
        } else {
            draft.head.clone()
        };
        Answer {
            status: draft.meta.status,
            head,
            length: draft.length,
            meta: Some(draft.meta),
            etag: draft.etag.clone(),
            vary: Vec::new(),
            spelling: None,
        }
    }

    /// Which spellings of the URL the answer is for, where not one alone.
    fn spelling(&self, keep: &Keep) -> Option<Box<Spelling>> {
        (self.rule.is_some() || keep.spelled.is_some())
            .then(|| Box::new(Spelling { asked: keep.asked().to_vec(), rule: self.rule.clone() }))
    }
}

/// Writes the marker for what a fetch brings.
pub(crate) fn put_marker(job: &Job, primary: &[u8], marker: &Marker) {
    if job.pages.writer().marker(&job.lead.flight, primary, marker).is_err() {
        job.pages.counters.store_refused.one();
    }
    // Variants on the disk are found by it.
    if let Some(disk) = &job.pages.shared.disk
        && disk.replaced(primary)
    {
        disk.keep(primary);
    }
}

/// Makes a page visible, counts it, and shares it with other Larders unless it was purged meanwhile
/// or may be half a page.
/// False: it is not there.
fn commit(job: &Job, draft: &PageDraft, fill: PageFill) -> bool {
    !matches!(commit_if(job, draft, fill, If::Always), Ok(Committed::Purged) | Err(_))
}

/// The same if the condition holds.
fn commit_if(
    job: &Job,
    draft: &PageDraft,
    fill: PageFill,
    condition: If<'_, '_>,
) -> Result<Committed, PutError> {
    let counters = &job.pages.counters;
    let committed = job.pages.writer().commit(fill, &job.lead.flight, condition);
    // After the commit: from now on the page before it cannot leave memory for the disk any more.
    job.pages.shared.replaced_on_disk(&draft.key);
    match committed {
        Ok(Committed::Purged) => {}
        Ok(Committed::Stored(version)) => {
            counters.stored.one();
            disk::keep(job, draft);
            behind::begin(job, draft);
            if !draft.meta.flags.any(PageFlags::UNFRAMED) {
                remote::share(job, draft, version);
            }
        }
        Err(PutError::Exists | PutError::NotFound) => {}
        Err(_) => counters.store_refused.one(),
    }
    committed
}

/// Why a fill ended without a page.
enum Broken {
    Origin,
    Store,
}

struct Filling<'s> {
    job: &'s Job,
    fill: PageFill,
    streaming: &'s Streaming,
    total: u64,
    max: u64,
    /// The required total in bytes, where the framing does not ensure it.
    exact: Option<u64>,
}

/// Readers of a fill whose task ends without a word (dropped, panicked) must see the break.
struct SpillGuard(Arc<Streaming>);

impl Drop for SpillGuard {
    fn drop(&mut self) {
        if !self.0.is_whole() {
            self.0.spill();
        }
    }
}

impl Filling<'_> {
    async fn run(mut self, mut response: Response) -> Result<PageFill, Broken> {
        loop {
            match response.body.chunk().await {
                Ok(Some(data)) => {
                    if self.exact.is_some_and(|exact| self.total + data.len() as u64 > exact) {
                        self.streaming.spill();
                        return Err(Broken::Origin);
                    }
                    if let Err(rest) = self.take(&data) {
                        spill(self.job, self.fill, self.streaming, rest, response).await;
                        return Err(Broken::Store);
                    }
                }
                Ok(None) if self.exact.is_none_or(|exact| exact == self.total) => break,
                Ok(None) | Err(_) => {
                    // Before the fill is dropped: who sees it aborted must find that nothing
                    // follows.
                    self.streaming.spill();
                    return Err(Broken::Origin);
                }
            }
        }
        *self.streaming.trailers.lock() = response.body.trailers();
        self.streaming.ends_at(self.total);
        match self.fill.finish() {
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
        Ok(())
    }
}

/// The stored page under a new head. Its body is copied, in steps, so that other requests are
/// served meanwhile.
pub(crate) async fn refreshed(job: &Job, fresh: &Freshened) -> Option<()> {
    let keep = job.keep.as_ref()?;
    let held = keep.held.as_ref()?;
    let page = view(held.entry.head(), held.entry.len(), Verify::Layout).ok()?;
    // It lies under the key of its old rule: it is fetched anew.
    if spelling::rule_of(page.head) != spelling::rule_of(&fresh.head.head) {
        return None;
    }
    let useful = useful_for(&fresh.meta, &keep.policy.cache, !fresh.etag.is_empty());
    let expires = fresh.meta.response_time + 1000 * useful;
    let flags = disk::kept(&page.meta).with(disk::flags_of(keep, &fresh.head));
    let meta = Meta { flags: fresh.meta.flags.with(flags), ..fresh.meta };
    // Slices of before are marked for the disk: the page is fetched anew, without them.
    let forbidden = flags.any(PageFlags::NO_DISK) && !page.meta.flags.any(PageFlags::NO_DISK);
    if forbidden && page.meta.flags.any(PageFlags::SLICED) {
        job::drop_held(job);
        slice::drop_all(&job.pages, held).await;
        return None;
    }
    let draft = PageDraft {
        key: held.entry.key().to_vec(),
        head: head::without_length(&fresh.head.head),
        withheld: fresh.head.withheld.clone(),
        etag: (!fresh.etag.is_empty()).then(|| fresh.etag.clone()),
        ..PageDraft::copy_of(&page, meta, &keep.site, expires)
    };
    let mut fill = job.pages.writer().begin(&draft, &job.lead.flight).ok()?;
    fill.copy(page.body_len, |at| held.entry.chunk_at(page.body_at as u64 + at)).await.ok()?;
    fill.finish().ok()?;
    // Another fetch may have brought a newer page meanwhile: this body is not to take its place.
    let condition = If::Version(held.entry.version());
    match commit_if(job, &draft, fill, condition) {
        Err(PutError::Exists | PutError::NotFound) => None,
        _ => Some(()),
    }
}

/// The same window as of a new response with these facts.
pub(crate) fn useful_for(meta: &Meta, policy: &Policy, tagged: bool) -> u64 {
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
