//! Shared state of the applications that Larder runs. The thread that runs them writes it, the
//! registry reads it.

use std::{collections::BTreeMap, fs, sync::Arc, time::Duration};

use larder_metrics::App as Row;
use parking_lot::Mutex;

use crate::settings::AppUse;

/// The most processes whose memory is added up, for each application.
const MOST_PROCESSES: usize = 4096;

/// The state of all applications, by name.
#[derive(Debug, Default)]
pub struct Apps {
    apps: Mutex<BTreeMap<String, AppState>>,
}

/// The state of one application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppState {
    /// Processes that are wanted.
    pub wanted: usize,
    /// Processes that run.
    pub running: Vec<u32>,
    /// Processes that were started again after they ended by themselves, since the start.
    pub restarts: u64,
    /// Processes that were replaced: by a reload, their age, or a number of requests.
    pub replaced: u64,
    /// Starts that failed: the process did not become ready in time, or could not be started.
    pub failures: u64,
    /// Processes that end again and again.
    pub failing: bool,
    /// Lines of its log that were left out.
    pub lines_dropped: u64,
    /// The reason for which a process ended last; None: none did.
    pub reason: Option<String>,
    /// Its use: workers keep an origin over a reload that does not change it, and count there.
    usage: Vec<Arc<AppUse>>,
    /// Requests by uses that are over.
    requests_before: u64,
}

impl AppState {
    /// Requests are counted there too from now on.
    pub fn count_by(&mut self, usage: &Arc<AppUse>) {
        // Nobody else counts there any more.
        for over in self.usage.extract_if(.., |usage| Arc::strong_count(usage) == 1) {
            self.requests_before += over.requests();
        }
        self.usage.push(usage.clone());
    }

    fn requests(&self) -> u64 {
        self.requests_before + self.usage.iter().map(|usage| usage.requests()).sum::<u64>()
    }
}

impl Apps {
    /// An application is there from now on.
    pub fn begin(&self, name: &str) {
        self.apps.lock().entry(name.to_owned()).or_default();
    }

    /// Changes the state of an application. One that was forgotten has none: its last processes may
    /// still end.
    pub fn note(&self, name: &str, change: impl FnOnce(&mut AppState)) {
        if let Some(state) = self.apps.lock().get_mut(name) {
            change(state);
        }
    }

    /// Requests sent to an application so far.
    pub fn requests(&self, name: &str) -> u64 {
        self.apps.lock().get(name).map_or(0, AppState::requests)
    }

    /// Forgets the applications that are not in the list.
    pub fn retain(&self, names: &[String]) {
        self.apps.lock().retain(|name, _| names.contains(name));
    }

    /// The figures of all applications.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let apps = self.apps.lock().clone();
        let row = |(name, state): (String, AppState)| Row {
            name,
            wanted: state.wanted as u64,
            processes: state.running.len() as u64,
            restarts: state.restarts,
            replaced: state.replaced,
            failures: state.failures,
            failing: state.failing.into(),
            memory: resident(&state.running),
            lines_dropped: state.lines_dropped,
            requests: state.requests(),
            waiting: state.usage.iter().map(|usage| usage.waiting()).sum(),
            reason: state.reason,
        };
        apps.into_iter().map(row).collect()
    }
}

/// Bytes of resident memory of these processes and of their children; pages that they share count
/// for each.
fn resident(pids: &[u32]) -> u64 {
    let mut waiting = pids.to_vec();
    let (mut bytes, mut looked) = (0, 0);
    while let Some(pid) = waiting.pop() {
        looked += 1;
        if looked > MOST_PROCESSES {
            break;
        }
        bytes += resident_of(pid).unwrap_or(0);
        let path = format!("/proc/{pid}/task/{pid}/children");
        let children = fs::read_to_string(path).unwrap_or_default();
        waiting.extend(children.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    bytes
}

/// `VmRSS` is in KiB.
fn resident_of(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kibibytes << 10)
}

/// Waits between the ends of a process and its next starts: none at first, then 100 ms, doubled
/// until 10 s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    early: u32,
}

/// A process that ran for this time ended for a reason of its own: it is started again at once.
pub const GOOD_RUN: Duration = Duration::from_millis(500);
/// The first wait, and the longest.
const WAITS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// Early ends in a row that are called a loop.
const LOOP: u32 = 5;

impl Backoff {
    /// A process has ended that ran for this time. The result is the wait until the next start.
    pub fn ended(&mut self, ran: Duration) -> Duration {
        self.early = if ran >= GOOD_RUN { 0 } else { self.early.saturating_add(1) };
        match self.early {
            0 | 1 => Duration::ZERO,
            early => WAITS.0.saturating_mul(1 << (early - 2).min(16)).min(WAITS.1),
        }
    }

    /// Whether processes end again and again.
    pub fn is_loop(&self) -> bool {
        self.early >= LOOP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_slowed_down_and_a_good_run_ends_it() {
        let mut backoff = Backoff::default();
        let mut waits = Vec::new();
        for _ in 0..10 {
            waits.push(backoff.ended(Duration::from_millis(10)).as_millis());
        }
        assert_eq!(waits, [0, 100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        assert!(backoff.is_loop());
        assert_eq!(backoff.ended(Duration::from_secs(1)), Duration::ZERO);
        assert!(!backoff.is_loop());
        for _ in 0..100 {
            backoff.ended(Duration::ZERO);
        }
        assert_eq!(backoff.ended(Duration::ZERO), WAITS.1);
    }

    #[test]
    fn figures_of_applications() {
        let apps = Apps::default();
        apps.begin("php");
        apps.note("php", |state| {
            state.wanted = 2;
            state.running.push(std::process::id());
        });
        let rows = apps.rows();
        assert_eq!((rows.len(), rows[0].processes, rows[0].wanted), (1, 1, 2));
        assert!(rows[0].memory > 1 << 20, "{rows:?}");
        apps.retain(&["other".to_owned()]);
        apps.note("php", |state| state.restarts += 1);
        assert!(apps.rows().is_empty());
    }
}
