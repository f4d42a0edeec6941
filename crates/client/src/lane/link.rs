//! Requests out in batches, replies in, in order: the inner loop of a connection.
//!
//! One `poll` does three things until none of them moves: it takes what is in the queue (only when the last batch is sent, so
//! that what gathers meanwhile is the next batch), writes it, and reads. It reads while it writes: a server whose answers
//! nobody takes would take no requests. A reply whose caller has gone is read like any other.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::{Buf, Bytes, BytesMut};
use larder_proto::memcache::client::{Decoded, Replies, meta};
use tokio::{io::AsyncWrite, sync::OwnedSemaphorePermit, time::Sleep};

use super::{
    Jobs, Kind, Lane, closed,
    greet::Greeted,
    kind,
    out::Out,
    run::Run,
    stream::Stream,
    wire::{Dialect, Found, Step, Want, encode},
};
use crate::{
    Error, Item,
    op::{Answer, Op},
    peer::{Job, Told},
};

/// Most operations of a batch. What more there is goes with the next.
pub(crate) const BATCH: usize = 256;
/// Room for a read. A value that is larger says so, and gets a buffer of its size.
const READ: usize = 16 << 10;
/// Values up to this size get memory of their own: none keeps a whole read buffer from being used again.
const OWN: usize = 16 << 10;
/// Values up to this size share memory with others of the same answer,
const TOGETHER: usize = 512;
/// in pieces of at most this size: who keeps one of them keeps so much.
const PIECE: usize = 4096;
/// A single answer may take so many times what a server may be silent.
const SLOW: u32 = 10;

/// Why a connection is no more.
#[derive(Debug)]
pub(super) enum End {
    /// All clients are gone.
    Gone,
    /// The server ended it, and nobody waited.
    Idle,
    /// It failed; who waits is to be told.
    Failed(Error),
}

/// Who waits for a reply.
struct Waiting {
    want: Want,
    told: Told,
    kind: Kind,
    asked: Instant,
    sent: Instant,
    /// Its place in the queue.
    _place: OwnedSemaphorePermit,
}

pub(super) struct Link<'a> {
    lane: &'a Lane,
    stream: Stream,
    dialect: Dialect,
    replies: Replies,
    buffer: BytesMut,
    /// Memory for small values of the answer to several keys that is being read.
    piece: BytesMut,
    /// Bytes a reply needs that is not whole.
    need: usize,
    out: Out,
    waiting: VecDeque<Waiting>,
    run: Option<Run>,
    /// All clients are gone; what was asked is still answered.
    gone: bool,
    /// Since when the server is silent while somebody waits.
    heard: Instant,
    /// Since when the server takes nothing while there is something to send.
    wrote: Instant,
    /// Of `waiting`, the last so many: whose requests are being sent. 0 when all is sent.
    unsent: usize,
    /// What is being sent did not go out at once.
    stalled: bool,
    /// The stream may have something that it has not passed on.
    unflushed: bool,
    /// The server has answered on this connection.
    proven: bool,
    sleep: Pin<Box<Sleep>>,
    /// Until when it sleeps.
    armed: Option<Instant>,
}

impl<'a> Link<'a> {
    pub(super) fn new(lane: &'a Lane, greeted: Greeted) -> Link<'a> {
        let now = Instant::now();
        let binary = greeted.dialect == Dialect::Binary;
        Link {
            lane,
            stream: greeted.stream,
            dialect: greeted.dialect,
            replies: if binary { Replies::binary(lane.max_value) } else { Replies::new(lane.max_value) },
            buffer: greeted.buffer,
            piece: BytesMut::new(),
            need: 0,
            out: Out::default(),
            waiting: VecDeque::new(),
            run: None,
            gone: false,
            heard: now,
            wrote: now,
            unsent: 0,
            stalled: false,
            unflushed: false,
            proven: false,
            sleep: Box::pin(tokio::time::sleep(Duration::ZERO)),
            armed: None,
        }
    }

    /// Puts an operation into the batch.
    fn accept(&mut self, job: Job, now: Instant) {
        let Job { op, told, asked, place } = job;
        // Who does not wait any more before it is sent is not asked for.
        if matches!(&told, Told::Caller(caller) if caller.is_closed()) {
            return;
        }
        if self.waiting.is_empty() {
            self.heard = now;
        }
        if self.out.is_empty() {
            self.wrote = now;
        }
        let (kind, keys, asked) = (kind(&op), keys(&op), asked.unwrap_or(now));
        let quiet = self.dialect == Dialect::Meta && kind == Kind::Write && matches!(told, Told::Nobody);
        if !quiet {
            self.end_run(now);
        }
        let size = op.size();
        // The client has checked the key; the codec checks more in some protocols. Nothing is appended then.
        let Ok(want) = encode(self.dialect, quiet, op, self.lane.max_item, &mut self.out) else {
            return self.lane.finish(told, Err(Error::Key));
        };
        match kind {
            Kind::Read => self.lane.counters.lookups.add(keys),
            Kind::Write => self.lane.counters.writes.add(1),
            Kind::Other => {}
        }
        if quiet {
            self.extend_run(Run { count: 1, bytes: size, asked, place }, now);
        } else {
            self.wait(Waiting { want, told, kind, asked, sent: now, _place: place });
        }
    }

    fn extend_run(&mut self, one: Run, now: Instant) {
        let run = one.behind(self.run.take());
        let full = run.is_full();
        self.run = Some(run);
        if full {
            self.end_run(now);
        }
    }

    /// Puts a no-op behind the quiet operations so far.
    fn end_run(&mut self, now: Instant) {
        let Some(Run { count, asked, place, .. }) = self.run.take() else { return };
        meta::noop(self.out.head());
        let want = Want::Run { count, failed: 0 };
        self.wait(Waiting { want, told: Told::Nobody, kind: Kind::Write, asked, sent: now, _place: place });
    }

    fn wait(&mut self, waiting: Waiting) {
        self.waiting.push_back(waiting);
        self.unsent += 1;
    }

    /// Whether the server has answered on this connection.
    pub(super) fn proven(&self) -> bool {
        self.proven
    }

    /// Tells everyone who was sent.
    pub(super) fn fail(&mut self, error: &Error) {
        for waiting in self.waiting.drain(..) {
            self.lane.finish(waiting.told, Err(error.clone()));
        }
    }

    /// Until the connection ends.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, jobs: &mut Jobs<Job>) -> Poll<End> {
        loop {
            let taken = self.take(cx, jobs);
            if self.gone && self.waiting.is_empty() {
                return Poll::Ready(End::Gone);
            }
            let moved = match (self.write(cx), self.read(cx)) {
                (Err(end), _) | (_, Err(end)) => return Poll::Ready(end),
                (Ok(wrote), Ok(read)) => taken || wrote || read,
            };
            if !moved {
                break;
            }
        }
        match self.late(cx) {
            true => Poll::Ready(End::Failed(Error::Timeout)),
            false => Poll::Pending,
        }
    }

    fn take(&mut self, cx: &mut Context<'_>, jobs: &mut Jobs<Job>) -> bool {
        if self.gone || self.is_sending() {
            return false;
        }
        match jobs.poll(cx) {
            Poll::Pending => false,
            Poll::Ready(false) => {
                self.gone = true;
                false
            }
            Poll::Ready(true) => {
                let now = Instant::now();
                std::iter::from_fn(|| jobs.take()).take(BATCH).for_each(|job| self.accept(job, now));
                self.end_run(now);
                true
            }
        }
    }

    /// Whether there is something the server's side has not taken yet.
    fn is_sending(&self) -> bool {
        self.unflushed || !self.out.is_empty()
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Result<bool, End> {
        let mut moved = false;
        while !self.out.is_empty() {
            let stream = Pin::new(&mut self.stream);
            match self.out.pieces(|pieces| stream.poll_write_vectored(cx, pieces)) {
                Poll::Pending => break,
                Poll::Ready(Ok(0)) => return Err(self.broken(&io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(sent)) => {
                    self.out.sent(sent);
                    self.unflushed = true;
                    moved = true;
                }
                Poll::Ready(Err(error)) => return Err(self.unwritable(cx, &error)),
            }
        }
        if self.unflushed && self.out.is_empty() {
            match Pin::new(&mut self.stream).poll_flush(cx) {
                Poll::Pending => {}
                Poll::Ready(Ok(())) => self.unflushed = false,
                Poll::Ready(Err(error)) => return Err(self.unwritable(cx, &error)),
            }
        }
        if self.is_sending() {
            self.stalled = true;
            if moved {
                self.wrote = Instant::now();
            }
        } else if self.unsent > 0 {
            self.all_sent();
        }
        Ok(moved)
    }

    /// What the server said before it closed may explain it: a last read tells.
    fn unwritable(&mut self, cx: &mut Context<'_>, error: &io::Error) -> End {
        match self.read(cx) {
            Err(end) => end,
            Ok(_) => self.broken(error),
        }
    }

    /// The server has all of the batch: from now on it may be late with its answers.
    fn all_sent(&mut self) {
        if std::mem::take(&mut self.stalled) {
            let now = Instant::now();
            let before = self.waiting.len().saturating_sub(self.unsent);
            self.waiting.iter_mut().skip(before).for_each(|waiting| waiting.sent = now);
        }
        self.unsent = 0;
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Result<bool, End> {
        let mut moved = false;
        loop {
            let room = self.need.saturating_sub(self.buffer.len()).max(READ);
            self.buffer.reserve(room);
            let read = match self.receive(cx) {
                Poll::Pending => return Ok(moved),
                Poll::Ready(Err(error)) => return Err(self.broken(&error)),
                Poll::Ready(Ok(0)) => return Err(self.broken(&io::ErrorKind::UnexpectedEof.into())),
                Poll::Ready(Ok(read)) => read,
            };
            moved = read > 0;
            let now = Instant::now();
            self.heard = now;
            if self.buffer.len() >= self.need {
                self.replies(now)?;
            }
        }
    }

    /// One read into the free end of the buffer.
    fn receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let stream = std::pin::pin!(tokio::io::AsyncReadExt::read_buf(&mut self.stream, &mut self.buffer));
        stream.poll(cx)
    }

    /// All whole replies of the buffer.
    fn replies(&mut self, now: Instant) -> Result<(), End> {
        self.need = 0;
        let mut answered = false;
        while !self.buffer.is_empty() {
            let (step, used) = match self.replies.next(&self.buffer) {
                Decoded::Incomplete { need } => {
                    self.need = need;
                    break;
                }
                Decoded::Broken(why) => return Err(End::Failed(Error::Protocol(why.to_string()))),
                Decoded::Reply(reply, used) => match self.waiting.front_mut() {
                    Some(waiting) => (waiting.want.take(reply, &self.buffer), used),
                    None => {
                        let said = super::wire::words(format!("{reply:?} to nothing").as_bytes());
                        return Err(End::Failed(Error::Protocol(said)));
                    }
                },
            };
            let step = match step {
                Step::Value(at, found) => {
                    let open = self.waiting.front().map_or(1, |waiting| waiting.want.open());
                    let item = cut(&mut self.buffer, used, found, &mut self.piece, open);
                    self.waiting.front_mut().map_or(Step::More, |waiting| waiting.want.put(at, item))
                }
                step => {
                    self.buffer.advance(used);
                    step
                }
            };
            match step {
                Step::End(answer) => {
                    self.piece = BytesMut::new();
                    answered = true;
                    self.proven = true;
                    if self.answered(answer, now) {
                        self.lane.fleet.succeeded(self.lane.at);
                        return Err(self.broken(&io::ErrorKind::ConnectionAborted.into()));
                    }
                }
                Step::Astray(why) => return Err(End::Failed(Error::Protocol(why))),
                Step::More | Step::Value(..) => {}
            }
        }
        if answered {
            self.lane.fleet.succeeded(self.lane.at);
        }
        Ok(())
    }

    /// The first in the line has its answer. Whether the connection is to end for it: a server that does not understand a
    /// store may take the value for requests, and would answer those too.
    fn answered(&mut self, answer: Result<Answer, Error>, now: Instant) -> bool {
        let Some(waiting) = self.waiting.pop_front() else { return false };
        self.unsent = self.unsent.min(self.waiting.len());
        let counters = &self.lane.counters;
        let operations = if let Want::Run { count, .. } = waiting.want { count } else { 1 };
        counters.answered_together(operations, now.saturating_duration_since(waiting.asked));
        match &answer {
            Ok(Answer::Run { failed }) => counters.errors.add(*failed),
            Ok(Answer::Items(items)) if waiting.kind == Kind::Read => {
                let hits = items.iter().filter(|item| item.is_some()).count() as u64;
                counters.hits.add(hits);
                counters.misses.add(items.len() as u64 - hits);
            }
            Ok(_) => {}
            Err(_) => counters.errors.add(1),
        }
        let stores = matches!(waiting.want, Want::Stored { .. } | Want::Run { .. });
        let astray = stores && matches!(answer, Err(Error::Refused(_)));
        self.lane.finish(waiting.told, answer);
        astray && self.dialect != Dialect::Binary
    }

    fn broken(&self, error: &io::Error) -> End {
        if self.waiting.is_empty() { End::Idle } else { End::Failed(closed(error)) }
    }

    /// Whether the server is silent for too long; if not, this task is woken when it would be.
    fn late(&mut self, cx: &mut Context<'_>) -> bool {
        let timeouts = &self.lane.timeouts;
        let read = self.waiting.front().map(|waiting| match self.waiting.len() <= self.unsent {
            // It cannot be answered before it is sent.
            true => waiting.sent + timeouts.write * SLOW,
            false => (self.heard.max(waiting.sent) + timeouts.read).min(waiting.sent + timeouts.read * SLOW),
        });
        let write = self.is_sending().then(|| self.wrote + timeouts.write);
        let Some(until) = read.into_iter().chain(write).min() else { return false };
        // The timer is not asked while a server that never stops to talk takes all of this task's turn.
        if self.heard >= until {
            return true;
        }
        loop {
            // Answers move the end away all the time: the timer is left where it is until it rings.
            if self.armed.is_none_or(|armed| until < armed) {
                self.sleep.as_mut().reset(until.into());
                self.armed = Some(until);
            }
            if self.sleep.as_mut().poll(cx).is_pending() {
                return false;
            }
            self.armed = None;
            if Instant::now() >= until {
                return true;
            }
        }
    }
}

fn keys(op: &Op) -> u64 {
    match op {
        Op::Get { keys, .. } => keys.len() as u64,
        _ => 1,
    }
}

/// Takes a reply with its value out of the buffer. `open`: how many values of its answer may still come, this among them;
/// `piece`: what such small ones share.
fn cut(buffer: &mut BytesMut, used: usize, found: Found, piece: &mut BytesMut, open: usize) -> Item {
    let Found { flags, cas, at } = found;
    let len = at.len();
    if len > OWN {
        return Item { value: buffer.split_to(used).freeze().slice(at), flags, cas };
    }
    let bytes = buffer.get(at).unwrap_or_default();
    let value = if len <= TOGETHER && (open > 1 || piece.capacity() >= len) {
        if piece.capacity() < len {
            // As much as all that follow take, when they are as large.
            *piece = BytesMut::with_capacity(len.saturating_mul(open).min(PIECE));
        }
        piece.extend_from_slice(bytes);
        piece.split().freeze()
    } else {
        Bytes::copy_from_slice(bytes)
    };
    buffer.advance(used);
    Item { value, flags, cas }
}
