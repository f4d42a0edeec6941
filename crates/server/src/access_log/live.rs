//! Requests as they end, for those who watch them live.
//!
//! Workers look at one flag, which nobody writes while nothing changes. Only while somebody watches do they copy what the
//! access log would say into a bounded channel; the receiving side chooses, writes and sends. A full channel costs lines,
//! never time: lost lines are counted, and watchers are told.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::mpsc;

use super::Record;
use crate::{clock::Ms, measure::counted::Outcome};

/// Requests of one worker that may wait for the receiving side; then they are lost and counted.
pub(crate) const FEED: usize = 1024;
/// Bytes of a URL or field that are shown.
const SHOWN: usize = 4096;

/// A request that has ended.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LiveLine {
    pub(crate) time_ms: Ms,
    pub(crate) elapsed_us: u64,
    pub(crate) client: IpAddr,
    pub(crate) method: String,
    pub(crate) url: String,
    /// Its site; empty until the receiving side has looked.
    pub(crate) site: String,
    pub(crate) status: u16,
    pub(crate) bytes: u64,
    /// In Squid's words.
    pub(crate) result: &'static str,
    /// In the words of the counters.
    #[serde(serialize_with = "word")]
    pub(crate) outcome: Outcome,
    pub(crate) hierarchy: String,
    pub(crate) content_type: Option<String>,
    pub(crate) cache_status: Option<String>,
}

fn word<S: serde::Serializer>(outcome: &Outcome, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(outcome_word(*outcome))
}

/// As the figures call it.
pub(crate) fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Hit => "hit",
        Outcome::Stale => "stale",
        Outcome::Refresh => "refresh",
        Outcome::Coalesced => "coalesced",
        Outcome::Miss => "miss",
        Outcome::Pass => "pass",
        Outcome::HitForMiss => "hit_for_miss",
        Outcome::Error => "error",
        Outcome::Purge => "purge",
        Outcome::Denied => "denied",
        Outcome::Refused | Outcome::Rejected => "refused",
        Outcome::Tunnel => "tunnel",
        Outcome::Aborted => "aborted",
    }
}

/// On a line of memory of its own: workers read it for every request, and it is written when the first watcher comes and
/// after the last has gone.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Watched(AtomicBool);

/// The way from the workers to those who watch.
#[derive(Debug, Default)]
pub(crate) struct LiveLog {
    watched: Arc<Watched>,
    /// Taken by the receiving side when it starts.
    feeds: Mutex<Vec<mpsc::Receiver<LiveLine>>>,
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
    pub(crate) fn take_feeds(&self) -> Vec<mpsc::Receiver<LiveLine>> {
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
    lines: mpsc::Sender<LiveLine>,
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
        place.send(LiveLine {
            time_ms: record.time,
            elapsed_us: record.elapsed_us,
            client: record.client,
            method: text(record.method.as_bytes()),
            url: text(record.url.as_bytes()),
            site: String::new(),
            status: record.status,
            bytes: record.bytes,
            result: record.result.as_str(),
            outcome,
            hierarchy,
            content_type: record.content_type.map(text),
            cache_status: record.cache_status.map(text),
        });
    }
}
