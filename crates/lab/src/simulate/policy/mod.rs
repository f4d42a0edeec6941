//! Eviction policies: each in its own file, exact, by bytes.
//!
//! | name | policy | file |
//! |---|---|---|
//! | `fifo`, `clock`, `sieve` | by age; with a second chance; with SIEVE's hand | `fifo` |
//! | `lru`, `lfu` | by last use; by number of uses, without ageing | `lru`, `lfu` |
//! | `s3fifo`, `tinylfu`, `arc` | as published | `s3fifo`, `tinylfu`, `arc` |
//! | `gdsf`, `belady` | by uses and size; by the next use | `ranked` |
//! | `larder` | Larder's own store | `larder` |
//! | `memcached`, `redis-lru`, `redis-lfu` | models, checked against the real programs | `memcached`, `redis` |
//!
//! All but the last two rows count only the bytes of keys and values.

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
    /// Looks up an object, as a client's read does.
    fn get(&mut self, request: &Request) -> bool;
    /// Stores an object, unless the policy rejects it.
    fn set(&mut self, request: &Request);
    /// Removes an object.
    fn remove(&mut self, id: u32);
    /// Bytes of keys and values stored.
    fn used(&self) -> u64;
    /// Number of objects stored.
    fn items(&self) -> u64;
    /// Whether the policy handles expiry itself. If not, expired objects are removed with
    /// [`Policy::remove`].
    fn expires_by_itself(&self) -> bool {
        false
    }
}

/// A policy by name.
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
    pub(crate) fn open(
        self,
        capacity: u64,
        ids: usize,
        seed: u64,
    ) -> Result<Box<dyn Policy>, String> {
        Ok(match self {
            Kind::Fifo => Box::new(fifo::Fifo::new(fifo::Variant::None, capacity, ids)),
            Kind::Clock => Box::new(fifo::Fifo::new(fifo::Variant::Second, capacity, ids)),
            Kind::Sieve => Box::new(fifo::Fifo::new(fifo::Variant::Sieve, capacity, ids)),
            Kind::Lru => Box::new(lru::Lru::new(capacity, ids)),
            Kind::Lfu => Box::new(lfu::Lfu::new(capacity, ids)),
            Kind::S3Fifo => Box::new(s3fifo::S3Fifo::new(capacity, ids)),
            Kind::TinyLfu => Box::new(tinylfu::TinyLfu::new(capacity, ids)),
            Kind::Arc => Box::new(arc::Arc::new(capacity, ids)),
            Kind::Gdsf => Box::new(ranked::Gdsf::new(capacity, ids)),
            Kind::Belady => Box::new(ranked::Belady::new(capacity, ids)),
            Kind::Larder => {
                Box::new(larder::Larder::new(capacity, seed).map_err(|error| error.to_string())?)
            }
            Kind::Memcached => Box::new(memcached::Memcached::new(capacity, ids)),
            Kind::RedisLru => Box::new(redis::Redis::new(false, capacity, ids, seed)),
            Kind::RedisLfu => Box::new(redis::Redis::new(true, capacity, ids, seed)),
        })
    }
}
