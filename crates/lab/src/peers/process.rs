//! One program that runs beside us, from its start to its end.

use std::{
    fs::{self, File},
    net::{SocketAddr, TcpStream},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use rustix::{
    process::{Signal, kill_process_group},
    thread::{sched_getaffinity, sched_setaffinity},
};

use super::{
    Error,
    living::Noted,
    tree::{self, Seen},
};
use crate::interrupt;

/// A program is asked to end, then made to. Databases that write what they hold may take this long.
const GRACE: Duration = Duration::from_secs(5);
/// Between two looks at a process or port. Nothing tells us when another program has begun to listen.
const LOOK: Duration = Duration::from_millis(20);
/// Of a program's output so much is shown when it fails: enough for its last complaint, not for a log.
const SHOWN: usize = 4000;

/// A program that runs beside us, with whatever it started, in a process group of its own; ended when this is dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    noted: Option<Noted>,
    log: PathBuf,
    ended: bool,
}

impl Process {
    /// Starts a program. Its output goes to `log`; `cpu`: the one processor it and what it starts may use.
    ///
    /// # Errors
    /// [`Error::Spawn`] when the program cannot be run, [`Error::Ours`] when the log cannot be written.
    pub fn spawn(name: &str, mut command: Command, log: &Path, cpu: Option<usize>) -> Result<Self, Error> {
        let output = File::create(log).map_err(Error::path(log))?;
        let errors = output.try_clone().map_err(Error::path(log))?;
        // A group of its own: the terminal's Ctrl-C reaches us alone, and we end what we started in order.
        command.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
        let spawned = match cpu {
            Some(cpu) => on_cpu(cpu, || Noted::spawn(&mut command)),
            None => Noted::spawn(&mut command),
        };
        let (child, noted) = spawned.map_err(|source| Error::Spawn { name: name.to_owned(), source })?;
        Ok(Self { name: name.to_owned(), child, noted: Some(noted), log: log.to_owned(), ended: false })
    }

    /// The first process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// All its processes that run now, the first one first.
    pub fn pids(&self) -> Vec<u32> {
        tree::tree(self.pid()).iter().map(|seen| seen.pid).collect()
    }

    /// Its threads, those of the processes it started among them.
    pub fn threads(&self) -> usize {
        self.pids().into_iter().map(|pid| tree::threads(pid).len()).sum()
    }

    /// Keeps all its threads on one processor. Returns how many there are.
    pub fn pin(&self, cpu: usize) -> usize {
        tree::pin(self.pid(), cpu)
    }

    /// Resident bytes, of the processes it started too.
    pub fn resident(&self) -> u64 {
        tree::resident(self.pid())
    }

    /// The end of what it printed.
    pub fn said(&self) -> String {
        let printed = fs::read(&self.log).unwrap_or_default();
        let from = printed.len().saturating_sub(SHOWN);
        String::from_utf8_lossy(&printed[from..]).trim().to_owned()
    }

    /// Fails if it has ended.
    ///
    /// # Errors
    /// [`Error::Ended`], with what it said.
    pub fn alive(&mut self) -> Result<(), Error> {
        let status = match self.child.try_wait() {
            Ok(None) => return Ok(()),
            Ok(Some(status)) => status.to_string(),
            Err(error) => error.to_string(),
        };
        Err(Error::Ended { name: self.name.clone(), status, said: self.said() })
    }

    /// Waits until it has ended by itself, and well: for programs that do one thing.
    ///
    /// # Errors
    /// [`Error::Ended`] when it ended otherwise, [`Error::Interrupted`].
    pub fn finish(mut self) -> Result<(), Error> {
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(None) if interrupt::asked() => return Err(Error::Interrupted),
                Ok(None) => sleep(LOOK),
                Ok(Some(_)) | Err(_) => self.alive()?,
            }
        }
    }

    /// Waits until something accepts connections at `address`.
    ///
    /// # Errors
    /// [`Error::Ended`] when the program ends before, [`Error::Silent`] when it takes longer than `limit`,
    /// [`Error::Interrupted`].
    pub fn wait_port(&mut self, address: SocketAddr, limit: Duration) -> Result<(), Error> {
        self.wait_until(address, limit, || TcpStream::connect_timeout(&address, limit).is_ok())
    }

    /// Waits until `ready` says so; `address` is for the message alone.
    ///
    /// # Errors
    /// As of [`Process::wait_port`].
    pub fn wait_until(
        &mut self,
        address: SocketAddr,
        limit: Duration,
        mut ready: impl FnMut() -> bool,
    ) -> Result<(), Error> {
        let began = Instant::now();
        while began.elapsed() < limit {
            self.alive()?;
            if interrupt::asked() {
                return Err(Error::Interrupted);
            }
            if ready() {
                return Ok(());
            }
            sleep(LOOK);
        }
        Err(Error::Silent { name: self.name.clone(), address, waited: limit, said: self.said() })
    }

    /// Asks it to end, and does not wait: for many at once, before they are dropped.
    pub fn ask_to_end(&self) {
        if let Some(first) = tree::tree(self.pid()).first() {
            first.signal(Signal::TERM);
        }
    }

    /// Ends it and all it started: asked first, then made to. Dropping does the same.
    pub fn end(&mut self) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        // Whoever leaves the group (daemons do) is still in the tree, as long as its parents live: so look first.
        let seen = tree::tree(self.pid());
        let asked = Instant::now();
        if let Some(first) = seen.first() {
            first.signal(Signal::TERM);
        }
        wait(asked, || !matches!(self.child.try_wait(), Ok(None)));
        // A shell ends without its children; a server has ended its own by now.
        seen.iter().for_each(|seen| seen.signal(Signal::TERM));
        wait(asked, || !self.any_left(&seen));
        if let (Some(group), Ok(None)) = (tree::pid(self.pid()), self.child.try_wait()) {
            let _gone = kill_process_group(group, Signal::KILL);
        }
        seen.iter().for_each(|seen| seen.signal(Signal::KILL));
        let _reaped = self.child.wait();
        self.noted = None;
        wait(Instant::now(), || !self.any_left(&seen));
    }

    fn any_left(&mut self, seen: &[Seen]) -> bool {
        // Also reaps it.
        matches!(self.child.try_wait(), Ok(None)) || seen.iter().any(|seen| seen.alive())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Looks again and again until it is done or the time of grace is over.
fn wait(began: Instant, mut done: impl FnMut() -> bool) {
    while !done() && began.elapsed() < GRACE {
        sleep(LOOK);
    }
}

/// What is started by a thread begins where the thread may run: so the child is on its processor from its first instruction.
fn on_cpu<T>(cpu: usize, work: impl FnOnce() -> T) -> T {
    let before = sched_getaffinity(None);
    // Where the processor may not be used the child runs where we do; `pin` says so by its count.
    let _unpinned = sched_setaffinity(None, &tree::only(cpu));
    let done = work();
    if let Ok(before) = before {
        let _stays = sched_setaffinity(None, &before);
    }
    done
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::{super::Scratch, *};

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn nowhere() -> SocketAddr {
        // Bound once and given back: nobody listens there.
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
    }

    #[test]
    fn one_that_ends_at_its_start_is_quoted() {
        let scratch = Scratch::new("process").unwrap();
        let log = scratch.path().join("log");
        let mut process = Process::spawn("it", shell("echo port in use >&2; exit 3"), &log, None).unwrap();
        let error = process.wait_port(nowhere(), Duration::from_secs(20)).unwrap_err().to_string();
        assert!(error.contains("it ended at its start"), "{error}");
        assert!(error.contains("exit status: 3"), "{error}");
        assert!(error.contains("port in use"), "{error}");
    }

    #[test]
    fn what_it_started_ends_with_it_even_if_it_does_not_listen_to_asking() {
        let scratch = Scratch::new("process").unwrap();
        // setsid: out of the process group, as daemons do.
        let script = "trap '' TERM; setsid sleep 600 & sleep 600 & echo ready; while :; do wait; done";
        let mut process = Process::spawn("it", shell(script), &scratch.path().join("log"), None).unwrap();
        process.wait_until(nowhere(), Duration::from_secs(20), || process_said(&scratch)).unwrap();
        let seen = tree::tree(process.pid());
        assert_eq!(seen.len(), 3);
        drop(process);
        assert!(seen.iter().all(|seen| !seen.alive()));
    }

    #[test]
    fn one_that_does_one_thing_must_do_it_well() {
        let scratch = Scratch::new("process").unwrap();
        let run =
            |script| Process::spawn("it", shell(script), &scratch.path().join("log"), None).unwrap().finish();
        run("exit 0").unwrap();
        let error = run("echo no such table; exit 1").unwrap_err().to_string();
        assert!(error.contains("exit status: 1") && error.contains("no such table"), "{error}");
    }

    fn process_said(scratch: &Scratch) -> bool {
        fs::read_to_string(scratch.path().join("log")).unwrap().contains("ready")
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let scratch = Scratch::new("process").unwrap();
        let nothing = Command::new("/nonexistent/program");
        let error = Process::spawn("it", nothing, &scratch.path().join("log"), None).unwrap_err();
        assert!(error.to_string().starts_with("it cannot be started: "), "{error}");
    }
}
