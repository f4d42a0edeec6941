//! Recent purges: older records are not used, whatever their source (a server that was away when
//! they were deleted, a Larder that was sending them).
//!
//! A record has the purges known to its sender. A sender that knew the purge had executed it before
//! it looked the page up, so the page is newer, whatever clocks say. From a sender that did not
//! know it, a page is only used if it was received [`SLACK`] after the purge: a Larder that is cut
//! off from the fleet still renders pages, and clocks may differ by that much.
//!
//! Each purge is kept for as long as a record may live in the fleet; where there are more than
//! [`MOST`], the oldest is forgotten, and from then on no record from before it is used.

use std::collections::{HashMap, VecDeque};

use larder_proto::{
    http::key::{self, KeyParts},
    page::PageView,
};
use parking_lot::Mutex;

use super::{
    journal::{KnownPurges, Name, What},
    skew,
};
use crate::{clock::Ms, page::ban::Ban};

/// Purges remembered.
const MOST: usize = 16_384;
/// Bans among them: each is compared with every record.
const BANS: usize = 256;
/// Time after a purge at which received pages count as newer, from any sender.
const SLACK: Ms = skew::MOST;

/// The target of a purge.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Of {
    /// A page, by its primary key.
    Key(Box<[u8]>),
    /// Pages of a host and port by the start of path and query.
    Prefix(Box<str>, u16, Box<[u8]>),
    /// Pages with a tag of a site.
    Tag(Box<[u8]>),
    /// All pages.
    All,
}

/// A purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    /// None: it is not in the journal.
    name: Option<Name>,
    at: Ms,
}

/// The facts about a record that may be older than a purge.
#[derive(Clone, Copy)]
pub(crate) struct Record<'r> {
    pub(crate) primary: &'r [u8],
    pub(crate) page: &'r PageView<'r>,
    /// Its tags of the site.
    pub(crate) tags: &'r [Vec<u8>],
    /// The purges known to its sender.
    pub(crate) knows: &'r KnownPurges,
}

/// The purges of a process. Purges and lookups lock it for a moment.
#[derive(Debug, Default)]
pub(crate) struct PurgedLately(Mutex<Lately>);

#[derive(Debug, Default)]
struct Lately {
    /// The latest purge of each target and author.
    marks: HashMap<Of, Vec<Mark>>,
    /// The number of prefixes in `marks`: each is compared with every record.
    prefixes: usize,
    /// Targets in order of their purges; a target that was purged again is here more than once.
    order: VecDeque<(Ms, Of)>,
    bans: VecDeque<(Ban, Mark)>,
    /// Records from before this are not used.
    floor: Ms,
}

impl Mark {
    fn covers(&self, received: Ms, knows: &KnownPurges) -> bool {
        match self.name {
            Some((author, number)) => {
                !knows.has(author, number) && received <= self.at.saturating_add(SLACK)
            }
            None => received <= self.at,
        }
    }
}

impl PurgedLately {
    /// Notes a purge at `at`, which is kept for `lasting`. `name`: its name in the journal.
    pub(super) fn note(&self, what: &What, name: Option<Name>, at: Ms, lasting: Ms) {
        let mut lately = self.0.lock();
        let mark = Mark { name, at };
        match what {
            What::Keys(keys) => {
                keys.iter()
                    .for_each(|key| lately.mark(Of::Key(key.as_slice().into()), mark, lasting));
            }
            What::Prefix(host, port, path) => {
                let of = Of::Prefix(host.as_str().into(), *port, path.as_slice().into());
                lately.mark(of, mark, lasting);
            }
            What::Tag(tag) => lately.mark(Of::Tag(tag.as_slice().into()), mark, lasting),
            What::Ban(text) => lately.ban(text, mark),
        }
    }

    /// Notes that purges of an author up to this one were missed; their targets are unknown.
    pub(super) fn missed(&self, name: Name, at: Ms, lasting: Ms) {
        self.0.lock().mark(Of::All, Mark { name: Some(name), at }, lasting);
    }

    /// Whether a page was purged since it was received.
    pub(crate) fn covers(&self, record: Record<'_>) -> bool {
        let Record { primary, page, tags, knows } = record;
        let received = page.meta.response_time;
        let lately = self.0.lock();
        if received < lately.floor || (lately.marks.is_empty() && lately.bans.is_empty()) {
            return received < lately.floor;
        }
        let covers = |marks: &Vec<Mark>| marks.iter().any(|mark| mark.covers(received, knows));
        let since = |of: &Of| lately.marks.get(of).is_some_and(covers);
        if since(&Of::All)
            || [primary, key::url_key(primary)].iter().any(|&key| since(&Of::Key(key.into())))
        {
            return true;
        }
        if tags.iter().any(|tag| since(&Of::Tag(tag.as_slice().into()))) {
            return true;
        }
        let Some(place) = key::parse_key(primary) else { return false };
        if lately
            .bans
            .iter()
            .any(|(ban, mark)| mark.covers(received, knows) && ban.means(&place, page, mark.at))
        {
            return true;
        }
        let below = |of: &Of| prefixed(of, &place);
        lately.prefixes > 0 && lately.marks.iter().any(|(of, marks)| below(of) && covers(marks))
    }
}

fn prefixed(of: &Of, place: &KeyParts<'_>) -> bool {
    let Of::Prefix(host, port, path) = of else { return false };
    (place.host, place.port) == (&**host, *port) && place.path_and_query.starts_with(path)
}

impl Lately {
    fn mark(&mut self, of: Of, mark: Mark, lasting: Ms) {
        let author = |mark: &Mark| mark.name.map(|(author, _)| author);
        let marks = self.marks.entry(of.clone()).or_default();
        self.prefixes += usize::from(marks.is_empty() && matches!(of, Of::Prefix(..)));
        marks.retain(|before| author(before) != author(&mark));
        marks.push(mark);
        self.order.push_back((mark.at, of));
        while self.order.len() > MOST
            || self.order.front().is_some_and(|(at, _)| at + lasting < mark.at)
        {
            self.forget_oldest(mark.at, lasting);
        }
    }

    fn ban(&mut self, text: &str, mark: Mark) {
        // Another version may have expressions that this one does not know: then the target is
        // everything.
        let Ok(ban) = Ban::parse(text) else {
            self.floor = self.floor.max(mark.at + 1);
            return;
        };
        self.bans.push_back((ban, mark));
        if self.bans.len() > BANS
            && let Some((_, oldest)) = self.bans.pop_front()
        {
            self.floor = self.floor.max(oldest.at + 1);
        }
    }

    fn forget_oldest(&mut self, now: Ms, lasting: Ms) {
        let Some((at, of)) = self.order.pop_front() else { return };
        let Some(marks) = self.marks.get_mut(&of) else { return };
        let before = marks.len();
        // A target that was purged again meanwhile stays.
        marks.retain(|mark| mark.at > at);
        let forgotten = marks.len() < before;
        if marks.is_empty() {
            self.prefixes -= usize::from(matches!(of, Of::Prefix(..)));
            self.marks.remove(&of);
        }
        if forgotten && at + lasting >= now {
            self.floor = self.floor.max(at + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use larder_proto::page::{Meta, Parts, Trailer, Verify, encode_head, view};

    use super::*;
    use crate::remote::journal::{Entry, Journal};

    const NOW: Ms = 1_700_000_000_000;
    const LASTING: Ms = 60_000;

    fn key(host: &str, path: &str) -> Vec<u8> {
        let mut key = Vec::new();
        key::write_key(&mut key, key::Scheme::Http, host, 0, path.as_bytes());
        key
    }

    /// Whether a page of a sender with this knowledge, received at that time, is covered.
    fn covers(
        lately: &PurgedLately,
        key: &[u8],
        tags: &[&[u8]],
        received: Ms,
        knows: &KnownPurges,
    ) -> bool {
        let meta = Meta { status: 200, response_time: received, ..Meta::default() };
        let mut record = encode_head(&meta, &Parts { key, ..Parts::default() }).expect("a head");
        record.extend_from_slice(&Trailer::new(&record).finish());
        let page = view(&record, record.len() as u64, Verify::All).expect("a page");
        let tags: Vec<Vec<u8>> = tags.iter().map(|tag| tag.to_vec()).collect();
        lately.covers(Record { primary: key, page: &page, tags: &tags, knows })
    }

    /// The knowledge of a sender that executed one purge of author 1.
    fn informed() -> KnownPurges {
        let journal = Journal::new(1, 1000, LASTING);
        journal.done(
            journal.begin(Entry { at: NOW, soft: false, what: What::Tag(Vec::new()) }, false),
        );
        journal.knows()
    }

    fn keys(keys: &[&str]) -> What {
        What::Keys(keys.iter().map(|path| key("a", path)).collect())
    }

    #[test]
    fn who_did_not_know_is_believed_only_long_after() {
        let (lately, nothing) = (PurgedLately::default(), KnownPurges::default());
        assert!(!covers(&lately, &key("a", "/x"), &[], NOW, &nothing));
        lately.note(&keys(&["/x"]), Some((1, 1)), NOW, LASTING);
        let x =
            |received, knows: &KnownPurges| covers(&lately, &key("a", "/x"), &[], received, knows);
        assert!(x(NOW - 1, &nothing) && x(NOW + SLACK, &nothing));
        assert!(!x(NOW + SLACK + 1, &nothing));
        assert!(!x(NOW - 10_000, &informed()), "whatever the clocks say");
        assert!(!covers(&lately, &key("a", "/y"), &[], NOW - 1, &nothing));
    }

    #[test]
    fn of_purges_that_nobody_was_told_the_clock_decides() {
        let (lately, nothing) = (PurgedLately::default(), KnownPurges::default());
        lately.note(&keys(&["/x"]), None, NOW, LASTING);
        assert!(covers(&lately, &key("a", "/x"), &[], NOW, &informed()));
        assert!(!covers(&lately, &key("a", "/x"), &[], NOW + 1, &nothing));
    }

    #[test]
    fn every_kind_covers_what_it_means() {
        let (lately, nothing) = (PurgedLately::default(), KnownPurges::default());
        lately.note(
            &What::Prefix("b".to_owned(), 0, b"/wiki/".to_vec()),
            Some((1, 1)),
            NOW,
            LASTING,
        );
        lately.note(&What::Tag(b"site\0red".to_vec()), Some((1, 2)), NOW, LASTING);
        lately.note(&What::Ban("url ~ \"^/ban\"".to_owned()), Some((1, 3)), NOW, LASTING);
        let old = |key: &[u8], tags: &[&[u8]]| covers(&lately, key, tags, NOW - 5, &nothing);
        assert!(old(&key("b", "/wiki/Cat"), &[]));
        assert!(!old(&key("b", "/w"), &[]) && !old(&key("c", "/wiki/Cat"), &[]));
        assert!(
            old(&key("d", "/"), &[b"site\0blue", b"site\0red"])
                && !old(&key("d", "/"), &[b"site\0blue"])
        );
        assert!(old(&key("e", "/banned"), &[]) && !old(&key("e", "/other"), &[]));
        lately.missed((2, 9), NOW, LASTING);
        assert!(old(&key("e", "/other"), &[]));
    }

    #[test]
    fn a_ban_that_is_not_understood_may_mean_anything() {
        let lately = PurgedLately::default();
        lately.note(&What::Ban("colour == red".to_owned()), Some((1, 1)), NOW, LASTING);
        assert!(covers(&lately, &key("a", "/"), &[], NOW, &informed()));
        assert!(!covers(&lately, &key("a", "/"), &[], NOW + 1, &informed()));
    }

    #[test]
    fn purges_are_forgotten_when_no_record_can_be_older() {
        let (lately, nothing) = (PurgedLately::default(), KnownPurges::default());
        lately.note(&keys(&["/x"]), Some((1, 1)), NOW, LASTING);
        lately.note(&keys(&["/y"]), Some((1, 2)), NOW + LASTING, LASTING);
        assert!(covers(&lately, &key("a", "/x"), &[], NOW, &nothing));
        lately.note(&keys(&["/y"]), Some((1, 3)), NOW + LASTING + 1, LASTING);
        assert!(!covers(&lately, &key("a", "/x"), &[], NOW, &nothing));
        assert!(covers(&lately, &key("a", "/y"), &[], NOW + LASTING + 1, &nothing));
    }

    #[test]
    fn too_many_purges_cover_everything_from_before() {
        let (lately, nothing) = (PurgedLately::default(), KnownPurges::default());
        lately.note(&keys(&["/first"]), Some((1, 1)), NOW, LASTING);
        for number in 0..MOST {
            lately.note(&What::Tag(number.to_le_bytes().to_vec()), Some((1, 2)), NOW + 1, LASTING);
        }
        assert!(covers(&lately, &key("a", "/first"), &[], NOW, &informed()));
        assert!(covers(&lately, &key("a", "/another"), &[], NOW, &nothing), "who knows");
        assert!(!covers(&lately, &key("a", "/another"), &[], NOW + 1, &nothing));
        assert_eq!(lately.0.lock().order.len(), MOST);
    }
}
