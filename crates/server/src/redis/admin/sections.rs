//! The sections of INFO. Names and order are those of Redis 7.0, for the tools that read them.
//! Fields without a meaning here have the value of a Redis that does not use the feature.

use std::fmt::Write;

use crate::{
    object::Shared as _,
    redis::{
        config::{memory, params},
        conn::REDIS_VERSION,
        counters::BUCKETS,
        ctx::Ctx,
        known::flag,
        stats::Sample,
    },
};

use super::info;

/// Appends a line; writing to a string cannot fail.
macro_rules! line {
    ($out:expr, $($arg:tt)*) => {{
        let _ = write!($out, $($arg)*);
        $out.push_str("\r\n");
    }};
}

pub(crate) fn server(out: &mut String, ctx: &Ctx<'_>) {
    let shared = ctx.shared;
    let uptime = ctx.now.saturating_sub(shared.started) / 1000;
    let system = rustix::system::uname();
    out.push_str("# Server\r\n");
    line!(out, "redis_version:{REDIS_VERSION}");
    line!(out, "larder_version:{}", env!("CARGO_PKG_VERSION"));
    line!(out, "redis_git_sha1:00000000");
    line!(out, "redis_git_dirty:0");
    line!(out, "redis_build_id:0");
    line!(out, "redis_mode:standalone");
    line!(
        out,
        "os:{} {} {}",
        system.sysname().to_string_lossy(),
        system.release().to_string_lossy(),
        system.machine().to_string_lossy()
    );
    line!(out, "arch_bits:{}", usize::BITS);
    line!(out, "monotonic_clock:POSIX clock_gettime");
    line!(out, "multiplexing_api:epoll");
    line!(out, "atomicvar_api:rust-std");
    line!(out, "gcc_version:0.0.0");
    line!(out, "process_id:{}", std::process::id());
    line!(out, "process_supervised:no");
    line!(out, "run_id:{:016x}{:024x}", shared.run, u128::from(shared.started) << 8);
    line!(out, "tcp_port:{}", params::port(shared));
    line!(out, "server_time_usec:{}", shared.wall_micros());
    line!(out, "uptime_in_seconds:{uptime}");
    line!(out, "uptime_in_days:{}", uptime / 86400);
    line!(out, "hz:10");
    line!(out, "configured_hz:10");
    line!(out, "lru_clock:{}", (ctx.now / 1000) & 0xff_ffff);
    line!(out, "executable:larder");
    line!(out, "config_file:");
    line!(out, "io_threads_active:{}", u8::from(shared.workers > 1));
}

pub(crate) fn clients(out: &mut String, ctx: &Ctx<'_>) {
    let (connected, tracking) = ctx.shared.registry.count(|known| known.has(flag::TRACKING));
    out.push_str("# Clients\r\n");
    line!(out, "connected_clients:{connected}");
    line!(out, "cluster_connections:0");
    line!(out, "maxclients:{}", ctx.shared.limits().connections);
    line!(out, "client_recent_max_input_buffer:0");
    line!(out, "client_recent_max_output_buffer:0");
    line!(out, "blocked_clients:{}", ctx.shared.waiting.count() + ctx.shared.pause.count());
    line!(out, "tracking_clients:{tracking}");
    line!(out, "clients_in_timeout_table:0");
}

/// Formats a number of bytes for humans (Redis: `bytesToHuman`).
fn human(bytes: u64) -> String {
    let value = bytes as f64;
    match bytes {
        0..1024 => format!("{bytes}B"),
        1024..1_048_576 => format!("{:.2}K", value / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.2}M", value / 1_048_576.0),
        1_073_741_824..1_099_511_627_776 => format!("{:.2}G", value / 1_073_741_824.0),
        _ => format!("{:.2}T", value / 1_099_511_627_776.0),
    }
}

pub(crate) fn memory(out: &mut String, ctx: &Ctx<'_>) {
    let budget = memory::limit(ctx.shared);
    let (used, overhead) = info::memory(ctx.shared);
    let resident = resident();
    let system = total_memory();
    let share = if used == 0 { 0.0 } else { (used - overhead) as f64 * 100.0 / used as f64 };
    out.push_str("# Memory\r\n");
    for (name, value) in
        [("used_memory", used), ("used_memory_rss", resident), ("used_memory_peak", used)]
    {
        line!(out, "{name}:{value}");
        line!(out, "{name}_human:{}", human(value));
    }
    line!(out, "used_memory_peak_perc:100.00%");
    line!(out, "used_memory_overhead:{overhead}");
    line!(out, "used_memory_startup:{overhead}");
    line!(out, "used_memory_dataset:{}", used - overhead);
    line!(out, "used_memory_dataset_perc:{share:.2}%");
    line!(out, "allocator_allocated:{used}");
    line!(out, "allocator_active:{used}");
    line!(out, "allocator_resident:{resident}");
    line!(out, "total_system_memory:{system}");
    line!(out, "total_system_memory_human:{}", human(system));
    for name in ["used_memory_lua", "used_memory_vm_eval"] {
        line!(out, "{name}:0");
    }
    line!(out, "used_memory_lua_human:0B");
    let (scripts, bytes) = ctx.shared.scripts.size();
    line!(out, "used_memory_scripts_eval:{bytes}");
    line!(out, "number_of_cached_scripts:{scripts}");
    let (libraries, functions, of_functions) = ctx.shared.libraries.size();
    line!(out, "number_of_functions:{functions}");
    line!(out, "number_of_libraries:{libraries}");
    for name in ["used_memory_vm_functions", "used_memory_vm_total"] {
        line!(out, "{name}:0");
    }
    line!(out, "used_memory_vm_total_human:0B");
    line!(out, "used_memory_functions:{of_functions}");
    let bytes = bytes + of_functions;
    line!(out, "used_memory_scripts:{bytes}");
    line!(out, "used_memory_scripts_human:{}", human(bytes as u64));
    line!(out, "maxmemory:{budget}");
    line!(out, "maxmemory_human:{}", human(budget));
    line!(out, "maxmemory_policy:{}", memory::policy(ctx.shared));
    line!(out, "allocator_frag_ratio:1.00");
    line!(out, "allocator_frag_bytes:0");
    line!(out, "allocator_rss_ratio:1.00");
    line!(out, "allocator_rss_bytes:0");
    line!(out, "rss_overhead_ratio:1.00");
    line!(out, "rss_overhead_bytes:0");
    line!(out, "mem_fragmentation_ratio:1.00");
    line!(out, "mem_fragmentation_bytes:0");
    for name in [
        "mem_not_counted_for_evict",
        "mem_replication_backlog",
        "mem_total_replication_buffers",
        "mem_clients_slaves",
        "mem_clients_normal",
        "mem_cluster_links",
        "mem_aof_buffer",
    ] {
        line!(out, "{name}:0");
    }
    line!(out, "mem_allocator:larder");
    for name in ["active_defrag_running", "lazyfree_pending_objects", "lazyfreed_objects"] {
        line!(out, "{name}:0");
    }
}

/// Resident bytes of the process. This is the peak, which needs no file access; the budget is taken
/// at the start, so the peak is close to the current value.
fn resident() -> u64 {
    crate::redis::stats::usage().2
}

fn total_memory() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram as u64 * u64::from(info.mem_unit)
}

pub(crate) fn persistence(out: &mut String, ctx: &Ctx<'_>) {
    out.push_str("# Persistence\r\n");
    let zero =
        |out: &mut String, names: &[&str]| names.iter().for_each(|name| line!(out, "{name}:0"));
    zero(
        out,
        &[
            "loading",
            "async_loading",
            "current_cow_peak",
            "current_cow_size",
            "current_cow_size_age",
        ],
    );
    line!(out, "current_fork_perc:0.00");
    zero(out, &["current_save_keys_processed", "current_save_keys_total"]);
    line!(out, "rdb_changes_since_last_save:{}", info::changes(ctx.shared));
    line!(out, "rdb_bgsave_in_progress:0");
    line!(out, "rdb_last_save_time:{}", ctx.shared.started / 1000);
    line!(out, "rdb_last_bgsave_status:ok");
    line!(out, "rdb_last_bgsave_time_sec:-1");
    line!(out, "rdb_current_bgsave_time_sec:-1");
    zero(
        out,
        &[
            "rdb_saves",
            "rdb_last_cow_size",
            "rdb_last_load_keys_expired",
            "rdb_last_load_keys_loaded",
        ],
    );
    zero(out, &["aof_enabled", "aof_rewrite_in_progress", "aof_rewrite_scheduled"]);
    line!(out, "aof_last_rewrite_time_sec:-1");
    line!(out, "aof_current_rewrite_time_sec:-1");
    line!(out, "aof_last_bgrewrite_status:ok");
    zero(out, &["aof_rewrites", "aof_rewrites_consecutive_failures"]);
    line!(out, "aof_last_write_status:ok");
    zero(out, &["aof_last_cow_size", "module_fork_in_progress", "module_fork_last_cow_size"]);
}

pub(crate) fn stats(out: &mut String, ctx: &Ctx<'_>) {
    let shared = ctx.shared;
    let count = |name: &str| info::count(shared, name);
    let processed = info::processed(shared);
    let rates = shared.baseline.rates(Sample {
        at: ctx.now,
        commands: processed,
        bytes_in: count("total_net_input_bytes"),
        bytes_out: count("total_net_output_bytes"),
    });
    let (channels, patterns, shards) = shared.hub.counts();
    let (keys, items, prefixes, _) = shared.tracking.counts();
    let zero =
        |out: &mut String, names: &[&str]| names.iter().for_each(|name| line!(out, "{name}:0"));
    out.push_str("# Stats\r\n");
    line!(out, "total_connections_received:{}", count("total_connections_received"));
    line!(
        out,
        "total_commands_processed:{}",
        shared.baseline.since("total_commands_processed", processed)
    );
    line!(out, "instantaneous_ops_per_sec:{}", rates.commands);
    line!(out, "total_net_input_bytes:{}", count("total_net_input_bytes"));
    line!(out, "total_net_output_bytes:{}", count("total_net_output_bytes"));
    zero(out, &["total_net_repl_input_bytes", "total_net_repl_output_bytes"]);
    line!(out, "instantaneous_input_kbps:{:.2}", rates.kbytes_in);
    line!(out, "instantaneous_output_kbps:{:.2}", rates.kbytes_out);
    line!(out, "instantaneous_input_repl_kbps:0.00");
    line!(out, "instantaneous_output_repl_kbps:0.00");
    line!(out, "rejected_connections:{}", count("rejected_connections"));
    zero(out, &["sync_full", "sync_partial_ok", "sync_partial_err"]);
    let lookups =
        info::lookups(shared).map(|(name, value)| (name, shared.baseline.since(name, value)));
    for (name, value) in &lookups[2..] {
        line!(out, "{name}:{value}");
    }
    line!(out, "expired_stale_perc:0.00");
    zero(out, &["expired_time_cap_reached_count", "expire_cycle_cpu_milliseconds"]);
    line!(out, "evicted_clients:{}", shared.clients.room().closed());
    zero(out, &["total_eviction_exceeded_time", "current_eviction_exceeded_time"]);
    for (name, value) in &lookups[..2] {
        line!(out, "{name}:{value}");
    }
    line!(out, "pubsub_channels:{channels}");
    line!(out, "pubsub_patterns:{patterns}");
    line!(out, "pubsubshard_channels:{shards}");
    zero(
        out,
        &[
            "latest_fork_usec",
            "total_forks",
            "migrate_cached_sockets",
            "slave_expires_tracked_keys",
        ],
    );
    zero(
        out,
        &[
            "active_defrag_hits",
            "active_defrag_misses",
            "active_defrag_key_hits",
            "active_defrag_key_misses",
        ],
    );
    zero(out, &["total_active_defrag_time", "current_active_defrag_time"]);
    line!(out, "tracking_total_keys:{keys}");
    line!(out, "tracking_total_items:{items}");
    line!(out, "tracking_total_prefixes:{prefixes}");
    line!(out, "unexpected_error_replies:0");
    line!(out, "total_error_replies:{}", count("total_error_replies"));
    line!(out, "dump_payload_sanitizations:0");
    line!(out, "total_reads_processed:{}", count("total_reads_processed"));
    line!(out, "total_writes_processed:{}", count("total_writes_processed"));
    zero(out, &["io_threaded_reads_processed", "io_threaded_writes_processed"]);
    zero(out, &["reply_buffer_shrinks", "reply_buffer_expands"]);
    line!(out, "acl_access_denied_auth:{}", count("acl_access_denied_auth"));
    line!(out, "denied_connections:{}", count("denied_connections"));
    line!(out, "stalled_connections:{}", count("stalled_connections"));
    line!(out, "protocol_errors:{}", count("protocol_errors"));
}

pub(crate) fn replication(out: &mut String, ctx: &Ctx<'_>) {
    out.push_str("# Replication\r\n");
    line!(out, "role:master");
    line!(out, "connected_slaves:0");
    line!(out, "master_failover_state:no-failover");
    line!(out, "master_replid:{:016x}{:024x}", ctx.shared.run, 0);
    line!(out, "master_replid2:{:040x}", 0);
    line!(out, "master_repl_offset:0");
    line!(out, "second_repl_offset:-1");
    line!(out, "repl_backlog_active:0");
    line!(out, "repl_backlog_size:1048576");
    line!(out, "repl_backlog_first_byte_offset:0");
    line!(out, "repl_backlog_histlen:0");
}

pub(crate) fn cpu(out: &mut String, _ctx: &Ctx<'_>) {
    let (user, system, _) = crate::redis::stats::usage();
    let seconds = |micros: u64| format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    out.push_str("# CPU\r\n");
    line!(out, "used_cpu_sys:{}", seconds(system));
    line!(out, "used_cpu_user:{}", seconds(user));
    line!(out, "used_cpu_sys_children:0.000000");
    line!(out, "used_cpu_user_children:0.000000");
    line!(out, "used_cpu_sys_main_thread:{}", seconds(system));
    line!(out, "used_cpu_user_main_thread:{}", seconds(user));
}

pub(crate) fn modules(out: &mut String, _ctx: &Ctx<'_>) {
    out.push_str("# Modules\r\n");
}

pub(crate) fn commands(out: &mut String, ctx: &Ctx<'_>) {
    out.push_str("# Commandstats\r\n");
    for command in info::commands() {
        let [calls, micros, rejected, failed] = info::per_command(ctx.shared, command);
        if calls + rejected > 0 {
            let each = if calls == 0 { 0.0 } else { micros as f64 / calls as f64 };
            line!(
                out,
                "cmdstat_{}:calls={calls},usec={micros},usec_per_call={each:.2},\
                 rejected_calls={rejected},failed_calls={failed}",
                command.name
            );
        }
    }
}

pub(crate) fn errors(out: &mut String, ctx: &Ctx<'_>) {
    out.push_str("# Errorstats\r\n");
    for (code, count) in info::errors(ctx.shared) {
        let count = ctx.shared.baseline.since(&format!("error {code}"), count);
        if count > 0 {
            line!(out, "errorstat_{code}:count={count}");
        }
    }
}

pub(crate) fn latencies(out: &mut String, ctx: &Ctx<'_>) {
    out.push_str("# Latencystats\r\n");
    for (name, classes) in super::latency::times(ctx.shared) {
        let at = |share: f64| percentile(&classes, share);
        line!(
            out,
            "latency_percentiles_usec_{name}:p50={}.000,p99={}.000,p99.9={}.000",
            at(0.5),
            at(0.99),
            at(0.999)
        );
    }
}

/// Upper bound, in microseconds, of the bucket that contains the given share of the calls.
fn percentile(classes: &[u64; BUCKETS], share: f64) -> u64 {
    let wanted = (classes.iter().sum::<u64>() as f64 * share).ceil() as u64;
    let mut sum = 0;
    for (class, count) in classes.iter().enumerate() {
        sum += count;
        if sum >= wanted.max(1) {
            return 1 << class;
        }
    }
    0
}

pub(crate) fn cluster(out: &mut String, _ctx: &Ctx<'_>) {
    out.push_str("# Cluster\r\n");
    line!(out, "cluster_enabled:0");
}

pub(crate) fn keyspace(out: &mut String, ctx: &Ctx<'_>) {
    out.push_str("# Keyspace\r\n");
    for db in 0..ctx.shared.databases() {
        let keys = ctx.store.live(ctx.shared.namespace(db));
        if keys > 0 {
            line!(out, "db{db}:keys={keys},expires=0,avg_ttl=0");
        }
    }
}
