//! Received frames: requests, their bodies, the end of streams.

use larder_proto::{
    http::Version,
    http2::{ConnectionError, ErrorCode, Event, request},
};

use super::{Round, Scratch, Session, answers::AHEAD};
use crate::{
    clock::Ms,
    http::{
        body, log,
        streams::{Begun, Taken, Turn},
    },
    net::{conns::IoBuffers, out::Out},
    wire::stream::Answer,
};

/// Composed bytes at which nothing more is received: the client does not read.
const JAM: u64 = 256 * 1024;
/// The PING whose answer says that the client knows of the end.
pub(super) const DRAIN: [u8; 8] = *b"draining";
/// Milliseconds between two ticks of the codec.
const TICK: Ms = 1000;

/// Frames that were taken.
pub(in crate::http) struct Received {
    /// Requests and other events.
    pub(in crate::http) events: usize,
    /// More was received than was looked at.
    pub(in crate::http) more: bool,
}

impl Session {
    /// Takes frames, at most `most` events, and answers the requests that can be answered at once.
    pub(in crate::http) fn take(&mut self, round: &mut Round<'_>, most: usize) -> Received {
        let mut scratch = round.turn.worker.h2.take().unwrap_or_default();
        let mut taken = Received { events: 0, more: false };
        self.tick(round);
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
        round.turn.worker.h2.set(Some(scratch));
        taken
    }

    /// Whether frames are taken although `out` is not sent.
    pub(in crate::http) fn reads(&self, out: &Out) -> bool {
        !self.over && out.composed() < JAM && out.pending() < AHEAD
    }

    /// Halves the counters of floods once a second, and looks for streams that stand still.
    fn tick(&mut self, round: &mut Round<'_>) {
        let now = round.turn.worker.pages.clock.at(round.turn.since);
        let ticks = (now.saturating_sub(self.ticked) / TICK).min(16);
        if ticks > 0 {
            (0..ticks).for_each(|_| self.codec.tick());
            self.ticked = now;
            self.weigh();
            let Turn { worker, config, .. } = &round.turn;
            let patience = config.settings.http.limits.send_timeout.as_millis() as Ms;
            for _ in 0..self.reset_stalled(patience, now, &mut round.buffers.out) {
                worker.pages.counters.timeouts.send.one();
            }
        }
    }

    /// `from`: the place in the buffer of the input that the event is of.
    fn event(&mut self, event: Event, from: usize, round: &mut Round<'_>, scratch: &mut Scratch) {
        let counters = &round.turn.worker.pages.counters;
        match event {
            Event::Request(request) => {
                counters.http2_requests.one();
                self.request(round, scratch, &request);
            }
            Event::TooLarge { stream, .. } => {
                let Scratch { work, out } = scratch;
                round.turn.refuse(&work.head, 431, "the request head is too large", out);
                self.answer(stream, out, &mut round.buffers.out);
            }
            Event::Malformed { .. } => {
                counters.http2_malformed.one();
                log::unread(round.turn.worker, round.turn.peer.address, 400, 0);
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
                match flood {
                    Some(flood) => counters.http2_floods.one(flood),
                    None => counters.http2_errors.one(),
                }
                self.over = true;
            }
            Event::More { .. } | Event::Writable | Event::Pong(_) => {}
        }
    }

    /// Answers a request, or leaves it to a task.
    fn request(&mut self, round: &mut Round<'_>, scratch: &mut Scratch, begun: &request::Request) {
        let Scratch { work, out } = scratch;
        let id = begun.stream;
        let asked = Begun { id: id.into(), version: Version::Http2, connect: begun.connect };
        match round.turn.request(&asked, &self.mail, &mut work.head, out) {
            Taken::Answered => self.answer(id, out, &mut round.buffers.out),
            Taken::Waits(stream) => self.streams.push(stream),
            Taken::Broken => {
                let out = round.buffers.out.scratch();
                self.codec.reset(id, ErrorCode::INTERNAL_ERROR, &self.limits, out);
            }
        }
    }
}
