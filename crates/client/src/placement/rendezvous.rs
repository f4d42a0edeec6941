//! Highest random weight: every server draws a number for a key, and the best draw has it. A server
//! that leaves moves only its own keys, whatever the weights.

use super::Member;
use crate::{
    Address,
    hash::{self, fnv1a_wide, mix},
};

/// Servers by name; their order does not matter.
///
/// A server's number for a key is `mix(fnv1a64(key) ^ mix(fnv1a64(name)))`. `name` is the given one
/// or the address as written (`host:port`, `[v6]:port`, `unix:path`), `fnv1a64` is 64-bit FNV-1a
/// and `mix` splitmix64's finalizer with its increment. The upper 53 bits plus a half, read as a
/// fraction `u`, give the draw `-ln(u) / weight`; the lowest draw has the key.
#[derive(Clone, Debug)]
pub(super) struct Rendezvous {
    servers: Vec<Candidate>,
    /// All weights are equal: the highest number is the lowest draw.
    equal: bool,
}

#[derive(Clone, Debug)]
struct Candidate {
    index: u16,
    seed: u64,
    weight: f64,
}

impl Rendezvous {
    pub(super) fn new(members: &[Member<'_>]) -> Rendezvous {
        let servers = members.iter().map(|member| {
            let name =
                member.server.name.clone().unwrap_or_else(|| member.server.address.to_string());
            let weight = f64::from(member.server.weight.max(1));
            Candidate { index: member.index, seed: mix(fnv1a_wide(name.as_bytes())), weight }
        });
        let servers: Vec<Candidate> = servers.collect();
        let equal = servers.iter().all(|server| server.weight == servers[0].weight);
        Rendezvous { servers, equal }
    }

    /// The best server for `key` that is not in `taken`. At least one server must not be taken.
    pub(super) fn best(&self, key: &[u8], taken: &[u16]) -> u16 {
        let key = fnv1a_wide(key);
        let left = self.servers.iter().filter(|server| !taken.contains(&server.index));
        let drawn = left.map(|server| (server, mix(key ^ server.seed)));
        let best = if self.equal {
            drawn.max_by_key(|(_, number)| *number)
        } else {
            drawn.min_by(|(a, x), (b, y)| draw(*x, a.weight).total_cmp(&draw(*y, b.weight)))
        };
        best.map_or(0, |(server, _)| server.index)
    }

    pub(super) fn len(&self) -> usize {
        self.servers.len()
    }
}

fn draw(number: u64, weight: f64) -> f64 {
    let fraction = ((number >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    -fraction.ln() / weight
}

/// pymemcache's `RendezvousHash`: the highest MurmurHash3 (seed 0) of `node-key`, and the greater
/// name on a tie. A node is `host:port` or a unix socket's path.
#[derive(Clone, Debug)]
pub(super) struct Pymemcache {
    servers: Vec<(u16, String)>,
}

impl Pymemcache {
    pub(super) fn new(members: &[Member<'_>]) -> Pymemcache {
        let name = |member: &Member<'_>| match (&member.server.name, &member.server.address) {
            (Some(name), _) => name.clone(),
            (None, Address::Tcp(host, port)) => format!("{host}:{port}"),
            (None, Address::Unix(path)) => path.to_string_lossy().into_owned(),
        };
        Pymemcache { servers: members.iter().map(|member| (member.index, name(member))).collect() }
    }

    /// The best server for `key` that is not in `taken`. At least one server must not be taken.
    pub(super) fn best(&self, key: &[u8], taken: &[u16]) -> u16 {
        let left = self.servers.iter().filter(|(index, _)| !taken.contains(index));
        let best =
            left.max_by_key(|(_, name)| (hash::murmur3(&[name.as_bytes(), b"-", key]), name));
        best.map_or(0, |(index, _)| *index)
    }

    pub(super) fn len(&self) -> usize {
        self.servers.len()
    }
}
