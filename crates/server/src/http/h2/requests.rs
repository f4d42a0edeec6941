//! Received frames: requests, their bodies, the end of streams.

use std::rc::Rc;

use larder_proto::{
    http::{Parsed, Version, parse_request, slots},
    http2::{ConnectionError, ErrorCode, Event, request},
};
use tokio::task::spawn_local;

use super::{Round, Scratch, Session, answers::AHEAD};
use crate::{
    clock::Ms,
    counters::Timing,
    http::{
        body,
        conn::{SLOTS, head_limits},
        exchange::{Active, Exchange},
        flow::{self, Now, Waiting},
        log,
        refuse::{self, Answered},
        worker::Worker,
    },
    net::{conns::IoBuffers, out::Out, socket::Ended},
    request::{Detached, Request, pages::Pages, route::Refusal},
    wire::h2::{Answer, Stream},
};

/// Composed bytes at which nothing more is received: the client does not read.
const JAM: u64 = 256 * 1024;
/// The PING whose answer says that the client knows of the end.
pub(super) const DRAIN: [u8; 8] = *b"draining";
/// Milliseconds between two ticks of the codec.
const TICK: Ms = 1000;

/// Frames that were taken.
pub(in crate::http) struct Taken {
    /// Requests and other events.
    pub(in crate::http) events: usize,
    /// More was received than was looked at.
    pub(in crate::http) more: bool,
}

impl Session {
    /// Takes frames, at most `most` events, and answers the requests that can be answered at once.
    pub(in crate::http) fn take(&mut self, round: &mut Round<'_>, most: usize) -> Taken {
        let mut scratch = round.worker.h2.take().unwrap_or_default();
        let mut taken = Taken { events: 0, more: false };
        self.tick(round.worker.pages.clock.at(round.since));
        loop {
            let IoBuffers { buf, at, out } = &mut *round.buffers;
            let unread = &buf[*at..];
            if unread.len() < self.need || self.over {
                break;
            }
            if taken.events >= most || out.pending() >= AHEAD || out.composed() >= JAM {
                taken.more = true;
                break;
            }
            let step = self.codec.receive(unread, &self.limits, &mut scratch.work, out.scratch());
            let from = *at;
            *at += step.used;
            self.need = 1;
            if let Event::More { need } = step.event {
                self.need = need;
                continue;
            }
            taken.events += 1;
            self.event(step.event, from, round, &mut scratch);
        }
        round.worker.h2.set(Some(scratch));
        taken
    }

    /// Whether frames are taken although `out` is not sent.
    pub(in crate::http) fn reads(&self, out: &Out) -> bool {
        !self.over && out.composed() < JAM && out.pending() < AHEAD
    }

    /// Halves the counters of floods once a second.
    fn tick(&mut self, now: Ms) {
        let ticks = (now.saturating_sub(self.ticked) / TICK).min(16);
        if ticks > 0 {
            (0..ticks).for_each(|_| self.codec.tick());
            self.ticked = now;
        }
    }

    /// `from`: the place in the buffer of the input that the event is of.
    fn event(&mut self, event: Event, from: usize, round: &mut Round<'_>, scratch: &mut Scratch) {
        let counters = &round.worker.pages.counters;
        match event {
            Event::Request(request) => {
                counters.http2_requests.one();
                self.request(round, scratch, &request);
            }
            Event::TooLarge { stream, .. } => {
                self.refuse(round, scratch, stream, 431, "the request head is too large");
            }
            Event::Malformed { .. } => {
                counters.http2_malformed.one();
                log::unread(round.worker, round.peer.address, 400, 0);
            }
            Event::Data { stream, range, end } => {
                let data = &round.buffers.buf[from + range.start..from + range.end];
                match self.find(stream) {
                    Some(open) if open.answer.get() == Answer::Composing => open.receive(data, end),
                    _ => {
                        let out = round.buffers.out.scratch();
                        self.codec.consumed(stream, data.len(), &self.limits, out);
                    }
                }
            }
            Event::Trailers { stream } => {
                if let Some(stream) = self.find(stream) {
                    stream.receive_trailers(body::trailers(&scratch.work.head));
                }
            }
            Event::Reset { stream, by_peer, .. } => {
                let counter =
                    if by_peer { &counters.http2_resets } else { &counters.http2_malformed };
                counter.one();
                self.forget(stream);
            }
            Event::Pong(payload) if payload == DRAIN && self.draining => {
                self.codec.drain(round.buffers.out.scratch());
            }
            Event::GoAway { .. } => self.draining = true,
            Event::Failed(ConnectionError { flood, .. }) => {
                let counter =
                    if flood.is_some() { &counters.http2_floods } else { &counters.http2_errors };
                counter.one();
                self.over = true;
            }
            Event::More { .. } | Event::Writable | Event::Pong(_) => {}
        }
    }

    /// Answers a request, or leaves it to a task.
    fn request(&mut self, round: &mut Round<'_>, scratch: &mut Scratch, begun: &request::Request) {
        let Scratch { work, out } = scratch;
        if begun.connect == request::Connect::Protocol {
            websocket_key(&round.worker.pages, &mut work.head);
        }
        let raw = &work.head[..];
        let mut slots = slots::<SLOTS>();
        let head = match parse_request(raw, &mut slots, &head_limits(round.config)) {
            Ok(Parsed::Complete(mut head)) => {
                head.version = Version::Http2;
                head
            }
            // The codec writes whole heads.
            Ok(Parsed::Partial) => return self.abort(begun.stream, round),
            Err(reject) => {
                round.worker.pages.counters.reject(reject.reason);
                let (status, why) = (reject.status, reject.reason.as_str());
                return self.refuse(round, scratch, begun.stream, status, why);
            }
        };
        let (worker, config) = (round.worker, round.config);
        let request = Request::new(&worker.pages, config, round.peer, &head, raw, round.since);
        let exchange = Exchange::new(request, worker);
        out.clear();
        if begun.connect == request::Connect::Protocol && exchange.request.upgrade().is_none() {
            let refusal = Refusal(501, "of the protocols beside HTTP only websocket is passed on");
            refuse::refusal(&exchange, out, &refusal);
            return self.answer(begun.stream, out, &mut round.buffers.out);
        }
        match flow::now(&exchange, out) {
            Now::Answered { .. } => {
                round.timing.push(exchange.request.timed());
                self.answer(begun.stream, out, &mut round.buffers.out);
            }
            Now::Later(_) if !exchange.request.may_wait() => {
                let refusal = Refusal(503, "too many requests are waiting");
                refuse::refusal(&exchange, out, &refusal);
                self.answer(begun.stream, out, &mut round.buffers.out);
            }
            Now::Later(waiting) => {
                let stream = Stream::new(begun.stream, &self.mail);
                self.streams.push(stream.clone());
                let counted = worker.pages.shared.waits();
                let request = Box::new(exchange.request.detach());
                let later = later(worker.clone(), stream, request, waiting);
                spawn_local(async move {
                    later.await;
                    drop(counted);
                });
            }
        }
    }

    /// Answers a request that is not understood.
    fn refuse(
        &mut self,
        round: &mut Round<'_>,
        scratch: &mut Scratch,
        stream: u32,
        status: u16,
        why: &'static str,
    ) {
        let out = &mut scratch.out;
        out.clear();
        let now = round.worker.pages.clock.at(round.since);
        let head_only = scratch.work.head.starts_with(b"HEAD ");
        let to = Answered { head_only, ..Answered::UNREAD };
        refuse::compose(out.scratch(), now, status, why, to);
        log::unread(round.worker, round.peer.address, status, out.pending());
        self.answer(stream, out, &mut round.buffers.out);
    }

    fn abort(&mut self, stream: u32, round: &mut Round<'_>) {
        let out = round.buffers.out.scratch();
        self.codec.reset(stream, ErrorCode::INTERNAL_ERROR, &self.limits, out);
    }
}

/// Sees a request through that has to wait.
async fn later(
    worker: Rc<Worker>,
    stream: Rc<Stream>,
    request: Box<Detached>,
    waiting: Box<Waiting>,
) {
    let unfinished = Unfinished(stream.clone());
    let mut out = Out::default();
    let waited = async |request: Request<'_, '_>| {
        let exchange = Exchange::new(request, &worker);
        let ended = flow::later(&mut Active::h2(&stream, &mut out), &exchange, *waiting).await;
        log::abandoned(&exchange);
        let mut timing = Timing::default();
        if ended.is_ok() {
            timing.push(exchange.request.timed());
        }
        timing.settle(&exchange.request.config.counted, worker.pages.clock.micros());
        ended
    };
    let answer = match request.with(&worker.pages, waited).await {
        Ok(_) => Answer::Complete,
        Err(Ended::Closed | Ended::TimedOut | Ended::Drained) => {
            Answer::Broken(ErrorCode::INTERNAL_ERROR)
        }
    };
    stream.finish(&mut out, answer);
    drop(unfinished);
}

/// Breaks the answer off if its task ends without one: after a panic.
struct Unfinished(Rc<Stream>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.0.answer.get() == Answer::Composing {
            self.0.finish(&mut Out::default(), Answer::Broken(ErrorCode::INTERNAL_ERROR));
        }
    }
}

/// Adds the key that a WebSocket of HTTP/1 has and one of HTTP/2 has not (RFC 8441 section 5.1): 16
/// bytes in base64. The origin's proof that it knows the key is nobody's concern here.
fn websocket_key(pages: &Pages, head: &mut Vec<u8>) {
    let key = format!("{:016x}{:05x}A==", pages.nonce(), pages.nonce() & 0xf_ffff);
    head.truncate(head.len().saturating_sub(2));
    head.extend_from_slice(format!("sec-websocket-key: {key}\r\n\r\n").as_bytes());
}
