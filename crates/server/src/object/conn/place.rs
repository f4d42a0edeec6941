//! Where a connection is while it waits: its task and the rounds take it from there.

use std::{
    cell::Cell,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::{Rc, Weak},
    task::{Context, Poll},
};

use super::{Conn, Woken};
use crate::{
    net::{
        reactor::Readable,
        round::{Member, Work},
        socket::{Ended, Watch},
    },
    object::Session,
};

type Result = std::result::Result<Woken, Ended>;

/// A connection that waits, or whose batch does.
pub(super) struct Place<S> {
    conn: Cell<Option<Box<Conn<S>>>>,
    /// Bytes it has received, and when (microseconds): it waits for its round.
    received: Cell<Option<(usize, u64)>>,
    /// What is left to its task.
    woken: Cell<Option<Result>>,
    /// Answering it panicked: it is gone.
    lost: Cell<bool>,
    watch: Rc<Watch>,
}

impl<S: Session + 'static> Place<S> {
    /// A place for this connection.
    pub(super) fn of(conn: &Conn<S>) -> Rc<Self> {
        let place = Rc::new(Place {
            conn: Cell::default(),
            received: Cell::default(),
            woken: Cell::default(),
            lost: Cell::default(),
            watch: conn.socket.watch.clone(),
        });
        let told: Weak<Self> = Rc::downgrade(&place);
        conn.socket.stream.tell(told);
        place
    }

    /// Waits until there is something to do that no round does. None: the connection is lost.
    pub(super) async fn wait(&self, mut conn: Box<Conn<S>>) -> Option<(Box<Conn<S>>, Result)> {
        if let Err(ended) = conn.idle() {
            return Some((conn, Err(ended)));
        }
        self.conn.set(Some(conn));
        let mut waited = false;
        let (mut conn, woken) = poll_fn(|cx| {
            let polled = self.poll(cx);
            waited |= polled.is_pending();
            polled
        })
        .await?;
        conn.socket.watch.busy();
        if waited && !matches!(woken, Ok(Woken::Begun(_))) {
            conn.streak = (0, 0);
        }
        Some((conn, woken))
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<(Box<Conn<S>>, Result)>> {
        if self.lost.get() {
            return Poll::Ready(None);
        }
        // It is nowhere else: nobody keeps it over a wait.
        let Some(mut conn) = self.conn.take() else { return Poll::Pending };
        conn.know(cx.waker());
        let polled = match (self.received.get(), self.woken.take()) {
            (Some(_), _) => conn.socket.watch.wait(cx),
            (None, Some(woken)) => Poll::Ready(woken),
            (None, None) => conn.poll_wait(cx),
        };
        match polled {
            Poll::Ready(woken) => Poll::Ready(Some((conn, woken))),
            Poll::Pending => {
                self.conn.set(Some(conn));
                Poll::Pending
            }
        }
    }

    /// Puts it back; what there is to do is for its task.
    fn leave(&self, conn: Box<Conn<S>>, woken: Option<Result>) {
        if let (Some(_), Some(task)) = (&woken, &conn.known) {
            task.wake_by_ref();
        }
        self.woken.set(woken);
        self.conn.set(Some(conn));
    }
}

impl<S: Session + 'static> Place<S> {
    /// Something has come. False: it is for the task that waits.
    fn receive(self: Rc<Self>) -> bool {
        let Some(mut conn) = self.conn.take() else { return false };
        let left = self.woken.take();
        if self.received.get().is_some() || left.is_some() {
            // It is heard of in time: what has come stays where it is.
            self.woken.set(left);
            self.conn.set(Some(conn));
            return true;
        }
        match conn.receive() {
            Some(Ok(Woken::Bytes(received))) => {
                conn.socket.watch.busy();
                self.received.set(Some((received, conn.conns.reactor.polled_at())));
                let conns = conn.conns.clone();
                self.conn.set(Some(conn));
                conns.reactor.round.join(self);
            }
            woken => self.leave(conn, woken),
        }
        true
    }

    fn answer_now(&self) -> Work {
        let (Some(mut conn), Some((received, began))) = (self.conn.take(), self.received.take()) else {
            return Work::default();
        };
        let mut batch = conn.begin(received, began);
        let answered = conn.finish_now(&mut batch);
        let work = Work { commands: batch.commands, bytes: batch.received + batch.written, task: false };
        let woken = if answered { conn.wait_again() } else { Some(Ok(Woken::Begun(batch))) };
        self.leave(conn, woken);
        work
    }

    fn with(&self, work: impl FnOnce(&mut Conn<S>)) {
        self.guard(|| {
            if let Some(mut conn) = self.conn.take() {
                work(&mut conn);
                self.conn.set(Some(conn));
            }
        });
    }

    /// A panic costs the connection alone, as it would in its task.
    fn guard<T: Default>(&self, work: impl FnOnce() -> T) -> T {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
            self.lost.set(true);
            self.watch.wake();
            T::default()
        })
    }
}

impl<S: Session + 'static> Readable for Place<S> {
    fn readable(self: Rc<Self>) -> bool {
        let place = self.clone();
        self.guard(|| place.receive())
    }
}

impl<S: Session + 'static> Member for Place<S> {
    fn fetch(&self) {
        self.with(|conn| {
            if let Some(desk) = &conn.desk {
                conn.session.fetch(&desk.buf[desk.at..]);
            }
        });
    }

    fn fetch_more(&self) {
        self.with(|conn| conn.session.fetch_record());
    }

    fn answer(self: Rc<Self>) -> Work {
        self.guard(|| self.answer_now())
    }
}
