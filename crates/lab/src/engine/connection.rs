//! A connection of the generator: its pending requests and its buffers.

mod streams;

use std::{io, os::fd::AsFd};

use super::{
    HttpVersion,
    codec::{Answers, Outcome, Step},
    context::ThreadContext,
    http3::Http3,
    slots::Slots,
    socket::{Socket, watch},
    tally::Fault,
};

/// Consecutive reads from one connection before others get their turn.
const READS: usize = 16;
/// Capacity for the next bytes of an answer that is buffered.
const ROOM: usize = 16 << 10;

/// The carrier of requests and answers.
pub(super) enum Link {
    /// A stream of bytes.
    Stream(Socket),
    /// Streams of QUIC.
    Quic(Box<Http3>),
}

/// State of a connection.
pub(super) enum State {
    /// Not started, or between two attempts.
    Rest,
    Connecting(Link, u64),
    Open(Link),
    /// It has sent all its requests, or was given up.
    Done,
}

/// The next step of a connection after an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    /// Nothing.
    Stay,
    /// More may be readable.
    Again,
    /// The server closed it properly.
    Ended,
    /// It failed, and with it its pending requests.
    Failed(Fault),
}

/// A connection of the generator.
pub(super) struct Connection {
    pub(super) number: usize,
    pub(super) state: State,
    answers: Answers,
    slots: Slots,
    /// How many of the last requests in `slots` are not written to `out` yet, because there is no
    /// connection.
    unsent: usize,
    /// Requests that will follow after a think time.
    pub(super) thinking: usize,
    /// Requests it may still make.
    pub(super) left: Option<u64>,
    /// Whether it is listed as free: among connections without pending requests, and among others
    /// (open loop).
    pub(super) offered: [bool; 2],
    /// Consecutive failed attempts and answers.
    pub(super) failures: u32,
    /// It has received an answer since it was connected.
    pub(super) served: bool,
    out: Vec<u8>,
    written: usize,
    watches_out: bool,
    /// When a timer of QUIC is due.
    timer: Option<u64>,
    /// Buffer of an incomplete answer: its first `filled` bytes are valid.
    spill: Vec<u8>,
    filled: usize,
    need: usize,
}

impl Connection {
    pub(super) fn new(
        number: usize,
        depth: usize,
        left: Option<u64>,
        answers: Answers,
    ) -> Connection {
        Connection {
            number,
            state: State::Rest,
            answers,
            slots: Slots::new(depth),
            unsent: 0,
            thinking: 0,
            left,
            offered: [false; 2],
            served: false,
            failures: 0,
            out: Vec::new(),
            written: 0,
            watches_out: false,
            timer: None,
            spill: Vec::new(),
            filled: 0,
            need: 0,
        }
    }

    /// Whether another request may be made now.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.under_way() + self.thinking < self.slots.capacity()
            && self.left != Some(0)
            && match &self.state {
                State::Open(Link::Stream(_)) => self.answers.have_room(),
                State::Open(Link::Quic(http3)) => http3.has_room(),
                _ => true,
            }
    }

    /// Number of pending requests.
    #[inline]
    pub(super) fn under_way(&self) -> usize {
        self.slots.len()
    }

    /// Send time of the oldest request that was sent.
    #[inline]
    pub(super) fn oldest(&self) -> Option<u64> {
        let oldest = self.slots.nth(0).filter(|_| self.under_way() > self.unsent)?;
        Some(self.slots.get(oldest).sent)
    }

    /// Makes the next request, due at `due`; the next flush sends it if there is a connection.
    ///
    /// Returns false if the source is exhausted.
    #[inline]
    pub(super) fn load(&mut self, due: u64, context: &mut ThreadContext<'_>) -> bool {
        let Some(at) = self.slots.vacant() else { return false };
        let slot = self.slots.get_mut(at);
        if !context.next(&mut slot.operation) {
            return false;
        }
        slot.due = due;
        slot.sent = context.now;
        slot.counted = due >= context.counted_from;
        self.left = self.left.map(|left| left - 1);
        let encoded = if matches!(self.state, State::Open(_)) {
            self.ask(at, context)
        } else {
            // It is encoded again once there is a connection.
            let encoded = context.codec.encode(&slot.operation, &mut self.out);
            self.out.clear();
            self.unsent += usize::from(encoded);
            encoded
        };
        if encoded {
            self.slots.begin();
            context.under_way += 1;
        } else if self.slots.get(at).counted {
            context.tally.fault(Fault::BadKey);
        }
        true
    }

    /// Encodes the request in a slot for the open connection. False: the protocol cannot express
    /// it.
    #[inline]
    fn ask(&mut self, at: usize, context: &ThreadContext<'_>) -> bool {
        if let State::Open(Link::Quic(http3)) = &mut self.state {
            return http3.ask(at, &self.slots, &context.codec);
        }
        let operation = &self.slots.get(at).operation;
        self.answers.ask(&context.codec, at, operation, &mut self.out)
    }

    /// Starts connecting. True: connected at once.
    pub(super) fn dial(&mut self, context: &mut ThreadContext<'_>) -> io::Result<bool> {
        let plan = context.plan;
        if let (HttpVersion::Http3, Some(tls)) = (plan.version, &plan.tls) {
            let http3 = Http3::dial(context.address, tls)?;
            watch(http3.fd(), context.poll, self.number, false, true)?;
            self.state = State::Connecting(Link::Quic(Box::new(http3)), context.now);
            self.set_timer(context);
            return Ok(false);
        }
        let (socket, connected) = Socket::dial(context.address, plan.tls.as_ref())?;
        watch(socket.as_fd(), context.poll, self.number, !connected, true)?;
        self.watches_out = !connected;
        self.state = State::Connecting(Link::Stream(socket), context.now);
        Ok(connected)
    }

    /// Handles the result of connecting. True: requests can be sent.
    pub(super) fn connected(&mut self, context: &mut ThreadContext<'_>) -> io::Result<bool> {
        match std::mem::replace(&mut self.state, State::Rest) {
            State::Connecting(mut link, since) => {
                let connected = match &mut link {
                    Link::Stream(socket) => socket.connected(context.plan.version)?,
                    Link::Quic(http3) => http3.connected(&mut context.scratch)?,
                };
                if !connected {
                    self.state = State::Connecting(link, since);
                    self.set_timer(context);
                    return Ok(false);
                }
                if let (true, Link::Stream(socket)) = (self.watches_out, &link) {
                    watch(socket.as_fd(), context.poll, self.number, false, false)?;
                    self.watches_out = false;
                }
                self.state = State::Open(link);
                self.answers = context.codec.answers();
                self.answers.open(&mut self.out);
                self.served = false;
                self.encode_unsent(context);
            }
            other => self.state = other,
        }
        Ok(true)
    }

    /// Encodes the requests that waited for the connection.
    fn encode_unsent(&mut self, context: &mut ThreadContext<'_>) {
        for index in self.under_way() - self.unsent..self.under_way() {
            let Some(at) = self.slots.nth(index) else { break };
            self.slots.get_mut(at).sent = context.now;
            // Encoding succeeded when the request was made.
            self.ask(at, context);
        }
        self.unsent = 0;
    }

    /// Sends as much as the socket accepts.
    pub(super) fn flush(&mut self, context: &mut ThreadContext<'_>) -> NextStep {
        let socket = match &mut self.state {
            State::Open(Link::Stream(socket)) => socket,
            State::Open(Link::Quic(http3)) => {
                let flushed = http3.flush();
                self.set_timer(context);
                return flushed.map_or_else(
                    |error| NextStep::Failed(Fault::Broke(Fault::words(&error))),
                    |()| NextStep::Stay,
                );
            }
            _ => return NextStep::Stay,
        };
        while self.written < self.out.len() {
            match socket.write(&self.out[self.written..]) {
                Ok(Some(sent)) => {
                    self.written += sent;
                    context.sent(sent);
                }
                Ok(None) => return self.watch_out(context, true),
                Err(error) => return NextStep::Failed(Fault::Broke(Fault::words(&error))),
            }
        }
        self.out.clear();
        self.written = 0;
        match socket.drain() {
            Ok(all_sent) => self.watch_out(context, !all_sent),
            Err(error) => NextStep::Failed(Fault::Broke(Fault::words(&error))),
        }
    }

    /// Asks for the time when the socket takes more, or no longer.
    fn watch_out(&mut self, context: &ThreadContext<'_>, wanted: bool) -> NextStep {
        let State::Open(Link::Stream(socket)) = &self.state else { return NextStep::Stay };
        if std::mem::replace(&mut self.watches_out, wanted) != wanted
            && let Err(error) = watch(socket.as_fd(), context.poll, self.number, wanted, false)
        {
            return NextStep::Failed(Fault::Broke(Fault::words(&error)));
        }
        NextStep::Stay
    }

    /// Reads and handles answers. `ending`: read up to the announced end of the stream.
    pub(super) fn read(&mut self, context: &mut ThreadContext<'_>, ending: bool) -> NextStep {
        if matches!(self.state, State::Open(Link::Quic(_))) {
            return self.read_streams(context);
        }
        let next = self.read_answers(context, ending);
        if matches!(next, NextStep::Stay | NextStep::Again) {
            self.answers.reply(&mut self.out);
            if !self.out.is_empty() {
                let flushed = self.flush(context);
                return if flushed == NextStep::Stay { next } else { flushed };
            }
        }
        next
    }

    fn read_answers(&mut self, context: &mut ThreadContext<'_>, ending: bool) -> NextStep {
        for _ in 0..READS {
            let State::Open(Link::Stream(socket)) = &mut self.state else { return NextStep::Stay };
            let mut scratch = std::mem::take(&mut context.scratch);
            let direct = self.filled == 0;
            let enough = self.need.max(self.filled + ROOM);
            if !direct && self.spill.len() < enough {
                self.spill.resize(enough, 0);
            }
            let into = if direct { &mut scratch[..] } else { &mut self.spill[self.filled..] };
            // TLS gives less than it has.
            let ending = ending || socket.is_secure();
            let (room, taken) = (into.len(), socket.read(into));
            let bytes = match taken {
                Ok(Some(bytes)) if bytes > 0 => bytes,
                other => {
                    context.scratch = scratch;
                    return match other {
                        Ok(None) => NextStep::Stay,
                        Ok(Some(_)) => self.ended(context),
                        Err(error) => NextStep::Failed(Fault::Broke(Fault::words(&error))),
                    };
                }
            };
            context.tick();
            context.received(bytes);
            let next = if direct {
                let next = self.digest(&scratch[..bytes], context).map(|used| {
                    self.keep(&scratch[used..bytes]);
                });
                context.scratch = scratch;
                next
            } else {
                context.scratch = scratch;
                self.filled += bytes;
                self.gathered(context)
            };
            if let Err(next) = next {
                return next;
            }
            if bytes < room && !ending {
                return NextStep::Stay;
            }
        }
        NextStep::Again
    }

    /// Buffers the beginning of an answer.
    fn keep(&mut self, rest: &[u8]) {
        if self.spill.len() < rest.len() {
            self.spill.resize(rest.len(), 0);
        }
        self.spill[..rest.len()].copy_from_slice(rest);
        self.filled = rest.len();
    }

    /// Handles buffered answers once they may be complete.
    fn gathered(&mut self, context: &mut ThreadContext<'_>) -> Result<(), NextStep> {
        if self.filled < self.need {
            return Ok(());
        }
        let mut spill = std::mem::take(&mut self.spill);
        let taken = self.digest(&spill[..self.filled], context);
        if let Ok(used) = taken {
            spill.copy_within(used..self.filled, 0);
            self.filled -= used;
        }
        self.spill = spill;
        taken.map(|_| ())
    }

    /// Handles the answers in `bytes`; returns how many bytes were used.
    fn digest(&mut self, bytes: &[u8], context: &mut ThreadContext<'_>) -> Result<usize, NextStep> {
        let mut used = 0;
        self.need = 0;
        while used < bytes.len() {
            let oldest = self.slots.nth(0).filter(|_| self.under_way() > self.unsent);
            let (step, at) = match (&mut self.answers, oldest) {
                (Answers::Http2(http2), _) => {
                    let step = http2.take(&self.slots, &bytes[used..], &context.codec);
                    (step, http2.answered())
                }
                (_, None) => return Err(NextStep::Failed(Fault::Unasked)),
                (answers, Some(at)) => {
                    let operation = &self.slots.get(at).operation;
                    (answers.take(&context.codec, operation, &bytes[used..]), at)
                }
            };
            match step {
                Step::Need(need) => {
                    self.need = need;
                    break;
                }
                Step::Part(part) => used += part,
                Step::Over { used: last, outcome, keep } => {
                    used += last;
                    self.answered(at, outcome, context);
                    if !keep || context.plan.reconnect {
                        return Err(NextStep::Ended);
                    }
                }
                Step::Leave => return Err(NextStep::Ended),
                Step::Broken(why) => return Err(NextStep::Failed(Fault::Malformed(why))),
            }
        }
        Ok(used)
    }

    /// Completes the request of a slot.
    #[inline]
    fn answered(&mut self, at: usize, outcome: Outcome, context: &mut ThreadContext<'_>) {
        let slot = self.slots.get(at);
        self.failures = 0;
        self.served = true;
        if slot.counted {
            context.count(outcome, slot.due, slot.sent);
        }
        if !slot.operation.think.is_zero() && !context.open {
            self.thinking += 1;
            context.wake_after(self.number, slot.operation.think);
        }
        self.slots.end(at);
        context.under_way -= 1;
    }

    /// The server has closed the connection.
    fn ended(&mut self, context: &mut ThreadContext<'_>) -> NextStep {
        let oldest = self.slots.nth(0).filter(|_| self.under_way() > self.unsent);
        let Some(at) = oldest else { return NextStep::Ended };
        let was_cut = matches!(&self.state, State::Open(Link::Stream(socket)) if socket.was_cut());
        match self.answers.end(&context.codec, &self.slots.get(at).operation) {
            Some(outcome) if !was_cut => {
                self.answered(at, outcome, context);
                NextStep::Ended
            }
            _ => NextStep::Failed(Fault::Closed),
        }
    }

    /// Closes the connection; pending requests are sent again on the next connection, with their
    /// time running on.
    pub(super) fn close(&mut self) {
        self.state = State::Rest;
        self.unsent = self.under_way();
        self.out.clear();
        self.written = 0;
        self.filled = 0;
        self.need = 0;
        self.watches_out = false;
        self.timer = None;
    }

    /// Counts the pending requests as failed: the oldest with `fault`, the others as lost.
    pub(super) fn fail(&mut self, fault: &Fault, context: &mut ThreadContext<'_>) {
        if self.under_way() == 0 && *fault == Fault::Unasked && context.counting() {
            context.tally.fault(Fault::Unasked);
        }
        let mut fault = Some(fault.clone());
        while let Some(at) = self.slots.nth(0) {
            let why = fault.take().unwrap_or(Fault::Lost);
            if self.slots.get(at).counted {
                context.tally.fault(why);
            }
            self.slots.end(at);
            context.under_way -= 1;
        }
        self.close();
    }
}
