//! Continuums: points on a circle of 32 bits, each a server's. A key belongs to the first point not below its hash.

use std::fmt::Write;

use super::Member;
use crate::{
    Address,
    hash::{self, Hash},
    server::DEFAULT_PORT,
};

/// Points of a server where weights do not count (libmemcached's `MEMCACHED_POINTS_PER_SERVER`).
const POINTS: usize = 100;
/// Points of a server of average weight (`MEMCACHED_POINTS_PER_SERVER_KETAMA`).
const POINTS_WEIGHTED: f32 = 160.0;
/// Points made of one MD5 sum.
const POINTS_PER_SUM: usize = 4;

/// Points in order. The values lie by themselves: a lookup reads them only.
#[derive(Clone, Debug)]
pub(super) struct Continuum {
    values: Vec<u32>,
    owners: Vec<u16>,
}

impl Continuum {
    fn new(mut points: Vec<(u32, u16)>) -> Continuum {
        // Points of the same value stay in the order they were made in, as glibc's qsort leaves them: the first counts.
        points.sort_by_key(|(value, _)| *value);
        let (values, owners) = points.into_iter().unzip();
        Continuum { values, owners }
    }

    /// The point a hash belongs to.
    pub(super) fn point(&self, hash: u32) -> usize {
        let at = self.values.partition_point(|value| *value < hash);
        if at == self.values.len() { 0 } else { at }
    }

    /// The server of a point.
    pub(super) fn owner(&self, point: usize) -> u16 {
        self.owners[point]
    }

    /// How many points there are.
    pub(super) fn len(&self) -> usize {
        self.owners.len()
    }
}

/// 100 points to a server, each the hash of `name-i`.
pub(super) fn unweighted(members: &[Member<'_>], hash: Hash) -> Continuum {
    let mut points = Vec::with_capacity(members.len() * POINTS);
    for member in members {
        let mut name = Name::new(libmemcached(member));
        points.extend((0..POINTS).map(|at| (hash.of(name.point(at)), member.index)));
    }
    Continuum::new(points)
}

/// Points by share of the weights, four of the MD5 sum of each `name-i`.
pub(super) fn weighted(members: &[Member<'_>], name: &dyn Fn(&Member<'_>) -> String) -> Continuum {
    Continuum::new(shared(members, name))
}

/// The same named `host:port`, the port never left out. Where points have the same value, the one made last has it.
pub(super) fn spymemcached(members: &[Member<'_>]) -> Continuum {
    let mut points = shared(members, &|member| named(member, |host, port| format!("{host}:{port}")));
    points.reverse();
    Continuum::new(points)
}

fn shared(members: &[Member<'_>], name: &dyn Fn(&Member<'_>) -> String) -> Vec<(u32, u16)> {
    let total: u64 = members.iter().map(|member| u64::from(member.server.weight)).sum();
    let mut points = Vec::with_capacity(members.len() * (POINTS_WEIGHTED as usize + POINTS_PER_SUM));
    for member in members {
        let mut name = Name::new(name(member));
        for at in 0..sums(member.server.weight, total, members.len()) {
            let sum = hash::md5(name.point(at));
            points.extend((0..POINTS_PER_SUM).map(|part| (hash::md5_part(&sum, part), member.index)));
        }
    }
    points
}

/// How many sums a server's points are made of. Single precision, one rounding after the other as libmemcached and twemproxy
/// have it: in exact arithmetic some servers would get four points more. (The tiny summand is a float in one and a double
/// in the other, and too small to matter in both.)
fn sums(weight: u32, total: u64, servers: usize) -> usize {
    let share = weight as f32 / total as f32;
    let sums = share * POINTS_WEIGHTED / POINTS_PER_SUM as f32 * servers as f32 + 0.000_000_000_1;
    sums.floor() as usize
}

/// `host:port`, `host` for the default port; a unix socket's path counts as a host with port 0.
pub(super) fn libmemcached(member: &Member<'_>) -> String {
    named(member, |host, port| if port == DEFAULT_PORT { host.to_owned() } else { format!("{host}:{port}") })
}

/// `/host:port`.
pub(super) fn spymemcached_by_libmemcached(member: &Member<'_>) -> String {
    named(member, |host, port| format!("/{host}:{port}"))
}

/// `host:port`, `host` for the default port; a unix socket's path and a colon.
pub(super) fn twemproxy(member: &Member<'_>) -> String {
    named(member, |host, port| match port {
        0 => format!("{host}:"),
        DEFAULT_PORT => host.to_owned(),
        port => format!("{host}:{port}"),
    })
}

fn named(member: &Member<'_>, name: impl Fn(&str, u16) -> String) -> String {
    match (&member.server.name, &member.server.address) {
        (Some(given), _) => given.clone(),
        (None, Address::Tcp(host, port)) => name(host, *port),
        (None, Address::Unix(path)) => name(&path.to_string_lossy(), 0),
    }
}

/// The name of a server's points: its own and a number.
struct Name {
    text: String,
    len: usize,
}

impl Name {
    fn new(text: String) -> Name {
        Name { len: text.len(), text }
    }

    fn point(&mut self, at: usize) -> &[u8] {
        self.text.truncate(self.len);
        // Writing to a string does not fail.
        let _ = write!(self.text, "-{at}");
        self.text.as_bytes()
    }
}
