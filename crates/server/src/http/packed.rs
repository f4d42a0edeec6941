//! The answer from a page that is kept in one coding alone: as it is stored for clients that take
//! that coding; for others, and for ranges, made anew for each.
//!
//! A short page is made at once; a longer one beside the worker, a few at a time.

use std::{io::IoSlice, sync::Arc};

use bytes::Bytes;
use larder_proto::{
    http::{Codings, range::ByteRange},
    page::{Encoding, Meta, PageFlags, PageView},
    rules::compress::{form_tag, name},
};
use tokio::{
    sync::Semaphore,
    task::{spawn_blocking, spawn_local},
};

use super::{
    deliver::{self, Body, Delivered},
    dictionary,
    exchange::Exchange,
    log::finish,
    refuse,
    served::Served,
};
use crate::{
    access_log::ResultCode,
    net::{out::Out, socket::Ended},
    page::{
        coding::{self, Effort, Undecoded},
        forms,
        lookup::{PAGES, StoredPage},
        packed,
    },
    request::route::Refusal,
    room::{Counted, Room},
    settings::RulePolicy,
    wire::Wire,
};

/// Longest content that is made at once, in bytes: 88 KB take 0.1 ms to decode, and 0.4 to code.
const AT_ONCE: u64 = 128 << 10;
/// Longer answers that are made at the same time, for all clients.
static MADE: Semaphore = Semaphore::const_new(4);

const DAMAGED: Refusal = Refusal(502, "what is stored of this page cannot be read");
const CROWDED: Refusal = Refusal(503, "too many requests are waiting");

/// Answers at once, unless the page is long and has to be made. Gives the page back then.
#[allow(clippy::result_large_err)]
pub(super) fn hit(
    exchange: &Exchange<'_, '_>,
    out: &mut Out,
    held: StoredPage,
    served: &Served,
    policy: &Arc<RulePolicy>,
) -> Result<Delivered, StoredPage> {
    let Some(page) = packed::viewed(&held.entry) else { return Err(held) };
    let accepted = accepted(exchange);
    if accepted.takes_dictionary()
        && exchange.request.head.known.range().is_none()
        && let Some((entry, meta)) = dictionary::form(exchange, &held, &page, policy, accepted)
    {
        return deliver::compose(exchange, out, StoredPage { entry, meta }, served).or(Err(held));
    }
    let sent = chosen(exchange, &held.meta, policy);
    if sent == held.meta.encoding {
        improve(exchange, &held.meta, &page, policy);
        return as_stored(exchange, out, &held, &page, served).ok_or(held);
    }
    let (mark, before) = (out.mark(), out.pending());
    let short = page.content_len() <= AT_ONCE;
    let made = match sent {
        // Its length is known; a HEAD or a 304 needs no more.
        Encoding::Identity => None,
        _ if short => content(&held, &page).and_then(|content| coded(sent, content)),
        _ => return Err(held),
    };
    let length = made.as_ref().map_or(page.content_len(), |made| made.len() as u64);
    let composed = head(exchange, out, (&page, &held.meta), served, (sent, length));
    let Some((mut delivered, body)) = composed else { return Err(held) };
    if !matches!(body, Body::None) {
        let made = made.or_else(|| short.then(|| content(&held, &page)).flatten());
        let Some(made) = made else {
            out.truncate(mark);
            return Err(held);
        };
        match body {
            Body::None => {}
            Body::One(range) => {
                out.scratch().extend_from_slice(&made[range.first as usize..=range.last as usize]);
            }
            Body::Many(parts, end) => append(out, parts, &end, &made),
        }
    }
    let bytes = out.pending() - before;
    delivered.body_bytes = bytes - delivered.bytes;
    delivered.bytes = bytes;
    Ok(delivered)
}

/// The content of a short page.
fn content(held: &StoredPage, page: &PageView<'_>) -> Option<Bytes> {
    let body = forms::copied(&held.entry, page.body_at as u64, page.body_len);
    packed::unpacked(page, &body).ok()
}

/// Answers with a longer page that has to be made. True: the connection goes on.
pub(super) async fn serve(
    wire: Wire<'_>,
    out: &mut Out,
    exchange: &Exchange<'_, '_>,
    policy: &RulePolicy,
    (held, served): (&StoredPage, &Served),
) -> Result<bool, Ended> {
    let Some(page) = packed::viewed(&held.entry) else {
        return Ok(refuse::refusal(exchange, out, &DAMAGED));
    };
    let sent = chosen(exchange, &held.meta, policy);
    let made = tokio::select! {
        biased;
        made = make(exchange, held, &page, sent) => made,
        () = wire.gone() => return Err(Ended::Closed),
    };
    let made = match made {
        Ok(made) => made,
        Err(Undecoded::Crowded) => return Ok(refuse::refusal(exchange, out, &CROWDED)),
        Err(Undecoded::Damaged | Undecoded::TooLong) => {
            let (store, entry) = (exchange.request.pages.store, &held.entry);
            store.delete_if(PAGES, entry.key(), entry.version());
            return Ok(refuse::refusal(exchange, out, &DAMAGED));
        }
    };
    let length = made.len() as u64;
    let composed = head(exchange, out, (&page, &held.meta), served, (sent, length));
    let Some((mut delivered, body)) = composed else {
        return Ok(refuse::refusal(exchange, out, &DAMAGED));
    };
    exchange.started.set(true);
    delivered.body_bytes = match body {
        Body::None => 0,
        Body::One(range) => {
            let bytes = &made[range.first as usize..=range.last as usize];
            if let Err(ended) = exchange.send_with(wire, out, &[IoSlice::new(bytes)], &|| 0).await {
                (delivered.result, delivered.keep) = (ResultCode::TcpMissAborted, false);
                finish(exchange, &delivered);
                return Err(ended);
            }
            bytes.len() as u64
        }
        Body::Many(parts, end) => {
            let before = out.pending();
            append(out, parts, &end, &made);
            out.pending() - before
        }
    };
    delivered.bytes += delivered.body_bytes;
    Ok(finish(exchange, &delivered))
}

/// The codings that a client takes.
fn accepted(exchange: &Exchange<'_, '_>) -> Codings {
    Codings::parse(exchange.request.head.fields.all("accept-encoding"))
}

/// The coding in which this client gets a page: the stored one if it takes that, else the first of
/// the site's that it takes. Ranges are of the content.
fn chosen(exchange: &Exchange<'_, '_>, meta: &Meta, policy: &RulePolicy) -> Encoding {
    let head = exchange.request.head;
    if head.known.range().is_some() {
        return Encoding::Identity;
    }
    let accepted = accepted(exchange);
    let takes = |coding: &Codings| accepted.contains(*coding);
    if forms::codings(meta.encoding).as_ref().is_some_and(takes) {
        return meta.encoding;
    }
    let first = policy.cache.compress.iter().find(|coding| takes(coding));
    first.and_then(|coding| forms::encoding(*coding)).unwrap_or(Encoding::Identity)
}

/// A page in demand that could be smaller is compressed harder.
fn improve(exchange: &Exchange<'_, '_>, meta: &Meta, page: &PageView<'_>, policy: &RulePolicy) {
    let pages = exchange.request.pages;
    let order = &policy.cache.compress;
    if meta.flags.any(PageFlags::COMPRESSIBLE) && !order.is_empty() && pages.samples_form() {
        let goal = packed::goal(order);
        pages.shared.compressor.want(pages.store, pages.clock, page.key, goal, Effort::Best);
    }
}

/// The page in its coding: a hit like any.
fn as_stored(
    exchange: &Exchange<'_, '_>,
    out: &mut Out,
    held: &StoredPage,
    page: &PageView<'_>,
    served: &Served,
) -> Option<Delivered> {
    let coding = name(held.meta.encoding)?;
    let etag = page.etag.map(|etag| form_tag(etag, coding));
    let lines = forms::lines(page.head, coding, etag.as_deref(), Some(page.body_len));
    let flags = held.meta.flags.with(PageFlags::HAS_LENGTH);
    let form = PageView { head: &lines, etag: etag.as_deref(), ..*page };
    let meta = Meta { flags, ..held.meta };
    let before = out.pending();
    let (mut delivered, body) =
        deliver::headed(exchange, out, &form, &meta, served, exchange.keep())?;
    deliver::send_body(exchange, out, held.entry.clone(), body, (page.body_at as u64, 0));
    let bytes = out.pending() - before;
    delivered.body_bytes = bytes - delivered.bytes;
    delivered.bytes = bytes;
    Some(delivered)
}

/// The head of an answer with a body of this length, and which part of it follows.
fn head(
    exchange: &Exchange<'_, '_>,
    out: &mut Out,
    (page, meta): (&PageView<'_>, &Meta),
    served: &Served,
    (sent, length): (Encoding, u64),
) -> Option<(Delivered, Body)> {
    let keep = exchange.keep();
    let Some(coding) = name(sent) else {
        let page = PageView { body_len: length, ..*page };
        return deliver::headed(exchange, out, &page, meta, served, keep);
    };
    let etag = page.etag.map(|etag| form_tag(etag, coding));
    let lines = forms::lines(page.head, coding, etag.as_deref(), Some(length));
    let form = PageView { head: &lines, etag: etag.as_deref(), body_len: length, ..*page };
    let meta = Meta { flags: meta.flags.with(PageFlags::HAS_LENGTH), ..*meta };
    deliver::headed(exchange, out, &form, &meta, served, keep)
}

/// Appends several ranges.
fn append(out: &mut Out, parts: Vec<(Vec<u8>, ByteRange)>, end: &[u8], made: &[u8]) {
    for (before, range) in parts {
        out.scratch().extend_from_slice(&before);
        out.scratch().extend_from_slice(&made[range.first as usize..=range.last as usize]);
    }
    out.scratch().extend_from_slice(end);
}

/// Content in the coding that is sent.
fn coded(sent: Encoding, content: Bytes) -> Option<Bytes> {
    match sent {
        Encoding::Identity => Some(content),
        sent => coding::coded(sent, Effort::Fast, &content).ok().map(Bytes::from),
    }
}

/// The same of a longer page, beside the worker. Its memory counts as that of clients.
async fn make(
    exchange: &Exchange<'_, '_>,
    held: &StoredPage,
    page: &PageView<'_>,
    sent: Encoding,
) -> Result<Bytes, Undecoded> {
    let place = MADE.acquire().await.map_err(|_| Undecoded::Crowded)?;
    let body = Bytes::from(forms::copied(&held.entry, page.body_at as u64, page.body_len));
    let room = exchange.request.pages.shared.room.clone();
    let (from, length) = (page.meta.encoding, page.content_len());
    // A client that leaves does not end the work, which has its place until then.
    let task = spawn_local(async move {
        let _place = place;
        recoded(&room, (from, body), length, sent).await
    });
    task.await.unwrap_or(Err(Undecoded::Crowded))
}

/// A body of a content of this length, in another coding.
async fn recoded(
    room: &Arc<Room>,
    (from, body): (Encoding, Bytes),
    length: u64,
    sent: Encoding,
) -> Result<Bytes, Undecoded> {
    let mut copied = Counted::new(room);
    if !copied.extend(&body).await {
        return Err(Undecoded::Crowded);
    }
    let content = coding::decoded(room, from, copied.into_bytes(), length).await?;
    if content.len() as u64 != length {
        return Err(Undecoded::Damaged);
    }
    if sent == Encoding::Identity {
        return Ok(content);
    }
    let coded = spawn_blocking(move || coded(sent, content)).await.ok().flatten();
    let mut counted = Counted::new(room);
    let taken = counted.extend(&coded.ok_or(Undecoded::Crowded)?).await;
    if taken { Ok(counted.into_bytes()) } else { Err(Undecoded::Crowded) }
}
