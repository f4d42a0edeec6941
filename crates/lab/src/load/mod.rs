//! What is asked, and when: requests, one after the other, from a seed. Knows no socket and reads no clock.
//!
//! A [`Load`] is what all threads of a run share (the keys, the shares, the trace); each thread takes a [`Source`] from it, which
//! shares nothing that changes, so that threads do not wait for each other and the same seed gives the same requests. [`LoadArgs`]
//! is its form on a command line.

use std::time::Duration;

mod args;
mod keys;
mod length;
mod mix;
mod mixed;
mod pace;
mod parse;
mod plan;
mod popularity;
mod seed;
mod size;
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

/// One request to come. The buffers are used again for the next.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    /// What is wanted.
    pub verb: Verb,
    /// A key, or for HTTP the target (`/path?query`).
    pub key: Vec<u8>,
    /// More keys of the same get, for protocols that take several. A key may be there twice.
    pub more: Vec<Vec<u8>>,
    /// Bytes of the key's value: what a write carries, what a read is to find.
    pub size: usize,
    /// Seconds a written value lives; 0: for ever.
    pub ttl: u32,
    /// How long to wait after the answer, before this connection asks again.
    pub think: Duration,
    /// When a recorded trace asked this, since its beginning.
    pub at: Option<Duration>,
}

/// Makes requests. Each thread of a run has one of its own, with a seed of its own.
pub trait Source: Send {
    /// The next request, into `ask`. False: there are no more.
    fn next(&mut self, ask: &mut Ask) -> bool;
}
