//! Purges by what they mean. A record that one of them means, and that left memory before it, is
//! not used. Of purges of URLs only those under way are here: the index has forgotten the others'
//! pages.
//!
//! There are limits: [`TAGS`], [`PREFIXES`], [`BANS`]. Beyond one, the oldest purges stand for
//! everything from before them.

use std::collections::HashMap;

use larder_disk::Purge;
use larder_proto::{
    http::key::{self, KeyParts},
    page::PageView,
};
use parking_lot::Mutex;

use super::Means;
use crate::{clock::Ms, page::ban::Ban};

/// Tags remembered, 16 bytes each.
const TAGS: usize = 262_144;
/// Prefixes: each is compared with every record that is read.
const PREFIXES: usize = 4096;
/// Bans: the same.
const BANS: usize = 512;

const TAG: u8 = 2;
const PREFIX: u8 = 3;
const BAN: u8 = 4;
const ALL: u8 = 5;

/// A purge under way: it means every record, whatever its ticket.
const OPEN: u64 = u64::MAX;

/// A record as purges see it.
pub(super) struct Candidate<'c> {
    pub(super) ticket: u64,
    pub(super) primary: &'c [u8],
    pub(super) page: &'c PageView<'c>,
    /// Of its site.
    pub(super) tags: &'c [Vec<u8>],
}

struct Prefix {
    host: Box<str>,
    port: u16,
    path: Box<[u8]>,
    number: u64,
}

struct Banned {
    text: Box<str>,
    ban: Ban,
    at: Ms,
    number: u64,
}

#[derive(Default)]
struct Marks {
    /// By the hash of a tag.
    tags: HashMap<u64, u64>,
    /// Tags of purges under way, and how many.
    open_tags: HashMap<u64, u32>,
    open_keys: Vec<Box<[u8]>>,
    prefixes: Vec<Prefix>,
    bans: Vec<Banned>,
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
        let mut marks = self.0.lock();
        match means {
            Means::Keys(keys) => {
                marks.open_keys.extend(keys.iter().map(|key| key.as_slice().into()));
            }
            Means::Tag(tag) => *marks.open_tags.entry(tag_hash(tag)).or_default() += 1,
            Means::All => marks.open_all += 1,
            _ => marks.mark(means, at, OPEN),
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
            Means::Prefix(host, port, path) => {
                let open = |p: &Prefix| {
                    p.number == OPEN && (&*p.host, p.port, &*p.path) == (*host, *port, *path)
                };
                let found = marks.prefixes.iter().position(open);
                found.map(|at| marks.prefixes.swap_remove(at));
            }
            Means::Ban(text) => {
                let open = |b: &Banned| b.number == OPEN && (&*b.text, b.at) == (*text, at);
                let found = marks.bans.iter().position(open);
                found.map(|at| marks.bans.swap_remove(at));
            }
        }
        if let Some(number) = number {
            marks.mark(means, at, number);
        }
    }

    /// A purge of an earlier run.
    pub(super) fn found(&self, purge: &Purge) {
        let mut marks = self.0.lock();
        match decode(purge.kind, &purge.what) {
            Some((means, at)) => marks.mark(&means, at, purge.number),
            None => marks.floor = marks.floor.max(purge.number),
        }
    }

    /// Purges up to this number mean nothing any more.
    pub(super) fn forget(&self, needless: u64) {
        let mut marks = self.0.lock();
        if marks.floor >= needless {
            return;
        }
        marks.floor = needless;
        marks.tags.retain(|_, number| *number > needless);
        marks.prefixes.retain(|prefix| prefix.number > needless);
        marks.bans.retain(|ban| ban.number > needless);
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
            marks.open_tags.contains_key(&hash) || marks.tags.get(&hash).copied().is_some_and(older)
        };
        if record.tags.iter().any(tagged) {
            return true;
        }
        if marks.prefixes.is_empty() && marks.bans.is_empty() {
            return false;
        }
        let Some(place) = key::parse_key(primary) else { return true };
        let below = |prefix: &Prefix| {
            (place.host, place.port) == (&*prefix.host, prefix.port)
                && place.path_and_query.starts_with(&prefix.path)
        };
        let means = |ban: &Banned, place: &KeyParts<'_>| ban.ban.means(place, record.page, ban.at);
        marks.prefixes.iter().any(|prefix| older(prefix.number) && below(prefix))
            || marks.bans.iter().any(|ban| older(ban.number) && means(ban, &place))
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
                let latest = self.tags.entry(tag_hash(tag)).or_default();
                *latest = number.max(*latest);
            }
            Means::Prefix(host, port, path) => {
                let same = |p: &Prefix| (&*p.host, p.port, &*p.path) == (*host, *port, *path);
                self.prefixes.retain(|p| p.number == OPEN || number == OPEN || !same(p));
                let (host, path) = ((*host).into(), (*path).into());
                self.prefixes.push(Prefix { host, port: *port, path, number });
            }
            Means::Ban(text) => match Ban::parse(text) {
                // The same expression later means all that it meant before: but for ages.
                Ok(ban) => self.bans.push(Banned { text: (*text).into(), ban, at, number }),
                // Another version's: it may mean anything.
                Err(_) if number != OPEN => self.floor = self.floor.max(number),
                Err(_) => {}
            },
        }
        self.limit();
    }

    fn limit(&mut self) {
        if self.tags.len() > TAGS {
            let mut numbers: Vec<u64> = self.tags.values().copied().collect();
            let (_, middle, _) = numbers.select_nth_unstable(TAGS / 2);
            let middle = *middle;
            self.floor = self.floor.max(middle);
            self.tags.retain(|_, number| *number > middle);
        }
        if self.prefixes.len() > PREFIXES
            && let Some(oldest) = oldest(self.prefixes.iter().map(|p| p.number))
        {
            self.floor = self.floor.max(oldest);
            self.prefixes.retain(|prefix| prefix.number > oldest);
        }
        if self.bans.len() > BANS
            && let Some(oldest) = oldest(self.bans.iter().map(|b| b.number))
        {
            self.floor = self.floor.max(oldest);
            self.bans.retain(|ban| ban.number > oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purges_under_way_stand_for_nothing_but_themselves() {
        let purged = Purged::default();
        let (ban, prefix) = (Means::Ban("url ~ \"^/x\""), Means::Prefix("a.test", 0, b"/x"));
        for at in 0..=BANS as u64 {
            purged.begin(&ban, at);
        }
        (0..=PREFIXES).for_each(|_| purged.begin(&prefix, 0));
        assert_eq!(purged.0.lock().floor, 0);
        for at in 0..=BANS as u64 {
            purged.done(&ban, at, Some(100 + at));
        }
        // One too many: the oldest stands for everything from before it.
        assert_eq!(purged.0.lock().floor, 100);
        assert_eq!(purged.0.lock().bans.len(), BANS);
    }
}
