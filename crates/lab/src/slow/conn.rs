//! One connection: two ways, each a reader that decides and a writer that waits.

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
    asked::{Asked, Open},
    layer::{Break, Layer, Next},
    plan::{Line, Plans},
    queue::{Begin, Parcel, Queue, Whose},
    record::{Book, Counters, Request},
    rule::Way,
    stream::Stream,
    tell::Teller,
    timer::Timer,
};
use crate::engine::Address;

/// Most bytes that are read at once, so that other connections get their turn.
const READ: usize = 64 * 1024;
/// How long the server may take to accept.
const CONNECT: Duration = Duration::from_secs(10);
/// How often who stands still for ever looks whether the other side has left, where its bytes are not read any more.
const LOOK: Duration = Duration::from_secs(1);

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

struct Conn {
    shared: Rc<Shared>,
    number: u64,
    peer: String,
    client: Stream,
    server: Stream,
    dialect: RefCell<Dialect>,
    asked: Asked,
    requests: Cell<u64>,
    /// When bytes last went to the client.
    answered_at: Cell<Option<Instant>>,
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
    let dialect = RefCell::new(shared.protocol.dialect());
    let conn = Conn {
        dialect,
        number,
        peer,
        client,
        server,
        asked: Asked::default(),
        requests: Cell::new(0),
        answered_at: Cell::new(None),
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
                self.room().await;
                let decided = self.dialect.borrow_mut().up(&buffer);
                let (length, hold, whose) = match decided {
                    Up::More if read > 0 && buffer.len() < NEEDED + READ => break,
                    Up::More => (buffer.len(), Duration::ZERO, Whose::Before),
                    Up::Pass(length) => (length, Duration::ZERO, Whose::Before),
                    Up::Aside(length) => (length, Duration::ZERO, Whose::Nobody),
                    Up::Request(length, text) => {
                        let (hold, begins) = self.request(text, now);
                        (length, hold, Whose::Begins(begins))
                    }
                    Up::Answer(length, answer) => {
                        drop(buffer.split_to(length));
                        self.down.push(Parcel::plain(Bytes::from_static(answer), now)).await;
                        continue;
                    }
                    Up::Lost(why) => {
                        self.lost(&why);
                        continue;
                    }
                };
                let (due, since) = schedule.due(self.shared.start, now, hold);
                let bytes = buffer.split_to(length).freeze();
                self.up.push(Parcel { due, since, whose, ..Parcel::plain(bytes, now) }).await;
            }
            if read == 0 {
                return self.end(&self.up, &mut schedule, 0).await;
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
                let begun = if begins { self.asked.answer_begins() } else { None };
                let (hold, whose) = match begun {
                    Some((hold, begins)) => (hold, Whose::Begins(begins)),
                    None => (Duration::ZERO, Whose::Before),
                };
                self.asked.answers_end(ends);
                let (due, since) = schedule.due(self.shared.start, now, hold);
                let bytes = buffer.split_to(length).freeze();
                self.down.push(Parcel { due, since, whose, ends, ..Parcel::plain(bytes, now) }).await;
            }
            if read == 0 {
                let ends = self.dialect.borrow_mut().server_ended();
                self.asked.answers_end(ends);
                return self.end(&self.down, &mut schedule, ends).await;
            }
        }
    }

    /// Waits while as many requests are under way as may be; meanwhile the client's bytes stay with it.
    async fn room(&self) {
        while self.asked.len() >= self.dialect.borrow().most() {
            self.asked.fewer().await;
        }
    }

    /// This side has said all, which ends so many answers.
    async fn end(&self, queue: &Queue, schedule: &mut Schedule, ends: usize) -> Result<(), End> {
        queue.ended.notify_one();
        let now = Instant::now();
        let (due, _) = schedule.due(self.shared.start, now, Duration::ZERO);
        queue.push(Parcel { due, ends, last: true, ..Parcel::plain(Bytes::new(), now) }).await;
        Ok(())
    }

    /// A request begins.
    fn request(&self, text: Option<Arc<str>>, came: Instant) -> (Duration, Begin) {
        if !self.dialect.borrow().knows_ends() {
            self.settle();
        }
        let number = self.requests.get() + 1;
        self.requests.set(number);
        Counters::add(&self.shared.book.counters.requests, 1);
        let plan = self.shared.plans.now();
        let mut fate = plan.request(self.number, number, text.as_deref());
        let (hold, layers) = (fate.hold, std::mem::take(&mut fate.up));
        self.asked.push(number, text, came, fate);
        (hold, Begin { number, layers })
    }

    /// Where answers do not say where they end, those that have begun ended with the last byte.
    fn settle(&self) {
        while let Some(open) = self.asked.pop_begun() {
            let took = self.answered_at.get().map(|at| at.saturating_duration_since(open.came));
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
        *self.dialect.borrow_mut() = Dialect::turns(self.asked.waits());
        self.asked.look();
    }

    async fn write(&self, way: Way, mut whole: Vec<Layer>) -> Result<(), End> {
        let (queue, to) = match way {
            Way::Up => (&self.up, &self.server),
            Way::Down => (&self.down, &self.client),
        };
        let mut request: Vec<Layer> = Vec::new();
        loop {
            let parcel = queue.pop().await;
            self.wait(&parcel).await;
            match parcel.whose {
                Whose::Before => {}
                Whose::Nobody => request.clear(),
                Whose::Begins(begins) => request = begins.layers,
            }
            if parcel.last {
                self.answered(parcel.ends, true);
                to.end_writing();
                return Ok(());
            }
            let room = parcel.bytes.len();
            let mut layers: Vec<&mut Layer> = whole.iter_mut().chain(&mut request).collect();
            let passed = self.pass(way, to, parcel.bytes, &mut layers).await?;
            queue.gone(room);
            if let Err(how) = passed {
                self.answered(parcel.ends, false);
                return self.cut(how, queue, to).await;
            }
            self.answered(parcel.ends, true);
            if parcel.ends > 0 {
                request.clear();
            }
        }
    }

    async fn wait(&self, parcel: &Parcel) {
        if parcel.due > Instant::now() {
            self.shared.timer.until(parcel.due).await;
        }
        let Some(since) = parcel.since else { return };
        let now = Instant::now();
        self.shared.book.counters.held(since, parcel.due, now);
        if let Whose::Begins(begins) = &parcel.whose {
            self.asked.held(begins.number, now - since);
        }
    }

    /// So many of the oldest answers are over; `whole`: the client has them.
    fn answered(&self, ends: usize, whole: bool) {
        for _ in 0..ends {
            let Some(open) = self.asked.pop() else { return };
            let took = whole.then(|| open.came.elapsed());
            self.over(open, took);
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
                self.answered_at.set(Some(Instant::now()));
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
                let (to, other) = match way {
                    Way::Up => (&self.server, &self.down),
                    Way::Down => (&self.client, &self.up),
                };
                tokio::select! {
                    () = other.ended.notified() => {}
                    left = self.left(to) => left?,
                }
                return Err(End::Left);
            }
        }
        Ok(())
    }

    /// Returns when this side has said all, though its bytes be not read.
    async fn left(&self, side: &Stream) -> Result<(), End> {
        while !side.has_said_all().await.map_err(|_| End::Left)? {
            self.shared.timer.until(Instant::now() + LOOK).await;
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
            self.answered(parcel.ends, false);
            if parcel.last {
                return Ok(());
            }
            queue.gone(parcel.bytes.len());
        }
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        if !self.dialect.borrow().knows_ends() {
            self.settle();
        }
        while let Some(open) = self.asked.pop() {
            self.over(open, None);
        }
    }
}
