//! The machine a comparison ran on.

use std::{
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use larder_proto::http::date;
use serde::Serialize;

use crate::report::machine;

/// Description of the machine.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) processors: usize,
    pub(crate) memory_mib: u64,
    pub(crate) kernel: String,
}

impl Machine {
    /// This machine.
    pub(crate) fn here() -> Self {
        Self {
            processor: machine::processor(),
            processors: thread::available_parallelism().map_or(1, usize::from),
            memory_mib: machine::memory().unwrap_or(0) >> 20,
            kernel: machine::kernel(),
        }
    }

    pub(crate) fn line(&self) -> String {
        let Self { processor, processors, memory_mib, kernel } = self;
        format!("{processor}, {processors} processors, {} GiB, {kernel}", memory_mib.div_ceil(1024))
    }
}

/// Today's date in UTC, as `22 Nov 2026`.
pub(crate) fn today() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let date = date::format(now);
    String::from_utf8_lossy(&date[5..16]).into_owned()
}
