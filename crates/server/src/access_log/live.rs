//! A live feed of requests as they end, for watchers.
//!
//! Workers check one flag, which is only written when the first watcher comes and the last one
//! leaves. Only while there are watchers do they copy the fields of the access log into a bounded
//! channel; the receiver filters, formats and sends. If the channel is full, lines are dropped and
//! counted, and watchers are informed; a worker never waits.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use larder_metrics::{LogLine, Outcome};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::Record;

/// Capacity of a worker's channel, in requests; further ones are dropped and counted.
pub(crate) const FEED: usize = 1024;
/// Longest shown part of a URL or field, in bytes.
const SHOWN: usize = 4096;

/// Whether there are watchers, on a cache line of its own: workers read it for every request, and
/// it is written when the first watcher comes and after the last has gone.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Watched(AtomicBool);

/// The channels from the workers to the watchers.
#[derive(Debug, Default)]
pub(crate) struct LiveLog {
    watched: Arc<Watched>,
    /// Taken by the receiver when it starts.
    feeds: Mutex<Vec<mpsc::Receiver<LogLine>>>,
    /// Dropped lines since the last look.
    lost: Arc<AtomicU64>,
}

impl LiveLog {
    /// Adds the feed of a worker.
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

    /// Sets whether there are watchers.
    pub(crate) fn set_watched(&self, watched: bool) {
        self.watched.0.store(watched, Relaxed);
    }
}

/// The feed of one worker.
#[derive(Debug)]
pub(crate) struct LiveFeed {
    watched: Arc<Watched>,
    lines: mpsc::Sender<LogLine>,
    lost: Arc<AtomicU64>,
}

impl LiveFeed {
    /// Whether there are watchers: then call [`LiveFeed::send`].
    #[inline]
    pub(crate) fn watched(&self) -> bool {
        self.watched.0.load(Relaxed)
    }

    /// Sends a request that has ended. Never waits.
    #[cold]
    pub(crate) fn send(&self, record: &Record<'_>, outcome: Outcome) {
        let Ok(place) = self.lines.try_reserve() else {
            self.lost.fetch_add(1, Relaxed);
            return;
        };
        let text =
            |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]).into_owned();
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
            reference: record.reference.map(str::to_owned),
            http_version: record.http_version.to_owned(),
            tls: record.tls.map(|tls| {
                let resumed = if tls.resumed { " resumed" } else { "" };
                format!("{} {}{resumed}", tls.version, tls.cipher)
            }),
        });
    }
}
