//! The caches compared: one `request` each, cache-aside (a miss stores the object).

use crate::trace;
use larder_store::{Namespace, Options, Policy, Put, Store};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Memory budget of each cache.
pub(crate) const BUDGET: usize = 64 << 20;

pub(crate) trait Cache {
    /// True on a hit.
    fn request(&mut self, id: u32, size: usize) -> bool;
}

pub(crate) static BYTES: [u8; 4096] = [b'x'; 4096];

/// Larder: everything it needs within the budget.
pub(crate) struct Larder(Store);

impl Larder {
    pub(crate) fn new(policy: Policy) -> Larder {
        let options = Options {
            budget: BUDGET,
            max_value: 1 << 20,
            policy,
            seed: 42,
            threads: 2,
            ..Options::default()
        };
        Larder(Store::open(options).expect("64 MiB work"))
    }
}

impl Cache for Larder {
    fn request(&mut self, id: u32, size: usize) -> bool {
        let key = trace::key(id);
        let found = self.0.get(Namespace(0), &key, 1000);
        if let Some(entry) = found {
            assert_eq!(entry.len(), size as u64);
            return true;
        }
        let put = Put { value: &[&BYTES[..size]], ..Put::default() };
        self.0.set(Namespace(0), &key, put, 1000).expect("there is room");
        false
    }
}

/// moka (TinyLFU), bounded by the bytes of keys and values: its own overhead comes on top.
pub(crate) struct Moka(pub(crate) moka::sync::Cache<[u8; 16], Arc<[u8]>>);

impl Moka {
    pub(crate) fn new(budget: usize) -> Moka {
        let weigher = |_: &_, v: &Arc<[u8]>| v.len() as u32 + 16;
        Moka(moka::sync::Cache::builder().max_capacity(budget as u64).weigher(weigher).build())
    }
}

impl Cache for Moka {
    fn request(&mut self, id: u32, size: usize) -> bool {
        let key = trace::key(id);
        let hit = self.0.get(&key).is_some();
        if !hit {
            self.0.insert(key, BYTES[..size].into());
        }
        hit
    }
}

#[derive(Clone)]
pub(crate) struct Weigher;

impl quick_cache::Weighter<[u8; 16], Arc<[u8]>> for Weigher {
    fn weight(&self, _: &[u8; 16], v: &Arc<[u8]>) -> u64 {
        v.len() as u64 + 16
    }
}

/// quick_cache (Clock-PRO like S3-FIFO), bounded by the bytes of keys and values: its own overhead
/// comes on top.
pub(crate) struct Quick(pub(crate) quick_cache::sync::Cache<[u8; 16], Arc<[u8]>, Weigher>);

impl Quick {
    pub(crate) fn new(budget: usize, mean: usize) -> Quick {
        Quick(quick_cache::sync::Cache::with_weighter(budget / mean, budget as u64, Weigher))
    }
}

impl Cache for Quick {
    fn request(&mut self, id: u32, size: usize) -> bool {
        let key = trace::key(id);
        let hit = self.0.get(&key).is_some();
        if !hit {
            self.0.insert(key, BYTES[..size].into());
        }
        hit
    }
}

/// segcache (Pelikan): hash table and segments within the budget.
pub(crate) struct Seg(segcache::Segcache);

impl Seg {
    pub(crate) fn new(policy: segcache::Policy) -> Seg {
        // 2^17 slots of 8 bytes for the ~130,000 objects that fit would overflow (it neither chains
        // nor grows): 2^18.
        let power = 18;
        let cache = segcache::Segcache::builder()
            .hash_power(power)
            .heap_size(BUDGET - (8 << power))
            .segment_size(256 << 10)
            .eviction(policy)
            .build();
        Seg(cache.expect("64 MiB work"))
    }
}

impl Cache for Seg {
    fn request(&mut self, id: u32, size: usize) -> bool {
        let key = trace::key(id);
        let hit = self.0.get(&key).is_some();
        if !hit {
            // A full bucket refuses: the object is not stored.
            let _ = self.0.insert(&key, &BYTES[..size], None, std::time::Duration::ZERO);
        }
        hit
    }
}

/// An exact LRU of key and value bytes without any overhead, as that of
/// `larder bench compare --plan hitratio`.
pub(crate) struct Lru {
    next: Vec<u32>,
    before: Vec<u32>,
    used: usize,
}

const NONE: u32 = u32::MAX;

impl Lru {
    pub(crate) fn new(ids: usize) -> Lru {
        let mut lru = Lru { next: vec![NONE; ids + 1], before: vec![NONE; ids + 1], used: 0 };
        (lru.next[ids], lru.before[ids]) = (ids as u32, ids as u32);
        lru
    }

    fn unlink(&mut self, id: u32) {
        let (n, b) = (self.next[id as usize], self.before[id as usize]);
        (self.next[b as usize], self.before[n as usize]) = (n, b);
        self.next[id as usize] = NONE;
    }
}

impl Cache for Lru {
    fn request(&mut self, id: u32, size: usize) -> bool {
        let root = self.next.len() as u32 - 1;
        let hit = self.next[id as usize] != NONE;
        if hit {
            self.unlink(id);
        } else {
            self.used += size + 16;
            while self.used > BUDGET {
                let victim = self.before[root as usize];
                self.unlink(victim);
                self.used -= trace::size(victim) + 16;
            }
        }
        let first = self.next[root as usize];
        (self.next[id as usize], self.before[id as usize]) = (first, root);
        (self.next[root as usize], self.before[first as usize]) = (id, id);
        hit
    }
}

/// S3-FIFO as published (small 10 %, promotion after two hits, ghost as large as main) with exact
/// sizes and no overhead.
#[derive(Default)]
pub(crate) struct S3Fifo {
    frequency: HashMap<u32, u8>,
    small: VecDeque<u32>,
    main: VecDeque<u32>,
    ghosts: VecDeque<u32>,
    ghost: HashSet<u32>,
    small_bytes: usize,
    main_bytes: usize,
    ghost_bytes: usize,
}

fn bytes(id: u32) -> usize {
    trace::size(id) + 16
}

impl S3Fifo {
    fn make_room(&mut self) {
        while self.small_bytes + self.main_bytes > BUDGET {
            if self.small_bytes > BUDGET / 10 || self.main.is_empty() {
                self.evict_small()
            } else {
                self.evict_main()
            }
        }
    }

    fn evict_small(&mut self) {
        let Some(id) = self.small.pop_front() else { return };
        self.small_bytes -= bytes(id);
        if self.frequency[&id] > 1 {
            self.frequency.insert(id, 0);
            self.main.push_back(id);
            self.main_bytes += bytes(id);
            return;
        }
        self.frequency.remove(&id);
        self.ghosts.push_back(id);
        self.ghost.insert(id);
        self.ghost_bytes += bytes(id);
        while self.ghost_bytes > BUDGET / 10 * 9 {
            let Some(old) = self.ghosts.pop_front() else { return };
            self.ghost_bytes -= bytes(old);
            self.ghost.remove(&old);
        }
    }

    fn evict_main(&mut self) {
        let Some(id) = self.main.pop_front() else { return };
        let frequency = self.frequency.get_mut(&id).expect("all entries have one");
        if *frequency > 0 {
            *frequency -= 1;
            self.main.push_back(id);
        } else {
            self.main_bytes -= bytes(id);
            self.frequency.remove(&id);
        }
    }
}

impl Cache for S3Fifo {
    fn request(&mut self, id: u32, size: usize) -> bool {
        if let Some(f) = self.frequency.get_mut(&id) {
            *f = (*f + 1).min(3);
            return true;
        }
        self.frequency.insert(id, 0);
        if self.ghost.remove(&id) {
            self.main.push_back(id);
            self.main_bytes += size + 16;
        } else {
            self.small.push_back(id);
            self.small_bytes += size + 16;
        }
        self.make_room();
        false
    }
}
