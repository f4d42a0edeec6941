//! The access log.
//!
//! A request costs the worker the formatting of a line into a buffer it owns, and nothing else: no
//! system call, no lock, no allocation. Buffers go through a bounded queue to one thread that
//! writes them. If the disk stalls, the queue fills, and lines are dropped and counted: an answer
//! never waits for its log line.
//!
//! Rejected: a lock around one shared buffer (a preempted holder stops every worker), and a file
//! per worker (no tool reads that). Lines of different workers are therefore in order within a
//! batch only, as with every other server that has several workers and buffers its log.

mod format;
pub(crate) mod live;
mod record;
#[cfg(test)]
mod tests;
mod text;
mod worker;
mod writer;

use std::{
    io,
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel},
    },
    thread,
    time::Duration,
};

use larder_metrics::LogFigures;
use parking_lot::Mutex;

pub use record::{Hierarchy, Record, ResultCode, Tls};
pub use worker::WorkerLog;

use self::writer::{Message, Shared, Sink, Writer};
use crate::settings::{AccessLogSettings, LogFormat};

/// Batches that may wait for the writer, of all workers together: 1 MiB of lines.
const QUEUE_BATCHES: usize = 64;

/// Time that the end of the process waits for a stalled writer.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// The access log of the process: the queue and its writer thread.
#[derive(Debug)]
pub struct Logger {
    format: LogFormat,
    queue: SyncSender<Message>,
    shared: Arc<Shared>,
    /// Disconnected when the writer has ended; taken by the thread that waits for that.
    ended: Mutex<Option<Receiver<()>>>,
}

impl Logger {
    /// Opens the log and starts its writer thread. Errors are those of opening the file, which must
    /// be a regular file or a character device, and of starting a thread.
    pub fn open(settings: &AccessLogSettings) -> io::Result<Arc<Logger>> {
        Logger::start(settings.format, Sink::open(&settings.path)?)
    }

    fn start(format: LogFormat, sink: Sink) -> io::Result<Arc<Logger>> {
        let shared = Arc::new(Shared::default());
        let (queue, batches) = sync_channel(QUEUE_BATCHES);
        let writer = Writer { queue: batches, sink, shared: shared.clone(), failing: false };
        let (alive, ended) = channel::<()>();
        thread::Builder::new().name("access-log".to_owned()).spawn(move || {
            writer.run();
            drop(alive);
        })?;
        Ok(Arc::new(Logger { format, queue, shared, ended: Mutex::new(Some(ended)) }))
    }

    /// Opens the file anew, under the same name (after the old one was renamed), for SIGHUP.
    /// Returns at once; if the file cannot be opened, the old one stays in use.
    pub fn reopen(&self) {
        self.shared.reopen.store(true, Ordering::Release);
        // A full queue means a busy writer, which checks the flag anyway.
        let _ = self.queue.try_send(Message::Nudge);
    }

    /// Writes to another file from now on; the workers' formats are theirs
    /// ([`WorkerLog::set_format`]). An error is that of opening the file, and nothing changes then.
    pub(crate) fn change(&self, settings: &AccessLogSettings) -> io::Result<()> {
        *self.shared.next.lock() = Some(Sink::open(&settings.path)?);
        self.reopen();
        Ok(())
    }

    /// A handle for one worker thread. Call it inside the worker's `LocalSet`: it starts a task
    /// there.
    pub fn worker(&self) -> WorkerLog {
        WorkerLog::new(self.format, self.queue.clone(), self.shared.clone())
    }

    /// Lines handed to the writer since the start, and the lost ones among them.
    pub fn figures(&self) -> LogFigures {
        let Shared { lines, dropped, .. } = &*self.shared;
        LogFigures {
            lines: lines.load(Ordering::Relaxed),
            dropped: dropped.load(Ordering::Relaxed),
        }
    }

    /// Writes all lines and ends the writer thread; waits at most 5 seconds for it. The workers
    /// have to have ended before: later lines are dropped and counted.
    pub fn close(&self) {
        self.shared.closing.store(true, Ordering::Release);
        let _ = self.queue.try_send(Message::Nudge);
        let Some(ended) = self.ended.lock().take() else { return };
        if ended.recv_timeout(CLOSE_WAIT) == Err(RecvTimeoutError::Timeout) {
            eprintln!("larder: the access log stands still, lines are lost");
        }
    }
}
