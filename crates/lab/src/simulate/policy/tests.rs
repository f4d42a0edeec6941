//! Each policy compared with a naive model, and properties of all of them.

use super::Kind;
use crate::load::Verb;
use crate::simulate::request::{Request, look_ahead};
use proptest::prelude::*;
use std::collections::VecDeque;

/// Reads `(object, bytes)`; returns which of them hit.
fn hits(kind: Kind, capacity: u64, reads: &[(u32, u32)]) -> Vec<bool> {
    let mut trace: Vec<Request> =
        reads.iter().map(|(id, size)| Request::new(0, *id, *size, 0, Verb::Get)).collect();
    look_ahead(&mut trace, 64);
    let mut cache = kind.open(capacity, 64, 1).unwrap();
    let step = |request: &Request| {
        let hit = cache.get(request);
        if !hit {
            cache.set(request);
        }
        assert!(cache.used() <= capacity, "{} has {} of {capacity}", kind.name(), cache.used());
        hit
    };
    trace.iter().map(step).collect()
}

fn total(hits: &[bool]) -> usize {
    hits.iter().filter(|hit| **hit).count()
}

/// Objects in a row, the next victim first, each with bytes and a mark.
#[derive(Default)]
struct Row(VecDeque<(u32, u32, u32)>);

impl Row {
    fn bytes(&self) -> u64 {
        self.0.iter().map(|(_, size, _)| u64::from(*size)).sum()
    }

    fn find(&self, id: u32) -> Option<usize> {
        self.0.iter().position(|entry| entry.0 == id)
    }
}

/// Common to models of one row: `hit` changes the row on a hit, `victim` selects the object to
/// evict (and may change the row).
fn row(
    capacity: u64,
    reads: &[(u32, u32)],
    hit: impl Fn(&mut Row, usize),
    mut victim: impl FnMut(&mut Row) -> usize,
) -> Vec<bool> {
    let mut row = Row::default();
    let mut step = |(id, size): &(u32, u32)| {
        if let Some(at) = row.find(*id) {
            hit(&mut row, at);
            return true;
        }
        if u64::from(*size) <= capacity {
            while row.bytes() + u64::from(*size) > capacity {
                let at = victim(&mut row);
                row.0.remove(at);
            }
            row.0.push_back((*id, *size, 0));
        }
        false
    };
    reads.iter().map(&mut step).collect()
}

fn model(kind: Kind, capacity: u64, reads: &[(u32, u32)]) -> Vec<bool> {
    let to_back = |row: &mut Row, at: usize| {
        let entry = row.0.remove(at).unwrap();
        row.0.push_back(entry);
    };
    let mark = |row: &mut Row, at: usize| row.0[at].2 = 1;
    match kind {
        Kind::Fifo => row(capacity, reads, |_, _| {}, |_| 0),
        Kind::Lru => row(capacity, reads, to_back, |_| 0),
        Kind::Clock => row(capacity, reads, mark, |row| {
            while row.0[0].2 == 1 {
                row.0[0].2 = 0;
                row.0.rotate_left(1);
            }
            0
        }),
        Kind::Sieve => {
            let mut hand = 0;
            row(capacity, reads, mark, move |row| {
                loop {
                    if hand >= row.0.len() {
                        hand = 0;
                    }
                    if row.0[hand].2 == 0 {
                        let at = hand;
                        // Objects stored next are placed after the newest, and the hand starts
                        // again.
                        hand = if at + 1 == row.0.len() { 0 } else { at };
                        return at;
                    }
                    row.0[hand].2 = 0;
                    hand += 1;
                }
            })
        }
        Kind::Lfu => {
            let count = |row: &mut Row, at: usize| {
                row.0[at].2 += 1;
                to_back(row, at);
            };
            row(capacity, reads, count, |row| {
                let least = row.0.iter().map(|entry| entry.2).min().unwrap();
                row.0.iter().position(|entry| entry.2 == least).unwrap()
            })
        }
        Kind::S3Fifo => s3fifo(capacity, reads),
        _ => unreachable!(),
    }
}

/// Algorithm 1 of the paper.
fn s3fifo(capacity: u64, reads: &[(u32, u32)]) -> Vec<bool> {
    let [mut small, mut main, mut ghost] = [Row::default(), Row::default(), Row::default()];
    let mut all = Vec::new();
    for (id, size) in reads.iter().copied() {
        let found = [&mut small, &mut main]
            .into_iter()
            .find_map(|row| row.find(id).map(|at| &mut row.0[at].2));
        all.push(found.is_some());
        if let Some(count) = found {
            *count = (*count + 1).min(3);
            continue;
        }
        if u64::from(size) > capacity {
            continue;
        }
        let known = ghost.find(id).map(|at| ghost.0.remove(at));
        while small.bytes() + main.bytes() + u64::from(size) > capacity {
            if small.bytes() > capacity / 10 || main.0.is_empty() {
                let (id, size, count) = small.0.pop_front().unwrap();
                if count > 1 {
                    main.0.push_back((id, size, 0));
                    continue;
                }
                ghost.0.push_back((id, size, 0));
                while ghost.bytes() > capacity - capacity / 10 {
                    ghost.0.pop_front();
                }
            } else {
                let (id, size, count) = main.0.pop_front().unwrap();
                if count > 0 {
                    main.0.push_back((id, size, count - 1));
                }
            }
        }
        let row = if known.is_some() { &mut main } else { &mut small };
        row.0.push_back((id, size, 0));
    }
    all
}

/// ARC for objects of one byte, as in figure 4 of the paper; lists have the LRU end first.
fn arc(c: usize, reads: &[(u32, u32)]) -> Vec<bool> {
    let [mut t1, mut t2, mut b1, mut b2] = [const { VecDeque::<u32>::new() }; 4];
    let mut p = 0.0f64;
    let out = |list: &mut VecDeque<u32>, id: u32| {
        list.iter().position(|known| *known == id).map(|at| list.remove(at)).is_some()
    };
    let mut all = Vec::new();
    for (x, _) in reads.iter().copied() {
        let hit = out(&mut t1, x) || out(&mut t2, x);
        all.push(hit);
        let in_b2 = b2.contains(&x);
        if hit {
            t2.push_back(x);
            continue;
        }
        let replace = |t1: &mut VecDeque<u32>,
                       t2: &mut VecDeque<u32>,
                       b1: &mut VecDeque<u32>,
                       b2: &mut VecDeque<u32>,
                       p: f64| {
            let len = t1.len() as f64;
            if !t1.is_empty() && (len > p || (in_b2 && len == p)) {
                b1.extend(t1.pop_front());
            } else {
                b2.extend(t2.pop_front());
            }
        };
        let (one, two) = (b1.len() as f64, b2.len() as f64);
        if b1.contains(&x) {
            p = (p + (two / one).max(1.0)).min(c as f64);
            replace(&mut t1, &mut t2, &mut b1, &mut b2, p);
            out(&mut b1, x);
            t2.push_back(x);
        } else if in_b2 {
            p = (p - (one / two).max(1.0)).max(0.0);
            replace(&mut t1, &mut t2, &mut b1, &mut b2, p);
            out(&mut b2, x);
            t2.push_back(x);
        } else {
            if t1.len() + b1.len() == c {
                if t1.len() < c {
                    b1.pop_front();
                    replace(&mut t1, &mut t2, &mut b1, &mut b2, p);
                } else {
                    t1.pop_front();
                }
            } else if t1.len() + t2.len() + b1.len() + b2.len() >= c {
                if t1.len() + t2.len() + b1.len() + b2.len() == 2 * c {
                    b2.pop_front();
                }
                replace(&mut t1, &mut t2, &mut b1, &mut b2, p);
            }
            t1.push_back(x);
        }
    }
    all
}

/// The most hits of any sequence of victims (or of not storing), by exhaustive search. Objects of
/// one byte.
fn best(capacity: usize, reads: &[u32]) -> usize {
    let mut states = std::collections::HashMap::from([(0u32, 0usize)]);
    for id in reads {
        let mut next = std::collections::HashMap::new();
        let mut reach = |state: u32, hits: usize| {
            let known = next.entry(state).or_insert(0);
            *known = hits.max(*known);
        };
        for (state, hits) in states {
            if state & (1 << id) != 0 {
                reach(state, hits + 1);
                continue;
            }
            reach(state, hits);
            if (state.count_ones() as usize) < capacity {
                reach(state | 1 << id, hits);
            } else {
                (0..32)
                    .filter(|at| state & (1 << at) != 0)
                    .for_each(|at| reach((state & !(1 << at)) | 1 << id, hits));
            }
        }
        states = next;
    }
    states.into_values().max().unwrap_or(0)
}

/// Half of the reads are of a few objects.
fn reads(sizes: std::ops::Range<u32>) -> impl Strategy<Value = Vec<(u32, u32)>> {
    let ids = prop::collection::vec(prop_oneof![0u32..6, 0u32..40], 1..400);
    let sizes = prop::collection::vec(sizes, 40);
    (ids, sizes)
        .prop_map(|(ids, sizes)| ids.into_iter().map(|id| (id, sizes[id as usize])).collect())
}

const MODELLED: [Kind; 6] =
    [Kind::Fifo, Kind::Lru, Kind::Clock, Kind::Sieve, Kind::Lfu, Kind::S3Fifo];
const BY_BYTES: [Kind; 10] = [
    Kind::Fifo,
    Kind::Clock,
    Kind::Sieve,
    Kind::Lru,
    Kind::Lfu,
    Kind::S3Fifo,
    Kind::TinyLfu,
    Kind::Arc,
    Kind::Gdsf,
    Kind::Belady,
];

proptest! {
    #[test]
    fn as_their_models(reads in reads(1..12), capacity in 1u64..60) {
        for kind in MODELLED {
            prop_assert_eq!(hits(kind, capacity, &reads), model(kind, capacity, &reads), "{}", kind.name());
        }
    }

    #[test]
    fn arc_as_published(reads in reads(1..2), capacity in 1u64..30) {
        prop_assert_eq!(hits(Kind::Arc, capacity, &reads), arc(capacity as usize, &reads));
    }

    /// `hits` checks the budget after every request; here objects are also overwritten and removed.
    #[test]
    fn no_policy_is_ever_over_its_budget(
        steps in prop::collection::vec((0u32..40, 1u32..30, 0u8..8), 1..400),
        capacity in 1u64..100,
    ) {
        for kind in BY_BYTES {
            let mut cache = kind.open(capacity, 40, 1).unwrap();
            for (id, size, what) in steps.iter().copied() {
                let request = Request::new(0, id, size, 0, Verb::Get);
                match what {
                    0 => cache.remove(id),
                    1 => cache.set(&request),
                    _ if cache.get(&request) => {}
                    _ => cache.set(&request),
                }
                prop_assert!(cache.used() <= capacity, "{}", kind.name());
                prop_assert!(what != 0 || !cache.get(&request), "{} finds what was \
                    removed", kind.name());
            }
            (0..40).for_each(|id| cache.remove(id));
            prop_assert_eq!((cache.used(), cache.items()), (0, 0), "{}", kind.name());
        }
    }

    #[test]
    fn nobody_beats_belady_where_sizes_are_the_same(reads in reads(1..2), capacity in 1u64..30) {
        let bound = total(&hits(Kind::Belady, capacity, &reads));
        for kind in BY_BYTES {
            prop_assert!(total(&hits(kind, capacity, &reads)) <= bound, "{}", kind.name());
        }
    }

    #[test]
    fn belady_is_the_best_there_is(
        ids in prop::collection::vec(0u32..8, 1..40), capacity in 1usize..5,
    ) {
        let reads: Vec<(u32, u32)> = ids.iter().map(|id| (*id, 1)).collect();
        prop_assert_eq!(total(&hits(Kind::Belady, capacity as u64, &reads)), best(capacity, &ids));
    }

    /// LRU is a stack algorithm: a larger cache contains everything a smaller one does, and has all
    /// its hits.
    #[test]
    fn a_larger_lru_hits_whatever_a_smaller_one_does(reads in reads(1..2), capacity in 1u64..30) {
        let (small, large) =
            (hits(Kind::Lru, capacity, &reads), hits(Kind::Lru, capacity + 1, &reads));
        prop_assert!(small.iter().zip(&large).all(|(small, large)| !small || *large));
    }
}

/// Belady, Nelson and Shedler 1969: FIFO with four pages faults more often than with three.
#[test]
fn beladys_anomaly() {
    let reads = [1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5].map(|id| (id, 1));
    let misses = |kind, capacity| reads.len() - total(&hits(kind, capacity, &reads));
    assert_eq!((misses(Kind::Fifo, 3), misses(Kind::Fifo, 4)), (9, 10));
    assert_eq!((misses(Kind::Lru, 3), misses(Kind::Lru, 4)), (10, 8));
}

/// The page references of Silberschatz's "Operating System Concepts": FIFO 15 faults, LRU 12, OPT 9
/// with three frames.
#[test]
fn the_textbooks_sequence() {
    let reads = [7, 0, 1, 2, 0, 3, 0, 4, 2, 3, 0, 3, 2, 1, 2, 0, 1, 7, 0, 1].map(|id| (id, 1));
    let misses = |kind| reads.len() - total(&hits(kind, 3, &reads));
    assert_eq!((misses(Kind::Fifo), misses(Kind::Lru)), (15, 12));
    assert!(misses(Kind::Belady) <= 9, "not storing what is read again last saves a miss or more");
}

/// The figure of SIEVE's paper: A B C D E F G in, of which A, B and G were read; H comes and C
/// goes.
#[test]
fn sieves_hand_passes_who_was_read_and_leaves_it_where_it_is() {
    let reads = [0, 1, 2, 3, 4, 5, 6, 0, 1, 6, 7].map(|id| (id, 1));
    let after = |id| {
        let all: Vec<(u32, u32)> = reads.iter().copied().chain([(id, 1)]).collect();
        hits(Kind::Sieve, 7, &all).last().copied().unwrap()
    };
    assert_eq!(
        [0, 1, 2, 3, 4, 5, 6, 7].map(after),
        [true, true, false, true, true, true, true, true]
    );
}

#[test]
fn frequent_objects_survive_a_scan_where_they_should() {
    let mut reads: Vec<(u32, u32)> = (0..10).flat_map(|_| (0..5).map(|id| (id, 10))).collect();
    reads.extend((10..60).map(|id| (id, 10)));
    let scan = reads.len();
    reads.extend((0..5).map(|id| (id, 10)));
    let kept = |kind| total(&hits(kind, 100, &reads)[scan..]);
    for kind in [Kind::Lfu, Kind::S3Fifo, Kind::TinyLfu, Kind::Arc, Kind::Gdsf] {
        assert_eq!(kept(kind), 5, "{}", kind.name());
    }
    assert_eq!((kept(Kind::Lru), kept(Kind::Fifo), kept(Kind::Clock)), (0, 0, 0));
}

#[test]
fn size_matters_to_gdsf_alone() {
    // Five small objects, then a large one of their total size, then one more: which are evicted
    // for it?
    let come: Vec<(u32, u32)> =
        [(1, 10), (2, 10), (3, 10), (4, 10), (5, 10), (0, 50), (6, 10)].to_vec();
    let reads: Vec<(u32, u32)> = come.iter().copied().chain(come[..5].iter().copied()).collect();
    assert_eq!(total(&hits(Kind::Gdsf, 100, &reads)), 5, "the large one went");
    for kind in [Kind::Lfu, Kind::Lru, Kind::Fifo] {
        assert_eq!(
            total(&hits(kind, 100, &reads)),
            0,
            "{}: the oldest went, and one after the other",
            kind.name()
        );
    }
}
