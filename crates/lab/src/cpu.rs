//! Processor time of server processes, including all threads and children, from `/proc`.
//!
//! `/proc/PID/task/TID/schedstat` counts nanoseconds as the scheduler measures them; `stat` counts
//! ticks of 10 ms and is used only on kernels without schedstat (CONFIG_SCHED_INFO). Time that a
//! thread or child spends between the last refresh and its end is lost; refreshes are once a
//! second.

use std::{
    collections::{HashMap, HashSet},
    io,
    time::Duration,
};

use procfs::{ProcResult, process::Task};

use crate::{
    engine::Error,
    peers::{process, tasks},
    report::Cpu,
};

/// Most processes followed for one server: a prefork server has hundreds, a mistake (process 1) has
/// thousands.
const MOST_PROCESSES: usize = 4096;
/// Nanoseconds per tick of `stat`: `sysconf(_SC_CLK_TCK)` is 100 on all supported Linux systems.
const TICK: u64 = 10_000_000;

/// Measures the processor time of servers.
pub(crate) struct Watch {
    servers: Vec<Server>,
}

struct Server {
    pid: u32,
    /// Nanoseconds of each thread: at the start (0 if it started later), and as last read.
    threads: HashMap<(u32, u32), (u64, u64)>,
}

impl Watch {
    /// Reads these processes and their children for the first time.
    pub(crate) fn new(pids: &[u32]) -> Result<Watch, Error> {
        let mut watch = Watch { servers: Vec::new() };
        for &pid in pids {
            if process(pid).is_none() {
                let source = io::ErrorKind::NotFound.into();
                return Err(Error::Process { pid, source });
            }
            watch.servers.push(Server { pid, threads: HashMap::new() });
        }
        watch.begin();
        Ok(watch)
    }

    /// Starts counting.
    pub(crate) fn begin(&mut self) {
        for server in &mut self.servers {
            server.threads =
                times(server.pid).into_iter().map(|(id, time)| (id, (time, time))).collect();
        }
    }

    /// Updates the counts.
    pub(crate) fn refresh(&mut self) {
        for server in &mut self.servers {
            for (id, time) in times(server.pid) {
                server.threads.entry(id).or_insert((0, time)).1 = time;
            }
        }
    }

    /// Processor time since the start, for each server.
    pub(crate) fn spent(&self) -> Vec<Cpu> {
        let spent = |server: &Server| {
            server.threads.values().map(|(from, to)| to.saturating_sub(*from)).sum()
        };
        let cpu =
            |server: &Server| Cpu { pid: server.pid, time: Duration::from_nanos(spent(server)) };
        self.servers.iter().map(cpu).collect()
    }
}

/// Nanoseconds of every thread of a process and its children, by process and thread.
fn times(pid: u32) -> Vec<((u32, u32), u64)> {
    let (mut open, mut seen, mut times) = (vec![pid], HashSet::new(), Vec::new());
    while let Some(pid) = open.pop() {
        if seen.len() == MOST_PROCESSES || !seen.insert(pid) {
            continue;
        }
        for thread in tasks(pid) {
            // A thread that has just ended cannot be read.
            if let Ok(time) = time(&thread) {
                times.push(((pid, thread.tid.unsigned_abs()), time));
            }
            open.extend(thread.children().unwrap_or_default());
        }
    }
    times
}

fn time(thread: &Task) -> ProcResult<u64> {
    if let Ok(schedstat) = thread.schedstat() {
        return Ok(schedstat.sum_exec_runtime);
    }
    let stat = thread.stat()?;
    Ok((stat.utime + stat.stime) * TICK)
}

#[cfg(test)]
mod tests {
    use std::{
        process::{Command, Stdio},
        thread,
    };

    use super::*;

    fn burn(time: Duration) {
        let before = own();
        while own() - before < time {
            std::hint::spin_loop();
        }
    }

    fn own() -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    #[test]
    fn threads_of_a_process_are_counted_together() {
        let mut watch = Watch::new(&[std::process::id()]).expect("our own process");
        thread::scope(|scope| {
            let other = scope.spawn(|| {
                burn(Duration::from_millis(60));
                // Ends only after it was measured.
                thread::park();
            });
            burn(Duration::from_millis(60));
            while watch.spent()[0].time < Duration::from_millis(120) {
                watch.refresh();
            }
            other.thread().unpark();
        });
    }

    #[test]
    fn children_are_counted() {
        // A shell that stays the parent of a busy process.
        let mut shell = Command::new("sh")
            .args(["-c", "sh -c 'while :; do :; done' & read line; kill $!"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("sh");
        let mut watch = Watch::new(&[shell.id()]).expect("the shell");
        while watch.spent()[0].time < Duration::from_millis(100) {
            watch.refresh();
        }
        drop(shell.stdin.take());
        shell.wait().expect("the shell ends");
    }

    #[test]
    fn a_process_that_is_not_there_is_said_to_be_so() {
        let mut gone = Command::new("true").spawn().expect("true");
        gone.wait().expect("it ends");
        let error = Watch::new(&[gone.id()]).err().expect("an error").to_string();
        assert!(error.contains(&gone.id().to_string()), "{error}");
    }
}
