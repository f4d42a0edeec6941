//! Compressed answers: which coding a client gets of a page that is put together, and the kept form
//! of one whose parts are all in memory.
//!
//! An answer for all is compressed once for the pieces that it is made of: its form lies among
//! those of pages, under the key of the page, and belongs to the hash of the pieces. An answer for
//! one client, or with parts still to come, is compressed as it is sent.

use larder_proto::{
    http::{CacheControl, Codings, Elements},
    page::Encoding,
    rules::compress::{LEAST_BODY, worth_compressing},
};
use tokio::{sync::Semaphore, task::spawn_blocking};

use super::{Budget, Page, Piece};
use crate::{
    http::exchange::Exchange,
    page::{
        coding::{self, Effort},
        forms::{self, LARGEST_BODY},
        head::field,
    },
    room::Counted,
    settings::RulePolicy,
};

/// Answers that are compressed at the same time to be kept, for all clients. The others are sent
/// as they are.
static MADE: Semaphore = Semaphore::const_new(2);

/// Whether clients get this page compressed, so that its answers vary on what they take.
pub(super) fn applies(page: &Page, policy: &RulePolicy) -> bool {
    !policy.cache.compress.is_empty()
        && page.with_head(|origin| {
            let control = field(origin.head, "cache-control");
            field(origin.head, "content-type")
                .is_some_and(|content_type| worth_compressing(content_type, LEAST_BODY))
                && !CacheControl::parse(control).no_transform
        })
}

/// Whether the head of a page says so already.
pub(super) fn is_said(head: &[u8]) -> bool {
    field(head, "vary").is_some_and(|value| {
        Elements::of(value).any(|name| name.eq_ignore_ascii_case(b"accept-encoding"))
    })
}

/// The coding that this client gets; None: the page as it is. Ranges are of that.
pub(super) fn offered(
    exchange: &Exchange<'_, '_>,
    page: &Page,
    policy: &RulePolicy,
) -> Option<Encoding> {
    let head = exchange.request.head;
    if policy.cache.compress.is_empty() || head.known.range().is_some() || !applies(page, policy) {
        return None;
    }
    let accepted = Codings::parse(head.fields.all("accept-encoding"));
    let first = policy.cache.compress.iter().find(|coding| accepted.contains(**coding));
    forms::encoding(*first?)
}

/// How an answer all of whose pieces are there is sent.
pub(super) enum Form {
    /// As it is.
    Plain,
    /// This, in the coding.
    Kept(Piece),
    /// The form is missing.
    Missing,
    /// Compressed as it is sent: it is for one client, or too long to be kept.
    Passing,
}

/// The form of an answer with these pieces.
pub(super) fn form(budget: &Budget, page: &Page, made: Made<'_>) -> Form {
    let (pages, length) = (&budget.pages, made.length());
    if length < LEAST_BODY {
        return Form::Plain;
    }
    if budget.private.get() || length > LARGEST_BODY {
        return Form::Passing;
    }
    let Some(key) = page.key() else { return Form::Passing };
    match forms::assembled(pages.store, key, made.encoding, made.hash, pages.clock.now()) {
        Some((_, from, to)) if from == to => Form::Plain,
        Some((entry, from, to)) => Form::Kept(Piece::Stored(entry, from, to)),
        None => Form::Missing,
    }
}

/// An answer all of whose pieces are there.
#[derive(Clone, Copy)]
pub(super) struct Made<'m> {
    pub(super) pieces: &'m [Piece],
    /// Of the pieces: see [`super::whole::hash`].
    pub(super) hash: u64,
    pub(super) encoding: Encoding,
}

impl Made<'_> {
    fn length(&self) -> u64 {
        self.pieces.iter().map(Piece::len).sum()
    }
}

/// Makes the form of an answer and keeps it. None: the answer is sent as it is.
pub(super) async fn keep(budget: &Budget, page: &Page, made: Made<'_>) -> Option<Piece> {
    let pages = &budget.pages;
    let _place = MADE.try_acquire().ok()?;
    let mut content = Counted::new(&pages.shared.room);
    for piece in made.pieces {
        let mut at = 0;
        while at < piece.len() {
            let chunk = piece.chunk_at(at);
            (!chunk.is_empty() && content.extend(chunk).await).then_some(())?;
            at += chunk.len() as u64;
        }
    }
    let (content, encoding) = (content.into_bytes(), made.encoding);
    let length = content.len();
    let coded = spawn_blocking(move || coding::coded(encoding, Effort::Good, &content));
    let mut coded = coded.await.ok()?.ok()?;
    if coded.len() >= length {
        // Remembered: it gains nothing.
        coded.clear();
    }
    let (key, expires) = (page.key()?, page.expires());
    let now = pages.clock.now();
    forms::keep_assembled(pages.store, key, (encoding, made.hash), &coded, expires, now);
    match form(budget, page, made) {
        Form::Kept(piece) => Some(piece),
        _ => None,
    }
}
