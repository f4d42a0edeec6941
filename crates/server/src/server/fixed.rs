//! The settings whose change needs a restart.

use std::net::SocketAddr;

use crate::settings::{FaceTls, Listen, MemcachedSettings, RedisSettings, Settings};

/// The first changed setting that needs a restart.
pub(super) fn fixed(old: &Settings, new: &Settings) -> Option<&'static str> {
    let changed = [
        ("memory", new.memory != old.memory),
        ("user and group", new.identity != old.identity),
        ("control", new.control != old.control),
        ("threads", new.threads != old.threads),
        ("http.listen", new.http.listen != old.http.listen),
        ("https.listen", https_listen(new) != https_listen(old)),
        ("https.http3", http3(new) != http3(old)),
        ("http.sndbuf", new.http.sndbuf != old.http.sndbuf),
        ("http.sendfile_cache", new.http.sendfile_cache != old.http.sendfile_cache),
        ("http.access_log, on or off", new.access_log.is_some() != old.access_log.is_some()),
        ("http.open_files", new.http.open_files != old.http.open_files),
        ("http.floor and http.ceiling", new.pages != old.pages),
        ("tracing", new.tracing != old.tracing),
        ("disk.path and disk.size", disk_place(new) != disk_place(old)),
        ("disk.patience and disk.write_limit", new.disk != old.disk),
        ("remote", new.remote != old.remote),
    ];
    let by_face = match (&old.memcached, &new.memcached) {
        (None, None) => None,
        (Some(old), Some(new)) => fixed_memcached(old, new),
        _ => Some("memcached.listen"),
    };
    let by_redis = match (&old.redis, &new.redis) {
        (None, None) => None,
        (Some(old), Some(new)) => fixed_redis(old, new),
        _ => Some("redis.listen"),
    };
    let by_admin = match (&old.admin, &new.admin) {
        (None, None) => None,
        (Some(old), Some(new)) => first(&[
            ("admin.listen", new.listen != old.listen),
            ("admin.tls.listen", tls_listen(&new.tls) != tls_listen(&old.tls)),
            ("admin.connections", new.connections != old.connections),
            ("admin.name", new.name != old.name),
        ]),
        _ => Some("admin.listen"),
    };
    first(&changed).or(by_face).or(by_redis).or(by_admin)
}

fn disk_place(settings: &Settings) -> Option<(&std::path::Path, u64)> {
    settings.disk.as_ref().map(|disk| (disk.path.as_path(), disk.size))
}

fn https_listen(settings: &Settings) -> Option<&[SocketAddr]> {
    settings.https.as_ref().map(|https| &https.listen[..])
}

fn tls_listen(tls: &Option<FaceTls>) -> Option<&[Listen]> {
    tls.as_ref().map(|tls| &tls.listen[..])
}

fn http3(settings: &Settings) -> bool {
    settings.https.as_ref().is_some_and(|https| https.http3)
}

fn fixed_memcached(old: &MemcachedSettings, new: &MemcachedSettings) -> Option<&'static str> {
    first(&[
        ("memcached.listen", new.listen != old.listen),
        ("memcached.tls.listen", tls_listen(&new.tls) != tls_listen(&old.tls)),
        ("memcached.udp", new.udp != old.udp),
        ("memcached.item_size", new.item_size != old.item_size),
        ("memcached.backlog", new.backlog != old.backlog),
        ("memcached.no_evictions", new.no_evictions != old.no_evictions),
        ("memcached.floor and memcached.ceiling", new.share != old.share),
    ])
}

fn fixed_redis(old: &RedisSettings, new: &RedisSettings) -> Option<&'static str> {
    first(&[
        ("redis.listen", new.listen != old.listen),
        ("redis.tls.listen", tls_listen(&new.tls) != tls_listen(&old.tls)),
        ("redis.proxies", new.proxies != old.proxies),
        ("redis.databases", new.databases != old.databases),
        ("redis.item_size", new.item_size != old.item_size),
        ("redis.backlog", new.backlog != old.backlog),
        ("redis.share_memcached", new.share_memcached != old.share_memcached),
        ("redis.no_evictions", new.no_evictions != old.no_evictions),
        ("redis.floor and redis.ceiling", new.share != old.share),
    ])
}

fn first(changed: &[(&'static str, bool)]) -> Option<&'static str> {
    changed.iter().find(|(_, changed)| *changed).map(|(name, _)| *name)
}
