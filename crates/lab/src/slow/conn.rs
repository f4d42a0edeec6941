//! One connection: two ways, each a reader that decides and a writer that waits.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use tokio::sync::{Notify, Semaphore};

use super::{
    Protocol,
    layer::{Break, Layer, Next},
    plan::{Line, Plans},
    record::{Book, Counters, Request},
    rule::Way,
    stream::Stream,
    tell::Teller,
    timer::Timer,
    wire::{Dialect, Down, NEEDED, Up},
};
use crate::engine::Address;

/// Bytes of one way that may be on their way. A delay of 300 ms lets 13 MB/s through; then the sender waits.
const QUEUE: usize = 4 << 20;
/// Most bytes that are read at once, so that other connections get their turn.
const READ: usize = 64 * 1024;
/// How long the server may take to accept.
const CONNECT: Duration = Duration::from_secs(10);

/// What all connections of a proxy share.
pub(super) struct Shared {
    pub(super) timer: Timer,
    pub(super) start: Instant,
    pub(super) plans: Plans,
    pub(super) to: Address,
    pub(super) protocol: Protocol,
    pub(super) book: Book,
    pub(super) teller: Teller,
}

/// Why a connection ended before both sides had said all.
enum End {
    /// A rule broke it.
    Reset,
    /// A side broke it, or left while nothing could pass.
    Left,
}

/// A request without a whole answer.
struct Open {
    number: u64,
    text: Option<String>,
    came: Instant,
    held: Duration,
    hold_answer: Duration,
    down: Vec<Layer>,
    begun: bool,
}

/// Bytes on their way.
struct Parcel {
    bytes: Bytes,
    /// Not before.
    due: Instant,
    /// When they came, if they are delayed.
    since: Option<Instant>,
    begins: Option<Begin>,
    /// So many of the oldest requests are answered with these.
    ends: usize,
    last: bool,
}

/// A request or an answer begins.
struct Begin {
    number: u64,
    layers: Vec<Layer>,
}

/// Bytes of one way that are on their way.
struct Queue {
    parcels: RefCell<VecDeque<Parcel>>,
    room: Semaphore,
    there: Notify,
    /// The reader has seen the end, and says so here to who waits for it.
    ended: Notify,
}

impl Queue {
    fn new() -> Queue {
        let room = Semaphore::new(QUEUE);
        Queue { parcels: RefCell::default(), room, there: Notify::new(), ended: Notify::new() }
    }

    async fn push(&self, parcel: Parcel) {
        let needed = u32::try_from(parcel.bytes.len().min(QUEUE)).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        if let Ok(room) = self.room.acquire_many(needed).await {
            room.forget();
        }
        self.parcels.borrow_mut().push_back(parcel);
        self.there.notify_one();
    }

    async fn pop(&self) -> Parcel {
        loop {
            if let Some(parcel) = self.parcels.borrow_mut().pop_front() {
                return parcel;
            }
            self.there.notified().await;
        }
    }
}

struct Conn {
    shared: Rc<Shared>,
    number: u64,
    peer: String,
    client: Stream,
    server: Stream,
    dialect: RefCell<Dialect>,
    asked: RefCell<VecDeque<Open>>,
    requests: Cell<u64>,
    /// When bytes last went to the client.
    answered: Cell<Option<Instant>>,
    up: Queue,
    down: Queue,
}

/// A connection's life.
pub(super) async fn serve(shared: Rc<Shared>, client: Stream, peer: String, number: u64) {
    let counters = shared.book.counters.clone();
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
    let dialect = RefCell::new(Dialect::new(shared.protocol));
    let conn = Conn {
        dialect,
        number,
        peer,
        client,
        server,
        asked: RefCell::default(),
        requests: Cell::new(0),
        answered: Cell::new(None),
        up: Queue::new(),
        down: Queue::new(),
        shared,
    };
    let (up, down) = (plan.way(number, Way::Up), plan.way(number, Way::Down));
    let ended = tokio::try_join!(
        conn.read_client(up.0),
        conn.write(Way::Up, up.1),
        conn.read_server(down.0),
        conn.write(Way::Down, down.1),
    );
    if let Err(end) = ended {
        if matches!(end, End::Reset) {
            Counters::add(&counters.resets, 1);
        }
        conn.client.reset_at_close();
        conn.server.reset_at_close();
    }
}

async fn hold(shared: &Shared, begin: Instant, time: Duration) {
    let due = begin + time;
    shared.timer.until(due).await;
    shared.book.counters.held(begin, due, Instant::now());
}

/// When bytes of one way may go on.
struct Schedule {
    lines: Vec<Line>,
    last: Instant,
}

impl Schedule {
    /// For bytes that came now, and are held by this besides. Requests on one connection are held one after the other, as a
    /// server that works on them would.
    fn due(&mut self, start: Instant, now: Instant, hold: Duration) -> (Instant, Option<Instant>) {
        let late: Duration = self.lines.iter_mut().map(|line| line.delay(now - start)).sum();
        self.last = self.last.max(now + late) + hold;
        (self.last, (!(late + hold).is_zero()).then_some(now))
    }
}

impl Conn {
    fn schedule(&self, lines: Vec<Line>) -> Schedule {
        Schedule { lines, last: self.shared.start }
    }

    async fn read_client(&self, lines: Vec<Line>) -> Result<(), End> {
        let mut schedule = self.schedule(lines);
        let mut buffer = BytesMut::new();
        loop {
            let read = self.client.read(&mut buffer, READ).await.map_err(|_| End::Left)?;
            let now = Instant::now();
            while !buffer.is_empty() {
                let decided = self.dialect.borrow_mut().up(&buffer);
                let (length, hold, begins) = match decided {
                    Up::More if read > 0 && buffer.len() < NEEDED + READ => break,
                    Up::More => (buffer.len(), Duration::ZERO, None),
                    Up::Pass(length) => (length, Duration::ZERO, None),
                    Up::Request(length, text) => {
                        let (hold, begins) = self.request(text, now);
                        (length, hold, Some(begins))
                    }
                    Up::Answer(length, answer) => {
                        drop(buffer.split_to(length));
                        self.down.push(plain(Bytes::from_static(answer), now)).await;
                        continue;
                    }
                    Up::Lost(why) => {
                        self.lost(&why);
                        continue;
                    }
                };
                let (due, since) = schedule.due(self.shared.start, now, hold);
                let bytes = buffer.split_to(length).freeze();
                self.up.push(Parcel { due, since, begins, ..plain(bytes, now) }).await;
            }
            if read == 0 {
                return self.end(&self.up, &mut schedule).await;
            }
        }
    }

    async fn read_server(&self, lines: Vec<Line>) -> Result<(), End> {
        let mut schedule = self.schedule(lines);
        let mut buffer = BytesMut::new();
        loop {
            let read = self.server.read(&mut buffer, READ).await.map_err(|_| End::Left)?;
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
                let (hold, begins) = if begins { self.answer() } else { (Duration::ZERO, None) };
                let (due, since) = schedule.due(self.shared.start, now, hold);
                let bytes = buffer.split_to(length).freeze();
                self.down.push(Parcel { due, since, begins, ends, ..plain(bytes, now) }).await;
            }
            if read == 0 {
                return self.end(&self.down, &mut schedule).await;
            }
        }
    }

    /// This side has said all.
    async fn end(&self, queue: &Queue, schedule: &mut Schedule) -> Result<(), End> {
        queue.ended.notify_one();
        let now = Instant::now();
        let (due, _) = schedule.due(self.shared.start, now, Duration::ZERO);
        queue.push(Parcel { due, last: true, ..plain(Bytes::new(), now) }).await;
        Ok(())
    }

    /// A request begins.
    fn request(&self, text: Option<String>, came: Instant) -> (Duration, Begin) {
        if !self.dialect.borrow().knows_ends() {
            self.settle();
        }
        let number = self.requests.get() + 1;
        self.requests.set(number);
        Counters::add(&self.shared.book.counters.requests, 1);
        let plan = self.shared.plans.now();
        let fate = plan.request(self.number, number, text.as_deref());
        self.asked.borrow_mut().push_back(Open {
            number,
            text,
            came,
            held: Duration::ZERO,
            hold_answer: fate.hold_answer,
            down: fate.down,
            begun: false,
        });
        (fate.hold, Begin { number, layers: fate.up })
    }

    /// The answer to the oldest request that had none begins.
    fn answer(&self) -> (Duration, Option<Begin>) {
        let mut asked = self.asked.borrow_mut();
        match asked.iter_mut().find(|open| !open.begun) {
            Some(open) => {
                open.begun = true;
                let layers = std::mem::take(&mut open.down);
                (open.hold_answer, Some(Begin { number: open.number, layers }))
            }
            None => (Duration::ZERO, None),
        }
    }

    /// Where answers do not say where they end, those that have begun ended with the last byte.
    fn settle(&self) {
        let mut asked = self.asked.borrow_mut();
        while asked.front().is_some_and(|open| open.begun) {
            let Some(open) = asked.pop_front() else { return };
            let took = self.answered.get().map(|at| at.saturating_duration_since(open.came));
            self.over(open, took);
        }
    }

    fn over(&self, open: Open, took: Option<Duration>) {
        let Open { number, text, came, held, .. } = open;
        let at = came - self.shared.start;
        self.shared.book.over(Request { connection: self.number, number, text, at, held, took });
    }

    /// The protocol cannot be read any more.
    fn lost(&self, why: &str) {
        Counters::add(&self.shared.book.counters.lost, 1);
        let (number, peer) = (self.number, &self.peer);
        self.shared.teller.say(&format!(
            "connection {number} ({peer}): {why}; requests are told by turns of speech from here on"
        ));
        *self.dialect.borrow_mut() = Dialect::new(Protocol::Tcp);
    }

    async fn write(&self, way: Way, mut whole: Vec<Layer>) -> Result<(), End> {
        let (queue, to) = match way {
            Way::Up => (&self.up, &self.server),
            Way::Down => (&self.down, &self.client),
        };
        let mut request: Vec<Layer> = Vec::new();
        loop {
            let mut parcel = queue.pop().await;
            self.wait(&parcel).await;
            if let Some(begins) = parcel.begins.take() {
                request = begins.layers;
            }
            if parcel.last {
                to.end_writing();
                return Ok(());
            }
            let room = parcel.bytes.len();
            let mut layers: Vec<&mut Layer> = whole.iter_mut().chain(&mut request).collect();
            let passed = self.pass(way, to, parcel.bytes, &mut layers).await?;
            queue.room.add_permits(room.min(QUEUE));
            if let Err(how) = passed {
                return self.cut(how, queue, to).await;
            }
            self.end_answers(parcel.ends);
        }
    }

    async fn wait(&self, parcel: &Parcel) {
        if parcel.due > Instant::now() {
            self.shared.timer.until(parcel.due).await;
        }
        let Some(since) = parcel.since else { return };
        let now = Instant::now();
        self.shared.book.counters.held(since, parcel.due, now);
        if let Some(begins) = &parcel.begins
            && let Some(open) = self.asked.borrow_mut().iter_mut().find(|open| open.number == begins.number)
        {
            open.held += now - since;
        }
    }

    fn end_answers(&self, ends: usize) {
        for _ in 0..ends {
            let Some(open) = self.asked.borrow_mut().pop_front() else { return };
            let took = open.came.elapsed();
            self.over(open, Some(took));
        }
    }

    /// Writes as the layers let it. The inner error: a layer breaks the way.
    async fn pass(
        &self,
        way: Way,
        to: &Stream,
        mut bytes: Bytes,
        layers: &mut [&mut Layer],
    ) -> Result<Result<(), Break>, End> {
        let counters = &self.shared.book.counters;
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
            to.write_all(&piece).await.map_err(|_| End::Left)?;
            Counters::add(written, most as u64);
            layers.iter_mut().for_each(|layer| layer.passed(most, now));
            if way == Way::Down {
                self.answered.set(Some(Instant::now()));
            }
        }
        Ok(Ok(()))
    }

    async fn stall(&self, way: Way, end: Option<Instant>) -> Result<(), End> {
        Counters::add(&self.shared.book.counters.stalls, 1);
        match end {
            Some(end) => self.shared.timer.until(end).await,
            None => {
                // Who the bytes are for tells by leaving that the stall is over.
                let other = if way == Way::Up { &self.down } else { &self.up };
                other.ended.notified().await;
                return Err(End::Left);
            }
        }
        Ok(())
    }

    /// A way is cut short: what still comes on it goes nowhere.
    async fn cut(&self, how: Break, queue: &Queue, to: &Stream) -> Result<(), End> {
        if how == Break::Reset {
            return Err(End::Reset);
        }
        Counters::add(&self.shared.book.counters.truncated, 1);
        to.end_writing();
        loop {
            let parcel = queue.pop().await;
            if parcel.last {
                return Ok(());
            }
            queue.room.add_permits(parcel.bytes.len().min(QUEUE));
        }
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        if !self.dialect.borrow().knows_ends() {
            self.settle();
        }
        while let Some(open) = { self.asked.borrow_mut().pop_front() } {
            self.over(open, None);
        }
    }
}

fn plain(bytes: Bytes, due: Instant) -> Parcel {
    Parcel { bytes, due, since: None, begins: None, ends: 0, last: false }
}
