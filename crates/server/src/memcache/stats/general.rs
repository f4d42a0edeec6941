//! `stats`: the names of memcached 1.6.18 in its order (protocol.txt, "General-purpose
//! statistics"). Figures of absent machinery (read buffers, slab moves, LRU queues) are 0.

use std::{fmt::Arguments, sync::atomic::Ordering::Relaxed};

use larder_metrics::Disk;
use larder_store::NamespaceStats;
use nix::sys::resource::{UsageWho, getrusage};

use super::{
    super::{Counters, Face, OBJECTS, Shared},
    lines::Lines,
};
use crate::clock::Ms;

/// The memcached version whose protocol this face follows: clients derive supported features from
/// it.
const VERSION: &str = "1.6.18";

/// The sum of all workers' counters, in the order of [`Counters::NAMES`].
pub(super) fn counted(shared: &Shared) -> Vec<u64> {
    let mut sums = vec![0; Counters::NAMES.len()];
    for worker in &shared.counters {
        for (sum, value) in sums.iter_mut().zip(worker.values()) {
            *sum += value;
        }
    }
    sums
}

/// Counters of all workers since the last `stats reset`.
pub(super) struct Sums(Vec<u64>);

impl Sums {
    pub(super) fn now(shared: &Shared) -> Self {
        let mut sums = counted(shared);
        for (sum, before) in sums.iter_mut().zip(&shared.stats.before.lock().counters) {
            *sum = sum.wrapping_sub(*before);
        }
        Self(sums)
    }

    /// The sum of a counter; 0 for an unknown name.
    pub(super) fn get(&self, name: &str) -> u64 {
        let at = Counters::NAMES.iter().position(|known| *known == name);
        at.and_then(|at| self.0.get(at)).copied().unwrap_or(0)
    }

    fn all(&self, lines: &mut Lines<'_>, names: &[&str]) {
        for name in names {
            lines.stat(name, &self.get(name));
        }
    }
}

/// The store's figures for this face since the last `stats reset`; items and bytes are current.
pub(super) fn stored(shared: &Shared) -> NamespaceStats {
    let (now, before) = (shared.store.stats(OBJECTS), shared.stats.before.lock().store);
    NamespaceStats {
        hits: now.hits - before.hits,
        misses: now.misses - before.misses,
        stored: now.stored - before.stored,
        deleted: now.deleted - before.deleted,
        evictions: now.evictions - before.evictions,
        evicted_unfetched: now.evicted_unfetched - before.evicted_unfetched,
        evicted_recent: now.evicted_recent - before.evicted_recent,
        expired: now.expired - before.expired,
        expired_unfetched: now.expired_unfetched - before.expired_unfetched,
        flushed: now.flushed - before.flushed,
        reclaimed: now.reclaimed - before.reclaimed,
        ..now
    }
}

/// Bytes that this face may use: its ceiling, or the whole budget.
pub(super) fn limit(face: &Face) -> u64 {
    let budget = face.store.totals().budget;
    face.settings().share.ceiling.map_or(budget, |ceiling| ceiling.min(budget))
}

fn zeros(lines: &mut Lines<'_>, names: &[&str]) {
    for name in names {
        lines.stat(name, &0);
    }
}

/// `stats`.
pub(super) fn write(face: &Face, lines: &mut Lines<'_>, now: Ms) {
    let shared = &*face.shared;
    let sums = Sums::now(shared);
    process(shared, lines, now);
    connections(face, &sums, lines);
    sums.all(
        lines,
        &[
            "cmd_get",
            "cmd_set",
            "cmd_flush",
            "cmd_touch",
            "cmd_meta",
            "get_hits",
            "get_misses",
            "get_expired",
            "get_flushed",
            "delete_misses",
            "delete_hits",
            "incr_misses",
            "incr_hits",
            "decr_misses",
            "decr_hits",
            "cas_misses",
            "cas_hits",
            "cas_badval",
            "touch_hits",
            "touch_misses",
            "store_too_large",
            "store_no_memory",
            "auth_cmds",
            "auth_errors",
        ],
    );
    if !face.settings().idle_timeout.is_zero() {
        sums.all(lines, &["idle_kicks"]);
    }
    sums.all(lines, &["bytes_read", "bytes_written"]);
    lines.stat("limit_maxbytes", &limit(face));
    // With maxconns_fast all connections are accepted, even those that are then refused.
    let accepting =
        face.settings().connections_fast || shared.clients.open() < face.settings().connections;
    lines.stat("accepting_conns", &u64::from(accepting));
    sums.all(lines, &["listen_disabled_num", "time_in_listen_disabled_us"]);
    lines.stat("threads", &(shared.counters.len() as u64));
    sums.all(lines, &["conn_yields"]);
    machinery(face, lines);
    items(face, &sums, lines);
    if let Some(disk) = &shared.disk {
        storage(&disk.figures(), &sums, lines);
    }
}

/// Figures of values on the disk, as memcached has them with external storage.
fn storage(disk: &Disk, sums: &Sums, lines: &mut Lines<'_>) {
    sums.all(
        lines,
        &["get_extstore", "get_aborted_extstore", "recache_from_extstore", "miss_from_extstore"],
    );
    // Of the whole disk, pages included, but for the first two.
    let figures = [
        ("extstore_objects_read", disk.object_hits),
        ("extstore_objects_written", disk.object_stores),
        ("extstore_objects_evicted", disk.evicted),
        ("extstore_objects_used", disk.entries),
        ("extstore_bytes_written", disk.written),
        ("extstore_bytes_used", disk.used),
        ("extstore_limit_maxbytes", disk.size),
    ];
    figures.iter().for_each(|(name, figure)| lines.stat(name, figure));
}

fn process(shared: &Shared, lines: &mut Lines<'_>, now: Ms) {
    lines.stat("pid", &u64::from(std::process::id()));
    lines.stat("uptime", &(now.saturating_sub(shared.started) / 1000));
    lines.stat("time", &(now / 1000));
    lines.stat("version", VERSION);
    lines.stat("libevent", "none");
    lines.stat("pointer_size", &u64::from(usize::BITS));
    // getrusage(2) cannot fail for the process itself; if it did, the lines would be omitted.
    if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
        let times = [("rusage_user", usage.user_time()), ("rusage_system", usage.system_time())];
        for (name, time) in times {
            lines.stat(name, &format_args!("{}.{:06}", time.tv_sec(), time.tv_usec()));
        }
    }
}

fn connections(face: &Face, sums: &Sums, lines: &mut Lines<'_>) {
    let open = face.shared.clients.open() as u64;
    lines.stat("max_connections", &(face.settings().connections as u64));
    lines.stat("curr_connections", &open);
    sums.all(lines, &["total_connections", "rejected_connections"]);
    lines.stat("connection_structures", &open);
    zeros(
        lines,
        &[
            "response_obj_oom",
            "response_obj_count",
            "response_obj_bytes",
            "read_buf_count",
            "read_buf_bytes",
            "read_buf_bytes_free",
            "read_buf_oom",
            "reserved_fds",
        ],
    );
}

/// Figures of the index, slabs, the crawler, the log.
fn machinery(face: &Face, lines: &mut Lines<'_>) {
    let (totals, stats) = (face.store.totals(), &face.shared.stats);
    lines.stat("hash_power_level", &u64::from(totals.slots.checked_ilog2().unwrap_or(0)));
    lines.stat("hash_bytes", &(totals.index * totals.segment));
    lines.stat("hash_is_expanding", &0);
    zeros(
        lines,
        &[
            "slab_reassign_rescues",
            "slab_reassign_chunk_rescues",
            "slab_reassign_evictions_nomem",
            "slab_reassign_inline_reclaim",
            "slab_reassign_busy_items",
            "slab_reassign_busy_deletes",
            "slab_reassign_running",
            "slabs_moved",
            "lru_crawler_running",
        ],
    );
    let log = stats.watch_log.figures();
    let (walks, before) = {
        let before = stats.before.lock();
        (stats.walks.load(Relaxed) - before.walks, before.log)
    };
    lines.stat("lru_crawler_starts", &walks);
    zeros(lines, &["lru_maintainer_juggles", "malloc_fails", "log_worker_dropped"]);
    lines.stat("log_worker_written", &(log.written - before.written));
    lines.stat("log_watcher_skipped", &(log.skipped - before.skipped));
    lines.stat("log_watcher_sent", &(log.sent - before.sent));
    lines.stat("log_watchers", &log.watchers);
    zeros(lines, &["unexpected_napi_ids", "round_robin_fallback"]);
}

fn items(face: &Face, sums: &Sums, lines: &mut Lines<'_>) {
    let stored = stored(&face.shared);
    lines.stat("bytes", &stored.bytes);
    lines.stat("curr_items", &stored.items);
    lines.stat("total_items", &stored.stored);
    lines.stat("slab_global_page_pool", &face.store.totals().free);
    lines.stat("expired_unfetched", &stored.expired_unfetched);
    lines.stat("evicted_unfetched", &stored.evicted_unfetched);
    lines.stat("evicted_active", &0);
    lines.stat("evictions", &stored.evictions);
    lines.stat("reclaimed", &stored.expired);
    lines.stat("crawler_reclaimed", &0);
    lines.stat("crawler_items_checked", &sums.get("walked"));
    zeros(
        lines,
        &[
            "lrutail_reflocked",
            "moves_to_cold",
            "moves_to_warm",
            "moves_within_lru",
            "direct_reclaims",
            "lru_bumps_dropped",
        ],
    );
}

/// Writes a figure with two decimals.
pub(super) fn two_decimals(value: f64, lines: &mut Lines<'_>, name: &str) {
    let text: Arguments<'_> = format_args!("{value:.2}");
    lines.stat(name, &text);
}
