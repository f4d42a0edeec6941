//! What a process costs, read from /proc.

use std::collections::HashSet;
use std::fs;
use std::time::Duration;

/// Resources of one process at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// User and system time together, in steps of a clock tick (10 ms).
    pub cpu: Duration,
    /// Resident memory, bytes.
    pub rss: u64,
    /// Highest resident memory so far, bytes.
    pub peak_rss: u64,
    /// Open sockets, each counted once however many of its descriptors are open.
    pub sockets: usize,
}

impl Usage {
    /// Reads it for `pid`; `None` when there is no such process (any more).
    pub fn of(pid: u32) -> Option<Usage> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        // The command name is in parentheses and may hold anything; fields are counted after it.
        // utime and stime are the fields 14 and 15 of proc(5), the 12th and 13th after the name.
        let after_name = stat.rsplit_once(')')?.1;
        let mut fields = after_name.split_ascii_whitespace().skip(11);
        let ticks: u64 =
            fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
        Some(Usage {
            // USER_HZ is 100 on every Linux architecture we run on.
            cpu: Duration::from_millis(ticks * 10),
            rss: kilobytes(&status, "VmRSS:")?,
            peak_rss: kilobytes(&status, "VmHWM:")?,
            sockets: sockets(pid)?,
        })
    }
}

/// Descriptors of other kinds come and go with threads that start late, and a listening socket has
/// one for each worker.
fn sockets(pid: u32) -> Option<usize> {
    let names = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    let names = names.filter_map(|entry| fs::read_link(entry.path()).ok());
    let sockets = names.filter(|name| name.to_string_lossy().starts_with("socket:"));
    Some(sockets.collect::<HashSet<_>>().len())
}

/// Whether all threads of a process are stopped.
pub fn is_stopped(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, after)| after.starts_with(" T"))
    })
}

fn kilobytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with(name))?;
    let number = line.split_ascii_whitespace().nth(1)?;
    Some(number.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_its_own_process() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let usage = Usage::of(std::process::id()).unwrap();
        assert!(usage.rss > 0 && usage.peak_rss >= usage.rss / 2);
        assert!(usage.sockets >= 1);
        drop(listener);
    }

    #[test]
    fn a_process_that_is_not_there_has_no_usage() {
        assert!(Usage::of(u32::MAX - 1).is_none());
    }
}
