//! Records and totals of requests.

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

/// Most log lines waiting for their reader; further ones are dropped and counted.
const LINES: usize = 65_536;
/// Most characters of a statement in a log line.
const SHOWN: usize = 200;

/// A finished request.
#[derive(Clone, Debug)]
pub struct Request {
    /// Number of the connection, from 1.
    pub connection: u64,
    /// Number within the connection, from 1.
    pub number: u64,
    /// The statement, or method and target, as far as parsed.
    pub text: Option<Arc<str>>,
    /// Arrival of its first byte since the start of the proxy.
    pub at: Duration,
    /// Measured delay of the request and its answer.
    pub held: Duration,
    /// Time from its first byte to the last byte of its answer at the client; `None`: it was never
    /// answered completely.
    pub took: Option<Duration>,
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request { connection, number, text, at, held, took } = self;
        write!(
            f,
            "{:.6} {connection}.{number} held {:.3} ms ",
            at.as_secs_f64(),
            held.as_secs_f64() * 1e3
        )?;
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

        /// Totals of a proxy since its start.
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
    /// Connections open now.
    open,
    /// Connections reset at once by a rule.
    refused,
    /// Connections ended because the server could not be reached.
    unreachable,
    /// Requests, as far as the protocol shows them.
    requests,
    /// Bytes sent to the server.
    to_server,
    /// Bytes sent to clients.
    to_client,
    /// Delays of requests, answers, bytes or connections.
    delays,
    /// Sum of the delays in nanoseconds.
    delayed,
    /// Sum of the lateness of delays in nanoseconds.
    late,
    /// Largest lateness in nanoseconds.
    latest,
    /// Stalls.
    stalls,
    /// Resets during a connection.
    resets,
    /// Truncated directions.
    truncated,
    /// Bytes changed.
    corrupted,
    /// Connections whose protocol could not be parsed (any more).
    lost,
    /// Log lines dropped because the reader was too slow.
    unlogged,
}

impl Counters {
    pub(super) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Relaxed);
    }

    /// Counts a completed delay.
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
        let Totals {
            connections, open, refused, unreachable, requests, to_server, to_client, ..
        } = self;
        let Totals { delays, stalls, resets, truncated, corrupted, lost, unlogged, .. } = self;
        let ms = |nanos: u64| nanos as f64 / 1e6;
        let mean = |nanos: u64| ms(nanos) / (*delays).max(1) as f64;
        writeln!(
            f,
            "connections {connections}, open {open}, refused {refused}, server unreachable \
             {unreachable}"
        )?;
        writeln!(
            f,
            "requests {requests}, bytes to the server {to_server}, to clients {to_client}"
        )?;
        writeln!(
            f,
            "delays {delays}, mean {:.3} ms, late by {:.3} ms in the mean and {:.3} ms at most",
            mean(self.delayed),
            mean(self.late),
            ms(self.latest)
        )?;
        write!(
            f,
            "stalls {stalls}, resets {resets}, truncated {truncated}, bytes corrupted {corrupted}"
        )?;
        if *lost > 0 {
            write!(f, "\nprotocol not read to the end on {lost} connections")?;
        }
        if *unlogged > 0 {
            write!(f, "\nlines of the log that nobody read in time: {unlogged}")?;
        }
        Ok(())
    }
}

/// The last requests, for [`Handle::requests`](super::Handle::requests).
pub(super) struct RecentRequests {
    most: usize,
    requests: Mutex<VecDeque<Request>>,
}

/// Destination of finished requests.
pub(super) struct RequestLog {
    pub(super) counters: Arc<Counters>,
    pub(super) recent: Arc<RecentRequests>,
    log: Option<SyncSender<Request>>,
}

impl RecentRequests {
    pub(super) fn new(most: usize) -> RecentRequests {
        RecentRequests { most, requests: Mutex::default() }
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

impl RequestLog {
    pub(super) fn new(
        counters: Arc<Counters>,
        recent: Arc<RecentRequests>,
        log: Option<SyncSender<Request>>,
    ) -> RequestLog {
        RequestLog { counters, recent, log }
    }

    pub(super) fn over(&self, request: Request) {
        if let Some(log) = &self.log
            && log.try_send(request.clone()).is_err()
        {
            Counters::add(&self.counters.unlogged, 1);
        }
        self.recent.keep(request);
    }
}

/// A channel for the log.
pub(super) fn log() -> (SyncSender<Request>, Receiver<Request>) {
    sync_channel(LINES)
}
