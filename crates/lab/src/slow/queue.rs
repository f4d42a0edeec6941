//! Queue of bytes of one direction of a connection.

use std::{cell::RefCell, collections::VecDeque, time::Instant};

use bytes::Bytes;
use tokio::sync::{Notify, Semaphore};

use super::layer::Layer;

/// Capacity in bytes. With a delay of 300 ms this passes 13 MB/s; beyond that the sender waits.
const QUEUE: usize = 4 << 20;

/// Bytes that are forwarded together.
pub(super) struct Chunk {
    pub(super) bytes: Bytes,
    /// Earliest time to forward them.
    pub(super) due: Instant,
    /// Arrival time, if they are delayed.
    pub(super) since: Option<Instant>,
    pub(super) owner: Owner,
    /// Number of the oldest requests whose answers end with these bytes.
    pub(super) ends: usize,
    pub(super) last: bool,
}

/// The request that bytes belong to.
pub(super) enum Owner {
    /// The same as the bytes before them.
    Before,
    /// None.
    Nobody,
    /// A request or answer that begins with these bytes.
    Begins(Begin),
}

/// A request or an answer that begins.
pub(super) struct Begin {
    pub(super) number: u64,
    pub(super) layers: Vec<Layer>,
}

impl Chunk {
    /// Bytes without a delay.
    pub(super) fn plain(bytes: Bytes, due: Instant) -> Chunk {
        Chunk { bytes, due, since: None, owner: Owner::Before, ends: 0, last: false }
    }
}

pub(super) struct Queue {
    parcels: RefCell<VecDeque<Chunk>>,
    room: Semaphore,
    there: Notify,
    /// Notified when the reader has seen the end of the stream.
    pub(super) ended: Notify,
}

impl Queue {
    pub(super) fn new() -> Queue {
        let room = Semaphore::new(QUEUE);
        Queue { parcels: RefCell::default(), room, there: Notify::new(), ended: Notify::new() }
    }

    /// Waits for room and enqueues.
    pub(super) async fn push(&self, chunk: Chunk) {
        let needed = u32::try_from(chunk.bytes.len().min(QUEUE)).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        if let Ok(room) = self.room.acquire_many(needed).await {
            room.forget();
        }
        self.parcels.borrow_mut().push_back(chunk);
        self.there.notify_one();
    }

    /// Waits for a chunk. Its room is released by [`Queue::gone`].
    pub(super) async fn pop(&self) -> Chunk {
        loop {
            if let Some(chunk) = self.parcels.borrow_mut().pop_front() {
                return chunk;
            }
            self.there.notified().await;
        }
    }

    /// Releases the room of forwarded bytes.
    pub(super) fn gone(&self, bytes: usize) {
        self.room.add_permits(bytes.min(QUEUE));
    }
}
