//! Which URLs are asked for most, missed most, cost most bytes and take longest: sampled sketches per worker.
//!
//! Of answers from memory one in [`EVERY`] is looked at and counts for all; of the others every one. Each ranking is a
//! sketch of its own of [`PLACES`] places ("Space-Saving", Metwally and others, 2005): a URL without a place takes that
//! of the least one and inherits its score, so that what comes often is never missing. Scores are halved now and then:
//! what was hot yesterday gives way.

use std::{cmp::Reverse, collections::HashMap};

use parking_lot::Mutex;
use serde::Serialize;

/// Of answers from memory, one in so many is looked at. A prime: requests that come in turns are all seen.
pub(crate) const EVERY: u32 = 61;
/// Places of each sketch of each worker.
const PLACES: usize = 128;
/// Bytes of a URL that are kept; URLs are told apart by all of their bytes.
const SHOWN: usize = 512;
/// After so many samples of a worker all its figures are halved.
const HALVE: u32 = 1 << 15;

/// What URLs are ranked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Requests.
    Requests,
    /// Requests that had to be fetched.
    Misses,
    /// Bytes sent.
    Bytes,
    /// The longest answer that was waited for.
    Slow,
    /// Requests past the cache.
    Passes,
}

impl By {
    const ALL: [By; 5] = [By::Requests, By::Misses, By::Bytes, By::Slow, By::Passes];

    /// As the API spells it.
    pub fn named(name: &str) -> Option<By> {
        By::ALL.into_iter().find(|by| by.as_str() == name)
    }

    /// As the API spells it.
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

/// One URL's figures: estimates, of the recent past.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HotUrl {
    /// The URL, cut after 512 bytes.
    pub url: String,
    /// Its site.
    pub site: String,
    /// Requests for it.
    pub requests: u64,
    /// Of these, answered from memory.
    pub hits: u64,
    /// Fetched.
    pub misses: u64,
    /// Sent past the cache.
    pub passes: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// How long its answers took on average, in microseconds: from the request taken up to the answer composed.
    pub mean_us: u64,
    /// The longest of them.
    pub max_us: u64,
}

/// A ranking.
#[derive(Clone, Debug, Serialize)]
pub struct Top {
    /// What it is by.
    pub by: &'static str,
    /// Of answers from memory, one in so many was looked at; 0: URLs are not watched at all.
    pub sampled_one_in: u32,
    /// The first ones, the highest first.
    pub urls: Vec<HotUrl>,
}

/// One request, as a sketch sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) url: &'a str,
    pub(crate) site: &'a str,
    pub(crate) became: Became,
    pub(crate) bytes: u64,
    pub(crate) micros: u64,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Became {
    Hit,
    Miss,
    Pass,
}

#[derive(Clone, Debug, Default)]
struct Place {
    url: Box<str>,
    site: Box<str>,
    score: u64,
    /// Of the score, what was inherited.
    inherited: u64,
    requests: u64,
    hits: u64,
    misses: u64,
    passes: u64,
    bytes: u64,
    micros: u64,
    max_us: u64,
}

impl Place {
    fn count(&mut self, seen: &Seen<'_>, weight: u64) {
        self.requests += weight;
        match seen.became {
            Became::Hit => self.hits += weight,
            Became::Miss => self.misses += weight,
            Became::Pass => self.passes += weight,
        }
        self.bytes += seen.bytes * weight;
        self.micros += seen.micros * weight;
        self.max_us = self.max_us.max(seen.micros);
    }

    fn halve(&mut self) {
        for figure in [
            &mut self.score,
            &mut self.inherited,
            &mut self.requests,
            &mut self.hits,
            &mut self.misses,
            &mut self.passes,
            &mut self.bytes,
            &mut self.micros,
        ] {
            *figure /= 2;
        }
    }

    fn add(&mut self, other: &Place) {
        self.score += other.score;
        self.inherited += other.inherited;
        self.requests += other.requests;
        self.hits += other.hits;
        self.misses += other.misses;
        self.passes += other.passes;
        self.bytes += other.bytes;
        self.micros += other.micros;
        self.max_us = self.max_us.max(other.max_us);
    }
}

#[derive(Debug)]
struct Sketch {
    by: By,
    /// Of the URLs, beside the places: looked through first.
    hashes: Vec<u64>,
    places: Vec<Place>,
}

impl Sketch {
    fn new(by: By) -> Self {
        Self { by, hashes: Vec::new(), places: Vec::new() }
    }

    /// What a request adds to its URL's score; None: it is not one of those ranked.
    fn weigh(&self, seen: &Seen<'_>, weight: u64) -> Option<u64> {
        match self.by {
            By::Requests => Some(weight),
            By::Misses => (seen.became == Became::Miss).then_some(1),
            By::Bytes => Some(seen.bytes * weight),
            By::Slow => (seen.became != Became::Hit).then_some(seen.micros),
            By::Passes => (seen.became == Became::Pass).then_some(1),
        }
    }

    fn see(&mut self, hash: u64, seen: &Seen<'_>, weight: u64) {
        let Some(score) = self.weigh(seen, weight) else { return };
        let at = match self.hashes.iter().position(|&known| known == hash) {
            Some(at) => at,
            None => match self.take_place(hash, seen, score) {
                Some(at) => at,
                None => return,
            },
        };
        let place = &mut self.places[at];
        // The slowest are not those whose times add up to most.
        place.score = if self.by == By::Slow { place.score.max(score) } else { place.score + score };
        place.count(seen, weight);
    }

    /// A place for a new URL: a free one, or the least one's. A fast answer does not take a slower one's place.
    fn take_place(&mut self, hash: u64, seen: &Seen<'_>, score: u64) -> Option<usize> {
        let mut shown = seen.url.len().min(SHOWN);
        while !seen.url.is_char_boundary(shown) {
            shown -= 1;
        }
        let mut new = Place { url: seen.url[..shown].into(), site: seen.site.into(), ..Place::default() };
        if self.places.len() < PLACES {
            self.hashes.push(hash);
            self.places.push(new);
            return Some(self.places.len() - 1);
        }
        let least = (0..PLACES).min_by_key(|&at| self.places[at].score)?;
        let least_score = self.places[least].score;
        if self.by == By::Slow {
            if score <= least_score {
                return None;
            }
        } else {
            (new.score, new.inherited) = (least_score, least_score);
        }
        self.hashes[least] = hash;
        self.places[least] = new;
        Some(least)
    }
}

#[derive(Debug)]
struct Sketches {
    all: [Sketch; By::ALL.len()],
    samples: u32,
}

/// One worker's sketches. The worker writes; a reader locks them for a copy now and then.
#[derive(Debug)]
pub(crate) struct Hot(Mutex<Sketches>);

impl Default for Hot {
    fn default() -> Self {
        Self(Mutex::new(Sketches { all: By::ALL.map(Sketch::new), samples: 0 }))
    }
}

impl Hot {
    /// Looks at a request. `weight`: how many it stands for.
    pub(crate) fn see(&self, seen: &Seen<'_>, weight: u64) {
        let hash = rapidhash::v3::rapidhash_v3(seen.url.as_bytes());
        let mut sketches = self.0.lock();
        for sketch in &mut sketches.all {
            sketch.see(hash, seen, weight);
        }
        sketches.samples += 1;
        if sketches.samples >= HALVE {
            sketches.samples = 0;
            for place in sketches.all.iter_mut().flat_map(|sketch| &mut sketch.places) {
                place.halve();
            }
        }
    }
}

/// The first `limit` URLs of all workers.
pub(super) fn top<'a>(all: impl Iterator<Item = &'a Hot>, by: By, limit: usize) -> Vec<HotUrl> {
    let mut merged: HashMap<(u64, Box<str>), Place> = HashMap::new();
    for hot in all {
        let sketches = hot.0.lock();
        let Some(sketch) = sketches.all.iter().find(|sketch| sketch.by == by) else { continue };
        for (hash, place) in sketch.hashes.iter().zip(&sketch.places) {
            merged
                .entry((*hash, place.url.clone()))
                .or_insert_with(|| Place { site: place.site.clone(), ..Place::default() })
                .add(place);
        }
    }
    let figure = |place: &Place| match by {
        By::Requests => place.requests,
        By::Misses => place.misses,
        By::Bytes => place.bytes,
        By::Slow => place.max_us,
        By::Passes => place.passes,
    };
    let mut places: Vec<_> = merged.into_iter().filter(|(_, place)| figure(place) > 0).collect();
    places.sort_unstable_by(|(a, one), (b, other)| {
        Reverse(figure(one)).cmp(&Reverse(figure(other))).then_with(|| a.1.cmp(&b.1))
    });
    places.truncate(limit);
    let url = |((_, url), place): ((u64, Box<str>), Place)| HotUrl {
        url: url.into(),
        site: place.site.into(),
        requests: place.requests,
        hits: place.hits,
        misses: place.misses,
        passes: place.passes,
        bytes: place.bytes,
        mean_us: place.micros.checked_div(place.requests).unwrap_or(0),
        max_us: place.max_us,
    };
    places.into_iter().map(url).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(url: &str, became: Became, bytes: u64, micros: u64) -> Seen<'_> {
        Seen { url, site: "example.com", became, bytes, micros }
    }

    #[test]
    fn every_ranking_finds_its_own_among_many() {
        let (one, two) = (Hot::default(), Hot::default());
        for n in 0..20_000 {
            one.see(&seen(&format!("http://h/cold{n}"), Became::Hit, 100, 5), 1);
            two.see(&seen(&format!("http://h/other{n}"), Became::Miss, 100, 50), 1);
            if n % 4 == 0 {
                one.see(&seen("http://h/popular", Became::Hit, 10, 5), 2);
                two.see(&seen("http://h/popular", Became::Hit, 10, 5), 2);
                two.see(&seen("http://h/missed", Became::Miss, 10, 50), 1);
                one.see(&seen("http://h/passed", Became::Pass, 10, 50), 1);
            }
            if n % 10 == 0 {
                two.see(&seen("http://h/large", Became::Hit, 1_000_000, 5), 1);
            }
        }
        two.see(&seen("http://h/slow", Became::Miss, 10, 2_000_000), 1);
        two.see(&seen("http://h/slow", Became::Miss, 10, 1_000_000), 1);
        let first = |by| top([&one, &two].into_iter(), by, 1).remove(0);
        assert_eq!(first(By::Requests).url, "http://h/popular");
        assert_eq!(first(By::Misses).url, "http://h/missed");
        assert_eq!(first(By::Bytes).url, "http://h/large");
        assert_eq!(first(By::Passes).url, "http://h/passed");
        let slow = first(By::Slow);
        assert_eq!((slow.url.as_str(), slow.max_us, slow.mean_us), ("http://h/slow", 2_000_000, 1_500_000));
        let popular = first(By::Requests);
        assert_eq!(
            (popular.hits, popular.misses, popular.site.as_str()),
            (popular.requests, 0, "example.com")
        );
    }

    #[test]
    fn few_urls_are_counted_exactly() {
        let hot = Hot::default();
        (0..10).for_each(|_| hot.see(&seen("http://h/a", Became::Hit, 7, 3), 61));
        hot.see(&seen("http://h/b", Became::Miss, 7, 3), 1);
        let all = top([&hot].into_iter(), By::Requests, 10);
        assert_eq!(
            all.iter().map(|url| (url.url.as_str(), url.requests, url.bytes)).collect::<Vec<_>>(),
            [("http://h/a", 610, 4270), ("http://h/b", 1, 7)]
        );
        assert_eq!(top([&hot].into_iter(), By::Misses, 10).len(), 1);
        assert!(top([&hot].into_iter(), By::Requests, 0).is_empty());
    }

    #[test]
    fn what_was_hot_is_outlived_and_memory_is_bounded() {
        let hot = Hot::default();
        (0..10_000).for_each(|_| hot.see(&seen("http://h/yesterday", Became::Hit, 1, 1), 1));
        (0..400_000).for_each(|n| hot.see(&seen(&format!("http://h/{}", n % 3), Became::Hit, 1, 1), 1));
        let all = top([&hot].into_iter(), By::Requests, 9);
        assert!(all.iter().take(3).all(|url| url.url != "http://h/yesterday"));
        assert!(all.get(3).is_none_or(|url| url.requests < 20), "{all:?}");
        (0..1000).for_each(|n| {
            hot.see(&seen(&format!("http://h/{}{n}", "x".repeat(5000)), Became::Miss, 1, n), 1);
        });
        let sketches = hot.0.lock();
        for sketch in &sketches.all {
            assert!(sketch.places.len() <= PLACES && sketch.places.iter().all(|p| p.url.len() <= SHOWN));
        }
    }

    #[test]
    fn rankings_have_names() {
        for by in By::ALL {
            assert_eq!(By::named(by.as_str()), Some(by));
        }
        assert_eq!(By::named("colour"), None);
    }
}
