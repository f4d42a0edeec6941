//! LATENCY: commands that took longer than `latency-monitor-threshold`, at most one a second of
//! each kind. (Redis has other kinds as well: its expiries, evictions and files hold it up; here
//! they are steps beside other work.)

use std::{
    collections::{BTreeMap, VecDeque},
    sync::atomic::Ordering::Relaxed,
};

use larder_proto::resp::table::{Command, flag};
use parking_lot::Mutex;

use super::config::Config;

/// Samples kept of a kind (Redis: `LATENCY_TS_LEN`).
const SAMPLES: usize = 160;

/// A second since the epoch, and the longest time in it in milliseconds.
pub(crate) type Sample = (u64, u64);

/// The samples of a kind, oldest first, and the longest time of all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    pub(crate) samples: VecDeque<Sample>,
    pub(crate) longest: u64,
}

/// One per process.
#[derive(Debug, Default)]
pub(crate) struct Events(Mutex<BTreeMap<&'static str, Series>>);

impl Events {
    /// Notes a command that has taken so long, if it is to be noted.
    #[cold]
    pub(crate) fn took(&self, config: &Config, command: &Command, second: u64, micros: u64) {
        let (least, millis) = (config.latency_threshold.load(Relaxed), micros / 1000);
        if least == 0 || millis < least || command.has(flag::SKIP_SLOWLOG) {
            return;
        }
        let kind = if command.has(flag::FAST) { "fast-command" } else { "command" };
        let mut all = self.0.lock();
        let series = all.entry(kind).or_default();
        series.longest = series.longest.max(millis);
        match series.samples.back_mut() {
            Some((last, longest)) if *last == second => *longest = millis.max(*longest),
            _ => series.samples.push_back((second, millis)),
        }
        if series.samples.len() > SAMPLES {
            series.samples.pop_front();
        }
    }

    /// All kinds that have samples.
    pub(crate) fn all(&self) -> Vec<(&'static str, Series)> {
        self.0.lock().iter().map(|(kind, series)| (*kind, series.clone())).collect()
    }

    /// The samples of a kind.
    pub(crate) fn of(&self, kind: &[u8]) -> Option<Series> {
        let kind = std::str::from_utf8(kind).ok()?;
        self.0.lock().get(kind).cloned()
    }

    /// Forgets kinds, or all of them. Returns how many there were.
    pub(crate) fn forget<'k>(&self, kinds: impl Iterator<Item = &'k [u8]>) -> usize {
        let (mut all, mut named, mut gone) = (self.0.lock(), false, 0);
        for kind in kinds {
            named = true;
            let known = std::str::from_utf8(kind).ok();
            gone += usize::from(known.is_some_and(|kind| all.remove(kind).is_some()));
        }
        if !named {
            gone = std::mem::take(&mut *all).len();
        }
        gone
    }
}
