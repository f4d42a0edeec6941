//! A validated load, from which sources are made.

use std::sync::Arc;

use super::{
    Keys, Lengths, Mix, Popularity, Sizes, Source, Think, Verb,
    popularity::KeyChooser,
    synthetic::{SyntheticSource, SyntheticSpec},
    trace::{Replay, SkippedLines, Trace},
};

/// Most keys per get: accepted by memcached's command line and Redis's arrays without reaching a
/// limit of theirs.
pub(crate) const MULTI: usize = 1000;
/// Default length of a value in bytes.
const SIZE: usize = 100;

/// A load without target and times. Threads take their [`Source`]s from it.
#[derive(Clone, Debug)]
pub struct Load {
    what: Kind,
    mix: Option<Mix>,
    sizes: Option<Sizes>,
    think: Think,
    multi: usize,
    ttl: Option<u32>,
    seed: u64,
}

#[derive(Clone, Debug)]
enum Kind {
    Made { keys: Keys, popularity: Popularity },
    Recorded(Arc<Trace>),
}

impl Load {
    /// Gets of these keys with equal probability.
    pub fn of(keys: Keys) -> Load {
        let what = Kind::Made { keys, popularity: Popularity::Uniform };
        Load { what, mix: None, sizes: None, think: Think::None, multi: 1, ttl: None, seed: 1 }
    }

    /// The requests of a recorded trace, in order.
    pub fn recorded(trace: Trace) -> Load {
        let what = Kind::Recorded(Arc::new(trace));
        Load { what, mix: None, sizes: None, think: Think::None, multi: 1, ttl: None, seed: 1 }
    }

    /// Sets the popularity of keys. A trace keeps its own order.
    #[must_use]
    pub fn popularity(mut self, wanted: Popularity) -> Load {
        if let Kind::Made { popularity, .. } = &mut self.what {
            *popularity = wanted;
        }
        self
    }

    /// Sets the shares of operations; replaces those of a trace.
    #[must_use]
    pub fn mix(self, mix: Mix) -> Load {
        Load { mix: Some(mix), ..self }
    }

    /// Sets the sizes of values; replaces those of a trace.
    #[must_use]
    pub fn sizes(self, sizes: Sizes) -> Load {
        Load { sizes: Some(sizes), ..self }
    }

    /// Sets the think time.
    #[must_use]
    pub fn think(self, think: Think) -> Load {
        Load { think, ..self }
    }

    /// Sets the keys per get, 1 to 1000. A trace is replayed key by key.
    #[must_use]
    pub fn multi(self, multi: usize) -> Load {
        Load { multi: multi.clamp(1, MULTI), ..self }
    }

    /// Sets the time to live of written values in seconds, 0: no limit; replaces those of a trace.
    #[must_use]
    pub fn ttl(self, ttl: u32) -> Load {
        Load { ttl: Some(ttl), ..self }
    }

    /// Sets the seed: the same seed gives the same stream.
    #[must_use]
    pub fn seed(self, seed: u64) -> Load {
        Load { seed, ..self }
    }

    /// Number of its keys; None: those of a trace, which are not counted.
    pub fn key_count(&self) -> Option<u64> {
        match &self.what {
            Kind::Made { keys, .. } => Some(keys.count()),
            Kind::Recorded(_) => None,
        }
    }

    /// The seed, for other random choices of a run.
    pub fn seed_used(&self) -> u64 {
        self.seed
    }

    /// Requests of thread `thread` of `threads`. `seed` is the same for all sources of a run.
    pub fn source(&self, thread: usize, threads: usize, seed: u64) -> Box<dyn Source> {
        let (thread, threads) = (thread as u64, threads.max(1) as u64);
        match &self.what {
            Kind::Made { keys, popularity } => {
                let chooser = KeyChooser::new(*popularity, keys.count(), thread, threads, seed);
                Box::new(SyntheticSource::new(keys.clone(), self.recipe(), chooser, thread, seed))
            }
            Kind::Recorded(trace) => {
                let overrides = super::trace::Overrides {
                    mix: self.mix.clone(),
                    sizes: self.sizes.clone(),
                    ttl: self.ttl,
                    think: self.think,
                };
                Box::new(Replay::new(Arc::clone(trace), overrides, thread, threads, seed))
            }
        }
    }

    /// Lengths of the values that gets return. `filled`: all were written by this load before.
    pub fn lengths(&self, filled: bool) -> Lengths {
        match (&self.what, &self.sizes) {
            (_, Some(sizes)) => Lengths::Known(sizes.clone()),
            (Kind::Recorded(_), None) => Lengths::Any,
            (Kind::Made { .. }, None) if filled => Lengths::Known(self.sizes_used()),
            (Kind::Made { .. }, None) => Lengths::NotEmpty,
        }
    }

    fn sizes_used(&self) -> Sizes {
        self.sizes.clone().unwrap_or_else(|| Sizes::fixed(SIZE))
    }

    fn recipe(&self) -> SyntheticSpec {
        SyntheticSpec {
            mix: self.mix.clone().unwrap_or_else(|| Mix::only(Verb::Get)),
            sizes: self.sizes_used(),
            think: self.think,
            multi: self.multi,
            ttl: self.ttl.unwrap_or(0),
        }
    }

    /// Lines of the trace so far that were not requests.
    pub fn skipped(&self) -> Option<&SkippedLines> {
        match &self.what {
            Kind::Made { .. } => None,
            Kind::Recorded(trace) => Some(trace.skipped()),
        }
    }

    /// Whether requests have times, so that they can be replayed as recorded.
    pub fn is_timed(&self) -> bool {
        matches!(&self.what, Kind::Recorded(trace) if trace.is_timed())
    }

    /// Description for the head of a report.
    pub fn describe(&self) -> Vec<(String, String)> {
        let mut all: Vec<(&str, String)> = Vec::new();
        match &self.what {
            Kind::Made { keys, popularity } => {
                all.push(("keys", keys.describe()));
                if keys.count() > 1 {
                    all.push(("popularity", popularity.describe()));
                }
            }
            Kind::Recorded(trace) => all.push(("trace", trace.describe())),
        }
        all.extend(self.mix.as_ref().map(|mix| ("operations", mix.describe())));
        all.extend(self.sizes.as_ref().map(|sizes| ("value size", sizes.describe())));
        all.extend(self.think.describe().map(|think| ("think time", think)));
        all.extend((self.multi > 1).then(|| ("keys per get", self.multi.to_string())));
        all.extend(self.ttl.filter(|ttl| *ttl > 0).map(|ttl| ("time to live", format!("{ttl} s"))));
        all.push(("seed", self.seed.to_string()));
        all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}
