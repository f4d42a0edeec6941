//! The loop over real sockets, with a session that answers lines.

mod admission;
mod composed;
mod given_up;

use std::{
    cell::Cell,
    cell::RefCell,
    future::Future,
    net::TcpListener,
    os::{fd::OwnedFd, unix::net::UnixStream},
    rc::Rc,
    sync::{Arc, atomic::Ordering},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::oneshot,
    task::{JoinHandle, LocalSet, spawn_local, yield_now},
};

use super::*;
use crate::{
    clock::Clock,
    net::{
        conns::{Conns, Group, WorkerShared},
        out::Out,
        stream::{Kind, Stream},
    },
    object::{Clients, HIGH_WATER, Peer, Sent, Turn, TurnTime},
};

const LIMITS: Limits = Limits {
    connections: 10,
    connections_fast: true,
    idle: 0,
    receive: 60_000,
    send: 60_000,
    gather: 0,
    commands: 20,
    backlog: 8,
};
/// One turn's part of a long answer.
const PART: usize = 1024;
/// Bytes of a step of an answer.
const STEP: usize = 100_000;

/// Record of a session's calls, for the test.
#[derive(Default)]
struct Seen {
    batches: RefCell<Vec<Sent>>,
    turns: Cell<usize>,
    /// How often more was received in the middle of a batch.
    gathered: Cell<usize>,
    /// The most that waited to be sent when a turn began.
    most_pending: Cell<u64>,
}

/// Echoes lines. `long N`: an answer of N parts; `steps N`: one of N steps of [`STEP`] bytes each,
/// none of which is sent before the last; `mail X`: somebody sends the client X meanwhile; `quit`;
/// `panic`.
struct Echo {
    client: Arc<Client>,
    seen: Rc<Seen>,
    parts: usize,
    steps: usize,
    turn_time: TurnTime,
}

impl Session for Echo {
    const FACE: crate::net::face_name::FaceName = crate::net::face_name::FaceName::Redis;

    fn turn(&mut self, input: &[u8], _now: Ms, out: &mut Out) -> Turn {
        self.seen.turns.set(self.seen.turns.get() + 1);
        self.seen.most_pending.set(self.seen.most_pending.get().max(out.pending()));
        if self.parts > 0 {
            return self.go_on(0, out);
        }
        if self.steps > 0 {
            return self.step(0, out);
        }
        let Some(end) = input.iter().position(|&byte| byte == b'\n') else { return Turn::More(0) };
        let (line, used) = (&input[..end], end + 1);
        let number = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|n| n.parse().ok());
        if let Some(parts) = line.strip_prefix(b"long ").and_then(number) {
            self.parts = parts;
            return self.go_on(used, out);
        }
        if let Some(steps) = line.strip_prefix(b"steps ").and_then(number) {
            self.steps = steps;
            return self.step(used, out);
        }
        if let Some(mail) = line.strip_prefix(b"mail ") {
            assert!(self.client.push(mail, 100));
            return Turn::Used(used);
        }
        if line == b"panic" {
            panic!("as it was asked to");
        }
        if line == b"quit" {
            out.scratch().extend_from_slice(b"bye\n");
            return Turn::Close;
        }
        out.scratch().extend_from_slice(&input[..used]);
        Turn::Used(used)
    }

    fn turn_time(&self) -> &TurnTime {
        &self.turn_time
    }

    fn fetch(&mut self, _input: &[u8]) {}

    fn fetch_record(&mut self) {}

    fn received(&mut self) {
        self.seen.gathered.set(self.seen.gathered.get() + 1);
    }

    fn sent(&mut self, batch: Sent) {
        self.seen.batches.borrow_mut().push(batch);
    }

    fn awaits(&self) -> bool {
        false
    }
}

impl Echo {
    fn new(client: Arc<Client>, seen: Rc<Seen>) -> Echo {
        Echo { client, seen, parts: 0, steps: 0, turn_time: TurnTime::default() }
    }

    fn step(&mut self, used: usize, out: &mut Out) -> Turn {
        self.steps -= 1;
        out.scratch().extend_from_slice(&[b's'; STEP]);
        if self.steps > 0 { Turn::Again(used) } else { Turn::Used(used) }
    }

    fn go_on(&mut self, used: usize, out: &mut Out) -> Turn {
        while self.parts > 0 {
            if out.pending() > HIGH_WATER {
                return Turn::Flush(used);
            }
            self.parts -= 1;
            out.scratch().extend_from_slice(&[b'x'; PART]);
        }
        Turn::Used(used)
    }
}

/// Limits for a connection; tells a test how it ended.
struct Admitted(Limits, Cell<Option<oneshot::Sender<End>>>);

impl Admission for Admitted {
    fn limits(&self) -> Limits {
        self.0
    }

    fn count(&self, _: Event) {}

    fn left(&self, _: &Client, end: End) {
        let tell = self.1.take().expect("dropped once");
        let _ = tell.send(end);
    }
}

/// A client's end, and a look at the other one.
struct Pair {
    far: Stream,
    conns: Rc<Conns>,
    watch: Rc<crate::net::socket::Watch>,
    client: Arc<Client>,
    seen: Rc<Seen>,
    served: JoinHandle<End>,
}

fn conns() -> Rc<Conns> {
    let conns = Conns::new(WorkerShared::new(Clock::start(), 1 << 20)).expect("a reactor");
    let watched = conns.clone();
    spawn_local(async move { watched.reactor.run().await });
    conns
}

/// Two connected sockets that do not block.
struct Sockets(OwnedFd, OwnedFd, Kind);

fn tcp() -> Sockets {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let far = std::net::TcpStream::connect(listener.local_addr().expect("bound")).expect("connect");
    let (near, _) = listener.accept().expect("accept");
    for end in [&far, &near] {
        end.set_nonblocking(true).expect("a flag");
    }
    Sockets(far.into(), near.into(), Kind::Tcp)
}

fn unix() -> Sockets {
    let (far, near) = UnixStream::pair().expect("pair");
    for end in [&far, &near] {
        end.set_nonblocking(true).expect("a flag");
    }
    Sockets(far.into(), near.into(), Kind::Unix)
}

/// Serves the second of two connected sockets.
fn pair(sockets: Sockets, limits: Limits) -> Pair {
    pair_on(&conns(), sockets, limits)
}

/// The same beside others.
fn pair_on(conns: &Rc<Conns>, sockets: Sockets, limits: Limits) -> Pair {
    pair_of(conns, &Clients::default(), sockets, limits)
}

/// The same with a client among others.
fn pair_of(
    conns: &Rc<Conns>,
    clients: &Clients,
    Sockets(far, near, kind): Sockets,
    limits: Limits,
) -> Pair {
    let stream = |socket| Stream::new(&conns.reactor, socket, kind).expect("registered");
    let (far, near) = (stream(far), stream(near));
    let client = clients.enter(Peer::Unix, "here", conns.clock.now());
    let seen = Rc::new(Seen::default());
    let tracked = conns.track(Group::Objects);
    let watch = tracked.watch.clone();
    let session = Echo::new(client.clone(), seen.clone());
    let (tell, told) = oneshot::channel();
    let admitted = Rc::new(Admitted(limits, Cell::new(Some(tell))));
    open(tracked, near, session, client.clone(), admitted);
    let served = spawn_local(async move { told.await.expect("an end") });
    Pair { far, conns: conns.clone(), watch, client, seen, served }
}

impl Pair {
    async fn send(&mut self, bytes: &[u8]) {
        (&self.far).write_all(bytes).await.expect("send");
    }

    async fn expect(&mut self, bytes: &[u8]) {
        let mut got = vec![0; bytes.len()];
        (&self.far).read_exact(&mut got).await.expect("an answer");
        assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(bytes));
    }

    /// All that comes until the other side ends in order.
    async fn rest(&mut self) -> Vec<u8> {
        let mut got = Vec::new();
        (&self.far).read_to_end(&mut got).await.expect("an end, not a reset");
        got
    }

    /// Lets the other side work until `done`.
    async fn until(&self, done: impl Fn(&Pair) -> bool) {
        while !done(self) {
            yield_now().await;
        }
    }

    async fn end(self) -> End {
        self.served.await.expect("served")
    }
}

/// Runs a test on a runtime as a worker has.
fn run<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    LocalSet::new().block_on(&runtime, async { test().await });
}

#[test]
fn a_pipelined_batch_is_answered_at_once() {
    run(|| async {
        for streams in [tcp(), unix()] {
            let mut pair = pair(streams, LIMITS);
            let batch: Vec<u8> = (0..64).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
            pair.send(&batch).await;
            pair.expect(&batch).await;
            pair.until(|pair| !pair.seen.batches.borrow().is_empty()).await;
            let batches = pair.seen.batches.take();
            let len = batch.len() as u64;
            assert_eq!(
                batches.iter().map(|b| (b.received, b.written)).collect::<Vec<_>>(),
                [(len, len)]
            );
            assert_eq!(pair.seen.turns.get(), 64, "no turn without input");
            drop(pair.far);
            assert_eq!(pair.served.await.expect("served"), End::Closed);
        }
    });
}

#[test]
fn a_command_may_come_in_pieces() {
    run(|| async {
        for streams in [tcp(), unix()] {
            let mut pair = pair(streams, LIMITS);
            for (number, piece) in
                [&b"one\ntw"[..], b"", b"o\nth", b"ree\n"].into_iter().enumerate()
            {
                if piece.is_empty() {
                    continue;
                }
                let before = pair.seen.batches.borrow().len();
                pair.send(piece).await;
                pair.until(|pair| pair.seen.batches.borrow().len() > before).await;
                assert!(number < 4);
            }
            pair.expect(b"one\ntwo\nthree\n").await;
            assert_eq!(pair.seen.batches.borrow().len(), 3);
        }
    });
}

#[test]
fn a_command_may_fill_the_window_and_no_more() {
    run(|| async {
        let mut fits = pair(tcp(), LIMITS);
        let line = [&vec![b'a'; WINDOW - 1][..], b"\n"].concat();
        fits.send(&line).await;
        fits.expect(&line).await;

        let mut exceeds = pair(tcp(), LIMITS);
        exceeds.send(&vec![b'a'; WINDOW]).await;
        assert_eq!(exceeds.end().await, End::Broken);
    });
}

#[test]
fn mail_reaches_a_client_that_waits() {
    run(|| async {
        for streams in [tcp(), unix()] {
            let mut pair = pair(streams, LIMITS);
            pair.send(b"one\n").await;
            pair.expect(b"one\n").await;
            for mail in [&b"first\n"[..], b"second\n"] {
                let client = pair.client.clone();
                let pushed = std::thread::spawn(move || client.push(mail, 100)).join();
                assert!(pushed.expect("pushed"));
                pair.expect(mail).await;
            }
            assert!(!pair.client.push(&[b'x'; 101], 100), "beyond the limit");
            assert_eq!(pair.client.waiting(), 0);
        }
    });
}

#[test]
fn mail_alone_counts_as_work() {
    run(|| async {
        let client = Clients::default().enter(Peer::Unix, "here", 0);
        let conns = conns();
        let (tracked, Sockets(_far, near, kind)) = (conns.track(Group::Objects), unix());
        let stream = Stream::new(&conns.reactor, near, kind).expect("registered");
        let session = Echo::new(client.clone(), Rc::default());
        let (tell, _told) = oneshot::channel();
        let admitted = Rc::new(Admitted(LIMITS, Cell::new(Some(tell))));
        let mut conn = Conn::new(tracked, stream, session, client.clone(), admitted);
        assert!(client.push(b"mail\n", 100));
        let (work, next) = conn.answer(0);
        assert!(matches!(next, Next::Rest));
        assert_eq!((work.commands, work.bytes), (1, 5));
    });
}

#[test]
fn mail_comes_between_answers() {
    run(|| async {
        let mut pair = pair(tcp(), LIMITS);
        // The mail is there before the long answer is begun, and this takes several writes.
        pair.send(b"one\nmail m\nlong 300\nlast\n").await;
        let long = [b'x'; 300 * PART];
        pair.expect(b"one\n").await;
        pair.expect(&long).await;
        let mut rest = [0; 6];
        (&pair.far).read_exact(&mut rest).await.expect("the rest");
        assert!(rest == *b"mlast\n" || rest == *b"last\nm", "{rest:?}");
    });
}

#[test]
fn nothing_reaches_a_client_that_left() {
    run(|| async {
        let clients = Clients::default();
        let client = clients.enter(Peer::Unix, "here", 1);
        assert_eq!((clients.open(), clients.list().len()), (1, 1));
        clients.leave(&client);
        clients.leave(&client);
        assert_eq!((clients.open(), clients.list().len()), (0, 0));
        assert!(!client.push(b"x", 100));
    });
}

#[test]
fn what_was_received_is_answered_before_the_end() {
    run(|| async {
        for streams in [tcp(), unix()] {
            let mut pair = pair(streams, LIMITS);
            pair.send(b"one\n").await;
            pair.expect(b"one\n").await;
            pair.send(b"two\nthree\nfo").await;
            pair.conns.start_drain(Group::Objects);
            assert_eq!(pair.rest().await, b"two\nthree\n");
            assert_eq!(pair.end().await, End::Drained);
        }
    });
}

#[test]
fn a_client_that_always_sends_does_not_hold_up_the_end() {
    let line = [&[b'x'; 99][..], b"\n"].concat().repeat(500);
    // The second client reads; the last one does not before the server stops, so that its answers
    // are gathered.
    for (gather, reads) in [(0, true), (64 << 20, true), (64 << 20, false)] {
        run(|| async {
            let pair = pair(unix(), Limits { gather, ..LIMITS });
            let (mut taken, mut after) = (Vec::with_capacity(1 << 20), 0);
            let (mut sent, mut stops) = (0, false);
            while !pair.served.is_finished() {
                sent += pair.far.try_write(&line).unwrap_or(0);
                if reads || stops {
                    taken.clear();
                    let _ = pair.far.try_read_buf(&mut taken);
                }
                yield_now().await;
                if stops {
                    after += 1;
                    assert!(after < 100_000, "it goes on after {sent} bytes");
                } else if sent > 4 << 20 {
                    stops = true;
                    pair.conns.start_drain(Group::Objects);
                }
            }
            assert_eq!(pair.end().await, End::Drained);
        });
    }
}

#[test]
fn an_idle_connection_ends_with_the_server() {
    run(|| async {
        let mut pair = pair(unix(), LIMITS);
        pair.send(b"one\n").await;
        pair.expect(b"one\n").await;
        pair.conns.start_drain(Group::Objects);
        assert_eq!(pair.rest().await, b"");
        assert_eq!(pair.end().await, End::Drained);
    });
}

#[test]
fn the_last_answer_survives_what_nobody_read() {
    run(|| async {
        let mut pair = pair(tcp(), LIMITS);
        pair.send(&[&b"one\nquit\n"[..], &[b'z'; 50_000]].concat()).await;
        assert_eq!(pair.rest().await, b"one\nbye\n");
        drop(pair.far);
        assert_eq!(pair.served.await.expect("served"), End::Closed);
    });
}

#[test]
fn an_idle_connection_holds_no_buffers() {
    run(|| async {
        let mut pair = pair(tcp(), LIMITS);
        pair.send(b"one\n").await;
        pair.expect(b"one\n").await;
        // Exactly a buffer's fill: there might be more.
        let filling = [&[b'a'; 16 * 1024 - 1][..], b"\n"].concat();
        pair.send(&filling).await;
        pair.expect(&filling).await;
        pair.until(|pair| pair.conns.free_buffers() == 1).await;
        // Nor after mail, which nothing is received for.
        assert!(pair.client.push(b"mail\n", 100));
        pair.expect(b"mail\n").await;
        pair.until(|pair| pair.conns.free_buffers() == 1).await;
        assert!(pair.client.active.load(Ordering::Relaxed) >= pair.client.since);
    });
}

#[test]
fn a_panic_costs_its_own_connection_alone() {
    run(|| async {
        let conns = conns();
        let mut others = [pair_on(&conns, tcp(), LIMITS), pair_on(&conns, unix(), LIMITS)];
        let mut panics = pair_on(&conns, tcp(), LIMITS);
        panics.send(b"panic\n").await;
        for other in &mut others {
            other.send(b"line\n").await;
        }
        for other in &mut others {
            other.expect(b"line\n").await;
            other.send(b"again\n").await;
            other.expect(b"again\n").await;
        }
        assert_eq!((&panics.far).read(&mut [0; 1]).await.unwrap_or(0), 0, "closed");
        assert_eq!(panics.end().await, End::Closed);
    });
}

#[test]
fn many_that_are_ready_at_once_are_all_answered() {
    run(|| async {
        let conns = conns();
        let mut pairs: Vec<Pair> = (0..150).map(|_| pair_on(&conns, unix(), LIMITS)).collect();
        for round in 0..3 {
            for (n, pair) in pairs.iter_mut().enumerate() {
                // Some have more than a turn's work, some what only their task can do.
                let line = match n % 3 {
                    0 => "line\n".to_owned(),
                    1 => "line\n".repeat(600),
                    _ => format!("long {}\n", n + round),
                };
                pair.send(line.as_bytes()).await;
            }
            for (n, pair) in pairs.iter_mut().enumerate() {
                match n % 3 {
                    0 => pair.expect(b"line\n").await,
                    1 => pair.expect("line\n".repeat(600).as_bytes()).await,
                    _ => pair.expect(&vec![b'x'; (n + round) * PART]).await,
                }
            }
        }
    });
}
