//! Recorded traces, replayed in their order.
//!
//! A trace is streamed, never held: each thread reads the whole file for itself and asks what is on its own lines, thread t of T on
//! the lines t + 1, t + T + 1, ... So no thread waits for another, and what a thread asks depends on the trace alone; the price
//! is that the file is read (and decompressed) once by each thread. Set aside: one reader that hands out lines (a queue and a wakeup
//! between it and every request), and parts of the file by offset (impossible in a compressed file, and the order would be gone).

mod fields;
mod format;
pub(crate) mod lines;
mod replay;
#[cfg(test)]
mod tests;
mod troubles;

use std::{
    io,
    path::{Path, PathBuf},
};

pub use format::Format;
use format::{Entry, Found};
use lines::{Line, Lines};
pub(crate) use replay::{Overrides, Replay};
pub use troubles::Troubles;

/// Lines read to find out what a trace is: enough to get over a heading and some damage.
const PROBED_LINES: u64 = 100;

/// A file of recorded requests.
#[derive(Debug)]
pub struct Trace {
    path: PathBuf,
    format: Format,
    targets: bool,
    repeat: bool,
    /// The time of its first request, in nanoseconds since whenever the trace counts from.
    origin: Option<u64>,
    troubles: Troubles,
}

impl Trace {
    /// Opens a trace and looks at its first lines. Without a format it is the one that its first good line is in.
    pub fn open(path: &Path, format: Option<Format>) -> Result<Trace, String> {
        let named = |why: String| format!("trace {}: {why}", path.display());
        let unread = |error: io::Error| named(format!("cannot be read: {error}"));
        let mut lines = Lines::open(path).map_err(unread)?;
        let mut entry = Entry::default();
        while let Some(line) = lines.next(|_| true).map_err(unread)? {
            let Line::Text(number, text) = line else { continue };
            if number > PROBED_LINES {
                break;
            }
            let candidates = format.as_ref().map_or(Format::KNOWN, std::slice::from_ref);
            for format in candidates {
                if format.read(text, number, &mut entry) == Found::Request {
                    let (format, origin) = (*format, entry.time);
                    let (path, troubles) = (path.to_owned(), Troubles::default());
                    return Ok(Trace { path, format, targets: false, repeat: false, origin, troubles });
                }
            }
        }
        let what =
            format.map_or("any format known".to_owned(), |format| format!("the format {}", format.name()));
        Err(named(format!("no request in {what} in its first {PROBED_LINES} lines (see --trace-format)")))
    }

    /// Whether keys are to be HTTP targets: of a URL, what follows the host; other keys get a `/` before them.
    #[must_use]
    pub fn targets(self, targets: bool) -> Trace {
        Trace { targets, ..self }
    }

    /// Whether to begin again at the end. The file is then read (and decompressed) anew by each thread, from the page cache if it fits there.
    #[must_use]
    pub fn repeated(self, repeat: bool) -> Trace {
        Trace { repeat, ..self }
    }

    /// Whether its requests have times.
    pub fn is_timed(&self) -> bool {
        self.origin.is_some()
    }

    /// What was in it that is no request, as far as it was read.
    pub fn troubles(&self) -> &Troubles {
        &self.troubles
    }

    pub(crate) fn describe(&self) -> String {
        let again = if self.repeat { ", again and again" } else { "" };
        format!("{} ({}){again}", self.path.display(), self.format.name())
    }
}
