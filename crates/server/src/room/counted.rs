//! Bytes outside the store that count for as long as they live.

use std::sync::Arc;

use bytes::Bytes;

use super::{Holding, Room};

/// Smallest buffer, in bytes.
const LEAST: usize = 16 << 10;

/// Content that grows, and its memory in the account of all clients. The [`Bytes`] made of it, and
/// their slices, hold that memory until the last of them is dropped.
pub(crate) struct Counted {
    content: Vec<u8>,
    held: Option<Holding>,
}

impl Counted {
    pub(crate) fn new(room: &Arc<Room>) -> Self {
        Self { content: Vec::new(), held: Some(Holding::new(room)) }
    }

    /// Short content that lives for a moment, and does not count.
    pub(crate) fn brief() -> Self {
        Self { content: Vec::new(), held: None }
    }

    pub(crate) fn len(&self) -> usize {
        self.content.len()
    }

    /// Appends bytes, and waits for clients that have to leave for them. False: there is no room.
    pub(crate) async fn extend(&mut self, data: &[u8]) -> bool {
        let length = self.content.len() + data.len();
        if length > self.content.capacity() {
            let next = self.next_capacity(length);
            let bytes = self.while_growing(next);
            if let Some(held) = &mut self.held {
                held.moves();
                if !held.wait_for(bytes).await {
                    return false;
                }
            }
            self.grow(next);
        }
        self.content.extend_from_slice(data);
        true
    }

    /// Room for more bytes at the end, `most` in all; None: there is no room. Does not wait.
    pub(crate) fn spare(&mut self, most: usize) -> Option<(&mut Vec<u8>, usize)> {
        if self.content.len() == self.content.capacity() {
            let next = self.next_capacity(LEAST).min(most);
            let bytes = self.while_growing(next);
            if self.held.as_mut().is_some_and(|held| !held.resize(bytes)) {
                return None;
            }
            self.grow(next);
        }
        let spare = self.content.capacity() - self.content.len();
        Some((&mut self.content, spare))
    }

    fn next_capacity(&self, least: usize) -> usize {
        least.max(LEAST).max(2 * self.content.capacity())
    }

    /// The old buffer is copied into the new one.
    fn while_growing(&self, next: usize) -> u64 {
        (self.content.capacity() + next) as u64
    }

    fn grow(&mut self, next: usize) {
        self.content.reserve_exact(next - self.content.len());
        let capacity = self.content.capacity() as u64;
        if let Some(held) = &mut self.held {
            let _less = held.resize(capacity);
        }
    }

    /// The content.
    pub(crate) fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.content
    }
}
