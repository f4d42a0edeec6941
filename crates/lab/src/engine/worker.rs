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
    codec::Codec,
    connection::{Connection, NextStep, State},
    context::{SCRATCH, ThreadContext, TimerAction},
    pacer::Pacer,
    pages::SeenPages,
    tally::{Fault, Tally},
};
use crate::load::{Operation, Source};

/// Most events taken at once.
const EVENTS: usize = 256;
/// Most requests of an open loop that wait in one thread for a free connection; more are counted as
/// lost. That is a second's worth at the highest rates: a server that far behind will not catch up.
pub(super) const QUEUE: usize = 1 << 20;
/// Longest interval between checks for overdue answers and for a stop, in nanoseconds.
const CHECK_INTERVAL: u64 = 20_000_000;
const SECOND: u64 = 1_000_000_000;
/// Longest wait for pending requests of a stopped run: a slow server must not delay Ctrl-C.
const STOPPING: u64 = SECOND;

/// A thread's report of a second.
pub(super) struct Report {
    pub(super) thread: usize,
    /// Number of the second since the warm-up.
    pub(super) second: u64,
    pub(super) tally: Tally,
    /// Present in the last report of a thread.
    pub(super) end: Option<FinalReport>,
}

/// A thread's final report.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FinalReport {
    /// Time of the last answer since the start.
    pub(super) last_answer: u64,
    /// Processor time of the thread while it counted.
    pub(super) cpu: Duration,
    /// Length of the counted time.
    pub(super) counted: Duration,
}

/// Parameters of a thread.
pub(super) struct ThreadSetup<'a> {
    pub(super) plan: &'a Plan,
    pub(super) thread: usize,
    pub(super) start: Instant,
    pub(super) pages: &'a SeenPages,
    pub(super) source: Box<dyn Source>,
    pub(super) reports: SyncSender<Report>,
}

/// Carries out one thread's share of a run.
pub(super) fn run(setup: ThreadSetup<'_>) -> Result<(), Error> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)
        .map_err(|error| Error::System { what: "make an event loop", source: error.into() })?;
    // Times are exact to microseconds. The default timer slack is 50 us; where it cannot be
    // changed, that is the error.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1000));
    Worker::new(setup, &poll).run()
}

/// One thread of a run.
pub(super) struct Worker<'a> {
    pub(super) context: ThreadContext<'a>,
    pub(super) connections: Vec<Connection>,
    pub(super) thread: usize,
    pub(super) pacer: Pacer,
    /// Due times of requests that wait for a free connection.
    pub(super) queue: VecDeque<u64>,
    /// Connections with room for another request (open loop): those without pending requests, and
    /// others.
    pub(super) free: [VecDeque<usize>; 2],
    /// Connections with bytes to send (open loop).
    pub(super) dirty: Vec<usize>,
    /// Connections with more to read.
    pub(super) again: Vec<usize>,
    /// Connections that may still make requests.
    pub(super) users: usize,
    /// Requests that given up connections could still have made.
    pub(super) given_up: u64,
    /// Requests that may still be made, of this thread's share.
    pub(super) budget: Option<u64>,
    pub(super) end: u64,
    /// Time at which the stop was noticed.
    stopped: Option<u64>,
    next_check: u64,
    second: u64,
    cpu_before: Option<(Duration, u64)>,
    reports: SyncSender<Report>,
    pub(super) random: SmallRng,
    pub(super) fatal: Option<io::Error>,
    pub(super) ever_connected: bool,
}

impl<'a> Worker<'a> {
    fn new(setup: ThreadSetup<'a>, poll: &'a OwnedFd) -> Worker<'a> {
        let (plan, thread) = (setup.plan, setup.thread);
        let pacer = Pacer::new(plan, thread);
        let codec = Codec::new(plan, setup.pages);
        let share = |whole: u64| {
            let threads = plan.threads as u64;
            whole / threads + u64::from((thread as u64) < whole % threads)
        };
        let users = share(plan.connections as u64) as usize;
        let connections = (0..users)
            .map(|n| Connection::new(n, plan.depth, plan.per_connection, codec.answers()))
            .collect();
        let counted_from = nanos(plan.warm_up);
        let context = ThreadContext {
            plan,
            address: &plan.address,
            poll: poll.as_fd(),
            codec,
            start: setup.start,
            now: 0,
            counted_from,
            open: pacer.is_open(),
            under_way: 0,
            tally: Tally::new(pacer.is_open()),
            scratch: vec![0; SCRATCH].into_boxed_slice(),
            answered: Vec::new(),
            actions: BinaryHeap::new(),
            last_answer: 0,
            source: setup.source,
            staged: None,
            spare: Operation::default(),
            dry: false,
        };
        Worker {
            context,
            connections,
            thread,
            pacer,
            queue: VecDeque::new(),
            free: [VecDeque::new(), VecDeque::new()],
            dirty: Vec::new(),
            again: Vec::new(),
            users,
            given_up: 0,
            budget: plan.until.requests.map(share),
            end: plan.until.time.map_or(u64::MAX, |time| counted_from.saturating_add(nanos(time))),
            stopped: None,
            next_check: 0,
            second: 0,
            cpu_before: None,
            reports: setup.reports,
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
            self.actions();
            self.look();
            if self.context.open {
                self.dispatch();
            }
            if self.is_finished() {
                break;
            }
            events.clear();
            match epoll::wait(
                self.context.poll,
                spare_capacity(&mut events),
                Some(&self.wait_time()),
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => {
                    return Err(Error::System { what: "wait for events", source: error.into() });
                }
            }
            self.context.tick();
            std::mem::swap(&mut turn, &mut self.again);
            for event in &events {
                let (flags, number) = (event.flags, event.data.u64() as usize);
                self.event(number, flags);
            }
            for number in turn.drain(..) {
                // Reads to the end of the data: a close that arrived meanwhile has been reported
                // already.
                self.event(number, epoll::EventFlags::IN | epoll::EventFlags::RDHUP);
            }
        }
        self.finish()
    }

    /// Starts connections spread over the ramp-up; threads alternate.
    fn begin(&mut self) {
        let plan = self.context.plan;
        let ramp = u128::from(nanos(plan.ramp_up));
        for number in 0..self.connections.len() {
            let place = (number * plan.threads + self.thread) as u128;
            let at = ramp * place / plan.connections.max(1) as u128;
            self.context.dial_at(number, at as u64);
        }
        self.context.tick();
    }

    fn finish(mut self) -> Result<(), Error> {
        if let Some(source) = self.fatal.take() {
            self.context.plan.stop.set();
            return Err(Error::Unreachable { address: self.context.address.to_string(), source });
        }
        if self.stopped.is_none() {
            self.count_unsent();
        }
        let now = self.context.now;
        let (cpu, counted) = match self.cpu_before {
            Some((before, from)) => (cpu_time().saturating_sub(before), now - from),
            None => (Duration::ZERO, 0),
        };
        let end = FinalReport {
            last_answer: self.context.last_answer,
            cpu,
            counted: Duration::from_nanos(counted),
        };
        let report = Report {
            thread: self.thread,
            second: self.second,
            tally: self.context.tally,
            end: Some(end),
        };
        // The receiver may be gone.
        let _ = self.reports.send(report);
        Ok(())
    }

    pub(super) fn no_more(&self) -> bool {
        self.context.now >= self.end
            || self.budget == Some(0)
            || self.context.dry
            || self.users == 0
    }

    fn is_finished(&self) -> bool {
        if self.stopped.is_some_and(|at| self.context.now > at + STOPPING) {
            return true;
        }
        self.no_more() && self.context.under_way == 0 && (self.users == 0 || !self.is_any_due())
    }

    fn wait_time(&mut self) -> Timespec {
        if !self.again.is_empty() {
            return Timespec { tv_sec: 0, tv_nsec: 0 };
        }
        let mut until = self.next_check;
        if let Some(action) = self.context.actions.peek() {
            until = until.min(action.0.0);
        }
        if self.context.open {
            // Work since the clock was read must not make the wait too long.
            self.context.tick();
            until = until.min(self.next_due().unwrap_or(u64::MAX));
        }
        let wait = until.saturating_sub(self.context.now);
        Timespec { tv_sec: (wait / SECOND) as i64, tv_nsec: (wait % SECOND) as i64 }
    }

    fn actions(&mut self) {
        while let Some(action) = self.context.actions.peek() {
            let (at, number, action) = action.0;
            if at > self.context.now {
                break;
            }
            self.context.actions.pop();
            match action {
                TimerAction::Dial => self.dial(number),
                TimerAction::Timer => {
                    if self.connections[number].is_timer(self.context.now) {
                        self.event(number, epoll::EventFlags::IN);
                    }
                }
                TimerAction::Operation => {
                    let connection = &mut self.connections[number];
                    connection.thinking -= 1;
                    match connection.state {
                        State::Open(_) => self.fill(number),
                        State::Rest if self.context.plan.reconnect => self.dial(number),
                        _ => {}
                    }
                }
            }
        }
    }

    /// Periodic work: seconds, overdue answers, stop.
    fn look(&mut self) {
        let now = self.context.now;
        if now < self.next_check {
            return;
        }
        let timeout = nanos(self.context.plan.timeout);
        self.next_check = now + CHECK_INTERVAL.min(timeout / 8).max(SECOND / 1000);
        if now < self.context.counted_from {
            self.next_check = self.next_check.min(self.context.counted_from);
        } else if self.cpu_before.is_none() {
            self.cpu_before = Some((cpu_time(), now));
        }
        if self.context.plan.stop.is_set() {
            self.stopped.get_or_insert(now);
            self.end = self.end.min(now);
        }
        self.tell_second();
        let second =
            self.context.counted_from.saturating_add((self.second + 1).saturating_mul(SECOND));
        self.next_check = self.next_check.min(second).max(now + 1);
        for number in 0..self.connections.len() {
            let connection = &self.connections[number];
            match connection.state {
                State::Connecting(_, since) if since + timeout < now => {
                    self.not_connected(number, &io::Error::from(io::ErrorKind::TimedOut));
                }
                State::Open(_) if connection.oldest().is_some_and(|sent| sent + timeout < now) => {
                    self.after(number, NextStep::Failed(Fault::Timeout));
                }
                _ => {}
            }
        }
    }

    fn tell_second(&mut self) {
        let Some(counted) = self.context.now.checked_sub(self.context.counted_from) else { return };
        let second = counted / SECOND;
        if second == self.second {
            return;
        }
        let fresh = Tally::new(self.context.open);
        let tally = std::mem::replace(&mut self.context.tally, fresh);
        let report = Report { thread: self.thread, second: self.second, tally, end: None };
        match self.reports.try_send(report) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => self.second = second,
            // Reported together with the next second.
            Err(TrySendError::Full(report)) => self.context.tally = report.tally,
        }
    }

    fn event(&mut self, number: usize, flags: epoll::EventFlags) {
        let connection = &mut self.connections[number];
        match connection.state {
            State::Connecting(..) => self.connected(number),
            State::Open(_) => {
                if flags.contains(epoll::EventFlags::OUT) {
                    let next = connection.flush(&mut self.context);
                    if next != NextStep::Stay {
                        return self.after(number, next);
                    }
                }
                let endings =
                    epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
                if flags.intersects(endings | epoll::EventFlags::IN) {
                    let next =
                        self.connections[number].read(&mut self.context, flags.intersects(endings));
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
