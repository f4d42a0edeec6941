//! Counters of the Redis face: one set per worker. Only its worker writes it; readers merge the
//! sets.

use std::collections::BTreeMap;

use larder_metrics::Counter;
use larder_proto::resp::table::Command;
use parking_lot::Mutex;

use crate::object::{TlsCounters, hot::Hot};

use super::dispatch::COMMANDS;

/// Maximum of error codes counted separately; further ones count as `OTHER` (Redis: 128 too).
const CODES: usize = 128;
/// Buckets of a command's time: powers of two of microseconds, the last one open (as in LATENCY
/// HISTOGRAM).
pub(crate) const BUCKETS: usize = 32;

/// Figures of a command.
#[derive(Debug, Default)]
pub(crate) struct PerCommand {
    /// Executions.
    pub calls: Counter,
    /// Execution time in microseconds; estimated from samples for fast commands.
    pub micros: Counter,
    /// Rejections before execution (not allowed, not authenticated).
    pub rejected: Counter,
    /// Executions that answered an error.
    pub failed: Counter,
}

/// Calls per bucket of time. Allocated when the command is first timed.
type Histogram = Box<[u64; BUCKETS]>;

/// Counters by command.
#[derive(Debug)]
pub(crate) struct Commands(Box<[PerCommand; COMMANDS]>);

impl Default for Commands {
    fn default() -> Self {
        Commands(Box::new(std::array::from_fn(|_| PerCommand::default())))
    }
}

impl std::ops::Index<usize> for Commands {
    type Output = PerCommand;

    fn index(&self, at: usize) -> &PerCommand {
        &self.0[at % COMMANDS]
    }
}

/// Errors by code. Only errors lock it; apart from its worker only readers of the figures do.
#[derive(Debug, Default)]
pub(crate) struct Errors(Mutex<BTreeMap<Box<[u8]>, u64>>);

/// Histograms by command, under the same lock scheme.
#[derive(Debug, Default)]
pub(crate) struct Latencies(Mutex<BTreeMap<u16, Histogram>>);

larder_metrics::counters! {
    /// Counters of one worker since its start.
    pub(crate) struct Counters {
        /// Accepted connections.
        total_connections_received,
        /// Connections refused because the limit was reached.
        rejected_connections,
        /// Connections refused because they came from another machine and no password is set.
        denied_connections,
        /// Connections closed because their clients did not read answers for too long.
        stalled_connections,
        /// Bytes received.
        total_net_input_bytes,
        /// Bytes sent.
        total_net_output_bytes,
        /// Batches of commands received.
        total_reads_processed,
        /// Batches of answers sent.
        total_writes_processed,
        /// Error answers.
        total_error_replies,
        /// Protocol errors, which close the connection.
        protocol_errors,
        /// Failed attempts to authenticate.
        acl_access_denied_auth,
    }
    with {
        /// Of connections over TLS.
        tls: TlsCounters,
        /// By command.
        commands: Commands,
        /// By error code.
        errors: Errors,
        /// Histograms of execution times.
        latencies: Latencies,
        /// The most frequently read keys of all databases.
        hot: Hot,
    }
}

/// The bucket of a time in microseconds.
pub(crate) fn class(micros: u64) -> usize {
    let class = (u64::BITS - micros.saturating_sub(1).leading_zeros()) as usize;
    class.min(BUCKETS - 1)
}

impl Counters {
    /// Counts an error by its code, the first word of `text`.
    pub(crate) fn error(&self, text: &[u8]) {
        self.total_error_replies.one();
        let code = text.split(|b| b" \r\n".contains(b)).next().unwrap_or_default();
        let mut errors = self.errors.0.lock();
        if let Some(count) = errors.get_mut(code) {
            *count += 1;
        } else if errors.len() < CODES {
            errors.insert(code.into(), 1);
        } else {
            *errors.entry(b"OTHER"[..].into()).or_default() += 1;
        }
    }

    /// Adds a command's time, weighted as `weight` calls.
    pub(crate) fn latency(&self, command: &Command, micros: u64, weight: u64) {
        let mut latencies = self.latencies.0.lock();
        let histogram =
            latencies.entry(command.id as u16).or_insert_with(|| Box::new([0; BUCKETS]));
        histogram[class(micros)] += weight;
    }

    /// Begins the histograms anew.
    pub(crate) fn forget_latencies(&self) {
        self.latencies.0.lock().clear();
    }

    /// Adds this worker's errors by code.
    pub(crate) fn add_errors(&self, into: &mut BTreeMap<Box<[u8]>, u64>) {
        for (code, count) in self.errors.0.lock().iter() {
            *into.entry(code.clone()).or_default() += count;
        }
    }

    /// Adds this worker's times by command.
    pub(crate) fn add_latencies(&self, into: &mut BTreeMap<u16, [u64; BUCKETS]>) {
        for (id, histogram) in self.latencies.0.lock().iter() {
            let sum = into.entry(*id).or_insert([0; BUCKETS]);
            sum.iter_mut().zip(histogram.iter()).for_each(|(sum, count)| *sum += count);
        }
    }

    /// Executions of all commands.
    pub(crate) fn calls(&self) -> u64 {
        self.commands.0.iter().map(|command| command.calls.get()).sum()
    }
}
