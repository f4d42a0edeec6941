//! Rates from two samples of a server.

use std::time::Duration;

use crate::sample::{Commands, Counters, Face, Sample};

/// Changes over a span of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) seconds: f64,
    pub(crate) counters: Counters,
    pub(crate) commands: Commands,
}

impl Span {
    /// Between two samples. `None` if the server restarted or its counters were reset in between;
    /// the newer sample then begins the next span.
    pub(crate) fn between(older: &Sample, newer: &Sample) -> Option<Span> {
        let seconds = newer.at.saturating_duration_since(older.at).as_secs_f64();
        // `uptime` has whole seconds and is read somewhat earlier than it is compared.
        let same = older.run_id == newer.run_id
            && older.kind == newer.kind
            && newer.uptime + 1.0 >= older.uptime;
        if !same || seconds <= 0.0 {
            return None;
        }
        let counters = newer.counters.since(older.counters)?;
        let mut commands = Commands::default();
        for (kind, n) in commands.iter_mut().enumerate() {
            *n = newer.commands[kind].checked_sub(older.commands[kind])?;
        }
        Some(Span { seconds, counters, commands })
    }

    /// Since the server's start.
    pub(crate) fn lifetime(sample: &Sample) -> Span {
        // A server in its first second reports 0.
        let seconds = sample.uptime.max(1.0);
        Span { seconds, counters: sample.counters, commands: sample.commands }
    }

    pub(crate) fn rate(&self, count: u64) -> f64 {
        count as f64 / self.seconds
    }

    /// Hit ratio of the lookups in this span, 0 to 100; `None` without lookups.
    pub(crate) fn hit_percent(&self) -> Option<f64> {
        hit_percent(self.counters)
    }
}

pub(crate) fn hit_percent(counters: Counters) -> Option<f64> {
    (counters.gets > 0)
        .then(|| counters.hits.min(counters.gets) as f64 * 100.0 / counters.gets as f64)
}

/// Counters of one face between two samples, or since the start without an older one.
pub(crate) fn face_between(older: Option<&Sample>, face: &Face) -> Counters {
    let before = older.and_then(|older| older.faces.iter().find(|before| before.name == face.name));
    match before {
        Some(before) => face.counters.since(before.counters).unwrap_or_default(),
        None => face.counters,
    }
}

/// State of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerState {
    pub(crate) state: State,
    /// The last successful sample.
    pub(crate) last: Option<Sample>,
    /// The sample before it, of the same run of the server.
    pub(crate) before: Option<Sample>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// Not polled yet, or not answered yet.
    #[default]
    Waiting,
    Up,
    /// Why the last poll failed, safe to display.
    Down(String),
}

impl ServerState {
    /// Records the result of a poll.
    pub(crate) fn take(&mut self, result: Result<Sample, String>) {
        match result {
            Ok(sample) => {
                let older =
                    self.last.take().filter(|older| Span::between(older, &sample).is_some());
                self.before = older;
                self.last = Some(sample);
                self.state = State::Up;
            }
            Err(why) => self.state = State::Down(why),
        }
    }

    /// Changes in the last interval. `None` if there is only one sample of this run of the server.
    pub(crate) fn interval(&self) -> Option<Span> {
        Span::between(self.before.as_ref()?, self.last.as_ref()?)
    }

    pub(crate) fn span(&self, lifetime: bool) -> Option<Span> {
        if lifetime { self.last.as_ref().map(Span::lifetime) } else { self.interval() }
    }

    /// The last sample of a server that is up.
    pub(crate) fn up(&self) -> Option<&Sample> {
        self.last.as_ref().filter(|_| self.state == State::Up)
    }

    pub(crate) fn took(&self) -> Option<Duration> {
        self.up().map(|sample| sample.took)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Instant;

    use super::*;
    use crate::{address::Kind, sample::from_memcached, text::Text};

    /// A memcached `seconds` after `start` with this many lookups and hits.
    pub(crate) fn sample_at(
        start: Instant,
        seconds: u64,
        run_id: &str,
        gets: u64,
        hits: u64,
    ) -> Sample {
        let (used, uptime) = (gets, 100 + seconds);
        let said = [
            ("pid", run_id.to_owned()),
            ("uptime", uptime.to_string()),
            ("cmd_get", gets.to_string()),
        ];
        let more = [
            ("get_hits", hits.to_string()),
            ("bytes", used.to_string()),
            ("limit_maxbytes", "1000".to_owned()),
        ];
        let lines =
            said.into_iter().chain(more).map(|(name, value)| (Text::new(name), Text::new(&value)));
        from_memcached(
            lines.collect(),
            start + Duration::from_secs(seconds),
            Duration::from_millis(1),
        )
    }

    #[test]
    fn the_hit_ratio_is_the_intervals_own() {
        let start = Instant::now();
        let mut watched = ServerState::default();
        watched.take(Ok(sample_at(start, 0, "1", 1000, 1000)));
        assert!(watched.interval().is_none(), "one sample gives no interval");
        watched.take(Ok(sample_at(start, 4, "1", 1100, 1025)));
        let span = watched.interval().expect("an interval");
        assert_eq!(
            (span.counters.gets, span.seconds, span.rate(span.counters.gets)),
            (100, 4.0, 25.0)
        );
        assert_eq!(span.hit_percent(), Some(25.0));
        let lifetime = watched.span(true).and_then(|span| span.hit_percent()).expect("a ratio");
        assert!((lifetime - 93.18).abs() < 0.01, "{lifetime}");
    }

    #[test]
    fn nobody_asking_is_no_ratio() {
        let start = Instant::now();
        let span = Span::between(&sample_at(start, 0, "1", 5, 5), &sample_at(start, 1, "1", 5, 5))
            .expect("a span");
        assert_eq!((span.hit_percent(), span.rate(span.counters.gets)), (None, 0.0));
    }

    #[test]
    fn a_restart_begins_a_new_interval() {
        let start = Instant::now();
        // Counters decreased; another process; uptime decreased.
        assert!(
            Span::between(&sample_at(start, 0, "1", 50, 5), &sample_at(start, 1, "1", 3, 1))
                .is_none()
        );
        assert!(
            Span::between(&sample_at(start, 0, "1", 50, 5), &sample_at(start, 1, "2", 90, 9))
                .is_none()
        );
        let mut younger = sample_at(start, 1, "1", 90, 9);
        younger.uptime = 2.0;
        assert!(Span::between(&sample_at(start, 0, "1", 50, 5), &younger).is_none());
        let mut other = sample_at(start, 1, "1", 90, 9);
        other.kind = Kind::Redis;
        assert!(Span::between(&sample_at(start, 0, "1", 50, 5), &other).is_none());

        let mut watched = ServerState::default();
        watched.take(Ok(sample_at(start, 0, "1", 50, 5)));
        watched.take(Err("gone".to_owned()));
        assert_eq!(watched.state, State::Down("gone".to_owned()));
        assert!(watched.up().is_none());
        watched.take(Ok(sample_at(start, 2, "2", 90, 9)));
        assert!(watched.up().is_some() && watched.interval().is_none());
        watched.take(Ok(sample_at(start, 3, "2", 100, 9)));
        assert_eq!(watched.interval().map(|span| span.counters.gets), Some(10));
    }

    #[test]
    fn a_failed_poll_makes_the_interval_longer() {
        let start = Instant::now();
        let mut watched = ServerState::default();
        watched.take(Ok(sample_at(start, 0, "1", 0, 0)));
        watched.take(Err("slow".to_owned()));
        watched.take(Ok(sample_at(start, 10, "1", 100, 0)));
        assert_eq!(watched.interval().map(|span| span.rate(span.counters.gets)), Some(10.0));
    }

    #[test]
    fn no_time_gives_no_rates() {
        let start = Instant::now();
        assert!(
            Span::between(&sample_at(start, 0, "1", 0, 0), &sample_at(start, 0, "1", 9, 0))
                .is_none()
        );
    }
}
