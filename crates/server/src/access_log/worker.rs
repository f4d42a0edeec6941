//! A worker's end of the access log: a buffer that is handed to the writer when it is full or old.

use std::{
    cell::{Cell, RefCell},
    rc::{Rc, Weak},
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{SyncSender, TrySendError},
    },
    time::Duration,
};

use tokio::sync::Notify;

use super::{
    Record, format,
    writer::{Batch, Message, Shared},
};
use crate::settings::LogFormat;

/// Size at which a batch is handed over: about a hundred lines share the cost of waking the writer
/// and of its system call.
const BATCH_BYTES: usize = 16 * 1024;

/// Room for the line that makes a batch large enough; longer ones make the buffer grow.
const SPARE_BYTES: usize = 4 * 1024;

/// Age at which a batch is handed over, so that a reader of the log sees a request soon.
const BATCH_AGE: Duration = Duration::from_millis(200);

/// A handle to the access log for one worker thread. Its lines are handed over when the last clone
/// is dropped.
#[derive(Clone, Debug)]
pub struct WorkerLog {
    lines: Rc<Lines>,
}

#[derive(Debug)]
struct Lines {
    format: Cell<LogFormat>,
    batch: RefCell<Batch>,
    queue: SyncSender<Message>,
    shared: Arc<Shared>,
    /// Notified when a batch begins.
    begun: Rc<Notify>,
}

impl WorkerLog {
    pub(super) fn new(
        format: LogFormat,
        queue: SyncSender<Message>,
        shared: Arc<Shared>,
    ) -> WorkerLog {
        let begun = Rc::new(Notify::new());
        let lines = Rc::new(Lines {
            format: Cell::new(format),
            batch: RefCell::new(empty()),
            queue,
            shared,
            begun: begun.clone(),
        });
        tokio::task::spawn_local(hand_over_in_time(Rc::downgrade(&lines), begun));
        WorkerLog { lines }
    }

    /// Uses this format for further lines.
    pub(crate) fn set_format(&self, format: LogFormat) {
        if self.lines.format.replace(format) != format {
            self.lines.hand_over();
        }
    }

    /// Appends one line. Never waits: if the writer cannot keep up, lines are dropped and counted.
    pub fn record(&self, record: &Record<'_>) {
        let lines = &*self.lines;
        let mut batch = lines.batch.borrow_mut();
        if batch.lines == 0 {
            lines.begun.notify_one();
        }
        format::line(&mut batch.bytes, lines.format.get(), record);
        batch.lines += 1;
        let full = batch.bytes.len() >= BATCH_BYTES;
        drop(batch);
        if full {
            lines.hand_over();
        }
    }
}

impl Lines {
    fn hand_over(&self) {
        let mut batch = self.batch.borrow_mut();
        if batch.lines == 0 {
            return;
        }
        let full = std::mem::replace(&mut *batch, empty());
        self.shared.lines.fetch_add(full.lines, Ordering::Relaxed);
        match self.queue.try_send(Message::Batch(full)) {
            Ok(()) => {}
            Err(TrySendError::Full(message) | TrySendError::Disconnected(message)) => {
                if let Message::Batch(lost) = message {
                    self.shared.drop_lines(lost.lines);
                }
            }
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.hand_over();
        self.begun.notify_one();
    }
}

fn empty() -> Batch {
    Batch { bytes: Vec::with_capacity(BATCH_BYTES + SPARE_BYTES), lines: 0 }
}

/// One task per worker, not one per batch; ends with the worker's log.
async fn hand_over_in_time(lines: Weak<Lines>, begun: Rc<Notify>) {
    loop {
        begun.notified().await;
        if lines.strong_count() == 0 {
            return;
        }
        tokio::time::sleep(BATCH_AGE).await;
        match lines.upgrade() {
            Some(lines) => lines.hand_over(),
            None => return,
        }
    }
}
