//! What a comparison was made on: figures mean nothing without it.

use std::{
    fs, thread,
    time::{SystemTime, UNIX_EPOCH},
};

use larder_proto::http::date;
use rustix::system::uname;
use serde::Serialize;

/// The kind of machine.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) processors: usize,
    pub(crate) memory_mib: u64,
    pub(crate) kernel: String,
}

impl Machine {
    pub(crate) fn here() -> Self {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let system = uname();
        let kernel = format!("{} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy());
        Self {
            processor: model
                .map_or_else(|| system.machine().to_string_lossy().into_owned(), |(_, name)| name.to_owned()),
            processors: thread::available_parallelism().map_or(1, usize::from),
            memory_mib: memory(),
            kernel,
        }
    }

    pub(crate) fn line(&self) -> String {
        let Self { processor, processors, memory_mib, kernel } = self;
        format!("{processor}, {processors} processors, {} GiB, {kernel}", memory_mib.div_ceil(1024))
    }
}

fn memory() -> u64 {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    total.and_then(|total| total.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// `22 Nov 2026`, of now, UTC.
pub(crate) fn today() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let date = date::format(now);
    String::from_utf8_lossy(&date[5..16]).into_owned()
}
