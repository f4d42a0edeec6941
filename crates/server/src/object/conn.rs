//! The connection loop of the object faces: bytes in, a session's answers out.
//!
//! A depth-1 request costs one `recv` and one `send`; a pipelined batch costs the same, whatever it
//! holds, up to [`HIGH_WATER`](super::HIGH_WATER) bytes of answers. An idle connection holds no
//! buffer.
//!
//! What comes is received as soon as it is heard of, and answered in a round with that of others
//! ([`Round`](crate::net::round::Round)). Where all of it can be answered and sent at once, that is
//! all, and the connection rests ([`Slot`]). Else a task takes over the batch.

use std::{cell::Cell, io, rc::Rc, sync::Arc};

use self::{batch::Batch, begun::Begun, jam::Jam};
use super::{
    Client, Limits, Session, WINDOW,
    room::{self, Held},
};
use crate::{
    clock::Ms,
    net::{
        conns::{Conns, Desk, TrackedConnection},
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

/// What a wait ended with.
enum Woken {
    /// So many bytes came.
    Bytes(usize),
    /// The client has closed its side.
    Eof,
    /// A batch was begun in a round, and there is more to do for it than a round does.
    Begun(Batch),
}

struct Conn<S> {
    conns: Rc<Conns>,
    socket: Socket,
    session: S,
    client: Arc<Client>,
    limits: Rc<Cell<Limits>>,
    /// None while idle.
    desk: Option<Box<Desk>>,
    /// Bytes the session knows the next command to have, from the start of what is not used up; 0:
    /// not known.
    want: usize,
    /// The last read filled its buffer: more is there, most likely.
    filled: bool,
    /// When the last batch was answered: idleness counts from there.
    rested: Ms,
    /// Commands taken up and bytes sent since this connection last waited for something.
    streak: (usize, u64),
    /// In a batch whose answers the client does not take as fast as they come.
    jam: Option<Box<Jam>>,
    /// Of a command of which a part has come.
    begun: Option<Begun>,
    /// Bytes received since it connected.
    come: u64,
    /// What the desk holds while it waits for more.
    held: Held,
    /// Bytes that wait for their round.
    received: usize,
    /// Bytes answered since the server stops.
    late: usize,
    /// Mail was sent since the server stops.
    told: bool,
    leaving: Box<dyn Leaving>,
    _tracked: TrackedConnection,
}

/// Told how a connection ended; dropped with it.
pub(crate) trait Leaving {
    fn ends(&mut self, end: End);
}

/// Puts a new connection at rest.
pub(crate) fn open<S: Session + 'static>(
    tracked: TrackedConnection,
    stream: Stream,
    session: S,
    client: Arc<Client>,
    limits: Rc<Cell<Limits>>,
    leaving: Box<dyn Leaving>,
) {
    let conns = tracked.conns.clone();
    let conn = Conn::new(tracked, stream, session, client, limits, leaving);
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
        match self.read() {
            Some(Ok(Woken::Bytes(received))) => {
                self.socket.watch.busy();
                self.received = received;
                Next::Answer
            }
            Some(read) => Next::Task(read.map_err(Ended::from)),
            None => {
                if self.desk.as_ref().is_some_and(|desk| desk.buf.is_empty()) {
                    self.rest();
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
        if let Some(desk) = &self.desk {
            self.session.fetch(&desk.buf[desk.at..]);
        }
    }

    fn fetch_more(&mut self) {
        self.session.fetch_record();
    }

    fn answer(&mut self, began: u64) -> (Work, Next<Self::Todo>) {
        let received = std::mem::take(&mut self.received);
        let mut batch = self.begin(received, began);
        let answered = self.finish_now(&mut batch);
        let work = Work {
            // Mail alone is work, too.
            commands: batch.commands.max(1),
            bytes: batch.received + batch.written,
            ..Work::default()
        };
        let next = if answered { self.wait_again() } else { Next::Task(Ok(Woken::Begun(batch))) };
        (work, next)
    }

    /// [`Limits::idle`] may have changed.
    fn refresh(&mut self) {
        self.wait_idle();
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
                self.rest();
                while self.session.leave() {
                    tokio::task::yield_now().await;
                }
                self.leaving.ends(end);
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
        limits: Rc<Cell<Limits>>,
        leaving: Box<dyn Leaving>,
    ) -> Box<Self> {
        client.register(&tracked.waker());
        let conn = Box::new(Conn {
            socket: Socket { stream, watch: tracked.watch.clone() },
            conns: tracked.conns.clone(),
            session,
            rested: client.since,
            held: Held::new(&client, room::Place::Heap),
            client,
            limits,
            desk: None,
            want: 0,
            filled: false,
            received: 0,
            streak: (0, 0),
            jam: None,
            begun: None,
            come: 0,
            late: 0,
            told: false,
            leaving,
            _tracked: tracked,
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
            Err(Ended::Closed) => return Err(self.closed()),
            Err(Ended::TimedOut) => {
                return Err(if self.begun.is_some() { End::Late } else { End::Idle });
            }
            Err(Ended::Drained) if self.late >= LATE => return Err(End::Drained),
            Err(Ended::Drained) => match self.received_before().await {
                0 if self.told || !self.client.has_mail() => return Err(End::Drained),
                n => {
                    // Others' last words to it: once, as they may go on.
                    self.told |= n == 0;
                    self.late += n;
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
        let used = self.desk.as_ref().is_some_and(|desk| desk.at > 0);
        self.make_room()?;
        self.note_begun(used);
        self.wait_idle();
        self.hold_desk()
    }

    /// Sets the deadline of the wait.
    fn wait_idle(&self) {
        let Limits { idle, .. } = self.limits.get();
        let silent = if self.client.stays() || idle == 0 { Ms::MAX } else { self.rested + idle };
        let deadline = silent.min(self.begun.map_or(Ms::MAX, |begun| begun.deadline));
        self.socket.watch.wait_idle(if deadline == Ms::MAX { 0 } else { deadline });
    }

    /// Counts the buffer that is kept while nothing is done.
    fn hold_desk(&mut self) -> Result<(), Ended> {
        let session = &self.session;
        let bytes = self
            .desk
            .as_ref()
            .map_or(0, |desk| desk.buf.capacity() as u64 + desk.out.capacity() + session.kept());
        self.client.settle();
        if self.held.resize(bytes) { Ok(()) } else { Err(Ended::Closed) }
    }

    /// Waits on, or says why not.
    fn wait_again(&mut self) -> Next<Result<Woken, Ended>> {
        self.streak = (0, 0);
        match self.idle() {
            Ok(()) => Next::Rest,
            Err(ended) => Next::Task(Err(ended)),
        }
    }

    /// The server is stopping: takes what has come by now, how many bytes that are. What was
    /// received is still answered.
    async fn received_before(&mut self) -> usize {
        // The runtime looks at the sockets once more.
        tokio::task::yield_now().await;
        let desk = self.desk.get_or_insert_with(|| self.conns.take_desk());
        self.socket.stream.try_read_buf(&mut desk.buf).unwrap_or(0)
    }

    /// Receives; None: nothing is there.
    fn read(&mut self) -> Option<io::Result<Woken>> {
        let desk = self.desk.get_or_insert_with(|| self.conns.take_desk());
        match self.socket.stream.try_read_buf(&mut desk.buf) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.filled = false;
                None
            }
            Ok(0) => Some(Ok(Woken::Eof)),
            read => {
                self.filled = desk.buf.len() == desk.buf.capacity();
                Some(read.map(Woken::Bytes))
            }
        }
    }

    /// Gives the desk back when nothing is on it, else makes room for what is missing, up to
    /// [`WINDOW`].
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
            self.held.resize(0);
        }
    }

    /// Sees to it that the last answer is not lost to a reset, which is what the client gets when
    /// it has sent something that nobody read.
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

#[cfg(test)]
mod tests;
