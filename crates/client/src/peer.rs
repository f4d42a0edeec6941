//! One server: its connections, admission to their queues, and its probes.
//!
//! The queue of a connection is bounded by [`Config::queue`](crate::Config::queue): every operation
//! takes permits for its size, at least one unit, from a semaphore until it is answered. If too few
//! are free, it waits up to the write timeout.

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

/// Unit in which the queue is measured, in bytes.
const UNIT: usize = 1024;

/// Receiver of an answer.
#[derive(Debug)]
pub(crate) enum ReplyTo {
    /// The caller, if it still waits.
    Caller(oneshot::Sender<Result<Answer, Error>>),
    /// No receiver: errors are only counted.
    Nobody,
}

impl ReplyTo {
    fn is_somebody(&self) -> bool {
        matches!(self, ReplyTo::Caller(_))
    }
}

/// A queued operation.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) op: Op,
    pub(crate) reply_to: ReplyTo,
    /// Submission time if a caller waits; operations without a caller are timed from sending.
    pub(crate) asked: Option<Instant>,
    /// Its permit of the queue, released with the answer.
    pub(crate) permit: OwnedSemaphorePermit,
}

#[derive(Debug)]
pub(crate) struct Peer {
    lanes: Vec<LaneHandle>,
    turn: AtomicUsize,
    /// Number of quiet operations so far.
    quiet: AtomicUsize,
    skipped: AtomicU64,
    busy: AtomicU64,
    timeouts: Timeouts,
}

/// Handle of one connection.
#[derive(Debug)]
struct LaneHandle {
    queue: Arc<Queue<Job>>,
    room: Arc<Semaphore>,
    units: u32,
    lane: Arc<Lane>,
}

impl Peer {
    pub(crate) fn new(at: usize, address: Address, config: &Config, fleet: &Arc<Fleet>) -> Peer {
        let units = u32::try_from(config.queue / UNIT)
            .unwrap_or(u32::MAX)
            .min(Semaphore::MAX_PERMITS as u32);
        let handle = |_| LaneHandle {
            queue: Queue::new(),
            room: Arc::new(Semaphore::new(units as usize)),
            units,
            lane: Arc::new(Lane::new(at, address.clone(), config, fleet.clone())),
        };
        Peer {
            lanes: (0..config.connections).map(handle).collect(),
            turn: AtomicUsize::new(0),
            quiet: AtomicUsize::new(0),
            skipped: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            timeouts: config.timeouts,
        }
    }

    /// Submits an operation and waits for the answer.
    pub(crate) async fn ask(&self, op: Op) -> Result<Answer, Error> {
        let (reply_to, answer) = oneshot::channel();
        self.submit(op, ReplyTo::Caller(reply_to)).await?;
        answer.await.unwrap_or(Err(Error::Closed(std::io::ErrorKind::Other)))
    }

    /// Submits an operation and waits only for room, not for the answer. Yields now and then: a
    /// caller that never waits would otherwise fill the queue before the connection's task on the
    /// same thread can run.
    pub(crate) async fn tell(&self, op: Op) -> Result<(), Error> {
        self.submit(op, ReplyTo::Nobody).await?;
        if self.quiet.fetch_add(1, Relaxed) % BATCH == BATCH - 1 {
            task::yield_now().await;
        }
        Ok(())
    }

    /// Enqueues an operation; waits for room up to the write timeout.
    pub(crate) async fn submit(&self, op: Op, reply_to: ReplyTo) -> Result<(), Error> {
        match self.submit_now(op, reply_to) {
            Ok(()) => Ok(()),
            Err((op, reply_to)) => {
                self.submit_until(op, reply_to, time::Instant::now() + self.timeouts.write).await
            }
        }
    }

    /// Enqueues an operation if there is room; else returns it.
    pub(crate) fn submit_now(&self, op: Op, reply_to: ReplyTo) -> Result<(), (Op, ReplyTo)> {
        let handle = self.next_lane();
        match handle.room.clone().try_acquire_many_owned(handle.units_of(&op)) {
            Ok(permit) => {
                let asked = reply_to.is_somebody().then(Instant::now);
                handle.send(Job { op, reply_to, asked, permit });
                Ok(())
            }
            Err(_) => Err((op, reply_to)),
        }
    }

    /// Enqueues an operation; waits for room until the given time.
    pub(crate) async fn submit_until(
        &self,
        op: Op,
        reply_to: ReplyTo,
        until: time::Instant,
    ) -> Result<(), Error> {
        let handle = self.next_lane();
        let asked = reply_to.is_somebody().then(Instant::now);
        let room = handle.room.clone().acquire_many_owned(handle.units_of(&op));
        match time::timeout_at(until, room).await {
            Ok(Ok(permit)) => {
                handle.send(Job { op, reply_to, asked, permit });
                Ok(())
            }
            _ => {
                self.busy.fetch_add(1, Relaxed);
                Err(Error::Busy)
            }
        }
    }

    /// Waits until all operations submitted before have ended.
    pub(crate) async fn settle(&self) {
        for handle in &self.lanes {
            // Every queued operation holds permits. The semaphore is never closed.
            let _ = handle.room.acquire_many(handle.units).await;
        }
    }

    /// Probes the server on a connection of its own.
    pub(crate) fn probe(&self, probe: Probe) {
        let lane = self.lanes[0].lane.clone();
        tokio::spawn(async move {
            let well = lane::probe(&lane).await;
            probe.end(well);
        });
    }

    /// Counts an operation that was not sent because the server is down.
    pub(crate) fn skipped(&self) {
        self.skipped.fetch_add(1, Relaxed);
    }

    pub(crate) fn counters(&self) -> impl Iterator<Item = &Counters> + Clone {
        self.lanes.iter().map(|handle| &handle.lane.counters)
    }

    /// Operations that were not sent: because the server was down, because the queue was full.
    pub(crate) fn unsent(&self) -> (u64, u64) {
        (self.skipped.load(Relaxed), self.busy.load(Relaxed))
    }

    fn next_lane(&self) -> &LaneHandle {
        match self.lanes.len() {
            1 => &self.lanes[0],
            lanes => &self.lanes[self.turn.fetch_add(1, Relaxed) % lanes],
        }
    }
}

impl LaneHandle {
    /// Permits of an operation; one larger than the queue takes all of them.
    fn units_of(&self, op: &Op) -> u32 {
        u32::try_from(1 + op.size() / UNIT).unwrap_or(u32::MAX).min(self.units)
    }

    /// Hands an operation to the connection's task, and starts the task if there is none: at first,
    /// or when its runtime has ended.
    fn send(&self, job: Job) {
        if let Some(jobs) = self.queue.put(job) {
            tokio::spawn(lane::run(self.lane.clone(), jobs));
        }
    }
}

impl Drop for LaneHandle {
    fn drop(&mut self) {
        self.queue.close();
    }
}
