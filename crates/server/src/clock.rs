//! The one room of the server that reads clocks.
//!
//! Wall time is read once at the start and carried forward by the monotonic clock, so that a clock
//! that is set (by NTP, by an operator) neither expires nor revives stored entries.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since the UNIX epoch.
pub type Ms = u64;

/// A clock that never goes backwards.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    /// Wall time of the start, in microseconds.
    wall: u64,
}

impl Clock {
    /// Starts the clock at the present wall time.
    pub fn start() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as u64);
        Self { started: Instant::now(), wall }
    }

    /// Milliseconds since the UNIX epoch.
    pub fn now(&self) -> Ms {
        self.at(self.micros())
    }

    /// Milliseconds since the start of the machine. It includes sleep, which [`Clock::now`] does
    /// not.
    pub fn uptime(&self) -> Ms {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        time.tv_sec as Ms * 1000 + time.tv_nsec as Ms / 1_000_000
    }

    /// Microseconds since the start of the clock, for intervals.
    pub fn micros(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    /// The wall time, in milliseconds, of a moment given by [`Clock::micros`].
    pub fn at(&self, micros: u64) -> Ms {
        (self.wall + micros) / 1000
    }

    /// The same, in microseconds since the UNIX epoch.
    pub fn wall_micros(&self, micros: u64) -> u64 {
        self.wall + micros
    }
}

/// Seconds since the UNIX epoch by the system's clock, which may jump: for times that other
/// machines and earlier runs of the program have written.
pub(crate) fn wall_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The runtime's monotonic clock, for the deadlines of waits. Tests can stop it.
pub(crate) fn instant() -> tokio::time::Instant {
    tokio::time::Instant::now()
}
