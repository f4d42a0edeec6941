//! What the object faces (memcached, Redis) share: the connection loop, clients, what others send to a client.
//!
//! A face turns received bytes into answers ([`Session`]); it never touches a socket. The loop that reads, sends and
//! waits is one for both.

mod client;

pub(crate) use client::{Client, Clients, Peer};

use crate::{clock::Ms, net::out::Out};

/// Composed and pinned bytes at which a session has them sent before it goes on, so that a client that does not read
/// costs no more than this and one value.
pub(crate) const HIGH_WATER: u64 = 64 * 1024;

/// The most received bytes kept for one command that is not whole yet. What may be longer (values) is taken in pieces
/// as it arrives: the session uses up what is there and keeps the state.
pub(crate) const WINDOW: usize = 64 * 1024;

/// What a session wants after it has looked at received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// So many bytes are used up; look again if some are left.
    Used(usize),
    /// The next command is not whole. It would be at so many bytes from the start of the input (0: not known).
    More(usize),
    /// So many bytes are used up (may be 0). Send what is composed, then call again, even without new bytes: a long
    /// answer is on its way (a walk, thousands of keys).
    Flush(usize),
    /// Send what is composed, then close.
    Close,
}

/// One client's conversation in one protocol.
pub(crate) trait Session {
    /// Takes up the next command, or goes on with a long one. `now`: read once for all commands of a batch.
    fn turn(&mut self, input: &[u8], now: Ms, out: &mut Out) -> Turn;

    /// The batch was sent: `micros` from when its bytes were there until the system had taken the answers.
    fn sent(&mut self, micros: u64);
}
