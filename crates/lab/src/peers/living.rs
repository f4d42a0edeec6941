//! What must not outlive us: processes and directories that nobody drops when the process ends at once.
//!
//! Whoever ends in order drops its processes and directories. Two ways of ending do not: a second Ctrl-C, for which both are
//! noted here, and SIGKILL, for which each process has a shell beside it that waits for our end.

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

/// What is killed is gone within this time, or will not go.
const GRACE: Duration = Duration::from_secs(2);
/// Between two looks at what is killed.
const LOOK: Duration = Duration::from_millis(10);
/// Its input ends with us; a line on it says that the process has ended in order. `$0` is the process. What it started may have left
/// its group: so each one is held, that it starts no more, then what it started, and then it is killed. Where the kernel does not
/// tell of children (`CONFIG_PROC_CHILDREN`), the group ends alone.
const WAIT_FOR_OUR_END: &str = "\
read ended && exit
end() {
    kill -s STOP $1
    for child in $(cat /proc/$1/task/*/children); do end $child; done
    kill -s KILL $1
}
end $0
kill -s KILL -- -$0";

static LIVING: Mutex<Living> = Mutex::new(Living { processes: Vec::new(), directories: Vec::new() });

struct Living {
    /// First processes, each of a group of its own.
    processes: Vec<u32>,
    directories: Vec<PathBuf>,
}

fn living() -> MutexGuard<'static, Living> {
    LIVING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process that is noted, until this is dropped.
#[derive(Debug)]
pub(super) struct Noted {
    pid: u32,
    /// `None`: there is no shell, so the process outlives our SIGKILL.
    shell: Option<Child>,
}

impl Noted {
    /// Starts a process, the first one of its group, and notes it.
    pub(super) fn spawn(command: &mut Command) -> std::io::Result<(Child, Noted)> {
        // With the lock: what is started is noted, or is not started any more.
        let mut living = living();
        let child = command.spawn()?;
        living.processes.push(child.id());
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", WAIT_FOR_OUR_END, &child.id().to_string()]);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Out of the terminal's group, for Ctrl-C is not our end yet.
        let shell = std::os::unix::process::CommandExt::process_group(&mut shell, 0).spawn().ok();
        let noted = Noted { pid: child.id(), shell };
        Ok((child, noted))
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        living().processes.retain(|pid| *pid != self.pid);
        if let Some(mut shell) = self.shell.take() {
            // One that somebody killed needs no line.
            let _gone = shell.stdin.take().map(|mut input| input.write_all(b"\n"));
            let _reaped = shell.wait();
        }
    }
}

/// Notes a directory.
pub(super) fn directory(path: &Path) {
    living().directories.push(path.to_owned());
}

/// A directory that is gone, or is to stay.
pub(super) fn forget_directory(path: &Path) {
    living().directories.retain(|noted| noted != path);
}

/// Kills and removes all that is noted. Nothing can be started afterwards: the process is to end now.
pub(crate) fn end_all() {
    let living = living();
    let seen: Vec<tree::Seen> = living.processes.iter().flat_map(|pid| tree::tree(*pid)).collect();
    for group in living.processes.iter().filter_map(|pid| tree::pid(*pid)) {
        let _gone = kill_process_group(group, Signal::KILL);
    }
    seen.iter().for_each(|seen| seen.signal(Signal::KILL));
    let began = Instant::now();
    while seen.iter().any(|seen| seen.alive()) && began.elapsed() < GRACE {
        sleep(LOOK);
    }
    for directory in &living.directories {
        // What cannot be removed stays in a directory for temporary things.
        let _stays = fs::remove_dir_all(directory);
    }
    // Whoever wants to start something waits for the lock until the process has ended.
    std::mem::forget(living);
}
