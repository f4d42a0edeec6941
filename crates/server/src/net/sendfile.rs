//! Cache of bodies that are sent often, as files in memory: `sendfile` hands the file's own pages
//! to the socket, where a write copies them.
//!
//! Each worker has a cache of its own: the system counts references to a file and to its pages with
//! atomic operations, for which workers would compete. A file is written once and never again: over
//! loopback the receiver reads the sent pages themselves, long after they were acknowledged. The
//! store writes over its segments, so `sendfile` cannot send from it. Callers look up the store
//! first; this cache holds bytes only and never decides validity. (Measured:
//! docs/notebook/http-hits.md, "Large bodies".)

use std::{
    cell::{Cell, RefCell},
    fs::File,
    io::{self, Seek, SeekFrom, Write},
    os::fd::OwnedFd,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use larder_store::Entry;
use rustix::{
    fs::{MemfdFlags, memfd_create},
    process::{Resource, getrlimit},
};

use crate::settings::SENDFILE_CACHE_FILES;

/// Smaller values are not copied, in bytes: somewhere below, the second system call takes as long
/// as the copy of a write. (At 20,000 B there is a gain. The floor and the nginx of `bench/peers`
/// have the same limit.)
const LEAST: u64 = 16 << 10;
/// Larger values are not copied, in bytes: the worker would be busy with the copy for too long (0.9
/// ms for 2 MiB, 0.36 ms for 1 MiB).
const MOST: u64 = 2 << 20;
/// Size of a memory page, in bytes.
const PAGE_SIZE: u64 = 4096;
/// Values whose requests are counted at a time; a power of two. Two values of one counter displace
/// each other.
const COUNTERS: usize = 1024;
/// Requests before a body is copied: a copy takes about as long as a response (12 us for 26,510 B).
/// A copy that found no room is tried again after half as many.
const HITS_BEFORE_COPY: u16 = 16;
/// Requests after which all counters are halved.
const PERIOD: u32 = 16 * COUNTERS as u32;
/// Counters examined for a copy to evict.
const EVICTION_SCAN: usize = 64;

/// Divisor of the process's limit of open files: the copies of all workers take that part of it.
const PART_OF_FILES: usize = 8;

/// A file that is sent by `sendfile`: the copy of a stored value, or a file of this machine.
#[derive(Debug)]
pub(crate) struct FileCopy {
    file: OwnedFd,
    /// Offset of the value in the file, in bytes: its body begins on the border of a memory page.
    at: u64,
    len: u64,
    /// Memory of the file, in bytes; 0 for a file of this machine.
    takes: u64,
    budget: Rc<Budget>,
}

/// Budget of one worker's files, and its current use.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Bytes, and files.
    limit: (u64, usize),
    /// Memory in bytes, evicted copies that are still being sent included. Read by the metrics.
    held: Arc<AtomicU64>,
    /// The same of files. Written by this worker alone.
    files: Arc<AtomicU64>,
}

impl Budget {
    /// `limit`: bytes, and files. `held` and `files`: gauges of them, written by this worker alone.
    pub(crate) fn new(
        limit: (u64, usize),
        held: Arc<AtomicU64>,
        files: Arc<AtomicU64>,
    ) -> Rc<Budget> {
        Rc::new(Budget { limit, held, files })
    }

    /// Whether there is room for so many bytes more.
    pub(crate) fn has_bytes(&self, bytes: u64) -> bool {
        self.held.load(Relaxed) + bytes <= self.limit.0
    }

    /// Whether there is room for another file.
    pub(crate) fn has_file(&self) -> bool {
        self.files.load(Relaxed) < self.limit.1 as u64
    }

    /// Bytes at the most, and files.
    pub(crate) fn limit(&self) -> (u64, usize) {
        self.limit
    }

    /// Counts bytes as held.
    pub(crate) fn take(&self, bytes: u64) {
        self.held.store(self.held.load(Relaxed) + bytes, Relaxed);
    }

    /// They are not held any more.
    pub(crate) fn release(&self, bytes: u64) {
        self.held.store(self.held.load(Relaxed).saturating_sub(bytes), Relaxed);
    }
}

/// One worker's cache.
pub(crate) struct SendfileCache {
    counters: RefCell<Vec<Counter>>,
    budget: Rc<Budget>,
    /// Counter at which the next search for room begins.
    hand: Cell<usize>,
    /// Requests until the counters are halved.
    left: Cell<u32>,
}

#[derive(Default)]
struct Counter {
    /// Sequence number of the write that made the value: a copy belongs to a write, not to a key.
    written: u64,
    /// Recent requests.
    requests: u16,
    copy: Option<Rc<FileCopy>>,
}

impl FileCopy {
    /// A file in which the value begins at `at`. `takes`: memory of the file, in bytes.
    fn new(file: OwnedFd, at: u64, len: u64, takes: u64, budget: &Rc<Budget>) -> Rc<FileCopy> {
        budget.take(takes);
        budget.files.store(budget.files.load(Relaxed) + 1, Relaxed);
        Rc::new(FileCopy { file, at, len, takes, budget: budget.clone() })
    }

    /// A file of this machine of `len` bytes.
    pub(crate) fn of_file(file: OwnedFd, len: u64, budget: &Rc<Budget>) -> Rc<FileCopy> {
        FileCopy::new(file, 0, len, 0, budget)
    }

    /// Memory of the file, in bytes; 0 for a file of this machine.
    pub(crate) fn memory(&self) -> u64 {
        self.takes
    }

    /// The file, and the offset in it of a byte of the value.
    pub(crate) fn file(&self, position: u64) -> (&OwnedFd, u64) {
        (&self.file, self.at + position)
    }

    /// Length of the value, in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }
}

impl Drop for FileCopy {
    fn drop(&mut self) {
        self.budget.release(self.takes);
        self.budget.files.store(self.budget.files.load(Relaxed).saturating_sub(1), Relaxed);
    }
}

impl SendfileCache {
    /// The cache of one of `workers`, which have `limit` bytes together. `held`: gauge of its
    /// memory, written by this worker alone.
    pub(crate) fn new(limit: u64, workers: usize, held: Arc<AtomicU64>) -> Self {
        let open = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let files = usize::try_from(open).unwrap_or(usize::MAX) / PART_OF_FILES / workers;
        let limit = (limit / workers as u64, files.min(SENDFILE_CACHE_FILES));
        Self {
            counters: RefCell::default(),
            budget: Budget::new(limit, held, Arc::default()),
            hand: Cell::new(0),
            left: Cell::new(PERIOD),
        }
    }

    /// The copy of a value of which `wanted` bytes are requested, if there is one. Makes it once
    /// the value is requested often. `body_at`: offset of the body in the value.
    pub(crate) fn find(
        &self,
        entry: &Entry<'_>,
        body_at: u64,
        wanted: u64,
    ) -> Option<Rc<FileCopy>> {
        if wanted < LEAST || entry.len() > MOST.min(self.budget.limit.0) {
            return None;
        }
        let mut counters = self.counters.borrow_mut();
        if counters.is_empty() {
            counters.resize_with(COUNTERS, Counter::default);
        }
        self.age(&mut counters);
        let at = counter_of(entry.written());
        let counter = &mut counters[at];
        if counter.written != entry.written() {
            counter.displace(entry.written());
            return None;
        }
        counter.requests = counter.requests.saturating_add(1);
        if counter.copy.is_none()
            && counter.requests >= HITS_BEFORE_COPY
            && counter.requests.is_multiple_of(HITS_BEFORE_COPY / 2)
        {
            let requests = counter.requests;
            counters[at].copy = self.copy(entry, body_at, requests, &mut counters);
        }
        counters[at].copy.clone()
    }

    fn age(&self, counters: &mut [Counter]) {
        let left = self.left.get() - 1;
        if left == 0 {
            counters.iter_mut().for_each(|counter| counter.requests /= 2);
        }
        self.left.set(if left == 0 { PERIOD } else { left });
    }

    /// Copies a value. None: the copies there are in as much demand, or the system gives no file.
    fn copy(
        &self,
        entry: &Entry<'_>,
        body_at: u64,
        requests: u16,
        counters: &mut [Counter],
    ) -> Option<Rc<FileCopy>> {
        let at = body_at.next_multiple_of(PAGE_SIZE) - body_at;
        let takes = (at + entry.len()).next_multiple_of(PAGE_SIZE);
        if !self.has_room(takes) {
            self.make_room(takes, requests, counters);
        }
        if !self.has_room(takes) {
            return None;
        }
        let file = copied(entry, at).ok()?;
        Some(FileCopy::new(file, at, entry.len(), takes, &self.budget))
    }

    fn has_room(&self, bytes: u64) -> bool {
        self.budget.has_bytes(bytes) && self.budget.has_file()
    }

    /// Evicts, among the next few, copies that are requested less than half as often.
    fn make_room(&self, bytes: u64, requests: u16, counters: &mut [Counter]) {
        for _ in 0..EVICTION_SCAN {
            let at = self.hand.get();
            self.hand.set((at + 1) % COUNTERS);
            let counter = &mut counters[at];
            if counter.copy.is_some() && counter.requests < requests / 2 {
                counter.copy = None;
                if self.has_room(bytes) {
                    return;
                }
            }
        }
    }
}

impl Counter {
    /// Counts a request for another value with this counter.
    fn displace(&mut self, to: u64) {
        if self.requests > 0 {
            self.requests -= 1;
        } else {
            *self = Counter { written: to, requests: 1, copy: None };
        }
    }
}

fn counter_of(written: u64) -> usize {
    (rapidhash::v3::rapidhash_v3(&written.to_le_bytes()) as usize) % COUNTERS
}

fn copied(entry: &Entry<'_>, at: u64) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("larder-page", MemfdFlags::CLOEXEC)?);
    file.seek(SeekFrom::Start(at))?;
    for chunk in entry.chunks() {
        file.write_all(chunk)?;
    }
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_store::{If, Namespace, Options, Put, Store};
    use std::os::unix::fs::FileExt;

    /// Where its body begins.
    const BODY: u64 = 300;

    const SIZE: usize = 100_000;

    fn store(entries: u8) -> &'static Store {
        let options = Options { budget: 64 << 20, max_value: 16 << 20, ..Options::default() };
        let store: &'static Store = Box::leak(Box::new(Store::open(options).expect("a store")));
        (0..entries).for_each(|n| put(store, n, SIZE));
        store
    }

    fn put(store: &Store, n: u8, size: usize) {
        let value = vec![n; size];
        store
            .put(Namespace(0), &[n], Put { value: &[&value], ..Put::default() }, If::Always, 1)
            .expect("stored");
    }

    fn get(store: &'static Store, n: u8) -> Entry<'static> {
        store.get(Namespace(0), &[n], 1).expect("found")
    }

    /// Requests a value so often; the copy that the last request got.
    fn request(cache: &SendfileCache, entry: &Entry<'_>, times: u32) -> Option<Rc<FileCopy>> {
        (0..times).map(|_| cache.find(entry, BODY, entry.len())).last().flatten()
    }

    fn content(copy: &FileCopy) -> Vec<u8> {
        assert_eq!(copy.file(BODY).1 % PAGE_SIZE, 0);
        let (file, at) = copy.file(0);
        let mut bytes = vec![1; copy.len() as usize];
        let file = File::from(file.try_clone().expect("another descriptor"));
        file.read_exact_at(&mut bytes, at).expect("read");
        bytes
    }

    /// Memory of a copy of [`SIZE`] bytes.
    const TAKES: u64 = (SIZE as u64 + PAGE_SIZE - BODY).next_multiple_of(PAGE_SIZE);

    #[test]
    fn often_requested_values_are_copied() {
        let (store, held) = (store(1), Arc::new(AtomicU64::new(0)));
        let cache = SendfileCache::new(8 << 20, 1, held.clone());
        let entry = get(store, 0);
        assert!(request(&cache, &entry, u32::from(HITS_BEFORE_COPY) - 1).is_none());
        let copy = request(&cache, &entry, 1).expect("often enough");
        assert_eq!((content(&copy), held.load(Relaxed)), (vec![0; SIZE], TAKES));
        assert!(cache.find(&entry, BODY, LEAST - 1).is_none(), "a small part of it");
        put(store, 0, SIZE);
        assert!(
            cache.find(&get(store, 0), BODY, SIZE as u64).is_none(),
            "another value under the same key"
        );
    }

    #[test]
    fn too_large_and_too_small_values_are_not() {
        let store = store(0);
        put(store, 1, LEAST as usize - 1);
        put(store, 2, MOST as usize + 1);
        put(store, 3, SIZE);
        let cache = SendfileCache::new(64 << 20, 1, Arc::default());
        assert!(request(&cache, &get(store, 1), 100).is_none());
        assert!(request(&cache, &get(store, 2), 100).is_none());
        assert!(
            request(
                &SendfileCache::new(SIZE as u64 * 2 - 1, 2, Arc::default()),
                &get(store, 3),
                100
            )
            .is_none()
        );
        assert!(request(&cache, &get(store, 3), 100).is_some());
    }

    #[test]
    fn values_in_equal_demand_do_not_evict_each_other() {
        let (store, held) = (store(40), Arc::new(AtomicU64::new(0)));
        let cache = SendfileCache::new(1 << 20, 1, held.clone());
        let all: Vec<_> = (0..40).map(|n| get(store, n)).collect();
        let round = || all.iter().filter_map(|entry| request(&cache, entry, 1)).collect::<Vec<_>>();
        (0..20).for_each(|_| drop(round()));
        let first = round();
        assert!((8..=10).contains(&first.len()), "{} of {SIZE} bytes", first.len());
        for _ in 0..2000 {
            let now = round();
            assert!(
                now.iter().zip(&first).all(|(now, first)| Rc::ptr_eq(now, first))
                    && now.len() == first.len()
            );
            assert!(held.load(Relaxed) <= 1 << 20);
        }
    }

    #[test]
    fn unused_copies_give_way_to_requested_ones() {
        let store = store(30);
        let cache = SendfileCache::new(1 << 20, 1, Arc::default());
        let all: Vec<_> = (0..30).map(|n| get(store, n)).collect();
        let copies = |of: std::ops::Range<usize>| {
            of.filter(|n| request(&cache, &all[*n], 1).is_some()).count()
        };
        for _ in 0..2000 {
            copies(0..15);
        }
        assert!(copies(0..15) >= 8);
        for _ in 0..8000 {
            copies(15..30);
        }
        assert_eq!(copies(0..15), 0);
        assert!(copies(15..30) >= 8);
    }

    #[test]
    fn copies_being_sent_count_as_held() {
        let (store, held) = (store(1), Arc::new(AtomicU64::new(0)));
        let cache = SendfileCache::new(1 << 20, 1, held.clone());
        let copy = request(&cache, &get(store, 0), 20).expect("a copy");
        drop(cache);
        assert_eq!(held.load(Relaxed), TAKES);
        drop(copy);
        assert_eq!(held.load(Relaxed), 0);
    }
}
