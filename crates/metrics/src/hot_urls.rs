//! The URLs with the most requests, misses, bytes, passes, and the slowest ones: a sketch for each
//! ranking, per worker.
//!
//! The first [`EXACT`] answers from memory of a second are all counted. Of further ones, one in
//! [`EVERY`] is sampled and counts for all; other answers are all sampled. All figures are halved
//! now and then, so that they describe the recent past.

use std::{cmp::Reverse, collections::HashMap};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::{
    pace::Pace,
    sketch::{Sketch, hash},
};

/// Answers from memory of a worker that are counted one by one in each second: so many cost less
/// than a thousandth of its time.
const EXACT: u32 = 1024;
/// Answers from memory per sample. A prime, so that requests that come in turns are all seen.
const EVERY: u32 = 61;
/// Bytes of a URL that are kept; URLs are told apart by all of their bytes.
const SHOWN: usize = 512;
/// Samples of a worker after which all its figures are halved.
const HALVE: u32 = 1 << 15;

/// The rankings of URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Requests.
    Requests,
    /// Requests that had to be fetched.
    Misses,
    /// Bytes sent.
    Bytes,
    /// The longest time of an answer that was not from memory.
    Slow,
    /// Requests past the cache.
    Passes,
}

impl By {
    const ALL: [By; 5] = [By::Requests, By::Misses, By::Bytes, By::Slow, By::Passes];

    /// The ranking with this name in the API.
    pub fn named(name: &str) -> Option<By> {
        By::ALL.into_iter().find(|by| by.as_str() == name)
    }

    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            By::Requests => "requests",
            By::Misses => "misses",
            By::Bytes => "bytes",
            By::Slow => "slow",
            By::Passes => "passes",
        }
    }
}

/// Figures of one URL: estimates, of the recent past.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(default)]
pub struct HotUrl {
    /// The URL, cut after 512 bytes.
    pub url: String,
    /// Its site.
    pub site: String,
    /// Requests for it.
    pub requests: u64,
    /// Requests answered from memory.
    pub hits: u64,
    /// Requests that were fetched.
    pub misses: u64,
    /// Requests past the cache.
    pub passes: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Mean time of its answers in microseconds, from the request to the composed answer.
    pub mean_us: u64,
    /// The longest of these times.
    pub max_us: u64,
}

/// A ranking of URLs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(default)]
pub struct TopUrls {
    /// The name of the ranking.
    pub by: String,
    /// Answers from memory per sample, beyond those that are counted exactly; 0: URLs are not
    /// sampled at all.
    pub sampled_one_in: u32,
    /// Answers from memory that each thread counts exactly in a second.
    pub exact_per_second: u32,
    /// The first URLs, the highest first.
    pub urls: Vec<HotUrl>,
}

/// One request, as a sketch sees it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The URL.
    pub url: &'a str,
    /// The name of its site.
    pub site: &'a str,
    /// Where its answer came from.
    pub source: Source,
    /// Bytes sent.
    pub bytes: u64,
    /// Time of its answer in microseconds.
    pub micros: u64,
}

/// Where an answer came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// From memory.
    Hit,
    /// From the origin.
    Miss,
    /// From the origin, past the cache.
    Pass,
}

/// Figures of a URL in one sketch.
#[derive(Clone, Debug, Default)]
struct Figures {
    site: Box<str>,
    requests: u64,
    hits: u64,
    misses: u64,
    passes: u64,
    bytes: u64,
    micros: u64,
    max_us: u64,
}

impl Figures {
    fn count(&mut self, seen: &Seen<'_>, weight: u64) {
        if self.requests == 0 {
            self.site = seen.site.into();
        }
        self.requests += weight;
        match seen.source {
            Source::Hit => self.hits += weight,
            Source::Miss => self.misses += weight,
            Source::Pass => self.passes += weight,
        }
        self.bytes += seen.bytes * weight;
        self.micros += seen.micros * weight;
        self.max_us = self.max_us.max(seen.micros);
    }

    fn sums(&mut self) -> [&mut u64; 6] {
        let Figures { requests, hits, misses, passes, bytes, micros, .. } = self;
        [requests, hits, misses, passes, bytes, micros]
    }

    fn halve(&mut self) {
        self.sums().into_iter().for_each(|figure| *figure /= 2);
    }

    fn merge(&mut self, mut other: Figures) {
        self.sums().into_iter().zip(other.sums()).for_each(|(sum, figure)| *sum += *figure);
        self.max_us = self.max_us.max(other.max_us);
        self.site = other.site;
    }

    /// The figure by which a ranking is sorted.
    fn by(&self, by: By) -> u64 {
        match by {
            By::Requests => self.requests,
            By::Misses => self.misses,
            By::Bytes => self.bytes,
            By::Slow => self.max_us,
            By::Passes => self.passes,
        }
    }
}

#[derive(Debug)]
struct Rankings {
    all: [(By, Sketch<Figures>); By::ALL.len()],
    samples: u32,
}

/// The rankings of one worker. The worker writes; a reader locks them for a copy now and then.
#[derive(Debug)]
pub struct HotUrls(Mutex<Rankings>);

impl Default for HotUrls {
    fn default() -> Self {
        Self(Mutex::new(Rankings { all: By::ALL.map(|by| (by, Sketch::new(SHOWN))), samples: 0 }))
    }
}

impl HotUrls {
    /// Adds a sampled request. `weight`: the number of requests it stands for.
    pub fn see(&self, seen: &Seen<'_>, weight: u64) {
        let (key, hash) = (seen.url.as_bytes(), hash(seen.url.as_bytes()));
        let mut rankings = self.0.lock();
        for (by, sketch) in &mut rankings.all {
            let slot = match by {
                By::Requests => Some(sketch.add(hash, key, weight)),
                By::Bytes => Some(sketch.add(hash, key, seen.bytes * weight)),
                By::Misses if seen.source == Source::Miss => Some(sketch.add(hash, key, 1)),
                By::Passes if seen.source == Source::Pass => Some(sketch.add(hash, key, 1)),
                // The slowest URLs are not those whose times add up to most.
                By::Slow if seen.source != Source::Hit => sketch.raise(hash, key, seen.micros),
                By::Misses | By::Passes | By::Slow => None,
            };
            slot.into_iter().for_each(|slot| slot.data.count(seen, weight));
        }
        rankings.samples += 1;
        if rankings.samples >= HALVE {
            rankings.samples = 0;
            rankings.all.iter_mut().for_each(|(_, sketch)| sketch.halve(Figures::halve));
        }
    }
}

/// The sampling of one worker's requests.
#[derive(Debug, Default)]
pub struct SampledUrls {
    /// None: URLs are not sampled.
    hot: Option<Box<HotUrls>>,
    pace: Pace,
}

impl SampledUrls {
    /// Samples, if `on`.
    pub fn new(on: bool) -> Self {
        Self { hot: on.then(Box::default), pace: Pace::default() }
    }

    /// The rankings, if this request is a sample, and the number of requests it stands for.
    /// `second`: of any clock. Only the owning worker may call it.
    #[inline]
    pub fn due(&self, hit: bool, second: u64) -> Option<(&HotUrls, u64)> {
        let hot = self.hot.as_deref()?;
        if !hit {
            return Some((hot, 1));
        }
        let weight = self.pace.due(second, EXACT, || EVERY)?;
        Some((hot, u64::from(weight)))
    }
}

/// The first `limit` URLs of all workers.
pub fn top_urls<'a>(
    workers: impl Iterator<Item = &'a SampledUrls>,
    by: By,
    limit: usize,
) -> TopUrls {
    let (mut merged, mut sampled): (HashMap<_, Figures>, _) = (HashMap::new(), false);
    for hot in workers.filter_map(|worker| worker.hot.as_deref()) {
        sampled = true;
        let rankings = hot.0.lock();
        for (_, sketch) in rankings.all.iter().filter(|(ranking, _)| *ranking == by) {
            for (hash, slot) in sketch.iter() {
                merged.entry((hash, slot.key.clone())).or_default().merge(slot.data.clone());
            }
        }
    }
    let mut urls: Vec<_> = merged.into_iter().filter(|(_, figures)| figures.by(by) > 0).collect();
    urls.sort_unstable_by(|((_, a), one), ((_, b), other)| {
        Reverse(one.by(by)).cmp(&Reverse(other.by(by))).then_with(|| a.cmp(b))
    });
    urls.truncate(limit);
    let url = |((_, url), figures): ((u64, Vec<u8>), Figures)| HotUrl {
        url: String::from_utf8_lossy(&url).into_owned(),
        site: figures.site.into(),
        requests: figures.requests,
        hits: figures.hits,
        misses: figures.misses,
        passes: figures.passes,
        bytes: figures.bytes,
        mean_us: figures.micros.checked_div(figures.requests).unwrap_or(0),
        max_us: figures.max_us,
    };
    TopUrls {
        by: by.as_str().to_owned(),
        sampled_one_in: if sampled { EVERY } else { 0 },
        exact_per_second: if sampled { EXACT } else { 0 },
        urls: urls.into_iter().map(url).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn see(worker: &SampledUrls, url: &str, source: Source, bytes: u64, micros: u64, weight: u64) {
        let (hot, _) = worker.due(false, 0).expect("on");
        hot.see(&Seen { url, site: "example.com", source, bytes, micros }, weight);
    }

    fn first(workers: &[&SampledUrls], by: By) -> HotUrl {
        top_urls(workers.iter().copied(), by, 1).urls.remove(0)
    }

    #[test]
    fn every_ranking_finds_its_own_among_many() {
        let (one, two) = (SampledUrls::new(true), SampledUrls::new(true));
        for n in 0..20_000 {
            see(&one, &format!("http://h/cold{n}"), Source::Hit, 100, 5, 1);
            see(&two, &format!("http://h/other{n}"), Source::Miss, 100, 50, 1);
            if n % 4 == 0 {
                see(&one, "http://h/popular", Source::Hit, 10, 5, 2);
                see(&two, "http://h/popular", Source::Hit, 10, 5, 2);
                see(&two, "http://h/missed", Source::Miss, 10, 50, 1);
                see(&one, "http://h/passed", Source::Pass, 10, 50, 1);
            }
            if n % 10 == 0 {
                see(&two, "http://h/large", Source::Hit, 1_000_000, 5, 1);
            }
        }
        see(&two, "http://h/slow", Source::Miss, 10, 2_000_000, 1);
        see(&two, "http://h/slow", Source::Miss, 10, 1_000_000, 1);
        let first = |by| first(&[&one, &two], by);
        assert_eq!(first(By::Requests).url, "http://h/popular");
        assert_eq!(first(By::Misses).url, "http://h/missed");
        assert_eq!(first(By::Bytes).url, "http://h/large");
        assert_eq!(first(By::Passes).url, "http://h/passed");
        let slow = first(By::Slow);
        assert_eq!(
            (slow.url.as_str(), slow.max_us, slow.mean_us),
            ("http://h/slow", 2_000_000, 1_500_000)
        );
        let popular = first(By::Requests);
        assert_eq!(
            (popular.hits, popular.misses, popular.site.as_str()),
            (popular.requests, 0, "example.com")
        );
    }

    #[test]
    fn few_urls_are_counted_exactly() {
        let worker = SampledUrls::new(true);
        (0..10).for_each(|_| see(&worker, "http://h/a", Source::Hit, 7, 3, 61));
        see(&worker, "http://h/b", Source::Miss, 7, 3, 1);
        let urls = |by, limit| top_urls([&worker].into_iter(), by, limit).urls;
        assert_eq!(
            urls(By::Requests, 10)
                .iter()
                .map(|url| (url.url.as_str(), url.requests, url.bytes))
                .collect::<Vec<_>>(),
            [("http://h/a", 610, 4270), ("http://h/b", 1, 7)]
        );
        assert_eq!(urls(By::Misses, 10).len(), 1);
        assert!(urls(By::Requests, 0).is_empty());
    }

    #[test]
    fn old_figures_give_way() {
        let worker = SampledUrls::new(true);
        (0..10_000).for_each(|_| see(&worker, "http://h/yesterday", Source::Hit, 1, 1, 1));
        (0..400_000)
            .for_each(|n| see(&worker, &format!("http://h/{}", n % 3), Source::Hit, 1, 1, 1));
        let all = top_urls([&worker].into_iter(), By::Requests, 9).urls;
        assert!(all.iter().take(3).all(|url| url.url != "http://h/yesterday"));
        assert!(all.get(3).is_none_or(|url| url.requests < 20), "{all:?}");
    }

    #[test]
    fn a_site_at_rest_is_counted_exactly_and_a_busy_one_is_sampled() {
        assert!(SampledUrls::default().due(false, 0).is_none());
        let worker = SampledUrls::new(true);
        let weights = |second, hits: u32| {
            let due = (0..hits).filter_map(|_| worker.due(true, second));
            due.map(|(_, weight)| weight).collect::<Vec<_>>()
        };
        assert_eq!(weights(1, 84), [1; 84]);
        assert_eq!(weights(2, EXACT), vec![1; EXACT as usize]);
        // The next ones of this second stand for those before them, and for no more.
        assert_eq!(weights(2, EVERY * 10 + 5), [u64::from(EVERY); 10]);
        assert_eq!(weights(3, 2), [1; 2], "a new second");
        assert_eq!(worker.due(false, 3).map(|(_, weight)| weight), Some(1));
    }

    #[test]
    fn rankings_have_names() {
        for by in By::ALL {
            assert_eq!(By::named(by.as_str()), Some(by));
        }
        assert_eq!(By::named("colour"), None);
    }
}
