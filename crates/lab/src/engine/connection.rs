//! A connection of the generator: its pending requests and its buffers.

use std::io;

use super::{
    codec::{Answers, Outcome, Step},
    context::ThreadContext,
    socket::Socket,
    tally::Fault,
};
use crate::load::Operation;

/// Consecutive reads from one connection before others get their turn.
const READS: usize = 16;
/// Capacity for the next bytes of an answer that is buffered.
const ROOM: usize = 16 << 10;

/// A pending request. Its buffers are reused.
#[derive(Default)]
struct Slot {
    operation: Operation,
    due: u64,
    sent: u64,
    counted: bool,
}

/// State of a connection.
pub(super) enum State {
    /// Not started, or between two attempts.
    Rest,
    Connecting(Socket, u64),
    Open(Socket),
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
    slots: Box<[Slot]>,
    head: usize,
    under_way: usize,
    /// How many of the last entries of `slots` are not written to `out` yet, because there is no
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
            slots: (0..depth).map(|_| Slot::default()).collect(),
            head: 0,
            under_way: 0,
            unsent: 0,
            thinking: 0,
            left,
            offered: [false; 2],
            served: false,
            failures: 0,
            out: Vec::new(),
            written: 0,
            watches_out: false,
            spill: Vec::new(),
            filled: 0,
            need: 0,
        }
    }

    /// Whether another request may be made now.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.under_way + self.thinking < self.slots.len() && self.left != Some(0)
    }

    /// Number of pending requests.
    #[inline]
    pub(super) fn under_way(&self) -> usize {
        self.under_way
    }

    /// Send time of the oldest request that was sent.
    #[inline]
    pub(super) fn oldest(&self) -> Option<u64> {
        (self.under_way > self.unsent).then(|| self.slots[self.head].sent)
    }

    /// Makes the next request, due at `due`; the next flush sends it if there is a connection.
    ///
    /// Returns false if the source is exhausted.
    #[inline]
    pub(super) fn load(&mut self, due: u64, context: &mut ThreadContext<'_>) -> bool {
        let at = (self.head + self.under_way) % self.slots.len();
        let slot = &mut self.slots[at];
        if !context.next(&mut slot.operation) {
            return false;
        }
        slot.due = due;
        slot.sent = context.now;
        slot.counted = due >= context.counted_from;
        self.left = self.left.map(|left| left - 1);
        if context.codec.encode(&slot.operation, &mut self.out) {
            if !matches!(self.state, State::Open(_)) {
                // It is encoded again once there is a connection.
                self.out.clear();
                self.unsent += 1;
            }
            self.under_way += 1;
            context.under_way += 1;
        } else if slot.counted {
            context.tally.fault(Fault::BadKey);
        }
        true
    }

    /// Starts connecting. True: connected at once.
    pub(super) fn dial(&mut self, context: &mut ThreadContext<'_>) -> io::Result<bool> {
        let (socket, connected) = Socket::dial(context.address)?;
        socket.watch(context.poll, self.number, !connected, true)?;
        self.watches_out = !connected;
        self.state = State::Connecting(socket, context.now);
        Ok(connected)
    }

    /// Handles the result of connecting.
    pub(super) fn connected(&mut self, context: &mut ThreadContext<'_>) -> io::Result<()> {
        match std::mem::replace(&mut self.state, State::Rest) {
            State::Connecting(socket, _) => {
                socket.connected()?;
                if self.watches_out {
                    socket.watch(context.poll, self.number, false, false)?;
                    self.watches_out = false;
                }
                self.state = State::Open(socket);
                self.answers = context.codec.answers();
                self.served = false;
                self.encode_unsent(context);
            }
            other => self.state = other,
        }
        Ok(())
    }

    /// Encodes the requests that waited for the connection.
    fn encode_unsent(&mut self, context: &mut ThreadContext<'_>) {
        for index in self.under_way - self.unsent..self.under_way {
            let slot = &mut self.slots[(self.head + index) % context.depth];
            slot.sent = context.now;
            // Encoding succeeded when the request was made.
            context.codec.encode(&slot.operation, &mut self.out);
        }
        self.unsent = 0;
    }

    /// Sends as much as the socket accepts.
    pub(super) fn flush(&mut self, context: &mut ThreadContext<'_>) -> NextStep {
        let State::Open(socket) = &self.state else { return NextStep::Stay };
        while self.written < self.out.len() {
            match socket.write(&self.out[self.written..]) {
                Ok(Some(sent)) => {
                    self.written += sent;
                    context.sent(sent);
                }
                Ok(None) => {
                    if !self.watches_out {
                        self.watches_out = true;
                        if let Err(error) = socket.watch(context.poll, self.number, true, false) {
                            return NextStep::Failed(Fault::Broke(Fault::words(&error)));
                        }
                    }
                    return NextStep::Stay;
                }
                Err(error) => return NextStep::Failed(Fault::Broke(Fault::words(&error))),
            }
        }
        self.out.clear();
        self.written = 0;
        if std::mem::take(&mut self.watches_out)
            && let Err(error) = socket.watch(context.poll, self.number, false, false)
        {
            return NextStep::Failed(Fault::Broke(Fault::words(&error)));
        }
        NextStep::Stay
    }

    /// Reads and handles answers. `ending`: read up to the announced end of the stream.
    pub(super) fn read(&mut self, context: &mut ThreadContext<'_>, ending: bool) -> NextStep {
        for _ in 0..READS {
            let State::Open(socket) = &self.state else { return NextStep::Stay };
            let mut scratch = std::mem::take(&mut context.scratch);
            let direct = self.filled == 0;
            let enough = self.need.max(self.filled + ROOM);
            if !direct && self.spill.len() < enough {
                self.spill.resize(enough, 0);
            }
            let into = if direct { &mut scratch[..] } else { &mut self.spill[self.filled..] };
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
            if self.under_way == self.unsent {
                return Err(NextStep::Failed(Fault::Unasked));
            }
            let slot = &self.slots[self.head];
            match self.answers.take(&context.codec, &slot.operation, &bytes[used..]) {
                Step::Need(need) => {
                    self.need = need;
                    break;
                }
                Step::Part(part) => used += part,
                Step::Over { used: last, outcome, keep } => {
                    used += last;
                    self.answered(outcome, context);
                    if !keep || context.plan.reconnect {
                        return Err(NextStep::Ended);
                    }
                }
                Step::Broken(why) => return Err(NextStep::Failed(Fault::Malformed(why))),
            }
        }
        Ok(used)
    }

    /// Completes the oldest request.
    #[inline]
    fn answered(&mut self, outcome: Outcome, context: &mut ThreadContext<'_>) {
        let slot = &self.slots[self.head];
        self.failures = 0;
        self.served = true;
        if slot.counted {
            context.count(outcome, slot.due, slot.sent);
        }
        if !slot.operation.think.is_zero() && !context.open {
            self.thinking += 1;
            context.wake_after(self.number, slot.operation.think);
        }
        self.forget_oldest(context);
    }

    fn forget_oldest(&mut self, context: &mut ThreadContext<'_>) {
        self.head = if self.head + 1 == self.slots.len() { 0 } else { self.head + 1 };
        self.under_way -= 1;
        context.under_way -= 1;
    }

    /// The server has closed the connection.
    fn ended(&mut self, context: &mut ThreadContext<'_>) -> NextStep {
        if self.under_way == self.unsent {
            return NextStep::Ended;
        }
        match self.answers.end(&context.codec, &self.slots[self.head].operation) {
            Some(outcome) => {
                self.answered(outcome, context);
                NextStep::Ended
            }
            None => NextStep::Failed(Fault::Closed),
        }
    }

    /// Closes the connection; pending requests are sent again on the next connection, with their
    /// time running on.
    pub(super) fn close(&mut self) {
        self.state = State::Rest;
        self.unsent = self.under_way;
        self.out.clear();
        self.written = 0;
        self.filled = 0;
        self.need = 0;
        self.watches_out = false;
    }

    /// Counts the pending requests as failed: the oldest with `fault`, the others as lost.
    pub(super) fn fail(&mut self, fault: &Fault, context: &mut ThreadContext<'_>) {
        if self.under_way == 0 && *fault == Fault::Unasked && context.counting() {
            context.tally.fault(Fault::Unasked);
        }
        let mut fault = Some(fault.clone());
        while self.under_way > 0 {
            let why = fault.take().unwrap_or(Fault::Lost);
            if self.slots[self.head].counted {
                context.tally.fault(why);
            }
            self.forget_oldest(context);
        }
        self.close();
    }
}
