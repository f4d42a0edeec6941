//! Processes and directories that must be removed even if this process ends abruptly.
//!
//! Normally they are removed when dropped. Two endings skip that: a second Ctrl-C, for which both
//! are registered here, and SIGKILL, for which each process has a companion shell that waits for
//! the end of this process.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread::sleep,
    time::{Duration, Instant},
};

use rustix::process::{Signal, kill_process_group};

use super::tree;

/// Time limit for killed processes to disappear.
const GRACE: Duration = Duration::from_secs(2);
/// Interval at which killed processes are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Its input closes when this process ends; a line on it means that the watched process has ended
/// properly. `$0` is the watched process. Its children may have left its group, so the tree is
/// listed. All that are listed are stopped, to start no more, and what they started in between is
/// listed too; then all are killed. The first list is complete before anything is stopped: the
/// kernel ends a group with a stopped process by SIGHUP when this process, its parent, is gone
/// (POSIX, `_exit`), and the children of an ended process cannot be found. Where the kernel does
/// not list children (`CONFIG_PROC_CHILDREN`), only the group is killed.
const WAIT_FOR_OUR_END: &str = "\
read ended && exit
tree() {
    echo $1
    for child in $(cat /proc/$1/task/*/children); do tree $child; done
}
found=$(tree $0)
kill -s STOP $found
for pid in $found; do found=\"$found $(tree $pid)\"; done
kill -s KILL $found
kill -s KILL -- -$0";

static REGISTRY: Mutex<Registry> =
    Mutex::new(Registry { processes: Vec::new(), directories: Vec::new() });

struct Registry {
    /// First processes, each with its own group.
    processes: Vec<u32>,
    directories: Vec<PathBuf>,
}

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A registered process, until this is dropped.
#[derive(Debug)]
pub(super) struct ProcessGuard {
    pid: u32,
    /// `None`: no shell could be started, so the process survives a SIGKILL of this one.
    shell: Option<Child>,
}

impl ProcessGuard {
    /// Starts a process in a new group and registers it.
    pub(super) fn spawn(command: &mut Command) -> std::io::Result<(Child, ProcessGuard)> {
        // With the lock held: after [`end_all`] no process can be started.
        let mut registry = registry();
        let child = command.spawn()?;
        registry.processes.push(child.id());
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", WAIT_FOR_OUR_END, &child.id().to_string()]);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Outside the terminal's group, as Ctrl-C does not yet end this process.
        let shell = std::os::unix::process::CommandExt::process_group(&mut shell, 0).spawn().ok();
        let noted = ProcessGuard { pid: child.id(), shell };
        Ok((child, noted))
    }
}

impl Drop for ProcessGuard {
    fn drop(&mut self) {
        registry().processes.retain(|pid| *pid != self.pid);
        if let Some(mut shell) = self.shell.take() {
            // A shell killed from outside needs no line.
            let _gone = shell.stdin.take().map(|mut input| input.write_all(b"\n"));
            let _reaped = shell.wait();
        }
    }
}

/// Registers a directory.
pub(super) fn directory(path: &Path) {
    registry().directories.push(path.to_owned());
}

/// Unregisters a directory that is removed, or is to stay.
pub(super) fn forget_directory(path: &Path) {
    registry().directories.retain(|noted| noted != path);
}

/// Kills and removes everything registered. No process can be started afterwards: this process must
/// end now.
pub(crate) fn end_all() {
    let registry = registry();
    let seen: Vec<tree::ProcessIdentity> =
        registry.processes.iter().flat_map(|pid| tree::tree(*pid)).collect();
    for group in registry.processes.iter().filter_map(|pid| tree::pid(*pid)) {
        let _gone = kill_process_group(group, Signal::KILL);
    }
    seen.iter().for_each(|seen| seen.signal(Signal::KILL));
    let began = Instant::now();
    while seen.iter().any(|seen| seen.alive()) && began.elapsed() < GRACE {
        sleep(POLL_INTERVAL);
    }
    for directory in &registry.directories {
        // A directory that cannot be removed stays among temporary files.
        let _stays = fs::remove_dir_all(directory);
    }
    // Threads that want to start a process wait for the lock until this process ends.
    std::mem::forget(registry);
}
