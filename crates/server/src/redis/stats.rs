//! Relative figures of INFO: since CONFIG RESETSTAT, and per second since an earlier sample.

use nix::sys::resource::{UsageWho, getrusage};
use parking_lot::Mutex;

use crate::clock::Ms;

/// A sample of the counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) at: Ms,
    pub(crate) commands: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
}

/// Rates per second between two samples.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rates {
    pub(crate) commands: u64,
    pub(crate) kbytes_in: f64,
    pub(crate) kbytes_out: f64,
}

/// Minimum time between two compared samples.
const SPAN: Ms = 500;

/// Base values of the counters.
#[derive(Debug, Default)]
pub(crate) struct Baseline {
    looks: Mutex<(Sample, Rates)>,
    /// Names and values at the last CONFIG RESETSTAT.
    zero: Mutex<std::collections::BTreeMap<String, u64>>,
}

impl Baseline {
    /// Rates since the last sample that is old enough.
    pub(crate) fn rates(&self, now: Sample) -> Rates {
        let mut looks = self.looks.lock();
        let (before, _) = *looks;
        let span = now.at.saturating_sub(before.at);
        if before.at != 0 && span < SPAN {
            return looks.1;
        }
        let per_second = |a: u64, b: u64| {
            if span == 0 || before.at == 0 { 0 } else { a.saturating_sub(b) * 1000 / span }
        };
        let rates = Rates {
            commands: per_second(now.commands, before.commands),
            kbytes_in: per_second(now.bytes_in, before.bytes_in) as f64 / 1024.0,
            kbytes_out: per_second(now.bytes_out, before.bytes_out) as f64 / 1024.0,
        };
        *looks = (now, rates);
        rates
    }

    /// Growth of a counter since the last reset.
    pub(crate) fn since(&self, name: &str, value: u64) -> u64 {
        value.saturating_sub(self.zero.lock().get(name).copied().unwrap_or(0))
    }

    /// Resets: later figures are relative to these values.
    pub(crate) fn reset(&self, values: impl Iterator<Item = (String, u64)>) {
        *self.zero.lock() = values.collect();
    }
}

/// Resource usage of the process: microseconds of user and system time, and peak memory in bytes.
pub(crate) fn usage() -> (u64, u64, u64) {
    // getrusage(2) cannot fail for the process itself; if it did, the figures would be 0.
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return (0, 0, 0) };
    let micros =
        |time: nix::sys::time::TimeVal| time.tv_sec() as u64 * 1_000_000 + time.tv_usec() as u64;
    (micros(usage.user_time()), micros(usage.system_time()), usage.max_rss() as u64 * 1024)
}
