//! From two looks at a server to what happened between them.

use std::time::Duration;

use crate::sample::{Commands, Counters, Face, Sample};

/// What happened in a span of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) seconds: f64,
    pub(crate) counters: Counters,
    pub(crate) commands: Commands,
}

impl Span {
    /// Between two looks. None when the server began anew in between, or its counters did: the newer look is then the begin of
    /// the next span.
    pub(crate) fn between(older: &Sample, newer: &Sample) -> Option<Span> {
        let seconds = newer.at.saturating_duration_since(older.at).as_secs_f64();
        // `uptime` has whole seconds only, and is read somewhat before it is compared.
        let same = older.life == newer.life && older.kind == newer.kind && newer.uptime + 1.0 >= older.uptime;
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
        // A server in its first second says 0.
        let seconds = sample.uptime.max(1.0);
        Span { seconds, counters: sample.counters, commands: sample.commands }
    }

    pub(crate) fn rate(&self, count: u64) -> f64 {
        count as f64 / self.seconds
    }

    /// Hits of the lookups in this span, 0 to 100; none when nobody asked.
    pub(crate) fn hit_percent(&self) -> Option<f64> {
        hit_percent(self.counters)
    }
}

pub(crate) fn hit_percent(counters: Counters) -> Option<f64> {
    (counters.gets > 0).then(|| counters.hits.min(counters.gets) as f64 * 100.0 / counters.gets as f64)
}

/// What one face did between two looks, or since the start when there is no older one.
pub(crate) fn face_between(older: Option<&Sample>, face: &Face) -> Counters {
    let before = older.and_then(|older| older.faces.iter().find(|before| before.name == face.name));
    match before {
        Some(before) => face.counters.since(before.counters).unwrap_or_default(),
        None => face.counters,
    }
}

/// What is known of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    pub(crate) state: State,
    /// The last look that was answered.
    pub(crate) last: Option<Sample>,
    /// The one before it, of the same life.
    pub(crate) before: Option<Sample>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// Not asked yet, or not answered yet.
    #[default]
    Waiting,
    Up,
    /// Why the last look failed, harmless to show.
    Down(String),
}

impl Watched {
    /// Takes what came of a look.
    pub(crate) fn take(&mut self, look: Result<Sample, String>) {
        match look {
            Ok(sample) => {
                let older = self.last.take().filter(|older| Span::between(older, &sample).is_some());
                self.before = older;
                self.last = Some(sample);
                self.state = State::Up;
            }
            Err(why) => self.state = State::Down(why),
        }
    }

    /// What happened in the last interval. None while there was only one look at this life of the server.
    pub(crate) fn interval(&self) -> Option<Span> {
        Span::between(self.before.as_ref()?, self.last.as_ref()?)
    }

    pub(crate) fn span(&self, lifetime: bool) -> Option<Span> {
        if lifetime { self.last.as_ref().map(Span::lifetime) } else { self.interval() }
    }

    /// The last look, of a server that is up.
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
    pub(crate) fn look(start: Instant, seconds: u64, life: &str, gets: u64, hits: u64) -> Sample {
        let (used, uptime) = (gets, 100 + seconds);
        let said = [("pid", life.to_owned()), ("uptime", uptime.to_string()), ("cmd_get", gets.to_string())];
        let more = [
            ("get_hits", hits.to_string()),
            ("bytes", used.to_string()),
            ("limit_maxbytes", "1000".to_owned()),
        ];
        let lines = said.into_iter().chain(more).map(|(name, value)| (Text::new(name), Text::new(&value)));
        from_memcached(lines.collect(), start + Duration::from_secs(seconds), Duration::from_millis(1))
    }

    #[test]
    fn the_hit_ratio_is_the_intervals_own() {
        let start = Instant::now();
        let mut watched = Watched::default();
        watched.take(Ok(look(start, 0, "1", 1000, 1000)));
        assert!(watched.interval().is_none(), "one look gives no interval");
        watched.take(Ok(look(start, 4, "1", 1100, 1025)));
        let span = watched.interval().expect("an interval");
        assert_eq!((span.counters.gets, span.seconds, span.rate(span.counters.gets)), (100, 4.0, 25.0));
        assert_eq!(span.hit_percent(), Some(25.0));
        let lifetime = watched.span(true).and_then(|span| span.hit_percent()).expect("a ratio");
        assert!((lifetime - 93.18).abs() < 0.01, "{lifetime}");
    }

    #[test]
    fn nobody_asking_is_no_ratio() {
        let start = Instant::now();
        let span = Span::between(&look(start, 0, "1", 5, 5), &look(start, 1, "1", 5, 5)).expect("a span");
        assert_eq!((span.hit_percent(), span.rate(span.counters.gets)), (None, 0.0));
    }

    #[test]
    fn a_restart_begins_a_new_interval() {
        let start = Instant::now();
        // The counters went back; the process is another; the clock of the server went back.
        assert!(Span::between(&look(start, 0, "1", 50, 5), &look(start, 1, "1", 3, 1)).is_none());
        assert!(Span::between(&look(start, 0, "1", 50, 5), &look(start, 1, "2", 90, 9)).is_none());
        let mut younger = look(start, 1, "1", 90, 9);
        younger.uptime = 2.0;
        assert!(Span::between(&look(start, 0, "1", 50, 5), &younger).is_none());
        let mut other = look(start, 1, "1", 90, 9);
        other.kind = Kind::Redis;
        assert!(Span::between(&look(start, 0, "1", 50, 5), &other).is_none());

        let mut watched = Watched::default();
        watched.take(Ok(look(start, 0, "1", 50, 5)));
        watched.take(Err("gone".to_owned()));
        assert_eq!(watched.state, State::Down("gone".to_owned()));
        assert!(watched.up().is_none());
        watched.take(Ok(look(start, 2, "2", 90, 9)));
        assert!(watched.up().is_some() && watched.interval().is_none());
        watched.take(Ok(look(start, 3, "2", 100, 9)));
        assert_eq!(watched.interval().map(|span| span.counters.gets), Some(10));
    }

    #[test]
    fn a_look_that_failed_makes_the_interval_longer() {
        let start = Instant::now();
        let mut watched = Watched::default();
        watched.take(Ok(look(start, 0, "1", 0, 0)));
        watched.take(Err("slow".to_owned()));
        watched.take(Ok(look(start, 10, "1", 100, 0)));
        assert_eq!(watched.interval().map(|span| span.rate(span.counters.gets)), Some(10.0));
    }

    #[test]
    fn no_time_gives_no_rates() {
        let start = Instant::now();
        assert!(Span::between(&look(start, 0, "1", 0, 0), &look(start, 0, "1", 9, 0)).is_none());
    }
}
