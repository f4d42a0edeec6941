//! The program under test, as a child process.

use crate::printed::Printed;
use crate::process::Usage;
use crate::scratch::Scratch;
use crate::started;
use crate::wait::{PATIENCE, wait_for, wait_until};
use crate::wire::Wire;
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

/// What it prints once it accepts connections.
const LISTENING: &str = "larder: listening on http://";
/// The last line that every start prints, unless the configuration has `NO_CONTROL`.
const CONTROL: &str = "larder: control at unix:";
const NO_CONTROL: &str = "control = \"none\"";

/// A running `larder serve`. Killed when dropped.
pub struct Larder {
    child: Child,
    addr: SocketAddr,
    stderr: Printed,
    scratch: Scratch,
}

/// The binary: `LARDER_BIN`, else the one beside this test in the target directory.
#[track_caller]
pub fn binary() -> PathBuf {
    let path = match std::env::var_os("LARDER_BIN") {
        Some(path) => PathBuf::from(path),
        // target/PROFILE/deps/test-HASH -> target/PROFILE/larder
        None => {
            std::env::current_exe().unwrap().parent().and_then(Path::parent).unwrap().join("larder")
        }
    };
    assert!(
        path.is_file(),
        "the larder binary is missing at {}: run `cargo build -p larder -p larder-lab` first, or \
         set LARDER_BIN",
        path.display()
    );
    path
}

/// Runs the binary to its end; gives exit status, standard output and standard error.
#[track_caller]
pub fn run(args: &[&str]) -> (ExitStatus, String, String) {
    finish(Command::new(binary()).args(args))
}

/// The same with this runtime directory, in which it looks for control sockets.
#[track_caller]
pub fn command_in(directory: &Path, args: &[&str]) -> (ExitStatus, String, String) {
    finish(Command::new(binary()).args(args).env("RUNTIME_DIRECTORY", directory))
}

#[track_caller]
fn finish(command: &mut Command) -> (ExitStatus, String, String) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status, text(&output.stdout), text(&output.stderr))
}

impl Larder {
    /// `serve --http 127.0.0.1:0 --origin URL --threads 2`: the main job with sane defaults.
    #[track_caller]
    pub fn before(origin_url: &str) -> Larder {
        Larder::serve(&["--http", "127.0.0.1:0", "--threads", "2", "--origin", origin_url])
    }

    /// `serve` with these arguments.
    #[track_caller]
    pub fn serve<S: AsRef<OsStr>>(args: &[S]) -> Larder {
        Larder::spawn(args, &[], Scratch::new("run"))
    }

    /// `serve --config` with this text. `@DIR@` in it becomes a directory of its own; two threads,
    /// any port and 64 MiB of memory are given unless the text sets them.
    #[track_caller]
    pub fn with_config(text: &str) -> Larder {
        Larder::with_environment(text, &[])
    }

    /// The same with these variables in its environment.
    #[track_caller]
    pub fn with_environment(text: &str, variables: &[(&str, &OsStr)]) -> Larder {
        let scratch = Scratch::new("config");
        let path = scratch.write("larder.toml", &complete(text, scratch.path()));
        Larder::spawn(&["--config".as_ref(), path.as_os_str()], variables, scratch)
    }

    /// One site before this origin, with further lines for its `[[site]]` table and what follows
    /// it.
    #[track_caller]
    pub fn site(origin_url: &str, lines: &str) -> Larder {
        Larder::with_config(&format!("[[site]]\norigin = \"{origin_url}\"\n{lines}\n"))
    }

    /// One site with these lines in its table `[site.origin]`.
    #[track_caller]
    pub fn site_with_origin(lines: &str) -> Larder {
        Larder::with_config(&format!("[[site]]\n[site.origin]\n{lines}"))
    }

    #[track_caller]
    fn spawn<S: AsRef<OsStr>>(
        args: &[S],
        variables: &[(&str, &OsStr)],
        scratch: Scratch,
    ) -> Larder {
        let (stderr, printed) = Printed::new(&scratch);
        let mut child = Command::new(binary())
            .arg("serve")
            .args(args)
            .envs(variables.iter().copied())
            .current_dir(scratch.path())
            .env("RUNTIME_DIRECTORY", scratch.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(printed)
            .spawn()
            .unwrap();
        let started = Instant::now();
        let config = std::fs::read_to_string(scratch.file("larder.toml")).unwrap_or_default();
        let last = if config.contains(NO_CONTROL) { LISTENING } else { CONTROL };
        let addr = loop {
            let printed = stderr.text();
            if let Some(addr) =
                printed.lines().find_map(listening).filter(|_| printed.contains(last))
            {
                break addr;
            }
            let exited = child.try_wait().unwrap();
            assert!(exited.is_none(), "larder ended at once ({exited:?}):\n{printed}");
            assert!(
                started.elapsed() < PATIENCE,
                "larder does not say where it listens:\n{printed}"
            );
            std::thread::sleep(std::time::Duration::from_millis(2));
        };
        Larder { child, addr, stderr, scratch }
    }

    /// A command of the binary that finds this Larder by its control socket, and no other; runs it
    /// to its end.
    #[track_caller]
    pub fn command(&self, args: &[&str]) -> (ExitStatus, String, String) {
        command_in(self.scratch.path(), args)
    }

    /// Where it serves HTTP.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where another of its faces listens on TCP: `memcached`, `redis`.
    #[track_caller]
    pub fn face(&self, name: &str) -> SocketAddr {
        let begin = format!("larder: listening on {name}://");
        wait_for("the face to say where it listens", || {
            self.stderr().lines().find_map(|line| line.strip_prefix(&begin)?.parse().ok())
        })
    }

    /// A new connection to it.
    #[track_caller]
    pub fn connect(&self) -> Wire {
        Wire::connect(self.addr)
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it costs so far.
    #[track_caller]
    pub fn usage(&self) -> Usage {
        Usage::of(self.pid()).expect("larder is not running any more")
    }

    /// What it has printed so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Its directory: where `@DIR@` points, and where it runs.
    pub fn dir(&self) -> &Path {
        self.scratch.path()
    }

    /// Replaces its configuration file; SIGHUP makes it read it.
    pub fn rewrite_config(&self, text: &str) {
        self.scratch.write("larder.toml", &complete(text, self.scratch.path()));
    }

    /// Asks it to read its configuration again and to reopen its logs.
    pub fn hup(&self) {
        self.signal(rustix::process::Signal::HUP);
    }

    /// The same; the new configuration is in use when this returns.
    #[track_caller]
    pub fn hup_and_wait(&self) {
        let reloads = || self.stderr().matches("larder: configuration reloaded").count();
        let before = reloads();
        self.hup();
        wait_until("the configuration to be read again", || reloads() > before);
    }

    /// Asks it to print its counters.
    pub fn usr1(&self) {
        self.signal(rustix::process::Signal::USR1);
    }

    /// Asks it to end: answer what is under way, take nothing new.
    pub fn term(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Waits until it has ended by itself.
    #[track_caller]
    pub fn wait_exit(&mut self) -> ExitStatus {
        started::wait_exit(&mut self.child)
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    fn signal(&self, signal: rustix::process::Signal) {
        started::signal(&self.child, signal);
    }
}

impl Drop for Larder {
    fn drop(&mut self) {
        started::end(&mut self.child);
        started::tell(&self.stderr());
    }
}

fn listening(line: &str) -> Option<SocketAddr> {
    line.strip_prefix(LISTENING)?
        .split_ascii_whitespace()
        .next()?
        .trim_end_matches('/')
        .parse()
        .ok()
}

/// Top-level keys must come before the first table, so defaults are put in front.
fn complete(text: &str, dir: &Path) -> String {
    let has = |key: &str| {
        text.lines().any(|line| line.split('=').next().is_some_and(|name| name.trim() == key))
    };
    let mut full = String::new();
    for (key, value) in [("threads", "2"), ("memory", "\"64MiB\"")] {
        if !has(key) {
            full.push_str(&format!("{key} = {value}\n"));
        }
    }
    let listen = "listen = [\"127.0.0.1:0\"]\n";
    if has("listen") {
        full.push_str(text);
    } else if text.contains("[http]\n") {
        full.push_str(&text.replace("[http]\n", &format!("[http]\n{listen}")));
    } else {
        full.push_str(&format!("{text}\n[http]\n{listen}"));
    }
    full.replace("@DIR@", &dir.to_string_lossy())
}
