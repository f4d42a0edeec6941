//! Figures that INFO tells relative to something: since CONFIG RESETSTAT, per second since the last
//! look.

use nix::sys::resource::{UsageWho, getrusage};
use parking_lot::Mutex;

use crate::clock::Ms;

/// A look at what was counted so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Look {
    pub(crate) at: Ms,
    pub(crate) commands: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
}

/// Per second, between two looks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rates {
    pub(crate) commands: u64,
    pub(crate) kbytes_in: f64,
    pub(crate) kbytes_out: f64,
}

/// Least time between two looks that are compared.
const SPAN: Ms = 500;

/// What counters are compared with.
#[derive(Debug, Default)]
pub(crate) struct Baseline {
    looks: Mutex<(Look, Rates)>,
    /// Names and values at the last CONFIG RESETSTAT.
    zero: Mutex<std::collections::BTreeMap<String, u64>>,
}

impl Baseline {
    /// Rates since the last look that is old enough.
    pub(crate) fn rates(&self, now: Look) -> Rates {
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

    /// What was counted under this name since the last reset.
    pub(crate) fn since(&self, name: &str, value: u64) -> u64 {
        value.saturating_sub(self.zero.lock().get(name).copied().unwrap_or(0))
    }

    /// Counts from these values on.
    pub(crate) fn reset(&self, values: impl Iterator<Item = (String, u64)>) {
        *self.zero.lock() = values.collect();
    }
}

/// What the process has used: microseconds of processor time as user and as system, and bytes of
/// memory at the most.
pub(crate) fn usage() -> (u64, u64, u64) {
    // Cannot fail for the process itself (getrusage(2)); if it did, there would be nothing to say.
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return (0, 0, 0) };
    let micros =
        |time: nix::sys::time::TimeVal| time.tv_sec() as u64 * 1_000_000 + time.tv_usec() as u64;
    (micros(usage.user_time()), micros(usage.system_time()), usage.max_rss() as u64 * 1024)
}
