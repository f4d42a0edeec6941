//! Values as one slice. A value that lies in several pieces is joined in a buffer of the thread,
//! which is reused: memory that is touched for the first time costs as much as the copy.

use std::{cell::Cell, ops::Deref};

use larder_store::Entry;

/// Largest buffer that a thread keeps, in bytes: room for the largest hash.
const KEPT: usize = 4 * 1024 * 1024;

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A value as one slice.
pub(super) enum Whole<'e> {
    /// It lies in one piece.
    Stored(&'e [u8]),
    /// Its pieces were joined.
    Joined(Vec<u8>),
}

impl<'e> Whole<'e> {
    /// The value of `entry`; copied only if it lies in several pieces.
    #[inline]
    pub(super) fn of(entry: &'e Entry<'_>) -> Self {
        let head = entry.head();
        if head.len() as u64 == entry.len() { Self::Stored(head) } else { Self::join(entry) }
    }

    fn join(entry: &Entry<'_>) -> Self {
        let mut joined = BUFFER.take();
        // All of it at once, since a hash that grows would outgrow the buffer again and again. The
        // system gives memory to the touched part alone.
        joined.reserve_exact(KEPT.max(entry.len() as usize));
        entry.chunks().for_each(|chunk| joined.extend_from_slice(chunk));
        Self::Joined(joined)
    }
}

impl Deref for Whole<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Stored(bytes) => bytes,
            Self::Joined(bytes) => bytes,
        }
    }
}

impl Drop for Whole<'_> {
    fn drop(&mut self) {
        if let Self::Joined(bytes) = self
            && bytes.capacity() <= KEPT
        {
            let mut bytes = std::mem::take(bytes);
            bytes.clear();
            BUFFER.set(bytes);
        }
    }
}
