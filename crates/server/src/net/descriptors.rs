//! Failures for want of descriptors: a matter of the process, so they are counted for all of it.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::io::Errno;

static FAILURES: AtomicU64 = AtomicU64::new(0);

/// Notes an error of opening a socket or a file, if the process or the system has no descriptor
/// left.
pub(crate) fn failed(error: &io::Error) {
    let number = error.raw_os_error();
    if [Errno::MFILE, Errno::NFILE].iter().any(|full| number == Some(full.raw_os_error())) {
        FAILURES.fetch_add(1, Ordering::Relaxed);
    }
}

/// Such failures since the start.
pub(crate) fn failures() -> u64 {
    FAILURES.load(Ordering::Relaxed)
}
