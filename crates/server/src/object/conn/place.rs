//! Where a connection is while it waits: its task and the rounds take it from there.

use std::{
    cell::Cell,
    future::poll_fn,
    rc::Rc,
    task::{Context, Poll},
};

use super::{Conn, Woken};
use crate::{
    net::{
        conns::Conns,
        round::{Member, Work},
        socket::Ended,
    },
    object::Session,
};

type Result = std::result::Result<Woken, Ended>;

/// A connection that waits, or whose batch does.
pub(super) struct Place<S> {
    conns: Rc<Conns>,
    conn: Cell<Option<Box<Conn<S>>>>,
    /// Bytes it has received, and when (microseconds): it waits for its round.
    received: Cell<Option<(usize, u64)>>,
    /// What a round left to its task.
    woken: Cell<Option<Result>>,
    /// Its task is the one that begins the round.
    leads: Cell<bool>,
}

/// Waits until there is something to do that no round does.
pub(super) async fn wait<S: Session + 'static>(
    place: &Rc<Place<S>>,
    mut conn: Box<Conn<S>>,
) -> (Box<Conn<S>>, Result) {
    if let Err(ended) = conn.idle() {
        return (conn, Err(ended));
    }
    place.conn.set(Some(conn));
    let mut waited = false;
    let (mut conn, woken) = poll_fn(|cx| {
        let polled = place.poll(cx);
        waited |= polled.is_pending();
        polled
    })
    .await;
    conn.socket.watch.busy();
    if waited && !matches!(woken, Ok(Woken::Begun(_))) {
        conn.streak = (0, 0);
    }
    (conn, woken)
}

impl<S: Session + 'static> Place<S> {
    pub(super) fn new(conns: Rc<Conns>) -> Rc<Self> {
        Rc::new(Place {
            conns,
            conn: Cell::default(),
            received: Cell::default(),
            woken: Cell::default(),
            leads: Cell::default(),
        })
    }

    fn poll(self: &Rc<Self>, cx: &mut Context<'_>) -> Poll<(Box<Conn<S>>, Result)> {
        if self.leads.get() {
            if !self.conns.round.answer() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.leads.set(false);
        }
        // It is nowhere else: nobody keeps it over a wait.
        let Some(mut conn) = self.conn.take() else { return Poll::Pending };
        conn.know(cx.waker());
        let polled = match (self.received.get(), self.woken.take()) {
            (Some(_), _) => Poll::Pending,
            (None, Some(woken)) => Poll::Ready(woken),
            (None, None) => conn.poll_wait(cx),
        };
        match polled {
            Poll::Ready(Ok(Woken::Bytes(n))) => {
                self.join(conn, n, cx);
                Poll::Pending
            }
            Poll::Ready(woken) => Poll::Ready((conn, woken)),
            Poll::Pending => {
                self.conn.set(Some(conn));
                Poll::Pending
            }
        }
    }

    /// Bytes came: they are answered in the next round.
    fn join(self: &Rc<Self>, mut conn: Box<Conn<S>>, received: usize, cx: &Context<'_>) {
        conn.socket.watch.busy();
        self.received.set(Some((received, self.conns.clock.micros())));
        if let Some(desk) = &conn.desk {
            conn.session.fetch(&desk.buf[desk.at..]);
        }
        self.conn.set(Some(conn));
        if self.conns.round.join(self.clone()) {
            // Behind those that are to receive something now.
            self.leads.set(true);
            cx.waker().wake_by_ref();
        }
    }
}

impl<S: Session> Member for Place<S> {
    fn answer(&self) -> Work {
        let (Some(mut conn), Some((received, began))) = (self.conn.take(), self.received.take()) else {
            return Work::default();
        };
        let mut batch = conn.begin(received, began);
        let answered = conn.finish_now(&mut batch);
        let work = Work { commands: batch.commands, bytes: batch.received + batch.written };
        let woken = if answered { conn.wait_again() } else { Some(Ok(Woken::Begun(batch))) };
        if let (Some(_), Some(task)) = (&woken, &conn.known) {
            task.wake_by_ref();
        }
        self.woken.set(woken);
        self.conn.set(Some(conn));
        work
    }
}
