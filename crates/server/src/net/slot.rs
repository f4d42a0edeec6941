//! A connection between its requests: a slot without a task, a future or a buffer.
//!
//! The reactor tells the slot that bytes have come. The connection receives them and joins the
//! round, which answers it. Work that has to wait goes to a task of its own; when the connection is
//! idle again, the task gives it back and ends. (Design: docs/decisions/0010-connections-at-rest.md.)

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::{Rc, Weak},
};

use tokio::task::{spawn_local, yield_now};

use super::{
    reactor::{Reactor, Readable},
    round::{Member, Work},
    socket::{Ended, Socket},
};

/// The next step of a connection.
pub(crate) enum Next<T> {
    /// Wait until something is received.
    Rest,
    /// Bytes are there: answer them in the round.
    Answer,
    /// Work that has to wait, for a task.
    Task(T),
    /// The connection is over.
    Close,
}

/// A client's connection as its slot sees it. Dropping it closes it.
pub(crate) trait Connection: Sized + 'static {
    /// Work that a task takes over.
    type Todo: 'static;

    fn socket(&self) -> &Socket;

    /// Receives once. [`Next::Rest`]: nothing was there.
    fn receive(&mut self) -> Next<Self::Todo>;

    /// Answers the received bytes, without waiting for anything.
    fn answer(&mut self, began: u64) -> (Work, Next<Self::Todo>);

    /// Its deadline passed, or the server stops, while it waits in the slot.
    fn ended(&mut self, ended: Ended) -> Next<Self::Todo>;

    /// Does in a task what a round cannot. `None`: the connection is over.
    fn proceed(
        self: Box<Self>,
        todo: Self::Todo,
    ) -> impl Future<Output = Option<(Box<Self>, Next<Self::Todo>)>>;
}

/// A connection of the sweep's list that waits in no task.
pub(crate) trait Resting {
    /// Something about the connection has changed (its deadline, the server's end): looks at it.
    fn look(self: Rc<Self>);
}

/// Holds a connection while it waits to receive, or for its round.
pub(crate) struct Slot<C> {
    /// `None` while a task has it, or when it is over.
    conn: Cell<Option<Box<C>>>,
    /// It has received bytes, and waits for its round.
    joined: Cell<bool>,
    reactor: Rc<Reactor>,
}

impl<C: Connection> Slot<C> {
    /// Puts a new connection at rest. The slot lives as long as the connection's watch.
    pub(crate) fn open(conn: Box<C>, reactor: &Rc<Reactor>) {
        let slot = Rc::new(Slot { conn: Cell::default(), joined: Cell::default(), reactor: reactor.clone() });
        let told: Weak<Self> = Rc::downgrade(&slot);
        conn.socket().stream.tell(told);
        conn.socket().watch.settle(slot.clone());
        slot.follow(conn, Next::Rest);
    }

    /// Takes the next step. Returns whether that is a task's.
    fn follow(self: Rc<Self>, mut conn: Box<C>, next: Next<C::Todo>) -> bool {
        match settled(&mut *conn, next) {
            Next::Rest => self.conn.set(Some(conn)),
            Next::Answer => {
                self.conn.set(Some(conn));
                self.joined.set(true);
                self.reactor.clone().round.join(self);
            }
            Next::Task(todo) => {
                spawn_local(self.proceed(conn, todo));
                return true;
            }
            Next::Close => {}
        }
        false
    }

    /// Works on a connection until it rests or is over. Requests that have come meanwhile are answered
    /// here, as no round may be under way.
    async fn proceed(self: Rc<Self>, mut conn: Box<C>, todo: C::Todo) {
        let mut next = Next::Task(todo);
        loop {
            next = match settled(&mut *conn, next) {
                Next::Task(todo) => match conn.proceed(todo).await {
                    Some((back, next)) => {
                        conn = back;
                        next
                    }
                    None => return,
                },
                Next::Answer => {
                    yield_now().await;
                    conn.answer(self.reactor.clock.micros()).1
                }
                Next::Rest => {
                    // Its wakers would keep this task's memory.
                    conn.socket().forget_wakers();
                    return self.conn.set(Some(conn));
                }
                Next::Close => return,
            };
        }
    }

    fn answer_now(self: Rc<Self>) -> Work {
        self.joined.set(false);
        let Some(mut conn) = self.conn.take() else { return Work::default() };
        let (mut work, next) = conn.answer(self.reactor.looked());
        work.task = self.follow(conn, next);
        work
    }
}

/// The next step of a connection that may have to do something else before it rests.
fn settled<C: Connection>(conn: &mut C, mut next: Next<C::Todo>) -> Next<C::Todo> {
    while let Next::Rest = next {
        let socket = conn.socket();
        next = match socket.watch.check() {
            Err(ended) => conn.ended(ended),
            Ok(()) if socket.stream.is_read_ready() => conn.receive(),
            Ok(()) => return Next::Rest,
        };
    }
    next
}

/// A panic closes the connection it happened for, and no other.
fn guard<T: Default>(work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_default()
}

impl<C: Connection> Readable for Slot<C> {
    fn readable(self: Rc<Self>) -> bool {
        let Some(mut conn) = self.conn.take() else { return false };
        if self.joined.get() {
            // What has come stays where it is until the round is over.
            self.conn.set(Some(conn));
            return true;
        }
        guard(|| {
            let next = conn.receive();
            self.follow(conn, next);
        });
        true
    }
}

impl<C: Connection> Resting for Slot<C> {
    fn look(self: Rc<Self>) {
        if self.joined.get() {
            return;
        }
        if let Some(conn) = self.conn.take() {
            guard(|| self.follow(conn, Next::Rest));
        }
    }
}

impl<C: Connection> Member for Slot<C> {
    fn fetch(&self) {}

    fn fetch_more(&self) {}

    fn answer(self: Rc<Self>) -> Work {
        guard(|| self.answer_now())
    }
}
