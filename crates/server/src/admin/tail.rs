//! The stream of requests as they end. Filtering, formatting and sending run on the admin thread.

use std::sync::Arc;

use axum::{body::Bytes, extract::State, http::Uri, response::Response};
use larder_metrics::LogLine;
use parking_lot::Mutex;
use tokio::sync::mpsc::{self, error::TrySendError};

use super::{
    App,
    answer::Refused,
    events::{self, event},
    filter::Filter,
    page_url::site_name,
};
use crate::access_log::live::LiveLog;

/// Requests that may wait for one watcher; further ones are dropped and counted, and the watcher is
/// informed.
const WATCHER: usize = 512;

/// All watchers.
pub(super) struct Tail {
    live: Arc<LiveLog>,
    watchers: Mutex<Vec<Watcher>>,
}

/// One watcher.
struct Watcher {
    filter: Filter,
    events: mpsc::Sender<Bytes>,
    /// Requests dropped since the watcher was last informed.
    dropped: u64,
    /// Requests until its limit.
    left: u64,
}

impl Tail {
    pub(super) fn new(live: Arc<LiveLog>) -> Arc<Self> {
        Arc::new(Self { live, watchers: Mutex::default() })
    }

    /// The receiving ends of the workers' feeds.
    pub(super) fn take_feeds(&self) -> Vec<mpsc::Receiver<LogLine>> {
        self.live.take_feeds()
    }

    fn join(&self, filter: Filter) -> mpsc::Receiver<Bytes> {
        let (events, receive) = mpsc::channel(WATCHER);
        let left = filter.limit.unwrap_or(u64::MAX);
        self.watchers.lock().push(Watcher { filter, events, dropped: 0, left });
        self.live.set_watched(true);
        receive
    }

    fn tell(&self, line: &LogLine) {
        let lost = self.live.take_lost();
        let mut watchers = self.watchers.lock();
        let mut made = None;
        watchers.retain_mut(|watcher| {
            watcher.dropped += lost;
            watcher.tell(line, &mut made)
        });
        if watchers.is_empty() {
            // Under the lock, so that it cannot overwrite the flag of a new watcher.
            self.live.set_watched(false);
        }
    }
}

impl Watcher {
    /// False: it has left, or reached its limit.
    fn tell(&mut self, line: &LogLine, made: &mut Option<Bytes>) -> bool {
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

/// Forwards the feed of one worker; ends with the worker.
pub(super) async fn pass_on(app: Arc<App>, tail: Arc<Tail>, mut lines: mpsc::Receiver<LogLine>) {
    while let Some(mut line) = lines.recv().await {
        let settings = app.settings();
        line.site = site_name(&settings, host_of(&line.url)).to_owned();
        tail.tell(&line);
        // Filters may be expensive: other tasks of this thread get their turn between two requests.
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
    let tail = app.tail.as_ref().ok_or_else(absent)?;
    let permit = app.watchers.permits.take()?;
    Ok(events::stream(tail.join(filter), permit))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use larder_metrics::Outcome;

    use super::*;
    use crate::access_log::{Hierarchy, Record, ResultCode, live::FEED};

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
            reference: None,
            tls: None,
        }
    }

    fn filter(query: &str) -> Filter {
        Filter::of(&query.parse().expect("a URI")).expect("a filter")
    }

    #[test]
    fn only_who_watches_costs_anything_and_the_last_one_ends_it() {
        let tail = Tail::new(Arc::default());
        let feed = tail.live.feed();
        assert!(!feed.watched());
        let watcher = tail.join(filter("/"));
        assert!(feed.watched());
        drop(watcher);
        feed.send(&record("http://a/"), Outcome::Hit);
        let line = tail.take_feeds()[0].try_recv().expect("a line");
        tail.tell(&line);
        assert!(!feed.watched());
    }

    #[test]
    fn what_is_lost_is_told() {
        let tail = Tail::new(Arc::default());
        let feed = tail.live.feed();
        let mut watcher = tail.join(filter("/"));
        for _ in 0..FEED + 10 {
            feed.send(&record("http://a/"), Outcome::Hit);
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
        feed.send(&record("http://a/"), Outcome::Hit);
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
        let tail = Tail::new(Arc::default());
        let feed = tail.live.feed();
        let mut watcher = tail.join(filter("/?limit=2&url=yes"));
        for url in ["http://a/yes", "http://a/no", "http://a/yes", "http://a/yes"] {
            feed.send(&record(url), Outcome::Hit);
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
