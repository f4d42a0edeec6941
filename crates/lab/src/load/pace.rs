//! When requests are due.

use std::fmt;

/// When requests are due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Closed loop: a connection asks again when it has its answer.
    Closed,
    /// Open loop: requests are due at a fixed rate whatever the server does; latency counts from when a request was due.
    Open {
        /// Requests a second, of the whole run.
        rate: f64,
        /// How they are spread over time.
        arrivals: Arrivals,
    },
    /// Open loop at the times of a recorded trace, this many times faster.
    Recorded {
        /// 1: as recorded.
        speed: f64,
    },
}

/// How requests at a fixed rate are spread over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// All gaps alike.
    Even,
    /// As of many independent clients: exponential gaps.
    Poisson,
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pace::Closed => f.write_str("closed loop"),
            Pace::Open { rate, arrivals: Arrivals::Even } => write!(f, "{rate}/s, even gaps"),
            Pace::Open { rate, arrivals: Arrivals::Poisson } => write!(f, "{rate}/s, Poisson arrivals"),
            Pace::Recorded { speed } => write!(f, "as recorded, {speed} times as fast"),
        }
    }
}
