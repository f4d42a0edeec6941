//! The answer from a page in the store: whole, in part, or in no part at all.

use std::sync::Arc;

use larder_metrics::Outcome;
use larder_proto::{
    http::{
        Codings, Method, Version,
        multipart::Multipart,
        range::{ByteRange, ContentRange, RangeList, Satisfied, satisfy},
    },
    page::{Meta, PageFlags, PageView, Verify, view},
    rules::{Precondition, evaluate, range_applies, strip},
};

use larder_store::Entry;

use crate::access_log::{Hierarchy, ResultCode};
use crate::page::head::field;
use crate::{
    http::{
        dictionary, esi,
        exchange::Exchange,
        log::logged_status,
        packed,
        served::{Served, lines},
        slices,
    },
    net::out::Out,
    page::{
        answer::has_body,
        coding::Effort,
        compressor::Goal,
        forms::{self, FormLookup},
        lookup::StoredPage,
        packed::goal,
    },
    settings::RulePolicy,
    wire::h1::HeadWriter,
};

/// The sent answer, for counters and log.
pub(crate) struct Delivered {
    pub(crate) status: u16,
    /// Head included.
    pub(crate) bytes: u64,
    pub(crate) body_bytes: u64,
    pub(crate) keep: bool,
    pub(crate) result: ResultCode,
    pub(crate) hierarchy: Hierarchy,
    pub(crate) content_type: Option<Vec<u8>>,
    /// For the log; None when nothing is logged.
    pub(crate) cache_status: Option<Vec<u8>>,
}

impl Delivered {
    /// An answer of our own making.
    pub(crate) fn own(status: u16, bytes: u64) -> Self {
        Self {
            status,
            bytes,
            body_bytes: 0,
            keep: false,
            result: ResultCode::None,
            hierarchy: Hierarchy::None,
            content_type: Some(b"text/html".to_vec()),
            cache_status: None,
        }
    }

    /// The outcome that the request is counted as. `miss`: that of a miss.
    pub(crate) fn outcome(&self, miss: Option<Outcome>) -> Outcome {
        match self.result {
            ResultCode::TcpMemHit
            | ResultCode::TcpHit
            | ResultCode::TcpImsHit
            | ResultCode::TcpNegativeHit => Outcome::Hit,
            ResultCode::TcpStaleHit | ResultCode::TcpRefreshFailHit => Outcome::Stale,
            ResultCode::TcpRefreshUnmodified => Outcome::Refresh,
            ResultCode::TcpCfHit => Outcome::Coalesced,
            ResultCode::TcpTunnel => Outcome::Tunnel,
            ResultCode::TcpPurge => Outcome::Purge,
            ResultCode::TcpDenied => Outcome::Denied,
            ResultCode::None => Outcome::Refused,
            _ => miss.unwrap_or(Outcome::Miss),
        }
    }
}

/// The part of a page that a request gets.
pub(super) enum Part {
    Whole,
    One(ByteRange),
    Many(Box<RangeList>),
    Unsatisfiable,
    NotModified,
}

/// Composes the answer from a stored page. Gives the page back when what is stored of it, or of its
/// parts, is not enough.
// The page is moved, not made: a box would be an allocation on every hit.
#[allow(clippy::result_large_err)]
pub(crate) fn entry(
    exchange: &Exchange<'_, '_>,
    out: &mut Out,
    held: StoredPage,
    served: &Served,
    policy: &Arc<RulePolicy>,
) -> Result<Delivered, StoredPage> {
    if held.meta.flags.any(PageFlags::COMPOSED) {
        if held.meta.flags.any(PageFlags::ESI) {
            return esi::hit(exchange, out, held, served, policy);
        }
        if held.meta.flags.any(PageFlags::SLICED) {
            return slices::hit(exchange, out, held, served);
        }
        if held.meta.flags.any(PageFlags::PACKED) {
            return packed::hit(exchange, out, held, served, policy);
        }
        if let Some((entry, meta)) = form(exchange, &held, policy) {
            return compose(exchange, out, StoredPage { entry, meta }, served).or(Err(held));
        }
    }
    compose(exchange, out, held, served)
}

/// The compressed form of a page that this client gets, with the facts of the page; None: the page
/// itself. Asks for a form that is missing, or that is in demand. Ranges are of the page itself.
fn form(
    exchange: &Exchange<'_, '_>,
    held: &StoredPage,
    policy: &RulePolicy,
) -> Option<(Entry<'static>, Meta)> {
    let (request, order) = (&exchange.request, &policy.cache.compress);
    if order.is_empty() || request.head.known.range().is_some() {
        return None;
    }
    let page = view(held.entry.head(), held.entry.len(), Verify::Layout).ok()?;
    let accepted = Codings::parse(request.head.fields.all("accept-encoding"));
    if accepted.takes_dictionary() {
        let form = dictionary::form(exchange, held, &page, policy, accepted);
        if form.is_some() {
            return form;
        }
    }
    let (store, clock) = (request.pages.store, request.pages.clock);
    let now = clock.at(request.since);
    let want = |encoding, effort| {
        let goal = if policy.one_form { goal(order) } else { Goal::Form(encoding) };
        request.pages.shared.compressor.want(store, clock, page.key, goal, effort);
    };
    match forms::look(store, held, &page, order, accepted, now) {
        FormLookup::Ready(entry, encoding, effort, better) => {
            if let Some(better) = better {
                want(better, Effort::Good);
            } else if effort == Effort::Good && request.pages.samples_form() {
                want(encoding, Effort::Best);
            }
            Some((entry, forms::meta(&held.meta)))
        }
        FormLookup::Missing(encoding) => {
            want(encoding, Effort::Good);
            None
        }
        FormLookup::Plain => None,
    }
}

/// [`entry`] of what is sent: the page, or a form of it.
#[allow(clippy::result_large_err)]
pub(super) fn compose(
    exchange: &Exchange<'_, '_>,
    out: &mut Out,
    held: StoredPage,
    served: &Served,
) -> Result<Delivered, StoredPage> {
    let Ok(page) = view(held.entry.head(), held.entry.len(), Verify::Layout) else {
        return Err(held);
    };
    let Some(part) = part(exchange, &page, &held.meta) else { return Err(held) };
    let before = out.pending();
    let keep = exchange.keep();
    let head = HeadWriter(out.scratch());
    let spans = compose_page(exchange, head, &page, &held.meta, served, &part, keep);
    let status = spans.status;
    let content_type = exchange.worker.shows().then(|| content_type(page.head)).flatten();
    let (body_at, first) = (page.body_at as u64, held.meta.partial.map_or(0, |part| part.first));
    let head_bytes = out.pending() - before;
    if !exchange.request.is_head() {
        send_body(exchange, out, held.entry, spans.body, (body_at, first));
    }
    let bytes = out.pending() - before;
    Ok(Delivered {
        status,
        bytes,
        body_bytes: bytes - head_bytes,
        keep,
        result: served.result(status),
        hierarchy: Hierarchy::None,
        content_type,
        cache_status: logged_status(exchange, &served.meta().cache_status),
    })
}

/// Composes the head of an answer whose bytes are not those of the record; `page` has the facts of
/// the answer. Returns the part that follows it, or None: the stored part is not enough.
pub(super) fn headed(
    exchange: &Exchange<'_, '_>,
    out: &mut Out,
    page: &PageView<'_>,
    meta: &Meta,
    served: &Served,
    keep: bool,
) -> Option<(Delivered, Body)> {
    let part = part(exchange, page, meta)?;
    let before = out.pending();
    let writer = HeadWriter(out.scratch());
    let spans = compose_page(exchange, writer, page, meta, served, &part, keep);
    let delivered = Delivered {
        status: spans.status,
        bytes: out.pending() - before,
        body_bytes: 0,
        keep,
        result: served.result(spans.status),
        hierarchy: Hierarchy::None,
        content_type: exchange.worker.shows().then(|| content_type(page.head)).flatten(),
        cache_status: logged_status(exchange, &served.meta().cache_status),
    };
    Some((delivered, if exchange.request.is_head() { Body::None } else { spans.body }))
}

/// The parts of the representation that follow the head.
pub(super) struct Spans {
    pub(super) status: u16,
    pub(super) body: Body,
}

pub(super) enum Body {
    None,
    One(ByteRange),
    /// Each with what comes before it, and what comes at the end.
    Many(Vec<(Vec<u8>, ByteRange)>, Vec<u8>),
}

/// Appends the body. It begins at `body_at` of the record, with the byte `first` of the
/// representation.
pub(super) fn send_body(
    exchange: &Exchange<'_, '_>,
    out: &mut Out,
    entry: Entry<'static>,
    body: Body,
    (body_at, first): (u64, u64),
) {
    let at = |position: u64| body_at + (position - first);
    match body {
        Body::None => {}
        Body::One(range) => {
            let (from, to) = (at(range.first), at(range.last) + 1);
            // TLS reads the bytes it seals: a file would be one more copy.
            let tls = exchange.request.peer.tls;
            let find = || exchange.worker.sendfile.find(&entry, body_at, to - from);
            match (!tls).then(find).flatten() {
                Some(copy) => out.copied(copy, from, to),
                None => out.stored(entry, from, to),
            }
        }
        Body::Many(parts, end) => {
            out.pin(entry);
            for (before, range) in parts {
                out.scratch().extend_from_slice(&before);
                out.stored_again(at(range.first), at(range.last) + 1);
            }
            out.scratch().extend_from_slice(&end);
        }
    }
}

/// Which part the request's conditions and ranges select; None when the stored part lacks some of
/// it.
pub(super) fn part(exchange: &Exchange<'_, '_>, page: &PageView<'_>, meta: &Meta) -> Option<Part> {
    let known = &exchange.request.head.known;
    let conditional = known.if_none_match().is_some() || known.if_modified_since().is_some();
    if conditional {
        match evaluate(&exchange.request.view(), meta, page.etag) {
            Precondition::Full => {}
            Precondition::NotModified => return Some(Part::NotModified),
            // Not for a cache to say (RFC 9111 section 4.3.2); such requests are passed.
            Precondition::Failed => return None,
        }
    }
    let total = meta.partial.map_or(page.body_len, |part| part.total);
    let part = match known.range() {
        Some(range)
            if exchange.request.head.method == Method::Get
                && ranges_apply(exchange, page, meta) =>
        {
            match satisfy(range, total) {
                Satisfied::Ignored => Part::Whole,
                Satisfied::Unsatisfiable => Part::Unsatisfiable,
                Satisfied::One(range) => Part::One(range),
                Satisfied::Many(list) => Part::Many(Box::new(list)),
            }
        }
        _ => Part::Whole,
    };
    let has = |range: &ByteRange| {
        meta.partial.is_none_or(|stored| stored.first <= range.first && range.last <= stored.last)
    };
    let enough = match &part {
        Part::Whole => meta.partial.is_none(),
        Part::One(range) => has(range),
        Part::Many(list) => list.as_slice().iter().all(has),
        _ => true,
    };
    enough.then_some(part)
}

/// Ranges are for 200 responses, under the client's If-Range (RFC 9110 sections 13.1.5 and 14.2).
fn ranges_apply(exchange: &Exchange<'_, '_>, page: &PageView<'_>, meta: &Meta) -> bool {
    (meta.status == 200 || meta.partial.is_some())
        && range_applies(&exchange.request.view(), meta, page.etag)
}

pub(super) fn compose_page(
    exchange: &Exchange<'_, '_>,
    mut head: HeadWriter<'_>,
    page: &PageView<'_>,
    meta: &Meta,
    served: &Served,
    part: &Part,
    keep: bool,
) -> Spans {
    let total = meta.partial.map_or(page.body_len, |part| part.total);
    let whole = ByteRange { first: 0, last: page.body_len.saturating_sub(1) };
    let (status, body) = match part {
        Part::Whole => {
            head.stored(page.head);
            if !meta.flags.any(PageFlags::HAS_LENGTH) && has_body(false, meta.status) {
                head.number("Content-Length", page.body_len);
            }
            (meta.status, if page.body_len > 0 { Body::One(whole) } else { Body::None })
        }
        Part::NotModified => {
            head.stored_as(304, page.head, |name| !strip::sent_with_304(name));
            (304, Body::None)
        }
        Part::Unsatisfiable => {
            head.stored_as(416, page.head, |name| !strip::sent_with_304(name));
            content_range(&mut head, &ContentRange::Unsatisfied { total });
            head.number("Content-Length", 0);
            (416, Body::None)
        }
        Part::One(range) => {
            head.stored_as(206, page.head, is_of_the_whole);
            content_range(&mut head, &ContentRange::Bytes { range: *range, total: Some(total) });
            head.number("Content-Length", range.len());
            (206, Body::One(*range))
        }
        Part::Many(list) => (206, multipart(exchange, &mut head, page, list, total)),
    };
    lines(exchange, &mut head, meta, served);
    end_head(exchange, head, page.head, keep);
    Spans { status, body }
}

fn multipart(
    exchange: &Exchange<'_, '_>,
    head: &mut HeadWriter<'_>,
    page: &PageView<'_>,
    list: &RangeList,
    total: u64,
) -> Body {
    let content_type = content_type(page.head);
    let multipart = Multipart::new(exchange.request.pages.nonce(), content_type.as_deref(), total);
    let mut parts = Vec::with_capacity(list.as_slice().len());
    let mut length = 0;
    for range in list.as_slice() {
        let mut part = Vec::with_capacity(128);
        multipart.write_part_head(*range, &mut part);
        length += part.len() as u64 + range.len();
        parts.push((part, *range));
    }
    let mut end = Vec::new();
    multipart.write_end(&mut end);
    head.stored_as(206, page.head, |name| {
        is_of_the_whole(name) || name.eq_ignore_ascii_case("content-type")
    });
    head.line_with("Content-Type", |out| multipart.write_content_type(out));
    head.number("Content-Length", length + end.len() as u64);
    Body::Many(parts, end)
}

fn content_range(head: &mut HeadWriter<'_>, value: &ContentRange) {
    head.line_with("Content-Range", |out| value.write(out));
}

/// Whether a part lacks this field of the whole: it is about the bytes that are sent. Digests that
/// stay (Repr-Digest, Digest) are of the whole in every answer (RFC 9530 section 2, RFC 1864).
fn is_of_the_whole(name: &str) -> bool {
    const NAMES: [&str; 4] = ["content-length", "content-range", "content-digest", "content-md5"];
    NAMES.iter().any(|field| name.eq_ignore_ascii_case(field))
}

pub(super) fn content_type(head: &[u8]) -> Option<Vec<u8>> {
    field(head, "content-type").map(<[u8]>::to_vec)
}

/// HSTS, Alt-Svc, Connection, what `Larder-Debug` asked for, and the empty line. `origin`: the head
/// as the origin sent it.
pub(super) fn end_head(
    exchange: &Exchange<'_, '_>,
    mut head: HeadWriter<'_>,
    origin: &[u8],
    keep: bool,
) {
    if let Some(hsts) = exchange.request.hsts()
        && field(origin, "strict-transport-security").is_none()
    {
        head.line("Strict-Transport-Security", hsts.as_bytes());
    }
    let version = exchange.request.head.version;
    if let Some(alternative) = &exchange.request.config.alt_svc
        && exchange.request.peer.tls
        && version != Version::Http3
        && field(origin, "alt-svc").is_none()
    {
        head.line("Alt-Svc", alternative.as_bytes());
    }
    head.connection(version, keep);
    super::debug::line(&exchange.request, &mut head);
    head.end();
}
