//! Every counter under its plain name: what SIGUSR1 prints.

use larder_proto::http::RejectReason;
use larder_store::{Namespace, NamespaceStats, Store};

use super::{
    Registry,
    counted::{Outcome, SiteSums},
};
use crate::{counters::Counters, memcache, origin::OriginError, redis, server::GROUPS};

type Out = Vec<(String, u64)>;

impl Registry {
    /// Every counter's name and value, summed over the workers: requests by result, refusals by reason, failures of
    /// origins by reason, what the other faces count under their names, and the store.
    pub fn counters(&self) -> Out {
        let (mut out, parts) = (Vec::new(), &self.parts);
        if let Some((_, counters)) = &parts.http {
            self.count_http(&mut out);
            add("", Counters::NAMES, counters.iter().map(|counters| counters.values()), &mut out);
            for reason in RejectReason::ALL {
                let count = counters.iter().map(|counters| counters.reasons.get(*reason)).sum();
                out.push((format!("rejected_{reason}"), count));
            }
        }
        if let Some(fleet) = parts.http.as_ref().and_then(|(shared, _)| shared.remote.as_ref()) {
            let pages = fleet.stats().pages;
            out.extend(pages.into_iter().map(|(name, count)| (format!("remote_{name}"), count)));
        }
        if let Some(shared) = &parts.memcached {
            let values = shared.counters.iter().map(|counters| counters.values());
            add("memcached_", memcache::Counters::NAMES, values, &mut out);
            out.push(("memcached_curr_connections".to_owned(), shared.clients.open() as u64));
        }
        if let Some(shared) = &parts.redis {
            let values = shared.counters.iter().map(|counters| counters.values());
            add("redis_", redis::Counters::NAMES, values, &mut out);
            out.push(("redis_connected_clients".to_owned(), shared.clients.open() as u64));
        }
        out.push(("store_budget_bytes".to_owned(), parts.store.totals().budget));
        let there = [true, parts.memcached.is_some(), parts.redis.is_some()];
        for ((prefix, group), _) in GROUPS.into_iter().zip(there).filter(|(_, there)| *there) {
            add_store(prefix, parts.store, group, &mut out);
        }
        if let Some(logger) = &parts.logger {
            out.push(("log_lines_dropped".to_owned(), logger.dropped()));
        }
        out
    }

    fn count_http(&self, out: &mut Out) {
        let mut all = SiteSums::default();
        self.site_sums().iter().for_each(|(_, sums)| all.add_sums(sums));
        let misses = [Outcome::Miss, Outcome::Pass, Outcome::HitForMiss, Outcome::Error];
        let named = [
            ("requests", all.requests()),
            ("hits", all.of(Outcome::Hit)),
            ("stale_hits", all.of(Outcome::Stale)),
            ("refresh_hits", all.of(Outcome::Refresh)),
            ("misses", misses.into_iter().map(|outcome| all.of(outcome)).sum()),
            ("coalesced", all.of(Outcome::Coalesced)),
            ("purges", all.of(Outcome::Purge)),
            ("purges_denied", all.of(Outcome::Denied)),
            ("refused", all.of(Outcome::Refused)),
            ("tunnels", all.of(Outcome::Tunnel)),
            ("aborted", all.of(Outcome::Aborted)),
        ];
        out.extend(named.map(|(name, value)| (name.to_owned(), value)));
        let origins = self.origin_counters();
        for index in 0..OriginError::REASONS {
            let name = format!("origin_failed_{}", OriginError::reason_at(index).replace('-', "_"));
            out.push((name, origins.iter().map(|(_, counters)| counters.failed(index)).sum()));
        }
    }
}

/// Adds up what each worker counted, under `prefix` and the counters' names.
fn add(prefix: &str, names: &[&str], workers: impl Iterator<Item = Vec<u64>>, out: &mut Out) {
    let mut sums = vec![0u64; names.len()];
    for values in workers {
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum = sum.wrapping_add(value));
    }
    out.extend(names.iter().map(|name| format!("{prefix}{name}")).zip(sums));
}

/// Adds up what the store holds and did in a group of namespaces.
fn add_store(prefix: &str, store: &Store, group: (u8, u8), out: &mut Out) {
    let stats: Vec<_> = (group.0..=group.1).map(|ns| store.stats(Namespace(ns))).collect();
    let sum = |value: fn(&NamespaceStats) -> u64| stats.iter().map(value).sum();
    out.extend([
        (format!("{prefix}store_items"), sum(|ns| ns.items)),
        (format!("{prefix}store_bytes"), sum(|ns| ns.bytes)),
        (format!("{prefix}store_evictions"), sum(|ns| ns.evictions)),
        (format!("{prefix}store_expired"), sum(|ns| ns.expired)),
    ]);
}
