//! Which server has a key, so that every client of a fleet agrees.
//!
//! A key on another server than the one other programs ask is a miss for all of them, and worse than a miss after a
//! deletion. So the distributions people run are made here point for point, rounding included, and held against the
//! programs themselves: `tests/placement/` compares key by key.
//!
//! | file | what |
//! |---|---|
//! | `mod` | what can be chosen, the ring, looking up |
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

/// Largest sum of weights of the distributions that make a slot of every unit of weight ([`Distribution::ModulaTwemproxy`],
/// [`Distribution::Jump`]).
pub const MAX_SLOTS: usize = 65_536;

/// How keys are spread over servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// The hash modulo the number of servers, in their order: libmemcached's default. Weights do not count.
    #[default]
    Modula,
    /// twemproxy's `distribution: modula`: a slot for every unit of weight. The order in the list does not count, as twemproxy
    /// sorts its servers.
    ModulaTwemproxy,
    /// libmemcached's `consistent` and `ketama`: 100 points to a server, made by the same hash as the key's. As there, a
    /// weight above 1 makes it [`Distribution::KetamaWeighted`].
    Ketama,
    /// libmemcached's weighted ketama: about 160 points to a server, by its share of the weights, four of each MD5 sum.
    KetamaWeighted,
    /// spymemcached's `KetamaNodeLocator`: weighted, points named `ip:port-i`. Where spymemcached was given host names, it
    /// names points `host/ip:port-i`: give the servers such names ([`Server::name`](crate::Server)).
    KetamaSpy,
    /// libmemcached's `MEMCACHED_DISTRIBUTION_CONSISTENT_KETAMA_SPY`, weighted: points named `/host:port-i`, which no
    /// spymemcached of today does.
    KetamaSpyLibmemcached,
    /// twemproxy's `distribution: ketama`: weighted, points named by a server's alias, or `host:port` (`host` for port
    /// 11211).
    KetamaTwemproxy,
    /// Highest random weight (Thaler and Ravishankar 1998), by weights (Schindelhauer and Schomaker 2005). Every
    /// lookup looks at every server. `hash` does not count.
    Rendezvous,
    /// pymemcache's `HashClient`: highest MurmurHash3 of `host:port-key`. Weights and `hash` do not count.
    RendezvousPymemcache,
    /// Lamping's and Veach's jump hash (2014) over a slot for every unit of weight. For fleets that grow at the end of the
    /// list only. `hash` does not count.
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
        Distribution::ALL.iter().find(|(_, known)| *known == name).map(|(distribution, _)| *distribution)
    }
}

/// Which server has which key. By default what a libmemcached has that nobody configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Placement {
    /// How keys are spread.
    pub distribution: Distribution,
    /// What of a key decides.
    pub hash: Hash,
    /// Only what stands between the first of these bytes and the next second one is hashed, where there is something, as
    /// twemproxy's `hash_tag`: keys that belong together stay together.
    pub hash_tag: Option<[u8; 2]>,
}

impl Placement {
    /// A distribution and a hash, no tag.
    pub fn new(distribution: Distribution, hash: Hash) -> Placement {
        Placement { distribution, hash, hash_tag: None }
    }

    /// libmemcached's `MEMCACHED_BEHAVIOR_KETAMA`: with its default hash, though its documents say MD5.
    pub fn ketama() -> Placement {
        Placement::new(Distribution::Ketama, Hash::default())
    }

    /// libmemcached's `MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED`, which is what PHP's `OPT_LIBKETAMA_COMPATIBLE` and pylibmc's
    /// `ketama_weighted` set.
    pub fn ketama_weighted() -> Placement {
        Placement::new(Distribution::KetamaWeighted, Hash::Md5)
    }
}

/// Why no ring can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// There is no server.
    #[error("at least one server is needed")]
    NoServer,
    /// There are more than [`MAX_SERVERS`].
    #[error("at most {MAX_SERVERS} servers, found {0}")]
    TooManyServers(usize),
    /// The weights come to more than [`MAX_SLOTS`].
    #[error("with this distribution the weights may come to {MAX_SLOTS}, found {0}")]
    TooMuchWeight(u64),
}

/// Servers and the keys they have. It is made anew whenever a server leaves or comes back; looking up allocates nothing.
#[derive(Clone, Debug)]
pub struct Ring {
    hash: Hash,
    hash_tag: Option<[u8; 2]>,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// One server: every distribution is the same.
    One(u16),
    /// The hash modulo the number of slots says which.
    Slots(Vec<u16>),
    /// The first point not below the hash says which, the first of all behind the last.
    Continuum(ketama::Continuum),
    Rendezvous(rendezvous::Rendezvous),
    Pymemcache(rendezvous::Pymemcache),
    Jump(jump::Jump),
}

impl Ring {
    /// The ring of all of `servers`.
    pub fn new(placement: &Placement, servers: &[Server]) -> Result<Ring, PlacementError> {
        Ring::living(placement, servers, |_| true)
    }

    /// The ring of those of `servers` that are `alive`: what libmemcached makes of a continuum when it ejects a server
    /// (`MEMCACHED_BEHAVIOR_AUTO_EJECT_HOSTS`). Indices are those in `servers`. Where none is alive, it is the ring of all.
    ///
    /// With modula nearly every key moves when a server leaves, as it does when one is taken from the configuration
    /// (libmemcached itself ejects from continuums only). With the others only the keys of the server that left do, with
    /// weighted ketama a few more where the weights differ: shares are rounded anew.
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
        let slotted = matches!(placement.distribution, Distribution::ModulaTwemproxy | Distribution::Jump);
        let weight = servers.iter().map(|server| u64::from(server.weight)).sum();
        if slotted && weight > MAX_SLOTS as u64 {
            return Err(PlacementError::TooMuchWeight(weight));
        }
        let kind = kind(placement, servers, &members);
        Ok(Ring { hash: placement.hash, hash_tag: placement.hash_tag, kind })
    }

    /// The server that has `key`: its index in the list the ring was made of.
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

    /// Up to `count` different servers for `key`, at most [`MAX_REPLICAS`]; the first is [`Ring::locate`]'s. What follows is
    /// the next on the continuum, in the list or by rank: who would have the key if those before were not there.
    /// (libmemcached's `NUMBER_OF_REPLICAS` takes the next in the list with every distribution.)
    pub fn replicas<'a>(&'a self, key: &'a [u8], count: usize) -> Replicas<'a> {
        Replicas::new(self, self.tagged(key), count)
    }

    /// What of a key is hashed.
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

/// A server that takes part, and its index in the whole list.
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
        let each =
            |member: &Member<'_>| std::iter::repeat_n(member.index, member.server.weight.max(1) as usize);
        members.iter().flat_map(each).collect()
    };
    match placement.distribution {
        Distribution::Modula => Kind::Slots(members.iter().map(|member| member.index).collect()),
        Distribution::ModulaTwemproxy => {
            let mut members = members.to_vec();
            // Shorter names first, then by bytes: its order of strings.
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
        Distribution::KetamaTwemproxy => Kind::Continuum(ketama::weighted(members, &ketama::twemproxy)),
        Distribution::Rendezvous => Kind::Rendezvous(rendezvous::Rendezvous::new(members)),
        Distribution::RendezvousPymemcache => Kind::Pymemcache(rendezvous::Pymemcache::new(members)),
        Distribution::Jump => {
            let all = |at| Member { index: at as u16, server: &servers[at] };
            let all: Vec<Member<'_>> = (0..servers.len()).map(all).collect();
            Kind::Jump(jump::Jump::new(slots(&all), members.iter().map(|member| member.index).collect()))
        }
    }
}
