//! Replay of recorded traces, in order.
//!
//! Traces are streamed: each thread reads the whole file and uses only its own lines, thread t of T
//! the lines t + 1, t + T + 1, ... So threads do not wait for each other, and a thread's requests
//! depend on the trace alone; the price is that each thread reads (and decompresses) the file.
//! Rejected: one reader that distributes lines (a queue and a wakeup per request), and parts of the
//! file by offset (impossible in a compressed file, and it loses the order).

mod fields;
mod format;
pub(crate) mod lines;
mod replay;
mod skipped;
#[cfg(test)]
mod tests;

use std::{
    io,
    path::{Path, PathBuf},
};

pub use format::Format;
use format::{LineResult, TraceRecord};
use lines::{Line, Lines};
pub(crate) use replay::{Overrides, Replay};
pub use skipped::SkippedLines;

/// Lines read to detect the format: enough to get past a heading and some damaged lines.
const PROBED_LINES: u64 = 100;

/// A file of recorded requests.
#[derive(Debug)]
pub struct Trace {
    path: PathBuf,
    format: Format,
    targets: bool,
    repeat: bool,
    /// Time of the first request, in nanoseconds since the trace's own origin.
    origin: Option<u64>,
    skipped: SkippedLines,
}

impl Trace {
    /// Opens a trace and reads its first lines. Without `format` it is detected from the first
    /// valid line.
    pub fn open(path: &Path, format: Option<Format>) -> Result<Trace, String> {
        let named = |why: String| format!("trace {}: {why}", path.display());
        let unread = |error: io::Error| named(format!("cannot be read: {error}"));
        let mut lines = Lines::open(path).map_err(unread)?;
        let mut record = TraceRecord::default();
        while let Some(line) = lines.next(|_| true).map_err(unread)? {
            let Line::Text(number, text) = line else { continue };
            if number > PROBED_LINES {
                break;
            }
            let candidates = format.as_ref().map_or(Format::KNOWN, std::slice::from_ref);
            for format in candidates {
                if format.read(text, number, &mut record) == LineResult::Request {
                    let (format, origin) = (*format, record.time);
                    let (path, skipped) = (path.to_owned(), SkippedLines::default());
                    return Ok(Trace {
                        path,
                        format,
                        targets: false,
                        repeat: false,
                        origin,
                        skipped,
                    });
                }
            }
        }
        let what = format.map_or("any format known".to_owned(), |format| {
            format!("the format {}", format.name())
        });
        Err(named(format!(
            "no request in {what} in its first {PROBED_LINES} lines (see --trace-format)"
        )))
    }

    /// Whether keys become HTTP targets: of a URL the part after the host; other keys are prefixed
    /// with `/`.
    #[must_use]
    pub fn targets(self, targets: bool) -> Trace {
        Trace { targets, ..self }
    }

    /// Whether to start again at the end. Each thread then reads (and decompresses) the file again,
    /// from the page cache if it fits.
    #[must_use]
    pub fn repeated(self, repeat: bool) -> Trace {
        Trace { repeat, ..self }
    }

    /// Whether its requests have times.
    pub fn is_timed(&self) -> bool {
        self.origin.is_some()
    }

    /// Lines that were not requests, as far as it was read.
    pub fn skipped(&self) -> &SkippedLines {
        &self.skipped
    }

    pub(crate) fn describe(&self) -> String {
        let again = if self.repeat { ", again and again" } else { "" };
        format!("{} ({}){again}", self.path.display(), self.format.name())
    }
}
