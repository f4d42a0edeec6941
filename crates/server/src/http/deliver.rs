//! The answer on its way to the client: from a page in the store, or from a body that streams by.

use std::io::IoSlice;

use hyper::upgrade::OnUpgrade;
use larder_proto::{
    http::{
        Method, Version, chunked,
        multipart::Multipart,
        range::{ByteRange, ContentRange, RangeList, Satisfied, satisfy},
    },
    page::{Meta, PageFlags, PageView, Verify, view},
    rules::{CacheStatus, Forward, Precondition, current_age, evaluate, range_applies, split_head, strip},
};

use super::{
    answer::has_body,
    compose::{self, Told},
    fetch::{Reply, Source},
    flight::{Follower, Piece, Tail},
    flow::{Asked, finish},
    lookup::Held,
    out::Out,
    refuse,
    socket::{Ended, Socket},
};
use crate::{
    access_log::{Hierarchy, ResultCode},
    clock::Ms,
    counters::{Counter, Counters},
};

/// How a stored page is served.
#[derive(Clone, Copy)]
pub(crate) struct Served {
    age: u32,
    ttl: i64,
    /// Refresh it behind the client's back.
    pub(crate) refresh: bool,
    how: How,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Fresh,
    Stale,
    Validated,
    OnError,
}

impl Served {
    pub(crate) fn fresh(age: u32, ttl: i64) -> Self {
        Self { age, ttl, refresh: false, how: How::Fresh }
    }

    pub(crate) fn stale(age: u32, ttl: i64, refresh: bool) -> Self {
        Self { age, ttl, refresh, how: How::Stale }
    }

    /// The origin confirmed it just now.
    pub(crate) fn validated(meta: &Meta, now: Ms) -> Self {
        let age = current_age(meta, now);
        Self { age, ttl: i64::from(meta.freshness) - i64::from(age), refresh: false, how: How::Validated }
    }

    /// The origin failed.
    pub(crate) fn on_error(meta: &Meta, now: Ms) -> Self {
        Self { how: How::OnError, ..Self::validated(meta, now) }
    }

    fn result(self, status: u16) -> ResultCode {
        match self.how {
            How::Fresh if status == 304 => ResultCode::TcpImsHit,
            How::Fresh if status >= 400 => ResultCode::TcpNegativeHit,
            How::Fresh => ResultCode::TcpMemHit,
            How::Stale => ResultCode::TcpStaleHit,
            How::Validated => ResultCode::TcpRefreshUnmodified,
            How::OnError => ResultCode::TcpRefreshFailHit,
        }
    }

    fn told(self) -> Told<'static> {
        let mut cache_status = CacheStatus { ttl: Some(self.ttl), ..CacheStatus::default() };
        match self.how {
            How::Fresh | How::Stale => cache_status.hit = true,
            How::Validated => (cache_status.fwd, cache_status.fwd_status) = (Some(Forward::Stale), Some(304)),
            How::OnError => {
                (cache_status.fwd, cache_status.detail) = (Some(Forward::Stale), Some("origin-failed"));
            }
        }
        Told { hit: true, found: true, age: Some(self.age), cache_status }
    }
}

/// What was sent, for counters and log.
pub(crate) struct Delivered {
    pub(crate) status: u16,
    /// Head included.
    pub(crate) bytes: u64,
    pub(crate) body_bytes: u64,
    pub(crate) keep: bool,
    pub(crate) result: ResultCode,
    pub(crate) hierarchy: Hierarchy,
    pub(crate) content_type: Option<Vec<u8>>,
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
        }
    }

    /// Where it is counted.
    pub(crate) fn counter<'c>(&self, counters: &'c Counters) -> &'c Counter {
        match self.result {
            ResultCode::TcpMemHit
            | ResultCode::TcpHit
            | ResultCode::TcpImsHit
            | ResultCode::TcpNegativeHit => &counters.hits,
            ResultCode::TcpStaleHit | ResultCode::TcpRefreshFailHit => &counters.stale_hits,
            ResultCode::TcpRefreshUnmodified => &counters.refresh_hits,
            ResultCode::TcpCfHit => &counters.coalesced,
            ResultCode::TcpTunnel => &counters.tunnels,
            ResultCode::TcpPurge => &counters.purges,
            ResultCode::TcpDenied => &counters.purges_denied,
            ResultCode::None => &counters.refused,
            _ => &counters.misses,
        }
    }
}

/// What part of a page a request gets.
enum Part {
    Whole,
    One(ByteRange),
    Many(Box<RangeList>),
    Unsatisfiable,
    NotModified,
}

/// Composes the answer from a stored page. Gives the page back when the stored part of it is not enough.
#[allow(clippy::result_large_err)] // the page is moved, not made: a box would be an allocation on every hit
pub(crate) fn entry(
    asked: &Asked<'_, '_>,
    out: &mut Out,
    held: Held,
    served: &Served,
) -> Result<Delivered, Held> {
    let Ok(page) = view(held.entry.head(), held.entry.len(), Verify::Layout) else { return Err(held) };
    let Some(part) = part(asked, &page, &held.meta) else { return Err(held) };
    let before = out.pending();
    let keep = asked.keep();
    let scratch = out.scratch();
    let spans = compose_page(asked, scratch, &page, &held.meta, served, &part, keep);
    let status = spans.status;
    let content_type = asked.worker.log.as_ref().and_then(|_| content_type(page.head));
    let offset = page.body_at as u64 - held.meta.partial.map_or(0, |part| part.first);
    let head_bytes = out.pending() - before;
    if !asked.is_head() {
        send_spans(out, held, spans, offset);
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
    })
}

/// What of the representation follows the head.
struct Spans {
    status: u16,
    body: Body,
}

enum Body {
    None,
    One(ByteRange),
    /// Each with what comes before it, and what comes at the end.
    Many(Vec<(Vec<u8>, ByteRange)>, Vec<u8>),
}

fn send_spans(out: &mut Out, held: Held, spans: Spans, offset: u64) {
    match spans.body {
        Body::None => {}
        Body::One(range) => out.stored(held.entry, offset + range.first, offset + range.last + 1),
        Body::Many(parts, end) => {
            out.pin(held.entry);
            for (before, range) in parts {
                out.scratch().extend_from_slice(&before);
                out.stored_again(offset + range.first, offset + range.last + 1);
            }
            out.scratch().extend_from_slice(&end);
        }
    }
}

/// Which part the request's conditions and ranges select; None when the stored part lacks some of it.
fn part(asked: &Asked<'_, '_>, page: &PageView<'_>, meta: &Meta) -> Option<Part> {
    let known = &asked.head.known;
    let conditional = known.if_none_match().is_some() || known.if_modified_since().is_some();
    if conditional {
        match evaluate(&asked.view(), meta, page.etag) {
            Precondition::Full => {}
            Precondition::NotModified => return Some(Part::NotModified),
            // Not for a cache to say (RFC 9111 section 4.3.2); such requests are passed.
            Precondition::Failed => return None,
        }
    }
    let total = meta.partial.map_or(page.body_len, |part| part.total);
    let part = match known.range() {
        Some(range) if asked.head.method == Method::Get && ranges_apply(asked, page, meta) => {
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
fn ranges_apply(asked: &Asked<'_, '_>, page: &PageView<'_>, meta: &Meta) -> bool {
    (meta.status == 200 || meta.partial.is_some()) && range_applies(&asked.view(), meta, page.etag)
}

fn compose_page(
    asked: &Asked<'_, '_>,
    out: &mut Vec<u8>,
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
            out.extend_from_slice(page.head);
            if !meta.flags.any(PageFlags::HAS_LENGTH) && has_body(false, meta.status) {
                compose::number_line(out, "Content-Length", page.body_len);
            }
            (meta.status, if page.body_len > 0 { Body::One(whole) } else { Body::None })
        }
        Part::NotModified => {
            changed_head(out, page.head, 304, |name| !strip::sent_with_304(name));
            (304, Body::None)
        }
        Part::Unsatisfiable => {
            changed_head(out, page.head, 416, |name| !strip::sent_with_304(name));
            content_range(out, &ContentRange::Unsatisfied { total });
            out.extend_from_slice(b"Content-Length: 0\r\n");
            (416, Body::None)
        }
        Part::One(range) => {
            changed_head(out, page.head, 206, is_length_or_range);
            content_range(out, &ContentRange::Bytes { range: *range, total: Some(total) });
            compose::number_line(out, "Content-Length", range.len());
            (206, Body::One(*range))
        }
        Part::Many(list) => (206, multipart(asked, out, page, list, total)),
    };
    compose::told_lines(out, &asked.config.settings.http, &served.told());
    end_head(asked, out, keep);
    Spans { status, body }
}

fn multipart(
    asked: &Asked<'_, '_>,
    out: &mut Vec<u8>,
    page: &PageView<'_>,
    list: &RangeList,
    total: u64,
) -> Body {
    let content_type = content_type(page.head);
    let multipart = Multipart::new(asked.worker.nonce(), content_type.as_deref(), total);
    let mut parts = Vec::with_capacity(list.as_slice().len());
    let mut length = 0;
    for range in list.as_slice() {
        let mut head = Vec::with_capacity(128);
        multipart.write_part_head(*range, &mut head);
        length += head.len() as u64 + range.len();
        parts.push((head, *range));
    }
    let mut end = Vec::new();
    multipart.write_end(&mut end);
    changed_head(out, page.head, 206, |name| {
        is_length_or_range(name) || name.eq_ignore_ascii_case("content-type")
    });
    out.extend_from_slice(b"Content-Type: ");
    multipart.write_content_type(out);
    out.extend_from_slice(b"\r\n");
    compose::number_line(out, "Content-Length", length + end.len() as u64);
    Body::Many(parts, end)
}

fn content_range(out: &mut Vec<u8>, value: &ContentRange) {
    out.extend_from_slice(b"Content-Range: ");
    value.write(out);
    out.extend_from_slice(b"\r\n");
}

/// The stored head under another status, without some of its fields.
fn changed_head(out: &mut Vec<u8>, head: &[u8], status: u16, without: impl Fn(&str) -> bool) {
    compose::status_line(out, status, refuse::phrase(status).as_bytes());
    let Some((_, lines)) = split_head(head) else { return };
    for line in lines.split_inclusive(|&b| b == b'\n') {
        let name = line.split(|&b| b == b':').next().unwrap_or_default();
        if !std::str::from_utf8(name).is_ok_and(&without) {
            out.extend_from_slice(line);
        }
    }
}

fn is_length_or_range(name: &str) -> bool {
    name.eq_ignore_ascii_case("content-length") || name.eq_ignore_ascii_case("content-range")
}

fn content_type(head: &[u8]) -> Option<Vec<u8>> {
    let (_, lines) = split_head(head)?;
    lines
        .split(|&b| b == b'\n')
        .find(|line| line.get(..13).is_some_and(|start| start.eq_ignore_ascii_case(b"content-type:")))
        .map(|line| line[13..].trim_ascii().to_vec())
}

/// Connection, and the empty line.
fn end_head(asked: &Asked<'_, '_>, out: &mut Vec<u8>, keep: bool) {
    if !keep {
        out.extend_from_slice(b"Connection: close\r\n");
    } else if asked.head.version == Version::Http10 {
        out.extend_from_slice(b"Connection: keep-alive\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

/// How the end of a streamed body is marked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    None,
    Length,
    Chunked,
    /// HTTP/1.0 and no length: the end of the connection.
    Close,
}

/// How an answer ended.
pub(crate) enum Done {
    Answered {
        /// The connection goes on.
        keep: bool,
    },
    /// The head of a 101 is out: what follows is another protocol.
    Tunnel(OnUpgrade, Delivered),
}

/// Sends a response that is not whole in the store (yet), or never will be.
pub(crate) async fn reply(
    socket: &Socket,
    out: &mut Out,
    asked: &Asked<'_, '_>,
    reply: Reply,
) -> Result<Done, Ended> {
    asked.begun.set(true);
    let mut delivered = head_of(asked, out, &reply);
    if delivered.status != reply.answer.status {
        delivered.bytes = out.pending();
        return Ok(Done::Answered { keep: finish(asked, &delivered) });
    }
    let framing = framing(asked, &reply);
    if framing == Framing::Close {
        delivered.keep = false;
    }
    let head_bytes = out.pending();
    let sent = match reply.source {
        Source::Tunnel(upgraded, _) => {
            (delivered.result, delivered.bytes) = (ResultCode::TcpTunnel, head_bytes);
            asked.send(socket, out).await?;
            return Ok(Done::Tunnel(upgraded, delivered));
        }
        _ if framing == Framing::None => Ok(0),
        Source::Follow(follower) => follow(socket, out, asked, follower, framing).await,
        Source::Tail(tail) => pour(socket, out, asked, tail, framing).await,
    };
    match sent {
        Ok(body) => {
            (delivered.bytes, delivered.body_bytes) = (head_bytes + body, body);
            Ok(Done::Answered { keep: finish(asked, &delivered) })
        }
        Err(Cut::Origin) => {
            delivered.bytes = head_bytes;
            delivered.keep = false;
            finish(asked, &delivered);
            if framing == Framing::Close {
                socket.reset();
            }
            Err(Ended::Closed)
        }
        Err(Cut::Client(ended)) => {
            (delivered.result, delivered.keep) = (ResultCode::TcpMissAborted, false);
            finish(asked, &delivered);
            Err(ended)
        }
    }
}

/// Composes the head: of the response, or of what the client's own conditions make of it.
fn head_of(asked: &Asked<'_, '_>, out: &mut Out, reply: &Reply) -> Delivered {
    let answer = &reply.answer;
    let stored = answer.meta.is_some();
    let cache_status = CacheStatus {
        fwd: Some(reply.why),
        fwd_status: (answer.status != 304).then_some(answer.status),
        stored,
        collapsed: reply.collapsed,
        detail: reply.detail,
        ..CacheStatus::default()
    };
    // The head of whoever asked first has the Age it came with.
    let age = answer.meta.as_ref().filter(|_| reply.collapsed).map(|meta| current_age(meta, asked.now()));
    let told = Told { hit: false, found: reply.found, age, cache_status };
    let mut delivered = Delivered {
        status: answer.status,
        bytes: 0,
        body_bytes: 0,
        keep: asked.keep(),
        result: if reply.collapsed { ResultCode::TcpCfHit } else { miss_code(reply) },
        hierarchy: reply.hierarchy,
        content_type: asked.worker.log.as_ref().and_then(|_| content_type(&answer.head)),
    };
    let scratch = out.scratch();
    let precondition = match &answer.meta {
        Some(meta) if reply.conditions => evaluate(&asked.view(), meta, answer.etag.as_deref()),
        _ => Precondition::Full,
    };
    match precondition {
        Precondition::Full | Precondition::Failed => {
            scratch.extend_from_slice(&answer.head);
            framing_lines(asked, scratch, reply, &mut delivered);
        }
        Precondition::NotModified => {
            changed_head(scratch, &answer.head, 304, |name| !strip::sent_with_304(name));
            delivered.status = 304;
        }
    }
    compose::told_lines(scratch, &asked.config.settings.http, &told);
    if !matches!(reply.source, Source::Tunnel(..)) {
        end_head(asked, scratch, delivered.keep);
    } else {
        scratch.extend_from_slice(b"\r\n");
    }
    delivered
}

fn miss_code(reply: &Reply) -> ResultCode {
    match reply.why {
        Forward::Stale => ResultCode::TcpRefreshModified,
        Forward::Request => ResultCode::TcpClientRefreshMiss,
        _ => ResultCode::TcpMiss,
    }
}

fn framing(asked: &Asked<'_, '_>, reply: &Reply) -> Framing {
    if !has_body(asked.is_head(), reply.answer.status) {
        return Framing::None;
    }
    match (reply.answer.length, asked.head.version) {
        (Some(_), _) => Framing::Length,
        (None, Version::Http11) => Framing::Chunked,
        (None, Version::Http10) => Framing::Close,
    }
}

fn framing_lines(asked: &Asked<'_, '_>, out: &mut Vec<u8>, reply: &Reply, delivered: &mut Delivered) {
    if let Source::Tunnel(_, protocol) = &reply.source {
        out.extend_from_slice(b"Connection: upgrade\r\n");
        compose::line(out, "Upgrade", protocol);
        return;
    }
    match framing(asked, reply) {
        Framing::Length => compose::number_line(out, "Content-Length", reply.answer.length.unwrap_or(0)),
        Framing::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        Framing::Close => delivered.keep = false,
        // The answer to a HEAD says how long a GET's would be (RFC 9110 section 8.6).
        Framing::None if asked.is_head() => {
            if let Some(length) = reply.answer.length.filter(|_| has_body(false, reply.answer.status)) {
                compose::number_line(out, "Content-Length", length);
            }
        }
        Framing::None => {}
    }
}

/// Why a body did not go out whole.
enum Cut {
    Origin,
    Client(Ended),
}

impl From<Ended> for Cut {
    fn from(ended: Ended) -> Self {
        Cut::Client(ended)
    }
}

/// Sends a body that others may follow too, as it grows.
async fn follow(
    socket: &Socket,
    out: &mut Out,
    asked: &Asked<'_, '_>,
    mut follower: Follower,
    framing: Framing,
) -> Result<u64, Cut> {
    let mut at = 0;
    loop {
        match follower.next(at).await {
            Piece::Stored(data) => {
                piece(socket, out, asked, framing, data).await?;
                at += data.len() as u64;
            }
            Piece::Passed(data) => {
                piece(socket, out, asked, framing, &data).await?;
                at += data.len() as u64;
            }
            Piece::End(trailers) => {
                end(out, framing, trailers.as_ref());
                asked.send(socket, out).await?;
                return Ok(at);
            }
            Piece::Broken => {
                asked.send(socket, out).await?;
                return Err(Cut::Origin);
            }
        }
    }
}

/// Sends a body that is for this client alone.
async fn pour(
    socket: &Socket,
    out: &mut Out,
    asked: &Asked<'_, '_>,
    mut tail: tokio::sync::mpsc::Receiver<Tail>,
    framing: Framing,
) -> Result<u64, Cut> {
    let mut at = 0;
    loop {
        match tail.recv().await {
            Some(Tail::Data(data)) => {
                piece(socket, out, asked, framing, &data).await?;
                at += data.len() as u64;
            }
            Some(Tail::End(trailers)) => {
                end(out, framing, trailers.as_ref());
                asked.send(socket, out).await?;
                return Ok(at);
            }
            None => {
                asked.send(socket, out).await?;
                return Err(Cut::Origin);
            }
        }
    }
}

/// Sends what was composed and one piece of the body, in one write where it fits.
async fn piece(
    socket: &Socket,
    out: &mut Out,
    asked: &Asked<'_, '_>,
    framing: Framing,
    data: &[u8],
) -> Result<(), Ended> {
    if framing == Framing::Chunked {
        chunked::write_chunk_head(data.len(), out.scratch());
    }
    let end: &[u8] = if framing == Framing::Chunked { b"\r\n" } else { b"" };
    let slices = [IoSlice::new(data), IoSlice::new(end)];
    asked.send_with(socket, out, &slices).await
}

fn end(out: &mut Out, framing: Framing, trailers: Option<&http::HeaderMap>) {
    if framing == Framing::Chunked {
        let lines = trailers.into_iter().flat_map(|map| map.iter());
        chunked::write_end(lines.map(|(name, value)| (name.as_str(), value.as_bytes())), out.scratch());
    }
}
