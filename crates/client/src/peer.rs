//! One server: its connections, who gets in, and its probes.
//!
//! What waits for a connection is bounded by [`Config::queue`](crate::Config::queue): every operation takes its size, and at
//! least one unit, out of a semaphore until it is answered, and waits as long as a write may take when there is too little left.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Instant,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    task, time,
};

use crate::{
    Address, Config, Error, Timeouts,
    counters::Counters,
    health::Fleet,
    lane::{self, BATCH, Lane, Queue},
    op::{Answer, Op},
    router::Probe,
};

/// What the queue is counted in, bytes.
const UNIT: usize = 1024;

/// Who hears of the answer.
#[derive(Debug)]
pub(crate) enum Told {
    /// The caller, if it still waits.
    Caller(oneshot::Sender<Result<Answer, Error>>),
    /// Nobody: errors are counted.
    Nobody,
}

impl Told {
    fn is_somebody(&self) -> bool {
        matches!(self, Told::Caller(_))
    }
}

/// An operation on its way.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) op: Op,
    pub(crate) told: Told,
    /// When, where somebody waits; what nobody waits for is timed from when it is sent.
    pub(crate) asked: Option<Instant>,
    /// Its place in the queue, given back with the answer.
    pub(crate) place: OwnedSemaphorePermit,
}

#[derive(Debug)]
pub(crate) struct Peer {
    doors: Vec<Door>,
    turn: AtomicUsize,
    /// Operations nobody waits for.
    quiet: AtomicUsize,
    skipped: AtomicU64,
    busy: AtomicU64,
    timeouts: Timeouts,
}

/// The way to one connection.
#[derive(Debug)]
struct Door {
    queue: Arc<Queue<Job>>,
    room: Arc<Semaphore>,
    units: u32,
    lane: Arc<Lane>,
}

impl Peer {
    pub(crate) fn new(at: usize, address: Address, config: &Config, fleet: &Arc<Fleet>) -> Peer {
        let units = u32::try_from(config.queue / UNIT).unwrap_or(u32::MAX).min(Semaphore::MAX_PERMITS as u32);
        let door = |_| Door {
            queue: Queue::new(),
            room: Arc::new(Semaphore::new(units as usize)),
            units,
            lane: Arc::new(Lane::new(at, address.clone(), config, fleet.clone())),
        };
        Peer {
            doors: (0..config.connections).map(door).collect(),
            turn: AtomicUsize::new(0),
            quiet: AtomicUsize::new(0),
            skipped: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            timeouts: config.timeouts,
        }
    }

    /// Asks and waits for the answer.
    pub(crate) async fn ask(&self, op: Op) -> Result<Answer, Error> {
        let (told, answer) = oneshot::channel();
        self.submit(op, Told::Caller(told)).await?;
        answer.await.unwrap_or(Err(Error::Closed(std::io::ErrorKind::Other)))
    }

    /// Asks, and does not wait for the answer: for room only. Lets others have their turn now and then; who asks for much and
    /// waits for nothing would otherwise fill the queue, and memory, before its connection gets any of it on the same thread.
    pub(crate) async fn tell(&self, op: Op) -> Result<(), Error> {
        self.submit(op, Told::Nobody).await?;
        if self.quiet.fetch_add(1, Relaxed) % BATCH == BATCH - 1 {
            task::yield_now().await;
        }
        Ok(())
    }

    /// Puts an operation into the queue; waits for room as long as a write may take.
    pub(crate) async fn submit(&self, op: Op, told: Told) -> Result<(), Error> {
        match self.submit_now(op, told) {
            Ok(()) => Ok(()),
            Err((op, told)) => self.submit_until(op, told, time::Instant::now() + self.timeouts.write).await,
        }
    }

    /// Puts an operation into the queue if there is room; gives it back if not.
    pub(crate) fn submit_now(&self, op: Op, told: Told) -> Result<(), (Op, Told)> {
        let door = self.door();
        match door.room.clone().try_acquire_many_owned(door.units_of(&op)) {
            Ok(place) => {
                let asked = told.is_somebody().then(Instant::now);
                door.send(Job { op, told, asked, place });
                Ok(())
            }
            Err(_) => Err((op, told)),
        }
    }

    /// Puts an operation into the queue; waits for room until then.
    pub(crate) async fn submit_until(&self, op: Op, told: Told, until: time::Instant) -> Result<(), Error> {
        let door = self.door();
        let asked = told.is_somebody().then(Instant::now);
        let room = door.room.clone().acquire_many_owned(door.units_of(&op));
        match time::timeout_at(until, room).await {
            Ok(Ok(place)) => {
                door.send(Job { op, told, asked, place });
                Ok(())
            }
            _ => {
                self.busy.fetch_add(1, Relaxed);
                Err(Error::Busy)
            }
        }
    }

    /// Waits until all that was asked before has come to its end.
    pub(crate) async fn settle(&self) {
        for door in &self.doors {
            // Everything in the queue holds a part of it. It is never closed.
            let _ = door.room.acquire_many(door.units).await;
        }
    }

    /// Finds out whether the server is well, aside from all connections.
    pub(crate) fn probe(&self, probe: Probe) {
        let lane = self.doors[0].lane.clone();
        tokio::spawn(async move {
            let well = lane::probe(&lane).await;
            probe.end(well);
        });
    }

    /// An operation was not sent: it is down.
    pub(crate) fn skipped(&self) {
        self.skipped.fetch_add(1, Relaxed);
    }

    pub(crate) fn counters(&self) -> impl Iterator<Item = &Counters> + Clone {
        self.doors.iter().map(|door| &door.lane.counters)
    }

    /// How many were not sent: because it was down, because too much waited.
    pub(crate) fn unsent(&self) -> (u64, u64) {
        (self.skipped.load(Relaxed), self.busy.load(Relaxed))
    }

    fn door(&self) -> &Door {
        match self.doors.len() {
            1 => &self.doors[0],
            doors => &self.doors[self.turn.fetch_add(1, Relaxed) % doors],
        }
    }
}

impl Door {
    /// What is larger than the queue takes all of it, alone.
    fn units_of(&self, op: &Op) -> u32 {
        u32::try_from(1 + op.size() / UNIT).unwrap_or(u32::MAX).min(self.units)
    }

    /// To the connection's task, which is begun when there is none: at first, or when the runtime it ran on has ended.
    fn send(&self, job: Job) {
        if let Some(jobs) = self.queue.put(job) {
            tokio::spawn(lane::run(self.lane.clone(), jobs));
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.queue.close();
    }
}
