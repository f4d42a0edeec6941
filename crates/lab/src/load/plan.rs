//! A load, checked: what sources are made of.

use std::sync::Arc;

use super::{
    Keys, Lengths, Mix, Popularity, Sizes, Source, Think, Verb,
    mixed::{Mixed, Recipe},
    popularity::Picker,
    trace::{Replay, Trace, Troubles},
};

/// Most keys of one get: memcached's line of commands and Redis's arrays take this many without a limit of theirs in the way.
pub(crate) const MULTI: usize = 1000;
/// Bytes of a value where nothing else is said.
const SIZE: usize = 100;

/// A load: everything but where it goes and when. Threads take their [`Source`]s from it.
#[derive(Clone, Debug)]
pub struct Load {
    what: What,
    mix: Option<Mix>,
    sizes: Option<Sizes>,
    think: Think,
    multi: usize,
    ttl: Option<u32>,
    seed: u64,
}

#[derive(Clone, Debug)]
enum What {
    Made { keys: Keys, popularity: Popularity },
    Recorded(Arc<Trace>),
}

impl Load {
    /// Gets of these keys, each as often as any other.
    pub fn of(keys: Keys) -> Load {
        let what = What::Made { keys, popularity: Popularity::Uniform };
        Load { what, mix: None, sizes: None, think: Think::None, multi: 1, ttl: None, seed: 1 }
    }

    /// The requests of a recorded trace, in its order.
    pub fn recorded(trace: Trace) -> Load {
        let what = What::Recorded(Arc::new(trace));
        Load { what, mix: None, sizes: None, think: Think::None, multi: 1, ttl: None, seed: 1 }
    }

    /// Which keys are asked for. A trace has its own order, and keeps it.
    #[must_use]
    pub fn popularity(mut self, wanted: Popularity) -> Load {
        if let What::Made { popularity, .. } = &mut self.what {
            *popularity = wanted;
        }
        self
    }

    /// Which operations, in which shares; for a trace, instead of those it recorded.
    #[must_use]
    pub fn mix(self, mix: Mix) -> Load {
        Load { mix: Some(mix), ..self }
    }

    /// How long values are; for a trace, instead of what it recorded.
    #[must_use]
    pub fn sizes(self, sizes: Sizes) -> Load {
        Load { sizes: Some(sizes), ..self }
    }

    /// How long a connection waits before its next request.
    #[must_use]
    pub fn think(self, think: Think) -> Load {
        Load { think, ..self }
    }

    /// Keys of one get, 1 to 1000. A trace is replayed key by key.
    #[must_use]
    pub fn multi(self, multi: usize) -> Load {
        Load { multi: multi.clamp(1, MULTI), ..self }
    }

    /// Seconds a written value lives; 0: for ever; for a trace, instead of what it recorded.
    #[must_use]
    pub fn ttl(self, ttl: u32) -> Load {
        Load { ttl: Some(ttl), ..self }
    }

    /// Another seed, another stream; the same, the same.
    #[must_use]
    pub fn seed(self, seed: u64) -> Load {
        Load { seed, ..self }
    }

    /// What the run's other random choices may be seeded from.
    pub fn seed_used(&self) -> u64 {
        self.seed
    }

    /// The requests of thread `thread` of `threads`. `seed` is the run's: sources of one run are given the same.
    pub fn source(&self, thread: usize, threads: usize, seed: u64) -> Box<dyn Source> {
        let (thread, threads) = (thread as u64, threads.max(1) as u64);
        match &self.what {
            What::Made { keys, popularity } => {
                let picker = Picker::new(*popularity, keys.count(), thread, threads, seed);
                Box::new(Mixed::new(keys.clone(), self.recipe(), picker, thread, seed))
            }
            What::Recorded(trace) => {
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

    /// How long the values are that its gets find. `filled`: they were all written before, as this load writes.
    pub fn lengths(&self, filled: bool) -> Lengths {
        match (&self.what, &self.sizes) {
            (_, Some(sizes)) => Lengths::Known(sizes.clone()),
            (What::Recorded(_), None) => Lengths::Any,
            (What::Made { .. }, None) if filled => Lengths::Known(self.sizes_used()),
            (What::Made { .. }, None) => Lengths::NotEmpty,
        }
    }

    fn sizes_used(&self) -> Sizes {
        self.sizes.clone().unwrap_or_else(|| Sizes::fixed(SIZE))
    }

    fn recipe(&self) -> Recipe {
        Recipe {
            mix: self.mix.clone().unwrap_or_else(|| Mix::only(Verb::Get)),
            sizes: self.sizes_used(),
            think: self.think,
            multi: self.multi,
            ttl: self.ttl.unwrap_or(0),
        }
    }

    /// What a trace held that was no request, so far.
    pub fn troubles(&self) -> Option<&Troubles> {
        match &self.what {
            What::Made { .. } => None,
            What::Recorded(trace) => Some(trace.troubles()),
        }
    }

    /// Whether requests have times of their own, so that they can be paced as recorded.
    pub fn is_timed(&self) -> bool {
        matches!(&self.what, What::Recorded(trace) if trace.is_timed())
    }

    /// How it was, for the head of a report.
    pub fn describe(&self) -> Vec<(String, String)> {
        let mut all: Vec<(&str, String)> = Vec::new();
        match &self.what {
            What::Made { keys, popularity } => {
                all.push(("keys", keys.describe()));
                if keys.count() > 1 {
                    all.push(("popularity", popularity.describe()));
                }
            }
            What::Recorded(trace) => all.push(("trace", trace.describe())),
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
