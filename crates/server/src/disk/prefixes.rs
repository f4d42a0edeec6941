//! Purges of prefixes. By host, then in the order of port and path: a record is compared with the
//! prefixes of its own path and few others, however many were purged, and a purge found at the
//! start costs a search.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound,
};

use super::purged::OPEN;

/// Prefixes remembered.
const MOST: usize = 65_536;
/// Bytes of all of them.
const MOST_BYTES: usize = 8 << 20;
/// Part of them that one purge stands for when there are more: so a pass over all is rare.
const DROPPED: usize = 8;
/// Bytes of memory beside the text of a prefix, about.
const OVERHEAD: usize = 64;

#[derive(Clone, Copy, Default)]
struct Mark {
    /// The latest purge that is done; 0: none.
    number: u64,
    /// Purges under way.
    open: u32,
}

/// By port and path.
type Paths = BTreeMap<Box<[u8]>, Mark>;

/// See the module.
#[derive(Default)]
pub(super) struct Prefixes {
    hosts: HashMap<Box<str>, Paths>,
    count: usize,
    bytes: usize,
}

fn place(port: u16, path: &[u8]) -> Vec<u8> {
    [&port.to_be_bytes(), path].concat()
}

impl Prefixes {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn mark(&mut self, host: &str, port: u16, path: &[u8]) -> &mut Mark {
        let place = place(port, path);
        let cost = place.len() + OVERHEAD;
        let paths = self.hosts.entry(host.into()).or_default();
        let (count, bytes) = (&mut self.count, &mut self.bytes);
        paths.entry(place.into()).or_insert_with(|| {
            (*count, *bytes) = (*count + 1, *bytes + cost);
            Mark::default()
        })
    }

    /// A purge is under way: it means every record.
    pub(super) fn begin(&mut self, host: &str, port: u16, path: &[u8]) {
        self.mark(host, port, path).open += 1;
    }

    /// A purge that was under way is done, or not to be noted.
    pub(super) fn end(&mut self, host: &str, port: u16, path: &[u8]) {
        let mark = self.mark(host, port, path);
        mark.open = mark.open.saturating_sub(1);
        if (mark.open, mark.number) == (0, 0)
            && let Some(paths) = self.hosts.get_mut(host)
        {
            let place = place(port, path);
            if paths.remove(&place[..]).is_some() {
                (self.count, self.bytes) = (self.count - 1, self.bytes - place.len() - OVERHEAD);
            }
            if paths.is_empty() {
                self.hosts.remove(host);
            }
        }
    }

    /// A purge has this number. Returns the number up to which records count as purged, if there
    /// were too many.
    pub(super) fn purged(
        &mut self,
        host: &str,
        port: u16,
        path: &[u8],
        number: u64,
    ) -> Option<u64> {
        let mark = self.mark(host, port, path);
        mark.number = number.max(mark.number);
        (self.count > MOST || self.bytes > MOST_BYTES).then(|| self.drop_oldest()).flatten()
    }

    /// The oldest ones go. A purge under way stands for nothing but itself.
    fn drop_oldest(&mut self) -> Option<u64> {
        let all = self.hosts.values().flat_map(BTreeMap::values);
        let mut numbers: Vec<u64> = all.map(|mark| mark.number).filter(|n| *n > 0).collect();
        if numbers.is_empty() {
            return None;
        }
        let at = numbers.len() / DROPPED;
        let (_, oldest, _) = numbers.select_nth_unstable(at);
        let oldest = *oldest;
        self.forget(oldest);
        Some(oldest)
    }

    /// Purges up to this number mean nothing any more.
    pub(super) fn forget(&mut self, needless: u64) {
        self.retain(|mark| mark.number > needless || mark.open > 0);
    }

    fn retain(&mut self, keep: impl Fn(&Mark) -> bool) {
        for paths in self.hosts.values_mut() {
            paths.retain(|place, mark| {
                let stays = keep(mark);
                if !stays {
                    self.count -= 1;
                    self.bytes -= place.len() + OVERHEAD;
                }
                stays
            });
        }
        self.hosts.retain(|_, paths| !paths.is_empty());
    }

    /// The number of the latest purge that means this path; 0: none does.
    pub(super) fn latest(&self, host: &str, port: u16, path: &[u8]) -> u64 {
        self.hosts.get(host).map_or(0, |paths| latest(paths, &place(port, path)).0)
    }
}

/// The latest purge of those whose prefix begins `key`, and how many prefixes were looked at. One
/// that does not begin it rules out all between it and their common beginning.
fn latest(paths: &Paths, key: &[u8]) -> (u64, usize) {
    let (mut latest, mut steps) = (0, 0);
    let mut end = Bound::Included(key);
    while let Some((found, mark)) = paths.range::<[u8], _>((Bound::Unbounded, end)).next_back() {
        steps += 1;
        let common = found.iter().zip(key).take_while(|(a, b)| a == b).count();
        if common == found.len() {
            latest = latest.max(if mark.open > 0 { OPEN } else { mark.number });
            end = Bound::Excluded(&key[..common]);
        } else {
            end = Bound::Included(&key[..common]);
        }
    }
    (latest, steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that repeat in no pattern.
    fn numbers(seed: u64) -> impl Iterator<Item = u64> {
        (1u64..).map(move |n| {
            let z = (n ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (z ^ (z >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33
        })
    }

    /// Paths of few letters, so that many begin others.
    fn path(number: u64) -> Vec<u8> {
        let length = number % 7;
        (0..length).map(|at| b'a' + (number >> (3 + 2 * at)) as u8 % 3).collect()
    }

    #[test]
    fn the_latest_prefix_is_found_as_by_comparing_all() {
        let mut prefixes = Prefixes::default();
        let mut all: Vec<(Vec<u8>, u64)> = Vec::new();
        for (number, random) in (1u64..).zip(numbers(5)).take(400) {
            let purged = path(random);
            assert_eq!(prefixes.purged("a.test", 80, &purged, number), None);
            all.push((purged, number));
            let asked = path(random.rotate_left(13) ^ number);
            let means = all.iter().filter(|(prefix, _)| asked.starts_with(prefix));
            let expected = means.map(|(_, number)| *number).max().unwrap_or(0);
            assert_eq!(prefixes.latest("a.test", 80, &asked), expected);
            assert_eq!(prefixes.latest("a.test", 81, &asked), 0);
            assert_eq!(prefixes.latest("b.test", 80, &asked), 0);
        }
        prefixes.forget(390);
        let expected = all.iter().skip(390).map(|(_, number)| *number).max();
        assert_eq!(prefixes.hosts["a.test"].values().map(|mark| mark.number).max(), expected);
        assert_eq!(prefixes.count, prefixes.hosts["a.test"].len());
    }

    #[test]
    fn a_record_is_compared_with_few_of_many() {
        let mut prefixes = Prefixes::default();
        for n in 1..=60_000u64 {
            let path = format!("/section/{}/page/{n}/", n % 100);
            assert_eq!(prefixes.purged("a.test", 0, path.as_bytes(), n), None);
        }
        let paths = &prefixes.hosts["a.test"];
        for n in (1..=60_000u64).step_by(997) {
            let path = format!("/section/{}/page/{n}/index.html", n % 100);
            let (number, steps) = latest(paths, &place(0, path.as_bytes()));
            assert!(number == n && steps <= 8, "{number} of {n} in {steps} steps");
            let (number, steps) = latest(paths, &place(0, format!("{path}x").as_bytes()));
            assert!(number == n && steps <= 8, "{steps} steps");
            let other = format!("/section/{}/pages/{n}", n % 100);
            let (number, steps) = latest(paths, &place(0, other.as_bytes()));
            assert!(number == 0 && steps <= 8, "{steps} steps");
        }
    }

    #[test]
    fn a_start_with_many_prefixes_passes_over_all_of_them_seldom() {
        let (mut prefixes, mut passes, mut floor) = (Prefixes::default(), 0, 0);
        prefixes.begin("a.test", 0, b"/under/way");
        for n in 1..=500_000u64 {
            if let Some(dropped) = prefixes.purged("a.test", 0, n.to_string().as_bytes(), n) {
                (passes, floor) = (passes + 1, dropped);
            }
            assert!(prefixes.count <= MOST);
        }
        assert!(passes <= 500_000 / (MOST / DROPPED) + 1, "{passes} passes");
        assert!(floor < 500_000 - (MOST - MOST / DROPPED) as u64 + 2, "{floor}");
        assert_eq!(prefixes.latest("a.test", 0, b"499999/x"), 499_999);
        assert_eq!(prefixes.latest("a.test", 0, b"/under/way/x"), OPEN);
        prefixes.end("a.test", 0, b"/under/way");
        assert_eq!(prefixes.latest("a.test", 0, b"/under/way/x"), 0);
    }

    #[test]
    fn long_prefixes_are_bounded_by_their_bytes() {
        let (mut prefixes, mut dropped) = (Prefixes::default(), 0);
        for n in 1..=4_000u64 {
            let path = format!("{n:08000}");
            dropped += u64::from(prefixes.purged("a.test", 0, path.as_bytes(), n).is_some());
            assert!(prefixes.bytes <= MOST_BYTES);
        }
        assert!(dropped > 0);
        prefixes.forget(u64::MAX - 1);
        assert_eq!((prefixes.count, prefixes.bytes), (0, 0));
    }
}
