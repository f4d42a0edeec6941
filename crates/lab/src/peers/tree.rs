//! Process trees from /proc: a server is its first process and all descendants.

use procfs::process::{Process, Stat, Task, all_processes};
use rustix::{
    process::{Pid, Signal, kill_process},
    thread::{CpuSet, sched_setaffinity},
};

/// A process, identified by its id and start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessIdentity {
    pub(crate) pid: u32,
    started: u64,
}

impl ProcessIdentity {
    /// Whether it still runs. A zombie does not.
    pub(crate) fn alive(self) -> bool {
        stat(self.pid).is_some_and(|now| now.starttime == self.started && now.state != 'Z')
    }

    /// Signals it, if it is still the same process.
    pub(crate) fn signal(self, signal: Signal) {
        if let (true, Some(pid)) = (self.alive(), pid(self.pid)) {
            // It may have ended since.
            let _gone = kill_process(pid, signal);
        }
    }
}

/// A process that still exists.
pub(crate) fn process(pid: u32) -> Option<Process> {
    Process::new(i32::try_from(pid).ok()?).ok()
}

fn stat(pid: u32) -> Option<Stat> {
    process(pid)?.stat().ok()
}

/// A process and its descendants, the given one first.
pub(crate) fn tree(root: u32) -> Vec<ProcessIdentity> {
    let processes = all_processes().into_iter().flatten().flatten();
    let all: Vec<Stat> = processes.filter_map(|process| process.stat().ok()).collect();
    let mut found: Vec<ProcessIdentity> = Vec::new();
    let mut open = i32::try_from(root).into_iter().collect::<Vec<_>>();
    while let Some(next) = open.pop() {
        if let Some(stat) = all.iter().find(|stat| stat.pid == next) {
            found.push(ProcessIdentity { pid: next.unsigned_abs(), started: stat.starttime });
            open.extend(all.iter().filter(|stat| stat.ppid == next).map(|stat| stat.pid));
        }
    }
    found
}

/// The threads of a process.
pub(crate) fn tasks(pid: u32) -> impl Iterator<Item = Task> {
    let tasks = process(pid).and_then(|process| process.tasks().ok());
    tasks.into_iter().flatten().flatten()
}

/// Pins every thread of a process tree to one processor. Returns their number.
pub(crate) fn pin(root: u32, cpu: usize) -> usize {
    let set = only(cpu);
    let tree = tree(root);
    let threads = tree.iter().flat_map(|seen| tasks(seen.pid)).map(|task| task.tid.unsigned_abs());
    // A thread that ended meanwhile is not counted.
    threads.filter(|thread| sched_setaffinity(pid(*thread), &set).is_ok()).count()
}

/// The set of one processor.
pub(crate) fn only(cpu: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(cpu);
    set
}

/// Resident memory of a process tree in bytes: anonymous, file and shared pages.
pub(crate) fn resident(root: u32) -> u64 {
    tree(root).iter().map(|seen| resident_of(seen.pid).unwrap_or(0)).sum()
}

fn resident_of(pid: u32) -> Option<u64> {
    Some(process(pid)?.status().ok()?.vmrss? * 1024)
}

pub(crate) fn pid(number: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(number).ok()?)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_tree_is_the_process_and_its_children() {
        let mut child = Command::new("sh")
            .args(["-c", "sleep 600 & echo; wait"])
            .stdout(Stdio::piped())
            .process_group_of_its_own()
            .spawn()
            .unwrap();
        // The line shows that the grandchild runs.
        let mut line = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        let found = tree(child.id());
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].pid, child.id());
        assert!(tree(std::process::id()).iter().any(|seen| *seen == found[1]));
        assert!(resident(child.id()) > 4096);
        for seen in &found {
            seen.signal(Signal::KILL);
        }
        child.wait().unwrap();
        assert!(!found[0].alive());
    }

    trait OwnGroup {
        fn process_group_of_its_own(&mut self) -> &mut Self;
    }

    impl OwnGroup for Command {
        fn process_group_of_its_own(&mut self) -> &mut Self {
            std::os::unix::process::CommandExt::process_group(self, 0)
        }
    }
}
