//! One connection: for each direction a reader that applies rules and a writer that waits.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use larder_proto::dialogue::{Dialect, Down, NEEDED, Up};

use super::{
    Protocol,
    layer::{Break, Layer, Next},
    pending::{PendingRequest, PendingRequests},
    plan::{ByteDelay, Plans},
    queue::{Begin, Chunk, Owner, Queue},
    record::{Counters, Request, RequestLog},
    report::Reporter,
    rule::Way,
    stream::Stream,
    timer::Timer,
};
use crate::engine::Address;

/// Most bytes read at once, so that other connections get their turn.
const READ: usize = 64 * 1024;
/// Time limit for connecting to the server.
const CONNECT: Duration = Duration::from_secs(10);
/// Interval at which an endless stall checks whether the other side has left, whose bytes are not
/// read.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// State shared by all connections of a proxy.
pub(super) struct Shared {
    pub(super) timer: Timer,
    pub(super) start: Instant,
    pub(super) plans: Plans,
    pub(super) to: Address,
    pub(super) protocol: Protocol,
    pub(super) request_log: RequestLog,
    pub(super) teller: Reporter,
}

/// Why a connection ended early.
enum EndReason {
    /// A rule reset it.
    Reset,
    /// A side reset it, or left during a stall.
    Left,
}

struct Connection {
    shared: Rc<Shared>,
    number: u64,
    peer: String,
    client: Stream,
    server: Stream,
    dialect: RefCell<Dialect>,
    pending: PendingRequests,
    requests: Cell<u64>,
    /// Time of the last bytes sent to the client.
    answered_at: Cell<Option<Instant>>,
    up: Queue,
    down: Queue,
}

/// Serves a connection until its end.
pub(super) async fn serve(shared: Rc<Shared>, client: Stream, peer: String, number: u64) {
    let counters = shared.request_log.counters.clone();
    let plan = shared.plans.now();
    let opening = plan.opening(number);
    if opening.refused {
        Counters::add(&counters.refused, 1);
        client.reset_at_close();
        return;
    }
    if !opening.hold.is_zero() {
        hold(&shared, Instant::now(), opening.hold).await;
    }
    let server = match tokio::time::timeout(CONNECT, Stream::connect(&shared.to)).await {
        Ok(Ok(server)) => server,
        failed => {
            let why = match failed {
                Ok(Err(error)) => error.to_string(),
                _ => format!("it does not accept within {} s", CONNECT.as_secs()),
            };
            Counters::add(&counters.unreachable, 1);
            shared.teller.say(&format!(
                "the server at {} cannot be reached: {why}; client {peer} is cut off",
                shared.to
            ));
            client.reset_at_close();
            return;
        }
    };
    let dialect = RefCell::new(shared.protocol.dialect());
    let connection = Connection {
        dialect,
        number,
        peer,
        client,
        server,
        pending: PendingRequests::default(),
        requests: Cell::new(0),
        answered_at: Cell::new(None),
        up: Queue::new(),
        down: Queue::new(),
        shared,
    };
    let (up, down) = (plan.way(number, Way::Up), plan.way(number, Way::Down));
    let ended = tokio::try_join!(
        connection.read_client(up.0),
        connection.write(Way::Up, up.1),
        connection.read_server(down.0),
        connection.write(Way::Down, down.1),
    );
    if let Err(end) = ended {
        if matches!(end, EndReason::Reset) {
            Counters::add(&counters.resets, 1);
        }
        connection.client.reset_at_close();
        connection.server.reset_at_close();
    }
}

async fn hold(shared: &Shared, begin: Instant, time: Duration) {
    let due = begin + time;
    shared.timer.until(due).await;
    shared.request_log.counters.held(begin, due, Instant::now());
}

/// Computes when bytes of one direction may pass.
struct Schedule {
    lines: Vec<ByteDelay>,
    last: Instant,
}

impl Schedule {
    /// For bytes that arrived now with an additional delay. Delays of requests on one connection
    /// add up, as in a server that processes them in sequence.
    fn due(&mut self, start: Instant, now: Instant, hold: Duration) -> (Instant, Option<Instant>) {
        let late: Duration = self.lines.iter_mut().map(|line| line.delay(now - start)).sum();
        self.last = self.last.max(now + late) + hold;
        (self.last, (!(late + hold).is_zero()).then_some(now))
    }
}

impl Connection {
    fn schedule(&self, lines: Vec<ByteDelay>) -> Schedule {
        Schedule { lines, last: self.shared.start }
    }

    async fn read_client(&self, lines: Vec<ByteDelay>) -> Result<(), EndReason> {
        let mut schedule = self.schedule(lines);
        let mut buffer = BytesMut::new();
        loop {
            let read = self.client.read(&mut buffer, READ).await.map_err(|_| EndReason::Left)?;
            let now = Instant::now();
            while !buffer.is_empty() {
                self.room().await;
                let decided = self.dialect.borrow_mut().up(&buffer);
                let (length, hold, owner) = match decided {
                    Up::More if read > 0 && buffer.len() < NEEDED + READ => break,
                    Up::More => (buffer.len(), Duration::ZERO, Owner::Before),
                    Up::Pass(length) => (length, Duration::ZERO, Owner::Before),
                    Up::Aside(length) => (length, Duration::ZERO, Owner::Nobody),
                    Up::Request(length, text) => {
                        let (hold, begins) = self.request(text, now);
                        (length, hold, Owner::Begins(begins))
                    }
                    Up::Answer(length, answer) => {
                        drop(buffer.split_to(length));
                        self.down.push(Chunk::plain(Bytes::from_static(answer), now)).await;
                        continue;
                    }
                    Up::Lost(why) => {
                        self.lost(&why);
                        continue;
                    }
                };
                let (due, since) = schedule.due(self.shared.start, now, hold);
                let bytes = buffer.split_to(length).freeze();
                self.up.push(Chunk { due, since, owner, ..Chunk::plain(bytes, now) }).await;
            }
            if read == 0 {
                return self.end(&self.up, &mut schedule, 0).await;
            }
        }
    }

    async fn read_server(&self, lines: Vec<ByteDelay>) -> Result<(), EndReason> {
        let mut schedule = self.schedule(lines);
        let mut buffer = BytesMut::new();
        loop {
            let read = self.server.read(&mut buffer, READ).await.map_err(|_| EndReason::Left)?;
            let now = Instant::now();
            while !buffer.is_empty() {
                let decided = self.dialect.borrow_mut().down(&mut buffer);
                let (length, begins, ends) = match decided {
                    Down::More if read > 0 && buffer.len() < NEEDED + READ => break,
                    Down::More => (buffer.len(), false, 0),
                    Down::Pass { length, begins, ends } => (length, begins, ends),
                    Down::Lost(why) => {
                        self.lost(&why);
                        continue;
                    }
                };
                let begun = if begins { self.pending.answer_begins() } else { None };
                let (hold, owner) = match begun {
                    Some((hold, begins)) => (hold, Owner::Begins(begins)),
                    None => (Duration::ZERO, Owner::Before),
                };
                self.pending.answers_end(ends);
                let (due, since) = schedule.due(self.shared.start, now, hold);
                let bytes = buffer.split_to(length).freeze();
                self.down.push(Chunk { due, since, owner, ends, ..Chunk::plain(bytes, now) }).await;
            }
            if read == 0 {
                let ends = self.dialect.borrow_mut().server_ended();
                self.pending.answers_end(ends);
                return self.end(&self.down, &mut schedule, ends).await;
            }
        }
    }

    /// Waits while the number of pending requests is at its limit; meanwhile the client's bytes are
    /// not read.
    async fn room(&self) {
        while self.pending.len() >= self.dialect.borrow().most() {
            self.pending.fewer().await;
        }
    }

    /// This side has finished sending, which ends this many answers.
    async fn end(
        &self,
        queue: &Queue,
        schedule: &mut Schedule,
        ends: usize,
    ) -> Result<(), EndReason> {
        queue.ended.notify_one();
        let now = Instant::now();
        let (due, _) = schedule.due(self.shared.start, now, Duration::ZERO);
        queue.push(Chunk { due, ends, last: true, ..Chunk::plain(Bytes::new(), now) }).await;
        Ok(())
    }

    /// A request begins.
    fn request(&self, text: Option<Arc<str>>, came: Instant) -> (Duration, Begin) {
        if !self.dialect.borrow().knows_ends() {
            self.settle();
        }
        let number = self.requests.get() + 1;
        self.requests.set(number);
        Counters::add(&self.shared.request_log.counters.requests, 1);
        let plan = self.shared.plans.now();
        let mut faults = plan.request(self.number, number, text.as_deref());
        let (hold, layers) = (faults.hold, std::mem::take(&mut faults.up));
        self.pending.push(number, text, came, faults);
        (hold, Begin { number, layers })
    }

    /// For protocols without explicit ends: answers that have begun ended with the last byte.
    fn settle(&self) {
        while let Some(open) = self.pending.pop_begun() {
            let took = self.answered_at.get().map(|at| at.saturating_duration_since(open.came));
            self.over(open, took);
        }
    }

    fn over(&self, open: PendingRequest, took: Option<Duration>) {
        let PendingRequest { number, text, came, held, .. } = open;
        let at = came - self.shared.start;
        self.shared.request_log.over(Request {
            connection: self.number,
            number,
            text,
            at,
            held,
            took,
        });
    }

    /// The protocol cannot be parsed any more.
    fn lost(&self, why: &str) {
        Counters::add(&self.shared.request_log.counters.lost, 1);
        let (number, peer) = (self.number, &self.peer);
        self.shared.teller.say(&format!(
            "connection {number} ({peer}): {why}; requests are told by turns of speech from here \
             on"
        ));
        *self.dialect.borrow_mut() = Dialect::turns(self.pending.waits());
        self.pending.look();
    }

    async fn write(&self, way: Way, mut whole: Vec<Layer>) -> Result<(), EndReason> {
        let (queue, to) = match way {
            Way::Up => (&self.up, &self.server),
            Way::Down => (&self.down, &self.client),
        };
        let mut request: Vec<Layer> = Vec::new();
        loop {
            let chunk = queue.pop().await;
            self.wait(&chunk).await;
            match chunk.owner {
                Owner::Before => {}
                Owner::Nobody => request.clear(),
                Owner::Begins(begins) => request = begins.layers,
            }
            if chunk.last {
                self.answered(chunk.ends, true);
                to.end_writing();
                return Ok(());
            }
            let room = chunk.bytes.len();
            let mut layers: Vec<&mut Layer> = whole.iter_mut().chain(&mut request).collect();
            let passed = self.pass(way, to, chunk.bytes, &mut layers).await?;
            queue.gone(room);
            if let Err(how) = passed {
                self.answered(chunk.ends, false);
                return self.cut(how, queue, to).await;
            }
            self.answered(chunk.ends, true);
            if chunk.ends > 0 {
                request.clear();
            }
        }
    }

    async fn wait(&self, chunk: &Chunk) {
        if chunk.due > Instant::now() {
            self.shared.timer.until(chunk.due).await;
        }
        let Some(since) = chunk.since else { return };
        let now = Instant::now();
        self.shared.request_log.counters.held(since, chunk.due, now);
        if let Owner::Begins(begins) = &chunk.owner {
            self.pending.held(begins.number, now - since);
        }
    }

    /// The oldest answers are complete; `whole`: the client has received them.
    fn answered(&self, ends: usize, whole: bool) {
        for _ in 0..ends {
            let Some(open) = self.pending.pop() else { return };
            let took = whole.then(|| open.came.elapsed());
            self.over(open, took);
        }
    }

    /// Writes as the layers permit. The inner error: a layer breaks the connection.
    async fn pass(
        &self,
        way: Way,
        to: &Stream,
        mut bytes: Bytes,
        layers: &mut [&mut Layer],
    ) -> Result<Result<(), Break>, EndReason> {
        let counters = &self.shared.request_log.counters;
        let written = if way == Way::Up { &counters.to_server } else { &counters.to_client };
        'pieces: while !bytes.is_empty() {
            let now = Instant::now();
            let (mut most, mut flip) = (bytes.len(), 0);
            for layer in layers.iter_mut() {
                match layer.next(now) {
                    Next::Pass(count) => most = most.min(count),
                    Next::Flip(mask) => (most, flip) = (1, flip ^ mask),
                    Next::Hold(end) => {
                        self.stall(way, end).await?;
                        continue 'pieces;
                    }
                    Next::Break(how) => return Ok(Err(how)),
                }
            }
            let mut piece = bytes.split_to(most);
            if flip != 0 {
                Counters::add(&counters.corrupted, 1);
                piece = Bytes::copy_from_slice(&[piece[0] ^ flip]);
            }
            if let Some(due) = layers.iter().filter_map(|layer| layer.paced(most, now)).max() {
                self.shared.timer.until(due).await;
            }
            to.write_all(&piece).await.map_err(|_| EndReason::Left)?;
            Counters::add(written, most as u64);
            layers.iter_mut().for_each(|layer| layer.passed(most, now));
            if way == Way::Down {
                self.answered_at.set(Some(Instant::now()));
            }
        }
        Ok(Ok(()))
    }

    async fn stall(&self, way: Way, end: Option<Instant>) -> Result<(), EndReason> {
        Counters::add(&self.shared.request_log.counters.stalls, 1);
        match end {
            Some(end) => self.shared.timer.until(end).await,
            None => {
                // The receiver ends the stall by leaving.
                let (to, other) = match way {
                    Way::Up => (&self.server, &self.down),
                    Way::Down => (&self.client, &self.up),
                };
                tokio::select! {
                    () = other.ended.notified() => {}
                    left = self.left(to) => left?,
                }
                return Err(EndReason::Left);
            }
        }
        Ok(())
    }

    /// Returns when this side has finished sending, although its bytes are not read.
    async fn left(&self, side: &Stream) -> Result<(), EndReason> {
        while !side.has_said_all().await.map_err(|_| EndReason::Left)? {
            self.shared.timer.until(Instant::now() + CHECK_INTERVAL).await;
        }
        Ok(())
    }

    /// Truncates a direction: further bytes are discarded.
    async fn cut(&self, how: Break, queue: &Queue, to: &Stream) -> Result<(), EndReason> {
        if how == Break::Reset {
            return Err(EndReason::Reset);
        }
        Counters::add(&self.shared.request_log.counters.truncated, 1);
        to.end_writing();
        loop {
            let chunk = queue.pop().await;
            self.answered(chunk.ends, false);
            if chunk.last {
                return Ok(());
            }
            queue.gone(chunk.bytes.len());
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if !self.dialect.borrow().knows_ends() {
            self.settle();
        }
        while let Some(open) = self.pending.pop() {
            self.over(open, None);
        }
    }
}
