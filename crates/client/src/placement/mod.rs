//! Mapping of keys to servers, in agreement with the other clients of a fleet.
//!
//! A key on another server than other programs ask is a miss for all of them, and after a deletion
//! it is stale data. So the common distributions are reproduced point for point, including
//! rounding, and compared key by key with the programs themselves in `tests/placement/`.
//!
//! | file | contents |
//! |---|---|
//! | `mod` | options, the ring, lookup |
//! | `ketama` | the points of the continuums |
//! | `rendezvous` | highest random weight |
//! | `jump` | Lamping's and Veach's jump hash |
//! | `replicas` | several servers for one key |

mod jump;
mod ketama;
mod rendezvous;
mod replicas;
#[cfg(test)]
mod tests;

pub use replicas::{MAX_REPLICAS, Replicas};

use crate::{Server, hash::Hash};

/// Most servers of a ring.
pub const MAX_SERVERS: usize = 1024;

/// Largest sum of weights for distributions with one slot per unit of weight
/// ([`Distribution::ModulaTwemproxy`], [`Distribution::Jump`]).
pub const MAX_SLOTS: usize = 65_536;

/// How keys are distributed over servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// Hash modulo the number of servers, in list order: libmemcached's default. Ignores weights.
    #[default]
    Modula,
    /// twemproxy's `distribution: modula`: one slot per unit of weight. Independent of the list
    /// order, as twemproxy sorts its servers.
    ModulaTwemproxy,
    /// libmemcached's `consistent` and `ketama`: 100 points per server, made with the key hash. As
    /// there, a weight above 1 selects [`Distribution::KetamaWeighted`].
    Ketama,
    /// libmemcached's weighted ketama: about 160 points per server by its share of the weights,
    /// four from each MD5 sum.
    KetamaWeighted,
    /// spymemcached's `KetamaNodeLocator`: weighted, points named `ip:port-i`. If spymemcached was
    /// given host names, its points are named `host/ip:port-i`: give the servers such names
    /// ([`Server::name`](crate::Server)).
    KetamaSpy,
    /// libmemcached's `MEMCACHED_DISTRIBUTION_CONSISTENT_KETAMA_SPY`, weighted: points named
    /// `/host:port-i`, as current versions of spymemcached do not.
    KetamaSpyLibmemcached,
    /// twemproxy's `distribution: ketama`: weighted, points named by a server's alias, or by
    /// `host:port` (`host` for port 11211).
    KetamaTwemproxy,
    /// Highest random weight (Thaler and Ravishankar 1998), weighted (Schindelhauer and Schomaker
    /// 2005). Every lookup evaluates every server. Ignores `hash`.
    Rendezvous,
    /// pymemcache's `HashClient`: highest MurmurHash3 of `host:port-key`. Ignores weights and
    /// `hash`.
    RendezvousPymemcache,
    /// Jump hash (Lamping and Veach 2014) with one slot per unit of weight. For fleets that only
    /// grow at the end of the list. Ignores `hash`.
    Jump,
}

impl Distribution {
    /// Every distribution with its name in configuration files.
    pub const ALL: [(Distribution, &str); 10] = [
        (Distribution::Modula, "modula"),
        (Distribution::ModulaTwemproxy, "modula_twemproxy"),
        (Distribution::Ketama, "ketama"),
        (Distribution::KetamaWeighted, "ketama_weighted"),
        (Distribution::KetamaSpy, "ketama_spy"),
        (Distribution::KetamaSpyLibmemcached, "ketama_spy_libmemcached"),
        (Distribution::KetamaTwemproxy, "ketama_twemproxy"),
        (Distribution::Rendezvous, "rendezvous"),
        (Distribution::RendezvousPymemcache, "rendezvous_pymemcache"),
        (Distribution::Jump, "jump"),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Distribution::ALL.iter().find(|(known, _)| *known == self).map_or("", |(_, name)| name)
    }

    /// The distribution of this name.
    pub fn named(name: &str) -> Option<Distribution> {
        Distribution::ALL
            .iter()
            .find(|(_, known)| *known == name)
            .map(|(distribution, _)| *distribution)
    }
}

/// Rule that maps keys to servers. The default is libmemcached's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Placement {
    /// The distribution.
    pub distribution: Distribution,
    /// The hash of keys.
    pub hash: Hash,
    /// Hash only the text between the first occurrence of the first byte and the next occurrence of
    /// the second, if any, like twemproxy's `hash_tag`: related keys get the same server.
    pub hash_tag: Option<[u8; 2]>,
}

impl Placement {
    /// A distribution and a hash, without a tag.
    pub fn new(distribution: Distribution, hash: Hash) -> Placement {
        Placement { distribution, hash, hash_tag: None }
    }

    /// libmemcached's `MEMCACHED_BEHAVIOR_KETAMA`: with its default hash, though its documentation
    /// says MD5.
    pub fn ketama() -> Placement {
        Placement::new(Distribution::Ketama, Hash::default())
    }

    /// libmemcached's `MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED`, which PHP's `OPT_LIBKETAMA_COMPATIBLE`
    /// and pylibmc's `ketama_weighted` set.
    pub fn ketama_weighted() -> Placement {
        Placement::new(Distribution::KetamaWeighted, Hash::Md5)
    }
}

/// Why a ring cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// There is no server.
    #[error("at least one server is needed")]
    NoServer,
    /// There are more than [`MAX_SERVERS`].
    #[error("at most {MAX_SERVERS} servers, found {0}")]
    TooManyServers(usize),
    /// The weights sum to more than [`MAX_SLOTS`].
    #[error("with this distribution the weights may come to {MAX_SLOTS}, found {0}")]
    TooMuchWeight(u64),
}

/// Mapping of keys to a set of servers. Rebuilt whenever a server leaves or comes back; lookups do
/// not allocate.
#[derive(Clone, Debug)]
pub struct Ring {
    hash: Hash,
    hash_tag: Option<[u8; 2]>,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// A single server: every distribution is the same.
    One(u16),
    /// Server by hash modulo the number of slots.
    Slots(Vec<u16>),
    /// First point at or above the hash, wrapping around.
    Continuum(ketama::Continuum),
    Rendezvous(rendezvous::Rendezvous),
    Pymemcache(rendezvous::Pymemcache),
    Jump(jump::Jump),
}

impl Ring {
    /// The ring of all `servers`.
    pub fn new(placement: &Placement, servers: &[Server]) -> Result<Ring, PlacementError> {
        Ring::living(placement, servers, |_| true)
    }

    /// The ring of the `servers` that are `alive`, as libmemcached builds it when it ejects a
    /// server (`MEMCACHED_BEHAVIOR_AUTO_EJECT_HOSTS`). Indices are those in `servers`. If none is
    /// alive, it is the ring of all.
    ///
    /// With modula nearly every key moves when a server leaves, as when it is removed from the
    /// configuration (libmemcached itself ejects from continuums only). With the others only the
    /// keys of that server move; with weighted ketama and different weights a few more, as shares
    /// are rounded again.
    pub fn living(
        placement: &Placement,
        servers: &[Server],
        alive: impl Fn(usize) -> bool,
    ) -> Result<Ring, PlacementError> {
        if servers.is_empty() {
            return Err(PlacementError::NoServer);
        }
        if servers.len() > MAX_SERVERS {
            return Err(PlacementError::TooManyServers(servers.len()));
        }
        let chosen = |wanted: &dyn Fn(usize) -> bool| -> Vec<Member<'_>> {
            let members = servers.iter().enumerate().filter(|(at, _)| wanted(*at));
            members.map(|(at, server)| Member { index: at as u16, server }).collect()
        };
        let mut members = chosen(&alive);
        if members.is_empty() {
            members = chosen(&|_| true);
        }
        let slotted =
            matches!(placement.distribution, Distribution::ModulaTwemproxy | Distribution::Jump);
        let weight = servers.iter().map(|server| u64::from(server.weight)).sum();
        if slotted && weight > MAX_SLOTS as u64 {
            return Err(PlacementError::TooMuchWeight(weight));
        }
        let kind = kind(placement, servers, &members);
        Ok(Ring { hash: placement.hash, hash_tag: placement.hash_tag, kind })
    }

    /// Index of the server that has `key`, in the list the ring was made of.
    pub fn locate(&self, key: &[u8]) -> usize {
        let key = self.tagged(key);
        let index = match &self.kind {
            Kind::One(index) => *index,
            Kind::Slots(slots) => slots[self.hash.of(key) as usize % slots.len()],
            Kind::Continuum(continuum) => continuum.owner(continuum.point(self.hash.of(key))),
            Kind::Rendezvous(servers) => servers.best(key, &[]),
            Kind::Pymemcache(servers) => servers.best(key, &[]),
            Kind::Jump(jump) => jump.locate(key),
        };
        usize::from(index)
    }

    /// Up to `count` different servers for `key`, at most [`MAX_REPLICAS`]; the first is
    /// [`Ring::locate`]'s. The others follow on the continuum, in the list or by rank: each would
    /// have the key if those before were absent. (libmemcached's `NUMBER_OF_REPLICAS` always takes
    /// the next in the list.)
    pub fn replicas<'a>(&'a self, key: &'a [u8], count: usize) -> Replicas<'a> {
        Replicas::new(self, self.tagged(key), count)
    }

    /// The part of a key that is hashed.
    fn tagged<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        let Some([open, close]) = self.hash_tag else { return key };
        let Some(start) = key.iter().position(|byte| *byte == open) else { return key };
        let inner = &key[start + 1..];
        match inner.iter().position(|byte| *byte == close) {
            Some(end) if end > 0 => &inner[..end],
            _ => key,
        }
    }
}

/// A server of the ring, and its index in the whole list.
#[derive(Clone, Copy)]
struct Member<'a> {
    index: u16,
    server: &'a Server,
}

fn kind(placement: &Placement, servers: &[Server], members: &[Member<'_>]) -> Kind {
    if let [only] = members {
        return Kind::One(only.index);
    }
    let slots = |members: &[Member<'_>]| -> Vec<u16> {
        let each = |member: &Member<'_>| {
            std::iter::repeat_n(member.index, member.server.weight.max(1) as usize)
        };
        members.iter().flat_map(each).collect()
    };
    match placement.distribution {
        Distribution::Modula => Kind::Slots(members.iter().map(|member| member.index).collect()),
        Distribution::ModulaTwemproxy => {
            let mut members = members.to_vec();
            // twemproxy's order of strings: shorter names first, then by bytes.
            members.sort_by_cached_key(|member| {
                let name = ketama::twemproxy(member);
                (name.len(), name)
            });
            Kind::Slots(slots(&members))
        }
        Distribution::Ketama if servers.iter().all(|server| server.weight <= 1) => {
            Kind::Continuum(ketama::unweighted(members, placement.hash))
        }
        Distribution::Ketama | Distribution::KetamaWeighted => {
            Kind::Continuum(ketama::weighted(members, &ketama::libmemcached))
        }
        Distribution::KetamaSpy => Kind::Continuum(ketama::spymemcached(members)),
        Distribution::KetamaSpyLibmemcached => {
            Kind::Continuum(ketama::weighted(members, &ketama::spymemcached_by_libmemcached))
        }
        Distribution::KetamaTwemproxy => {
            Kind::Continuum(ketama::weighted(members, &ketama::twemproxy))
        }
        Distribution::Rendezvous => Kind::Rendezvous(rendezvous::Rendezvous::new(members)),
        Distribution::RendezvousPymemcache => {
            Kind::Pymemcache(rendezvous::Pymemcache::new(members))
        }
        Distribution::Jump => {
            let all = |at| Member { index: at as u16, server: &servers[at] };
            let all: Vec<Member<'_>> = (0..servers.len()).map(all).collect();
            Kind::Jump(jump::Jump::new(
                slots(&all),
                members.iter().map(|member| member.index).collect(),
            ))
        }
    }
}
