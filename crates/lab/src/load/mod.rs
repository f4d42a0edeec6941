//! Generation of requests and their times, from a seed. Knows no socket and reads no clock.
//!
//! A [`Load`] is shared by all threads of a run (keys, shares, trace); each thread takes a
//! [`Source`] from it, which shares no mutable state, so that threads do not wait for each other
//! and the same seed gives the same requests. [`LoadArgs`] is its command line form.

use std::time::Duration;

mod args;
mod keys;
mod length;
mod mix;
mod pace;
mod parse;
mod plan;
mod popularity;
mod size;
mod synthetic;
#[cfg(test)]
mod tests;
mod think;
pub mod trace;
pub mod value;
mod verb;

pub use args::LoadArgs;
pub use keys::Keys;
pub use length::Lengths;
pub use mix::Mix;
pub use pace::{Arrivals, Pace};
pub use plan::Load;
pub use popularity::Popularity;
pub use size::Sizes;
pub use think::Think;
pub use verb::Verb;

/// A request to make. Its buffers are reused.
#[derive(Clone, Debug, Default)]
pub struct Operation {
    /// The kind of operation.
    pub verb: Verb,
    /// A key, or for HTTP the target (`/path?query`).
    pub key: Vec<u8>,
    /// Additional keys of the same get, for protocols that take several. A key may occur twice.
    pub more: Vec<Vec<u8>>,
    /// Length of the value: written by a set, expected by a get.
    pub size: usize,
    /// Time to live of a written value in seconds; 0: no limit.
    pub ttl: u32,
    /// Think time after the answer, before this connection's next request.
    pub think: Duration,
    /// Time of the request in a recorded trace, since its beginning.
    pub at: Option<Duration>,
}

/// Generates requests. Each thread of a run has its own, with its own seed.
pub trait Source: Send {
    /// Writes the next request into `operation`. False: there are no more.
    fn next(&mut self, operation: &mut Operation) -> bool;
}
