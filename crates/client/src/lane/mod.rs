//! One connection to one server: made when first needed, used until it breaks, then made again.
//!
//! | module | contents |
//! |---|---|
//! | `queue` | operations waiting for the connection |
//! | `stream` | TCP, unix socket, or a connector's stream; choice among a name's addresses |
//! | `handshake` | handshake: authentication, detection of the dialect |
//! | `pipeline` | requests out in batches, replies in order |
//! | `quiet` | runs of quiet writes |
//! | `wire` | encoding of operations, decoding of replies |
//! | `send` | send buffer of a batch |
//!
//! | the connection ends because | requests that fail | effect on health |
//! |---|---|---|
//! | it could not be made, or the handshake timed out | all in the queue | a failure |
//! | a read or write timeout passed | all that were sent | a failure |
//! | a reply did not match its request | all that were sent | a failure |
//! | it broke while replies were awaited, before the first reply | all that were sent | a failure |
//! | it broke while replies were awaited, after one | all that were sent | none: reconnecting decides |
//! | a rejected store may leave its value to be parsed as requests | all after it | none |
//! | it broke while no reply was awaited | none: the next operation reconnects | none |
//! | all clients are dropped and all is answered | - | none |

mod handshake;
mod pipeline;
mod queue;
mod quiet;
mod send;
mod stream;
mod wire;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Instant,
};

use tokio::time;

use crate::{
    Address, Auth, Config, Error, Protocol, SharedConnector, Timeouts,
    counters::Counters,
    health::Fleet,
    op::{Answer, Op},
    peer::{Job, ReplyTo},
};
pub(crate) use pipeline::BATCH;
use pipeline::{EndReason, Pipeline};
pub(crate) use queue::{Jobs, Queue};
pub(crate) use stream::Stream;

/// Largest value accepted from a server: other clients may store larger values than this one may.
/// It bounds the receive buffer of a connection.
const MAX_VALUE: usize = 128 << 20;

/// State shared by a connection's task, its handle and its probes.
#[derive(Debug)]
pub(crate) struct Lane {
    /// Index of the server.
    at: usize,
    address: Address,
    connector: Option<SharedConnector>,
    protocol: Protocol,
    auth: Option<Auth>,
    timeouts: Timeouts,
    max_item: usize,
    max_value: usize,
    fleet: Arc<Fleet>,
    pub(crate) counters: Counters,
    /// The server closes connections that use meta commands (some proxies do), so text is used.
    text_only: AtomicBool,
}

impl Lane {
    pub(crate) fn new(at: usize, address: Address, config: &Config, fleet: Arc<Fleet>) -> Lane {
        Lane {
            at,
            address,
            connector: config.connector.clone(),
            protocol: match (&config.auth, config.protocol) {
                (Some(Auth::SaslPlain { .. }), _) => Protocol::Binary,
                (_, protocol) => protocol,
            },
            auth: config.auth.clone(),
            timeouts: config.timeouts,
            max_item: config.max_item,
            max_value: config.max_item.max(MAX_VALUE),
            fleet,
            counters: Counters::default(),
            text_only: AtomicBool::new(false),
        }
    }

    /// Counts a failed connection: once, however many requests waited.
    fn failed(&self, error: &Error) {
        match error {
            Error::Timeout => self.counters.timeouts.add(1),
            _ => self.counters.errors.add(1),
        }
        // Another server may answer at this address later: meta commands are tried again.
        self.text_only.store(false, Relaxed);
        self.fleet.failed(self.at, Instant::now());
    }

    /// Delivers an answer and updates the counters.
    fn finish(&self, reply_to: ReplyTo, answer: Result<Answer, Error>) {
        match reply_to {
            // The caller may have stopped waiting.
            ReplyTo::Caller(caller) => drop(caller.send(answer)),
            ReplyTo::Nobody => {}
        }
    }
}

/// The connection's task; ends when all clients are dropped.
pub(crate) async fn run(lane: Arc<Lane>, mut jobs: Jobs<Job>) {
    while jobs.wait().await {
        lane.counters.connects.add(1);
        let ready = match connect(&lane).await {
            Ok(ready) => ready,
            Err(error) => {
                lane.failed(&error);
                refuse(&lane, &mut jobs, &error);
                continue;
            }
        };
        let mut pipeline = Pipeline::new(&lane, ready);
        match std::future::poll_fn(|cx| pipeline.poll(cx, &mut jobs)).await {
            EndReason::Gone => return,
            EndReason::Idle => {}
            EndReason::Failed(error) => {
                // A healthy server may have been restarted, or have closed what it took for an idle
                // connection.
                match error {
                    Error::Closed(_) if pipeline.proven() => lane.counters.errors.add(1),
                    _ => lane.failed(&error),
                }
                pipeline.fail(&error);
                if !lane.fleet.is_up(lane.at) {
                    refuse(&lane, &mut jobs, &Error::Down);
                }
            }
        }
    }
}

/// Fails all queued operations of a down server.
fn refuse(lane: &Lane, jobs: &mut Jobs<Job>, error: &Error) {
    while let Some(job) = jobs.take() {
        lane.finish(job.reply_to, Err(error.clone()));
    }
}

async fn connect(lane: &Lane) -> Result<handshake::ReadyConnection, Error> {
    match time::timeout(lane.timeouts.connect, handshake::connect(lane, false)).await {
        Ok(ready) => ready,
        Err(_) => Err(Error::Timeout),
    }
}

/// Whether the server accepts a connection and answers on it.
pub(crate) async fn probe(lane: &Lane) -> bool {
    matches!(time::timeout(lane.timeouts.connect, handshake::connect(lane, true)).await, Ok(Ok(_)))
}

fn closed(error: &io::Error) -> Error {
    Error::Closed(error.kind())
}

/// How an operation is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    Other,
}

fn kind(op: &Op) -> Kind {
    match op {
        Op::Get { .. } => Kind::Read,
        Op::GetTouch { .. } => Kind::Read,
        Op::Store { .. } | Op::Delete { .. } | Op::Count { .. } | Op::Touch { .. } => Kind::Write,
        Op::Stats { .. } | Op::Flush { .. } | Op::Version => Kind::Other,
    }
}

impl Lane {
    /// Records that the server supports only the text protocol.
    fn only_text(&self) {
        self.text_only.store(true, Relaxed);
    }
}
