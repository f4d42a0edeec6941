//! The live line: updated once a second, on a terminal.

use std::io::{self, IsTerminal, Write};

use crate::report::{Second, show};

/// Overwrites its own line on standard error, if that is a terminal.
pub(super) struct Live {
    shown: bool,
    used: bool,
}

impl Live {
    pub(super) fn new(quiet: bool) -> Live {
        Live { shown: !quiet && io::stderr().is_terminal(), used: false }
    }

    /// Shows the figures of a completed second.
    pub(super) fn second(&mut self, number: u64, second: &Second) {
        if !self.shown {
            return;
        }
        let time = |nanos: u64| show::time_ns(nanos as f64);
        let line = format!(
            "{:>4} s  {:>11}/s  {:>10}/s  p50 {:>8}  p99 {:>8}  max {:>8}  errors {}",
            number + 1,
            show::count(second.answers),
            show::bytes(second.received as f64),
            time(second.p50),
            time(second.p99),
            time(second.max),
            show::count(second.errors),
        );
        self.used = true;
        self.write(&format!("\r\x1b[K{line}"));
    }

    /// Removes the line before the report is printed.
    pub(super) fn end(&mut self) {
        if self.used {
            self.write("\r\x1b[K");
        }
    }

    /// A closed terminal does not end a run.
    fn write(&self, text: &str) {
        let mut to = io::stderr().lock();
        let _ = to.write_all(text.as_bytes()).and_then(|()| to.flush());
    }
}
