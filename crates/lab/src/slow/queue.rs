//! Bytes of one way of a connection that are on their way.

use std::{cell::RefCell, collections::VecDeque, time::Instant};

use bytes::Bytes;
use tokio::sync::{Notify, Semaphore};

use super::layer::Layer;

/// Bytes of one way that may be on their way. A delay of 300 ms lets 13 MB/s through; then the sender waits.
const QUEUE: usize = 4 << 20;

/// Bytes that go on together.
pub(super) struct Parcel {
    pub(super) bytes: Bytes,
    /// Not before.
    pub(super) due: Instant,
    /// When they came, if they are delayed.
    pub(super) since: Option<Instant>,
    pub(super) whose: Whose,
    /// So many of the oldest requests are answered with these.
    pub(super) ends: usize,
    pub(super) last: bool,
}

/// To which request bytes belong.
pub(super) enum Whose {
    /// That of the bytes before them.
    Before,
    /// None.
    Nobody,
    /// With them this one begins, or its answer.
    Begins(Begin),
}

/// A request or an answer begins.
pub(super) struct Begin {
    pub(super) number: u64,
    pub(super) layers: Vec<Layer>,
}

impl Parcel {
    /// Bytes that nothing befalls.
    pub(super) fn plain(bytes: Bytes, due: Instant) -> Parcel {
        Parcel { bytes, due, since: None, whose: Whose::Before, ends: 0, last: false }
    }
}

pub(super) struct Queue {
    parcels: RefCell<VecDeque<Parcel>>,
    room: Semaphore,
    there: Notify,
    /// The reader has seen the end, and says so here to who waits for it.
    pub(super) ended: Notify,
}

impl Queue {
    pub(super) fn new() -> Queue {
        let room = Semaphore::new(QUEUE);
        Queue { parcels: RefCell::default(), room, there: Notify::new(), ended: Notify::new() }
    }

    /// Waits for room.
    pub(super) async fn push(&self, parcel: Parcel) {
        let needed = u32::try_from(parcel.bytes.len().min(QUEUE)).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        if let Ok(room) = self.room.acquire_many(needed).await {
            room.forget();
        }
        self.parcels.borrow_mut().push_back(parcel);
        self.there.notify_one();
    }

    /// Waits for a parcel. What it takes up is given back by [`Queue::gone`].
    pub(super) async fn pop(&self) -> Parcel {
        loop {
            if let Some(parcel) = self.parcels.borrow_mut().pop_front() {
                return parcel;
            }
            self.there.notified().await;
        }
    }

    /// So many bytes of a parcel have gone on.
    pub(super) fn gone(&self, bytes: usize) {
        self.room.add_permits(bytes.min(QUEUE));
    }
}
