//! Requests as they end, for whoever watches.
//!
//! Workers look at one flag, which nobody writes while nothing changes; only while somebody watches do they copy what the
//! access log would say into a bounded channel. All choosing, writing and sending is done on the admin thread. A channel
//! that is full costs lines, never time: what was lost is counted, and told.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use axum::{body::Bytes, extract::State, http::Uri, response::Response};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::mpsc::{self, error::TrySendError};

use super::{
    App,
    answer::Refused,
    events::{self, event},
    filter::Filter,
    place::site_name,
};
use crate::{access_log::Record, clock::Ms, measure::counted::Outcome};

/// Requests of one worker that may wait for the admin thread; then they are lost and counted.
const FEED: usize = 1024;
/// Requests that may wait for one watcher; then they are lost to it, counted, and it is told.
const WATCHER: usize = 512;
/// Bytes of a URL or field that are shown.
const SHOWN: usize = 4096;

/// A request that has ended.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Line {
    pub(super) time_ms: Ms,
    pub(super) elapsed_us: u64,
    pub(super) client: IpAddr,
    pub(super) method: String,
    pub(super) url: String,
    /// Its site; empty until the admin thread looked.
    pub(super) site: String,
    pub(super) status: u16,
    pub(super) bytes: u64,
    /// In Squid's words.
    pub(super) result: &'static str,
    /// In the words of the counters.
    #[serde(serialize_with = "word")]
    pub(super) outcome: Outcome,
    pub(super) hierarchy: String,
    pub(super) content_type: Option<String>,
    pub(super) cache_status: Option<String>,
}

fn word<S: serde::Serializer>(outcome: &Outcome, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(outcome_word(*outcome))
}

/// As the figures call it.
pub(super) fn outcome_word(outcome: Outcome) -> &'static str {
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

/// Everything between the workers and those who watch.
#[derive(Default)]
pub(crate) struct Tail {
    watched: Arc<Watched>,
    /// Taken by the admin thread when it starts.
    feeds: Mutex<Vec<mpsc::Receiver<Line>>>,
    /// Lost on the way from the workers.
    lost: Arc<AtomicU64>,
    watchers: Mutex<Vec<Watcher>>,
}

/// One worker's way to those who watch.
#[derive(Debug)]
pub(crate) struct Feed {
    watched: Arc<Watched>,
    lines: mpsc::Sender<Line>,
    lost: Arc<AtomicU64>,
}

impl Feed {
    /// Whether anybody watches: then [`Feed::tell`].
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
        place.send(Line {
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

/// Somebody who watches.
struct Watcher {
    filter: Filter,
    events: mpsc::Sender<Bytes>,
    /// Requests it was not told of, since it was last told so.
    dropped: u64,
    /// Requests it still wants.
    left: u64,
}

impl Tail {
    /// The way of one more worker.
    pub(crate) fn feed(&self) -> Feed {
        let (lines, receive) = mpsc::channel(FEED);
        self.feeds.lock().push(receive);
        Feed { watched: self.watched.clone(), lines, lost: self.lost.clone() }
    }

    /// The ends of the ways there are.
    pub(super) fn take_feeds(&self) -> Vec<mpsc::Receiver<Line>> {
        std::mem::take(&mut self.feeds.lock())
    }

    fn join(&self, filter: Filter) -> mpsc::Receiver<Bytes> {
        let (events, receive) = mpsc::channel(WATCHER);
        let left = filter.limit.unwrap_or(u64::MAX);
        self.watchers.lock().push(Watcher { filter, events, dropped: 0, left });
        self.watched.0.store(true, Relaxed);
        receive
    }

    fn tell(&self, line: &Line) {
        let lost = self.lost.swap(0, Relaxed);
        let mut watchers = self.watchers.lock();
        let mut made = None;
        watchers.retain_mut(|watcher| {
            watcher.dropped += lost;
            watcher.tell(line, &mut made)
        });
        if watchers.is_empty() {
            // Under the lock, so that it cannot come after the flag of one who joins.
            self.watched.0.store(false, Relaxed);
        }
    }
}

impl Watcher {
    /// False: it has gone, or has had all it wanted.
    fn tell(&mut self, line: &Line, made: &mut Option<Bytes>) -> bool {
        if self.events.is_closed() {
            return false;
        }
        if !self.filter.wants(line) {
            return true;
        }
        if self.dropped > 0 && self.events.try_send(dropped(self.dropped)).is_ok() {
            self.dropped = 0;
        }
        let event = made.get_or_insert_with(|| event("request", line)).clone();
        match self.events.try_send(event) {
            Ok(()) => self.left -= 1,
            Err(TrySendError::Full(_)) => self.dropped += 1,
            Err(TrySendError::Closed(_)) => return false,
        }
        self.left > 0
    }
}

fn dropped(count: u64) -> Bytes {
    event("dropped", &serde_json::json!({"count": count}))
}

/// Passes on what one worker tells; ends with the worker.
pub(super) async fn pass_on(app: Arc<App>, tail: Arc<Tail>, mut lines: mpsc::Receiver<Line>) {
    while let Some(mut line) = lines.recv().await {
        let settings = app.settings();
        line.site = site_name(&settings, host_of(&line.url)).to_owned();
        tail.tell(&line);
        // What filters cost is their watchers' choice: others on this thread have their turn between two requests.
        tokio::task::yield_now().await;
    }
}

/// The host in a URL as it is logged, without port.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    match authority.rfind(':') {
        Some(at) if !authority[at..].contains(']') => &authority[..at],
        _ => authority,
    }
}

/// Requests as they end.
pub(super) async fn log(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Refused> {
    let filter = Filter::of(&uri)?;
    let absent = || Refused::absent("no_face", "HTTP is not served here");
    let tail = app.http.as_ref().and_then(|http| http.tail.get()).ok_or_else(absent)?;
    let place = app.watchers.places.take()?;
    Ok(events::stream(tail.join(filter), place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access_log::{Hierarchy, ResultCode};

    fn record(url: &str) -> Record<'_> {
        Record {
            time: 1,
            elapsed_us: 2,
            client: IpAddr::from([127, 0, 0, 1]),
            method: "GET",
            url,
            http_version: "HTTP/1.1",
            status: 200,
            bytes: 3,
            body_bytes: 1,
            result: ResultCode::TcpMemHit,
            hierarchy: Hierarchy::None,
            content_type: None,
            user: None,
            referer: None,
            user_agent: None,
            cache_status: None,
        }
    }

    fn filter(query: &str) -> Filter {
        Filter::of(&query.parse().expect("a URI")).expect("a filter")
    }

    #[test]
    fn only_who_watches_costs_anything_and_the_last_one_ends_it() {
        let tail = Tail::default();
        let feed = tail.feed();
        assert!(!feed.watched());
        let watcher = tail.join(filter("/"));
        assert!(feed.watched());
        drop(watcher);
        feed.tell(&record("http://a/"), Outcome::Hit);
        let line = tail.take_feeds()[0].try_recv().expect("a line");
        tail.tell(&line);
        assert!(!feed.watched());
    }

    #[test]
    fn what_is_lost_is_told() {
        let tail = Tail::default();
        let feed = tail.feed();
        let mut watcher = tail.join(filter("/"));
        for _ in 0..FEED + 10 {
            feed.tell(&record("http://a/"), Outcome::Hit);
        }
        let mut lines = tail.take_feeds().remove(0);
        while let Ok(line) = lines.try_recv() {
            tail.tell(&line);
        }
        let mut told = Vec::new();
        while let Ok(event) = watcher.try_recv() {
            told.push(event);
        }
        assert_eq!(told.len(), WATCHER);
        feed.tell(&record("http://a/"), Outcome::Hit);
        tail.tell(&lines.try_recv().expect("a line"));
        let lost = FEED + 10 + 1 - WATCHER - 1 + 1;
        let first = told.first().expect("an event");
        assert!(first.starts_with(b"event: dropped\ndata: {\"count\":10}"), "{first:?}");
        let event = watcher.try_recv().expect("told");
        let expected = format!("event: dropped\ndata: {{\"count\":{}}}\n\n", lost - 10);
        assert_eq!(event, expected.as_bytes());
        assert!(watcher.try_recv().expect("the line").starts_with(b"event: request\n"));
    }

    #[test]
    fn a_limit_ends_it() {
        let tail = Tail::default();
        let feed = tail.feed();
        let mut watcher = tail.join(filter("/?limit=2&url=yes"));
        for url in ["http://a/yes", "http://a/no", "http://a/yes", "http://a/yes"] {
            feed.tell(&record(url), Outcome::Hit);
        }
        let mut lines = tail.take_feeds().remove(0);
        while let Ok(line) = lines.try_recv() {
            tail.tell(&line);
        }
        assert!(watcher.try_recv().is_ok() && watcher.try_recv().is_ok());
        assert_eq!(watcher.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
    }

    #[test]
    fn hosts_are_found_in_urls() {
        for (url, host) in [
            ("http://a.org/x:y", "a.org"),
            ("https://a.org:81?q", "a.org"),
            ("http://[::1]:80/", "[::1]"),
            ("http://[::1]/", "[::1]"),
            ("error:invalid-request", "error"),
        ] {
            assert_eq!(host_of(url), host);
        }
    }
}
