//! The answer all of which is there: with its length and an entity tag, in one write.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher as _, Hasher as _},
    sync::LazyLock,
};

use larder_proto::{
    http::{
        Method,
        range::{ByteRange, ContentRange, Satisfied, satisfy},
    },
    page::{Encoding, Meta, PageView, Verify, view},
    rules::{Forward, Precondition, compress, esi, evaluate, range_applies, strip},
};

use super::{Budget, Page, Piece, coded};
use crate::{
    access_log::{Hierarchy, ResultCode},
    http::{
        deliver::{Delivered, content_type, end_head},
        exchange::Exchange,
        log::logged_status,
        reply,
        served::{Served, lines},
    },
    net::out::Out,
    settings::RulePolicy,
    wire::{h1::HeadWriter, meta, meta::ResponseMeta},
};

/// A private answer is for its client alone, and asked for again each time.
pub(super) const PRIVATE: &str = "Cache-Control: private, no-cache";

/// The part of the answer that is sent.
enum Part {
    Whole,
    One(ByteRange),
    Unsatisfiable,
    NotModified,
}

/// The head of a page, and where it comes from.
pub(super) struct Origin<'p> {
    pub(super) head: &'p [u8],
    pub(super) meta: Option<Meta>,
    pub(super) served: Option<Served>,
}

impl Page {
    /// The status of the page.
    pub(super) fn status(&self) -> u16 {
        match self {
            Self::Stored(held, _) => held.meta.status,
            Self::Fetched(reply) => reply.answer.status,
        }
    }

    /// Calls `f` with the head.
    pub(super) fn with_head<T>(&self, f: impl FnOnce(Origin<'_>) -> T) -> T {
        match self {
            Self::Stored(held, served) => {
                let page = view(held.entry.head(), held.entry.len(), Verify::Layout);
                let head = page.as_ref().map_or(&b""[..], |page: &PageView<'_>| page.head);
                f(Origin { head, meta: Some(held.meta), served: Some(*served) })
            }
            Self::Fetched(reply) => {
                f(Origin { head: &reply.answer.head, meta: reply.answer.meta, served: None })
            }
        }
    }

    /// The fields and the log of its way here. `hit`: all parts were in memory.
    pub(super) fn told(&self, hit: bool) -> (ResponseMeta<'static>, ResultCode, Hierarchy) {
        match self {
            Self::Stored(_, served) => {
                let mut told = served.meta();
                if !hit && told.cache_status.hit {
                    told.hit = false;
                    told.cache_status.hit = false;
                    told.cache_status.fwd = Some(Forward::Partial);
                    told.cache_status.detail = Some("esi");
                }
                let result = if hit { served.result(self.status()) } else { ResultCode::TcpMiss };
                (told, result, Hierarchy::None)
            }
            Self::Fetched(reply) => {
                let cache_status = reply::cache_status(reply);
                let told = ResponseMeta { hit: false, found: reply.found, age: None, cache_status };
                (told, reply::miss_code(reply), reply.hierarchy)
            }
        }
    }
}

/// The answer that is sent.
pub(super) struct Answer<'w> {
    pub(super) pieces: &'w [Piece],
    /// Names the pieces that it is made of, uncoded.
    pub(super) hash: u64,
    /// The coding that the pieces are in.
    pub(super) coding: Option<Encoding>,
}

impl Answer<'_> {
    fn tag(&self) -> String {
        let coding = self.coding.and_then(compress::name);
        let (mark, coding) = coding.map_or(("", ""), |coding| ("-", coding));
        format!("\"p{:016x}{mark}{coding}\"", self.hash)
    }
}

/// Composes an answer. `hit`: nothing was waited for.
pub(super) fn compose(
    exchange: &Exchange<'_, '_>,
    out: &mut Out,
    (page, policy): (&Page, &RulePolicy),
    answer: &Answer<'_>,
    budget: &Budget,
    hit: bool,
) -> Delivered {
    let pieces = answer.pieces;
    let total = pieces.iter().map(Piece::len).sum();
    let tag = answer.tag();
    let part = part(exchange, page.status(), total, tag.as_bytes());
    let varies = coded::applies(page, policy);
    let before = out.pending();
    let keep = exchange.keep();
    let (told, result, hierarchy) = page.told(hit);
    let (status, body) = page.with_head(|origin| {
        let mut head = HeadWriter(out.scratch());
        let (shown, private) = ((page.status(), total), budget.private.get());
        let sent = head_of(&mut head, &origin, &part, shown, tag.as_bytes(), private);
        for value in budget.vary.borrow().iter() {
            head.line("Vary", value);
        }
        coding_lines(&mut head, &origin, answer.coding, varies);
        match (origin.served, origin.meta) {
            (Some(served), Some(meta)) if hit => lines(exchange, &mut head, &meta, &served),
            _ => {
                let http = &exchange.request.config.settings.http;
                crate::http::debug::tier(&exchange.request, "parts");
                meta::meta_lines(&mut head, http, &told);
            }
        }
        end_head(exchange, head, origin.head, keep);
        sent
    });
    let head_bytes = out.pending() - before;
    if let Some(range) = body.filter(|_| !exchange.request.is_head()) {
        send(out, pieces, range);
    }
    let bytes = out.pending() - before;
    Delivered {
        status,
        bytes,
        body_bytes: bytes - head_bytes,
        keep,
        result: if status == 304 && hit { ResultCode::TcpImsHit } else { result },
        hierarchy,
        content_type: page
            .with_head(|origin| exchange.worker.shows().then(|| content_type(origin.head)))
            .flatten(),
        cache_status: logged_status(exchange, &told.cache_status),
    }
}

/// Writes what says that the answer is coded, and that it may be.
pub(super) fn coding_lines(
    head: &mut HeadWriter<'_>,
    origin: &Origin<'_>,
    coding: Option<Encoding>,
    varies: bool,
) {
    if let Some(coding) = coding.and_then(compress::name) {
        head.line("Content-Encoding", coding.as_bytes());
    }
    if varies && !coded::is_said(origin.head) {
        head.line("Vary", b"Accept-Encoding");
    }
}

/// Writes the head as far as it depends on the page, which has this status and so many bytes;
/// returns the status of the answer, and the bytes that follow.
fn head_of(
    head: &mut HeadWriter<'_>,
    origin: &Origin<'_>,
    part: &Part,
    (status, total): (u16, u64),
    tag: &[u8],
    private: bool,
) -> (u16, Option<ByteRange>) {
    let whole = ByteRange { first: 0, last: total.saturating_sub(1) };
    let (status, body) = match part {
        Part::Whole => (status, (total > 0).then_some(whole)),
        Part::One(range) => (206, Some(*range)),
        Part::Unsatisfiable => (416, None),
        Part::NotModified => (304, None),
    };
    let describes = matches!(part, Part::Whole | Part::One(_));
    head.stored_as(status, origin.head, |name| {
        let sent = if private { esi::sent_to_one(name) } else { esi::sent(name) };
        !sent || (!describes && !strip::sent_with_304(name))
    });
    if private {
        head.ready(PRIVATE);
    }
    head.line("ETag", tag);
    match part {
        Part::One(range) => {
            let value = ContentRange::Bytes { range: *range, total: Some(total) };
            head.line_with("Content-Range", |out| value.write(out));
        }
        Part::Unsatisfiable => {
            let value = ContentRange::Unsatisfied { total };
            head.line_with("Content-Range", |out| value.write(out));
        }
        Part::Whole | Part::NotModified => {}
    }
    if status != 304 {
        head.number("Content-Length", body.map_or(0, |range| range.len()));
    }
    (status, body)
}

/// Conditions and ranges are those of the answer, by its own tag, if its status is 200 (RFC 9110
/// sections 13.2.1 and 14.2). Nothing is known of when it changed, so a date does not count.
fn part(exchange: &Exchange<'_, '_>, status: u16, total: u64, tag: &[u8]) -> Part {
    if status != 200 {
        return Part::Whole;
    }
    let request = &exchange.request;
    let (known, view) = (&request.head.known, request.view());
    let meta = Meta { status: 200, ..Meta::default() };
    if known.if_none_match().is_some()
        && evaluate(&view, &meta, Some(tag)) == Precondition::NotModified
    {
        return Part::NotModified;
    }
    match known.range() {
        Some(range)
            if request.head.method == Method::Get && range_applies(&view, &meta, Some(tag)) =>
        {
            match satisfy(range, total) {
                Satisfied::One(range) => Part::One(range),
                Satisfied::Unsatisfiable => Part::Unsatisfiable,
                // Several ranges may be answered by the whole (RFC 9110 section 14.2).
                Satisfied::Ignored | Satisfied::Many(_) => Part::Whole,
            }
        }
        _ => Part::Whole,
    }
}

/// Pieces up to this many bytes are named by what they are; longer ones by the write that stored
/// them, which costs nothing.
const SHORT: u64 = 4096;

/// The hash of an answer: of the same pieces it is the same.
pub(super) fn hash(exchange: &Exchange<'_, '_>, pieces: &[Piece]) -> u64 {
    // Without a seed, the author of a part could choose one with the hash of another.
    static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0_u8));
    let mut hash = rapidhash::fast::RapidHasher::new(*SEED);
    for piece in pieces {
        match piece {
            Piece::Stored(entry, from, to) if to - from > SHORT => {
                // Numbers of writes begin anew with each start.
                hash.write(exchange.request.pages.shared.loop_id.as_bytes());
                hash.write_u64(entry.written());
                hash.write_u64(*from);
                hash.write_u64(*to);
            }
            Piece::Stored(entry, from, to) => {
                let mut at = *from;
                while at < *to {
                    let chunk = entry.chunk_at(at);
                    let take = (chunk.len() as u64).min(to - at);
                    if take == 0 {
                        break;
                    }
                    hash.write(&chunk[..take as usize]);
                    at += take;
                }
            }
            Piece::Ready(bytes) => hash.write(bytes),
        }
        hash.write_u64(piece.len());
    }
    hash.finish()
}

/// Appends the bytes of a range of all pieces together.
fn send(out: &mut Out, pieces: &[Piece], range: ByteRange) {
    let mut at = 0;
    for piece in pieces {
        let (start, end) = (at, at + piece.len());
        at = end;
        let (first, last) = (range.first.max(start), (range.last + 1).min(end));
        if first >= last {
            continue;
        }
        match piece {
            Piece::Stored(entry, from, _) => {
                out.stored(entry.clone(), from + (first - start), from + (last - start));
            }
            Piece::Ready(bytes) => {
                let part = &bytes[(first - start) as usize..(last - start) as usize];
                out.scratch().extend_from_slice(part);
            }
        }
    }
}
