//! Requests as they end, for those who watch them live.
//!
//! Workers look at one flag, which nobody writes while nothing changes. Only while somebody watches
//! do they copy what the access log would say into a bounded channel; the receiving side chooses,
//! writes and sends. A full channel costs lines, never time: lost lines are counted, and watchers
//! are told.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use larder_metrics::{LogLine, Outcome};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::Record;

/// Requests of one worker that may wait for the receiving side; then they are lost and counted.
pub(crate) const FEED: usize = 1024;
/// Bytes of a URL or field that are shown.
const SHOWN: usize = 4096;

/// On a line of memory of its own: workers read it for every request, and it is written when the
/// first watcher comes and after the last has gone.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Watched(AtomicBool);

/// The way from the workers to those who watch.
#[derive(Debug, Default)]
pub(crate) struct LiveLog {
    watched: Arc<Watched>,
    /// Taken by the receiving side when it starts.
    feeds: Mutex<Vec<mpsc::Receiver<LogLine>>>,
    /// Lost on the way.
    lost: Arc<AtomicU64>,
}

impl LiveLog {
    /// The feed of one more worker.
    pub(crate) fn feed(&self) -> LiveFeed {
        let (lines, receive) = mpsc::channel(FEED);
        self.feeds.lock().push(receive);
        LiveFeed { watched: self.watched.clone(), lines, lost: self.lost.clone() }
    }

    /// The receiving ends of all feeds.
    pub(crate) fn take_feeds(&self) -> Vec<mpsc::Receiver<LogLine>> {
        std::mem::take(&mut self.feeds.lock())
    }

    /// Lines lost since the last call.
    pub(crate) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Relaxed)
    }

    /// Somebody watches, or nobody does any more.
    pub(crate) fn set_watched(&self, watched: bool) {
        self.watched.0.store(watched, Relaxed);
    }
}

/// One worker's way to those who watch.
#[derive(Debug)]
pub(crate) struct LiveFeed {
    watched: Arc<Watched>,
    lines: mpsc::Sender<LogLine>,
    lost: Arc<AtomicU64>,
}

impl LiveFeed {
    /// Whether anybody watches: then [`LiveFeed::tell`].
    #[inline]
    pub(crate) fn watched(&self) -> bool {
        self.watched.0.load(Relaxed)
    }

    /// Hands over a request that has ended. Never waits.
    #[cold]
    pub(crate) fn tell(&self, record: &Record<'_>, outcome: Outcome) {
        let Ok(place) = self.lines.try_reserve() else {
            self.lost.fetch_add(1, Relaxed);
            return;
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]).into_owned();
        let hierarchy = match record.hierarchy.peer() {
            Some(peer) => format!("{}/{peer}", record.hierarchy.as_str()),
            None => record.hierarchy.as_str().to_owned(),
        };
        place.send(LogLine {
            time_ms: record.time,
            elapsed_us: record.elapsed_us,
            client: record.client.to_string(),
            method: text(record.method.as_bytes()),
            url: text(record.url.as_bytes()),
            site: String::new(),
            status: record.status,
            bytes: record.bytes,
            result: record.result.as_str().into(),
            outcome: outcome.as_str().into(),
            hierarchy,
            content_type: record.content_type.map(text),
            cache_status: record.cache_status.map(text),
        });
    }
}
