//! The access log.

mod record;

use std::{io, rc::Rc, sync::Arc};

pub use record::{Hierarchy, Record, ResultCode};

use crate::settings::AccessLogSettings;

/// The access log of the process.
#[derive(Debug)]
pub struct Logger {}

impl Logger {
    /// Opens the log and starts its writer thread.
    pub fn open(settings: &AccessLogSettings) -> io::Result<Arc<Logger>> {
        let _ = settings;
        Ok(Arc::new(Logger {}))
    }

    /// Opens the file anew.
    pub fn reopen(&self) {}

    /// A handle for one worker thread; call it inside the worker's `LocalSet`.
    pub fn worker(self: &Arc<Self>) -> WorkerLog {
        WorkerLog { _inner: Rc::new(()) }
    }

    /// Lines lost.
    pub fn dropped(&self) -> u64 {
        0
    }

    /// Writes what is left and ends the writer thread.
    pub fn close(&self) {}
}

/// The access log, as one worker thread sees it.
#[derive(Clone, Debug)]
pub struct WorkerLog {
    _inner: Rc<()>,
}

impl WorkerLog {
    /// Appends one line.
    pub fn record(&self, record: &Record<'_>) {
        let _ = record;
    }
}
