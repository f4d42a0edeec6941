//! The answer some parts of which are still to come: sent in the order of the page as they do, or
//! collected first.

use std::{collections::VecDeque, rc::Rc, sync::Arc};

use bytes::Bytes;
use larder_metrics::Outcome;
use larder_proto::{
    page::Encoding,
    rules::{Forward, esi},
};
use tokio::time::timeout;

use super::{
    Arrived, Budget, Coming, Failed, Page, Piece, Segment, Text, coded, expand, read, whole,
};
use crate::{
    http::{
        deliver::{Delivered, content_type, end_head},
        exchange::Exchange,
        log::{finish, logged_status},
        refuse,
        reply::{self, Cut, Pieces},
    },
    net::{out::Out, socket::Ended},
    origin::Body,
    page::{coding::Coder, flight::Follower},
    request::{part::PartRequest, route::Refusal},
    room::{Held, Place},
    settings::RulePolicy,
    wire::{
        Wire,
        h1::{Framing, HeadWriter},
        meta,
    },
};

/// Memory of the task of a part, and of what it has read of a short one.
const PART_MEMORY: u64 = 40 << 10;
/// Composed bytes from which on they are sent before the next piece.
const FLUSH: u64 = 64 << 10;
/// Bytes that are compressed without a pause: less than a millisecond.
const CODE_STEP: usize = 64 << 10;

const TOO_MANY: Refusal = Refusal(503, "too many requests are waiting");
/// Why an answer is not collected.
const TOO_LONG: Refusal = Refusal(502, "the parts of the page are longer than may be collected");
const NOT_WHOLE: Refusal =
    Refusal(502, "a part of the page broke off, or is longer than may be collected");
const TOO_SLOW: Refusal = Refusal(504, "a part of the page did not come in time");

pub(super) async fn serve(
    wire: Wire<'_>,
    out: &mut Out,
    exchange: &Exchange<'_, '_>,
    policy: &Arc<RulePolicy>,
    page: Page,
) -> Result<bool, Ended> {
    let request = &exchange.request;
    if let Page::Fetched(reply) = &page {
        reply::note(exchange, reply);
    }
    let Some(source) = page.content() else { return Err(Ended::Closed) };
    let budget = Budget::new(request.pages, policy, true);
    let own = PartRequest::of(request);
    let text = Rc::new(Text { source, request: own, depth: 0, budget: budget.clone() });
    let mut segments = Vec::new();
    // Parts that are missing are requested: none is an error.
    let _all = expand::expand(&text, text.plan(), &mut segments);
    let mut held = Held::new(&wire.watch().holder(&request.pages.shared.room), Place::Heap);
    if budget.begun.get() > 0 {
        if !held.resize(budget.begun.get() * PART_MEMORY) {
            return Ok(refuse::refusal(exchange, out, &TOO_MANY));
        }
        if request.stats.forward_reason.get().is_none() {
            request.stats.miss.set(Some(Outcome::Miss));
        }
        request.stats.forwarded(Forward::Partial);
    }
    let known = &request.head.known;
    let encoding = coded::offered(exchange, &page, policy);
    let conditional = known.if_none_match().is_some() || known.range().is_some();
    let asked = request.is_head() || (conditional && page.status() == 200);
    let mut sending = Sending {
        wire,
        exchange,
        budget: &budget,
        held: &mut held,
        policy,
        coder: None,
        refusal: &TOO_LONG,
    };
    if !asked && (budget.begun.get() > 0 || (encoding.is_some() && budget.private.get())) {
        return sending.stream(out, &page, encoding, segments).await;
    }
    let mut pieces = Vec::new();
    match sending.run(out, segments, &mut Sink::Pieces(&mut pieces, policy.parts.size)).await {
        Ok(_) => {}
        Err(Cut::Client(ended)) => return Err(ended),
        Err(Cut::Origin) => return Ok(refuse::refusal(exchange, out, sending.refusal)),
    }
    let hash = whole::hash(exchange, &pieces);
    let mut answer = whole::Answer { pieces: &pieces, hash, coding: None };
    let kept;
    if let Some(encoding) = encoding {
        let made = coded::Made { pieces: &pieces, hash, encoding };
        let form = match coded::form(&budget, &page, made) {
            coded::Form::Plain => None,
            coded::Form::Kept(piece) => Some(piece),
            coded::Form::Missing => coded::keep(&budget, &page, made).await,
            coded::Form::Passing if asked => None,
            coded::Form::Passing => {
                let segments = pieces.into_iter().map(Segment::Piece).collect();
                return sending.stream(out, &page, Some(encoding), segments).await;
            }
        };
        if let Some(piece) = form {
            kept = [piece];
            answer = whole::Answer { pieces: &kept, hash, coding: Some(encoding) };
        }
    }
    let hit = budget.begun.get() == 0;
    let delivered = whole::compose(exchange, out, (&page, policy), &answer, &budget, hit);
    Ok(finish(exchange, &delivered))
}

/// Appends coded bytes, framed.
fn append(out: &mut Out, framing: Framing, coded: &[u8]) {
    if coded.is_empty() {
        return;
    }
    let behind = framing.piece(coded.len(), out.scratch());
    out.scratch().extend_from_slice(coded);
    out.scratch().extend_from_slice(behind);
}

/// Where the pieces of an answer go.
enum Sink<'s> {
    /// To the client, framed in this way.
    Client(Framing),
    /// Into a list; so many bytes besides what is stored at the most.
    Pieces(&'s mut Vec<Piece>, u64),
}

struct Sending<'s, 'a, 'r> {
    wire: Wire<'s>,
    exchange: &'s Exchange<'a, 'r>,
    budget: &'s Rc<Budget>,
    held: &'s mut Held,
    policy: &'s RulePolicy,
    /// Compresses what is sent.
    coder: Option<Coder>,
    /// Why an answer was not collected.
    refusal: &'static Refusal,
}

impl Sending<'_, '_, '_> {
    /// Sends the answer as its parts come.
    async fn stream(
        &mut self,
        out: &mut Out,
        page: &Page,
        encoding: Option<Encoding>,
        segments: Vec<Segment>,
    ) -> Result<bool, Ended> {
        let (exchange, wire) = (self.exchange, self.wire);
        exchange.started.set(true);
        let framing = Framing::of(exchange.request.head.version, false, page.status(), None);
        let coding = encoding.filter(|encoding| self.codes(*encoding));
        let delivered = self.head(out, page, framing, coding);
        let head_bytes = out.pending();
        let sent = match self.run(out, segments, &mut Sink::Client(framing)).await {
            Ok(bytes) => self.end(out, framing, bytes),
            Err(cut) => Err(cut),
        };
        let sent = sent.map(|bytes| (bytes, None));
        reply::conclude(wire, out, exchange, (framing, head_bytes), delivered, sent).await
    }

    /// Compresses what is sent from now on. False: there is no memory for that.
    fn codes(&mut self, encoding: Encoding) -> bool {
        if self.held.resize(self.memory() + Coder::MEMORY) {
            self.coder = Coder::new(encoding);
        }
        self.coder.is_some()
    }

    /// Memory of the parts that were begun, and of the coder.
    fn memory(&self) -> u64 {
        let coder = if self.coder.is_some() { Coder::MEMORY } else { 0 };
        self.budget.begun.get() * PART_MEMORY + coder
    }

    /// Appends the end of a body of so many bytes; returns its length as it was sent.
    fn end(&mut self, out: &mut Out, framing: Framing, bytes: u64) -> Result<u64, Cut> {
        let Some(coder) = self.coder.take() else { return Ok(bytes) };
        let (end, all) = coder.end().map_err(|_| Cut::Origin)?;
        append(out, framing, &end);
        Ok(all)
    }

    /// Composes the head of an answer whose end is not known. Parts that are still to come may be
    /// anybody's: it is for this client alone.
    fn head(
        &self,
        out: &mut Out,
        page: &Page,
        framing: Framing,
        coding: Option<Encoding>,
    ) -> Delivered {
        let exchange = self.exchange;
        let (told, result, hierarchy) = page.told(self.budget.begun.get() == 0);
        let keep = exchange.keep() && framing != Framing::Close;
        let varies = coded::applies(page, self.policy);
        let content_type = page.with_head(|origin| {
            crate::http::debug::tier(&exchange.request, "parts");
            let mut head = HeadWriter(out.scratch());
            head.stored_as(page.status(), origin.head, |name| !esi::sent_to_one(name));
            head.ready(whole::PRIVATE);
            whole::coding_lines(&mut head, &origin, coding, varies);
            head.framing(framing, None);
            meta::meta_lines(&mut head, &exchange.request.config.settings.http, &told);
            end_head(exchange, head, origin.head, keep);
            exchange.worker.shows().then(|| content_type(origin.head)).flatten()
        });
        Delivered {
            status: page.status(),
            bytes: 0,
            body_bytes: 0,
            keep,
            result,
            hierarchy,
            content_type,
            cache_status: logged_status(exchange, &told.cache_status),
        }
    }

    /// Takes the segments in their order; returns the bytes of the body.
    async fn run(
        &mut self,
        out: &mut Out,
        segments: Vec<Segment>,
        sink: &mut Sink<'_>,
    ) -> Result<u64, Cut> {
        let mut queue = VecDeque::from(segments);
        let mut bytes = 0;
        while let Some(segment) = queue.pop_front() {
            let arrived = match segment {
                Segment::Piece(piece) => {
                    bytes += self.put(out, sink, piece).await?;
                    continue;
                }
                Segment::Arrived(arrived) => arrived,
                Segment::Part(part) => self.wait(out, sink, part).await?,
                Segment::Try(attempt, text, except) => {
                    let settled = self.settle(out, sink, attempt, text, except).await?;
                    settled.into_iter().rev().for_each(|segment| queue.push_front(segment));
                    continue;
                }
            };
            match arrived {
                Arrived::Segments(inner) => {
                    inner.into_iter().rev().for_each(|segment| queue.push_front(segment));
                    self.count()?;
                }
                Arrived::Failed(failed) => {
                    if let Some(piece) = self.instead(&failed) {
                        bytes += self.put(out, sink, piece).await?;
                    }
                }
                Arrived::Follow(follower) => bytes += self.follow(out, sink, follower).await?,
                Arrived::Alone(ahead, body, _slot) => {
                    bytes += self.pour(out, sink, ahead, *body).await?;
                }
            }
        }
        Ok(bytes)
    }

    fn instead(&self, failed: &Failed) -> Option<Piece> {
        expand::instead(self.budget, failed)
    }

    /// Counts the memory of the parts that were begun meanwhile.
    fn count(&mut self) -> Result<(), Cut> {
        let enough = self.held.resize(self.memory());
        if enough { Ok(()) } else { Err(Cut::Client(Ended::TimedOut)) }
    }

    /// Waits for a part; what was composed is sent first.
    async fn wait(
        &mut self,
        out: &mut Out,
        sink: &Sink<'_>,
        mut part: Coming,
    ) -> Result<Arrived, Cut> {
        if let Ok(arrived) = part.arrives.try_recv() {
            return Ok(arrived);
        }
        part.is_next.notify_one();
        if let Sink::Client(framing) = sink {
            if let Some(coder) = &mut self.coder {
                append(out, *framing, &coder.take(true).map_err(|_| Cut::Origin)?);
            }
            self.exchange.send(self.wire, out).await?;
        }
        tokio::select! {
            biased;
            // A task that ended without a word panicked.
            arrived = part.arrives => Ok(arrived.unwrap_or_else(|_| {
                Arrived::Failed(Failed { status: 500, src: String::new() })
            })),
            () = self.wire.gone() => Err(Cut::Client(Ended::Closed)),
        }
    }

    /// Waits for all parts of an attempt: they, or what takes their place.
    async fn settle(
        &mut self,
        out: &mut Out,
        sink: &Sink<'_>,
        attempt: Vec<Segment>,
        text: Rc<Text>,
        except: Vec<larder_proto::esi::Node>,
    ) -> Result<Vec<Segment>, Cut> {
        let mut settled = Vec::with_capacity(attempt.len());
        for segment in attempt {
            match segment {
                Segment::Part(part) => {
                    let arrived = self.wait(out, sink, part).await?;
                    let arrived = self.without_last_slot(arrived).await?;
                    if matches!(arrived, Arrived::Failed(_)) {
                        let mut instead = Vec::new();
                        let _all = expand::expand(&text, except, &mut instead);
                        self.count()?;
                        return Ok(instead);
                    }
                    settled.push(Segment::Arrived(arrived));
                }
                Segment::Try(attempt, text, except) => {
                    let inner = Box::pin(self.settle(out, sink, attempt, text, except)).await?;
                    settled.extend(inner);
                }
                segment => settled.push(segment),
            }
        }
        Ok(settled)
    }

    async fn put(&mut self, out: &mut Out, sink: &mut Sink<'_>, piece: Piece) -> Result<u64, Cut> {
        let length = piece.len();
        if length == 0 {
            return Ok(0);
        }
        match sink {
            Sink::Client(framing) if self.coder.is_some() => {
                let framing = *framing;
                self.code(out, framing, &piece).await?;
            }
            Sink::Client(framing) => {
                let behind = framing.piece(length as usize, out.scratch());
                match piece {
                    Piece::Stored(entry, from, to) => out.stored(entry, from, to),
                    Piece::Ready(bytes) => out.scratch().extend_from_slice(&bytes),
                }
                out.scratch().extend_from_slice(behind);
                if out.pending() >= FLUSH {
                    self.exchange.send(self.wire, out).await?;
                }
            }
            Sink::Pieces(pieces, left) => {
                if matches!(piece, Piece::Ready(_)) {
                    *left = left.checked_sub(length).ok_or(Cut::Origin)?;
                }
                pieces.push(piece);
            }
        }
        Ok(length)
    }

    /// Compresses a piece and sends it, in steps.
    async fn code(&mut self, out: &mut Out, framing: Framing, piece: &Piece) -> Result<(), Cut> {
        let mut at = 0;
        while at < piece.len() {
            let Some(coder) = &mut self.coder else { return Ok(()) };
            let chunk = piece.chunk_at(at);
            if chunk.is_empty() {
                return Err(Cut::Origin);
            }
            let chunk = &chunk[..chunk.len().min(CODE_STEP)];
            let coded = coder.write(chunk).and_then(|()| coder.take(false));
            append(out, framing, &coded.map_err(|_| Cut::Origin)?);
            at += chunk.len() as u64;
            if out.pending() >= FLUSH {
                self.exchange.send(self.wire, out).await?;
            }
            if chunk.len() == CODE_STEP {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    async fn follow(
        &mut self,
        out: &mut Out,
        sink: &mut Sink<'_>,
        follower: Follower,
    ) -> Result<u64, Cut> {
        match sink {
            Sink::Client(framing) => {
                // A body that is followed goes out beside composed bytes alone.
                self.exchange.send(self.wire, out).await?;
                let pieces = Pieces { framing: *framing, coder: self.coder.as_mut() };
                let sent = reply::follow(self.wire, out, self.exchange, follower, pieces).await?;
                Ok(sent.0)
            }
            Sink::Pieces(_, left) => {
                let read = read::followed(self.budget, follower, *left);
                let body = self.whole(read).await?.map_err(|_| Cut::Origin)?;
                self.put(out, sink, Piece::Ready(body)).await
            }
        }
    }

    async fn pour(
        &mut self,
        out: &mut Out,
        sink: &mut Sink<'_>,
        ahead: Bytes,
        body: Body,
    ) -> Result<u64, Cut> {
        match sink {
            Sink::Client(framing) => {
                let framing = *framing;
                let began = self.put(out, sink, Piece::Ready(ahead)).await?;
                self.exchange.send(self.wire, out).await?;
                let pieces = Pieces { framing, coder: self.coder.as_mut() };
                let sent = reply::pour(self.wire, out, self.exchange, body, pieces).await?;
                Ok(began + sent.0)
            }
            Sink::Pieces(_, left) => {
                let read = read::rest(self.budget, &ahead, body, *left);
                let body = self.whole(read).await?.map_err(|_| Cut::Origin)?;
                self.put(out, sink, Piece::Ready(body)).await
            }
        }
    }

    /// Reads a part to its end, while the client waits and for as long as a part may take.
    async fn whole(
        &mut self,
        read: impl Future<Output = Result<Bytes, u16>>,
    ) -> Result<Result<Bytes, u16>, Cut> {
        let read = tokio::select! {
            biased;
            read = timeout(self.budget.limits.timeout, read) => read,
            () = self.wire.gone() => return Err(Cut::Client(Ended::Closed)),
        };
        self.refusal = if read.is_ok() { &NOT_WHOLE } else { &TOO_SLOW };
        Ok(read.unwrap_or(Err(504)))
    }

    /// A part of an attempt that has the last slot is read to its end: another one of the attempt
    /// may need the slot before any is sent.
    async fn without_last_slot(&mut self, arrived: Arrived) -> Result<Arrived, Cut> {
        let (ahead, body) = match arrived {
            Arrived::Alone(ahead, body, Some(slot)) if slot.is_last => (ahead, body),
            arrived => return Ok(arrived),
        };
        let read = read::rest(self.budget, &ahead, *body, self.budget.limits.size);
        let read = self.whole(read).await?;
        let failed = |status| Arrived::Failed(Failed { status, src: String::new() });
        Ok(read.map_or_else(failed, Arrived::ready))
    }
}
