//! The connection loop of the object faces: bytes in, a session's answers out.
//!
//! A depth-1 request costs one `recv` and one `send`; a pipelined batch costs the same, whatever it
//! holds, up to [`HIGH_WATER`](super::HIGH_WATER) bytes of answers. An idle connection holds no
//! buffer.
//!
//! Bytes are received as soon as the reactor reports them, and answered in a round with those of
//! other connections ([`Round`](crate::net::round::Round)). If all of them can be answered and sent
//! at once, the connection rests again ([`Slot`]). Else a task takes over the batch.

use std::{io, rc::Rc, sync::Arc};

use self::{batch::Batch, begun::Begun, jam::Jam};
use super::{Client, Limits, Peer, Session, WINDOW, face::Event};
use crate::room::{Held, Place};
use crate::{
    clock::Ms,
    net::{
        conns::{IoBuffers, TrackedConnection},
        passing::Passed,
        round::Work,
        slot::{Connection, Next, Slot},
        socket::{Ended, Socket},
        stream::Stream,
    },
};

mod batch;
mod begun;
mod jam;

/// With less room than this a read is not worth its system call: the buffer grows first.
const ROOM: usize = 4096;
/// After the last answer: how much of what the client still sends is read, and for how long, so
/// that the answer is not lost to a reset.
const LINGER: (usize, Ms) = (256 * 1024, 2000);

/// Bytes a client may have sent before the server stops that are still answered: more than the
/// system keeps for a connection (Linux: 6 MB). A client that always has sent more by then would
/// hold up the end.
const LATE: usize = 8 << 20;

/// A number of bytes or commands in four bytes: an idle connection is small. Larger ones are as
/// good as the largest.
fn small(number: impl TryInto<u32>) -> u32 {
    number.try_into().unwrap_or(u32::MAX)
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// By the client, by its session, or killed.
    Closed,
    /// By an error: the client has reset it, or is not reachable any more.
    Broken,
    /// Nothing came for longer than [`Limits::idle`].
    Idle,
    /// It took nothing of its answers for longer than [`Limits::send`].
    Stalled,
    /// It sent nothing more of a command it had begun for longer than [`Limits::receive`].
    Late,
    /// The server is stopping.
    Drained,
}

/// Result of a wait.
enum Woken {
    /// So many bytes came.
    Bytes(usize),
    /// The client has closed its side.
    Eof,
    /// TLS has something to send that the socket did not take.
    Unsent,
    /// A batch was begun in a round, and there is more to do for it than a round does.
    Begun(Batch),
}

struct Conn<S> {
    socket: Socket,
    session: S,
    client: Arc<Client>,
    /// None while idle.
    buffers: Option<Box<IoBuffers>>,
    /// Bytes the session knows the next command to have, from the start of what is not used up; 0:
    /// not known.
    want: u32,
    /// The last read filled its buffer: more is there, most likely.
    filled: bool,
    /// When the last batch was answered: idleness counts from there.
    rested: Ms,
    /// Commands taken up and bytes sent since this connection last waited for something.
    streak: (u32, u32),
    /// In a batch whose answers the client does not take as fast as they come.
    jam: Option<Box<Jam>>,
    /// Of a command of which a part has come.
    begun: Option<Box<Begun>>,
    /// Bytes received since it connected.
    come: u64,
    /// Bytes of the buffers while the connection waits, or others have their turn.
    held: Held,
    /// Bytes that wait for their round.
    received: u32,
    /// Bytes answered since the server stops.
    late: u32,
    /// Mail was sent since the server stops.
    told: bool,
    /// How it ended.
    end: End,
    admission: Rc<dyn Admission>,
    tracked: TrackedConnection,
}

/// The part of a face that its connections know: their limits, and who hears of their end.
pub(crate) trait Admission {
    /// The present limits.
    fn limits(&self) -> Limits;

    /// For the face's statistics.
    fn count(&self, event: Event);

    /// The connection of this client is gone.
    fn left(&self, client: &Client, end: End);
}

impl<S> Drop for Conn<S> {
    fn drop(&mut self) {
        if self.socket.stream.is_handshaking() {
            self.admission.count(Event::Unsecured);
        }
        self.admission.left(&self.client, self.end);
    }
}

/// Puts a new connection at rest.
pub(crate) fn open<S: Session + 'static>(
    tracked: TrackedConnection,
    stream: Stream,
    session: S,
    client: Arc<Client>,
    admission: Rc<dyn Admission>,
) {
    let conns = tracked.conns.clone();
    let conn = Conn::new(tracked, stream, session, client, admission);
    Slot::open(conn, &conns.reactor);
}

impl<S: Session + 'static> Connection for Conn<S> {
    type Todo = Result<Woken, Ended>;

    fn socket(&self) -> &Socket {
        &self.socket
    }

    fn receive(&mut self) -> Next<Self::Todo> {
        if self.client.is_killed() {
            return Next::Task(Err(Ended::Closed));
        }
        let read = self.read();
        if let Some(handshake) = self.socket.stream.take_handshake() {
            let resumed = handshake.negotiated.is_some_and(|negotiated| negotiated.resumed);
            self.admission.count(Event::Secured { resumed });
        }
        match read {
            Some(Ok(Woken::Bytes(received))) => {
                // Its deadline may have passed while the bytes waited for their round.
                self.socket.watch.forgive();
                self.received = small(received);
                Next::Answer
            }
            Some(read) => Next::Task(read.map_err(Ended::from)),
            None => {
                if self.buffers.as_ref().is_some_and(|buffers| buffers.buf.is_empty()) {
                    self.rest();
                }
                if self.socket.stream.is_secured()
                    && let Err(ended) = self.hold_buffers()
                {
                    return Next::Task(Err(ended));
                }
                if self.socket.stream.has_unsent_tls() {
                    return Next::Task(Ok(Woken::Unsent));
                }
                Next::Rest
            }
        }
    }

    /// Mail comes behind the bytes that the client has sent: a batch takes it with it.
    fn attend(&mut self) -> Next<Self::Todo> {
        match (self.client.is_killed(), self.client.has_mail()) {
            (true, _) => Next::Task(Err(Ended::Closed)),
            (_, true) => Next::Answer,
            _ => Next::Rest,
        }
    }

    fn fetch(&mut self) {
        if let Some(buffers) = &self.buffers {
            self.session.fetch(&buffers.buf[buffers.at..]);
        }
    }

    fn fetch_more(&mut self) {
        self.session.fetch_record();
    }

    fn answer(&mut self, began: u64) -> (Work, Next<Self::Todo>) {
        let received = std::mem::take(&mut self.received) as usize;
        let mut batch = self.begin(received, began);
        let answered = self.finish_now(&mut batch);
        let work = Work {
            // Mail alone is work, too.
            commands: batch.commands.max(1) + self.session.turn_time().commands(),
            bytes: batch.received + batch.written,
            ..Work::default()
        };
        if answered {
            return (work, self.wait_again());
        }
        self.hold_or_end();
        (work, Next::Task(Ok(Woken::Begun(batch))))
    }

    /// [`Limits::idle`] may have changed.
    fn refresh(&mut self) {
        self.wait_idle();
    }

    fn pass(&mut self) -> bool {
        let passing = &self.tracked.conns.passing;
        let between = || {
            let unread = self
                .buffers
                .as_ref()
                .is_some_and(|buffers| buffers.at < buffers.buf.len() || !buffers.out.is_empty());
            !unread && self.jam.is_none() && self.begun.is_none() && !self.session.awaits()
        };
        if !passing.is_on() || self.client.is_killed() || self.client.has_mail() || !between() {
            return false;
        }
        let Some(state) = self.session.passed() else { return false };
        let Some((socket, kind)) = self.socket.stream.detach() else { return false };
        let client = match self.client.peer {
            Peer::Tcp(address) => Some(address),
            Peer::Udp(_) | Peer::Unix => None,
        };
        let local = self.client.local.to_string();
        passing.take(Passed { face: S::FACE, kind, client, local, state, socket });
        self.rest();
        self.end = End::Drained;
        true
    }

    fn ended(&mut self, ended: Ended) -> Next<Self::Todo> {
        Next::Task(Err(ended))
    }

    async fn proceed(
        mut self: Box<Self>,
        todo: Self::Todo,
    ) -> Option<(Box<Self>, Next<Self::Todo>)> {
        self.socket.watch.busy();
        match self.work(todo).await {
            Ok(()) => {
                let next = self.wait_again();
                Some((self, next))
            }
            Err(end) => {
                self.tell_unsent();
                self.rest();
                while self.session.leave() {
                    tokio::task::yield_now().await;
                }
                self.end = end;
                None
            }
        }
    }
}

impl<S: Session> Conn<S> {
    /// A connection that nothing was received on.
    fn new(
        tracked: TrackedConnection,
        stream: Stream,
        session: S,
        client: Arc<Client>,
        admission: Rc<dyn Admission>,
    ) -> Box<Self> {
        client.register(&tracked.waker());
        let conn = Box::new(Conn {
            socket: Socket { stream, watch: tracked.watch.clone() },
            session,
            rested: client.since,
            held: Held::new(&client.holder, Place::Heap),
            client,
            buffers: None,
            want: 0,
            filled: false,
            received: 0,
            streak: (0, 0),
            jam: None,
            begun: None,
            come: 0,
            late: 0,
            told: false,
            end: End::Closed,
            admission,
            tracked,
        });
        conn.wait_idle();
        conn
    }

    /// Does what a round could not. An error: the connection is over.
    async fn work(&mut self, todo: Result<Woken, Ended>) -> Result<(), End> {
        let answered = match todo {
            Ok(Woken::Begun(batch)) => self.finish(batch).await,
            Ok(Woken::Bytes(n)) => self.batch(n).await,
            Ok(Woken::Eof) => return Err(End::Closed),
            Ok(Woken::Unsent) => {
                let deadline = self.tracked.conns.clock.now() + self.admission.limits().send;
                self.socket.flush_tls(deadline).await.map(|()| true)
            }
            Err(Ended::Closed) => return Err(self.closed()),
            Err(Ended::TimedOut) if self.begun.is_some() => return Err(End::Late),
            Err(Ended::TimedOut) => match self.received_before().await {
                0 => return Err(End::Idle),
                n => {
                    self.socket.watch.forgive();
                    self.batch(n).await
                }
            },
            Err(Ended::Drained) if self.late as usize >= LATE => return Err(End::Drained),
            Err(Ended::Drained) => match self.received_before().await {
                0 if self.told || !self.client.has_mail() => return Err(End::Drained),
                n => {
                    // Others' last words to it: once, as they may go on.
                    self.told |= n == 0;
                    self.late = self.late.saturating_add(small(n));
                    self.batch(n).await
                }
            },
        };
        match answered {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.linger().await;
                Err(End::Closed)
            }
            Err(Ended::TimedOut) => Err(End::Stalled),
            Err(Ended::Closed) => Err(self.closed()),
            Err(Ended::Drained) => Err(End::Closed),
        }
    }

    /// Why it cannot go on: killed, or broken.
    fn closed(&self) -> End {
        if self.client.is_killed() { End::Closed } else { End::Broken }
    }

    /// Begins to wait for bytes or mail.
    fn idle(&mut self) -> Result<(), Ended> {
        let used = self.buffers.as_ref().is_some_and(|buffers| buffers.at > 0);
        self.make_room()?;
        self.note_begun(used);
        self.wait_idle();
        self.hold_buffers()
    }

    /// Sets the deadline of the wait.
    fn wait_idle(&self) {
        let Limits { idle, .. } = self.admission.limits();
        let silent = if self.client.stays() || idle == 0 { Ms::MAX } else { self.rested + idle };
        let deadline = silent.min(self.begun.as_ref().map_or(Ms::MAX, |begun| begun.deadline));
        self.socket.watch.wait_idle(if deadline == Ms::MAX { 0 } else { deadline });
    }

    /// Counts the buffers that the connection keeps while it does nothing.
    fn hold_buffers(&mut self) -> Result<(), Ended> {
        let session = &self.session;
        let buffers = self.buffers.as_ref().map_or(0, |buffers| buffers.memory() + session.kept());
        let bytes = buffers + self.socket.stream.tls_memory() as u64;
        self.client.settle();
        if self.held.resize(bytes) {
            return Ok(());
        }
        self.held.close();
        Err(Ended::Closed)
    }

    /// Counts the buffers before others have their turn. A client without room is closed: a begun
    /// command still runs to its end, but its answers are dropped at once, since the task that
    /// closes the connection may run much later.
    fn hold_or_end(&mut self) {
        if self.hold_buffers().is_err() {
            self.client.kill();
        }
        if self.client.is_killed() {
            self.tell_unsent();
            self.buffers.iter_mut().for_each(|buffers| buffers.out.clear());
        }
    }

    /// Waits on, or says why not.
    fn wait_again(&mut self) -> Next<Result<Woken, Ended>> {
        self.streak = (0, 0);
        match self.idle() {
            Ok(()) => Next::Rest,
            Err(ended) => Next::Task(Err(ended)),
        }
    }

    /// Receives once more at the end of a wait, and returns the number of bytes: they are still
    /// answered.
    async fn received_before(&mut self) -> usize {
        // The runtime looks at the sockets once more.
        tokio::task::yield_now().await;
        let buffers = self.buffers.get_or_insert_with(|| self.tracked.conns.take_buffers());
        self.socket.stream.try_read_buf(&mut buffers.buf).unwrap_or(0)
    }

    /// Receives; None: nothing is there.
    fn read(&mut self) -> Option<io::Result<Woken>> {
        let buffers = self.buffers.get_or_insert_with(|| self.tracked.conns.take_buffers());
        match self.socket.stream.try_read_buf(&mut buffers.buf) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.filled = false;
                None
            }
            Ok(0) => Some(Ok(Woken::Eof)),
            read => {
                self.filled = buffers.buf.len() == buffers.buf.capacity();
                Some(read.map(Woken::Bytes))
            }
        }
    }

    /// Gives the buffers back when they are empty, else makes room for the missing bytes, up to
    /// [`WINDOW`].
    fn make_room(&mut self) -> Result<(), Ended> {
        let Some(buffers) = &mut self.buffers else { return Ok(()) };
        let left = buffers.buf.len() - buffers.at;
        if left == 0 && !self.filled {
            self.rest();
            return Ok(());
        }
        if left >= WINDOW {
            // The session broke its word: it would never come to an end.
            return Err(Ended::Closed);
        }
        if buffers.at > 0 {
            buffers.buf.drain(..buffers.at);
            buffers.at = 0;
        }
        let grown = if self.filled { buffers.buf.capacity() * 2 } else { left + ROOM };
        let wanted = grown.max(self.want as usize).clamp(left + 1, WINDOW);
        buffers.buf.reserve_exact(wanted - left);
        Ok(())
    }

    fn rest(&mut self) {
        if let Some(buffers) = self.buffers.take() {
            self.tracked.conns.give_buffers(buffers);
            self.held.resize(0);
        }
    }

    /// Sees to it that the last answer is not lost to a reset, which is what the client gets when
    /// it has sent something that nobody read.
    async fn linger(&mut self) {
        let buffers = self.buffers.get_or_insert_with(|| self.tracked.conns.take_buffers());
        let mut unread = buffers.at < buffers.buf.len();
        buffers.buf.clear();
        if !unread {
            unread = self.socket.stream.try_read_buf(&mut buffers.buf).is_ok_and(|n| n > 0);
        }
        if !unread {
            return;
        }
        self.socket.finish();
        self.socket.watch.forgive();
        self.socket.watch.until(self.tracked.conns.clock.now() + LINGER.1);
        let mut left = LINGER.0;
        while left > 0 {
            buffers.buf.clear();
            match self.socket.read(&mut buffers.buf).await {
                Ok(n) if n > 0 => left = left.saturating_sub(n),
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests;
