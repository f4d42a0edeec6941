//! A response on its way into the store, and the clients that follow it.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
};

use http::HeaderMap;
use larder_store::{FillReader, FillState};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::page::answer::Answer;

/// Pieces of a body that may wait for one slow reader once the body is no longer going into the
/// store; beyond it the origin waits. The fetch counts their memory.
const TAIL: usize = 1;

/// Pieces of a body that does not lie in the store.
pub(crate) enum Tail {
    Data(bytes::Bytes),
    /// The complete end.
    End(Option<HeaderMap>),
}

/// A response on its way into the store that others may follow.
pub(crate) struct Streaming {
    pub(crate) answer: Arc<Answer>,
    reader: FillReader<'static>,
    /// Offset of the body in the record.
    pub(crate) body_at: u64,
    /// Offset of the body's end in the record once it is known; the trailer follows.
    end: AtomicU64,
    /// Set before the end is.
    pub(crate) trailers: Mutex<Option<HeaderMap>>,
    /// Channels for the bytes that no longer fit the store. None: spilled, nobody can join.
    tails: Mutex<Option<Vec<mpsc::Sender<Tail>>>>,
}

/// One client's view of a streaming response.
pub(crate) struct Follower {
    pub(crate) streaming: Arc<Streaming>,
    reader: FillReader<'static>,
    tail: mpsc::Receiver<Tail>,
    spilled: bool,
}

impl Streaming {
    pub(crate) fn new(answer: Arc<Answer>, reader: FillReader<'static>, body_at: u64) -> Arc<Self> {
        let tails = Mutex::new(Some(Vec::new()));
        let end = AtomicU64::new(u64::MAX);
        Arc::new(Self { answer, reader, body_at, end, trailers: Mutex::new(None), tails })
    }

    /// Bytes of the record written so far.
    pub(crate) fn written(&self) -> u64 {
        self.reader.written()
    }

    /// The body is complete, `length` bytes of it. To be said before anything is written behind it.
    pub(crate) fn ends_at(&self, length: u64) {
        self.end.store(self.body_at + length, Ordering::Release);
    }

    /// Joins; None when the response stopped going into the store: its start is gone.
    pub(crate) fn follow(self: &Arc<Self>) -> Option<Follower> {
        let (send, tail) = mpsc::channel(TAIL);
        let mut held = self.tails.lock();
        let tails = held.as_mut()?;
        // Followers that left are removed when the list would grow.
        if tails.len() == tails.capacity() {
            tails.retain(|tail| !tail.is_closed());
        }
        tails.push(send);
        drop(held);
        Some(Follower {
            streaming: self.clone(),
            reader: self.reader.clone(),
            tail,
            spilled: false,
        })
    }

    /// Whether [`Streaming::ends_at`] was said.
    pub(crate) fn is_whole(&self) -> bool {
        self.end.load(Ordering::Acquire) != u64::MAX
    }

    /// The body is whole: all of it is there for whoever joins, nothing will be sent directly.
    pub(crate) fn whole(&self) {
        if let Some(tails) = self.tails.lock().as_mut() {
            tails.clear();
        }
    }

    /// The store takes no more: from here on everybody's rest goes through these.
    pub(crate) fn spill(&self) -> Vec<mpsc::Sender<Tail>> {
        self.tails.lock().take().unwrap_or_default()
    }
}

/// The next piece for a follower.
pub(crate) enum Piece<'f> {
    /// In the store.
    Stored(&'f [u8]),
    /// No longer in the store.
    Passed(bytes::Bytes),
    /// The complete end.
    End(Option<HeaderMap>),
    /// The end that should not have been.
    Broken,
}

impl Follower {
    /// The piece of the body at `at`, once it is there.
    pub(crate) async fn next(&mut self, at: u64) -> Piece<'_> {
        let offset = self.streaming.body_at + at;
        if !self.spilled {
            let state = poll_fn(|cx| {
                if self.streaming.end.load(Ordering::Acquire) == offset {
                    return Poll::Ready(FillState::Done { len: offset });
                }
                self.reader.poll(offset, cx)
            })
            .await;
            match state {
                FillState::Grown => {
                    // The end was announced before anything was written behind it.
                    let chunk = self.reader.chunk_at(offset);
                    let left = self.streaming.end.load(Ordering::Acquire) - offset;
                    return match (chunk.len() as u64).min(left) as usize {
                        0 => Piece::End(self.streaming.trailers.lock().clone()),
                        len => Piece::Stored(&chunk[..len]),
                    };
                }
                FillState::Done { .. } => {
                    return Piece::End(self.streaming.trailers.lock().clone());
                }
                FillState::Aborted => self.spilled = true,
            }
        }
        match self.tail.recv().await {
            Some(Tail::Data(data)) => Piece::Passed(data),
            Some(Tail::End(trailers)) => Piece::End(trailers),
            None => Piece::Broken,
        }
    }
}
