//! The settings whose change needs a restart.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
};

use crate::settings::{
    HttpsSettings, Listen, MemcachedSettings, QueueSettings, RedisSettings, Settings,
};

/// All changed settings that need a restart. `memory`: that of the start.
pub(super) fn fixed(memory: u64, old: &Settings, new: &Settings) -> Vec<&'static str> {
    let http3 = |settings: &Settings| settings.https.as_ref().is_some_and(|https| https.http3);
    let https_listen = |settings: &Settings| {
        settings.https.as_ref().map(|https| https.listen.clone()).unwrap_or_default()
    };
    let orders = |https: &Option<HttpsSettings>| https.as_ref().is_some_and(|h| h.acme.is_some());
    let mut changed = vec![
        ("memory (above that of the start)", new.memory > memory),
        ("user and group", new.identity != old.identity),
        ("control", new.control != old.control),
        ("upgrade_memory", new.upgrade.memory != old.upgrade.memory),
        ("threads", new.threads != old.threads),
        ("whether pages are served", new.serves_pages() != old.serves_pages()),
        ("https.http3", http3(new) != http3(old)),
        // Connections of HTTP/3 have no socket of their own that could outlive the listener.
        ("https.listen beside http3", http3(new) && https_listen(new) != https_listen(old)),
        ("the mode of a unix socket", modes_differ(old, new)),
        ("acme without https at the start", old.https.is_none() && orders(&new.https)),
        ("http.sndbuf", new.http.sndbuf != old.http.sndbuf),
        ("http.sendfile_cache", new.http.sendfile_cache != old.http.sendfile_cache),
        ("http.access_log, on or off", new.access_log.is_some() != old.access_log.is_some()),
        ("http.open_files", new.http.open_files != old.http.open_files),
        ("http.floor and http.ceiling", new.pages != old.pages),
        ("tracing", new.tracing != old.tracing),
        ("disk.path and disk.size", disk_place(new) != disk_place(old)),
        ("disk.patience and disk.write_limit", new.disk != old.disk),
        ("remote", new.remote != old.remote),
        ("publish", new.publish != old.publish),
        (
            "htcp.multicast and htcp.interface",
            groups(new).zip(groups(old)).is_some_and(|(new, old)| new != old),
        ),
    ];
    match (&old.memcached, &new.memcached) {
        (None, None) => {}
        (Some(old), Some(new)) => changed.extend(fixed_memcached(old, new)),
        _ => changed.push(("whether memcached is served", true)),
    }
    match (&old.redis, &new.redis) {
        (None, None) => {}
        (Some(old), Some(new)) => changed.extend(fixed_redis(old, new)),
        _ => changed.push(("whether redis is served", true)),
    }
    match (&old.queue, &new.queue) {
        (None, None) => {}
        (Some(old), Some(new)) => changed.extend([
            ("queue.path", new.path != old.path),
            ("queue.sync", new.sync != old.sync),
            ("queue.memory and queue.segment", kept(new) != kept(old)),
            ("queue.backlog", new.backlog != old.backlog),
        ]),
        _ => changed.push(("whether queues are served", true)),
    }
    match (&old.admin, &new.admin) {
        (None, None) => {}
        (Some(old), Some(new)) => changed.extend([
            ("admin.connections", new.connections != old.connections),
            ("admin.name", new.name != old.name),
        ]),
        _ => changed.push(("whether admin is served", true)),
    }
    changed.into_iter().filter(|(_, changed)| *changed).map(|(name, _)| name).collect()
}

/// The groups that a socket joins when it is opened.
fn groups(settings: &Settings) -> Option<(&[IpAddr], Option<Ipv4Addr>)> {
    settings.family.htcp.as_ref().map(|htcp| (&*htcp.multicast, htcp.interface))
}

/// How items of queues are kept.
fn kept(settings: &QueueSettings) -> (u64, u64) {
    (settings.memory, settings.segment)
}

fn disk_place(settings: &Settings) -> Option<(&std::path::Path, u64)> {
    settings.disk.as_ref().map(|disk| (disk.path.as_path(), disk.size))
}

/// Whether a socket that stays has another mode: a new one cannot be opened beside it.
fn modes_differ(old: &Settings, new: &Settings) -> bool {
    let modes = |settings: &Settings| -> Vec<(PathBuf, u32)> {
        let memcached = settings.memcached.iter().flat_map(|face| &face.listen);
        let redis = settings.redis.iter().flat_map(|face| &face.listen);
        let unix = |listen: &Listen| match listen {
            Listen::Unix { path, mode } => Some((path.clone(), *mode)),
            Listen::Tcp(_) => None,
        };
        let queue = settings.queue.iter().flat_map(|face| &face.listen);
        memcached.chain(redis).chain(queue).filter_map(unix).collect()
    };
    let after = modes(new);
    modes(old).iter().any(|(path, mode)| after.iter().any(|(at, new)| at == path && new != mode))
}

fn fixed_memcached(old: &MemcachedSettings, new: &MemcachedSettings) -> [(&'static str, bool); 5] {
    [
        ("memcached.disk", new.disk != old.disk),
        ("memcached.item_size", new.item_size != old.item_size),
        ("memcached.backlog", new.backlog != old.backlog),
        ("memcached.no_evictions", new.no_evictions != old.no_evictions),
        ("memcached.floor and memcached.ceiling", new.share != old.share),
    ]
}

fn fixed_redis(old: &RedisSettings, new: &RedisSettings) -> [(&'static str, bool); 7] {
    [
        ("redis.proxies", new.proxies != old.proxies),
        ("redis.databases", new.databases != old.databases),
        ("redis.item_size", new.item_size != old.item_size),
        ("redis.backlog", new.backlog != old.backlog),
        ("redis.share_memcached", new.share_memcached != old.share_memcached),
        ("redis.no_evictions", new.no_evictions != old.no_evictions),
        ("redis.floor and redis.ceiling", new.share != old.share),
    ]
}
