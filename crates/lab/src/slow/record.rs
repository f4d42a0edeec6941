//! What went through, and what was done to it.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    time::{Duration, Instant},
};

/// Lines of the log that may wait for whoever reads it: what comes beyond is counted, not waited for.
const LINES: usize = 65_536;
/// Characters of a statement that a line of the log shows.
const SHOWN: usize = 200;

/// A request, as it was.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its connection; the first is 1.
    pub connection: u64,
    /// Its place in the connection; the first is 1.
    pub number: u64,
    /// The statement, or the method and target; as much of it as was looked at.
    pub text: Option<Arc<str>>,
    /// When its first byte came, from the start of the proxy.
    pub at: Duration,
    /// How long it, and then its answer, was held by a delay, as measured.
    pub held: Duration,
    /// From its first byte to the last of its answer given to the client; `None`: it was never answered whole.
    pub took: Option<Duration>,
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request { connection, number, text, at, held, took } = self;
        write!(f, "{:.6} {connection}.{number} held {:.3} ms ", at.as_secs_f64(), held.as_secs_f64() * 1e3)?;
        match took {
            Some(took) => write!(f, "took {:.3} ms", took.as_secs_f64() * 1e3)?,
            None => write!(f, "not answered")?,
        }
        let Some(text) = text else { return Ok(()) };
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut shown: String = words.chars().take(SHOWN).collect();
        if shown.len() < words.len() {
            shown.push_str("...");
        }
        write!(f, " {}", shown.replace(|c: char| c.is_control(), "?"))
    }
}

macro_rules! totals {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        #[derive(Default)]
        pub(super) struct Counters {
            $(pub(super) $name: AtomicU64,)*
        }

        /// What went through a proxy since its start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Totals {
            $($(#[doc = $doc])+ pub $name: u64,)*
        }

        impl Counters {
            pub(super) fn totals(&self) -> Totals {
                Totals { $($name: self.$name.load(Relaxed),)* }
            }
        }
    };
}

totals! {
    /// Connections accepted.
    connections,
    /// Of these, open now.
    open,
    /// Reset at once, as a rule said.
    refused,
    /// Ended because the server could not be reached.
    unreachable,
    /// Requests, as far as the protocol tells them.
    requests,
    /// Bytes given to the server.
    to_server,
    /// Bytes given to clients.
    to_client,
    /// Waits of requests, answers, bytes or connections that delays made.
    delays,
    /// How long they were together, nanoseconds.
    delayed,
    /// How much later than they should they ended, together, nanoseconds.
    late,
    /// And the worst of them, nanoseconds.
    latest,
    /// Stalls.
    stalls,
    /// Resets in the middle.
    resets,
    /// Ways cut short.
    truncated,
    /// Bytes changed.
    corrupted,
    /// Connections of which the protocol could not be read (any more).
    lost,
    /// Lines of the log that nobody read in time.
    unlogged,
}

impl Counters {
    pub(super) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Relaxed);
    }

    /// A wait that a delay made is over.
    pub(super) fn held(&self, begin: Instant, due: Instant, end: Instant) {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Counters::add(&self.delays, 1);
        Counters::add(&self.delayed, nanos(end - begin));
        let late = nanos(end.saturating_duration_since(due));
        Counters::add(&self.late, late);
        self.latest.fetch_max(late, Relaxed);
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals { connections, open, refused, unreachable, requests, to_server, to_client, .. } = self;
        let Totals { delays, stalls, resets, truncated, corrupted, lost, unlogged, .. } = self;
        let ms = |nanos: u64| nanos as f64 / 1e6;
        let mean = |nanos: u64| ms(nanos) / (*delays).max(1) as f64;
        writeln!(
            f,
            "connections {connections}, open {open}, refused {refused}, server unreachable {unreachable}"
        )?;
        writeln!(f, "requests {requests}, bytes to the server {to_server}, to clients {to_client}")?;
        writeln!(
            f,
            "delays {delays}, mean {:.3} ms, late by {:.3} ms in the mean and {:.3} ms at most",
            mean(self.delayed),
            mean(self.late),
            ms(self.latest)
        )?;
        write!(f, "stalls {stalls}, resets {resets}, truncated {truncated}, bytes corrupted {corrupted}")?;
        if *lost > 0 {
            write!(f, "\nprotocol not read to the end on {lost} connections")?;
        }
        if *unlogged > 0 {
            write!(f, "\nlines of the log that nobody read in time: {unlogged}")?;
        }
        Ok(())
    }
}

/// The last requests, for whoever runs the proxy in its own process.
pub(super) struct Kept {
    most: usize,
    requests: Mutex<VecDeque<Request>>,
}

/// Where requests go when they are over.
pub(super) struct Book {
    pub(super) counters: Arc<Counters>,
    pub(super) kept: Arc<Kept>,
    log: Option<SyncSender<Request>>,
}

impl Kept {
    pub(super) fn new(most: usize) -> Kept {
        Kept { most, requests: Mutex::default() }
    }

    pub(super) fn all(&self) -> Vec<Request> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn keep(&self, request: Request) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if requests.len() >= self.most {
            requests.pop_front();
        }
        if self.most > 0 {
            requests.push_back(request);
        }
    }
}

impl Book {
    pub(super) fn new(counters: Arc<Counters>, kept: Arc<Kept>, log: Option<SyncSender<Request>>) -> Book {
        Book { counters, kept, log }
    }

    pub(super) fn over(&self, request: Request) {
        if let Some(log) = &self.log
            && log.try_send(request.clone()).is_err()
        {
            Counters::add(&self.counters.unlogged, 1);
        }
        self.kept.keep(request);
    }
}

/// A log: requests in at one end, out at the other.
pub(super) fn log() -> (SyncSender<Request>, Receiver<Request>) {
    sync_channel(LINES)
}
