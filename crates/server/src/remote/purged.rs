//! What was purged here lately: records from before are not taken from the fleet, wherever they come from (a server that was
//! away when they were deleted, a Larder that was sending them).
//!
//! Each purge is kept for as long as a record may live in the fleet; where there are more than [`MOST`], the oldest is
//! forgotten, and from then on nothing from before it is taken.

use std::collections::{HashMap, VecDeque};

use larder_proto::http::key::{self, KeyParts};
use parking_lot::Mutex;

use crate::clock::Ms;

/// Purges remembered.
const MOST: usize = 16_384;

/// What a purge was of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum What {
    /// A page, by its primary key.
    Key(Box<[u8]>),
    /// Pages of a host and port by the start of path and query.
    Prefix(Box<str>, u16, Box<[u8]>),
    /// Pages with a tag of a site.
    Tag(Box<[u8]>),
}

/// The purges of a process. A purge and a record taken lock it for a moment.
#[derive(Debug, Default)]
pub(crate) struct PurgedLately(Mutex<Lately>);

#[derive(Debug, Default)]
struct Lately {
    keys: HashMap<What, Ms>,
    /// Of those in `keys`, prefixes: each is compared with every record.
    prefixes: usize,
    /// In the order of time; what was purged again stands here more than once.
    order: VecDeque<(Ms, What)>,
    /// Nothing from before this is taken.
    floor: Ms,
}

impl PurgedLately {
    pub(super) fn key(&self, primary: &[u8], now: Ms, lasting: Ms) {
        self.note(What::Key(primary.into()), now, lasting);
    }

    pub(super) fn prefix(&self, wanted: &KeyParts<'_>, now: Ms, lasting: Ms) {
        let what = What::Prefix(wanted.host.into(), wanted.port, wanted.path_and_query.into());
        self.note(what, now, lasting);
    }

    pub(super) fn tag(&self, tag: &[u8], now: Ms, lasting: Ms) {
        self.note(What::Tag(tag.into()), now, lasting);
    }

    fn note(&self, what: What, now: Ms, lasting: Ms) {
        let mut lately = self.0.lock();
        let prefix = matches!(what, What::Prefix(..));
        if lately.keys.insert(what.clone(), now).is_none() && prefix {
            lately.prefixes += 1;
        }
        lately.order.push_back((now, what));
        while lately.order.len() > MOST || lately.order.front().is_some_and(|(at, _)| at + lasting < now) {
            lately.forget_oldest(now, lasting);
        }
    }

    /// Whether a page received at `received` was purged since.
    pub(crate) fn covers<'t>(
        &self,
        primary: &[u8],
        tags: impl Iterator<Item = &'t [u8]>,
        received: Ms,
    ) -> bool {
        let lately = self.0.lock();
        let since = |at: Option<&Ms>| at.is_some_and(|at| received <= *at);
        if received < lately.floor || lately.keys.is_empty() {
            return received < lately.floor;
        }
        if since(lately.keys.get(&What::Key(primary.into()))) {
            return true;
        }
        if tags.map(|tag| What::Tag(tag.into())).any(|tag| since(lately.keys.get(&tag))) {
            return true;
        }
        let Some(page) = key::parse_key(primary).filter(|_| lately.prefixes > 0) else { return false };
        lately.keys.iter().any(|(what, at)| {
            let What::Prefix(host, port, path) = what else { return false };
            (page.host, page.port) == (&**host, *port)
                && page.path_and_query.starts_with(path)
                && since(Some(at))
        })
    }
}

impl Lately {
    fn forget_oldest(&mut self, now: Ms, lasting: Ms) {
        let Some((at, what)) = self.order.pop_front() else { return };
        // Purged again since: the later one stays.
        if self.keys.get(&what) != Some(&at) {
            return;
        }
        self.prefixes -= usize::from(matches!(what, What::Prefix(..)));
        self.keys.remove(&what);
        if at + lasting >= now {
            self.floor = self.floor.max(at + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Ms = 1_700_000_000_000;
    const LASTING: Ms = 60_000;

    fn page(host: &str, path: &str) -> Vec<u8> {
        let mut key = Vec::new();
        key::write_key(&mut key, key::Scheme::Http, host, 0, path.as_bytes());
        key
    }

    fn no_tags() -> std::iter::Empty<&'static [u8]> {
        std::iter::empty()
    }

    #[test]
    fn what_is_older_than_its_purge_is_covered() {
        let lately = PurgedLately::default();
        assert!(!lately.covers(&page("a", "/x"), no_tags(), NOW));
        lately.key(&page("a", "/x"), NOW, LASTING);
        assert!(lately.covers(&page("a", "/x"), no_tags(), NOW));
        assert!(!lately.covers(&page("a", "/x"), no_tags(), NOW + 1));
        assert!(!lately.covers(&page("a", "/y"), no_tags(), NOW - 1));
        lately.prefix(&key::parse_key(&page("b", "/wiki/")).expect("a key"), NOW, LASTING);
        assert!(lately.covers(&page("b", "/wiki/Cat"), no_tags(), NOW - 5));
        assert!(!lately.covers(&page("b", "/w"), no_tags(), NOW - 5));
        assert!(!lately.covers(&page("c", "/wiki/Cat"), no_tags(), NOW - 5));
        lately.tag(b"site\0red", NOW, LASTING);
        let tags = || [&b"site\0blue"[..], b"site\0red"].into_iter();
        assert!(lately.covers(&page("d", "/"), tags(), NOW));
        assert!(!lately.covers(&page("d", "/"), tags(), NOW + 1));
        assert!(!lately.covers(&page("d", "/"), tags().take(1), NOW));
    }

    #[test]
    fn purges_are_forgotten_when_no_record_can_be_older() {
        let lately = PurgedLately::default();
        lately.key(b"x", NOW, LASTING);
        lately.key(b"y", NOW + LASTING, LASTING);
        assert!(lately.covers(b"x", no_tags(), NOW));
        lately.key(b"y", NOW + LASTING + 1, LASTING);
        assert!(!lately.covers(b"x", no_tags(), NOW));
        assert!(lately.covers(b"y", no_tags(), NOW + LASTING + 1));
    }

    #[test]
    fn too_many_purges_cover_everything_from_before() {
        let lately = PurgedLately::default();
        lately.key(b"first", NOW, LASTING);
        for number in 0..MOST {
            lately.key(format!("page {number}").as_bytes(), NOW + 1, LASTING);
        }
        assert!(lately.covers(b"first", no_tags(), NOW));
        assert!(lately.covers(b"another", no_tags(), NOW), "who knows");
        assert!(!lately.covers(b"another", no_tags(), NOW + 1));
        assert_eq!(lately.0.lock().order.len(), MOST);
    }
}
