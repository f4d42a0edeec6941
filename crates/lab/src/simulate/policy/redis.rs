//! Redis 7 with `maxmemory`: `allkeys-lru` and `allkeys-lfu`, with samples of five keys and a pool
//! of sixteen.
//!
//! Memory is counted as in a 64-bit Redis with jemalloc: the table, an entry, the strings of key
//! and value. Idle times have a resolution of a second. Samples differ from the real ones, so hit
//! ratios agree but the set of kept objects does not.

use super::Policy;
use crate::{random::Random, simulate::request::Request};

const SAMPLES: usize = 5;
const POOL: usize = 16;
/// `lfu-log-factor`, and `lfu-decay-time` in milliseconds.
const LOG_FACTOR: f64 = 10.0;
const DECAY: u64 = 60_000;
const FIRST_COUNT: u8 = 5;
/// Length of a key, where the trace's sizes include keys.
const KEY: u64 = 16;
/// Memory of an empty server.
const BASE: u64 = 900 << 10;
const ABSENT: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Index in `keys`.
    at: u32,
    size: u32,
    /// Time of the last use in milliseconds, rounded to seconds (LRU) or minutes (LFU).
    time: u64,
    count: u8,
}

#[derive(Debug)]
pub(super) struct Redis {
    entries: Vec<Entry>,
    /// Stored objects in no order, for sampling.
    keys: Vec<u32>,
    /// Candidates with their score when sampled, the best last.
    pool: Vec<(u64, u32)>,
    random: Random,
    capacity: u64,
    used: u64,
    memory: u64,
    lfu: bool,
}

impl Redis {
    pub(super) fn new(lfu: bool, capacity: u64, ids: usize, seed: u64) -> Redis {
        let entry = Entry { at: ABSENT, size: 0, time: 0, count: 0 };
        Redis {
            entries: vec![entry; ids],
            keys: Vec::new(),
            pool: Vec::new(),
            random: Random::new(seed),
            capacity,
            used: 0,
            memory: 0,
            lfu,
        }
    }

    /// Memory that counts against `maxmemory`.
    fn memory(&self) -> u64 {
        BASE + self.memory + 8 * (self.keys.len() as u64).next_power_of_two()
    }

    fn score(&self, id: u32, now: u64) -> u64 {
        let entry = &self.entries[id as usize];
        if self.lfu {
            return 255 - u64::from(decayed(entry, now));
        }
        (now / 1000 * 1000).saturating_sub(entry.time)
    }

    fn fill_pool(&mut self, now: u64) {
        for _ in 0..SAMPLES.min(self.keys.len()) {
            let id = self.keys[self.random.below(self.keys.len() as u64) as usize];
            if self.pool.iter().any(|(_, known)| *known == id) {
                continue;
            }
            let score = self.score(id, now);
            let at = self.pool.partition_point(|(known, _)| *known < score);
            if self.pool.len() < POOL {
                self.pool.insert(at, (score, id));
            } else if at > 0 {
                self.pool.remove(0);
                self.pool.insert(at - 1, (score, id));
            }
        }
    }

    fn make_room(&mut self, now: u64) {
        while self.memory() > self.capacity && !self.keys.is_empty() {
            self.fill_pool(now);
            while let Some((_, id)) = self.pool.pop() {
                if self.entries[id as usize].at != ABSENT {
                    self.remove(id);
                    break;
                }
            }
        }
    }

    fn touch(&mut self, id: u32, now: u64) {
        let chance = self.random.unit();
        let lfu = self.lfu;
        let entry = &mut self.entries[id as usize];
        if lfu {
            let count = decayed(entry, now);
            let base = f64::from(count.saturating_sub(FIRST_COUNT));
            let more = count < 255 && chance < 1.0 / (base * LOG_FACTOR + 1.0);
            (entry.count, entry.time) = (count + u8::from(more), now / DECAY * DECAY);
        } else {
            entry.time = now / 1000 * 1000;
        }
    }
}

/// The counter decreases by one for every minute without use.
fn decayed(entry: &Entry, now: u64) -> u8 {
    let minutes = (now / DECAY * DECAY).saturating_sub(entry.time) / DECAY;
    entry.count.saturating_sub(u8::try_from(minutes).unwrap_or(u8::MAX))
}

/// Size classes of jemalloc: in steps of sixteen, from 128 on four per doubling.
fn allocated(bytes: u64) -> u64 {
    if bytes <= 128 {
        return bytes.next_multiple_of(16).max(16);
    }
    bytes.next_multiple_of((bytes - 1).next_power_of_two() / 8)
}

/// A table entry, the key's string, the value's string (up to 44 bytes within its object).
fn cost(size: u32) -> u64 {
    let value = u64::from(size).saturating_sub(KEY);
    let head = |bytes: u64| if bytes < 1 << 8 { 3 } else { 5 };
    let stored = match value {
        0..=44 => allocated(16 + 3 + value + 1),
        _ => 16 + allocated(head(value) + value + 1),
    };
    allocated(24) + allocated(3 + KEY + 1) + stored
}

impl Policy for Redis {
    fn get(&mut self, request: &Request) -> bool {
        let found = self.entries[request.id as usize].at != ABSENT;
        if found {
            self.touch(request.id, request.at);
        }
        found
    }

    fn set(&mut self, request: &Request) {
        // Redis frees memory before a command, for the current use without the new value.
        self.make_room(request.at);
        let old = self.entries[request.id as usize];
        self.remove(request.id);
        let time = if self.lfu { request.at / DECAY * DECAY } else { request.at / 1000 * 1000 };
        let entry =
            Entry { at: self.keys.len() as u32, size: request.size, time, count: FIRST_COUNT };
        self.entries[request.id as usize] = entry;
        if old.at != ABSENT {
            self.entries[request.id as usize].count = old.count;
            self.touch(request.id, request.at);
        }
        self.keys.push(request.id);
        self.used += u64::from(request.size);
        self.memory += cost(request.size);
    }

    fn remove(&mut self, id: u32) {
        let Entry { at, size, .. } = self.entries[id as usize];
        if at == ABSENT {
            return;
        }
        self.entries[id as usize].at = ABSENT;
        self.keys.swap_remove(at as usize);
        if let Some(moved) = self.keys.get(at as usize) {
            self.entries[*moved as usize].at = at;
        }
        self.used -= u64::from(size);
        self.memory -= cost(size);
    }

    fn used(&self) -> u64 {
        self.used
    }

    fn items(&self) -> u64 {
        self.keys.len() as u64
    }
}
