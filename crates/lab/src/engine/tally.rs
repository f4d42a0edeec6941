//! Counters of a thread, one second at a time.

use std::{collections::BTreeMap, fmt, io};

use hdrhistogram::Histogram;

/// Longest time of the histogram, in nanoseconds; longer ones are counted as this.
const LONGEST: u64 = 3_600_000_000_000;
/// Three significant digits: an error of at most half a thousandth.
const DIGITS: u8 = 3;
/// Most distinct error texts, and their length; further ones are counted together.
const MOST_TEXTS: usize = 32;
/// See `MOST_TEXTS`.
const LONGEST_TEXT: usize = 80;

/// Why a request has no right answer, or a connection could not be made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// A connection could not be made; no request was lost.
    Connect(String),
    /// A request was lost because its connection could not be made.
    NoConnection(String),
    /// The answer timed out.
    Timeout,
    /// The server closed the connection before the end of the answer.
    Closed,
    /// The connection broke.
    Broke(String),
    /// Lost with its connection because of another request's failure.
    Lost,
    /// The answer is malformed.
    Malformed(String),
    /// Unrequested bytes arrived; no request was lost.
    Unasked,
    /// An HTTP status of 400 or more.
    Status(u16),
    /// An error of memcached or Redis, with its text.
    ServerError(String),
    /// Open loop: too many requests were due at once.
    QueueFull,
    /// Open loop: it was due, and no connection was free until the answer's timeout.
    NotSent,
    /// The protocol cannot send this key.
    BadKey,
}

impl Fault {
    /// An error with the server's text, truncated.
    pub(super) fn said(text: &[u8]) -> Fault {
        let text = String::from_utf8_lossy(&text[..text.len().min(LONGEST_TEXT)]);
        Fault::ServerError(text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect())
    }

    /// The text of a system error, without addresses.
    pub(super) fn words(error: &io::Error) -> String {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => "refused".to_owned(),
            io::ErrorKind::ConnectionReset => "reset".to_owned(),
            io::ErrorKind::BrokenPipe => "reset".to_owned(),
            io::ErrorKind::TimedOut => "timeout".to_owned(),
            _ => error.to_string(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Connect(why) => write!(f, "connect: {why}"),
            Fault::NoConnection(why) => write!(f, "no connection: {why}"),
            Fault::Timeout => f.write_str("timeout"),
            Fault::Closed => f.write_str("closed"),
            Fault::Broke(why) => f.write_str(why),
            Fault::Lost => f.write_str("lost with its connection"),
            Fault::Malformed(why) => write!(f, "malformed: {why}"),
            Fault::Unasked => f.write_str("unasked bytes"),
            Fault::Status(status) => write!(f, "status {status}"),
            Fault::ServerError(text) => write!(f, "answered: {text}"),
            Fault::QueueFull => f.write_str("queue full"),
            Fault::NotSent => f.write_str("not sent in time"),
            Fault::BadKey => f.write_str("key cannot be sent"),
        }
    }
}

/// Counters and histograms.
pub(super) struct Tally {
    pub(super) requests: u64,
    pub(super) answers: u64,
    pub(super) hits: u64,
    pub(super) misses: u64,
    pub(super) wrong: u64,
    pub(super) received: u64,
    pub(super) sent: u64,
    pub(super) errors: BTreeMap<Fault, u64>,
    pub(super) latency: Histogram<u64>,
    pub(super) service: Option<Histogram<u64>>,
}

/// An empty histogram of nanoseconds.
pub(crate) fn histogram() -> Histogram<u64> {
    let made = Histogram::new_with_bounds(1, LONGEST, DIGITS);
    // Both bounds are constants within the crate's limits.
    made.unwrap_or_else(|_| unreachable!("bounds of a histogram"))
}

impl Tally {
    /// Empty. `open`: for an open loop, where the service time differs from the latency.
    pub(super) fn new(open: bool) -> Tally {
        Tally {
            requests: 0,
            answers: 0,
            hits: 0,
            misses: 0,
            wrong: 0,
            received: 0,
            sent: 0,
            errors: BTreeMap::new(),
            latency: histogram(),
            service: open.then(histogram),
        }
    }

    /// Counts a failed request, or a failure to connect.
    #[cold]
    pub(super) fn fault(&mut self, fault: Fault) {
        if !matches!(fault, Fault::Connect(_) | Fault::Unasked) {
            self.requests += 1;
        }
        self.note(fault, 1);
    }

    /// Adds failures of one kind; kinds beyond the limit are counted together.
    fn note(&mut self, fault: Fault, count: u64) {
        let fault = if self.errors.len() < MOST_TEXTS || self.errors.contains_key(&fault) {
            fault
        } else {
            Fault::ServerError("other errors".to_owned())
        };
        *self.errors.entry(fault).or_default() += count;
    }

    /// Failures and wrong answers.
    pub(super) fn failed(&self) -> u64 {
        self.wrong + self.errors.values().sum::<u64>()
    }

    /// Adds another tally.
    pub(super) fn add(&mut self, other: &Tally) {
        self.requests += other.requests;
        self.answers += other.answers;
        self.hits += other.hits;
        self.misses += other.misses;
        self.wrong += other.wrong;
        self.received += other.received;
        self.sent += other.sent;
        for (fault, count) in &other.errors {
            self.note(fault.clone(), *count);
        }
        // All histograms have the same bounds, so that no value is out of range.
        let _ = self.latency.add(&other.latency);
        if let (Some(mine), Some(other)) = (&mut self.service, &other.service) {
            let _ = mine.add(other);
        }
    }
}
