//! `stats settings`: the names of memcached 1.6.18 in its order (protocol.txt, "Settings
//! statistics"). Settings without machinery in Larder have memcached's defaults or the values that
//! a client set.

use super::{super::Face, general, lines::Lines};
use crate::settings::{Listen, MemcachedSettings, WireProtocol};

/// Settings of absent machinery: extstore, TLS, NAPI ids, warm restart.
const ABSENT: &[(&str, &str)] = &[
    ("ext_item_size", "512"),
    ("ext_item_age", "4294967295"),
    ("ext_low_ttl", "0"),
    ("ext_recache_rate", "2000"),
    ("ext_wbuf_size", "4194304"),
    ("ext_compact_under", "0"),
    ("ext_drop_under", "0"),
    ("ext_max_sleep", "1000000"),
    ("ext_max_frag", "0.80"),
    ("slab_automove_freeratio", "0.010"),
    ("ext_drop_unread", "no"),
    ("ssl_enabled", "no"),
    ("ssl_chain_cert", "(null)"),
    ("ssl_key", "(null)"),
    ("ssl_verify_mode", "0"),
    ("ssl_keyformat", "1"),
    ("ssl_ciphers", "NULL"),
    ("ssl_ca_cert", "NULL"),
    ("ssl_wbuf_size", "16384"),
    ("ssl_session_cache", "no"),
    ("ssl_kernel_tls", "no"),
    ("ssl_min_version", "tlsv1.2"),
    ("num_napi_ids", "(null)"),
    ("memory_file", "(null)"),
];

/// `stats settings`.
pub(super) fn write(face: &Face, lines: &mut Lines<'_>) {
    let settings = face.settings();
    let tunables = *face.shared.stats.tunables.lock();
    lines.stat("maxbytes", &general::limit(face));
    lines.stat("maxconns", &(settings.connections as u64));
    addresses(&settings, lines);
    lines.stat("verbosity", &tunables.verbosity);
    lines.stat("oldest", &0);
    lines.stat("evictions", if settings.no_evictions { "off" } else { "on" });
    socket(&settings, lines);
    lines.stat("shutdown_command", &settings.shutdown);
    lines.stat("growth_factor", "1.25");
    lines.stat("chunk_size", &48);
    let threads = face.shared.counters.len() as u64;
    lines.stat("num_threads", &threads);
    lines.stat("num_threads_per_udp", &threads);
    lines.stat("stat_key_prefix", &[settings.prefix_delimiter][..]);
    lines.stat("detail_enabled", &face.shared.stats.watch_log.any(super::DETAIL));
    lines.stat("reqs_per_event", &(settings.requests_per_event as u64));
    lines.stat("cas_enabled", &settings.cas);
    lines.stat("tcp_backlog", &u64::from(settings.backlog.unsigned_abs()));
    let protocol = match settings.protocol {
        WireProtocol::Auto => "auto-negotiate",
        WireProtocol::Ascii => "ascii",
        WireProtocol::Binary => "binary",
    };
    lines.stat("binding_protocol", protocol);
    lines.stat("auth_enabled_sasl", &settings.sasl.is_some());
    lines.stat("auth_enabled_ascii", &settings.auth.is_some());
    lines.stat("item_size_max", &settings.item_size);
    lines.stat("maxconns_fast", &settings.connections_fast);
    lines.stat("hashpower_init", &0);
    tuned(&settings, &tunables, lines);
    lines.stat("idle_timeout", &settings.idle_timeout.as_secs());
    lines.stat("watcher_logbuf_size", &(settings.watcher_buffer as u64));
    lines.stat("worker_logbuf_size", &65536);
    lines.stat("read_buf_mem_limit", &0);
    lines.stat("track_sizes", &tunables.sizes);
    lines.stat("inline_ascii_response", &false);
    ABSENT.iter().for_each(|(name, value)| lines.stat(name, *value));
}

/// Settings that clients can tune, and related ones.
fn tuned(settings: &MemcachedSettings, tunables: &super::Tunables, lines: &mut Lines<'_>) {
    lines.stat("slab_reassign", &true);
    lines.stat("slab_automove", &tunables.automove);
    general::two_decimals(tunables.automove_ratio, lines, "slab_automove_ratio");
    lines.stat("slab_automove_window", &30);
    lines.stat("slab_chunk_max", &524_288);
    lines.stat("lru_crawler", &tunables.crawler);
    lines.stat("lru_crawler_sleep", &tunables.crawler_sleep);
    lines.stat("lru_crawler_tocrawl", &tunables.crawler_tocrawl);
    lines.stat("tail_repair_time", &0);
    lines.stat("flush_enabled", &settings.flush_all);
    lines.stat("dump_enabled", &settings.dump);
    lines.stat("hash_algorithm", "rapidhash");
    lines.stat("lru_maintainer_thread", &true);
    lines.stat("lru_segmented", &tunables.segmented);
    lines.stat("hot_lru_pct", &tunables.percent.0);
    lines.stat("warm_lru_pct", &tunables.percent.1);
    general::two_decimals(tunables.factors.0, lines, "hot_max_factor");
    general::two_decimals(tunables.factors.1, lines, "warm_max_factor");
    lines.stat("temp_lru", &tunables.temp_ttl.is_some());
    lines.stat("temporary_ttl", &tunables.temp_ttl.unwrap_or(61));
}

/// The ports of the first address of each kind, then all addresses.
fn addresses(settings: &MemcachedSettings, lines: &mut Lines<'_>) {
    let tcp = settings.listen.iter().find_map(|listen| match listen {
        Listen::Tcp(addr) => Some(addr),
        Listen::Unix { .. } => None,
    });
    lines.stat("tcpport", &tcp.map_or(0, |addr| u64::from(addr.port())));
    lines.stat("udpport", &settings.udp.first().map_or(0, |addr| u64::from(addr.port())));
    let mut hosts: Vec<String> = Vec::new();
    for listen in &settings.listen {
        if let Listen::Tcp(addr) = listen
            && !addr.ip().is_unspecified()
            && !hosts.contains(&addr.ip().to_string())
        {
            hosts.push(addr.ip().to_string());
        }
    }
    if hosts.is_empty() {
        lines.stat("inter", "NULL")
    } else {
        lines.stat("inter", &*hosts.join(","))
    }
}

fn socket(settings: &MemcachedSettings, lines: &mut Lines<'_>) {
    let socket = settings.listen.iter().find_map(|listen| match listen {
        Listen::Unix { path, mode } => Some((path, *mode)),
        Listen::Tcp(_) => None,
    });
    match socket {
        Some((path, _)) => lines.stat("domain_socket", &format_args!("{}", path.display())),
        None => lines.stat("domain_socket", "NULL"),
    }
    lines.stat("umask", &format_args!("{:o}", socket.map_or(0o700, |(_, mode)| mode)));
}
