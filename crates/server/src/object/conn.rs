//! The connection loop of the object faces: bytes in, a session's answers out.
//!
//! A depth-1 request costs one `recv` and one `send`; a pipelined batch costs the same, whatever it holds, up to
//! [`HIGH_WATER`](super::HIGH_WATER) bytes of answers. An idle connection holds no buffer.
//!
//! What comes is received as soon as it is heard of, and answered in a round with that of others
//! ([`Round`](crate::net::round::Round)). Where all of it can be answered and sent at once, that is all: the connection's task goes on
//! waiting ([`place`]). Else it takes over the batch.

use std::{
    cell::Cell,
    io,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use self::{batch::Batch, begun::Begun, jam::Jam, place::Place};
use super::{
    Client, Limits, Session, WINDOW,
    room::{self, Held},
};
use crate::{
    clock::Ms,
    net::{
        conns::{Conns, Desk},
        socket::{Ended, Socket},
    },
};

mod batch;
mod begun;
mod jam;
mod place;

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
    /// Others sent something to this client.
    Mail,
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
    /// Of a command of which a part has come.
    begun: Option<Begun>,
    /// Bytes received since it connected.
    come: u64,
    /// What the desk holds while it waits for more.
    held: Held,
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
        held: Held::new(&client, room::Place::Heap),
        client,
        limits,
        desk: None,
        known: None,
        want: 0,
        filled: false,
        streak: (0, 0),
        jam: None,
        begun: None,
        come: 0,
    };
    let (conn, end) = run(Box::new(conn)).await;
    if let Some(mut conn) = conn {
        conn.rest();
        while conn.session.leave() {
            tokio::task::yield_now().await;
        }
    }
    end
}

/// Where it was lost, it is not returned.
async fn run<S: Session + 'static>(mut conn: Box<Conn<S>>) -> (Option<Box<Conn<S>>>, End) {
    let (place, mut late, mut told) = (Place::of(&conn), 0, false);
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
            Ok(Woken::Eof) => return (Some(conn), End::Closed),
            Err(Ended::Closed) => return conn.closed(),
            Err(Ended::TimedOut) => {
                let end = if conn.begun.is_some() { End::Late } else { End::Idle };
                return (Some(conn), end);
            }
            Err(Ended::Drained) if late >= LATE => return (Some(conn), End::Drained),
            Err(Ended::Drained) => match conn.received_before().await {
                0 if told || !conn.client.has_mail() => return (Some(conn), End::Drained),
                0 => {
                    // Others' last words to it: once, as they may go on.
                    told = true;
                    conn.batch(0).await
                }
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
            Err(Ended::Closed) => return conn.closed(),
            Err(Ended::Drained) => return (Some(conn), End::Closed),
        }
    }
}

impl<S: Session> Conn<S> {
    /// It cannot go on: killed, or broken.
    fn closed(self: Box<Self>) -> (Option<Box<Self>>, End) {
        let end = if self.client.is_killed() { End::Closed } else { End::Broken };
        (Some(self), end)
    }

    /// Begins to wait for bytes or mail.
    fn idle(&mut self) -> Result<(), Ended> {
        let used = self.desk.as_ref().is_some_and(|desk| desk.at > 0);
        self.make_room()?;
        let limits = self.limits.get();
        let idle = if self.client.stays() || limits.idle == 0 { Ms::MAX } else { self.rested + limits.idle };
        let late = self.note_begun(used, limits.receive).unwrap_or(Ms::MAX);
        let deadline = idle.min(late);
        self.socket.watch.wait_idle(if deadline == Ms::MAX { 0 } else { deadline });
        self.hold_desk()
    }

    /// Counts the buffer that is kept while nothing is done.
    fn hold_desk(&mut self) -> Result<(), Ended> {
        let bytes = self.desk.as_ref().map_or(0, |desk| desk.buf.capacity() as u64 + desk.out.capacity());
        self.client.settle();
        if self.held.resize(bytes) { Ok(()) } else { Err(Ended::Closed) }
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
            Ok(()) if self.is_quiet() && !self.socket.stream.is_read_ready() => {
                self.rest_if_empty();
                None
            }
            Ok(()) => self.look(),
            Err(ended) => Some(Err(ended)),
        }
    }

    /// Nothing is to be seen to but what is received, and its task is woken when something is.
    fn is_quiet(&self) -> bool {
        !self.client.is_killed() && !self.client.has_mail() && self.socket.watch.is_quiet()
    }

    /// Receives what was heard of.
    fn receive(&mut self) -> Option<Result<Woken, Ended>> {
        let read = if self.is_quiet() { self.read() } else { None };
        read.map_or_else(|| self.look(), |read| Some(read.map_err(Ended::from)))
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
            if let Some(read) = self.read() {
                return Poll::Ready(read);
            }
        }
        self.rest_if_empty();
        Poll::Pending
    }

    /// Gives the desk back when nothing is on it.
    fn rest_if_empty(&mut self) {
        if self.desk.as_ref().is_some_and(|desk| desk.buf.is_empty()) {
            self.rest();
        }
    }

    /// Receives; None: nothing is there.
    fn read(&mut self) -> Option<io::Result<Woken>> {
        let desk = self.desk.get_or_insert_with(|| self.conns.take_desk());
        match self.socket.stream.try_read_buf(&mut desk.buf) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Ok(0) => Some(Ok(Woken::Eof)),
            read => {
                self.filled = desk.buf.len() == desk.buf.capacity();
                Some(read.map(Woken::Bytes))
            }
        }
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
            self.held.resize(0);
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

#[cfg(test)]
mod tests;
