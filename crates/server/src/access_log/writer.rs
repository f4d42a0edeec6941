//! The thread that writes the access log, and the only one that waits for the disk.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::Receiver,
    },
};

use parking_lot::Mutex;
use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::Errno,
};

/// Lines that are written by one call.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) bytes: Vec<u8>,
    pub(super) lines: u64,
}

/// Messages to the writer.
#[derive(Debug)]
pub(super) enum Message {
    Batch(Batch),
    /// A flag changed.
    Nudge,
}

/// State shared by the writer and its senders. The flags are not messages, because a full queue
/// cannot take one.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) reopen: AtomicBool,
    /// The destination from the next opening on, if it is another one.
    pub(super) next: Mutex<Option<Sink>>,
    pub(super) closing: AtomicBool,
    pub(super) dropped: AtomicU64,
    /// Lines handed over by workers, dropped ones included.
    pub(super) lines: AtomicU64,
}

impl Shared {
    pub(super) fn drop_lines(&self, lines: u64) {
        self.dropped.fetch_add(lines, Ordering::Relaxed);
    }
}

/// The destination of lines.
#[derive(Debug)]
pub(super) enum Sink {
    Stdout,
    File { path: PathBuf, file: File },
}

impl Sink {
    /// `-` is standard output; a file is appended to, and created readable for its owner and group
    /// only, as it contains URLs and addresses.
    pub(super) fn open(path: &Path) -> io::Result<Sink> {
        if path == Path::new("-") {
            return Ok(Sink::Stdout);
        }
        Ok(Sink::File { path: path.to_owned(), file: open_file(path)? })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Sink::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(bytes)?;
                stdout.flush()
            }
            Sink::File { file, .. } => file.write_all(bytes),
        }
    }

    /// Opens the file anew. The old file stays in use if the new one cannot be opened.
    fn reopen(&mut self) -> io::Result<()> {
        if let Sink::File { path, file } = self {
            *file = open_file(path)?;
        }
        Ok(())
    }
}

/// Opens a regular file or a character device (`/dev/null`, a terminal) and nothing else: a FIFO
/// without a reader would block the start, and one with a slow reader would block the writer and
/// the end of the process. NONBLOCK is for opening. It has no effect on writes to these kinds,
/// except to a terminal, so it is cleared.
fn open_file(path: &Path) -> io::Result<File> {
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o640)
        .custom_flags(nonblocking)
        .open(path);
    let file = opened.map_err(|error| match Errno::from_io_error(&error) {
        // A FIFO without a reader, or a socket.
        Some(Errno::NXIO) => not_a_log(),
        _ => error,
    })?;
    let kind = file.metadata()?.file_type();
    if !kind.is_file() && !kind.is_char_device() {
        return Err(not_a_log());
    }
    let flags = fcntl_getfl(&file)?;
    fcntl_setfl(&file, flags.difference(OFlags::NONBLOCK))?;
    Ok(file)
}

fn not_a_log() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "it is neither a file nor a character device; standard output is `-`",
    )
}

/// The writer thread.
pub(super) struct Writer {
    pub(super) queue: Receiver<Message>,
    pub(super) sink: Sink,
    pub(super) shared: Arc<Shared>,
    /// The last write failed; it is reported once, not for every batch.
    pub(super) failing: bool,
}

impl Writer {
    /// Writes until the log is closed or all senders are gone.
    pub(super) fn run(mut self) {
        while let Ok(message) = self.queue.recv() {
            self.take(message);
            if self.shared.closing.load(Ordering::Acquire) {
                while let Ok(message) = self.queue.try_recv() {
                    self.take(message);
                }
                return;
            }
        }
    }

    fn take(&mut self, message: Message) {
        if self.shared.reopen.swap(false, Ordering::AcqRel) {
            let next = self.shared.next.lock().take();
            if let Some(next) = next {
                self.sink = next;
            } else if let Err(error) = self.sink.reopen() {
                eprintln!(
                    "larder: the access log cannot be opened again, the old file is used: {error}"
                );
            }
        }
        let Message::Batch(batch) = message else { return };
        match self.sink.write(&batch.bytes) {
            Ok(()) => self.failing = false,
            Err(error) => {
                self.shared.drop_lines(batch.lines);
                if !std::mem::replace(&mut self.failing, true) {
                    eprintln!("larder: the access log cannot be written, lines are lost: {error}");
                }
            }
        }
    }
}
