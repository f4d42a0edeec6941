//! Asking the fleet (the remote tier) before the origin.
//!
//! What the fleet has is put into the own store as a *copy*, and everybody looks there again. A copy is the page as it was
//! sent: its age goes on. It is used for `remote.local_copy`; then the fleet is asked again, as the page may have been purged
//! there. If the fleet does not answer, a copy that is fresh by its own times is used on for as long again.
//!
//! ```text
//! miss, or stale -> fleet --has it--> copy into the store -> everybody looks again
//!                     |----has none--------------------------> origin
//!                     |----fails---> a fresh copy held? -----> use it on
//!                     |                        none? --------> origin
//!                     |----says nothing within the budget: as above, but the first usable answer wins
//! ```

use std::{
    pin::{Pin, pin},
    rc::Rc,
};

use larder_proto::{
    page::{Kind, Meta, PageFlags, PageView, Parts, Trailer, Verify, encode_head, view},
    rules::current_age,
};
use larder_store::FillOptions;

use super::{
    bring::{self, Client, Job, Keep, Sent},
    fetch::News,
    flight::{Landing, Lead, Purged},
    lookup::{Held, PAGES},
    place,
    purge::site_tag,
    sound::sound,
    stow,
    variant::{self, Marker},
    worker::Worker,
};
use crate::{
    clock::Ms,
    origin::{Interim, Request},
    remote::{Answer, Lease, Record, Remote, Taken, Turn},
};

/// Variants asked for at once: the best for the request first.
const VARIANTS: usize = 8;
/// Bytes copied between two looks at other tasks.
const COPY_STEP: usize = 1 << 20;

/// What came of asking the fleet first.
pub(super) enum First {
    /// The origin was asked.
    Origin(Box<Sent>),
    /// A copy is in the store: everybody was told.
    Copied,
    /// The client left, and nobody else wants an answer.
    Nobody,
}

/// Asks the fleet where that is of use, and the origin where the fleet has nothing or takes too long.
pub(super) async fn first(job: &mut Job, request: Request, interim: Option<Interim>) -> First {
    let Job { worker, origin, lead, client, keep, lease, .. } = job;
    let mut unsent = Some((request, interim));
    let asking = match (&worker.remote, keep.as_ref()) {
        (Some(remote), Some(keep)) if keep.ask_fleet => Some(Asking { worker, remote, keep, lead }),
        _ => None,
    };
    let mut news = None;
    if let Some(asking) = &asking {
        let found = {
            let sending = async {
                let (request, interim) = unsent.take()?;
                bring::send(worker, origin, lead, client.as_mut(), request, interim).await
            };
            let mut sending = pin!(sending);
            match asking.race(sending.as_mut()).await {
                Raced::Sent(sent) => return First::sent(sent),
                Raced::Late(found) => match asking.settle(found).await {
                    Settled::News(late) => {
                        news = Some(late);
                        None
                    }
                    Settled::Origin { .. } => return First::sent(sending.await),
                },
                Raced::Found(found) => Some(found),
            }
        };
        // The origin was not asked yet.
        if let Some(found) = found {
            news = match asking.settle(found).await {
                Settled::News(news) => Some(news),
                Settled::Origin { failed } => {
                    match while_wanted(worker, lead, client.as_mut(), asking.turn(failed)).await {
                        Some(Ours::Copied) => Some(News::Shared),
                        Some(Ours::Ask(held)) => {
                            *lease.borrow_mut() = held;
                            None
                        }
                        None => {
                            asking.remote.counters().waits_left.one();
                            return First::Nobody;
                        }
                    }
                }
            };
        }
    }
    let Some(news) = news else {
        let Some((request, interim)) = unsent.take() else { return First::Nobody };
        return First::sent(bring::send(worker, origin, lead, client.as_mut(), request, interim).await);
    };
    lead.flight.land(Landing::Stored { validated: false });
    if let Some(client) = client.take() {
        let _ = client.reply.send(news);
    }
    First::Copied
}

impl First {
    fn sent(sent: Option<Sent>) -> Self {
        sent.map_or(First::Nobody, |sent| First::Origin(Box::new(sent)))
    }
}

/// What came of waiting for other Larders.
enum Ours {
    /// Another has rendered the page, and it is in the store.
    Copied,
    /// The origin is to be asked.
    Ask(Option<Lease>),
}

/// Waits for others as long as somebody waits for us: None, when the client has left and nobody else wants an answer.
async fn while_wanted<T>(
    worker: &Worker,
    lead: &Lead,
    client: Option<&mut Client>,
    waiting: impl Future<Output = T>,
) -> Option<T> {
    let mut waiting = pin!(waiting);
    if let Some(client) = client {
        tokio::select! {
            biased;
            done = &mut waiting => return Some(done),
            () = client.reply.closed() => {}
        }
        if worker.shared.flights.abandon(&lead.flight) {
            return None;
        }
    }
    Some(waiting.await)
}

/// What the fleet's answer was good for.
enum Settled {
    News(News),
    /// The origin is to be asked. `failed`: the fleet did not answer.
    Origin {
        failed: bool,
    },
}

/// Whose answer was first.
#[allow(clippy::large_enum_variant)] // it is taken apart at once
enum Raced {
    Found(Answer),
    /// The fleet's, when the origin had been asked as well: nobody else is waited for any more.
    Late(Answer),
    /// The origin's; None: the client left, and nobody else wants an answer.
    Sent(Option<Sent>),
}

/// One fetch, as far as the fleet is concerned.
struct Asking<'j> {
    worker: &'j Rc<Worker>,
    remote: &'j Rc<Remote>,
    keep: &'j Keep,
    lead: &'j Lead,
}

impl Asking<'_> {
    /// The fleet's answer; where that takes longer than the budget, the origin is asked as well. A copy that is held and good
    /// needs neither.
    async fn race(&self, mut sending: Pin<&mut impl Future<Output = Option<Sent>>>) -> Raced {
        let counters = self.remote.counters();
        counters.lookups.one();
        let mut looking = pin!(self.look());
        tokio::select! {
            biased;
            found = &mut looking => return Raced::Found(found),
            () = tokio::time::sleep(self.remote.settings().budget) => {}
        }
        if self.held_copy().is_some() {
            return Raced::Found(Answer::Failed);
        }
        tokio::select! {
            biased;
            found = &mut looking => Raced::Late(found),
            sent = &mut sending => {
                counters.late.one();
                Raced::Sent(sent)
            }
        }
    }

    /// Makes the most of what the fleet said. What it gave is let go then: a large record has a place that others wait for.
    async fn settle(&self, found: Answer) -> Settled {
        let counters = self.remote.counters();
        match found {
            Answer::Record(taken) if self.take(&taken).await => {
                counters.hits.one();
                Settled::News(News::Shared)
            }
            Answer::Failed if self.prolong().await => {
                counters.prolonged.one();
                Settled::News(News::LookAgain)
            }
            Answer::Failed => {
                counters.failed.one();
                Settled::Origin { failed: true }
            }
            Answer::Record(_) | Answer::Nothing => {
                counters.misses.one();
                Settled::Origin { failed: false }
            }
        }
    }

    /// Lets one Larder ask the origin, and the others wait for what it brings. `failed`: the fleet did not answer.
    async fn turn(&self, failed: bool) -> Ours {
        // What others would wait for has to go where they look.
        if failed || !self.keep.shared || !self.keep.mark {
            return Ours::Ask(None);
        }
        match self.remote.turn(self.keep.key(), || self.look_for_use()).await {
            Turn::Origin(lease) => Ours::Ask(lease),
            Turn::Shared(Answer::Record(taken)) if self.take(&taken).await => {
                self.remote.counters().hits.one();
                Ours::Copied
            }
            Turn::Shared(_) => Ours::Ask(None),
        }
    }

    /// What is there and cannot be used is nothing to those who wait.
    async fn look_for_use(&self) -> Answer {
        let answer = self.look().await;
        let Answer::Record(taken) = &answer else { return answer };
        match taken.page() {
            Some(page) if self.useful(&page.meta) && !self.purged_here(taken, &page) => answer,
            _ => Answer::Nothing,
        }
    }

    /// Looks for the page: under its primary key, or as the variant the request selects.
    async fn look(&self) -> Answer {
        if !self.remote.current().await {
            return Answer::Failed;
        }
        let answer = self.remote.get(&self.keep.primary).await;
        let Answer::Record(taken) = &answer else { return answer };
        let Some(page) = taken.page() else { return Answer::Nothing };
        if page.meta.kind != Kind::VaryMarker {
            return answer;
        }
        if !sound(&page, self.worker.clock.now()) {
            self.remote.counters().foreign.one();
            return Answer::Nothing;
        }
        self.adopt(&page);
        let keys = self.keep.with_request(|head| {
            let (mut keys, request) = (Vec::new(), bring::request_view(head));
            let (nonce, policy) = (page.meta.nonce, &self.keep.policy);
            variant::select(&self.keep.primary, nonce, page.vary, &request, policy, |key| {
                keys.push(key.to_vec());
                (keys.len() >= VARIANTS).then_some(())
            });
            keys
        });
        // A marker that somebody made large has a place that its variant may need.
        drop(answer);
        match keys {
            Some(keys) if !keys.is_empty() => self.remote.first(&keys).await,
            _ => Answer::Nothing,
        }
    }

    /// The fleet's marker counts, so that all who share it name variants alike; what one's own knows besides is kept.
    fn adopt(&self, fleets: &PageView<'_>) {
        let (store, primary, now) = (self.worker.store, &self.keep.primary, self.worker.clock.now());
        let mut marker = Marker::of(fleets);
        let own = store.peek(PAGES, primary, now);
        let own = own.as_ref().and_then(|entry| view(entry.head(), entry.len(), Verify::Layout).ok());
        let own = own.filter(|page| page.meta.kind == Kind::VaryMarker && page.meta.nonce == marker.nonce);
        if let Some(page) = &own
            && !marker.add(&Marker::of(page))
        {
            return;
        }
        place::put_marker(self.worker, &self.lead.flight, primary, &marker);
    }

    /// Puts what the fleet has into the store, if it answers what is asked.
    async fn take(&self, taken: &Taken) -> bool {
        let Some(page) = taken.page() else { return false };
        if page.meta.kind != Kind::Page || !sound(&page, self.worker.clock.now()) {
            self.remote.counters().foreign.one();
            return false;
        }
        if self.purged_here(taken, &page) {
            self.remote.counters().purged.one();
            let keys = std::slice::from_ref(&self.keep.primary);
            self.remote.shared().purge_behind(keys);
            return false;
        }
        if !self.useful(&page.meta) {
            self.remote.counters().stale.one();
            return false;
        }
        let body = taken.body(&page);
        self.put(&page, page.meta, &|at| &body[at as usize..]).await
    }

    /// It was purged since it was received, and lives on in the fleet: another Larder sent it late, or a server was away.
    fn purged_here(&self, taken: &Taken, page: &PageView<'_>) -> bool {
        let tags: Vec<Vec<u8>> = page.tags.map(|tag| site_tag(&self.keep.site, tag)).collect();
        let record = Record { primary: &self.keep.primary, page, tags: &tags, knows: &taken.knows };
        self.remote.shared().purged.covers(record)
    }

    /// Fresh for a while yet, and newer than what is held; or stale within the window in which it may be served at once.
    fn useful(&self, meta: &Meta) -> bool {
        let now = self.worker.clock.now();
        let ttl = i64::from(meta.freshness) - i64::from(current_age(meta, now));
        let least = self.remote.settings().min_freshness.as_secs().max(1);
        match &self.keep.held {
            _ if meta.flags.any(PageFlags::NO_CACHE) => false,
            Some(held) => ttl >= least as i64 && newer(meta, held),
            None if ttl > 0 => ttl >= least as i64,
            None => -ttl < i64::from(meta.swr) && !meta.flags.any(PageFlags::NO_STALE),
        }
    }

    /// The copy that is held, if it is fresh by its own times and was not purged here.
    fn held_copy(&self) -> Option<&Held> {
        let held = self.keep.held.as_ref()?;
        let fresh =
            i64::from(held.meta.freshness) > i64::from(current_age(&held.meta, self.worker.clock.now()));
        (held.meta.flags.any(PageFlags::COPY) && !soft_purged(held) && fresh).then_some(held)
    }

    /// The fleet does not answer: the copy that is held is used on.
    async fn prolong(&self) -> bool {
        let Some(held) = self.held_copy() else { return false };
        let Ok(page) = view(held.entry.head(), held.entry.len(), Verify::Layout) else { return false };
        let start = page.body_at as u64;
        self.put(&page, page.meta, &|at| held.entry.chunk_at(start + at)).await
    }

    /// Puts a copy of a page into the store. `body` gives the bytes of the body from a position on, as many as lie together.
    async fn put<'b>(&self, page: &PageView<'_>, meta: Meta, body: &dyn Fn(u64) -> &'b [u8]) -> bool {
        let now = self.worker.clock.now();
        if page.body_len > self.keep.policy.max_object {
            return false;
        }
        let over = now + self.remote.settings().local_copy.as_millis() as Ms;
        let meta = Meta { flags: meta.flags.with(PageFlags::COPY), soft_purged_at: over, ..meta };
        let vary: Vec<(&str, Option<&[u8]>)> = page.vary.collect();
        let tags: Vec<&[u8]> = page.tags.collect();
        let parts = Parts {
            etag: page.etag.unwrap_or_default(),
            vary: &vary,
            tags: &tags,
            key: page.key,
            withheld: page.withheld,
            head: page.head,
        };
        let Ok(head) = encode_head(&meta, &parts) else { return false };
        let useful = stow::useful_for(&meta, &self.keep.policy.cache, page.etag.is_some());
        let expires = meta.response_time + 1000 * useful;
        let site_tags: Vec<Box<[u8]>> =
            tags.iter().map(|tag| site_tag(&self.keep.site, tag).into()).collect();
        self.worker.shared.flights.set_tags(&self.lead.flight, site_tags.clone());
        let written = self.write(&head, page, &site_tags, body, expires).await;
        if written.is_none() {
            self.worker.counters.store_refused.one();
        }
        written.is_some()
    }

    async fn write<'b>(
        &self,
        head: &[u8],
        page: &PageView<'_>,
        tags: &[Box<[u8]>],
        body: &dyn Fn(u64) -> &'b [u8],
        expires: Ms,
    ) -> Option<()> {
        let (store, clock) = (self.worker.store, self.worker.clock);
        let length = head.len() as u64 + page.body_len + larder_proto::page::TRAILER_LEN as u64;
        let options =
            FillOptions { flags: 0, expires: None, size_hint: Some(length), contiguous: head.len() };
        let mut fill = store.fill(PAGES, page.key, options, clock.now()).ok()?;
        fill.write(head).ok()?;
        fill.set_tags(&tags.iter().map(|tag| &**tag).collect::<Vec<_>>());
        let mut trailer = Trailer::new(head);
        let mut at = 0;
        while at < page.body_len {
            let chunk = body(at);
            let take = (chunk.len() as u64).min(page.body_len - at).min(COPY_STEP as u64) as usize;
            if take == 0 {
                return None;
            }
            fill.write(&chunk[..take]).ok()?;
            trailer.update(&chunk[..take]);
            at += take as u64;
            if at < page.body_len {
                tokio::task::yield_now().await;
            }
        }
        fill.write(&trailer.finish()).ok()?;
        if self.lead.flight.purged() == Purged::Gone {
            return Some(());
        }
        let version = fill.commit(Some(expires), clock.now()).ok()?;
        // As in `stow`: either this sees the purge, or the purge sees the page.
        match self.lead.flight.purged() {
            Purged::No => {}
            Purged::Softly => {
                store.mark_stale(PAGES, page.key, clock.now());
            }
            Purged::Gone => {
                store.delete_if(PAGES, page.key, version);
            }
        }
        Some(())
    }
}

/// Whether a record says more than what is held. The very same record does where that is a copy: it was not purged.
fn newer(meta: &Meta, held: &Held) -> bool {
    if soft_purged(held) {
        return false;
    }
    // What a clock was seen to be behind by, and with it a record's time, may change.
    let slack = if held.meta.flags.any(PageFlags::COPY) { 1000 } else { 0 };
    meta.response_time + slack > held.meta.response_time
}

/// Whether what is held was softly purged here, be it by its marker.
fn soft_purged(held: &Held) -> bool {
    let own = view(held.entry.head(), held.entry.len(), Verify::Layout).map(|page| page.meta.soft_purged_at);
    held.entry.stale() || own != Ok(held.meta.soft_purged_at)
}

/// A page was stored by this Larder: others may have it. A variant cannot be found without its marker.
pub(super) fn share(job: &Job, key: &[u8], version: u64) {
    let (Some(remote), Some(keep)) = (&job.worker.remote, &job.keep) else { return };
    if !keep.shared {
        return;
    }
    if key != keep.primary {
        remote.writer().marker(&keep.primary);
    }
    remote.writer().page(key, version, job.lease.take());
}
