//! The counters of the remote tier, and its figures.

use larder_client::ServerView;
use larder_metrics::{Histogram, Remote, RemotePages, RemoteServer, counters};

counters! {
    /// The counters of one worker.
    pub(crate) struct Counters {
        /// Pages looked up.
        lookups,
        /// Pages found and used.
        hits,
        /// Pages not found, or not usable.
        misses,
        /// Lookups without an answer: the server is down, reported an error or did not answer.
        failed,
        /// Lookups that were slower than the origin.
        late,
        /// Damaged records.
        damaged,
        /// Records of another program or version, or of another page.
        foreign,
        /// Records that were too old, or soon would be.
        stale,
        /// Records that were purged here since they were received.
        purged,
        /// Records of a clock too far ahead of ours.
        skewed,
        /// Copies that were used longer, as the fleet did not answer.
        prolonged,
        /// Pages sent.
        stores,
        /// Pages not sent: too many were waiting.
        dropped,
        /// Pages that could not be sent, or not wholly.
        store_failed,
        /// Pages deleted.
        deletes,
        /// Pages that could not be deleted.
        delete_failed,
        /// Leases taken: the page was asked of the origin while other Larders waited.
        leases,
        /// Waits for another Larder's rendering.
        waits,
        /// Waits without result, or without an answer of the fleet: the origin was asked.
        waits_over,
        /// Waits that ended because all clients had left.
        waits_left,
    }
}

/// The counters of [`RemotePages`]; all others are events.
const PAGES: [&str; 8] =
    ["lookups", "hits", "misses", "failed", "late", "damaged", "stores", "dropped"];

/// Statistics of the remote tier, over all workers.
#[derive(Clone, Debug, Default)]
pub struct StatsView {
    /// The servers; of each the sum over all workers.
    pub servers: Vec<ServerView>,
    /// The counts by name.
    pub pages: Vec<(&'static str, u64)>,
}

impl StatsView {
    /// The figures of the tier.
    pub(crate) fn figures(&self) -> Remote {
        let pages = RemotePages {
            lookups: self.page("lookups"),
            hits: self.page("hits"),
            misses: self.page("misses"),
            failed: self.page("failed"),
            late: self.page("late"),
            damaged: self.page("damaged"),
            stores: self.page("stores"),
            dropped: self.page("dropped"),
        };
        let events = self.pages.iter().copied().filter(|(name, _)| !PAGES.contains(name)).collect();
        Remote { servers: self.servers.iter().map(figures_of).collect(), pages, events }
    }

    /// The count of a name (the names of the counters in [`Counters`]).
    pub fn page(&self, name: &str) -> u64 {
        self.pages.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| *count)
    }
}

fn figures_of(server: &ServerView) -> RemoteServer {
    let mut latency = Histogram::default();
    server.latency.iter().for_each(|(bound, count)| latency.add_class(*bound, *count));
    latency.sum = server.latency_sum_us;
    RemoteServer {
        name: server.name.clone(),
        state: server.state.name().to_owned(),
        lookups: server.lookups,
        hits: server.hits,
        misses: server.misses,
        timeouts: server.timeouts,
        errors: server.errors,
        ejections: server.ejections,
        writes: server.writes,
        writes_dropped: server.skipped + server.busy,
        latency,
    }
}

/// The servers over all workers: counts per client are added up, shared state is not.
pub(super) fn sum_servers(workers: impl Iterator<Item = Vec<ServerView>>) -> Vec<ServerView> {
    let mut sum: Vec<ServerView> = Vec::new();
    for worker in workers {
        for server in worker {
            // Of a cluster, each worker knows the servers that it has used, in any order.
            let Some(all) = sum.iter_mut().find(|known| known.name == server.name) else {
                sum.push(server);
                continue;
            };
            all.lookups += server.lookups;
            all.hits += server.hits;
            all.misses += server.misses;
            all.writes += server.writes;
            all.timeouts += server.timeouts;
            all.errors += server.errors;
            all.connects += server.connects;
            all.skipped += server.skipped;
            all.busy += server.busy;
            all.latency_sum_us += server.latency_sum_us;
            add_buckets(&mut all.latency, &server.latency);
        }
    }
    sum
}

/// Adds counts of the same bounds; both lists are in the order of the bounds.
fn add_buckets(all: &mut Vec<(u64, u64)>, more: &[(u64, u64)]) {
    for (bound, count) in more {
        match all.binary_search_by_key(bound, |(known, _)| *known) {
            Ok(at) => all[at].1 += count,
            Err(at) => all.insert(at, (*bound, *count)),
        }
    }
}
