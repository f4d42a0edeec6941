//! The figures of each face, of the store and of the process, gathered for a snapshot.

use std::{collections::BTreeMap, sync::Arc};

use larder_proto::{http::RejectReason, resp::table};
use larder_store::{Namespace as Number, NamespaceStats};

use super::{
    Connections, Hist, Http, Latencies, Memory, Merged, Namespace, Objects, Origin, Registry, Site, Timeouts,
    counted::SiteSums,
};
use crate::{
    counters::{Counter, Counters},
    memcache,
    origin::{OriginCounters, OriginError},
    redis,
    server::GROUPS,
    settings::{Settings, Share},
};

impl Registry {
    /// Every site's figures over all workers: those of the settings first, in their order, then those that were there
    /// once and have figures.
    pub(super) fn site_sums(&self) -> Vec<(Box<str>, SiteSums)> {
        let Some((_, workers)) = &self.parts.http else { return Vec::new() };
        let mut sums: Vec<(Box<str>, SiteSums)> = Vec::new();
        for site in &self.settings.read().sites {
            if !sums.iter().any(|(name, _)| **name == *site.name) {
                sums.push((site.name.as_str().into(), SiteSums::default()));
            }
        }
        for (name, counters) in workers.iter().flat_map(|worker| worker.sites.all()) {
            let at = sums.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
                sums.push((name, SiteSums::default()));
                sums.len() - 1
            });
            sums[at].1.add(&counters);
        }
        sums
    }

    /// Every worker's counters of every origin, with its name.
    pub(super) fn origin_counters(&self) -> Vec<(Box<str>, Arc<OriginCounters>)> {
        let workers = self.parts.http.iter().flat_map(|(_, workers)| workers);
        workers.flat_map(|worker| worker.origins.all()).collect()
    }

    pub(super) fn http(&self) -> Option<Http> {
        let (shared, workers) = self.parts.http.as_ref()?;
        let sum = |counter: fn(&Counters) -> &Counter| workers.iter().map(|one| counter(one).get()).sum();
        let (sites, mut all) = (self.site_sums(), SiteSums::default());
        sites.iter().for_each(|(_, sums)| all.add_sums(sums));
        let (mut why_missed, mut not_stored) = (BTreeMap::new(), BTreeMap::new());
        for worker in workers {
            worker.forwards.add_to(&mut why_missed);
            worker.not_stored.add_to(&mut not_stored);
        }
        let rejected = |reason: &RejectReason| workers.iter().map(|one| one.reasons.get(*reason)).sum();
        Some(Http {
            requests: all.requests(),
            results: all.results(),
            status: all.status(),
            bytes_in: sum(|counters| &counters.bytes_in),
            bytes_out: sum(|counters| &counters.bytes_out),
            connections: Connections {
                open: shared.open.load(std::sync::atomic::Ordering::Relaxed) as u64,
                accepted: sum(|counters| &counters.connections),
                refused: sum(|counters| &counters.refused_connections),
            },
            latency: Latencies { hit: Hist(all.hit), miss: Hist(all.miss) },
            why_missed,
            coalesced_waits: sum(|counters| &counters.coalesced_waits),
            stored: sum(|counters| &counters.stored),
            shelf: workers.iter().map(|one| one.shelf.load(std::sync::atomic::Ordering::Relaxed)).sum(),
            not_stored,
            rejected: RejectReason::ALL.iter().map(|reason| (reason.as_str(), rejected(reason))).collect(),
            timeouts: Timeouts {
                header: sum(|counters| &counters.header_timeouts),
                body: sum(|counters| &counters.body_timeouts),
                send: sum(|counters| &counters.send_timeouts),
            },
            truncated: sum(|counters| &counters.truncated),
            unframed: sum(|counters| &counters.unframed),
            sites: sites.into_iter().map(|(name, sums)| site(&name, sums)).collect(),
            origins: origins(&self.origin_counters()),
        })
    }

    pub(super) fn memory(&self) -> Memory {
        let (store, settings) = (self.parts.store, self.settings.read().clone());
        let totals = store.totals();
        let used = totals.budget.saturating_sub(totals.free * totals.segment);
        let there = [true, self.parts.memcached.is_some(), self.parts.redis.is_some()];
        let shares = shares(&settings);
        let mut payload = 0;
        let mut namespaces = Vec::new();
        for (((_, group), (name, share)), there) in GROUPS.into_iter().zip(shares).zip(there) {
            let stats: Vec<_> = (group.0..=group.1).map(|ns| store.stats(Number(ns))).collect();
            let sum = |value: fn(&NamespaceStats) -> u64| stats.iter().map(value).sum::<u64>();
            payload += sum(|ns| ns.bytes);
            if there {
                namespaces.push(Namespace {
                    name,
                    items: sum(|ns| ns.items),
                    bytes: sum(|ns| ns.bytes),
                    evictions: sum(|ns| ns.evictions),
                    expired: sum(|ns| ns.expired),
                    floor: share.floor,
                    ceiling: share.ceiling,
                });
            }
        }
        let entries = totals.small + totals.main + totals.chained + totals.staging + totals.limbo;
        // Of the budget, not of what is taken: a store nearly empty has a few open segments and wastes nothing.
        let idle = (entries * totals.segment).saturating_sub(payload);
        let fragmentation = idle as f64 / totals.budget.max(1) as f64;
        Memory { budget: totals.budget, used, resident: resident(), payload, fragmentation, namespaces }
    }

    pub(super) fn memcached(&self) -> Option<Objects> {
        let shared = self.parts.memcached.as_ref()?;
        let sum = |counter: fn(&memcache::Counters) -> &Counter| -> u64 {
            shared.counters.iter().map(|one| counter(one).get()).sum()
        };
        let both = |hits: fn(&memcache::Counters) -> &Counter,
                    misses: fn(&memcache::Counters) -> &Counter| {
            sum(hits) + sum(misses)
        };
        let (sets, gets) = (sum(|c| &c.cmd_set), sum(|c| &c.cmd_get));
        let deletes = both(|c| &c.delete_hits, |c| &c.delete_misses);
        let touches = sum(|c| &c.cmd_touch);
        let commands = [
            ("get", gets),
            ("set", sets),
            ("delete", deletes),
            ("touch", touches),
            ("incr", both(|c| &c.incr_hits, |c| &c.incr_misses)),
            ("decr", both(|c| &c.decr_hits, |c| &c.decr_misses)),
            ("cas", both(|c| &c.cas_hits, |c| &c.cas_misses) + sum(|c| &c.cas_badval)),
            ("flush_all", sum(|c| &c.cmd_flush)),
            ("me", sum(|c| &c.cmd_meta)),
            ("auth", sum(|c| &c.auth_cmds)),
        ];
        Some(Objects {
            connections: Connections {
                open: shared.clients.open() as u64,
                accepted: sum(|c| &c.total_connections),
                refused: sum(|c| &c.rejected_connections),
            },
            gets,
            get_hits: sum(|c| &c.get_hits),
            get_misses: sum(|c| &c.get_misses),
            sets,
            deletes,
            touches,
            evictions: self.parts.store.stats(memcache::OBJECTS).evictions,
            bytes_in: sum(|c| &c.bytes_read),
            bytes_out: sum(|c| &c.bytes_written),
            commands: commands
                .into_iter()
                .filter(|(_, count)| *count > 0)
                .map(|(name, count)| (name.to_owned(), count))
                .collect(),
            latency: Hist(shared.stats.latency()),
        })
    }

    pub(super) fn redis(&self) -> Option<Objects> {
        let shared = self.parts.redis.as_ref()?;
        let sum = |counter: fn(&redis::Counters) -> &Counter| -> u64 {
            shared.counters.iter().map(|one| counter(one).get()).sum()
        };
        let databases: Vec<_> =
            (0..shared.databases()).map(|db| shared.store.stats(shared.namespace(db))).collect();
        let of = |value: fn(&NamespaceStats) -> u64| databases.iter().map(value).sum::<u64>();
        let (commands, mut latency) = redis_commands(shared);
        latency.sum = commands.values().map(|(_, micros)| micros).sum();
        let calls = |names: &[&str]| {
            names.iter().filter_map(|name| commands.get(*name)).map(|(calls, _)| calls).sum()
        };
        let refused = sum(|c| &c.rejected_connections) + sum(|c| &c.denied_connections);
        Some(Objects {
            connections: Connections {
                open: shared.clients.open() as u64,
                accepted: sum(|c| &c.total_connections_received),
                refused,
            },
            gets: of(|ns| ns.hits) + of(|ns| ns.misses),
            get_hits: of(|ns| ns.hits),
            get_misses: of(|ns| ns.misses),
            sets: of(|ns| ns.stored),
            deletes: of(|ns| ns.deleted),
            touches: calls(&["touch", "expire", "pexpire", "expireat", "pexpireat", "persist", "getex"]),
            evictions: of(|ns| ns.evictions),
            bytes_in: sum(|c| &c.total_net_input_bytes),
            bytes_out: sum(|c| &c.total_net_output_bytes),
            latency: Hist(latency),
            commands: commands.into_iter().map(|(name, (calls, _))| (name.to_owned(), calls)).collect(),
        })
    }
}

/// Calls and microseconds by command, those never used left out, and how long commands took.
fn redis_commands(shared: &redis::Shared) -> (BTreeMap<&'static str, (u64, u64)>, Merged) {
    let mut commands = BTreeMap::new();
    for command in table::all().flat_map(|command| std::iter::once(command).chain(command.subcommands)) {
        let own = shared.counters.iter().map(|one| &one.commands[command.id as usize]);
        let (calls, micros) =
            own.fold((0, 0), |sum, one| (sum.0 + one.calls.get(), sum.1 + one.micros.get()));
        if calls > 0 {
            commands.insert(command.name, (calls, micros));
        }
    }
    let (mut classes, mut latency) = (BTreeMap::new(), Merged::default());
    shared.counters.iter().for_each(|one| one.add_latencies(&mut classes));
    for histogram in classes.values() {
        for (class, count) in histogram.iter().enumerate() {
            latency.add_class(1 << class, *count);
        }
    }
    (commands, latency)
}

fn site(name: &str, sums: SiteSums) -> Site {
    Site {
        name: name.to_owned(),
        requests: sums.requests(),
        results: sums.results(),
        status: sums.status(),
        bytes_out: sums.bytes_out,
        latency: Latencies { hit: Hist(sums.hit), miss: Hist(sums.miss) },
    }
}

fn origins(all: &[(Box<str>, Arc<OriginCounters>)]) -> Vec<Origin> {
    let mut by_name: BTreeMap<&str, Origin> = BTreeMap::new();
    for (name, counters) in all {
        let origin =
            by_name.entry(name).or_insert_with(|| Origin { name: name.clone().into(), ..Origin::default() });
        let value = |figure: &std::sync::atomic::AtomicU64| figure.load(std::sync::atomic::Ordering::Relaxed);
        origin.requests += value(&counters.requests);
        origin.connections_open += value(&counters.open);
        origin.connections_idle += value(&counters.idle);
        origin.unasked += value(&counters.unasked);
        origin.ttfb.0.add(&counters.ttfb);
        for index in 0..OriginError::REASONS {
            *origin.failures.entry(OriginError::reason_at(index)).or_default() += counters.failed(index);
        }
    }
    by_name.into_values().collect()
}

/// What is kept for each face, and what it may take.
fn shares(settings: &Settings) -> [(&'static str, Share); 3] {
    let memcached = settings.memcached.as_ref().map(|face| face.share).unwrap_or_default();
    let redis = settings.redis.as_ref().map(|face| face.share).unwrap_or_default();
    [("pages", settings.pages), ("memcached", memcached), ("redis", redis)]
}

/// What the system keeps in memory for this process (proc(5), `VmRSS`); 0 where it does not say.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
