//! What a thread counts, a second at a time.

use std::{collections::BTreeMap, fmt, io};

use hdrhistogram::Histogram;

/// Longest time a histogram holds; longer ones count as this.
const LONGEST: u64 = 3_600_000_000_000;
/// Three digits: half a part in a thousand, at any size.
const DIGITS: u8 = 3;
/// Different texts of errors that are kept apart, and how long each may be; the rest is counted together.
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
    /// No answer in time.
    Timeout,
    /// The server ended the connection before the answer's end.
    Closed,
    /// The connection broke.
    Broke(String),
    /// Another request's fault took the connection away.
    Lost,
    /// What came is no answer.
    Malformed(String),
    /// Bytes came that nothing was asked for; no request was lost.
    Unasked,
    /// An HTTP status of 400 or more.
    Status(u16),
    /// An error of memcached or Redis, in its words.
    Said(String),
    /// Open loop: too many requests were due at once.
    QueueFull,
    /// Open loop: it was due, and no connection was free in all the time an answer may take.
    NotSent,
    /// The protocol has no way to send such a key.
    BadKey,
}

impl Fault {
    /// An error in the server's words, cut to a sensible length.
    pub(super) fn said(text: &[u8]) -> Fault {
        let text = String::from_utf8_lossy(&text[..text.len().min(LONGEST_TEXT)]);
        Fault::Said(text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect())
    }

    /// What the system says of a connection, in words that do not depend on where.
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
            Fault::Said(text) => write!(f, "answered: {text}"),
            Fault::QueueFull => f.write_str("queue full"),
            Fault::NotSent => f.write_str("not sent in time"),
            Fault::BadKey => f.write_str("key cannot be sent"),
        }
    }
}

/// What was counted.
pub(super) struct Tally {
    pub(super) asked: u64,
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
    // Both bounds are constants within what the crate takes.
    made.unwrap_or_else(|_| unreachable!("bounds of a histogram"))
}

impl Tally {
    /// Nothing yet. `open`: of an open loop, where the service time is another than the latency.
    pub(super) fn new(open: bool) -> Tally {
        Tally {
            asked: 0,
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

    /// Counts a request that failed, or a failure to connect.
    #[cold]
    pub(super) fn fault(&mut self, fault: Fault) {
        if !matches!(fault, Fault::Connect(_) | Fault::Unasked) {
            self.asked += 1;
        }
        self.note(fault, 1);
    }

    /// So many failures of a kind, as far as kinds are kept apart.
    fn note(&mut self, fault: Fault, count: u64) {
        let fault = if self.errors.len() < MOST_TEXTS || self.errors.contains_key(&fault) {
            fault
        } else {
            Fault::Said("other errors".to_owned())
        };
        *self.errors.entry(fault).or_default() += count;
    }

    /// Failures and wrong answers.
    pub(super) fn failed(&self) -> u64 {
        self.wrong + self.errors.values().sum::<u64>()
    }

    /// Takes in what another has counted.
    pub(super) fn add(&mut self, other: &Tally) {
        self.asked += other.asked;
        self.answers += other.answers;
        self.hits += other.hits;
        self.misses += other.misses;
        self.wrong += other.wrong;
        self.received += other.received;
        self.sent += other.sent;
        for (fault, count) in &other.errors {
            self.note(fault.clone(), *count);
        }
        // Same bounds everywhere, so that nothing can be out of them.
        let _ = self.latency.add(&other.latency);
        if let (Some(mine), Some(other)) = (&mut self.service, &other.service) {
            let _ = mine.add(other);
        }
    }
}
