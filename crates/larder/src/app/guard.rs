//! `larder app-guard`, a hidden command: a process that ends the groups of all applications if
//! Larder is killed.
//!
//! PR_SET_PDEATHSIG ends the first process of each group, but not what that has started (PHP's
//! children). The guard knows the groups from a pipe: `+123`, `-123`. The pipe's end is Larder's
//! end; what is left then is killed.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashSet},
    io::{self, BufRead, Write},
    os::unix::process::CommandExt,
    process::{Child, Command, ExitCode, Stdio},
    rc::Rc,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group, setsid};
use tokio::time::sleep;

/// The hidden command.
pub(crate) const COMMAND: &str = "app-guard";

/// Between two looks at the guard: without one, what applications have started outlives a Larder
/// that is killed.
const LOOK: Duration = Duration::from_secs(1);

/// The groups of all applications, and the guard that knows them too.
#[derive(Default)]
pub(super) struct Guard {
    groups: RefCell<BTreeSet<i32>>,
    process: RefCell<Option<Child>>,
}

impl Guard {
    pub(super) fn new() -> Rc<Guard> {
        Rc::default()
    }

    /// A group has begun.
    pub(super) fn began(&self, pid: Pid) {
        let pid = pid.as_raw_nonzero().get();
        self.groups.borrow_mut().insert(pid);
        self.tell(&format!("+{pid}\n"));
    }

    /// A group has ended.
    pub(super) fn ended(&self, pid: Pid) {
        let pid = pid.as_raw_nonzero().get();
        self.groups.borrow_mut().remove(&pid);
        self.tell(&format!("-{pid}\n"));
    }

    /// Whether this process is waited for here.
    pub(super) fn knows(&self, pid: i32) -> bool {
        let own = self.process.borrow().as_ref().map(Child::id);
        self.groups.borrow().contains(&pid) || own == u32::try_from(pid).ok()
    }

    /// Starts another guard soon after one was killed, until Larder ends.
    pub(super) async fn keep(self: Rc<Self>) {
        loop {
            sleep(LOOK).await;
            let ended = match self.process.borrow_mut().as_mut() {
                Some(guard) => matches!(guard.try_wait(), Ok(Some(_))),
                None => false,
            };
            if ended {
                self.replace();
            }
        }
    }

    fn tell(&self, line: &str) {
        let told =
            self.process.borrow_mut().as_mut().is_some_and(|guard| write(guard, line).is_ok());
        if !told {
            self.replace();
        }
    }

    /// It was killed, or was not there yet: another one is told of all.
    fn replace(&self) {
        let mut process = self.process.borrow_mut();
        if let Some(mut ended) = process.take() {
            let _ = ended.kill();
            let _ = ended.wait();
        }
        let all: String = self.groups.borrow().iter().map(|pid| format!("+{pid}\n")).collect();
        *process = match start().and_then(|mut guard| write(&mut guard, &all).map(|()| guard)) {
            Ok(guard) => Some(guard),
            Err(error) => {
                eprintln!("larder: warning: applications have no guard: {error}");
                None
            }
        };
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(mut guard) = self.process.borrow_mut().take() {
            drop(guard.stdin.take());
            let _ = guard.wait();
        }
    }
}

fn start() -> io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("larder").arg(COMMAND).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

fn write(guard: &mut Child, text: &str) -> io::Result<()> {
    guard.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?.write_all(text.as_bytes())
}

/// The guard itself.
pub(crate) fn run() -> ExitCode {
    // Fails for the first of a process group, which no terminal ends.
    let _ = setsid();
    let mut groups = HashSet::new();
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let Some((sign, number)) = line.split_at_checked(1) else { continue };
        let Some(pid) = number.parse().ok().and_then(Pid::from_raw) else { continue };
        match sign {
            "+" => groups.insert(pid),
            _ => groups.remove(&pid),
        };
    }
    for pid in groups {
        let _ = kill_process_group(pid, Signal::KILL);
    }
    ExitCode::SUCCESS
}
