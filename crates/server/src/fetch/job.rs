//! The task that asks the origin: judges what comes, stores what may be stored, and tells those who
//! wait.
//!
//! A client that leaves does not stop a fetch that others wait for. One that nobody waits for any
//! more ends, as long as the origin has not begun to answer; an answer that has begun goes into the
//! store. One that has to be read whole before anybody is told of it (markup, a coding to be
//! undone) has not begun until then.

use std::{cell::RefCell, net::IpAddr, pin::pin, rc::Rc, sync::Arc};

use larder_proto::{
    http::{
        Codings, Fields, OwnedHead, RequestHead, Version,
        framing::content_length as content_length_of,
    },
    page::{PageFlags, Verify, view},
    rules::{
        ErrorCause, Forward, HeadUpdate, RequestView, ResponseFacts, esi, head_update, strip,
        update::Freshened,
    },
};
use tokio::sync::oneshot;

use crate::{
    access_log::Hierarchy,
    fetch::{
        FetchResult, Reply, Source, disk, mend,
        peers::Upstream,
        slice, store, template, uncoded,
        verdict::{Verdict, judge},
    },
    origin::{self, Body, Interim, OriginError, Response},
    page::{
        answer::Answer,
        flight::{Again, Failure, Landing, Lead},
        head::{self, Spelled},
        lookup::{PAGES, StoredPage},
    },
    remote::Lease,
    request::pages::{Config, Pages},
    settings::{FieldEdit, RulePolicy, phrase},
};

/// The client a fetch is made for.
pub(crate) struct Client {
    pub(crate) reply: oneshot::Sender<FetchResult>,
    pub(crate) interim: Interim,
}

/// Purpose of a fetch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Fetch,
    /// A 304 makes the stored page fresh again.
    Validate,
    /// A 206 completes the stored part.
    Complete,
}

/// The facts by which an answer is judged and stored.
pub(crate) struct Keep {
    /// The request's head.
    pub(crate) head: Rc<OwnedHead>,
    pub(crate) policy: Arc<RulePolicy>,
    pub(crate) primary: Vec<u8>,
    /// The primary key by the spelling of the request, where the page is looked for under another.
    pub(crate) spelled: Option<Vec<u8>>,
    pub(crate) variant: Option<Vec<u8>>,
    pub(crate) held: Option<StoredPage>,
    pub(crate) purpose: Purpose,
    /// The site's name: tags are the site's own.
    pub(crate) site: String,
    /// The origin was sent the client's range.
    pub(crate) ranged: bool,
    /// The origin was sent the range of this slice.
    pub(crate) slice: Option<slice::Wanted>,
    /// The request has cookies that count: its answer is not stored with a lifetime that the site
    /// did not give.
    pub(crate) cookies: bool,
    /// The answer may be stored.
    pub(crate) store: bool,
    /// Others may be waiting: what is not for them is remembered, so that the next ones do not
    /// wait.
    pub(crate) mark: bool,
    /// The disk is asked before the origin, and the fleet after it.
    pub(crate) ask_disk: bool,
    pub(crate) ask_fleet: bool,
    /// The stored page is shared through the fleet.
    pub(crate) shared: bool,
}

impl Keep {
    pub(crate) fn key(&self) -> &[u8] {
        self.variant.as_deref().unwrap_or(&self.primary)
    }

    /// The primary key by the spelling of the request.
    pub(crate) fn asked(&self) -> &[u8] {
        self.spelled.as_deref().unwrap_or(&self.primary)
    }

    /// Calls `f` with the request.
    pub(crate) fn with_request<T>(&self, f: impl FnOnce(&RequestHead<'_>) -> T) -> T {
        f(&self.head.head(&self.head.lines()))
    }
}

pub(crate) fn request_view<'a>(head: &'a RequestHead<'a>) -> RequestView<'a> {
    RequestView { method: head.method, fields: head.fields, known: &head.known }
}

/// One fetch.
pub(crate) struct Job {
    pub(crate) pages: Rc<Pages>,
    pub(crate) config: Rc<Config>,
    pub(crate) upstream: Upstream,
    pub(crate) lead: Lead,
    pub(crate) client: Option<Client>,
    /// Address of the client that asked first.
    pub(crate) address: IpAddr,
    /// The codings that it reads.
    pub(crate) accepted: Codings,
    /// None: past the cache.
    pub(crate) keep: Option<Keep>,
    pub(crate) policy: Arc<RulePolicy>,
    /// The request is a HEAD.
    pub(crate) head: bool,
    /// It is for a part of a page (ESI).
    pub(crate) part: bool,
    /// Other Larders wait for this page.
    pub(crate) lease: RefCell<Option<Lease>>,
}

/// Why a response is not stored.
pub(crate) struct Unstored {
    /// For Cache-Status.
    pub(crate) detail: &'static str,
    /// It is the response's doing: the next ones need not wait for each other.
    pub(crate) mark: bool,
}

/// Asks the origin and sees the answer through. Steps that few fetches take are boxed: the task of
/// a fetch is allocated and moved as a whole.
pub(crate) async fn run(mut job: Job, request: origin::Request) {
    let asked_at = job.pages.clock.now();
    let interim = job.client.as_ref().map(|client| client.interim.clone());
    let Some(sent) = pin!(disk::first(&mut job, request, interim)).await else { return };
    let response = match sent {
        Ok(response) => response,
        Err(error) => {
            job.pages.counters.origin_failures.one();
            let failure = Arc::new(Failure::of(&error));
            job.lead.flight.land(Landing::Failed(failure.clone()));
            job.tell(FetchResult::Failed(failure));
            return;
        }
    };
    let now = job.pages.clock.now();
    let mut response = response;
    let mut spelled = spell(&job, &response);
    let mut client = job.client.take();
    let mut read = Ok(None);
    if uncoded::applies(&job, &response) || template::applies(&job, &response, &spelled) {
        let reading = Box::pin(async {
            uncoded::undo(&job, &mut response, &mut spelled).await?;
            template::collect(&job, &mut response, &mut spelled, now).await
        });
        match wanted(&job.pages, &job.lead, client.as_mut(), reading).await {
            Some(done) => read = done,
            None => return,
        }
    }
    job.client = client;
    let template = match read {
        Ok(template) => template,
        Err(why) => return job.fail(ErrorCause::Disconnected, why),
    };
    let headers = spelled.headers();
    let fields = Fields::new(&headers);
    let facts = ResponseFacts {
        status: response.status,
        fields,
        request_time: asked_at,
        response_time: now,
    };
    if response.body.close_delimited() {
        job.pages.counters.unframed.one();
    }
    if let Some(keep) = job.keep.as_ref().filter(|keep| keep.slice.is_some()) {
        let ranged = keep.with_request(|head| head.known.range().is_some());
        if facts.status == 206 || (facts.status == 416 && !ranged) {
            return Box::pin(slice::first(job, response, &facts)).await;
        }
        if facts.status == 416 && keep.with_request(|head| slice::asks_for_more(&head.fields)) {
            // The slice says nothing about what the client asked for.
            job.lead.flight.land(Landing::LookAgain(Again::Unsliced));
            return job.tell(FetchResult::LookAgain(Again::Unsliced));
        }
    }
    let verdict = match &job.keep {
        None => Verdict::PassOn(None),
        Some(keep) => keep.with_request(|head| judge(keep, head, &facts, &response.body)),
    };
    if ranged_template(&job, &facts) {
        job.lead.flight.land(Landing::LookAgain(Again::Whole));
        return job.tell(FetchResult::LookAgain(Again::Whole));
    }
    match (verdict, template) {
        (Verdict::Store(lifetime), Some(template)) => {
            return Box::pin(template::store(job, response, &facts, lifetime, template)).await;
        }
        (Verdict::PassOn(why), Some(template)) => {
            return Box::pin(template::pass_on(job, response, &facts, why, template)).await;
        }
        (verdict, _) => pin!(settle_by(job, response, &facts, verdict)).await,
    }
}

/// A part of a page that says that it is put together of parts: its markup may be cut.
fn ranged_template(job: &Job, facts: &ResponseFacts<'_>) -> bool {
    facts.status == 206
        && job.keep.is_some()
        && esi::applies(&ResponseFacts { status: 200, ..*facts }, &job.policy.cache)
}

async fn settle_by(mut job: Job, response: Response, facts: &ResponseFacts<'_>, verdict: Verdict) {
    match verdict {
        Verdict::PassOn(why) => pin!(pass_on(job, response, facts, why)).await,
        Verdict::Store(lifetime) => Box::pin(store::store(job, response, facts, lifetime)).await,
        Verdict::Refresh(fresh) => Box::pin(refresh(job, &fresh)).await,
        Verdict::Confirmed => {
            job.lead.flight.land(Landing::LookAgain(Again::Validated));
            job.tell(FetchResult::LookAgain(Again::Validated));
        }
        Verdict::Forget => forget(job),
        Verdict::Unasked => job
            .fail(ErrorCause::Disconnected, "the site behind this cache did not answer correctly"),
        Verdict::UseStale(status) => {
            job.fail(ErrorCause::Status(status), "the site behind this cache failed")
        }
    }
}

/// The origin's answer.
pub(crate) type Sent = Result<Response, OriginError>;

/// None: the client left, and nobody else wants the answer.
pub(crate) async fn send(
    pages: &Pages,
    upstream: &Upstream,
    lead: &Lead,
    client: Option<&mut Client>,
    request: origin::Request,
    interim: Option<Interim>,
) -> Option<Sent> {
    wanted(pages, lead, client, pin!(upstream.send(request, interim))).await
}

/// Does a part of a fetch before which nobody is told anything. None: the client left, and nobody
/// else waits.
async fn wanted<T>(
    pages: &Pages,
    lead: &Lead,
    client: Option<&mut Client>,
    mut work: impl Future<Output = T> + Unpin,
) -> Option<T> {
    if let Some(client) = client {
        // The client first: when it has left in the middle of its request, the rest of that comes
        // to an end, and the origin must not take it for the end of the request.
        tokio::select! {
            biased;
            () = client.reply.closed() => {}
            done = &mut work => return Some(done),
        }
        if pages.shared.flights.abandon(&lead.flight) {
            return None;
        }
    }
    Some(work.await)
}

impl Job {
    /// Tells everybody that the origin failed.
    fn fail(mut self, cause: ErrorCause, why: &'static str) {
        self.pages.counters.origin_failures.one();
        let failure = Arc::new(Failure::caused(cause, why));
        self.lead.flight.land(Landing::Failed(failure.clone()));
        self.tell(FetchResult::Failed(failure));
    }

    /// Tells the client, if it is still there.
    pub(crate) fn tell(&mut self, result: FetchResult) {
        if let Some(client) = self.client.take() {
            let _ = client.reply.send(result);
        }
    }

    /// The reply for the client that asked.
    pub(crate) fn reply(&self, answer: Arc<Answer>, source: Source, response: &Response) -> Reply {
        Reply {
            answer,
            source,
            why: Forward::Miss,
            collapsed: false,
            found: false,
            detail: None,
            hierarchy: response
                .peer
                .map_or(Hierarchy::None, |peer| self.upstream.hierarchy(peer.ip())),
            conditions: self.keep.as_ref().is_some_and(|keep| keep.purpose == Purpose::Fetch),
        }
    }
}

/// The origin's fields with our Via.
fn spell(job: &Job, response: &Response) -> Spelled {
    let mut spelled = Spelled::of(&response.headers);
    // The debug field of another Larder behind us is for its client, not for ours or the store.
    spelled.remove("larder-debug");
    mend::mend(&mut spelled, job.upstream.origin.settings(), &job.policy);
    edit(&mut spelled, &job.policy, response.status);
    if let Some(name) = &job.config.settings.http.via {
        let before = response.headers.get_all("via");
        let version = if response.http10 { Version::Http10 } else { Version::Http11 };
        let via = head::via(before.iter().map(|value| value.as_bytes()), version, name);
        spelled.remove("via");
        spelled.push("Via", via);
    }
    spelled
}

/// Changes the fields as the rules say. A 304 that does not have a field leaves that of the stored
/// page, to which it was added already.
fn edit(spelled: &mut Spelled, policy: &RulePolicy, status: u16) {
    let edits = policy.handling.as_ref().and_then(|handling| handling.response_fields.as_ref());
    for edit in edits.into_iter().flat_map(|edits| edits.iter()) {
        match edit {
            FieldEdit::Remove(name) => spelled.remove(name.as_str()),
            FieldEdit::Set(name, value) => {
                spelled.remove(name.as_str());
                spelled.push(&head::title_case(name.as_str()), value.as_bytes());
            }
            FieldEdit::Add(name, value) => {
                if status != 304 || spelled.has(name.as_str()) {
                    spelled.push(&head::title_case(name.as_str()), value.as_bytes());
                }
            }
        }
    }
}

/// The stored page is of no use: it is deleted, and everybody looks again.
pub(crate) fn forget(mut job: Job) {
    drop_held(&job);
    job.lead.flight.land(Landing::LookAgain(Again::Changed));
    job.tell(FetchResult::LookAgain(Again::Changed));
}

/// Takes the stored page away, unless it was replaced meanwhile.
pub(crate) fn drop_held(job: &Job) {
    if let Some(Keep { held: Some(held), .. }) = &job.keep {
        job.pages.store.delete_if(PAGES, held.entry.key(), held.entry.version());
        job.pages.shared.replaced_on_disk(held.entry.key());
    }
}

/// Writes the page anew under its new head.
async fn refresh(mut job: Job, fresh: &Freshened) {
    let stored = store::refreshed(&job, fresh).await;
    let validated = stored.is_some();
    if !validated {
        job.pages.counters.store_refused.one();
        drop_held(&job);
    }
    let again = if validated { Again::Validated } else { Again::Changed };
    job.lead.flight.land(Landing::LookAgain(again));
    job.tell(FetchResult::LookAgain(again));
}

/// A response for one client. Those who waited ask for themselves, and those who come next do not
/// wait.
pub(crate) async fn pass_on(
    mut job: Job,
    mut response: Response,
    facts: &ResponseFacts<'_>,
    why: Option<Unstored>,
) {
    settle(&job, facts, why.as_ref()).await;
    if let Some(why) = &why {
        job.pages.counters.not_stored.one(why.detail);
    }
    job.lead.flight.land(Landing::LookAgain(Again::Alone));
    let head = strip::forwarded_head(facts, &reason(&response), &job.policy.cache);
    let answer = Arc::new(Answer {
        status: response.status,
        head,
        length: if job.head {
            facts.fields.get("content-length").and_then(content_length_of)
        } else {
            response.body.declared_length()
        },
        meta: None,
        etag: None,
        vary: Vec::new(),
        spelling: None,
    });
    let source = match response.upgraded.take() {
        Some(upgraded) => {
            let protocol = facts.fields.get("upgrade").unwrap_or_default().to_vec();
            Source::Tunnel(upgraded, protocol)
        }
        None => Source::Alone(Box::new(std::mem::replace(&mut response.body, Body::empty()))),
    };
    let mut reply = job.reply(answer, source, &response);
    reply.detail = why.map(|why| why.detail);
    job.tell(FetchResult::Response(Box::new(reply)));
}

/// The reason phrase as the origin gave it.
pub(crate) fn reason(response: &Response) -> String {
    match &response.reason {
        Some(reason) => String::from_utf8_lossy(reason).into_owned(),
        None => phrase(response.status).to_owned(),
    }
}

/// Effect of a response that is not stored on the stored page.
pub(crate) async fn settle(job: &Job, facts: &ResponseFacts<'_>, why: Option<&Unstored>) {
    let Some(keep) = &job.keep else { return };
    if job.head {
        Box::pin(update_by_head(job, keep, facts)).await;
    } else if keep.mark
        && (keep.held.is_none() || replaces(facts.status))
        && facts.status < 500
        && why.is_some_and(|why| why.mark)
    {
        if job.pages.writer().hit_for_miss(keep.key()).is_err() {
            job.pages.counters.store_refused.one();
        }
        job.pages.shared.replaced_on_disk(keep.key());
    }
}

/// Whether an answer that is not stored says that the stored page is no more (RFC 9111 section
/// 4.3.3 allows it for every answer). Other errors may come from the request's own fields, which
/// one client chooses: they leave the page, and its stale copy, to everybody.
fn replaces(status: u16) -> bool {
    (200..400).contains(&status) || matches!(status, 404 | 410)
}

/// A HEAD's answer can freshen the stored page, or show that it is outdated (RFC 9111 section
/// 4.3.5).
async fn update_by_head(job: &Job, keep: &Keep, facts: &ResponseFacts<'_>) {
    let Some(held) = &keep.held else { return };
    if keep.cookies && held.meta.flags.any(PageFlags::COOKIELESS) {
        return;
    }
    let Ok(page) = view(held.entry.head(), held.entry.len(), Verify::Layout) else { return };
    let update = keep
        .with_request(|head| head_update(&page, &request_view(head), facts, &keep.policy.cache));
    match update {
        HeadUpdate::Update(fresh) => {
            store::refreshed(job, &fresh).await;
        }
        HeadUpdate::Invalidate => {
            job.pages.store.mark_stale(PAGES, held.entry.key(), facts.response_time);
            job.pages.shared.replaced_on_disk(held.entry.key());
        }
        HeadUpdate::Ignore => {}
    }
}
