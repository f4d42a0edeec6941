//! A server that runs as a child process, Larder or one it is compared with.

use crate::helper::free_port;
use crate::listening;
use crate::process::Usage;
use crate::scratch::Scratch;
use crate::wait::wait_until;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// The most of what a server printed that a failed test shows, bytes.
const SHOWN: usize = 16 * 1024;

/// A running server with a directory and a port of its own. Killed when dropped.
pub struct Started {
    child: Child,
    port: u16,
    scratch: Scratch,
}

impl Started {
    /// Starts what `command` gives for its own directory and its port, and waits until it listens:
    /// on the port, or on the socket whose path is given beside the command.
    #[track_caller]
    pub fn start(command: impl FnOnce(&Path, u16) -> (Command, Option<PathBuf>)) -> Started {
        Started::start_at(free_port(), command)
    }

    /// The same on a port of the test's choice: to begin again where another has ended.
    #[track_caller]
    pub fn start_at(
        port: u16,
        command: impl FnOnce(&Path, u16) -> (Command, Option<PathBuf>),
    ) -> Started {
        let scratch = Scratch::new("server");
        let (mut command, unix) = command(scratch.path(), port);
        let printed = File::create(scratch.file("printed")).unwrap();
        let child = run(command
            .current_dir(scratch.path())
            .stdin(Stdio::null())
            .stdout(printed.try_clone().unwrap())
            .stderr(printed));
        let mut server = Started { child, port, scratch };
        wait_until("the server to listen", || {
            let exited = server.exited();
            assert!(
                exited.is_none(),
                "{command:?} ended at once ({exited:?}):\n{}",
                server.printed()
            );
            match &unix {
                Some(path) => listening::path(path),
                None => listening::port(port),
            }
        });
        server
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its own directory.
    pub fn dir(&self) -> &Path {
        self.scratch.path()
    }

    /// What it has printed.
    pub fn printed(&self) -> String {
        let printed = std::fs::read(self.scratch.file("printed")).unwrap_or_default();
        String::from_utf8_lossy(&printed).into_owned()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it costs so far.
    #[track_caller]
    pub fn usage(&self) -> Usage {
        Usage::of(self.pid()).expect("the server is not running any more")
    }

    /// Asks it to end.
    pub fn term(&self) {
        signal(&self.child, rustix::process::Signal::TERM);
    }

    /// How it ended, if it has.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits until it has ended by itself.
    #[track_caller]
    pub fn wait_exit(&mut self) -> ExitStatus {
        wait_exit(&mut self.child)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        end(&mut self.child);
        tell(&self.printed());
    }
}

/// Starts a process that the tests' packages give.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> Child {
    command.spawn().unwrap_or_else(|e| {
        panic!("{command:?} does not start: {e}; scripts/test-deps.sh installs what tests need")
    })
}

pub(crate) fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

#[track_caller]
pub(crate) fn wait_exit(child: &mut Child) -> ExitStatus {
    wait_until("the server to end", || child.try_wait().unwrap().is_some());
    child.wait().unwrap()
}

/// Ends a server with its test.
pub(crate) fn end(child: &mut Child) {
    // It may have ended already.
    let _ = child.kill();
    let _ = child.wait();
}

/// What an ended server printed is shown with a failed test, and a panic of its own fails one.
pub(crate) fn tell(printed: &str) {
    if std::thread::panicking() {
        let tail = &printed.as_bytes()[printed.len().saturating_sub(SHOWN)..];
        eprintln!("--- the server printed:\n{}---", String::from_utf8_lossy(tail));
    } else {
        assert!(!printed.contains("panicked at"), "the server panicked:\n{printed}");
    }
}
