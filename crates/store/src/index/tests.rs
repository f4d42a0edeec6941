//! Tests of the index alone.

use super::*;
use crate::map::Map;
use crate::pin::PinTable;
use crate::segment::Kind;

const SEGMENTS: usize = 8;

fn setting() -> (Segments, Index) {
    let map = Map::open(SEGMENTS << 18).expect("2 MiB");
    let segments = Segments::new(map, PinTable::new(SEGMENTS, 1), SEGMENTS, 18);
    let first = segments.take(Kind::Index, 0).expect("all are free");
    let index = Index::new(&segments, first);
    (segments, index)
}

/// Entry `n` of the first stripe.
fn hash(n: u64) -> Hash {
    Hash((n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 6) & !0xffff_ffff)
}

fn loc(n: u64) -> Loc {
    Loc::new(1 + (n >> 16) as u32, 4 * (n & 0xffff) as usize)
}

fn found(segments: &Segments, index: &Index, n: u64) -> bool {
    let wanted = |_: &_, _, l| if l == loc(n) { Seen::Yes(()) } else { Seen::No };
    index.find(segments, hash(n), wanted).is_some()
}

#[test]
fn growth_is_announced_before_it_moves_anything() {
    let (segments, index) = setting();
    let page = segments.take(Kind::Index, 0).expect("there is one");
    assert!(index.install(&segments, 1, page));
    let mut n = 0;
    let layout = || unpack(index.layouts[0].load(Ordering::Relaxed));
    while layout().1 == IDLE {
        let mut locked = index.lock(&segments, hash(n));
        let free = locked.free().expect("there is room");
        locked.insert(free, loc(n));
        assert_eq!(locked.grow(), None);
        n += 1;
    }
    assert_eq!(layout(), (64, 64));
    let count = |bucket| {
        index.bucket(&segments, 0, bucket).iter().filter(|s| s.load(Ordering::Relaxed) != 0).count()
    };
    assert_eq!((64..grown(64)).map(count).sum::<usize>(), 0, "nothing lies in the wide layout yet");
    assert!((0..n).all(|i| found(&segments, &index, i)));
}

#[test]
fn everything_is_found_at_every_step_of_growth_and_removal() {
    let (segments, index) = setting();
    (1..5).for_each(|wanted| {
        let page = segments.take(Kind::Index, 0).expect("there is one");
        assert!(index.install(&segments, wanted, page));
    });
    for n in 0..1600 {
        let mut locked = index.lock(&segments, hash(n));
        let free = locked.free().expect("there is room");
        locked.insert(free, loc(n));
        assert_eq!(locked.grow(), None);
        drop(locked);
        if n % 7 == 0 || n > 1560 {
            assert!((0..=n).all(|i| found(&segments, &index, i)), "{n}");
        }
    }
    for n in 0..1600 {
        let mut locked = index.lock(&segments, hash(n));
        let place = locked.find_loc(loc(n)).expect("it was found before");
        locked.remove(place);
        drop(locked);
        assert!(!found(&segments, &index, n));
    }
    // Counts of entries put beyond a bucket are back at zero, so that searches are short again.
    let words = (0..unpack(index.layouts[0].load(Ordering::Relaxed)).0)
        .flat_map(|b| index.bucket(&segments, 0, b).iter().map(|s| s.load(Ordering::Relaxed)));
    assert_eq!(words.filter(|w| *w != 0).count(), 0);
}

#[test]
fn a_page_missing_is_asked_for_and_taken_once() {
    let (segments, index) = setting();
    let mut asked = None;
    for n in 0..500 {
        let mut locked = index.lock(&segments, hash(n));
        let free = locked.free().expect("there is room");
        locked.insert(free, loc(n));
        asked = asked.or(locked.grow());
    }
    assert_eq!(asked, Some(1));
    let pages: Vec<u32> = (0..2).filter_map(|_| segments.take(Kind::Index, 0)).collect();
    assert!(index.install(&segments, 1, pages[0]));
    assert!(!index.install(&segments, 1, pages[1]), "another thread was quicker");
}
