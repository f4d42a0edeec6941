//! Continuums: points on a 32-bit circle, each owned by a server. A key belongs to the first point
//! at or above its hash.

use std::fmt::Write;

use super::Member;
use crate::{
    Address,
    hash::{self, Hash},
    server::DEFAULT_PORT,
};

/// Points per server if weights do not count (libmemcached's `MEMCACHED_POINTS_PER_SERVER`).
const POINTS: usize = 100;
/// Points per server of average weight (`MEMCACHED_POINTS_PER_SERVER_KETAMA`).
const POINTS_WEIGHTED: f32 = 160.0;
/// Points made from one MD5 sum.
const POINTS_PER_SUM: usize = 4;

/// Points in order. Values and owners are separate arrays: a search reads only the values.
#[derive(Clone, Debug)]
pub(super) struct Continuum {
    values: Vec<u32>,
    owners: Vec<u16>,
}

impl Continuum {
    fn new(mut points: Vec<(u32, u16)>) -> Continuum {
        // Stable sort, like glibc's qsort: of points with the same value, the first made counts.
        points.sort_by_key(|(value, _)| *value);
        let (values, owners) = points.into_iter().unzip();
        Continuum { values, owners }
    }

    /// Index of the point a hash belongs to.
    pub(super) fn point(&self, hash: u32) -> usize {
        let at = self.values.partition_point(|value| *value < hash);
        if at == self.values.len() { 0 } else { at }
    }

    /// The server that owns a point.
    pub(super) fn owner(&self, point: usize) -> u16 {
        self.owners[point]
    }

    /// Number of points.
    pub(super) fn len(&self) -> usize {
        self.owners.len()
    }
}

/// 100 points per server, each the hash of `name-i`.
pub(super) fn unweighted(members: &[Member<'_>], hash: Hash) -> Continuum {
    let mut points = Vec::with_capacity(members.len() * POINTS);
    for member in members {
        let mut name = Name::new(libmemcached(member));
        points.extend((0..POINTS).map(|at| (hash.of(name.point(at)), member.index)));
    }
    Continuum::new(points)
}

/// Points by share of the weights, four from the MD5 sum of each `name-i`.
pub(super) fn weighted(members: &[Member<'_>], name: &dyn Fn(&Member<'_>) -> String) -> Continuum {
    Continuum::new(shared(members, name))
}

/// Like `weighted`, with names `host:port` including the default port. Of points with the same
/// value, the last made counts.
pub(super) fn spymemcached(members: &[Member<'_>]) -> Continuum {
    let mut points =
        shared(members, &|member| named(member, |host, port| format!("{host}:{port}")));
    points.reverse();
    Continuum::new(points)
}

fn shared(members: &[Member<'_>], name: &dyn Fn(&Member<'_>) -> String) -> Vec<(u32, u16)> {
    let total: u64 = members.iter().map(|member| u64::from(member.server.weight)).sum();
    let mut points =
        Vec::with_capacity(members.len() * (POINTS_WEIGHTED as usize + POINTS_PER_SUM));
    for member in members {
        let mut name = Name::new(name(member));
        for at in 0..sums(member.server.weight, total, members.len()) {
            let sum = hash::md5(name.point(at));
            points
                .extend((0..POINTS_PER_SUM).map(|part| (hash::md5_part(&sum, part), member.index)));
        }
    }
    points
}

/// Number of MD5 sums for a server's points. Computed in single precision with the rounding of
/// libmemcached and twemproxy: exact arithmetic would give some servers four points more. (The
/// small summand is a float in one and a double in the other; the difference never matters.)
fn sums(weight: u32, total: u64, servers: usize) -> usize {
    let share = weight as f32 / total as f32;
    let sums = share * POINTS_WEIGHTED / POINTS_PER_SUM as f32 * servers as f32 + 0.000_000_000_1;
    sums.floor() as usize
}

/// `host:port`, or `host` for the default port; a unix socket's path counts as a host with port 0.
pub(super) fn libmemcached(member: &Member<'_>) -> String {
    named(
        member,
        |host, port| if port == DEFAULT_PORT { host.to_owned() } else { format!("{host}:{port}") },
    )
}

/// `/host:port`.
pub(super) fn spymemcached_by_libmemcached(member: &Member<'_>) -> String {
    named(member, |host, port| format!("/{host}:{port}"))
}

/// `host:port`, or `host` for the default port; for a unix socket, its path and a colon.
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

/// Builder for the names of a server's points: server name and number.
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
