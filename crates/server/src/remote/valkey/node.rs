//! One server: its connections, which are made when they are needed, and the handling of its
//! failures.
//!
//! | the connection ends because | requests that fail | the server's health |
//! |---|---|---|
//! | it could not be made, or no greeting came in time | all that waited for it | a failure |
//! | an answer did not come in time | all that were sent | a failure, once |
//! | it broke before the first answer | all that were sent | a failure, once |
//! | it broke after answers | all that were sent | unchanged: the next connection shows it |
//!
//! Each request has a task of its own, so that a frozen server is detected even if the requester
//! has left.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicU64, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::Duration,
};

use bytes::Bytes;
use larder_client::{Address, Counters, Router, ServerView, Timeouts};
use parking_lot::Mutex;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, Value, aio::MultiplexedConnection};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::spawn_local,
    time::{Instant, sleep_until, timeout},
};

use crate::{clock::instant, settings::ValkeyLogin};

/// The longest time of a single answer, as a multiple of the allowed silence.
const SLOW: u32 = 10;
/// Bytes per unit of the queue; every request takes at least one unit.
const UNIT: usize = 1024;

/// The reason why there is no usable answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// The server is down, and was not asked.
    Down,
    /// The queue was full.
    Busy,
    /// It did not answer in time.
    Timeout,
    /// The connection could not be made, or broke.
    Closed,
    /// Its answer was an error.
    Refused,
    /// The key's slot has another owner: its address.
    Moved(String),
    /// The key may be on another server already: its address.
    Ask(String),
}

/// The settings of all nodes of a fleet.
#[derive(Clone, Debug)]
pub(super) struct Making {
    pub(super) login: ValkeyLogin,
    pub(super) timeouts: Timeouts,
    pub(super) connections: usize,
    /// Bytes of requests that wait for their answers.
    pub(super) queue: usize,
}

/// A server, as seen by one worker.
pub(super) struct Node {
    pub(super) address: Address,
    client: redis::Client,
    timeouts: Timeouts,
    /// The owner of the server's health, and the server's number there.
    router: Arc<Router>,
    at: usize,
    lanes: Vec<Lane>,
    turn: AtomicUsize,
    counters: Counters,
    /// Requests that were not sent: the server was down; the queue was full.
    skipped: AtomicU64,
    busy: AtomicU64,
    room: Arc<Semaphore>,
    units: u32,
    /// One task at a time watches a key, as WATCH belongs to the connection.
    watching: Arc<Semaphore>,
}

/// A slot for a connection.
#[derive(Default)]
struct Lane {
    /// Locked for moments.
    live: Mutex<Option<Arc<Live>>>,
    /// One task at a time connects.
    making: TaskMutex,
    /// Attempts that failed.
    failed: AtomicU64,
}

/// A mutex for tasks.
struct TaskMutex(Semaphore);

impl Default for TaskMutex {
    fn default() -> Self {
        TaskMutex(Semaphore::new(1))
    }
}

/// A connection.
struct Live {
    connection: MultiplexedConnection,
    began: Instant,
    /// Microseconds from `began` to the last received bytes. 0: none.
    heard: AtomicU64,
    ended: watch::Sender<bool>,
    over: AtomicBool,
}

impl Live {
    fn hear(&self) {
        let since = u64::try_from((instant() - self.began).as_micros()).unwrap_or(u64::MAX);
        self.heard.store(since.max(1), Relaxed);
    }

    fn proven(&self) -> bool {
        self.heard.load(Relaxed) != 0
    }

    /// The deadline of the answer to a request.
    fn patience(&self, asked: Instant, read: Duration) -> Instant {
        let heard = self.began + Duration::from_micros(self.heard.load(Relaxed));
        (heard.max(asked) + read).min(asked + read * SLOW)
    }
}

impl Node {
    pub(super) fn new(
        address: Address,
        making: &Making,
        router: Arc<Router>,
        at: usize,
    ) -> Result<Node, RedisError> {
        let ValkeyLogin { user, password, database } = making.login.clone();
        let (username, db) = (user.filter(|_| password.is_some()), i64::from(database));
        let redis = redis::RedisConnectionInfo { db, username, password, ..Default::default() };
        let addr = match &address {
            Address::Tcp(host, port) => redis::ConnectionAddr::Tcp(host.clone(), *port),
            Address::Unix(path) => redis::ConnectionAddr::Unix(path.clone()),
        };
        let units = u32::try_from(making.queue / UNIT).unwrap_or(u32::MAX).clamp(1, 1 << 24);
        Ok(Node {
            client: redis::Client::open(redis::ConnectionInfo { addr, redis })?,
            address,
            timeouts: making.timeouts,
            router,
            at,
            lanes: (0..making.connections.max(1)).map(|_| Lane::default()).collect(),
            turn: AtomicUsize::new(0),
            counters: Counters::default(),
            skipped: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            room: Arc::new(Semaphore::new(units as usize)),
            units,
            watching: Arc::new(Semaphore::new(1)),
        })
    }

    /// Asks and waits for the answer. `asking`: the key's slot is moving to this server.
    pub(super) async fn ask(self: &Arc<Self>, command: Cmd, asking: bool) -> Result<Value, Failed> {
        let node = self.clone();
        let answer = spawn_local(async move { node.answer(command, asking).await });
        answer.await.unwrap_or(Err(Failed::Closed))
    }

    async fn answer(&self, command: Cmd, asking: bool) -> Result<Value, Failed> {
        let asked = instant();
        let _room = self.room(command.get_packed_command().len()).await?;
        let (lane, live) = self.connected().await?;
        let mut connection = live.connection.clone();
        let answer = async {
            if !asking {
                return connection
                    .send_packed_command(&command)
                    .await
                    .and_then(Value::extract_error);
            }
            let mut both = Pipeline::new();
            both.cmd("ASKING").ignore().add_command(command.clone());
            let mut answers = connection.send_packed_commands(&both, 1, 1).await?;
            answers.pop().unwrap_or(Value::Nil).extract_error()
        };
        let answer = self.awaited(lane, &live, asked, answer).await?;
        self.counters.answered(instant() - asked);
        Ok(answer)
    }

    /// Reserves queue space for these bytes; waits as long as a write may take.
    async fn room(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Failed> {
        let units = u32::try_from(1 + bytes / UNIT).unwrap_or(u32::MAX).min(self.units);
        match timeout(self.timeouts.write, self.room.clone().acquire_many_owned(units)).await {
            Ok(Ok(room)) => Ok(room),
            _ => {
                self.busy.fetch_add(1, Relaxed);
                Err(Failed::Busy)
            }
        }
    }

    /// Waits for an answer, as long as the server may be silent.
    async fn awaited<T>(
        &self,
        lane: &Lane,
        live: &Arc<Live>,
        asked: Instant,
        answer: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<T, Failed> {
        let (mut answer, mut ended) = (pin!(answer), live.ended.subscribe());
        let answer = loop {
            let until = live.patience(asked, self.timeouts.read);
            tokio::select! {
                biased;
                answer = &mut answer => break answer,
                _ = ended.wait_for(|ended| *ended) => return Err(Failed::Timeout),
                () = sleep_until(until) => {}
            }
            if live.patience(asked, self.timeouts.read) <= instant() {
                if self.give_up(lane, live, true) {
                    self.counters.timeouts.add(1);
                }
                return Err(Failed::Timeout);
            }
        };
        match answer {
            Err(error) if broken(&error) => {
                if self.give_up(lane, live, !live.proven()) {
                    self.counters.errors.add(1);
                }
                Err(Failed::Closed)
            }
            answer => {
                live.hear();
                self.router.succeeded(self.at);
                answer.map_err(|error| {
                    let failed = refused(&error);
                    if failed == Failed::Refused {
                        self.counters.errors.add(1);
                    }
                    failed
                })
            }
        }
    }

    /// Closes a connection. Returns whether this call did.
    fn give_up(&self, lane: &Lane, live: &Arc<Live>, failed: bool) -> bool {
        if live.over.swap(true, SeqCst) {
            return false;
        }
        lane.live.lock().take_if(|current| Arc::ptr_eq(current, live));
        live.ended.send_replace(true);
        if failed {
            self.router.failed(self.at);
        }
        true
    }

    /// An open connection.
    async fn connected(&self) -> Result<(&Lane, Arc<Live>), Failed> {
        let lane = &self.lanes[self.turn.fetch_add(1, Relaxed) % self.lanes.len()];
        let before = lane.failed.load(Relaxed);
        if let Some(live) = lane.live.lock().clone() {
            return Ok((lane, live));
        }
        let Ok(_making) = lane.making.0.acquire().await else { return Err(Failed::Closed) };
        if let Some(live) = lane.live.lock().clone() {
            return Ok((lane, live));
        }
        // Tasks that waited for an attempt share its result.
        if lane.failed.load(Relaxed) != before {
            return Err(Failed::Closed);
        }
        if !self.router.is_up(self.at) {
            return Err(Failed::Down);
        }
        self.counters.connects.add(1);
        let failed = match timeout(self.timeouts.connect, self.connect()).await {
            Ok(Ok(connection)) => {
                let live = Arc::new(Live {
                    connection,
                    began: instant(),
                    heard: AtomicU64::new(0),
                    ended: watch::channel(false).0,
                    over: AtomicBool::new(false),
                });
                *lane.live.lock() = Some(live.clone());
                return Ok((lane, live));
            }
            Ok(Err(_)) => {
                self.counters.errors.add(1);
                Failed::Closed
            }
            Err(_) => {
                self.counters.timeouts.add(1);
                Failed::Timeout
            }
        };
        lane.failed.fetch_add(1, Relaxed);
        self.router.failed(self.at);
        Err(failed)
    }

    /// Timeouts are handled here, not by the crate.
    async fn connect(&self) -> Result<MultiplexedConnection, RedisError> {
        let config = redis::AsyncConnectionConfig::new();
        self.client.get_multiplexed_async_connection_with_config(&config).await
    }

    /// Probes the server's health, on a connection of its own.
    pub(super) fn probe(self: &Arc<Self>, probe: larder_client::Probe) {
        let node = self.clone();
        spawn_local(async move {
            let ping = async {
                let mut connection = node.connect().await?;
                connection.send_packed_command(&redis::cmd("PING")).await
            };
            let well = matches!(timeout(node.timeouts.connect, ping).await, Ok(Ok(_)));
            probe.end(well);
        });
    }

    /// Counts a request that was not sent because the server is down.
    pub(super) fn skipped(&self) {
        self.skipped.fetch_add(1, Relaxed);
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(super) fn router(&self) -> &Router {
        &self.router
    }

    pub(super) fn view(&self) -> ServerView {
        ServerView {
            name: self.address.to_string(),
            address: self.address.clone(),
            skipped: self.skipped.load(Relaxed),
            busy: self.busy.load(Relaxed),
            ..self.router.view(self.at, std::iter::once(&self.counters))
        }
    }
}

/// A key that is watched on a connection, with its value.
pub(super) struct Watched {
    node: Arc<Node>,
    live: Arc<Live>,
    pub(super) value: Option<Bytes>,
    _turn: OwnedSemaphorePermit,
}

impl Node {
    /// Reads a key for a compare-and-swap. Not for keys of moving slots.
    pub(super) async fn watch(self: &Arc<Self>, key: &[u8]) -> Result<Watched, Failed> {
        let Ok(turn) = self.watching.clone().acquire_owned().await else {
            return Err(Failed::Closed);
        };
        let (lane, live) = self.connected().await?;
        let mut words = Pipeline::new();
        // An earlier watch may have been abandoned.
        words.cmd("UNWATCH").ignore().cmd("WATCH").arg(key).ignore().cmd("GET").arg(key);
        let mut connection = live.connection.clone();
        let answer = async {
            let mut answers = connection.send_packed_commands(&words, 0, 3).await?;
            for early in answers.drain(..2) {
                early.extract_error()?;
            }
            answers.pop().unwrap_or(Value::Nil).extract_error()
        };
        let value = bulk(self.awaited(lane, &live, instant(), answer).await?)?;
        Ok(Watched { node: self.clone(), live, value, _turn: turn })
    }
}

impl Watched {
    /// Stores another value; false: another writer was faster.
    pub(super) async fn store(
        self,
        key: &[u8],
        value: &[u8],
        lasting: Duration,
    ) -> Result<bool, Failed> {
        // Another connection watches nothing.
        if self.live.over.load(SeqCst) {
            return Err(Failed::Closed);
        }
        let mut words = Pipeline::new();
        words.atomic().cmd("SET").arg(key).arg(value).arg("PX").arg(millis(lasting));
        let mut connection = self.live.connection.clone();
        // The answer of EXEC counts, not those of MULTI and SET.
        let answer = async {
            let mut answers = connection.send_packed_commands(&words, 2, 1).await?;
            answers.pop().unwrap_or(Value::Nil).extract_error()
        };
        let (node, asked) = (&self.node, instant());
        let lane = node.lanes.iter().find(|lane| {
            lane.live.lock().as_ref().is_some_and(|live| Arc::ptr_eq(live, &self.live))
        });
        let Some(lane) = lane else { return Err(Failed::Closed) };
        node.counters.writes.add(1);
        Ok(node.awaited(lane, &self.live, asked, answer).await? != Value::Nil)
    }
}

/// Milliseconds for PX, which takes no 0.
pub(super) fn millis(lasting: Duration) -> u64 {
    u64::try_from(lasting.as_millis()).unwrap_or(u64::MAX).clamp(1, i64::MAX as u64)
}

/// The bytes of a value that is a string.
pub(super) fn bulk(value: Value) -> Result<Option<Bytes>, Failed> {
    match value {
        Value::Nil => Ok(None),
        Value::BulkString(bytes) => Ok(Some(bytes.into())),
        _ => Err(Failed::Refused),
    }
}

/// Whether the connection is broken.
fn broken(error: &RedisError) -> bool {
    error.is_io_error() || error.kind() == ErrorKind::ParseError || error.is_unrecoverable_error()
}

fn refused(error: &RedisError) -> Failed {
    let node = || error.redirect_node().map(|(address, _)| address.to_owned());
    match error.kind() {
        ErrorKind::Moved => node().map_or(Failed::Refused, Failed::Moved),
        ErrorKind::Ask => node().map_or(Failed::Refused, Failed::Ask),
        _ => Failed::Refused,
    }
}
