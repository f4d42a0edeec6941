//! The loop of a connection: requests go out in batches, replies come back in order.
//!
//! One `poll` repeats three steps until none makes progress: it takes operations from the queue
//! (only when the last batch is sent, so that operations that gather meanwhile form the next
//! batch), writes, and reads. It reads while it writes: a server whose replies are not read stops
//! reading requests. A reply whose caller is gone is read and dropped.

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
    handshake::ReadyConnection,
    kind,
    quiet::QuietRun,
    send::SendBuffer,
    stream::Stream,
    wire::{Dialect, Found, ReplyState, Step, encode},
};
use crate::{
    Error, Item,
    op::{Answer, Op},
    peer::{Job, ReplyTo},
};

/// Most operations in a batch. More go into the next one.
pub(crate) const BATCH: usize = 256;
/// Capacity reserved for a read. A larger value gets a buffer of its announced size.
const READ: usize = 16 << 10;
/// Values up to this size are copied out, so that they do not keep a whole read buffer in use.
const OWN: usize = 16 << 10;
/// Values up to this size share memory with others of the same answer,
const TOGETHER: usize = 512;
/// in chunks of at most this size, which is also the most that one retained value keeps allocated.
const PIECE: usize = 4096;
/// Total time allowed for a single answer, in multiples of the read timeout.
const SLOW: u32 = 10;

/// Why a connection ended.
#[derive(Debug)]
pub(super) enum EndReason {
    /// All clients are dropped.
    Gone,
    /// The server closed it while no request was pending.
    Idle,
    /// It failed; pending requests get this error.
    Failed(Error),
}

/// A request that waits for its reply.
struct PendingReply {
    want: ReplyState,
    reply_to: ReplyTo,
    kind: Kind,
    asked: Instant,
    sent: Instant,
    /// Its permit of the queue, released with the answer.
    _permit: OwnedSemaphorePermit,
}

pub(super) struct Pipeline<'a> {
    lane: &'a Lane,
    stream: Stream,
    dialect: Dialect,
    replies: Replies,
    buffer: BytesMut,
    /// Chunk that the small values of the current multi-key answer share.
    piece: BytesMut,
    /// Bytes the incomplete reply needs before it can be parsed.
    need: usize,
    out: SendBuffer,
    waiting: VecDeque<PendingReply>,
    run: Option<QuietRun>,
    /// All clients are dropped; pending requests are still answered.
    gone: bool,
    /// Time of the last byte received, or since a reply is awaited.
    heard: Instant,
    /// Time of the last byte written, or since there is something to write.
    wrote: Instant,
    /// How many of the last entries of `waiting` have requests not yet fully sent; 0 when all are
    /// sent.
    unsent: usize,
    /// The batch being sent did not go out in one write.
    stalled: bool,
    /// The stream may hold bytes it has not passed on.
    unflushed: bool,
    /// The server has replied on this connection.
    proven: bool,
    sleep: Pin<Box<Sleep>>,
    /// The time `sleep` is set to.
    armed: Option<Instant>,
}

impl<'a> Pipeline<'a> {
    pub(super) fn new(lane: &'a Lane, ready: ReadyConnection) -> Pipeline<'a> {
        let now = Instant::now();
        let binary = ready.dialect == Dialect::Binary;
        Pipeline {
            lane,
            stream: ready.stream,
            dialect: ready.dialect,
            replies: if binary {
                Replies::binary(lane.max_value)
            } else {
                Replies::new(lane.max_value)
            },
            buffer: ready.buffer,
            piece: BytesMut::new(),
            need: 0,
            out: SendBuffer::default(),
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

    /// Adds an operation to the batch.
    fn accept(&mut self, job: Job, now: Instant) {
        let Job { op, reply_to, asked, permit } = job;
        // An operation whose caller has left is not sent.
        if matches!(&reply_to, ReplyTo::Caller(caller) if caller.is_closed()) {
            return;
        }
        if self.waiting.is_empty() {
            self.heard = now;
        }
        if self.out.is_empty() {
            self.wrote = now;
        }
        let (kind, keys, asked) = (kind(&op), keys(&op), asked.unwrap_or(now));
        let quiet = self.dialect == Dialect::Meta
            && kind == Kind::Write
            && matches!(reply_to, ReplyTo::Nobody);
        if !quiet {
            self.end_run(now);
        }
        let size = op.size();
        // The client has checked the key; in some protocols the codec checks more. On error nothing
        // is appended.
        let Ok(want) = encode(self.dialect, quiet, op, self.lane.max_item, &mut self.out) else {
            return self.lane.finish(reply_to, Err(Error::Key));
        };
        match kind {
            Kind::Read => self.lane.counters.lookups.add(keys),
            Kind::Write => self.lane.counters.writes.add(1),
            Kind::Other => {}
        }
        if quiet {
            self.extend_run(QuietRun { count: 1, bytes: size, asked, permit }, now);
        } else {
            self.wait(PendingReply { want, reply_to, kind, asked, sent: now, _permit: permit });
        }
    }

    fn extend_run(&mut self, one: QuietRun, now: Instant) {
        let run = one.behind(self.run.take());
        let full = run.is_full();
        self.run = Some(run);
        if full {
            self.end_run(now);
        }
    }

    /// Adds a no-op after the quiet operations so far.
    fn end_run(&mut self, now: Instant) {
        let Some(QuietRun { count, asked, permit, .. }) = self.run.take() else { return };
        meta::noop(self.out.head());
        let want = ReplyState::QuietRun { count, failed: 0 };
        self.wait(PendingReply {
            want,
            reply_to: ReplyTo::Nobody,
            kind: Kind::Write,
            asked,
            sent: now,
            _permit: permit,
        });
    }

    fn wait(&mut self, waiting: PendingReply) {
        self.waiting.push_back(waiting);
        self.unsent += 1;
    }

    /// Whether the server has replied on this connection.
    pub(super) fn proven(&self) -> bool {
        self.proven
    }

    /// Fails all pending requests.
    pub(super) fn fail(&mut self, error: &Error) {
        for waiting in self.waiting.drain(..) {
            self.lane.finish(waiting.reply_to, Err(error.clone()));
        }
    }

    /// Runs until the connection ends.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, jobs: &mut Jobs<Job>) -> Poll<EndReason> {
        loop {
            let taken = self.take(cx, jobs);
            if self.gone && self.waiting.is_empty() {
                return Poll::Ready(EndReason::Gone);
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
            true => Poll::Ready(EndReason::Failed(Error::Timeout)),
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
                std::iter::from_fn(|| jobs.take())
                    .take(BATCH)
                    .for_each(|job| self.accept(job, now));
                self.end_run(now);
                true
            }
        }
    }

    /// Whether there are bytes the socket has not accepted yet.
    fn is_sending(&self) -> bool {
        self.unflushed || !self.out.is_empty()
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Result<bool, EndReason> {
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

    /// A last read: the server may have sent an explanation before it closed.
    fn unwritable(&mut self, cx: &mut Context<'_>, error: &io::Error) -> EndReason {
        match self.read(cx) {
            Err(end) => end,
            Ok(_) => self.broken(error),
        }
    }

    /// The batch is sent: the read timeout starts.
    fn all_sent(&mut self) {
        if std::mem::take(&mut self.stalled) {
            let now = Instant::now();
            let before = self.waiting.len().saturating_sub(self.unsent);
            self.waiting.iter_mut().skip(before).for_each(|waiting| waiting.sent = now);
        }
        self.unsent = 0;
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Result<bool, EndReason> {
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

    /// One read into the spare capacity of the buffer.
    fn receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let stream =
            std::pin::pin!(tokio::io::AsyncReadExt::read_buf(&mut self.stream, &mut self.buffer));
        stream.poll(cx)
    }

    /// Handles all complete replies in the buffer.
    fn replies(&mut self, now: Instant) -> Result<(), EndReason> {
        self.need = 0;
        let mut answered = false;
        while !self.buffer.is_empty() {
            let (step, used) = match self.replies.next(&self.buffer) {
                Decoded::Incomplete { need } => {
                    self.need = need;
                    break;
                }
                Decoded::Broken(why) => {
                    return Err(EndReason::Failed(Error::Protocol(why.to_string())));
                }
                Decoded::Reply(reply, used) => match self.waiting.front_mut() {
                    Some(waiting) => (waiting.want.take(reply, &self.buffer), used),
                    None => {
                        let reply_text =
                            super::wire::words(format!("{reply:?} to nothing").as_bytes());
                        return Err(EndReason::Failed(Error::Protocol(reply_text)));
                    }
                },
            };
            let step = match step {
                Step::Value(at, found) => {
                    let open = self.waiting.front().map_or(1, |waiting| waiting.want.open());
                    let item = cut(&mut self.buffer, used, found, &mut self.piece, open);
                    self.waiting
                        .front_mut()
                        .map_or(Step::More, |waiting| waiting.want.put(at, item))
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
                Step::Mismatch(why) => return Err(EndReason::Failed(Error::Protocol(why))),
                Step::More | Step::Value(..) => {}
            }
        }
        if answered {
            self.lane.fleet.succeeded(self.lane.at);
        }
        Ok(())
    }

    /// Finishes the first pending request. Returns whether the connection must end: a server that
    /// did not understand a store may parse its value as requests and answer those.
    fn answered(&mut self, answer: Result<Answer, Error>, now: Instant) -> bool {
        let Some(waiting) = self.waiting.pop_front() else { return false };
        self.unsent = self.unsent.min(self.waiting.len());
        let counters = &self.lane.counters;
        let operations =
            if let ReplyState::QuietRun { count, .. } = waiting.want { count } else { 1 };
        counters.answered_together(operations, now.saturating_duration_since(waiting.asked));
        match &answer {
            Ok(Answer::QuietRun { failed }) => counters.errors.add(*failed),
            Ok(Answer::Items(items)) if waiting.kind == Kind::Read => {
                let hits = items.iter().filter(|item| item.is_some()).count() as u64;
                counters.hits.add(hits);
                counters.misses.add(items.len() as u64 - hits);
            }
            Ok(_) => {}
            Err(_) => counters.errors.add(1),
        }
        let stores =
            matches!(waiting.want, ReplyState::Stored { .. } | ReplyState::QuietRun { .. });
        let astray = stores && matches!(answer, Err(Error::Refused(_)));
        self.lane.finish(waiting.reply_to, answer);
        astray && self.dialect != Dialect::Binary
    }

    fn broken(&self, error: &io::Error) -> EndReason {
        if self.waiting.is_empty() { EndReason::Idle } else { EndReason::Failed(closed(error)) }
    }

    /// Whether a timeout has passed; if not, sets the timer for it.
    fn late(&mut self, cx: &mut Context<'_>) -> bool {
        let timeouts = &self.lane.timeouts;
        let read = self.waiting.front().map(|waiting| match self.waiting.len() <= self.unsent {
            // A request that is not fully sent cannot be answered.
            true => waiting.sent + timeouts.write * SLOW,
            false => (self.heard.max(waiting.sent) + timeouts.read)
                .min(waiting.sent + timeouts.read * SLOW),
        });
        let write = self.is_sending().then(|| self.wrote + timeouts.write);
        let Some(until) = read.into_iter().chain(write).min() else { return false };
        // Not only by the timer: it does not fire while a server that never pauses keeps this task
        // busy.
        if self.heard >= until {
            return true;
        }
        loop {
            // Replies postpone the deadline all the time: the timer is reset only when it fires.
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

/// Takes a reply's value out of the buffer. `open`: how many values the answer may still have, this
/// one included; `piece`: the chunk small values share.
fn cut(
    buffer: &mut BytesMut,
    used: usize,
    found: Found,
    piece: &mut BytesMut,
    open: usize,
) -> Item {
    let Found { flags, cas, at } = found;
    let len = at.len();
    if len > OWN {
        return Item { value: buffer.split_to(used).freeze().slice(at), flags, cas };
    }
    let bytes = buffer.get(at).unwrap_or_default();
    let value = if len <= TOGETHER && (open > 1 || piece.capacity() >= len) {
        if piece.capacity() < len {
            // Capacity for the values still to come, if they are as large as this one.
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
