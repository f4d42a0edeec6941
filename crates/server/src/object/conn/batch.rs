//! Commands that were received together: taken up by the session, and their answers sent.

use std::{future::poll_fn, io, sync::atomic::Ordering, task::Poll, time::Duration};

use super::{Conn, jam, small};
use crate::{
    clock::Ms,
    net::{
        conns::{Group, IoBuffers},
        socket::Ended,
        turns::LARGE,
    },
    object::{HIGH_WATER, Limits, Sent, Session, Turn, WINDOW},
};

/// After so many bytes of answers without a wait others get their turn.
const TURN_BYTES: u32 = HIGH_WATER as u32;

/// Commands under way that were received together.
pub(super) struct Batch {
    /// When their bytes were there, microseconds.
    began: u64,
    /// The same for the session, later where others had their turn meanwhile.
    now: Ms,
    limits: Limits,
    /// How many were taken up.
    pub(super) commands: usize,
    /// Bytes.
    pub(super) received: u64,
    /// Bytes of answers.
    pub(super) written: u64,
    /// Bytes of answers that are sent before more is taken up.
    high: u64,
    /// How far it came.
    took: Took,
}

impl Batch {
    /// Commands after which others get their turn.
    fn most(&self) -> usize {
        self.limits.commands.max(1)
    }
}

impl<S: Session> Conn<S> {
    /// Answers what was received, with mail between the answers. False: close.
    pub(super) async fn batch(&mut self, received: usize) -> Result<bool, Ended> {
        let batch = self.begin(received, self.tracked.conns.clock.micros());
        self.finish(batch).await
    }

    /// Takes up what was received, as far as that goes before something is sent. `began`: when it
    /// was there, microseconds.
    pub(super) fn begin(&mut self, received: usize, began: u64) -> Batch {
        let now = self.tracked.conns.clock.at(began);
        if received > 0 {
            self.client.active.store(now, Ordering::Relaxed);
        }
        let received = received as u64;
        self.come += received;
        self.want = 0;
        self.streak.1 = self.streak.1.saturating_add(small(received));
        let (limits, took) = (self.admission.limits(), Took::All { want: 0 });
        self.session.turn_time().begin();
        let mut batch =
            Batch { began, now, limits, commands: 0, received, written: 0, high: HIGH_WATER, took };
        self.take_up(&mut batch);
        batch
    }

    fn take_up(&mut self, batch: &mut Batch) {
        let buffers = self.buffers.get_or_insert_with(|| self.tracked.conns.take_buffers());
        let again = matches!(batch.took, Took::Part | Took::Later(_) | Took::Again);
        let (before, how) = (batch.commands, (again, batch.most(), batch.high));
        batch.took = take_up(buffers, &mut self.session, batch.now, how, &mut batch.commands);
        self.streak.0 = self.streak.0.saturating_add(small(batch.commands - before));
        if !matches!(batch.took, Took::Part | Took::Again) && self.client.has_mail() {
            self.client.take_mail(buffers.out.scratch());
        }
    }

    /// A batch of which all is taken up, and sent at once: the usual one. False: there is more to
    /// do for it.
    pub(super) fn finish_now(&mut self, batch: &mut Batch) -> bool {
        let Took::All { want } = batch.took else { return false };
        if self.has_to_wait() {
            return false;
        }
        let (sent, result) = self.send();
        batch.written += sent;
        if result.is_err() {
            return false;
        }
        self.want = small(want);
        self.end(batch);
        true
    }

    /// Sends what is composed, and takes up what is left. False: close.
    pub(super) async fn finish(&mut self, mut batch: Batch) -> Result<bool, Ended> {
        let pending = self.buffers.as_ref().map_or(0, |buffers| buffers.out.pending());
        self.socket.begin_turn(pending).await;
        loop {
            while batch.took == Took::Again {
                self.pause(&mut batch).await;
                self.take_up(&mut batch);
            }
            if self.client.is_killed() {
                return Err(Ended::Closed);
            }
            let flushed = self.flush(&batch.limits, batch.took).await?;
            batch.written += flushed.sent;
            batch.high = HIGH_WATER + flushed.left;
            // A part of a long answer is a turn's work, however little of it was to be sent.
            let turn = batch.took == Took::Part || self.session.turn_time().is_over();
            if self.streak.0 as usize >= batch.most() || self.streak.1 >= TURN_BYTES || turn {
                if self.streak.0 as usize >= batch.most() {
                    self.session.yielded();
                }
                self.pause(&mut batch).await;
            }
            match batch.took {
                Took::All { want } if !flushed.received => {
                    self.want = small(want);
                    self.end(&batch);
                    return Ok(true);
                }
                Took::Last => {
                    self.end(&batch);
                    return Ok(false);
                }
                Took::Later(time) => {
                    batch.received += self.put_off(time).await?;
                    batch.now = self.tracked.conns.clock.now();
                }
                Took::All { .. } | Took::Enough | Took::Part | Took::Again => {}
            }
            if self.client.is_killed() {
                return Err(Ended::Closed);
            }
            self.take_up(&mut batch);
        }
    }

    /// Gives others their turn.
    async fn pause(&mut self, batch: &mut Batch) {
        self.streak = (0, 0);
        self.hold_or_end();
        self.socket.stream.turns().next().await;
        self.session.turn_time().begin();
        batch.now = self.tracked.conns.clock.now();
    }

    /// All of a batch is answered.
    fn end(&mut self, batch: &Batch) {
        let received = batch.received + self.end_jam();
        if batch.written == 0 && received > 0 {
            // No answer carries the acknowledgement. A client that has sent a part of a command
            // without TCP_NODELAY (a buffer of 8 KiB, then the rest) sends the rest only when it
            // has it: 40 ms later, if left to the system.
            self.socket.stream.acknowledge();
        }
        let ended = self.tracked.conns.clock.micros();
        if batch.commands > 0 {
            self.rested = self.tracked.conns.clock.at(ended);
        }
        self.session.sent(Sent { micros: ended - batch.began, received, written: batch.written });
    }

    /// Tells the session how much of what it has composed will not be sent.
    pub(super) fn tell_unsent(&mut self) {
        let bytes = self.buffers.as_ref().map_or(0, |buffers| buffers.out.pending());
        self.session.unsent(bytes);
    }

    /// Whether so much is composed that sending it is a turn, for which others wait, too.
    fn has_to_wait(&self) -> bool {
        let large = self.buffers.as_ref().is_some_and(|buffers| buffers.out.pending() >= LARGE);
        large && self.socket.stream.turns().is_over()
    }

    /// Sends what is composed, as far as the system takes it: so many bytes.
    fn send(&mut self) -> (u64, io::Result<()>) {
        let Some(buffers) = &mut self.buffers else { return (0, Ok(())) };
        let pending = buffers.out.pending();
        if pending == 0 {
            return (0, Ok(()));
        }
        let result = buffers.out.send(&mut &self.socket.stream);
        let sent = if result.is_ok() { pending } else { pending - buffers.out.pending() };
        (sent, result)
    }

    /// The same until all is sent. Where the client does not take it: see [`jam`].
    async fn flush(&mut self, limits: &Limits, took: Took) -> Result<Flushed, Ended> {
        let (sent, result) = self.send();
        match result {
            Ok(()) => {
                self.streak.1 = self.streak.1.saturating_add(small(sent));
                Ok(Flushed { sent, ..Flushed::default() })
            }
            Err(error) => self.wait_for_client(error, sent, limits, took).await,
        }
    }

    /// Waits for so many milliseconds, for mail, for bytes, or for a
    /// [call](crate::object::Client::call). Returns the bytes received meanwhile. A client that has
    /// gone wants nothing more: what it had sent would come late, behind what it sent anew on
    /// another connection.
    async fn put_off(&mut self, time: Ms) -> Result<u64, Ended> {
        self.streak = (0, 0);
        self.hold_buffers()?;
        let (client, watch, stream) = (&self.client, &self.socket.watch, &self.socket.stream);
        let owes = self.session.owes();
        // A client that leaves is noticed, unless what it sent before fills the buffer.
        let reads = !owes && self.buffers.as_ref().is_some_and(|b| b.buf.len() - b.at < WINDOW);
        let woken = poll_fn(|cx| {
            let stops = !owes && self.tracked.conns.draining(Group::Objects);
            let woken = stops || client.take_call() || client.has_mail() || client.is_killed();
            if woken || (reads && stream.poll_read_ready(cx).is_ready()) {
                Poll::Ready(Ok(()))
            } else {
                watch.wait::<()>(cx)
            }
        });
        let _ = tokio::time::timeout(Duration::from_millis(time), woken).await;
        if owes {
            return Ok(0);
        }
        // Commands that are not taken up when the server stops never will be.
        if self.tracked.conns.draining(Group::Objects) {
            return Err(Ended::Drained);
        }
        let Some(buffers) =
            self.buffers.as_mut().filter(|buffers| buffers.buf.len() - buffers.at < WINDOW)
        else {
            return Ok(0);
        };
        jam::make_room(buffers, WINDOW);
        match self.socket.stream.try_read_buf(&mut buffers.buf) {
            Ok(0) => Err(Ended::Closed),
            Ok(n) => {
                self.session.received();
                Ok(n as u64)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(_) => Err(Ended::Closed),
        }
    }
}

/// How far the answers of a batch came.
#[derive(Default)]
pub(super) struct Flushed {
    /// Bytes the system took.
    pub(super) sent: u64,
    /// Bytes that wait, and may do so while more commands are taken up.
    pub(super) left: u64,
    /// More was received meanwhile.
    pub(super) received: bool,
}

/// How far a session came with the received bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Took {
    /// All whole commands are taken up; the next would be at `want` bytes (0: not known).
    All { want: usize },
    /// There may be more, but it is time to send, or others' turn.
    Enough,
    /// The same in the middle of an answer: nothing may come between.
    Part,
    /// A command goes on when others have had their turn, and nothing is sent before.
    Again,
    /// The next command may be taken up after so many milliseconds.
    Later(Ms),
    /// The session ends the connection.
    Last,
}

/// Takes up commands until none is whole, more than `high` bytes wait to be sent, `commands` is a
/// multiple of `most`, or the turn's time is over. `again`: the session is in the middle of an
/// answer, and goes on without new bytes.
fn take_up<S: Session>(
    buffers: &mut IoBuffers,
    session: &mut S,
    now: Ms,
    (again, most, high): (bool, usize, u64),
    commands: &mut usize,
) -> Took {
    let len = buffers.buf.len();
    // Bytes that were used up twice would be the session's mistake; they are there once.
    let used = |at: usize, n: usize| len.min(at + n);
    let mut goes_on = again;
    while goes_on || buffers.at < len {
        goes_on = false;
        match session.turn(&buffers.buf[buffers.at..], now, &mut buffers.out) {
            Turn::Used(n) => {
                buffers.at = used(buffers.at, n);
                *commands += 1;
                if buffers.at < len
                    && (commands.is_multiple_of(most)
                        || buffers.out.pending() > high
                        || session.turn_time().is_over())
                {
                    return Took::Enough;
                }
            }
            Turn::More(want) => return Took::All { want },
            Turn::Flush(n) => {
                buffers.at = used(buffers.at, n);
                *commands += 1;
                return Took::Part;
            }
            Turn::Again(n) => {
                buffers.at = used(buffers.at, n);
                *commands += 1;
                return Took::Again;
            }
            Turn::Later(n, time) => {
                buffers.at = used(buffers.at, n);
                return Took::Later(time);
            }
            Turn::Close => return Took::Last,
        }
    }
    Took::All { want: 0 }
}
