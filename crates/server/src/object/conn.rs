//! The connection loop of the object faces: bytes in, a session's answers out.
//!
//! A depth-1 request costs one `recv` and one `send`; a pipelined batch costs the same, whatever it holds, up to
//! [`HIGH_WATER`] bytes of answers. An idle connection holds no buffer.
//!
//! What comes is received as soon as it is heard of, and answered in a round with that of others
//! ([`Round`](crate::net::round::Round)). Where all of it can be answered and sent at once, that is all: the connection's task goes on
//! waiting ([`place`]). Else it takes over the batch.

use std::{
    cell::Cell,
    future::poll_fn,
    io,
    rc::Rc,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, Waker},
    time::Duration,
};

use self::{jam::Jam, place::Place};
use super::{COMMANDS, Client, HIGH_WATER, Limits, Sent, Session, Turn, WINDOW};
use crate::{
    clock::Ms,
    net::{
        conns::{Conns, Desk},
        socket::{Ended, Socket},
    },
};

mod jam;
mod place;

/// After so many bytes of answers without a wait others get their turn.
const TURN_BYTES: u64 = HIGH_WATER;
/// With less room than this a read is not worth its system call: the buffer grows first.
const ROOM: usize = 4096;
/// After the last answer: how much of what the client still sends is read, and for how long, so that the answer is not
/// lost to a reset.
const LINGER: (usize, Ms) = (256 * 1024, 2000);

/// Bytes a client may have sent before the server stops that are still answered: more than the system keeps for a
/// connection (Linux: 6 MB). A client that always has sent more by then would hold up the end.
const LATE: usize = 8 << 20;

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// By the client, by its session, or killed.
    Closed,
    /// Nothing came for longer than [`Limits::idle`].
    Idle,
    /// It took nothing of its answers for longer than [`Limits::send`].
    Stalled,
    /// The server is stopping.
    Drained,
}

/// What a wait ended with.
enum Woken {
    /// So many bytes came.
    Bytes(usize),
    /// The client has closed its side.
    Eof,
    /// Others sent something to this client.
    Mail,
    /// A batch was begun in a round, and there is more to do for it than a round does.
    Begun(Batch),
}

/// Commands under way that were received together.
struct Batch {
    /// When their bytes were there, microseconds.
    began: u64,
    /// The same for the session, later where others had their turn meanwhile.
    now: Ms,
    limits: Limits,
    /// How many were taken up.
    commands: usize,
    /// Bytes.
    received: u64,
    /// Bytes of answers.
    written: u64,
    /// Bytes of answers that are sent before more is taken up.
    high: u64,
    /// How far it came.
    took: Took,
}

impl Batch {
    /// Commands after which others get their turn.
    fn most(&self) -> usize {
        self.limits.commands.max(COMMANDS)
    }
}

struct Conn<S> {
    conns: Rc<Conns>,
    socket: Socket,
    session: S,
    client: Arc<Client>,
    limits: Rc<Cell<Limits>>,
    /// None while idle.
    desk: Option<Box<Desk>>,
    /// The waker the client's mail knows.
    known: Option<Waker>,
    /// Bytes the session knows the next command to have, from the start of what is not used up; 0: not known.
    want: usize,
    /// The last read filled its buffer: more is there, most likely.
    filled: bool,
    /// When the last batch was answered: idleness counts from there.
    rested: Ms,
    /// Commands taken up and bytes sent since this connection last waited for something.
    streak: (usize, u64),
    /// In a batch whose answers the client does not take as fast as they come.
    jam: Option<Box<Jam>>,
}

/// Serves a connection to its end.
pub(crate) async fn serve<S: Session + 'static>(
    conns: &Rc<Conns>,
    socket: Socket,
    session: S,
    client: Arc<Client>,
    limits: Rc<Cell<Limits>>,
) -> End {
    let conn = Conn {
        conns: conns.clone(),
        socket,
        session,
        rested: client.since,
        client,
        limits,
        desk: None,
        known: None,
        want: 0,
        filled: false,
        streak: (0, 0),
        jam: None,
    };
    let (conn, end) = run(Box::new(conn)).await;
    if let Some(mut conn) = conn {
        conn.rest();
    }
    end
}

/// Where it was lost, it is not returned.
async fn run<S: Session + 'static>(mut conn: Box<Conn<S>>) -> (Option<Box<Conn<S>>>, End) {
    let (place, mut late) = (Place::of(&conn), 0);
    loop {
        let woken;
        (conn, woken) = match place.wait(conn).await {
            Some(waited) => waited,
            None => return (None, End::Closed),
        };
        let answered = match woken {
            Ok(Woken::Begun(batch)) => conn.finish(batch).await,
            Ok(Woken::Bytes(n)) => conn.batch(n).await,
            Ok(Woken::Mail) => conn.batch(0).await,
            Ok(Woken::Eof) | Err(Ended::Closed) => return (Some(conn), End::Closed),
            Err(Ended::TimedOut) => return (Some(conn), End::Idle),
            Err(Ended::Drained) if late >= LATE => return (Some(conn), End::Drained),
            Err(Ended::Drained) => match conn.received_before().await {
                0 => return (Some(conn), End::Drained),
                n => {
                    late += n;
                    conn.batch(n).await
                }
            },
        };
        match answered {
            Ok(true) => {}
            Ok(false) => {
                conn.linger().await;
                return (Some(conn), End::Closed);
            }
            Err(Ended::TimedOut) => return (Some(conn), End::Stalled),
            Err(_) => return (Some(conn), End::Closed),
        }
    }
}

impl<S: Session> Conn<S> {
    /// Begins to wait for bytes or mail.
    fn idle(&mut self) -> Result<(), Ended> {
        self.make_room()?;
        let idle = if self.client.stays() { 0 } else { self.limits.get().idle };
        self.socket.watch.wait_idle(if idle == 0 { 0 } else { self.rested + idle });
        Ok(())
    }

    /// The client's mail wakes this one from now on.
    fn know(&mut self, waker: &Waker) {
        if !self.known.as_ref().is_some_and(|known| known.will_wake(waker)) {
            self.client.register(waker);
            self.known = Some(waker.clone());
        }
    }

    fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<Result<Woken, Ended>> {
        if self.client.is_killed() {
            return Poll::Ready(Err(Ended::Closed));
        }
        let watch = self.socket.watch.clone();
        match watch.guard(cx, |cx| self.poll_read(cx)) {
            // Behind what the client has sent: a batch takes the mail with it.
            Poll::Pending if self.client.has_mail() => Poll::Ready(Ok(Woken::Mail)),
            polled => polled,
        }
    }

    /// Waits on. `Some`: there is something to do for its task.
    fn wait_again(&mut self) -> Option<Result<Woken, Ended>> {
        self.streak = (0, 0);
        match self.idle() {
            Ok(()) => self.look(),
            Err(ended) => Some(Err(ended)),
        }
    }

    /// Looks whether something has come; else its task is woken when it does.
    fn look(&mut self) -> Option<Result<Woken, Ended>> {
        let task = self.known.take()?;
        let polled = self.poll_wait(&mut Context::from_waker(&task));
        self.known = Some(task);
        match polled {
            Poll::Ready(woken) => Some(woken),
            Poll::Pending => None,
        }
    }

    /// The server is stopping: takes what has come by now, how many bytes that are. What was received is still answered.
    async fn received_before(&mut self) -> usize {
        // The runtime looks at the sockets once more.
        tokio::task::yield_now().await;
        let desk = self.desk.get_or_insert_with(|| self.conns.take_desk());
        self.socket.stream.try_read_buf(&mut desk.buf).unwrap_or(0)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Woken>> {
        while self.socket.stream.poll_read_ready(cx).is_ready() {
            let desk = self.desk.get_or_insert_with(|| self.conns.take_desk());
            match self.socket.stream.try_read_buf(&mut desk.buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Ok(0) => return Poll::Ready(Ok(Woken::Eof)),
                read => {
                    self.filled = desk.buf.len() == desk.buf.capacity();
                    return Poll::Ready(read.map(Woken::Bytes));
                }
            }
        }
        if self.desk.as_ref().is_some_and(|desk| desk.buf.is_empty()) {
            self.rest();
        }
        Poll::Pending
    }

    /// Gives the desk back when nothing is on it, else makes room for what is missing, up to [`WINDOW`].
    fn make_room(&mut self) -> Result<(), Ended> {
        let Some(desk) = &mut self.desk else { return Ok(()) };
        let left = desk.buf.len() - desk.at;
        if left == 0 && !self.filled {
            self.rest();
            return Ok(());
        }
        if left >= WINDOW {
            // The session broke its word: it would never come to an end.
            return Err(Ended::Closed);
        }
        if desk.at > 0 {
            desk.buf.drain(..desk.at);
            desk.at = 0;
        }
        let grown = if self.filled { desk.buf.capacity() * 2 } else { left + ROOM };
        let wanted = grown.max(self.want).clamp(left + 1, WINDOW);
        desk.buf.reserve_exact(wanted - left);
        Ok(())
    }

    fn rest(&mut self) {
        if let Some(desk) = self.desk.take() {
            self.conns.give_desk(desk);
        }
    }

    /// Answers what was received, with mail between the answers. False: close.
    async fn batch(&mut self, received: usize) -> Result<bool, Ended> {
        let batch = self.begin(received, self.conns.clock.micros());
        self.finish(batch).await
    }

    /// Takes up what was received, as far as that goes before something is sent. `began`: when it was there, microseconds.
    fn begin(&mut self, received: usize, began: u64) -> Batch {
        let now = self.conns.clock.at(began);
        if received > 0 {
            self.client.active.store(now, Ordering::Relaxed);
        }
        let received = received as u64;
        self.want = 0;
        self.streak.1 += received;
        let (limits, took) = (self.limits.get(), Took::All { want: 0 });
        let mut batch =
            Batch { began, now, limits, commands: 0, received, written: 0, high: HIGH_WATER, took };
        self.take_up(&mut batch);
        batch
    }

    fn take_up(&mut self, batch: &mut Batch) {
        let desk = self.desk.get_or_insert_with(|| self.conns.take_desk());
        let again = matches!(batch.took, Took::Part | Took::Later(_));
        let (before, how) = (batch.commands, (again, batch.most(), batch.high));
        batch.took = take_up(desk, &mut self.session, batch.now, how, &mut batch.commands);
        self.streak.0 += batch.commands - before;
        if batch.took != Took::Part && self.client.has_mail() {
            self.client.take_mail(desk.out.scratch());
        }
    }

    /// A batch of which all is taken up, and sent at once: the usual one. False: there is more to do for it.
    fn finish_now(&mut self, batch: &mut Batch) -> bool {
        let Took::All { want } = batch.took else { return false };
        let (sent, result) = self.send();
        batch.written += sent;
        if result.is_err() {
            return false;
        }
        self.want = want;
        self.end(batch);
        true
    }

    /// Sends what is composed, and takes up what is left. False: close.
    async fn finish(&mut self, mut batch: Batch) -> Result<bool, Ended> {
        loop {
            let flushed = self.flush(&batch.limits, batch.took).await?;
            batch.written += flushed.sent;
            batch.high = HIGH_WATER + flushed.left;
            let idle_walk = batch.took == Took::Part && flushed.sent == 0;
            if self.streak.0 >= batch.most() || self.streak.1 >= TURN_BYTES || idle_walk {
                self.streak = (0, 0);
                tokio::task::yield_now().await;
                batch.now = self.conns.clock.now();
            }
            match batch.took {
                Took::All { want } if !flushed.received => {
                    self.want = want;
                    self.end(&batch);
                    return Ok(true);
                }
                Took::Last => {
                    self.end(&batch);
                    return Ok(false);
                }
                Took::Later(time) => {
                    batch.received += self.put_off(time).await?;
                    batch.now = self.conns.clock.now();
                }
                Took::All { .. } | Took::Enough | Took::Part => {}
            }
            if self.client.is_killed() {
                return Err(Ended::Closed);
            }
            self.take_up(&mut batch);
        }
    }

    /// All of a batch is answered.
    fn end(&mut self, batch: &Batch) {
        let received = batch.received + self.end_jam();
        if batch.written == 0 && received > 0 {
            // No answer carries the acknowledgement. A client that has sent a part of a command without TCP_NODELAY (a
            // buffer of 8 KiB, then the rest) sends the rest only when it has it: 40 ms later, if left to the system.
            self.socket.stream.acknowledge();
        }
        let ended = self.conns.clock.micros();
        if batch.commands > 0 {
            self.rested = self.conns.clock.at(ended);
        }
        self.session.sent(Sent { micros: ended - batch.began, received, written: batch.written });
    }

    /// Sends what is composed, as far as the system takes it: so many bytes.
    fn send(&mut self) -> (u64, io::Result<()>) {
        let Some(desk) = &mut self.desk else { return (0, Ok(())) };
        let pending = desk.out.pending();
        if pending == 0 {
            return (0, Ok(()));
        }
        let result = desk.out.send(|slices| self.socket.stream.try_send(slices));
        let sent = if result.is_ok() { pending } else { pending - desk.out.pending() };
        (sent, result)
    }

    /// The same until all is sent. Where the client does not take it: see [`jam`].
    async fn flush(&mut self, limits: &Limits, took: Took) -> Result<Flushed, Ended> {
        let (sent, result) = self.send();
        match result {
            Ok(()) => {
                self.streak.1 += sent;
                Ok(Flushed { sent, ..Flushed::default() })
            }
            Err(error) => self.wait_for_client(error, sent, limits, took).await,
        }
    }

    /// Waits for so many milliseconds, or for mail. Returns the bytes received meanwhile. A client that has gone wants nothing
    /// more: what it had sent would come late, behind what it sent anew on another connection.
    async fn put_off(&mut self, time: Ms) -> Result<u64, Ended> {
        self.streak = (0, 0);
        let client = &self.client;
        let mail =
            poll_fn(
                |_| if client.has_mail() || client.is_killed() { Poll::Ready(()) } else { Poll::Pending },
            );
        let _ = tokio::time::timeout(Duration::from_millis(time), mail).await;
        // What is not taken up when the server stops never will be.
        if self.conns.draining.get() {
            return Err(Ended::Drained);
        }
        let Some(desk) = self.desk.as_mut().filter(|desk| desk.buf.len() - desk.at < WINDOW) else {
            return Ok(0);
        };
        jam::make_room(desk, WINDOW);
        match self.socket.stream.try_read_buf(&mut desk.buf) {
            Ok(0) => Err(Ended::Closed),
            Ok(n) => {
                self.session.received();
                Ok(n as u64)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(_) => Err(Ended::Closed),
        }
    }

    /// Sees to it that the last answer is not lost to a reset, which is what the client gets when it has sent something that
    /// nobody read.
    async fn linger(&mut self) {
        let desk = self.desk.get_or_insert_with(|| self.conns.take_desk());
        let mut unread = desk.at < desk.buf.len();
        desk.buf.clear();
        if !unread {
            unread = self.socket.stream.try_read_buf(&mut desk.buf).is_ok_and(|n| n > 0);
        }
        if !unread {
            return;
        }
        self.socket.finish().await;
        self.socket.watch.forgive();
        self.socket.watch.until(self.conns.clock.now() + LINGER.1);
        let mut left = LINGER.0;
        while left > 0 {
            desk.buf.clear();
            match self.socket.read(&mut desk.buf).await {
                Ok(n) if n > 0 => left = left.saturating_sub(n),
                _ => return,
            }
        }
    }
}

/// How far the answers of a batch came.
#[derive(Default)]
struct Flushed {
    /// Bytes the system took.
    sent: u64,
    /// Bytes that wait, and may do so while more commands are taken up.
    left: u64,
    /// More was received meanwhile.
    received: bool,
}

/// How far a session came with what is on the desk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Took {
    /// All whole commands are taken up; the next would be at `want` bytes (0: not known).
    All { want: usize },
    /// There may be more, but it is time to send, or others' turn.
    Enough,
    /// The same in the middle of an answer: nothing may come between.
    Part,
    /// The next command may be taken up after so many milliseconds.
    Later(Ms),
    /// The session ends the connection.
    Last,
}

/// Takes up commands until none is whole, more than `high` bytes wait to be sent, or `commands` is a multiple of `most`.
/// `again`: the session is in the middle of an answer, and goes on without new bytes.
fn take_up<S: Session>(
    desk: &mut Desk,
    session: &mut S,
    now: Ms,
    (again, most, high): (bool, usize, u64),
    commands: &mut usize,
) -> Took {
    let len = desk.buf.len();
    // Bytes that were used up twice would be the session's mistake; they are there once.
    let used = |at: usize, n: usize| len.min(at + n);
    let mut goes_on = again;
    while goes_on || desk.at < len {
        goes_on = false;
        match session.turn(&desk.buf[desk.at..], now, &mut desk.out) {
            Turn::Used(n) => {
                desk.at = used(desk.at, n);
                *commands += 1;
                if desk.at < len && (commands.is_multiple_of(most) || desk.out.pending() > high) {
                    return Took::Enough;
                }
            }
            Turn::More(want) => return Took::All { want },
            Turn::Flush(n) => {
                desk.at = used(desk.at, n);
                *commands += 1;
                return Took::Part;
            }
            Turn::Later(n, time) => {
                desk.at = used(desk.at, n);
                return Took::Later(time);
            }
            Turn::Close => return Took::Last,
        }
    }
    Took::All { want: 0 }
}

#[cfg(test)]
mod tests;
