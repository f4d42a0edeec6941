//! A connection between its requests: a slot without a task, a future or a buffer.
//!
//! The reactor tells the slot that bytes have come. The connection receives them and joins the
//! round, which answers it. Work that has to wait goes to a task of its own; when the connection is
//! idle again, the task gives it back and ends. (Design:
//! docs/decisions/0010-connections-at-rest.md.)

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    rc::{Rc, Weak},
};

use tokio::task::{spawn_local, yield_now};

use super::{
    reactor::{Reactor, Readable},
    reused::Reused,
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

    /// Prefetches the first memory that its answer needs.
    fn fetch(&mut self) {}

    /// Prefetches the memory that the first leads to.
    fn fetch_more(&mut self) {}

    /// Nothing can be received: looks for other work before it rests.
    fn attend(&mut self) -> Next<Self::Todo> {
        Next::Rest
    }

    /// It is woken while it waits in the slot: settings may have changed.
    fn refresh(&mut self) {}

    /// Another process takes over: leaves for it, if it can. True: it is there, and this end is to
    /// be dropped.
    fn pass(&mut self) -> bool {
        false
    }

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
    joined: Cell<Joined>,
    /// When the bytes came that it joined the round for, in microseconds.
    came: Cell<u64>,
    reactor: Rc<Reactor>,
}

/// Whether a connection waits for its round.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Joined {
    #[default]
    No,
    /// It has received bytes.
    Received,
    /// It receives when its turn comes: until then it needs no buffer.
    Unreceived,
}

impl<C: Connection> Slot<C> {
    /// Puts a new connection at rest. The slot lives as long as the connection's watch.
    pub(crate) fn open(conn: Box<C>, reactor: &Rc<Reactor>) {
        let slot = Rc::new(Slot {
            conn: Cell::default(),
            joined: Cell::default(),
            came: Cell::default(),
            reactor: reactor.clone(),
        });
        let told: Weak<Self> = Rc::downgrade(&slot);
        conn.socket().stream.tell(told);
        conn.socket().watch.settle(slot.clone());
        slot.follow(conn, Next::Rest);
    }

    /// Takes the next step. Returns whether that is a task's.
    fn follow(self: Rc<Self>, mut conn: Box<C>, next: Next<C::Todo>) -> bool {
        match settled(&mut *conn, next) {
            Next::Rest => self.conn.set(Some(conn)),
            Next::Answer if self.reactor.in_round.get() => {
                self.join(conn, Joined::Received);
            }
            next @ (Next::Answer | Next::Task(_)) => {
                // In a box: the runtime moves a task several times.
                spawn_local(Reused::new(self.proceed(conn, next)));
                return true;
            }
            Next::Close => {}
        }
        false
    }

    fn join(self: Rc<Self>, conn: Box<C>, joined: Joined) {
        self.conn.set(Some(conn));
        self.joined.set(joined);
        self.came.set(self.reactor.polled_at());
        self.reactor.clone().round.join(self);
    }

    /// Works on a connection until it rests or is over. Requests that have come meanwhile are
    /// answered here, as no round may be under way.
    async fn proceed(self: Rc<Self>, mut conn: Box<C>, mut next: Next<C::Todo>) {
        loop {
            next = match settled(&mut *conn, next) {
                Next::Task(todo) => {
                    let done = pin!(conn.proceed(todo)).await;
                    let Some((back, next)) = done else { return };
                    conn = back;
                    next
                }
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
        let joined = self.joined.take();
        let Some(mut conn) = self.conn.take() else { return Work::default() };
        let next = if joined == Joined::Unreceived { conn.receive() } else { Next::Answer };
        let (mut work, next) = match next {
            Next::Answer => conn.answer(self.came.get()),
            other => (Work { commands: 1, ..Work::default() }, other),
        };
        work.task = self.follow(conn, next);
        work
    }
}

/// The next step of a connection that may have to do something else before it rests.
fn settled<C: Connection>(conn: &mut C, mut next: Next<C::Todo>) -> Next<C::Todo> {
    while let Next::Rest = next {
        if conn.pass() {
            return Next::Close;
        }
        let socket = conn.socket();
        next = match socket.watch.check() {
            Err(ended) => conn.ended(ended),
            Ok(()) if socket.stream.is_read_ready() => conn.receive(),
            Ok(()) => match conn.attend() {
                Next::Rest => return Next::Rest,
                other => other,
            },
        };
    }
    next
}

/// A panic closes the connection it happened for, and no other.
pub(super) fn guard<T: Default>(work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_default()
}

impl<C: Connection> Readable for Slot<C> {
    fn readable(self: Rc<Self>) -> bool {
        let Some(mut conn) = self.conn.take() else { return false };
        if self.joined.get() != Joined::No {
            // New bytes stay in the socket until the round is over.
            self.conn.set(Some(conn));
            return true;
        }
        if self.reactor.round.is_crowded() && self.reactor.in_round.get() {
            self.join(conn, Joined::Unreceived);
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
        if self.joined.get() != Joined::No {
            return;
        }
        if let Some(mut conn) = self.conn.take() {
            guard(|| {
                conn.refresh();
                self.follow(conn, Next::Rest)
            });
        }
    }
}

impl<C: Connection> Slot<C> {
    fn with(&self, work: impl FnOnce(&mut C)) {
        if let Some(mut conn) = self.conn.take() {
            guard(|| {
                work(&mut conn);
                self.conn.set(Some(conn));
            });
        }
    }
}

impl<C: Connection> Member for Slot<C> {
    fn fetch(&self) {
        self.with(C::fetch);
    }

    fn fetch_more(&self) {
        self.with(C::fetch_more);
    }

    fn answer(self: Rc<Self>) -> Work {
        guard(|| self.answer_now())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        os::unix::net::UnixStream,
    };

    use tokio::task::LocalSet;

    use super::*;
    use crate::{
        clock::Clock,
        net::{
            conns::{Conns, Group, TrackedConnection, WorkerShared},
            stream::{Kind, Stream},
        },
    };

    /// Rounds in which a client of the test always has sent more.
    const STREAMED: usize = 1000;

    /// Echoes each piece. `t...`: from a task; `p...`: panics; `q...`: closes; `s...`: the client
    /// always has sent more, and the answer takes a whole turn.
    struct Echo {
        socket: Socket,
        received: Vec<u8>,
        tasks: Rc<Cell<usize>>,
        _tracked: TrackedConnection,
    }

    impl Connection for Echo {
        type Todo = ();

        fn socket(&self) -> &Socket {
            &self.socket
        }

        fn receive(&mut self) -> Next<()> {
            match self.socket.stream.try_read_buf(&mut self.received) {
                Ok(1..) => Next::Answer,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Next::Rest,
                Ok(0) | Err(_) => Next::Close,
            }
        }

        fn answer(&mut self, _began: u64) -> (Work, Next<()>) {
            let next = match self.received[0] {
                b't' => return (Work::default(), Next::Task(())),
                b'p' => panic!("as it was asked to"),
                b'q' => Next::Close,
                b's' if self.tasks.get() < STREAMED => {
                    self.tasks.set(self.tasks.get() + 1);
                    return (Work { bytes: 1 << 30, ..Work::default() }, Next::Answer);
                }
                _ => Next::Rest,
            };
            self.socket.stream.try_write(&std::mem::take(&mut self.received)).expect("sent");
            (Work::default(), next)
        }

        fn ended(&mut self, _: Ended) -> Next<()> {
            Next::Close
        }

        async fn proceed(mut self: Box<Self>, (): ()) -> Option<(Box<Self>, Next<()>)> {
            yield_now().await;
            self.tasks.set(self.tasks.get() + 1);
            self.received[0] = b'T';
            Some((self, Next::Answer))
        }
    }

    struct Far {
        stream: UnixStream,
        tasks: Rc<Cell<usize>>,
    }

    impl Far {
        fn open(conns: &Rc<Conns>, deadline: u64) -> Far {
            let (far, near) = UnixStream::pair().expect("a pair");
            far.set_nonblocking(true).expect("a flag");
            near.set_nonblocking(true).expect("a flag");
            let stream = Stream::new(&conns.reactor, near.into(), Kind::Unix).expect("registered");
            let (tasks, tracked) = (Rc::<Cell<usize>>::default(), conns.track(Group::Pages));
            let socket = Socket { stream, watch: tracked.watch.clone() };
            socket.watch.wait_idle(deadline);
            let echo =
                Echo { socket, received: Vec::new(), tasks: tasks.clone(), _tracked: tracked };
            Slot::open(Box::new(echo), &conns.reactor);
            Far { stream: far, tasks }
        }

        fn send(&mut self, piece: &str) {
            self.stream.write_all(piece.as_bytes()).expect("sent");
        }

        /// The next piece; empty at the end of the connection.
        async fn next(&mut self) -> String {
            let mut piece = [0; 100];
            loop {
                match self.stream.read(&mut piece) {
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                        yield_now().await
                    }
                    read => {
                        return String::from_utf8_lossy(&piece[..read.unwrap_or(0)]).into_owned();
                    }
                }
            }
        }
    }

    fn run<F: Future<Output = ()>>(test: impl FnOnce(Rc<Conns>) -> F) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        LocalSet::new().block_on(&runtime, async {
            let conns = Conns::new(WorkerShared::new(Clock::start(), 1 << 20)).expect("a reactor");
            let runs = conns.clone();
            spawn_local(async move { runs.reactor.run().await });
            test(conns.clone()).await;
            conns.close_resting();
        });
    }

    #[test]
    fn a_round_answers_and_a_task_is_started_only_for_work_that_waits() {
        run(|conns| async move {
            let mut fars: Vec<_> = (0..20).map(|_| Far::open(&conns, 0)).collect();
            for round in 0..3 {
                for (number, far) in fars.iter_mut().enumerate() {
                    far.send(if number % 2 == 0 { "round" } else { "task" });
                }
                for (number, far) in fars.iter_mut().enumerate() {
                    assert_eq!(far.next().await, if number % 2 == 0 { "round" } else { "Task" });
                    assert_eq!(far.tasks.get(), if number % 2 == 0 { 0 } else { round + 1 });
                }
            }
        });
    }

    #[test]
    fn clients_that_always_have_sent_more_do_not_keep_others_out() {
        run(|conns| async move {
            // More than receive for one round.
            let mut streaming: Vec<_> = (0..100).map(|_| Far::open(&conns, 0)).collect();
            let mut other = Far::open(&conns, 0);
            streaming.iter_mut().for_each(|far| far.send("streams"));
            while streaming.iter().any(|far| far.tasks.get() == 0) {
                yield_now().await;
            }
            other.send("hello");
            assert_eq!(other.next().await, "hello");
            assert!(streaming.iter().all(|far| far.tasks.get() < STREAMED));
            for far in &mut streaming {
                assert_eq!(far.next().await, "streams");
            }
        });
    }

    #[test]
    fn a_panic_closes_its_own_connection() {
        run(|conns| async move {
            let mut fars: Vec<_> = (0..3).map(|_| Far::open(&conns, 0)).collect();
            fars[1].send("panic");
            assert_eq!(fars[1].next().await, "");
            for far in [0, 2] {
                fars[far].send("still here");
                assert_eq!(fars[far].next().await, "still here");
            }
        });
    }

    #[test]
    fn a_connection_at_rest_ends_by_deadline_drain_and_both_sides() {
        run(|conns| async move {
            let past = conns.clock.now();
            let (mut late, mut own, mut other) =
                (Far::open(&conns, past), Far::open(&conns, 0), Far::open(&conns, 0));
            own.send("quit");
            assert_eq!((own.next().await, own.next().await), ("quit".to_owned(), String::new()));
            let tasks = Rc::downgrade(&other.tasks);
            other.stream.shutdown(std::net::Shutdown::Write).expect("ended");
            assert_eq!(other.next().await, "");
            assert_eq!(tasks.strong_count(), 1, "the connection is gone with all it held");
            let sweeps = conns.clone();
            let sweep = spawn_local(async move { sweeps.sweep().await });
            assert_eq!(late.next().await, "");
            sweep.abort();
            let mut idle = Far::open(&conns, 0);
            conns.start_drain(Group::Pages);
            assert_eq!(idle.next().await, "");
            conns.drained().await;
        });
    }
}
