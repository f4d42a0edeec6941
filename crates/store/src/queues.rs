//! The queues of sealed segments and the learnt state of the policy: which segment is evicted next
//! (`evict.rs` gives the reasons).

use crate::hash::Hash;
use crate::segment::Kind;
use crate::shares::GROUPS;
use crate::store::Store;
use crate::succession::{Image, Saved};
use crate::types::Policy;
use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// Classes of size.
pub(crate) const CLASSES: usize = 3;

/// The small queue's share of the memory, in millionths: initial, least, most.
const SMALL: usize = 100_000;
const SMALL_LEAST: usize = 50_000;
const SMALL_MOST: usize = 900_000;
/// Mean entries by which the border moves for one near hit.
const STEP: usize = 32;

/// Segments examined, from the oldest on, for one that a group near its floor can spare.
const LOOK: usize = 64;

/// How many bytes each group may lose.
pub(crate) type Spare = [usize; GROUPS];

/// A segment taken out of its queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Victim {
    pub(crate) kind: Kind,
    pub(crate) group: usize,
    pub(crate) segment: u32,
}

/// Sealed segments in order of age: for each group a row for each class, see [`row`].
#[derive(Debug)]
pub(crate) struct Queues {
    small: Box<[VecDeque<u32>]>,
    main: Box<[VecDeque<u32>]>,
    /// For each group, middle pieces of large values whose records are in the small and in the main
    /// queue.
    chained: [[usize; 2]; GROUPS],
    /// Victims being emptied, while there are limits.
    leaving: Vec<Victim>,
}

/// The row of a group's class.
pub(crate) fn row(group: usize, class: usize) -> usize {
    group * CLASSES + class
}

/// Learnt state of the policy.
#[derive(Debug)]
pub(crate) struct Learnt {
    /// The small queue's share, in millionths.
    small: AtomicUsize,
    /// Mean size of a stored entry in bytes, for each group.
    mean: [AtomicUsize; GROUPS],
}

impl Learnt {
    pub(crate) fn new() -> Learnt {
        Learnt { small: AtomicUsize::new(SMALL), mean: Default::default() }
    }

    pub(crate) fn save(&self, out: &mut Image) {
        out.put(self.small.load(Relaxed) as u64);
        out.list(self.mean.iter().map(|mean| mean.load(Relaxed) as u64));
    }

    pub(crate) fn load(&self, from: &mut Saved<'_>) -> Option<()> {
        let small = usize::try_from(from.take()?).ok()?;
        self.small.store(small.clamp(SMALL_LEAST, SMALL_MOST), Relaxed);
        for (to, mean) in self.mean.iter().zip(from.list()?) {
            to.store(usize::try_from(mean).ok()?, Relaxed);
        }
        Some(())
    }

    /// Counts a stored entry of `bytes`. Samples one in sixteen, so that writers seldom write this
    /// line.
    pub(crate) fn stored(&self, group: usize, hash: Hash, bytes: u64) {
        let mean = self.mean[group].load(Relaxed);
        if mean == 0 {
            self.mean[group].store(bytes as usize, Relaxed);
        } else if hash.low().is_multiple_of(16) {
            self.mean[group].store((mean * 255 + bytes as usize).div_ceil(256), Relaxed);
        }
    }

    /// An entry was stored again just after `queue` had dropped it. (Racing threads may lose a
    /// step: harmless.)
    pub(crate) fn near_hit(&self, group: usize, queue: Kind, memory: usize) {
        let step = (STEP * self.mean[group].load(Relaxed)).saturating_mul(1_000_000) / memory;
        let step = step.clamp(1, 10_000);
        let small = self.small.load(Relaxed);
        let new = if queue == Kind::Main { small.saturating_sub(step) } else { small + step };
        self.small.store(new.clamp(SMALL_LEAST, SMALL_MOST), Relaxed);
    }

    pub(crate) fn class(&self, group: usize, bytes: u64) -> usize {
        let mean = self.mean[group].load(Relaxed) as u64;
        // Entries of about the mean size are all in the middle.
        usize::from(bytes * 4 >= mean * 3) + usize::from(bytes * 4 >= mean * 7)
    }

    /// By how much its entries' size ages a segment of `bytes` with this many records, in 256ths.
    fn weight(&self, group: usize, bytes: u32, records: u32) -> u64 {
        let mean = self.mean[group].load(Relaxed).max(1) as u64;
        (u64::from(bytes / records.max(1)) * 256 / mean).clamp(128, 512)
    }
}

impl Queues {
    pub(crate) fn new(segments: usize, groups: usize) -> Queues {
        let queue = || {
            (0..groups * CLASSES).map(|_| VecDeque::with_capacity(segments / 2 / groups)).collect()
        };
        Queues { small: queue(), main: queue(), chained: Default::default(), leaving: Vec::new() }
    }

    fn queue(&mut self, kind: Kind) -> &mut [VecDeque<u32>] {
        if kind == Kind::Main { &mut self.main } else { &mut self.small }
    }

    pub(crate) fn push(&mut self, kind: Kind, row: usize, segment: u32) {
        self.queue(kind)[row].push_back(segment);
    }

    /// Takes a segment out, whatever its age; returns its row, if it was there.
    pub(crate) fn remove(&mut self, kind: Kind, segment: u32) -> Option<usize> {
        self.queue(kind).iter_mut().position(|queue| {
            let at = queue.iter().position(|s| *s == segment);
            at.is_some_and(|at| queue.remove(at).is_some())
        })
    }

    /// Puts a segment taken by [`Queues::remove`] back in its place by `age`.
    pub(crate) fn put_back(
        &mut self,
        kind: Kind,
        row: usize,
        segment: u32,
        age: impl Fn(u32) -> u64,
    ) {
        let queue = &mut self.queue(kind)[row];
        let at = queue.iter().position(|s| age(*s) > age(segment)).unwrap_or(queue.len());
        queue.insert(at, segment);
    }

    pub(crate) fn chained(&mut self, kind: Kind, group: usize, change: isize) {
        let count = &mut self.chained[group][usize::from(kind == Kind::Main)];
        *count = count.saturating_add_signed(change);
    }

    /// All segments, with their rows.
    pub(crate) fn segments(&self) -> impl Iterator<Item = u32> {
        self.small.iter().chain(&self.main).flatten().copied()
    }

    /// All segments with their queues and rows.
    pub(crate) fn with_rows(&self) -> impl Iterator<Item = (Kind, usize, u32)> {
        let of = |kind, queue: &'_ [VecDeque<u32>]| {
            let rows = queue.iter().enumerate();
            let each = rows.flat_map(move |(row, all)| all.iter().map(move |s| (kind, row, *s)));
            each.collect::<Vec<_>>()
        };
        of(Kind::Small, &self.small).into_iter().chain(of(Kind::Main, &self.main))
    }

    pub(crate) fn save(&self, out: &mut Image) {
        let rows = self.small.iter().chain(&self.main);
        rows.for_each(|row| out.list(row.iter().map(|segment| u64::from(*segment))));
        out.list(self.chained.iter().flatten().map(|number| *number as u64));
    }

    pub(crate) fn load(&mut self, from: &mut Saved<'_>, segments: usize) -> Option<()> {
        for row in self.small.iter_mut().chain(&mut self.main) {
            row.clear();
            for segment in from.list()? {
                row.push_back(u32::try_from(segment).ok().filter(|s| (*s as usize) < segments)?);
            }
        }
        let chained = from.list()?;
        for (to, number) in self.chained.iter_mut().flatten().zip(chained) {
            *to = usize::try_from(number).ok()?;
        }
        Some(())
    }

    pub(crate) fn clear(&mut self) {
        self.small.iter_mut().chain(&mut self.main).for_each(VecDeque::clear);
        self.chained = Default::default();
        self.leaving.clear();
    }

    /// Live bytes of a group's victims that are being emptied.
    pub(crate) fn leaving(&self, store: &Store, group: usize) -> usize {
        let of = self.leaving.iter().filter(|v| v.group == group);
        of.map(|v| store.segments.alive(v.segment)).sum()
    }

    /// Called when a victim was emptied.
    pub(crate) fn left(&mut self, victim: Victim) {
        if let Some(at) = self.leaving.iter().position(|v| v.segment == victim.segment) {
            self.leaving.swap_remove(at);
        }
    }

    /// Takes out the next victim among the segments of groups that can spare something.
    pub(crate) fn take(
        &mut self,
        store: &Store,
        spare: &Spare,
        spare_pinned: bool,
    ) -> Option<Victim> {
        let first = self.next(store, spare);
        let second = if first == Kind::Main { Kind::Small } else { Kind::Main };
        let taken = self
            .pop(first, store, spare, spare_pinned)
            .or_else(|| self.pop(second, store, spare, spare_pinned));
        if store.shares.limited() {
            self.leaving.extend(taken);
        }
        taken
    }

    /// The queue that gives the next victim.
    fn next(&self, store: &Store, spare: &Spare) -> Kind {
        let groups = || (0..store.shares.groups()).filter(|g| spare[*g] != 0);
        let length = |queue: &[VecDeque<u32>]| {
            groups()
                .flat_map(|g| &queue[row(g, 0)..row(g + 1, 0)])
                .map(VecDeque::len)
                .sum::<usize>()
        };
        let chained = |main: usize| groups().map(|g| self.chained[g][main]).sum::<usize>();
        let (small, main) = (length(&self.small), length(&self.main));
        match store.options.policy {
            Policy::Fifo => Kind::Small,
            Policy::S3Fifo if main == 0 => Kind::Small,
            Policy::S3Fifo if small == 0 => Kind::Main,
            Policy::S3Fifo if store.full_of_stubs().is_some_and(|g| spare[g] != 0) => Kind::Main,
            Policy::S3Fifo => {
                let (small, main) = (small + chained(0), main + chained(1));
                let border = (small + main) * store.learnt.small.load(Relaxed);
                if small * 1_000_000 > border { Kind::Small } else { Kind::Main }
            }
        }
    }

    /// The next victim of a queue among the segments without writers whose group can spare their
    /// live bytes; segments pinned by readers are skipped if `spare_pinned`.
    fn pop(
        &mut self,
        kind: Kind,
        store: &Store,
        spare: &Spare,
        spare_pinned: bool,
    ) -> Option<Victim> {
        let segments = &store.segments;
        let now = segments.next_serial();
        let free = |segment: &u32, spare: usize| {
            let heat = segments.heat(*segment);
            let spared = spare_pinned && segments.pins.pinned(*segment);
            !heat.busy() && !spared && (spare == usize::MAX || segments.alive(*segment) <= spare)
        };
        let age = |group: usize, segment: u32| {
            let heat = segments.heat(segment);
            let weight =
                store.learnt.weight(group, heat.filled.load(Relaxed), heat.records.load(Relaxed));
            (now - segments.serial(segment))
                * if store.options.policy == Policy::Fifo { 1 } else { weight }
        };
        let oldest = self.queue(kind).iter().enumerate().filter_map(|(row, queue)| {
            let group = row / CLASSES;
            let look = match spare[group] {
                0 => 0,
                usize::MAX => queue.len(),
                _ => LOOK,
            };
            let at = queue.iter().take(look).position(|s| free(s, spare[group]))?;
            Some((age(group, queue[at]), row, at))
        });
        let (_, row, at) = oldest.max()?;
        let segment = self.queue(kind)[row].remove(at)?;
        Some(Victim { kind, group: row / CLASSES, segment })
    }
}
