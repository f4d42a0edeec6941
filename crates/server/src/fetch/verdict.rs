//! The use of an answer: to be stored, to confirm or to complete what is stored, or for its client
//! alone.

use larder_proto::{
    http::RequestHead,
    page::{PageFlags, Verify, view},
    rules::{
        ErrorCause, Lifetime, NoStore, RequestView, ResponseFacts, Storable, Unframed,
        stale_on_error, storable,
        update::{Freshened, NotFreshened, freshen},
    },
};

use crate::{
    fetch::{
        complete,
        job::{Keep, Purpose, Unstored, request_view},
    },
    origin::Body,
    page::lookup::StoredPage,
};

/// Use of an answer.
pub(super) enum Verdict {
    /// Pass it on to the one client it is for.
    PassOn(Option<Unstored>),
    /// It answers a question that was not asked: a 304 without condition, a 206 without range.
    Unasked,
    /// Store it and let everybody follow.
    Store(Lifetime),
    /// The stored page is good again, under a new head.
    Refresh(Box<Freshened>),
    /// The stored page is good as it is.
    Confirmed,
    /// The stored page is not what the origin spoke of: forget it and ask again.
    Forget,
    /// Serve the stored page instead of the origin's error.
    UseStale(u16),
}

/// Judges an answer.
pub(super) fn judge(
    keep: &Keep,
    head: &RequestHead<'_>,
    facts: &ResponseFacts<'_>,
    body: &Body,
) -> Verdict {
    let (request, now) = (request_view(head), facts.response_time);
    let policy = &keep.policy.cache;
    if let Some(held) = &keep.held {
        let cause = ErrorCause::Status(facts.status);
        if facts.status >= 500 && stale_on_error(&held.meta, policy, &request, now, cause) {
            return Verdict::UseStale(facts.status);
        }
        if keep.purpose == Purpose::Validate && facts.status == 304 {
            return confirm(keep, held, &request, facts);
        }
    }
    if keep.purpose == Purpose::Complete && matches!(facts.status, 206 | 304 | 416) {
        return complete(keep, &request, facts, body.declared_length());
    }
    if facts.status == 304 || (!keep.ranged && matches!(facts.status, 206 | 416)) {
        return Verdict::Unasked;
    }
    // The range asked for is in no key: only an answer that says which part it is, or is the whole,
    // is for others.
    if !keep.store || (keep.ranged && !matches!(facts.status, 200 | 206)) {
        return Verdict::PassOn(None);
    }
    match storable(&request, facts, policy) {
        Storable::Yes(lifetime) if keep.cookies && lifetime.flags.any(PageFlags::COOKIELESS) => {
            Verdict::PassOn(Some(Unstored { detail: "cookie", mark: false }))
        }
        Storable::Yes(lifetime) if body.close_delimited() && lifetime.partial.is_none() => {
            unframed(lifetime, policy.unframed)
        }
        Storable::Yes(lifetime) => Verdict::Store(lifetime),
        Storable::No(why) => Verdict::PassOn(Some(unstored(why))),
    }
}

/// A response that ends with its connection: nobody can know that it is whole. (A part is as long
/// as it says.)
fn unframed(lifetime: Lifetime, choice: Unframed) -> Verdict {
    match choice {
        Unframed::Keep => Verdict::Store(lifetime),
        Unframed::Brief => Verdict::Store(lifetime.briefly(Unframed::BRIEF)),
        Unframed::Pass => Verdict::PassOn(Some(Unstored { detail: "unframed", mark: true })),
    }
}

/// A 206 that makes the stored part whole is judged as the 200 it becomes. Anything else about the
/// part asked for is of no use to a client that asked for the whole: the part is forgotten, and the
/// whole is fetched.
fn complete(
    keep: &Keep,
    request: &RequestView<'_>,
    facts: &ResponseFacts<'_>,
    declared: Option<u64>,
) -> Verdict {
    if facts.status != 206 || !complete::completes(keep, facts, declared) {
        return Verdict::Forget;
    }
    match storable(request, &ResponseFacts { status: 200, ..*facts }, &keep.policy.cache) {
        Storable::Yes(lifetime) => Verdict::Store(lifetime),
        Storable::No(_) => Verdict::Forget,
    }
}

fn unstored(why: NoStore) -> Unstored {
    let request = matches!(
        why,
        NoStore::Method
            | NoStore::RequestNoStore
            | NoStore::Authorization
            | NoStore::CodingNotAccepted
    );
    Unstored { detail: why.as_str(), mark: !request }
}

/// A 304 (RFC 9111 section 4.3.4). [`Verdict::Forget`]: it does not speak of the stored page.
fn confirm(
    keep: &Keep,
    held: &StoredPage,
    request: &RequestView<'_>,
    facts: &ResponseFacts<'_>,
) -> Verdict {
    let Ok(page) = view(held.entry.head(), held.entry.len(), Verify::Layout) else {
        return Verdict::Forget;
    };
    match freshen(&page, request, facts, &keep.policy.cache) {
        // The same page for a visitor with cookies; those without are not told by it.
        Ok(fresh) if keep.cookies && fresh.meta.flags.any(PageFlags::COOKIELESS) => {
            Verdict::Confirmed
        }
        Ok(fresh) => Verdict::Refresh(Box::new(fresh)),
        // This request may not change what is stored; the page is good all the same.
        Err(NotFreshened::NotStorable(NoStore::Authorization | NoStore::RequestNoStore)) => {
            Verdict::Confirmed
        }
        Err(_) => Verdict::Forget,
    }
}
