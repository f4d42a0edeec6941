//! One connection to one server: made when it is first needed, greeted, used until it breaks, made anew.
//!
//! | room | what |
//! |---|---|
//! | `queue` | operations on their way to the connection |
//! | `stream` | TCP, a unix socket, or a connector's; which address of a name |
//! | `greet` | who we are, and what the server speaks |
//! | `link` | requests out in batches, replies in order |
//! | `run` | writes nobody waits for |
//! | `wire` | operations as requests, replies as answers |
//! | `out` | the bytes of a batch |
//!
//! | the connection ends because | who is told | the server's health |
//! |---|---|---|
//! | it could not be made, or no greeting came in time | everyone in the queue | a failure |
//! | an answer did not come in time, or the server takes nothing | everyone who was sent | a failure |
//! | what came was no answer | everyone who was sent | a failure |
//! | it broke while answers were awaited, before the first | everyone who was sent | a failure |
//! | it broke while answers were awaited, behind others | everyone who was sent | nothing: making the next one tells |
//! | a store was refused in a way that may leave the value to be taken for requests | everyone behind it | nothing |
//! | it broke while nobody waited | nobody: the next operation makes a new one | nothing |
//! | all clients are gone and all is answered | - | nothing |

mod greet;
mod link;
mod out;
mod queue;
mod run;
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
    peer::{Job, Told},
};
pub(crate) use link::BATCH;
use link::{End, Link};
pub(crate) use queue::{Jobs, Queue};
pub(crate) use stream::Stream;

/// Largest value that is taken from a server: other clients may store larger ones than this one may. A connection buffers so
/// much at the most.
const MAX_VALUE: usize = 128 << 20;

/// What a connection's task, its door and its probes share.
#[derive(Debug)]
pub(crate) struct Lane {
    /// The server's index.
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
    /// The server ends connections that ask for meta commands (some proxies do): it is asked no more.
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

    /// A connection failed: once for all who waited for it.
    fn failed(&self, error: &Error) {
        match error {
            Error::Timeout => self.counters.timeouts.add(1),
            _ => self.counters.errors.add(1),
        }
        // What hung up on meta commands may be another server when it is back.
        self.text_only.store(false, Relaxed);
        self.fleet.failed(self.at, Instant::now());
    }

    /// Tells who asked, and counts.
    fn finish(&self, told: Told, answer: Result<Answer, Error>) {
        match told {
            // Who has stopped waiting is not told.
            Told::Caller(caller) => drop(caller.send(answer)),
            Told::Nobody => {}
        }
    }
}

/// The connection's task: ends with the last client.
pub(crate) async fn run(lane: Arc<Lane>, mut jobs: Jobs<Job>) {
    while jobs.wait().await {
        lane.counters.connects.add(1);
        let greeted = match connect(&lane).await {
            Ok(greeted) => greeted,
            Err(error) => {
                lane.failed(&error);
                refuse(&lane, &mut jobs, &error);
                continue;
            }
        };
        let mut link = Link::new(&lane, greeted);
        match std::future::poll_fn(|cx| link.poll(cx, &mut jobs)).await {
            End::Gone => return,
            End::Idle => {}
            End::Failed(error) => {
                // A server that was well may have been restarted, or have ended what it took for an idle connection.
                match error {
                    Error::Closed(_) if link.proven() => lane.counters.errors.add(1),
                    _ => lane.failed(&error),
                }
                link.fail(&error);
                if !lane.fleet.is_up(lane.at) {
                    refuse(&lane, &mut jobs, &Error::Down);
                }
            }
        }
    }
}

/// Nobody in the queue waits for a server that is down.
fn refuse(lane: &Lane, jobs: &mut Jobs<Job>, error: &Error) {
    while let Some(job) = jobs.take() {
        lane.finish(job.told, Err(error.clone()));
    }
}

async fn connect(lane: &Lane) -> Result<greet::Greeted, Error> {
    match time::timeout(lane.timeouts.connect, greet::connect(lane, false)).await {
        Ok(greeted) => greeted,
        Err(_) => Err(Error::Timeout),
    }
}

/// Whether the server takes a connection and answers on it.
pub(crate) async fn probe(lane: &Lane) -> bool {
    matches!(time::timeout(lane.timeouts.connect, greet::connect(lane, true)).await, Ok(Ok(_)))
}

fn closed(error: &io::Error) -> Error {
    Error::Closed(error.kind())
}

/// What an operation counts as.
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
    /// Remembers that the server knows text alone.
    fn only_text(&self) {
        self.text_only.store(true, Relaxed);
    }
}
