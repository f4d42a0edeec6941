//! Server-sent events, with limits for watchers that do not keep up.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, header},
    response::Response,
};
use http_body::Frame;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::{
    sync::{
        OwnedSemaphorePermit, Semaphore,
        mpsc::{self, error::TrySendError},
    },
    time::{Interval, MissedTickBehavior, interval},
};

use super::answer::Refused;

/// Watchers at once, of all kinds; the next one gets 503.
const WATCHERS: usize = 32;
/// Time without an event after which a comment is sent, so that proxies keep the connection open
/// and a watcher that has left is noticed.
const BEAT: Duration = Duration::from_secs(15);

/// Permits for watchers.
pub(super) struct WatcherPermits(Arc<Semaphore>);

impl Default for WatcherPermits {
    fn default() -> Self {
        WatcherPermits(Arc::new(Semaphore::new(WATCHERS)))
    }
}

impl WatcherPermits {
    pub(super) fn take(&self) -> Result<OwnedSemaphorePermit, Refused> {
        let full = |_| Refused::busy(format!("{WATCHERS} watch already: close one"));
        self.0.clone().try_acquire_owned().map_err(full)
    }

    /// Nobody watches.
    pub(super) fn are_free(&self) -> bool {
        self.0.available_permits() == WATCHERS
    }
}

/// One event.
pub(super) fn event(name: &str, data: &impl Serialize) -> Bytes {
    let mut out = format!("event: {name}\ndata: ").into_bytes();
    // JSON has no line ends outside its strings, and escapes those inside.
    if serde_json::to_writer(&mut out, data).is_err() {
        return Bytes::from_static(b": an event that could not be written\n\n");
    }
    out.extend_from_slice(b"\n\n");
    out.into()
}

/// A response that lasts as long as its watcher.
pub(super) fn stream(events: mpsc::Receiver<Bytes>, permit: OwnedSemaphorePermit) -> Response {
    let mut beat = interval(BEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut response = Response::new(Body::new(Events { events, beat, _permit: permit }));
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // A proxy (nginx) must not buffer events.
    fields.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

struct Events {
    events: mpsc::Receiver<Bytes>,
    beat: Interval,
    _permit: OwnedSemaphorePermit,
}

impl http_body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Poll::Ready(event) = self.events.poll_recv(cx) {
            self.beat.reset();
            return Poll::Ready(event.map(|event| Ok(Frame::data(event))));
        }
        // The first tick comes at once, so that the watcher sees that it is connected.
        match self.beat.poll_tick(cx) {
            Poll::Ready(_) => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b":\n\n"))))),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// Events that may wait for a watcher of figures. A slower watcher misses some; each event is
/// complete in itself.
const BEHIND: usize = 4;

/// The watchers of one stream.
#[derive(Default)]
pub(super) struct Hub(Mutex<Vec<mpsc::Sender<Bytes>>>);

impl Hub {
    /// Adds a watcher; `first` is sent at once.
    pub(super) fn join(&self, first: Option<Bytes>) -> mpsc::Receiver<Bytes> {
        let (send, receive) = mpsc::channel(BEHIND);
        if let Some(first) = first {
            let _ = send.try_send(first);
        }
        self.0.lock().push(send);
        receive
    }

    /// Sends an event to all; it is only composed if there are watchers.
    pub(super) fn tell(&self, event: impl FnOnce() -> Bytes) {
        let mut watchers = self.0.lock();
        watchers.retain(|watcher| !watcher.is_closed());
        if watchers.is_empty() {
            return;
        }
        let event = event();
        watchers.retain(|watcher| {
            !matches!(watcher.try_send(event.clone()), Err(TrySendError::Closed(_)))
        });
    }
}
