//! Purges by what they mean. A record that one of them means, and that left memory before it, is
//! not used. Of purges of URLs only those under way are here: the index has forgotten the others'
//! pages.
//!
//! There are limits: [`TAGS`], [`BANS`], and those of prefixes. Beyond one, the oldest purges stand
//! for everything from before them.
//!
//! Tags belong to a site, and a page on the disk does not say which site stored it: the site that
//! has its URL now is taken for it. A purge of a tag from before the sites changed
//! ([`Purged::sites_changed`]) therefore means pages with the tag of any site.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use larder_disk::Purge;
use larder_proto::{
    http::key::{self, KeyParts},
    page::PageView,
};
use parking_lot::Mutex;

use super::{Means, prefixes::Prefixes};
use crate::{clock::Ms, page::ban::Ban};

/// Tags remembered, 24 bytes each.
const TAGS: usize = 262_144;
/// Bans: each is compared with every record that is read.
const BANS: usize = 512;

const TAG: u8 = 2;
const PREFIX: u8 = 3;
const BAN: u8 = 4;
const ALL: u8 = 5;

/// A purge under way: it means every record, whatever its ticket.
pub(super) const OPEN: u64 = u64::MAX;

/// A record as purges see it.
pub(super) struct Candidate<'c> {
    pub(super) ticket: u64,
    pub(super) primary: &'c [u8],
    pub(super) page: &'c PageView<'c>,
    /// Of its site.
    pub(super) tags: &'c [Vec<u8>],
}

/// An expression. It is compiled where that holds up nobody: neither under the lock nor, for those
/// found at the start, before the server serves.
struct Expression {
    text: Box<str>,
    at: Ms,
    /// None: another version's, which may mean anything.
    ban: OnceLock<Option<Ban>>,
}

impl Expression {
    fn new(text: &str, at: Ms) -> Arc<Expression> {
        Arc::new(Expression { text: text.into(), at, ban: OnceLock::new() })
    }

    fn compiled(&self) -> Option<&Ban> {
        self.ban.get_or_init(|| Ban::parse(&self.text).ok()).as_ref()
    }

    fn means(&self, place: &KeyParts<'_>, page: &PageView<'_>) -> bool {
        self.compiled().is_none_or(|ban| ban.means(place, page, self.at))
    }
}

#[derive(Clone)]
struct Banned {
    expression: Arc<Expression>,
    number: u64,
}

/// A purge of a tag.
struct Tagged {
    number: u64,
    /// The hash of the tag without its site.
    plain: u64,
}

#[derive(Default)]
struct Marks {
    /// By the hash of a tag with its site.
    tags: HashMap<u64, Tagged>,
    /// Purges that mean pages of any site, by the hash of the tag without a site.
    of_any_site: HashMap<u64, u64>,
    /// Sites are changing: new purges mean pages of any site, too.
    changing: bool,
    /// Tags of purges under way, and how many.
    open_tags: HashMap<u64, u32>,
    open_keys: Vec<Box<[u8]>>,
    prefixes: Prefixes,
    /// Shared with readers, who compare them without the lock.
    bans: Arc<Vec<Banned>>,
    /// Purges of everything under way.
    open_all: u32,
    /// Records with a smaller ticket are not used.
    floor: u64,
}

/// See the module. Locked for moments, by purges and by reads of the disk only.
#[derive(Default)]
pub(super) struct Purged(Mutex<Marks>);

fn tag_hash(tag: &[u8]) -> u64 {
    rapidhash::v3::rapidhash_v3(tag)
}

/// The hash of a tag without its site ([`site_tag`](crate::page::tags::site_tag)).
fn plain_hash(tag: &[u8]) -> u64 {
    let own = tag.iter().position(|&byte| byte == 0).map_or(tag, |at| &tag[at + 1..]);
    tag_hash(own)
}

/// The form of a purge in the journal.
pub(super) fn encode(means: &Means<'_>, at: Ms) -> Option<(u8, Vec<u8>)> {
    Some(match means {
        Means::Keys(_) => return None,
        Means::Tag(tag) => (TAG, tag.to_vec()),
        Means::Prefix(host, port, path) => {
            let host_length = u16::try_from(host.len()).unwrap_or(u16::MAX);
            let head = [port.to_le_bytes(), host_length.to_le_bytes()].concat();
            (PREFIX, [&head, host.as_bytes(), path].concat())
        }
        Means::Ban(text) => (BAN, [&at.to_le_bytes(), text.as_bytes()].concat()),
        Means::All => (ALL, Vec::new()),
    })
}

fn decode(kind: u8, what: &[u8]) -> Option<(Means<'_>, Ms)> {
    Some(match kind {
        TAG => (Means::Tag(what), 0),
        PREFIX => {
            let (&[p0, p1, l0, l1], rest) = what.split_first_chunk()?;
            let length = usize::from(u16::from_le_bytes([l0, l1]));
            let (host, path) = rest.split_at_checked(length)?;
            let host = std::str::from_utf8(host).ok()?;
            (Means::Prefix(host, u16::from_le_bytes([p0, p1]), path), 0)
        }
        BAN => {
            let (at, text) = what.split_first_chunk()?;
            (Means::Ban(std::str::from_utf8(text).ok()?), Ms::from_le_bytes(*at))
        }
        // All, and what another version means.
        _ => return None,
    })
}

impl Purged {
    /// A purge begins: until [`Purged::done`] it means every record.
    pub(super) fn begin(&self, means: &Means<'_>, at: Ms) {
        if let Means::Ban(text) = means {
            let expression = Expression::new(text, at);
            expression.compiled();
            return self.0.lock().ban(expression, OPEN);
        }
        let mut marks = self.0.lock();
        match means {
            Means::Keys(keys) => {
                marks.open_keys.extend(keys.iter().map(|key| key.as_slice().into()));
            }
            Means::Tag(tag) => *marks.open_tags.entry(tag_hash(tag)).or_default() += 1,
            Means::All => marks.open_all += 1,
            Means::Prefix(host, port, path) => marks.prefixes.begin(host, *port, path),
            // Above.
            Means::Ban(_) => {}
        }
    }

    /// It is done in memory, and has its number; `None`: it needs none.
    pub(super) fn done(&self, means: &Means<'_>, at: Ms, number: Option<u64>) {
        let mut marks = self.0.lock();
        match means {
            Means::Keys(keys) => {
                for key in *keys {
                    let found = marks.open_keys.iter().position(|open| **open == key[..]);
                    found.map(|at| marks.open_keys.swap_remove(at));
                }
            }
            Means::Tag(tag) => {
                let hash = tag_hash(tag);
                if let Some(open) = marks.open_tags.get_mut(&hash) {
                    *open -= 1;
                    if *open == 0 {
                        marks.open_tags.remove(&hash);
                    }
                }
            }
            Means::All => marks.open_all -= 1,
            Means::Prefix(host, port, path) => marks.prefixes.end(host, *port, path),
            Means::Ban(text) => {
                let open = |b: &Banned| {
                    b.number == OPEN && (&*b.expression.text, b.expression.at) == (*text, at)
                };
                let found = marks.bans.iter().position(open);
                let open = found.map(|at| Arc::make_mut(&mut marks.bans).swap_remove(at));
                if let (Some(open), Some(number)) = (open, number) {
                    marks.ban(open.expression, number);
                }
                return;
            }
        }
        if let Some(number) = number {
            marks.mark(means, at, number);
        }
    }

    /// A purge of an earlier run. `same_sites`: the sites were those of now.
    pub(super) fn found(&self, purge: &Purge, same_sites: bool) {
        let mut marks = self.0.lock();
        match decode(purge.kind, &purge.what) {
            Some((Means::Tag(tag), _)) if !same_sites => {
                marks.mark_any_site(plain_hash(tag), purge.number);
                marks.limit();
            }
            Some((means, at)) => marks.mark(&means, at, purge.number),
            None => marks.floor = marks.floor.max(purge.number),
        }
    }

    /// Other sites have the pages from now on, or may have had them until now. `changing`: some
    /// threads do not know of it yet.
    pub(super) fn sites_changed(&self, changing: bool) {
        let mut marks = self.0.lock();
        marks.changing = changing;
        for (_, tagged) in std::mem::take(&mut marks.tags) {
            marks.mark_any_site(tagged.plain, tagged.number);
        }
        marks.limit();
    }

    /// Compiles the expressions found at the start, before a page is compared with them.
    pub(super) fn compile(&self) {
        let bans = self.0.lock().bans.clone();
        for ban in &*bans {
            ban.expression.compiled();
        }
    }

    /// Whether a purge of this URL is under way.
    pub(super) fn is_open(&self, primary: &[u8]) -> bool {
        self.0.lock().open_keys.iter().any(|key| **key == *primary)
    }

    /// Purges up to this number mean nothing any more.
    pub(super) fn forget(&self, needless: u64) {
        let mut marks = self.0.lock();
        if marks.floor >= needless {
            return;
        }
        marks.floor = needless;
        marks.tags.retain(|_, tagged| tagged.number > needless);
        marks.of_any_site.retain(|_, number| *number > needless);
        marks.prefixes.forget(needless);
        if marks.bans.iter().any(|ban| ban.number <= needless) {
            Arc::make_mut(&mut marks.bans).retain(|ban| ban.number > needless);
        }
    }

    /// Whether a record was purged since it left memory.
    pub(super) fn covers(&self, record: &Candidate<'_>) -> bool {
        let marks = self.0.lock();
        let older = |number: u64| record.ticket < number;
        let primary = record.primary;
        if older(marks.floor)
            || marks.open_all > 0
            || marks.open_keys.iter().any(|key| **key == *primary)
        {
            return true;
        }
        let tagged = |tag: &Vec<u8>| {
            let hash = tag_hash(tag);
            let any_site = || marks.of_any_site.get(&plain_hash(tag)).copied();
            marks.open_tags.contains_key(&hash)
                || marks.tags.get(&hash).is_some_and(|tagged| older(tagged.number))
                || (!marks.of_any_site.is_empty() && any_site().is_some_and(older))
        };
        if record.tags.iter().any(tagged) {
            return true;
        }
        if marks.prefixes.is_empty() && marks.bans.is_empty() {
            return false;
        }
        let Some(place) = key::parse_key(primary) else { return true };
        if older(marks.prefixes.latest(place.host, place.port, place.path_and_query)) {
            return true;
        }
        let bans = marks.bans.clone();
        drop(marks);
        let means = |ban: &Banned| ban.expression.means(&place, record.page);
        bans.iter().any(|ban| older(ban.number) && means(ban))
    }
}

/// The oldest of these purges that is done. One that is under way stands for nothing but itself.
fn oldest(numbers: impl Iterator<Item = u64>) -> Option<u64> {
    numbers.filter(|number| *number != OPEN).min()
}

impl Marks {
    fn mark(&mut self, means: &Means<'_>, at: Ms, number: u64) {
        match means {
            Means::Keys(_) => {}
            Means::All => self.floor = self.floor.max(number),
            Means::Tag(tag) => {
                let (hash, plain) = (tag_hash(tag), plain_hash(tag));
                let latest = self.tags.entry(hash).or_insert(Tagged { number, plain });
                latest.number = number.max(latest.number);
                if self.changing {
                    self.mark_any_site(plain, number);
                }
            }
            Means::Prefix(host, port, path) => {
                let dropped = self.prefixes.purged(host, *port, path, number);
                self.floor = self.floor.max(dropped.unwrap_or(0));
            }
            // The same expression later means all that it meant before: but for ages.
            Means::Ban(text) => self.ban(Expression::new(text, at), number),
        }
        self.limit();
    }

    fn ban(&mut self, expression: Arc<Expression>, number: u64) {
        Arc::make_mut(&mut self.bans).push(Banned { expression, number });
        self.limit();
    }

    fn mark_any_site(&mut self, plain: u64, number: u64) {
        let latest = self.of_any_site.entry(plain).or_default();
        *latest = number.max(*latest);
    }

    fn limit(&mut self) {
        if self.tags.len() + self.of_any_site.len() > TAGS {
            let own = self.tags.values().map(|tagged| tagged.number);
            let mut numbers: Vec<u64> = own.chain(self.of_any_site.values().copied()).collect();
            let (_, middle, _) = numbers.select_nth_unstable(TAGS / 2);
            let middle = *middle;
            self.floor = self.floor.max(middle);
            self.tags.retain(|_, tagged| tagged.number > middle);
            self.of_any_site.retain(|_, number| *number > middle);
        }
        if self.bans.len() > BANS
            && let Some(oldest) = oldest(self.bans.iter().map(|b| b.number))
        {
            self.floor = self.floor.max(oldest);
            Arc::make_mut(&mut self.bans).retain(|ban| ban.number > oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_proto::page::{Meta, Parts, Trailer, Verify, encode_head, view};

    #[test]
    fn purges_under_way_stand_for_nothing_but_themselves() {
        let purged = Purged::default();
        let (ban, prefix) = (Means::Ban("url ~ \"^/x\""), Means::Prefix("a.test", 0, b"/x"));
        for at in 0..=BANS as u64 {
            purged.begin(&ban, at);
        }
        (0..=4096).for_each(|_| purged.begin(&prefix, 0));
        assert_eq!(purged.0.lock().floor, 0);
        for at in 0..=BANS as u64 {
            purged.done(&ban, at, Some(100 + at));
        }
        // One too many: the oldest stands for everything from before it.
        assert_eq!(purged.0.lock().floor, 100);
        assert_eq!(purged.0.lock().bans.len(), BANS);
    }

    /// Whether a page with these tags that left memory under this ticket is purged.
    fn covers(purged: &Purged, ticket: u64, tags: &[&[u8]]) -> bool {
        let mut key = Vec::new();
        key::write_key(&mut key, key::Scheme::Http, "a.test", 0, b"/x");
        let parts = Parts { key: &key, ..Parts::default() };
        let mut record = encode_head(&Meta::default(), &parts).expect("a head");
        record.extend(Trailer::new(&record).finish());
        let page = view(&record, record.len() as u64, Verify::Layout).expect("a page");
        let tags: Vec<Vec<u8>> = tags.iter().map(|tag| tag.to_vec()).collect();
        purged.covers(&Candidate { ticket, primary: &key, page: &page, tags: &tags })
    }

    #[test]
    fn a_purge_of_a_tag_outlives_the_name_of_its_site() {
        let purged = Purged::default();
        let found = |kind, what: &[u8], same| {
            purged.found(&Purge { number: 10, kind, what: what.to_vec() }, same);
        };
        found(TAG, b"one.test\0red", false);
        found(TAG, b"one.test\0blue", true);
        assert!(covers(&purged, 9, &[b"two.test\0red"]), "by another name");
        assert!(!covers(&purged, 10, &[b"two.test\0red"]), "newer");
        assert!(!covers(&purged, 9, &[b"two.test\0blue"]), "another site's");
        assert!(covers(&purged, 9, &[b"one.test\0blue"]));
        // A reload: some workers know the new names, some do not.
        purged.sites_changed(true);
        assert!(covers(&purged, 9, &[b"two.test\0blue"]));
        purged.done(&Means::Tag(b"one.test\0green"), 0, Some(20));
        assert!(covers(&purged, 15, &[b"two.test\0green"]));
        purged.sites_changed(false);
        purged.done(&Means::Tag(b"one.test\0black"), 0, Some(30));
        assert!(!covers(&purged, 25, &[b"two.test\0black"]), "the sites were known");
        assert!(covers(&purged, 15, &[b"two.test\0green"]));
    }

    #[test]
    fn expressions_of_the_journal_are_compiled_later() {
        let purged = Purged::default();
        let ban = |text: &str| [&0u64.to_le_bytes(), text.as_bytes()].concat();
        purged.found(&Purge { number: 10, kind: BAN, what: ban("url ~ \"^/y\"") }, true);
        assert!(purged.0.lock().bans[0].expression.ban.get().is_none());
        assert!(!covers(&purged, 9, &[]));
        purged.found(&Purge { number: 20, kind: BAN, what: ban("url ~ \"^/x\"") }, true);
        purged.compile();
        assert!(purged.0.lock().bans.iter().all(|ban| ban.expression.ban.get().is_some()));
        assert!(covers(&purged, 15, &[]) && !covers(&purged, 25, &[]));
        // Another version's: it may mean anything.
        purged.found(&Purge { number: 30, kind: BAN, what: ban("colour == red") }, true);
        assert!(covers(&purged, 25, &[]) && !covers(&purged, 35, &[]));
    }
}
