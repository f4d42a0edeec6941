//! Lines of a trace that are not replayed, counted by all threads that read it.

use std::{
    fmt,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Most messages kept: enough to recognise the kind of damage.
const KEPT: usize = 5;

/// Lines of a trace that were not replayed.
#[derive(Debug, Default)]
pub struct SkippedLines {
    malformed: AtomicU64,
    passed: AtomicU64,
    first: Mutex<Vec<(u64, String)>>,
    broken: Mutex<Option<String>>,
}

impl SkippedLines {
    /// Number of lines that are not in the trace's format.
    pub fn malformed(&self) -> u64 {
        self.malformed.load(Ordering::Relaxed)
    }

    /// Number of well-formed lines without a request to replay: other methods (POST, CONNECT),
    /// requests the logging server rejected.
    pub fn passed_over(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    /// Errors of some malformed lines, with line numbers.
    pub fn examples(&self) -> Vec<String> {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        first.iter().map(|(number, why)| format!("line {number}: {why}")).collect()
    }

    /// Why reading stopped before the end.
    pub fn broken(&self) -> Option<String> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn add_malformed(&self, line: u64, why: &str) {
        self.malformed.fetch_add(1, Ordering::Relaxed);
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        let at = first.partition_point(|(number, _)| *number < line);
        if at < KEPT {
            first.insert(at, (line, why.to_owned()));
            first.truncate(KEPT);
        }
    }

    pub(super) fn add_passed(&self) {
        self.passed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn set_broken(&self, why: String) {
        *self.broken.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }
}

impl fmt::Display for SkippedLines {
    /// Some lines for the operator; empty if there is nothing to report.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = self.broken() {
            writeln!(out, "trace: reading ended early: {why}")?;
        }
        if self.malformed() > 0 {
            writeln!(out, "trace: {} malformed lines, among them:", self.malformed())?;
            for example in self.examples() {
                writeln!(out, "  {example}")?;
            }
        }
        if self.passed_over() > 0 {
            writeln!(
                out,
                "trace: {} lines passed over (methods that are not replayed)",
                self.passed_over()
            )?;
        }
        Ok(())
    }
}
