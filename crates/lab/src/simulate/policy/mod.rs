//! Who is kept and who goes: each policy in a file of its own, exact, by bytes.
//!
//! | name | what | file |
//! |---|---|---|
//! | `fifo`, `clock`, `sieve` | by age; with a second chance; with SIEVE's hand | `fifo` |
//! | `lru`, `lfu` | by last use; by number of uses, without ageing | `lru`, `lfu` |
//! | `s3fifo`, `tinylfu`, `arc` | as published | `s3fifo`, `tinylfu`, `arc` |
//! | `gdsf`, `belady` | by uses and size; by what comes | `ranked` |
//! | `larder` | the store that ships | `larder` |
//! | `memcached`, `redis-lru`, `redis-lfu` | models, checked against the real programs | `memcached`, `redis` |
//!
//! All but the last two rows count bytes of keys and values and nothing else.

mod arc;
mod fifo;
mod heap;
mod larder;
mod lfu;
mod list;
mod lru;
mod memcached;
mod ranked;
mod redis;
mod s3fifo;
#[cfg(test)]
mod tests;
mod tinylfu;

use super::request::Request;

/// A cache of a fixed number of bytes.
pub(crate) trait Policy {
    /// Looks for an object as a client's read does.
    fn get(&mut self, ask: &Request) -> bool;
    /// Stores an object, or does not if the policy thinks so.
    fn set(&mut self, ask: &Request);
    /// Takes an object out.
    fn remove(&mut self, id: u32);
    /// Bytes of keys and values.
    fn used(&self) -> u64;
    /// Objects.
    fn items(&self) -> u64;
    /// Does it know what has expired? If not, it is told by [`Policy::remove`] when that is so.
    fn expires_by_itself(&self) -> bool {
        false
    }
}

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Fifo,
    Clock,
    Sieve,
    Lru,
    Lfu,
    S3Fifo,
    TinyLfu,
    Arc,
    Gdsf,
    Belady,
    Larder,
    Memcached,
    RedisLru,
    RedisLfu,
}

impl Kind {
    /// Every policy with its name.
    pub(crate) const ALL: [(Kind, &str); 14] = [
        (Kind::Fifo, "fifo"),
        (Kind::Clock, "clock"),
        (Kind::Sieve, "sieve"),
        (Kind::Lru, "lru"),
        (Kind::Lfu, "lfu"),
        (Kind::S3Fifo, "s3fifo"),
        (Kind::TinyLfu, "tinylfu"),
        (Kind::Arc, "arc"),
        (Kind::Gdsf, "gdsf"),
        (Kind::Belady, "belady"),
        (Kind::Larder, "larder"),
        (Kind::Memcached, "memcached"),
        (Kind::RedisLru, "redis-lru"),
        (Kind::RedisLfu, "redis-lfu"),
    ];

    pub(crate) fn name(self) -> &'static str {
        Kind::ALL.iter().find(|(known, _)| *known == self).map_or("", |(_, name)| name)
    }

    pub(crate) fn named(name: &str) -> Result<Kind, String> {
        let found = Kind::ALL.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind);
        found.ok_or_else(|| {
            let known: Vec<&str> = Kind::ALL.iter().map(|(_, name)| *name).collect();
            format!("no policy is called {name:?}; there are {}", known.join(", "))
        })
    }

    /// An empty cache of `capacity` bytes for objects 0 to `ids` - 1.
    pub(crate) fn open(self, capacity: u64, ids: usize, seed: u64) -> Result<Box<dyn Policy>, String> {
        Ok(match self {
            Kind::Fifo => Box::new(fifo::Fifo::new(fifo::Chance::None, capacity, ids)),
            Kind::Clock => Box::new(fifo::Fifo::new(fifo::Chance::Second, capacity, ids)),
            Kind::Sieve => Box::new(fifo::Fifo::new(fifo::Chance::Sieve, capacity, ids)),
            Kind::Lru => Box::new(lru::Lru::new(capacity, ids)),
            Kind::Lfu => Box::new(lfu::Lfu::new(capacity, ids)),
            Kind::S3Fifo => Box::new(s3fifo::S3Fifo::new(capacity, ids)),
            Kind::TinyLfu => Box::new(tinylfu::TinyLfu::new(capacity, ids)),
            Kind::Arc => Box::new(arc::Arc::new(capacity, ids)),
            Kind::Gdsf => Box::new(ranked::Gdsf::new(capacity, ids)),
            Kind::Belady => Box::new(ranked::Belady::new(capacity, ids)),
            Kind::Larder => Box::new(larder::Larder::new(capacity, seed).map_err(|error| error.to_string())?),
            Kind::Memcached => Box::new(memcached::Memcached::new(capacity, ids)),
            Kind::RedisLru => Box::new(redis::Redis::new(false, capacity, ids, seed)),
            Kind::RedisLfu => Box::new(redis::Redis::new(true, capacity, ids, seed)),
        })
    }
}
