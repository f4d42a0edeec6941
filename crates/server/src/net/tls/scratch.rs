//! The buffers of a thread's sessions: full of what is under way for one of them.

use std::cell::RefCell;

/// Received bytes: some records of the largest size (RFC 8446 section 5.2).
pub(super) const RECEIVED: usize = 64 * 1024;
/// Sealed bytes, see [`super::session`].
pub(super) const SEALED: usize = 80 * 1024;

/// Buffers of a thread.
pub(super) struct Scratch {
    pub(super) received: Vec<u8>,
    pub(super) sealed: Vec<u8>,
    /// Plain bytes of a record that come from several places.
    pub(super) plain: Vec<u8>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = const {
        RefCell::new(Scratch { received: Vec::new(), sealed: Vec::new(), plain: Vec::new() })
    };
}

/// Calls `work` with the buffers. They are not to be used again inside of it.
pub(super) fn with<T>(work: impl FnOnce(&mut Scratch) -> T) -> T {
    SCRATCH.with_borrow_mut(|scratch| {
        if scratch.sealed.is_empty() {
            scratch.received.reserve(RECEIVED);
            scratch.sealed.resize(SEALED, 0);
        }
        work(scratch)
    })
}
