//! A connection of HTTP/2 in its slot and its task: rounds, deadlines, its end.

use std::{io, rc::Rc};

use larder_proto::http2;

use super::{Round, Session, answers::stalled, requests::DRAIN};
use crate::{
    clock::Ms,
    counters::Timing,
    http::{
        conn::{Conn, Todo},
        streams::Turn,
        worker::Worker,
    },
    net::{
        out::Out,
        round::Work,
        slot::{Connection, Next},
        socket::{Ended, Pace, STALLED_AFTER},
    },
    request::pages::Config,
};

/// Milliseconds after which a connection without requests gives up memory that it can do without.
const QUIET_AFTER: Ms = 5000;

/// Memory of a round of HTTP/2 that is not counted: its tables, and a batch of small answers. A
/// connection without more takes no part in the account, so that hits cost none of it.
const ORDINARY: usize = 16 * 1024;

/// The wait that a connection at rest is in.
#[derive(Clone, Copy, Default)]
pub(super) enum Phase {
    /// No request is open, or all are with their tasks.
    #[default]
    Waiting,
    /// No request is open, and none has until then.
    Idle { until: Ms },
    /// The client has to take what was composed.
    Sending,
}

impl Conn {
    /// The client speaks HTTP/2.
    pub(in crate::http) fn begin_h2(&mut self) {
        let worker = &self.worker;
        let config = worker.pages.config();
        let buffers = self.buffers.get_or_insert_with(|| worker.conns.take_buffers());
        let (watch, now) = (&self.socket.watch, worker.pages.clock.now());
        self.h2 = Some(Session::new(&config.http2, watch, now, &mut buffers.out));
        worker.pages.counters.http2_connections.one();
    }

    /// Answers the received frames without waiting.
    pub(in crate::http) fn answer_h2(&mut self, began: u64) -> (Work, Next<Todo>) {
        let config = self.worker.pages.config();
        let mut work = Work { bytes: self.unread() as u64, ..Work::default() };
        let mut timing = self.worker.timing.take();
        let more = self.compose(&config, began, &mut timing, &mut work, true);
        if work.commands > 0 {
            // Its deadline is that of what comes next, even if it passed meanwhile.
            self.socket.watch.forgive();
        }
        let next = self.send_h2(&config, timing, more, &mut work);
        (work, next)
    }

    /// Sends what tasks have composed, and tells the client of the server's end.
    pub(in crate::http) fn attend_h2(&mut self) -> Next<Todo> {
        let Some(session) = &self.h2 else { return Next::Rest };
        let drains = self.worker.leaving() && !session.draining;
        if session.mail.is_empty() && !drains {
            return Next::Rest;
        }
        let config = self.worker.pages.config();
        let (mut timing, mut work) = (self.worker.timing.take(), Work::default());
        let since = self.worker.pages.clock.micros();
        let more = self.compose(&config, since, &mut timing, &mut work, true);
        self.send_h2(&config, timing, more, &mut work)
    }

    /// Takes frames and composes answers, their bodies only where `bodies`. True: there is more to
    /// do.
    fn compose(
        &mut self,
        config: &Rc<Config>,
        since: u64,
        timing: &mut Timing,
        work: &mut Work,
        bodies: bool,
    ) -> bool {
        let Self { worker, buffers, h2: Some(session), peer, .. } = self else {
            return false;
        };
        let buffers = buffers.get_or_insert_with(|| worker.conns.take_buffers());
        if worker.leaving() && !session.draining {
            session.draining = true;
            let out = buffers.out.scratch();
            session.codec.drain(out);
            session.codec.send_ping(DRAIN, out);
        }
        let most = config.settings.http.limits.pipeline;
        let turn = Turn { worker, config, peer: peer.clone(), since, timing };
        let mut round = Round { turn, buffers };
        let taken = session.take(&mut round, most);
        work.commands += taken.events;
        if session.over {
            return false;
        }
        session.take_mail(&mut buffers.out);
        let more = bodies && session.pump(&mut buffers.out);
        if !self.counts() {
            self.leave();
        }
        taken.more || more
    }

    /// Counts the memory that the client makes the server hold. False: there is no room for it.
    pub(in crate::http) fn counts(&self) -> bool {
        self.socket.watch.receives(&self.worker.pages.shared.room, self.held())
    }

    /// Bytes of memory behind the connection, besides the store's.
    fn held(&self) -> usize {
        let tls = self.socket.stream.tls_memory();
        let buffers = self.buffers.as_ref();
        let Some(session) = &self.h2 else {
            return tls + buffers.map_or(0, |buffers| buffers.buf.capacity());
        };
        let composing = session.mail.unread() + session.composed() as usize;
        let held = composing + session.codec.unfinished() + session.tables + tls;
        let Some(buffers) = buffers else { return held };
        (held + buffers.buf.capacity() + buffers.out.composed() as usize).saturating_sub(ORDINARY)
    }

    /// Begins the end of the connection.
    fn leave(&mut self) {
        let buffers = self.buffers.get_or_insert_with(|| self.worker.conns.take_buffers());
        if let Some(session) = &mut self.h2 {
            session.leave(&mut buffers.out);
        }
    }

    /// Sends what was composed without waiting. `more`: there is more to do.
    fn send_h2(
        &mut self,
        config: &Config,
        mut timing: Timing,
        more: bool,
        work: &mut Work,
    ) -> Next<Todo> {
        match self.send_in_round(work) {
            Ok(()) => {
                let now = self.settle(config, &mut timing);
                self.worker.timing.set(timing);
                self.flushed();
                if more { Next::Answer } else { self.rest_h2(config, now) }
            }
            Err(Ended::TimedOut) => Next::Task(Todo::Flush { timing, more }),
            Err(_) => Next::Close,
        }
    }

    /// All output was taken by the socket.
    fn flushed(&mut self) {
        if let Some(session) = &mut self.h2 {
            session.codec.flushed();
        }
    }

    /// The next step of a connection whose output is sent.
    fn rest_h2(&mut self, config: &Config, now: Ms) -> Next<Todo> {
        let unread = self.unread();
        let Self { worker, socket, buffers, h2: Some(session), .. } = self else {
            return Next::Close;
        };
        let open = session.codec.open_streams();
        if session.over || session.codec.is_drained() || (session.draining && open == 0) {
            if !session.over {
                self.leave();
            }
            return Next::Task(Todo::Close(Timing::default()));
        }
        let limits = &config.settings.http.limits;
        let watch = &socket.watch;
        let unsent = session.unsent() > 0;
        let partial = unread > 0 || session.codec.unfinished() > 0;
        watch.set_owes(unsent || partial);
        let head = if partial {
            let moved = buffers.as_ref().is_some_and(|buffers| buffers.at > 0);
            session.unfinished(moved, now + limits.header_timeout.as_millis() as Ms)
        } else {
            session.head = None;
            Ms::MAX
        };
        if unsent {
            watch.busy();
            session.phase = Phase::Sending;
            match session.wait_to_send(worker, now, limits.send_timeout.as_millis() as Ms) {
                Some(deadline) => watch.until(deadline.min(head)),
                None => {
                    worker.pages.counters.timeouts.send.one();
                    socket.reset();
                    return Next::Close;
                }
            }
        } else if open > 0 || partial {
            session.release(worker);
            session.phase = Phase::Waiting;
            watch.busy();
            if partial {
                watch.until(head);
            }
        } else {
            session.release(worker);
            let until = now + limits.idle_timeout.as_millis() as Ms;
            session.phase = Phase::Idle { until };
            watch.wait_idle(until.min(now + QUIET_AFTER));
        }
        // The tables of a connection without requests are looked at when it is quiet.
        let weighs = unsent || open > 0;
        if weighs {
            session.weigh();
        }
        match buffers {
            Some(buffers) if unread > 0 => {
                buffers.buf.drain(..buffers.at);
                buffers.at = 0;
            }
            _ => self.give_buffers(),
        }
        // The memory of sent answers is free.
        if (weighs || self.socket.watch.holds()) && !self.counts() {
            self.leave();
            return Next::Task(Todo::Close(Timing::default()));
        }
        Next::Rest
    }

    /// The deadline of a connection at rest has passed, or the server stops.
    pub(in crate::http) fn ended_h2(&mut self, ended: &Ended) -> Next<Todo> {
        let Self { worker, socket, h2: Some(session), .. } = self else { return Next::Close };
        let (watch, now) = (&socket.watch, worker.pages.clock.now());
        watch.forgive();
        let head = session.head.as_ref().map_or(Ms::MAX, |head| head.until);
        match (session.phase, ended) {
            // No other frame may come within a header block: the connection is of no use.
            (_, Ended::TimedOut) if now >= head => worker.pages.counters.timeouts.header.one(),
            (Phase::Idle { until }, Ended::TimedOut) if now < until => {
                session.codec.rest();
                session.weigh();
                watch.wait_idle(until);
                if self.counts() {
                    return Next::Rest;
                }
            }
            (Phase::Sending, Ended::TimedOut) => {
                let (held, of_all) = (stalled(&session.streams, now), &worker.conns.shared.stalled);
                if let Some(deadline) = session.stall.look(held, now, of_all) {
                    watch.until(deadline.min(head));
                    return Next::Rest;
                }
                worker.pages.counters.timeouts.send.one();
                socket.reset();
                return Next::Close;
            }
            _ => {}
        }
        self.leave();
        Next::Task(Todo::Close(Timing::default()))
    }

    /// Sends what the socket did not take at once, and receives meanwhile.
    pub(in crate::http) async fn flush_h2(
        &mut self,
        mut timing: Timing,
        mut more: bool,
    ) -> Result<Next<Todo>, Ended> {
        let worker = self.worker.clone();
        let config = worker.pages.config();
        let patience = config.settings.http.limits.send_timeout.as_millis() as Ms;
        let mut pace = Pace::new(worker.pages.clock, patience, &worker.conns.shared.stalled);
        self.socket.watch.forgive();
        if let Some(session) = &mut self.h2 {
            // The wait for the socket counts for itself.
            session.release(&worker);
            session.phase = Phase::Waiting;
        }
        let began = worker.pages.clock.now();
        self.socket.begin_turn(self.pending()).await;
        loop {
            let before = self.pending();
            match self.send_now() {
                Ok(()) => {
                    self.flushed();
                    break;
                }
                Err(Ended::TimedOut) => {}
                Err(ended) => return Err(ended),
            }
            if !self.counts() {
                return Err(Ended::Closed);
            }
            let (Some(session), Some(buffers)) = (&mut self.h2, &self.buffers) else { break };
            session.taken += before - buffers.out.pending();
            // A client that goes on sending is not to put off the end of its wait.
            let reads = !more
                && session.reads(&buffers.out)
                && worker.pages.clock.now() < began + STALLED_AFTER;
            let untaken = u64::MAX - session.taken;
            let pinned = || buffers.out.pinned() + session.pinned();
            let full = io::ErrorKind::WouldBlock.into();
            let ready = self.socket.ready_after(full, untaken, &pinned, &mut pace, reads).await;
            if matches!(ready, Err(Ended::TimedOut)) {
                worker.pages.counters.timeouts.send.one();
            }
            ready?;
            if reads && self.socket.stream.is_read_ready() {
                match self.receive() {
                    Next::Answer => {
                        let since = worker.pages.clock.micros();
                        let mut work = Work::default();
                        more = self.compose(&config, since, &mut timing, &mut work, false);
                    }
                    Next::Close => return Err(Ended::Closed),
                    Next::Rest | Next::Task(_) => {}
                }
            }
        }
        if self.socket.stream.has_unsent_tls() {
            self.socket.flush_tls(worker.pages.clock.now() + patience).await?;
        }
        let now = self.settle(&config, &mut timing);
        let session = self.h2.as_ref();
        // Bodies that windows allow by now were not looked at.
        let more = more || session.is_some_and(|session| session.codec.next().is_some());
        Ok(if more || self.unread() > 0 { Next::Answer } else { self.rest_h2(&config, now) })
    }
}

impl Session {
    /// The client may open no more streams, and is told which was the last. Nothing more is sent on
    /// those that are open: their memory is free.
    fn leave(&mut self, out: &mut Out) {
        (0..2).for_each(|_| self.codec.drain(out.scratch()));
        self.over = true;
        self.streams.drain(..).for_each(|stream| stream.close());
    }

    /// Returns when to look next at what waits for the client's windows; None: it holds too much.
    fn wait_to_send(&mut self, worker: &Worker, now: Ms, patience: Ms) -> Option<Ms> {
        let (streams, of_all) = (&self.streams, &worker.conns.shared.stalled);
        self.stall.wait(self.sent, || stalled(streams, now), now, patience, of_all)
    }

    /// The client is not stalled any more.
    pub(in crate::http) fn release(&mut self, worker: &Worker) {
        self.stall.release(&worker.conns.shared.stalled);
    }
}

/// Whether received bytes begin as HTTP/2 does. None: more are needed to tell.
pub(in crate::http) fn is_preface(received: &[u8]) -> Option<bool> {
    let length = received.len().min(http2::PREFACE.len());
    if received[..length] != http2::PREFACE[..length] {
        return Some(false);
    }
    (length == http2::PREFACE.len()).then_some(true)
}
