//! A child process, from start to end.

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
    cleanup::ProcessGuard,
    tree::{self, ProcessIdentity},
};
use crate::interrupt;

/// Time between SIGTERM and SIGKILL. Databases that write their data may need it.
const GRACE: Duration = Duration::from_secs(5);
/// Polling interval for processes and ports.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Bytes of a program's output shown when it fails: enough for its last error.
const SHOWN: usize = 4000;

/// A child process and its descendants, in its own process group; ended when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    noted: Option<ProcessGuard>,
    log: PathBuf,
    ended: bool,
}

impl Process {
    /// Starts a program. Its output goes to `log`; `cpu`: the only processor it and its children
    /// may use.
    ///
    /// # Errors
    /// [`Error::Spawn`] if the program cannot be run, [`Error::Ours`] if the log cannot be written.
    pub fn spawn(
        name: &str,
        mut command: Command,
        log: &Path,
        cpu: Option<usize>,
    ) -> Result<Self, Error> {
        let output = File::create(log).map_err(Error::path(log))?;
        let errors = output.try_clone().map_err(Error::path(log))?;
        // Its own group: the terminal's Ctrl-C reaches only this process, which ends its children
        // in order.
        command.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
        let spawned = match cpu {
            Some(cpu) => on_cpu(cpu, || ProcessGuard::spawn(&mut command)),
            None => ProcessGuard::spawn(&mut command),
        };
        let (child, noted) =
            spawned.map_err(|source| Error::Spawn { name: name.to_owned(), source })?;
        Ok(Self {
            name: name.to_owned(),
            child,
            noted: Some(noted),
            log: log.to_owned(),
            ended: false,
        })
    }

    /// Id of the first process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ids of all its running processes, the first process first.
    pub fn pids(&self) -> Vec<u32> {
        tree::tree(self.pid()).iter().map(|seen| seen.pid).collect()
    }

    /// Number of threads of all its processes.
    pub fn threads(&self) -> usize {
        self.pids().into_iter().map(|pid| tree::tasks(pid).count()).sum()
    }

    /// Pins all its threads to one processor. Returns their number.
    pub fn pin(&self, cpu: usize) -> usize {
        tree::pin(self.pid(), cpu)
    }

    /// Resident memory of all its processes in bytes.
    pub fn resident(&self) -> u64 {
        tree::resident(self.pid())
    }

    /// The end of its output.
    pub fn said(&self) -> String {
        let printed = fs::read(&self.log).unwrap_or_default();
        let from = printed.len().saturating_sub(SHOWN);
        String::from_utf8_lossy(&printed[from..]).trim().to_owned()
    }

    /// Fails if it has ended.
    ///
    /// # Errors
    /// [`Error::Ended`], with its output.
    pub fn alive(&mut self) -> Result<(), Error> {
        let status = match self.child.try_wait() {
            Ok(None) => return Ok(()),
            Ok(Some(status)) => status.to_string(),
            Err(error) => error.to_string(),
        };
        Err(Error::Ended { name: self.name.clone(), status, said: self.said() })
    }

    /// Waits for a successful end, for programs that do one thing.
    ///
    /// # Errors
    /// [`Error::Ended`] if it failed, [`Error::Interrupted`].
    pub fn finish(mut self) -> Result<(), Error> {
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(None) if interrupt::requested() => return Err(Error::Interrupted),
                Ok(None) => sleep(POLL_INTERVAL),
                Ok(Some(_)) | Err(_) => self.alive()?,
            }
        }
    }

    /// Waits until `address` accepts connections.
    ///
    /// # Errors
    /// [`Error::Ended`] if the program ends first, [`Error::Silent`] after `limit`,
    /// [`Error::Interrupted`].
    pub fn wait_port(&mut self, address: SocketAddr, limit: Duration) -> Result<(), Error> {
        self.wait_until(address, limit, || TcpStream::connect_timeout(&address, limit).is_ok())
    }

    /// Waits until `ready` returns true; `address` is for the message only.
    ///
    /// # Errors
    /// As for [`Process::wait_port`].
    pub fn wait_until(
        &mut self,
        address: SocketAddr,
        limit: Duration,
        mut ready: impl FnMut() -> bool,
    ) -> Result<(), Error> {
        let began = Instant::now();
        while began.elapsed() < limit {
            self.alive()?;
            if interrupt::requested() {
                return Err(Error::Interrupted);
            }
            if ready() {
                return Ok(());
            }
            sleep(POLL_INTERVAL);
        }
        Err(Error::Silent { name: self.name.clone(), address, waited: limit, said: self.said() })
    }

    /// Sends SIGTERM without waiting: for many processes at once, before they are dropped.
    pub fn ask_to_end(&self) {
        if let Some(first) = tree::tree(self.pid()).first() {
            first.signal(Signal::TERM);
        }
    }

    /// Ends it and its descendants, with SIGTERM and then SIGKILL. Dropping does the same.
    pub fn end(&mut self) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        // Processes that left the group (daemons) are still in the tree while their parents live:
        // so list the tree first.
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

    fn any_left(&mut self, seen: &[ProcessIdentity]) -> bool {
        // Also reaps it.
        matches!(self.child.try_wait(), Ok(None)) || seen.iter().any(|seen| seen.alive())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Polls until done or until the grace period is over.
fn wait(began: Instant, mut done: impl FnMut() -> bool) {
    while !done() && began.elapsed() < GRACE {
        sleep(POLL_INTERVAL);
    }
}

/// A child inherits the thread's affinity, so it runs on its processor from its first instruction.
fn on_cpu<T>(cpu: usize, work: impl FnOnce() -> T) -> T {
    let before = sched_getaffinity(None);
    // If the processor is not allowed, the child runs anywhere; the count of `pin` shows it.
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
        // Bound once and released: no process listens there.
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
    }

    #[test]
    fn one_that_ends_at_its_start_is_quoted() {
        let scratch = Scratch::new("process").unwrap();
        let log = scratch.path().join("log");
        let mut process =
            Process::spawn("it", shell("echo port in use >&2; exit 3"), &log, None).unwrap();
        let error = process.wait_port(nowhere(), Duration::from_secs(20)).unwrap_err().to_string();
        assert!(error.contains("it ended at its start"), "{error}");
        assert!(error.contains("exit status: 3"), "{error}");
        assert!(error.contains("port in use"), "{error}");
    }

    #[test]
    fn what_it_started_ends_with_it_even_if_it_does_not_listen_to_asking() {
        let scratch = Scratch::new("process").unwrap();
        // setsid: leaves the process group, as daemons do.
        let script =
            "trap '' TERM; setsid sleep 600 & sleep 600 & echo ready; while :; do wait; done";
        let mut process =
            Process::spawn("it", shell(script), &scratch.path().join("log"), None).unwrap();
        process.wait_until(nowhere(), Duration::from_secs(20), || process_said(&scratch)).unwrap();
        let seen = tree::tree(process.pid());
        assert_eq!(seen.len(), 3);
        drop(process);
        assert!(seen.iter().all(|seen| !seen.alive()));
    }

    #[test]
    fn one_that_does_one_thing_must_do_it_well() {
        let scratch = Scratch::new("process").unwrap();
        let run = |script| {
            Process::spawn("it", shell(script), &scratch.path().join("log"), None).unwrap().finish()
        };
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
