//! A connection: what is under way on it, and the bytes in both directions.

use std::io;

use super::{
    desk::Desk,
    socket::Socket,
    talk::{Answers, Outcome, Step},
    tally::Fault,
};
use crate::load::Ask;

/// Reads in a row from one connection, before others get their turn.
const READS: usize = 16;
/// Room for the next bytes of an answer that is gathered as a whole.
const ROOM: usize = 16 << 10;

/// A request under way. Its buffers serve one request after the other.
#[derive(Default)]
struct Slot {
    ask: Ask,
    due: u64,
    sent: u64,
    counted: bool,
}

/// What a connection is doing.
pub(super) enum State {
    /// Nothing: not begun, or between two attempts.
    Rest,
    Connecting(Socket, u64),
    Open(Socket),
    /// It has asked all it was to ask, or is given up.
    Done,
}

/// What has to be done with a connection after something happened on it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing.
    Stay,
    /// There may be more to read.
    Again,
    /// It ended in good order.
    Ended,
    /// It failed, and with it what was under way.
    Failed(Fault),
}

/// A connection.
pub(super) struct Conn {
    pub(super) number: usize,
    pub(super) state: State,
    answers: Answers,
    slots: Box<[Slot]>,
    head: usize,
    under_way: usize,
    /// Of these, the last so many have not been written to `out` yet: they wait for the connection.
    unsent: usize,
    /// Requests that will be made after their pause.
    pub(super) thinking: usize,
    /// Requests it may still make.
    pub(super) left: Option<u64>,
    /// Whether it stands in the lists of connections with room: of those with nothing under way, and of others (open loop).
    pub(super) offered: [bool; 2],
    /// Attempts and answers that failed in a row.
    pub(super) failures: u32,
    /// It has answered since it was made.
    pub(super) served: bool,
    out: Vec<u8>,
    written: usize,
    watches_out: bool,
    /// Bytes of an answer that is not complete: the first `filled` of these.
    spill: Vec<u8>,
    filled: usize,
    need: usize,
}

impl Conn {
    pub(super) fn new(number: usize, depth: usize, left: Option<u64>, answers: Answers) -> Conn {
        Conn {
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

    /// Requests under way.
    #[inline]
    pub(super) fn under_way(&self) -> usize {
        self.under_way
    }

    /// When the oldest request that was sent was sent.
    #[inline]
    pub(super) fn oldest(&self) -> Option<u64> {
        (self.under_way > self.unsent).then(|| self.slots[self.head].sent)
    }

    /// Makes the next request, due at `due`, and sends it with the next flush where there is a connection.
    ///
    /// False: the source has no more.
    #[inline]
    pub(super) fn load(&mut self, due: u64, desk: &mut Desk<'_>) -> bool {
        let at = (self.head + self.under_way) % self.slots.len();
        let slot = &mut self.slots[at];
        if !desk.next(&mut slot.ask) {
            return false;
        }
        slot.due = due;
        slot.sent = desk.now;
        slot.counted = due >= desk.counted_from;
        self.left = self.left.map(|left| left - 1);
        if desk.speech.ask(&slot.ask, &mut self.out) {
            if !matches!(self.state, State::Open(_)) {
                // Its bytes are made again once there is a connection.
                self.out.clear();
                self.unsent += 1;
            }
            self.under_way += 1;
            desk.under_way += 1;
        } else if slot.counted {
            desk.tally.fault(Fault::BadKey);
        }
        true
    }

    /// Begins to connect. True: it is connected at once.
    pub(super) fn dial(&mut self, desk: &mut Desk<'_>) -> io::Result<bool> {
        let (socket, connected) = Socket::dial(desk.address)?;
        socket.watch(desk.poll, self.number, !connected, true)?;
        self.watches_out = !connected;
        self.state = State::Connecting(socket, desk.now);
        Ok(connected)
    }

    /// The system says how connecting ended.
    pub(super) fn connected(&mut self, desk: &mut Desk<'_>) -> io::Result<()> {
        match std::mem::replace(&mut self.state, State::Rest) {
            State::Connecting(socket, _) => {
                socket.connected()?;
                if self.watches_out {
                    socket.watch(desk.poll, self.number, false, false)?;
                    self.watches_out = false;
                }
                self.state = State::Open(socket);
                self.answers = desk.speech.answers();
                self.served = false;
                self.say_unsent(desk);
            }
            other => self.state = other,
        }
        Ok(())
    }

    /// Writes the requests that waited for the connection.
    fn say_unsent(&mut self, desk: &mut Desk<'_>) {
        for index in self.under_way - self.unsent..self.under_way {
            let slot = &mut self.slots[(self.head + index) % desk.depth];
            slot.sent = desk.now;
            // It could be said when it was made.
            desk.speech.ask(&slot.ask, &mut self.out);
        }
        self.unsent = 0;
    }

    /// Sends what is to be sent, as far as the system takes it.
    pub(super) fn flush(&mut self, desk: &mut Desk<'_>) -> Next {
        let State::Open(socket) = &self.state else { return Next::Stay };
        while self.written < self.out.len() {
            match socket.write(&self.out[self.written..]) {
                Ok(Some(sent)) => {
                    self.written += sent;
                    desk.sent(sent);
                }
                Ok(None) => {
                    if !self.watches_out {
                        self.watches_out = true;
                        if let Err(error) = socket.watch(desk.poll, self.number, true, false) {
                            return Next::Failed(Fault::Broke(Fault::words(&error)));
                        }
                    }
                    return Next::Stay;
                }
                Err(error) => return Next::Failed(Fault::Broke(Fault::words(&error))),
            }
        }
        self.out.clear();
        self.written = 0;
        if std::mem::take(&mut self.watches_out)
            && let Err(error) = socket.watch(desk.poll, self.number, false, false)
        {
            return Next::Failed(Fault::Broke(Fault::words(&error)));
        }
        Next::Stay
    }

    /// Reads what is there and takes the answers out of it. `ending`: read on to the end that has been announced.
    pub(super) fn read(&mut self, desk: &mut Desk<'_>, ending: bool) -> Next {
        for _ in 0..READS {
            let State::Open(socket) = &self.state else { return Next::Stay };
            let mut scratch = std::mem::take(&mut desk.scratch);
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
                    desk.scratch = scratch;
                    return match other {
                        Ok(None) => Next::Stay,
                        Ok(Some(_)) => self.ended(desk),
                        Err(error) => Next::Failed(Fault::Broke(Fault::words(&error))),
                    };
                }
            };
            desk.tick();
            desk.received(bytes);
            let next = if direct {
                let next = self.digest(&scratch[..bytes], desk).map(|used| {
                    self.keep(&scratch[used..bytes]);
                });
                desk.scratch = scratch;
                next
            } else {
                desk.scratch = scratch;
                self.filled += bytes;
                self.gathered(desk)
            };
            if let Err(next) = next {
                return next;
            }
            if bytes < room && !ending {
                return Next::Stay;
            }
        }
        Next::Again
    }

    /// Keeps the beginning of an answer until the rest comes.
    fn keep(&mut self, rest: &[u8]) {
        if self.spill.len() < rest.len() {
            self.spill.resize(rest.len(), 0);
        }
        self.spill[..rest.len()].copy_from_slice(rest);
        self.filled = rest.len();
    }

    /// Takes answers out of what was gathered, once it can be enough.
    fn gathered(&mut self, desk: &mut Desk<'_>) -> Result<(), Next> {
        if self.filled < self.need {
            return Ok(());
        }
        let mut spill = std::mem::take(&mut self.spill);
        let taken = self.digest(&spill[..self.filled], desk);
        if let Ok(used) = taken {
            spill.copy_within(used..self.filled, 0);
            self.filled -= used;
        }
        self.spill = spill;
        taken.map(|_| ())
    }

    /// Takes answers out of `bytes`; how many were used.
    fn digest(&mut self, bytes: &[u8], desk: &mut Desk<'_>) -> Result<usize, Next> {
        let mut used = 0;
        self.need = 0;
        while used < bytes.len() {
            if self.under_way == self.unsent {
                return Err(Next::Failed(Fault::Unasked));
            }
            let slot = &self.slots[self.head];
            match self.answers.take(&desk.speech, &slot.ask, &bytes[used..]) {
                Step::Need(need) => {
                    self.need = need;
                    break;
                }
                Step::Part(part) => used += part,
                Step::Over { used: last, outcome, keep } => {
                    used += last;
                    self.answered(outcome, desk);
                    if !keep || desk.plan.reconnect {
                        return Err(Next::Ended);
                    }
                }
                Step::Broken(why) => return Err(Next::Failed(Fault::Malformed(why))),
            }
        }
        Ok(used)
    }

    /// The oldest request has its answer.
    #[inline]
    fn answered(&mut self, outcome: Outcome, desk: &mut Desk<'_>) {
        let slot = &self.slots[self.head];
        self.failures = 0;
        self.served = true;
        if slot.counted {
            desk.count(outcome, slot.due, slot.sent);
        }
        if !slot.ask.think.is_zero() && !desk.open {
            self.thinking += 1;
            desk.wake_after(self.number, slot.ask.think);
        }
        self.forget_oldest(desk);
    }

    fn forget_oldest(&mut self, desk: &mut Desk<'_>) {
        self.head = if self.head + 1 == self.slots.len() { 0 } else { self.head + 1 };
        self.under_way -= 1;
        desk.under_way -= 1;
    }

    /// The server has ended the connection.
    fn ended(&mut self, desk: &mut Desk<'_>) -> Next {
        if self.under_way == self.unsent {
            return Next::Ended;
        }
        match self.answers.end(&desk.speech, &self.slots[self.head].ask) {
            Some(outcome) => {
                self.answered(outcome, desk);
                Next::Ended
            }
            None => Next::Failed(Fault::Closed),
        }
    }

    /// Closes it in good order; what was asked and not answered is asked again on the next connection, and its time goes on.
    pub(super) fn close(&mut self) {
        self.state = State::Rest;
        self.unsent = self.under_way;
        self.out.clear();
        self.written = 0;
        self.filled = 0;
        self.need = 0;
        self.watches_out = false;
    }

    /// Counts what was under way as lost: the oldest by `fault`, the others with it.
    pub(super) fn fail(&mut self, fault: &Fault, desk: &mut Desk<'_>) {
        if self.under_way == 0 && *fault == Fault::Unasked && desk.counting() {
            desk.tally.fault(Fault::Unasked);
        }
        let mut fault = Some(fault.clone());
        while self.under_way > 0 {
            let why = fault.take().unwrap_or(Fault::Lost);
            if self.slots[self.head].counted {
                desk.tally.fault(why);
            }
            self.forget_oldest(desk);
        }
        self.close();
    }
}
