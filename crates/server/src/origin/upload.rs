//! The body of a request on its way to the origin, and who is being waited for.

use std::{
    cell::Cell,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::HeaderMap;
use tokio::{
    sync::mpsc,
    time::{Duration, Instant},
};

use super::{BodyFrame, RequestBody};
use crate::clock::instant;

/// The side that has to act next in an exchange. The origin's timeouts run only while the origin is
/// the one.
#[derive(Clone, Copy, Debug)]
enum Turn {
    /// The client has not sent more of its body yet. (Its own timeouts are kept by the HTTP side.)
    Client,
    /// Since then the origin has to read, or to answer.
    Origin(Instant),
}

/// How far one exchange is; shared by the body being sent and whoever waits for the answer.
#[derive(Debug)]
pub(super) struct Progress {
    turn: Cell<Turn>,
    aborted: Cell<bool>,
    /// The client has more to send.
    uploads: Cell<bool>,
}

impl Progress {
    pub(super) fn new() -> Rc<Progress> {
        Rc::new(Progress {
            turn: Cell::new(Turn::Origin(instant())),
            aborted: Cell::new(false),
            uploads: Cell::new(false),
        })
    }

    /// When the origin has been silent for `limit`, if it stays so: counted from `since` or from
    /// its turn, whichever is later. While it is the client's turn, the earliest moment that could
    /// be.
    pub(super) fn deadline(&self, since: Instant, limit: Duration) -> Option<Instant> {
        match self.turn.get() {
            Turn::Client => instant().checked_add(limit),
            Turn::Origin(turn) => turn.max(since).checked_add(limit),
        }
    }

    /// The client's body failed, and the request was cut off.
    pub(super) fn aborted(&self) -> bool {
        self.aborted.get()
    }

    /// The client has not sent all of its body, and the origin wants it.
    pub(super) fn uploads(&self) -> bool {
        self.uploads.get()
    }

    fn origins_turn(&self) {
        self.turn.set(Turn::Origin(instant()));
    }
}

/// The client's body failed: the request is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Aborted;

/// A part of a body.
#[derive(Debug)]
pub(super) enum Part {
    Data(Bytes),
    /// The trailer section. Nothing follows.
    Trailers(HeaderMap),
    End,
}

/// A body that is being sent.
#[derive(Debug)]
pub(super) struct Upload {
    frames: Option<mpsc::Receiver<BodyFrame>>,
    /// Bytes still owed; None is chunked.
    owed: Option<u64>,
    progress: Rc<Progress>,
}

impl Upload {
    pub(super) fn new(body: RequestBody, progress: Rc<Progress>) -> Upload {
        match body {
            RequestBody::Empty | RequestBody::Stream { length: Some(0), .. } => {
                Upload { frames: None, owed: Some(0), progress }
            }
            RequestBody::Stream { length, frames } => {
                progress.uploads.set(true);
                Upload { frames: Some(frames), owed: length, progress }
            }
        }
    }

    /// The body as it was given, where nothing of it was taken.
    pub(super) fn into_request_body(mut self) -> RequestBody {
        match self.frames.take() {
            Some(frames) => RequestBody::Stream { length: self.owed, frames },
            None => RequestBody::Empty,
        }
    }

    fn data(&mut self, data: Bytes) -> Result<Part, Aborted> {
        if let Some(owed) = &mut self.owed {
            match owed.checked_sub(data.len() as u64) {
                Some(left) => *owed = left,
                None => return self.abort(),
            }
            if *owed == 0 {
                self.taken();
            }
        }
        Ok(Part::Data(data))
    }

    fn end(&mut self) -> Result<Part, Aborted> {
        if self.owed.is_some_and(|owed| owed > 0) {
            return self.abort();
        }
        self.taken();
        Ok(Part::End)
    }

    /// Nothing is left to be sent.
    fn taken(&mut self) {
        self.frames = None;
        self.progress.uploads.set(false);
    }

    fn abort(&mut self) -> Result<Part, Aborted> {
        self.frames = None;
        self.progress.aborted.set(true);
        Err(Aborted)
    }

    /// The next part of the body. One that has failed fails again each time.
    pub(super) fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, Aborted>> {
        if self.progress.aborted() {
            return Poll::Ready(Err(Aborted));
        }
        let Some(frames) = &mut self.frames else { return Poll::Ready(Ok(Part::End)) };
        let Poll::Ready(frame) = frames.poll_recv(cx) else {
            self.progress.turn.set(Turn::Client);
            return Poll::Pending;
        };
        self.progress.origins_turn();
        Poll::Ready(match frame {
            Some(BodyFrame::Data(data)) => self.data(data),
            Some(BodyFrame::Trailers(trailers)) if self.owed.is_none() => {
                self.taken();
                Ok(Part::Trailers(trailers))
            }
            Some(BodyFrame::Trailers(_) | BodyFrame::End) => self.end(),
            // The sender may be dropped at any time, as a client leaves or has its answer.
            Some(BodyFrame::Failed) | None => self.abort(),
        })
    }

    /// Whether nothing is left to be sent.
    pub(super) fn is_over(&self) -> bool {
        self.frames.is_none()
    }
}

/// It is dropped when it is sent, and also when the origin wants no more of it.
impl Drop for Upload {
    fn drop(&mut self) {
        self.progress.uploads.set(false);
        if matches!(self.progress.turn.get(), Turn::Client) {
            self.progress.origins_turn();
        }
    }
}
