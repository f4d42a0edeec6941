//! Lines that processes print, on their way to standard error: with the name of the application and
//! the number of the process, of bounded length, and not more than [`LINES`] a second.

use std::{
    cell::Cell,
    os::fd::OwnedFd,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use larder_server::app::Apps;
use tokio::{io::AsyncReadExt, net::unix::pipe::Receiver};

/// Longest line, in bytes; the rest of a longer one is a line of its own.
const LINE_BYTES: usize = 2048;

/// Lines of one application in each second; others are counted.
const LINES: u32 = 100;

const SECOND: Duration = Duration::from_secs(1);

/// The lines of all processes of an application.
pub(super) struct Output {
    name: String,
    state: Arc<Apps>,
    /// The begin of a second, and the lines printed in it.
    printed: Cell<(Instant, u32)>,
    dropped: Cell<u64>,
}

impl Output {
    pub(super) fn new(name: &str, state: Arc<Apps>) -> Rc<Output> {
        let printed = Cell::new((Instant::now(), 0));
        Rc::new(Output { name: name.to_owned(), state, printed, dropped: Cell::new(0) })
    }

    fn line(&self, pid: u32, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        // Control characters could drive a terminal.
        let text: String = text.chars().filter(|c| *c == '\t' || !c.is_control()).collect();
        let text = text.trim_end();
        if text.is_empty() {
            return;
        }
        let (began, lines) = self.printed.get();
        let now = Instant::now();
        if now.duration_since(began) >= SECOND {
            self.printed.set((now, 1));
            self.tell_dropped();
        } else if lines < LINES {
            self.printed.set((began, lines + 1));
        } else {
            self.dropped.set(self.dropped.get() + 1);
            self.state.note(&self.name, |state| state.lines_dropped += 1);
            return;
        }
        eprintln!("larder: app {}[{pid}]: {text}", self.name);
    }

    fn tell_dropped(&self) {
        match self.dropped.take() {
            0 => {}
            count => eprintln!("larder: app {}: {count} more lines were left out", self.name),
        }
    }
}

/// Reads the lines of a process until nobody can write any more.
pub(super) fn follow(pipe: OwnedFd, pid: u32, output: Rc<Output>) {
    // A failure leaves the pipe closed: the process is told when it writes.
    let Ok(mut pipe) = Receiver::from_owned_fd(pipe) else { return };
    tokio::task::spawn_local(async move {
        let mut line = Vec::new();
        let mut buffer = [0; LINE_BYTES];
        while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
            for &byte in &buffer[..read] {
                if byte == b'\n' || line.len() >= LINE_BYTES {
                    output.line(pid, &line);
                    line.clear();
                }
                if byte != b'\n' {
                    line.push(byte);
                }
            }
        }
        output.line(pid, &line);
        output.tell_dropped();
    });
}
