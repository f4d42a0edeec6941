//! Documents that were asked for, of which the dictionaries of their origins are made.

use std::collections::{HashMap, VecDeque};

use larder_proto::http::{KeyParts, key};

use crate::clock::Ms;

/// Most origins whose documents are noted: the notes lie outside the store.
const ORIGINS: usize = 64;
/// Most documents noted of one origin. The latest are kept.
pub(crate) const NOTED: usize = 256;
/// Longest key that is noted, in bytes. With the limits above, notes take 4 MiB at most.
const LONGEST_KEY: usize = 256;
/// Milliseconds after documents were found to have too little in common: clients ask for the
/// dictionary again with each page.
const PAUSE: Ms = 60_000;

/// The documents of all origins.
#[derive(Default)]
pub(crate) struct Samples(HashMap<Vec<u8>, Noted>);

#[derive(Default)]
struct Noted {
    /// Keys of pages, the latest last; no two of one path.
    pages: VecDeque<Box<[u8]>>,
    /// A dictionary is not made before.
    next: Ms,
}

impl Samples {
    /// A document was asked for more than once.
    pub(crate) fn note(&mut self, page: &[u8]) {
        let Some(parts) = key::parse_key(page).filter(|_| page.len() <= LONGEST_KEY) else {
            return;
        };
        let (origin, path) = (origin(&parts), path(&parts));
        if !self.0.contains_key(&origin) && self.0.len() >= ORIGINS {
            self.forget_one();
        }
        let pages = &mut self.0.entry(origin).or_default().pages;
        let is_same =
            |key: &[u8]| key::parse_key(key).is_some_and(|known| self::path(&known) == path);
        pages.retain(|known| !is_same(known));
        if pages.len() >= NOTED {
            pages.pop_front();
        }
        pages.push_back(page.into());
    }

    /// Forgets the origin with the fewest documents: a client may ask for pages of any host, where
    /// a site has no `hosts`.
    fn forget_one(&mut self) {
        let fewest = self.0.iter().min_by_key(|(_, noted)| noted.pages.len());
        if let Some(origin) = fewest.map(|(origin, _)| origin.clone()) {
            self.0.remove(&origin);
        }
    }

    /// A dictionary was made of the documents of an origin.
    pub(crate) fn made(&mut self, parts: &KeyParts<'_>) {
        if let Some(noted) = self.0.get_mut(&origin(parts)) {
            noted.next = 0;
        }
    }

    /// The documents to make the dictionary of an origin of, the latest first. None: there are
    /// fewer than `least`, or they had too little in common a moment ago.
    pub(crate) fn take(
        &mut self,
        parts: &KeyParts<'_>,
        least: usize,
        now: Ms,
    ) -> Option<Vec<Box<[u8]>>> {
        let noted = self.0.get_mut(&origin(parts))?;
        if noted.pages.len() < least || now < noted.next {
            return None;
        }
        noted.next = now + PAUSE;
        Some(noted.pages.iter().rev().cloned().collect())
    }
}

fn origin(parts: &KeyParts<'_>) -> Vec<u8> {
    let mut key = Vec::new();
    key::write_key(&mut key, parts.scheme, parts.host, parts.port, b"");
    key
}

/// Pages of one path and several queries may be one and the same.
fn path<'a>(parts: &KeyParts<'a>) -> &'a [u8] {
    let target = parts.path_and_query;
    target.split(|byte| *byte == b'?').next().unwrap_or(target)
}

#[cfg(test)]
mod tests {
    use larder_proto::http::Scheme;

    use super::*;

    fn key_of(host: &str, path: &str) -> Vec<u8> {
        let mut key = Vec::new();
        key::write_key(&mut key, Scheme::Https, host, 0, path.as_bytes());
        key
    }

    #[test]
    fn the_latest_of_each_path_count() {
        let mut samples = Samples::default();
        let key = key_of("a.test", "");
        let parts = key::parse_key(&key).expect("a key");
        for at in 0..NOTED + 10 {
            samples.note(&key_of("a.test", &format!("/{at}")));
            samples.note(&key_of("a.test", "/same?query=1"));
            samples.note(&key_of("a.test", "/same?query=2"));
        }
        samples.note(&key_of("a.test", &"/long".repeat(100)));
        assert!(samples.take(&parts, NOTED + 1, 0).is_none());
        let pages = samples.take(&parts, NOTED, 0).expect("documents");
        assert_eq!((pages.len(), &*pages[0]), (NOTED, &key_of("a.test", "/same?query=2")[..]));
        assert_eq!(*pages[1], key_of("a.test", &format!("/{}", NOTED + 9)));
        assert!(samples.take(&parts, 1, PAUSE - 1).is_none());
        assert!(samples.take(&parts, 1, PAUSE).is_some());
        assert!(samples.take(&parts, 1, PAUSE).is_none());
        samples.made(&parts);
        assert!(samples.take(&parts, 1, PAUSE).is_some());
    }

    #[test]
    fn origins_are_bounded() {
        let mut samples = Samples::default();
        samples.note(&key_of("www.test", "/1"));
        samples.note(&key_of("www.test", "/2"));
        for at in 0..2 * ORIGINS {
            samples.note(&key_of(&format!("{at}.test"), "/"));
        }
        assert_eq!(samples.0.len(), ORIGINS);
        let key = key_of("www.test", "");
        assert!(samples.take(&key::parse_key(&key).expect("a key"), 2, 0).is_some());
    }
}
