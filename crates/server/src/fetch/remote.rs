//! Asking the fleet (the remote tier) before the origin.
//!
//! The fleet's page is put into the own store as a *copy*, and everybody looks there again. A copy
//! is the page as it was sent: its age goes on. It is used for `remote.local_copy`; then the fleet
//! is asked again, as the page may have been purged there. If the fleet does not answer, a copy
//! that is fresh by its own times is used on for as long again.
//!
//! ```text
//! miss, or stale -> fleet --has it--> copy into the store -> everybody looks again
//!                     |----has none--------------------------> origin
//!                     |----fails---> a fresh copy held? -----> use it on
//!                     |                        none? --------> origin
//!                     |----says nothing within the budget: as above, but the first usable answer wins
//! ```

use std::{cell::Cell, pin::pin, rc::Rc};

use larder_proto::{
    http::key,
    page::{Kind, Meta, PageFlags, PageView, Verify, view},
    rules::current_age,
};
use larder_store::{Entry, If, PutError};
use tokio::time::timeout;

use crate::{
    clock::Ms,
    fetch::{
        FetchResult,
        job::{self, Client, Job, Keep, Sent},
        store,
    },
    origin::{self, Interim},
    page::{
        flight::{Again, Landing, Lead},
        foreign::sound,
        lookup::{PAGES, StoredPage},
        spelling::{self, Rules},
        tags::site_tag,
        variant::{self, Marker},
        writer::PageDraft,
    },
    remote::{Answer, Lease, LeaseResult, Record, Remote, Taken},
    request::pages::Pages,
};

/// Variants asked for at once: the best for the request first.
const VARIANTS: usize = 8;

/// Result of the remote lookup.
enum RemoteLookup {
    /// The store has a usable page now.
    Usable(Again),
    /// The fleet has none.
    Nothing,
    /// The fleet did not answer.
    Failed,
}

/// Asks the fleet where that is of use, and the origin where the fleet has nothing or takes too
/// long. None: everybody was told to look into the store again, or nobody wants an answer any more.
pub(crate) async fn first(
    job: &mut Job,
    request: origin::Request,
    interim: Option<Interim>,
) -> Option<Sent> {
    let Job { pages, upstream, lead, client, keep, .. } = job;
    if pages.remote.is_some() && keep.as_ref().is_some_and(|keep| keep.ask_fleet) {
        return Box::pin(of_fleet(job, request, interim)).await;
    }
    pin!(job::send(pages, upstream, lead, client.as_mut(), request, interim)).await
}

/// [`first`] of a page for which there is a fleet to ask.
async fn of_fleet(
    job: &mut Job,
    request: origin::Request,
    interim: Option<Interim>,
) -> Option<Sent> {
    let Job { pages, upstream, lead, client, keep, lease, .. } = job;
    let (Some(remote), Some(keep)) = (&pages.remote, keep.as_ref()) else { return None };
    let lookup = Lookup { pages, remote, keep, lead, respelled: Cell::new(false) };
    let counters = lookup.remote.counters();
    counters.lookups.one();
    let again = 'usable: {
        let mut looking = pin!(lookup.look());
        let answer = match timeout(lookup.remote.settings().budget, looking.as_mut()).await {
            Ok(answer) => answer,
            // A copy that is held and fresh needs neither the fleet nor the origin.
            Err(_) if lookup.held_copy().is_some() => Answer::Failed,
            Err(_) => {
                let mut sending =
                    pin!(job::send(pages, upstream, lead, client.as_mut(), request, interim));
                let answer = tokio::select! {
                    biased;
                    answer = &mut looking => answer,
                    sent = &mut sending => {
                        counters.late.one();
                        return sent;
                    }
                };
                match lookup.settle(answer).await {
                    RemoteLookup::Usable(again) => break 'usable again,
                    RemoteLookup::Nothing | RemoteLookup::Failed => return sending.await,
                }
            }
        };
        let failed = match lookup.settle(answer).await {
            RemoteLookup::Usable(again) => break 'usable again,
            RemoteLookup::Failed => true,
            RemoteLookup::Nothing => false,
        };
        // The origin was not asked yet: other Larders may be asking it.
        let Some(turn) = while_wanted(pages, lead, client.as_mut(), lookup.turn(failed)).await
        else {
            counters.waits_left.one();
            return None;
        };
        match turn {
            Ok(again) => again,
            Err(held) => {
                *lease.borrow_mut() = held;
                return job::send(pages, upstream, lead, client.as_mut(), request, interim).await;
            }
        }
    };
    lead.flight.land(Landing::LookAgain(Again::Changed));
    job.tell(FetchResult::LookAgain(again));
    None
}

/// Waits for others as long as somebody waits for us: None, when the client has left and nobody
/// else wants an answer.
async fn while_wanted<T>(
    pages: &Pages,
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
        if pages.shared.flights.abandon(&lead.flight) {
            return None;
        }
    }
    Some(waiting.await)
}

/// One fetch, as far as the fleet is concerned.
struct Lookup<'j> {
    pages: &'j Rc<Pages>,
    remote: &'j Rc<Remote>,
    keep: &'j Keep,
    lead: &'j Lead,
    /// The page is to be looked for under another spelling.
    respelled: Cell<bool>,
}

impl Lookup<'_> {
    /// Uses what the fleet said. The record is released then: a large one has memory that others
    /// wait for.
    async fn settle(&self, found: Answer) -> RemoteLookup {
        let counters = self.remote.counters();
        match found {
            Answer::Record(taken) if self.take(&taken).await => {
                counters.hits.one();
                RemoteLookup::Usable(Again::Remote)
            }
            Answer::Nothing if self.respelled.take() => RemoteLookup::Usable(Again::Changed),
            Answer::Failed if self.prolong().await => {
                counters.prolonged.one();
                RemoteLookup::Usable(Again::Changed)
            }
            Answer::Failed => {
                counters.failed.one();
                RemoteLookup::Failed
            }
            Answer::Record(_) | Answer::Nothing => {
                counters.misses.one();
                RemoteLookup::Nothing
            }
        }
    }

    /// Lets one Larder ask the origin, and the others wait for what it brings. `failed`: the fleet
    /// did not answer. An error: the origin is to be asked, under this lease where there is one.
    async fn turn(&self, failed: bool) -> Result<Again, Option<Lease>> {
        // Others wait for the page: it has to go where they look.
        if failed || !self.keep.shared || !self.keep.mark {
            return Err(None);
        }
        match self.remote.turn(self.keep.key(), || self.look_for_use()).await {
            LeaseResult::Origin(lease) => Err(lease),
            LeaseResult::Shared(Answer::Record(taken)) if self.take(&taken).await => {
                self.remote.counters().hits.one();
                Ok(Again::Remote)
            }
            LeaseResult::Shared(_) => Err(None),
        }
    }

    /// As [`Lookup::look`]; waiters skip a page that they cannot use.
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
        let Answer::Record(taken) = &answer else {
            self.learn_rules().await;
            return answer;
        };
        let Some(page) = taken.page() else { return Answer::Nothing };
        if page.meta.kind != Kind::VaryMarker {
            return answer;
        }
        if !sound(&page, self.pages.clock.now()) {
            self.remote.counters().foreign.one();
            return Answer::Nothing;
        }
        self.adopt(&page);
        let keys = self.keep.with_request(|head| {
            let (mut keys, request) = (Vec::new(), job::request_view(head));
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
            keys if !keys.is_empty() => self.remote.first(&keys).await,
            _ => Answer::Nothing,
        }
    }

    /// Puts the rules of the page's path into memory, by which it is found under another spelling.
    async fn learn_rules(&self) {
        let (primary, now) = (&self.keep.primary, self.pages.clock.now());
        let unknown = || Rules::load(self.pages.store, primary, now).is_none();
        if !spelling::has_query(primary) || !unknown() {
            return;
        }
        let key = spelling::rules_key(primary);
        let Answer::Record(taken) = self.remote.get(&key).await else { return };
        let page = taken.page().filter(|page| sound(page, self.pages.clock.now()));
        let Some(rules) = page.and_then(|page| Rules::of(&page)) else { return };
        let respelled = rules.keys(primary).any(|canonical| canonical != *primary);
        if unknown() && self.pages.writer().put_rules(&key, &rules).is_ok() {
            self.respelled.set(respelled);
        }
    }

    /// The fleet's marker counts, so that all who share it name variants alike; what one's own
    /// knows besides is kept.
    fn adopt(&self, fleets: &PageView<'_>) {
        let (store, primary, now) = (self.pages.store, &self.keep.primary, self.pages.clock.now());
        let mut marker = Marker::of(fleets);
        let own = store.peek(PAGES, primary, now);
        let own =
            own.as_ref().and_then(|entry| view(entry.head(), entry.len(), Verify::Layout).ok());
        let own = own
            .filter(|page| page.meta.kind == Kind::VaryMarker && page.meta.nonce == marker.nonce);
        if let Some(page) = &own
            && !marker.add(&Marker::of(page))
        {
            return;
        }
        if self.pages.writer().marker(&self.lead.flight, primary, &marker).is_err() {
            self.pages.counters.store_refused.one();
        }
    }

    /// Puts what the fleet has into the store, if it answers what is asked.
    async fn take(&self, taken: &Taken) -> bool {
        let Some(page) = taken.page() else { return false };
        if page.meta.kind != Kind::Page || !sound(&page, self.pages.clock.now()) {
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
        self.put(&page, page.meta, |at| &body[at as usize..]).await
    }

    /// It was purged since it was received, and lives on in the fleet: another Larder sent it late,
    /// or a server was away.
    fn purged_here(&self, taken: &Taken, page: &PageView<'_>) -> bool {
        let tags: Vec<Vec<u8>> = page.tags.map(|tag| site_tag(&self.keep.site, tag)).collect();
        let record = Record { primary: &self.keep.primary, page, tags: &tags, knows: &taken.knows };
        self.remote.shared().purged.covers(record)
    }

    /// Fresh for a while yet, and newer than what is held; or stale within the window in which it
    /// may be served at once.
    fn useful(&self, meta: &Meta) -> bool {
        let now = self.pages.clock.now();
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
    fn held_copy(&self) -> Option<&StoredPage> {
        let held = self.keep.held.as_ref()?;
        let fresh = i64::from(held.meta.freshness)
            > i64::from(current_age(&held.meta, self.pages.clock.now()));
        (held.meta.flags.any(PageFlags::COPY) && !soft_purged(held) && fresh).then_some(held)
    }

    /// The fleet does not answer: the copy that is held is used on.
    async fn prolong(&self) -> bool {
        let Some(held) = self.held_copy() else { return false };
        let Ok(page) = view(held.entry.head(), held.entry.len(), Verify::Layout) else {
            return false;
        };
        let start = page.body_at as u64;
        self.put(&page, page.meta, |at| held.entry.chunk_at(start + at)).await
    }

    /// Puts a copy of a page into the store. `body` returns the bytes of the body from a position
    /// on, as many as lie together.
    async fn put<'b>(
        &self,
        page: &PageView<'_>,
        meta: Meta,
        body: impl Fn(u64) -> &'b [u8],
    ) -> bool {
        if page.body_len > self.keep.policy.max_object {
            return false;
        }
        let over = self.pages.clock.now() + self.remote.settings().local_copy.as_millis() as Ms;
        let meta = Meta { flags: meta.flags.with(PageFlags::COPY), soft_purged_at: over, ..meta };
        let useful = store::useful_for(&meta, &self.keep.policy.cache, page.etag.is_some());
        let expires = meta.response_time + 1000 * useful;
        let draft = PageDraft::copy_of(page, meta, &self.keep.site, expires);
        let written = self.write(&draft, page.body_len, body).await;
        if written.is_err_and(|why| !matches!(why, PutError::Exists | PutError::NotFound)) {
            self.pages.counters.store_refused.one();
        }
        written.is_ok()
    }

    async fn write<'b>(
        &self,
        draft: &PageDraft,
        length: u64,
        body: impl Fn(u64) -> &'b [u8],
    ) -> Result<(), PutError> {
        let writer = self.pages.writer();
        let mut fill = writer.begin(draft, &self.lead.flight)?;
        fill.copy(length, body).await?;
        fill.finish()?;
        let there = self.pages.store.peek(PAGES, &draft.key, self.pages.clock.now());
        let condition = match &there {
            None => If::Absent,
            Some(entry) if is_later(entry, &draft.meta) => return Err(PutError::Exists),
            Some(entry) => If::Version(entry.version()),
        };
        let committed = writer.commit(fill, &self.lead.flight, condition);
        self.pages.shared.replaced_on_disk(&draft.key);
        committed.map(|_| ())
    }
}

/// Whether memory has got a later page than this meanwhile, by a request that did not wait.
fn is_later(entry: &Entry<'_>, than: &Meta) -> bool {
    let Ok(PageView { meta, .. }) = view(entry.head(), entry.len(), Verify::Layout) else {
        return false;
    };
    meta.kind == Kind::Page && meta.response_time > than.response_time + lag(&meta)
}

/// The known lag of a server's clock, and with it a record's time, may change.
fn lag(meta: &Meta) -> Ms {
    if meta.flags.any(PageFlags::COPY) { 1000 } else { 0 }
}

/// Whether a record says more than what is held. The very same record does where that is a copy: it
/// was not purged.
fn newer(meta: &Meta, held: &StoredPage) -> bool {
    if soft_purged(held) {
        return false;
    }
    meta.response_time + lag(&held.meta) > held.meta.response_time
}

/// Whether what is held was softly purged here, be it by its marker.
fn soft_purged(held: &StoredPage) -> bool {
    let own = view(held.entry.head(), held.entry.len(), Verify::Layout)
        .map(|page| page.meta.soft_purged_at);
    held.entry.stale() || own != Ok(held.meta.soft_purged_at)
}

/// A page was stored by this Larder: others may have it. A variant cannot be found without its
/// marker, nor another spelling without its rule.
pub(crate) fn share(job: &Job, draft: &PageDraft, version: u64) {
    let (Some(remote), Some(keep)) = (&job.pages.remote, &job.keep) else { return };
    if !keep.shared {
        return;
    }
    let variant = key::parse_variant_key(&draft.key).map(|(primary, ..)| primary);
    if let Some(primary) = variant {
        remote.writer().marker(primary);
    }
    if spelling::rule_of(&draft.head).is_some() {
        remote.writer().marker(&spelling::rules_key(variant.unwrap_or(&draft.key)));
    }
    remote.writer().page(&draft.key, version, job.lease.take());
}
