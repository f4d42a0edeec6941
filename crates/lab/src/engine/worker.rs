//! One thread of a run: an event loop over its connections.

use std::{
    collections::{BinaryHeap, VecDeque},
    io,
    os::fd::{AsFd, OwnedFd},
    sync::mpsc::{SyncSender, TrySendError},
    time::{Duration, Instant},
};

use rand::{SeedableRng, rngs::SmallRng};
use rustix::{
    buffer::spare_capacity,
    event::{Timespec, epoll},
    io::Errno,
    time::{ClockId, clock_gettime},
};

use super::{
    Error, Plan,
    conn::{Conn, Next, State},
    desk::{Chore, Desk, SCRATCH},
    pacer::Pacer,
    pages::Pages,
    talk::Speech,
    tally::{Fault, Tally},
};
use crate::load::{Ask, Source};

/// Events taken at once.
const EVENTS: usize = 256;
/// Requests of an open loop that wait in one thread for a free connection; more are counted as lost. At the highest rates a
/// second's worth: a server that far behind will not catch up.
pub(super) const QUEUE: usize = 1 << 20;
/// Longest time between two looks at answers that are overdue, and at whether the run is to stop.
const LOOK: u64 = 20_000_000;
const SECOND: u64 = 1_000_000_000;
/// A run that is stopped waits for the answers under way, but not longer: a slow server would hold whoever pressed Ctrl-C.
const STOPPING: u64 = SECOND;

/// What a thread tells while it runs.
pub(super) struct Report {
    pub(super) thread: usize,
    /// Since the warm-up.
    pub(super) second: u64,
    pub(super) tally: Tally,
    /// With the last report of a thread.
    pub(super) end: Option<End>,
}

/// What a thread tells in the end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct End {
    /// When the last answer came, since the start.
    pub(super) last_answer: u64,
    /// Processor time of the thread while it counted.
    pub(super) cpu: Duration,
    /// The time in which it counted.
    pub(super) counted: Duration,
}

/// What a thread begins with.
pub(super) struct Setup<'a> {
    pub(super) plan: &'a Plan,
    pub(super) thread: usize,
    pub(super) start: Instant,
    pub(super) pages: &'a Pages,
    pub(super) source: Box<dyn Source>,
    pub(super) tell: SyncSender<Report>,
}

/// Carries out one thread's share.
pub(super) fn run(setup: Setup<'_>) -> Result<(), Error> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)
        .map_err(|error| Error::System { what: "make an event loop", source: error.into() })?;
    // Times are kept to microseconds. Without this the system may be 50 us late; with an old one it is, and no more.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1000));
    Worker::new(setup, &poll).run()
}

/// One thread of a run.
pub(super) struct Worker<'a> {
    pub(super) desk: Desk<'a>,
    pub(super) conns: Vec<Conn>,
    pub(super) thread: usize,
    pub(super) pacer: Pacer,
    /// Times at which requests were due that no connection was free for.
    pub(super) queue: VecDeque<u64>,
    /// Connections with room for another request (open loop): those with nothing under way, and others.
    pub(super) free: [VecDeque<usize>; 2],
    /// Connections with something to send (open loop).
    pub(super) dirty: Vec<usize>,
    /// Connections with more to read.
    pub(super) again: Vec<usize>,
    /// Connections that may still ask.
    pub(super) users: usize,
    /// Requests that connections might still have asked when they were given up.
    pub(super) given_up: u64,
    /// Requests that may still be asked, of this thread's share.
    pub(super) budget: Option<u64>,
    pub(super) end: u64,
    /// When it was seen that the run is to stop.
    stopped: Option<u64>,
    next_look: u64,
    second: u64,
    cpu_before: Option<(Duration, u64)>,
    tell: SyncSender<Report>,
    pub(super) random: SmallRng,
    pub(super) fatal: Option<io::Error>,
    pub(super) ever_connected: bool,
}

impl<'a> Worker<'a> {
    fn new(setup: Setup<'a>, poll: &'a OwnedFd) -> Worker<'a> {
        let (plan, thread) = (setup.plan, setup.thread);
        let pacer = Pacer::new(plan, thread);
        let speech = Speech::new(plan, setup.pages);
        let share = |whole: u64| {
            let threads = plan.threads as u64;
            whole / threads + u64::from((thread as u64) < whole % threads)
        };
        let connections = share(plan.connections as u64) as usize;
        let conns = (0..connections)
            .map(|n| Conn::new(n, plan.depth, plan.per_connection, speech.answers()))
            .collect();
        let counted_from = nanos(plan.warm_up);
        let desk = Desk {
            plan,
            address: &plan.address,
            poll: poll.as_fd(),
            speech,
            start: setup.start,
            now: 0,
            counted_from,
            depth: plan.depth,
            open: pacer.is_open(),
            under_way: 0,
            tally: Tally::new(pacer.is_open()),
            scratch: vec![0; SCRATCH].into_boxed_slice(),
            chores: BinaryHeap::new(),
            last_answer: 0,
            source: setup.source,
            staged: None,
            spare: Ask::default(),
            dry: false,
        };
        Worker {
            desk,
            conns,
            thread,
            pacer,
            queue: VecDeque::new(),
            free: [VecDeque::new(), VecDeque::new()],
            dirty: Vec::new(),
            again: Vec::new(),
            users: connections,
            given_up: 0,
            budget: plan.until.requests.map(share),
            end: plan.until.time.map_or(u64::MAX, |time| counted_from.saturating_add(nanos(time))),
            stopped: None,
            next_look: 0,
            second: 0,
            cpu_before: None,
            tell: setup.tell,
            random: SmallRng::seed_from_u64(plan.seed.wrapping_add(thread as u64)),
            fatal: None,
            ever_connected: false,
        }
    }

    fn run(mut self) -> Result<(), Error> {
        self.begin();
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        let mut turn: Vec<usize> = Vec::new();
        while self.fatal.is_none() {
            self.chores();
            self.look();
            if self.desk.open {
                self.dispatch();
            }
            if self.is_finished() {
                break;
            }
            events.clear();
            match epoll::wait(self.desk.poll, spare_capacity(&mut events), Some(&self.wait_time())) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => {
                    return Err(Error::System { what: "wait for events", source: error.into() });
                }
            }
            self.desk.tick();
            std::mem::swap(&mut turn, &mut self.again);
            for event in &events {
                let (flags, number) = (event.flags, event.data.u64() as usize);
                self.event(number, flags);
            }
            for number in turn.drain(..) {
                // To the very end of what is there: an end that came meanwhile has been told already.
                self.event(number, epoll::EventFlags::IN | epoll::EventFlags::RDHUP);
            }
        }
        self.finish()
    }

    /// Connections begin, spread over the ramp-up; those of all threads take turns.
    fn begin(&mut self) {
        let plan = self.desk.plan;
        let ramp = u128::from(nanos(plan.ramp_up));
        for number in 0..self.conns.len() {
            let place = (number * plan.threads + self.thread) as u128;
            let at = ramp * place / plan.connections.max(1) as u128;
            self.desk.dial_at(number, at as u64);
        }
        self.desk.tick();
    }

    fn finish(mut self) -> Result<(), Error> {
        if let Some(source) = self.fatal.take() {
            self.desk.plan.stop.set();
            return Err(Error::Unreachable { address: self.desk.address.to_string(), source });
        }
        if self.stopped.is_none() {
            self.count_unsent();
        }
        let now = self.desk.now;
        let (cpu, counted) = match self.cpu_before {
            Some((before, from)) => (cpu_time().saturating_sub(before), now - from),
            None => (Duration::ZERO, 0),
        };
        let end = End { last_answer: self.desk.last_answer, cpu, counted: Duration::from_nanos(counted) };
        let report =
            Report { thread: self.thread, second: self.second, tally: self.desk.tally, end: Some(end) };
        // Whoever no longer listens has no use for it.
        let _ = self.tell.send(report);
        Ok(())
    }

    pub(super) fn no_more(&self) -> bool {
        self.desk.now >= self.end || self.budget == Some(0) || self.desk.dry || self.users == 0
    }

    fn is_finished(&self) -> bool {
        if self.stopped.is_some_and(|at| self.desk.now > at + STOPPING) {
            return true;
        }
        self.no_more() && self.desk.under_way == 0 && (self.users == 0 || !self.is_any_due())
    }

    fn wait_time(&mut self) -> Timespec {
        if !self.again.is_empty() {
            return Timespec { tv_sec: 0, tv_nsec: 0 };
        }
        let mut until = self.next_look;
        if let Some(chore) = self.desk.chores.peek() {
            until = until.min(chore.0.0);
        }
        if self.desk.open {
            // Work since the last look at the clock must not make us late.
            self.desk.tick();
            until = until.min(self.next_due().unwrap_or(u64::MAX));
        }
        let wait = until.saturating_sub(self.desk.now);
        Timespec { tv_sec: (wait / SECOND) as i64, tv_nsec: (wait % SECOND) as i64 }
    }

    fn chores(&mut self) {
        while let Some(chore) = self.desk.chores.peek() {
            let (at, number, chore) = chore.0;
            if at > self.desk.now {
                break;
            }
            self.desk.chores.pop();
            match chore {
                Chore::Dial => self.dial(number),
                Chore::Ask => {
                    let conn = &mut self.conns[number];
                    conn.thinking -= 1;
                    match conn.state {
                        State::Open(_) => self.fill(number),
                        State::Rest if self.desk.plan.reconnect => self.dial(number),
                        _ => {}
                    }
                }
            }
        }
    }

    /// From time to time: seconds, overdue answers, an end from outside.
    fn look(&mut self) {
        let now = self.desk.now;
        if now < self.next_look {
            return;
        }
        let timeout = nanos(self.desk.plan.timeout);
        self.next_look = now + LOOK.min(timeout / 8).max(SECOND / 1000);
        if now < self.desk.counted_from {
            self.next_look = self.next_look.min(self.desk.counted_from);
        } else if self.cpu_before.is_none() {
            self.cpu_before = Some((cpu_time(), now));
        }
        if self.desk.plan.stop.is_set() {
            self.stopped.get_or_insert(now);
            self.end = self.end.min(now);
        }
        self.tell_second();
        let second = self.desk.counted_from.saturating_add((self.second + 1).saturating_mul(SECOND));
        self.next_look = self.next_look.min(second).max(now + 1);
        for number in 0..self.conns.len() {
            let conn = &self.conns[number];
            match conn.state {
                State::Connecting(_, since) if since + timeout < now => {
                    self.not_connected(number, &io::Error::from(io::ErrorKind::TimedOut));
                }
                State::Open(_) if conn.oldest().is_some_and(|sent| sent + timeout < now) => {
                    self.after(number, Next::Failed(Fault::Timeout));
                }
                _ => {}
            }
        }
    }

    fn tell_second(&mut self) {
        let Some(counted) = self.desk.now.checked_sub(self.desk.counted_from) else { return };
        let second = counted / SECOND;
        if second == self.second {
            return;
        }
        let fresh = Tally::new(self.desk.open);
        let tally = std::mem::replace(&mut self.desk.tally, fresh);
        let report = Report { thread: self.thread, second: self.second, tally, end: None };
        match self.tell.try_send(report) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => self.second = second,
            // Told together with the next second.
            Err(TrySendError::Full(report)) => self.desk.tally = report.tally,
        }
    }

    fn event(&mut self, number: usize, flags: epoll::EventFlags) {
        let conn = &mut self.conns[number];
        match conn.state {
            State::Connecting(..) => self.connected(number),
            State::Open(_) => {
                if flags.contains(epoll::EventFlags::OUT) {
                    let next = conn.flush(&mut self.desk);
                    if next != Next::Stay {
                        return self.after(number, next);
                    }
                }
                let endings = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
                if flags.intersects(endings | epoll::EventFlags::IN) {
                    let next = self.conns[number].read(&mut self.desk, flags.intersects(endings));
                    self.after(number, next);
                }
            }
            State::Rest | State::Done => {}
        }
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 4)
}
