//! Times of requests.

use std::fmt;

/// Times of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Closed loop: a connection makes its next request after its answer.
    Closed,
    /// Open loop: requests are due at a fixed rate whatever the server does; latency counts from
    /// the due time.
    Open {
        /// Requests per second in the whole run.
        rate: f64,
        /// Distribution of due times.
        arrivals: Arrivals,
    },
    /// Open loop at the times of a recorded trace, this many times faster.
    Recorded {
        /// 1: as recorded.
        speed: f64,
    },
}

/// Distribution of due times at a fixed rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Equal gaps.
    Even,
    /// Exponential gaps, as of many independent clients.
    Poisson,
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pace::Closed => f.write_str("closed loop"),
            Pace::Open { rate, arrivals: Arrivals::Even } => write!(f, "{rate}/s, even gaps"),
            Pace::Open { rate, arrivals: Arrivals::Poisson } => {
                write!(f, "{rate}/s, Poisson arrivals")
            }
            Pace::Recorded { speed } => write!(f, "as recorded, {speed} times as fast"),
        }
    }
}
