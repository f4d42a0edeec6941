//! The parameters of CONFIG: Redis's names, and their meaning here.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use larder_proto::resp::number::parse_bytes;

use crate::{
    redis::{attention, notify, refusals, shared::Shared},
    settings::{Listen, Secret},
};

use super::{
    Config,
    kept::{Check, INT, LONG},
    memory,
};

/// A parameter.
pub(crate) struct Param {
    pub(crate) name: &'static str,
    /// Second name in Redis.
    pub(crate) alias: Option<&'static str>,
    kind: Kind,
}

enum Kind {
    /// A constant.
    Fixed(&'static str),
    /// A constant that Redis protects.
    Protected(&'static str),
    /// Accepted and shown, without effect: the default, and the check of a value.
    Kept(&'static str, Check),
    /// Readable, cannot change at run time.
    ReadOnly(fn(&Shared) -> String),
    /// A number within bounds (both inclusive).
    Number(fn(&Config) -> &AtomicU64, u64, u64),
    /// A number of bytes within bounds (both inclusive); accepts units.
    Bytes(fn(&Config) -> &AtomicU64, u64, u64),
    YesNo(fn(&Config) -> &AtomicBool),
    /// Read by one function, set by another, which may refuse with a reason.
    Custom(fn(&Shared) -> String, fn(&Shared, &[u8]) -> Result<(), String>),
}

/// Reasons for refusing a value, in Redis's words.
const IMMUTABLE: &str = "can't set immutable config";
const PROTECTED: &str = "can't set protected config";

const fn param(name: &'static str, kind: Kind) -> Param {
    Param { name, alias: None, kind }
}

const fn fixed(name: &'static str, value: &'static str) -> Param {
    param(name, Kind::Fixed(value))
}

const fn kept(name: &'static str, value: &'static str, check: Check) -> Param {
    param(name, Kind::Kept(value, check))
}

const fn aliased(name: &'static str, alias: &'static str, kind: Kind) -> Param {
    Param { name, alias: Some(alias), kind }
}

pub(crate) static PARAMS: &[Param] = &[
    param("maxmemory", Kind::Custom(memory::shown, memory::set)),
    param("maxmemory-policy", Kind::Custom(memory::policy, memory::set_policy)),
    kept("maxmemory-samples", "5", Check::Number(1, INT)),
    param("maxclients", Kind::Number(|config| &config.connections, 1, u32::MAX as u64)),
    param("timeout", Kind::Number(|config| &config.timeout, 0, i32::MAX as u64)),
    param("tcp-backlog", Kind::ReadOnly(|shared| shared.settings.backlog.to_string())),
    kept("tcp-keepalive", "300", Check::Number(0, INT)),
    param("port", Kind::ReadOnly(|shared| port(shared).to_string())),
    param("bind", Kind::ReadOnly(bind)),
    param("unixsocket", Kind::ReadOnly(unix_socket)),
    fixed("tls-port", "0"),
    param("protected-mode", Kind::YesNo(|config| &config.protected)),
    param("requirepass", Kind::Custom(|_| String::new(), set_password)),
    param("databases", Kind::ReadOnly(|shared| shared.settings.databases.to_string())),
    param("proto-max-bulk-len", Kind::Bytes(|config| &config.bulk, 1 << 20, 4 << 30)),
    param(
        "client-query-buffer-limit",
        Kind::Bytes(|config| &config.query_buffer, 1 << 20, 4 << 30),
    ),
    param("client-output-buffer-limit", Kind::Custom(output_limit, set_output_limit)),
    param("slowlog-log-slower-than", Kind::Custom(slower_than, set_slower_than)),
    param("slowlog-max-len", Kind::Number(|config| &config.slowlog_len, 0, SLOWLOG_MOST)),
    param("notify-keyspace-events", Kind::Custom(events, set_events)),
    param(
        "tracking-table-max-keys",
        Kind::Number(|config| &config.tracking_keys, 0, u32::MAX as u64),
    ),
    param("latency-tracking", Kind::YesNo(|config| &config.latency_tracking)),
    kept("latency-tracking-info-percentiles", "50 99 99.9", Check::Percentiles),
    param(
        "latency-monitor-threshold",
        Kind::Number(|config| &config.latency_threshold, 0, LONG as u64),
    ),
    aliased(
        "hash-max-listpack-entries",
        "hash-max-ziplist-entries",
        Kind::Number(|config| &config.listpack_entries, 0, i64::MAX as u64),
    ),
    aliased(
        "hash-max-listpack-value",
        "hash-max-ziplist-value",
        Kind::Bytes(|config| &config.listpack_value, 0, i64::MAX as u64),
    ),
    aliased(
        "list-max-listpack-size",
        "list-max-ziplist-size",
        Kind::Kept("-2", Check::Number(i32::MIN as i64, INT)),
    ),
    kept("list-compress-depth", "0", Check::Number(0, INT)),
    param("set-max-intset-entries", Kind::Number(|config| &config.intset_entries, 0, LONG as u64)),
    aliased(
        "zset-max-listpack-entries",
        "zset-max-ziplist-entries",
        Kind::Number(|config| &config.scored_entries, 0, LONG as u64),
    ),
    aliased(
        "zset-max-listpack-value",
        "zset-max-ziplist-value",
        Kind::Bytes(|config| &config.scored_value, 0, LONG as u64),
    ),
    kept("stream-node-max-bytes", "4096", Check::Bytes(0)),
    param("stream-node-max-entries", Kind::Number(|config| &config.run_entries, 0, LONG as u64)),
    kept("hll-sparse-max-bytes", "3000", Check::Bytes(0)),
    kept("save", "", Check::Save),
    fixed("appendonly", "no"),
    kept("appendfsync", "everysec", Check::OneOf(&["everysec", "always", "no"])),
    fixed("appendfilename", "appendonly.aof"),
    param("dbfilename", Kind::Protected("dump.rdb")),
    param("dir", Kind::Protected("/")),
    kept("rdbcompression", "yes", Check::YesNo),
    fixed("rdbchecksum", "yes"),
    kept("stop-writes-on-bgsave-error", "yes", Check::YesNo),
    kept("no-appendfsync-on-rewrite", "no", Check::YesNo),
    kept("auto-aof-rewrite-percentage", "100", Check::Number(0, INT)),
    kept("auto-aof-rewrite-min-size", "67108864", Check::Bytes(0)),
    fixed("daemonize", "no"),
    fixed("supervised", "no"),
    fixed("pidfile", ""),
    fixed("logfile", ""),
    kept("loglevel", "notice", Check::OneOf(&["debug", "verbose", "notice", "warning", "nothing"])),
    fixed("syslog-enabled", "no"),
    kept("hz", "10", Check::Number(0, INT)),
    kept("dynamic-hz", "yes", Check::YesNo),
    param("io-threads", Kind::ReadOnly(|shared| shared.workers.to_string())),
    fixed("io-threads-do-reads", "yes"),
    kept("activerehashing", "yes", Check::YesNo),
    fixed("activedefrag", "no"),
    kept("active-expire-effort", "1", Check::Number(1, 10)),
    kept("lazyfree-lazy-eviction", "yes", Check::YesNo),
    kept("lazyfree-lazy-expire", "yes", Check::YesNo),
    kept("lazyfree-lazy-server-del", "yes", Check::YesNo),
    kept("lazyfree-lazy-user-del", "yes", Check::YesNo),
    kept("lazyfree-lazy-user-flush", "yes", Check::YesNo),
    kept("lfu-log-factor", "10", Check::Number(0, INT)),
    kept("lfu-decay-time", "1", Check::Number(0, INT)),
    aliased(
        "busy-reply-threshold",
        "lua-time-limit",
        Kind::Number(|config| &config.script_time, 0, LONG as u64),
    ),
    fixed("cluster-enabled", "no"),
    aliased("replicaof", "slaveof", Kind::Fixed("")),
    aliased("replica-read-only", "slave-read-only", Kind::Fixed("yes")),
    aliased("replica-serve-stale-data", "slave-serve-stale-data", Kind::Fixed("yes")),
    aliased("replica-priority", "slave-priority", Kind::Kept("100", Check::Number(0, INT))),
    aliased(
        "min-replicas-to-write",
        "min-slaves-to-write",
        Kind::Custom(
            |shared| shared.config.min_replicas.load(Relaxed).to_string(),
            set_min_replicas,
        ),
    ),
    kept("repl-timeout", "60", Check::Number(1, INT)),
    kept("repl-backlog-size", "1048576", Check::Bytes(1)),
    param("aclfile", Kind::ReadOnly(acl_file)),
    param("acllog-max-len", Kind::Number(|config| &config.acl_log_len, 0, ACL_LOG_MOST)),
    fixed("acl-pubsub-default", "resetchannels"),
    fixed("enable-debug-command", "no"),
    fixed("enable-module-command", "no"),
    fixed("enable-protected-configs", "no"),
    param("maxmemory-clients", Kind::Custom(|_| "0".to_owned(), memory::set_clients)),
    kept("active-defrag-cycle-min", "1", Check::Number(1, 99)),
    kept("active-defrag-cycle-max", "25", Check::Number(1, 99)),
    kept("active-defrag-threshold-lower", "10", Check::Number(0, 1000)),
    kept("active-defrag-threshold-upper", "100", Check::Number(0, 1000)),
    kept("active-defrag-max-scan-fields", "1000", Check::Number(1, LONG)),
    kept("active-defrag-ignore-bytes", "104857600", Check::Bytes(1)),
    kept("maxmemory-eviction-tenacity", "10", Check::Number(0, 100)),
    kept("jemalloc-bg-thread", "yes", Check::YesNo),
    kept("crash-log-enabled", "yes", Check::YesNo),
    kept("crash-memcheck-enabled", "yes", Check::YesNo),
    kept("rdb-save-incremental-fsync", "yes", Check::YesNo),
    kept("rdb-del-sync-files", "no", Check::YesNo),
    kept("aof-rewrite-incremental-fsync", "yes", Check::YesNo),
    kept("aof-load-truncated", "yes", Check::YesNo),
    kept("aof-use-rdb-preamble", "yes", Check::YesNo),
    kept("aof-timestamp-enabled", "no", Check::YesNo),
    kept("rdb-key-save-delay", "0", Check::Number(i32::MIN as i64, INT)),
    kept("key-load-delay", "0", Check::Number(i32::MIN as i64, INT)),
    kept("sanitize-dump-payload", "no", Check::OneOf(&["no", "yes", "clients"])),
    kept("ignore-warnings", "", Check::Text),
    kept("masteruser", "", Check::Text),
    kept("masterauth", "", Check::Text),
    kept("shutdown-timeout", "10", Check::Number(0, INT)),
    kept("shutdown-on-sigint", "default", Check::Words(SHUTDOWN)),
    kept("shutdown-on-sigterm", "default", Check::Words(SHUTDOWN)),
    kept("repl-disable-tcp-nodelay", "no", Check::YesNo),
    kept("repl-diskless-sync", "yes", Check::YesNo),
    kept("repl-diskless-sync-delay", "5", Check::Number(0, INT)),
    kept("repl-diskless-sync-max-replicas", "0", Check::Number(0, INT)),
    kept("repl-diskless-load", "disabled", Check::OneOf(&["disabled", "on-empty-db", "swapdb"])),
    kept("repl-backlog-ttl", "3600", Check::Number(0, LONG)),
    aliased(
        "repl-ping-replica-period",
        "repl-ping-slave-period",
        Kind::Kept("10", Check::Number(1, INT)),
    ),
    aliased("min-replicas-max-lag", "min-slaves-max-lag", Kind::Kept("10", Check::Number(0, INT))),
    aliased("replica-lazy-flush", "slave-lazy-flush", Kind::Kept("no", Check::YesNo)),
    aliased("replica-ignore-maxmemory", "slave-ignore-maxmemory", Kind::Kept("yes", Check::YesNo)),
];

/// Words of `shutdown-on-sigterm`.
const SHUTDOWN: &[&str] = &["default", "save", "nosave", "now", "force"];

/// Maximum of `slowlog-max-len`.
const SLOWLOG_MOST: u64 = 1 << 16;

/// Maximum of `acllog-max-len`: an entry may take some KB.
const ACL_LOG_MOST: u64 = 1 << 10;

impl Param {
    /// The value for CONFIG GET.
    pub(crate) fn value(&self, shared: &Shared) -> String {
        match self.kind {
            Kind::Fixed(value) | Kind::Protected(value) => value.to_owned(),
            Kind::Kept(value, _) => {
                shared.config.kept.get(self.name).unwrap_or_else(|| value.to_owned())
            }
            Kind::ReadOnly(read) | Kind::Custom(read, _) => read(shared),
            Kind::Number(field, ..) | Kind::Bytes(field, ..) => {
                field(&shared.config).load(Relaxed).to_string()
            }
            Kind::YesNo(field) => {
                if field(&shared.config).load(Relaxed) { "yes" } else { "no" }.to_owned()
            }
        }
    }

    /// Returns whether `name` is one of its names.
    pub(crate) fn is_named(&self, name: &[u8]) -> bool {
        let is = |own: &str| own.as_bytes().eq_ignore_ascii_case(name);
        is(self.name) || self.alias.is_some_and(is)
    }

    /// Returns whether only its own name shows it, not a pattern (Redis: `HIDDEN_CONFIG`).
    pub(crate) fn is_hidden(&self) -> bool {
        ["key-load-delay", "rdb-key-save-delay"].contains(&self.name)
    }

    /// Sets the value. `Err`: the reason for a refusal, in Redis's words.
    pub(crate) fn set(&self, shared: &Shared, value: &[u8]) -> Result<(), String> {
        match self.kind {
            Kind::Fixed(_) | Kind::ReadOnly(_) | Kind::Protected(_)
                if self.value(shared).as_bytes() == value =>
            {
                Ok(())
            }
            Kind::Fixed(_) | Kind::ReadOnly(_) => Err(IMMUTABLE.to_owned()),
            Kind::Protected(_) => Err(PROTECTED.to_owned()),
            Kind::Kept(_, check) => shared.config.kept.set(self.name, check, value),
            Kind::Number(field, least, most) => {
                let number = number(value).ok_or("argument couldn't be parsed into an integer")?;
                within(u64::try_from(number).ok(), least, most)
                    .map(|n| field(&shared.config).store(n, Relaxed))
            }
            Kind::Bytes(field, least, most) => {
                let number = parse_bytes(value).ok_or("argument must be a memory value")?;
                within(Some(number), least, most).map(|n| field(&shared.config).store(n, Relaxed))
            }
            Kind::YesNo(field) => {
                let yes = value.eq_ignore_ascii_case(b"yes");
                if !yes && !value.eq_ignore_ascii_case(b"no") {
                    return Err("argument must be 'yes' or 'no'".to_owned());
                }
                field(&shared.config).store(yes, Relaxed);
                Ok(())
            }
            Kind::Custom(_, set) => set(shared, value),
        }
    }
}

fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn within(number: Option<u64>, least: u64, most: u64) -> Result<u64, String> {
    number
        .filter(|n| (least..=most).contains(n))
        .ok_or_else(|| format!("argument must be between {least} and {most} inclusive"))
}

/// `min-replicas-to-write`: there are none, so that any number but 0 refuses writes.
fn set_min_replicas(shared: &Shared, value: &[u8]) -> Result<(), String> {
    let number = number(value).ok_or("argument couldn't be parsed into an integer")?;
    let number = within(u64::try_from(number).ok(), 0, INT as u64)?;
    shared.config.min_replicas.store(number, Relaxed);
    refusals::settle(shared);
    Ok(())
}

/// The first TCP port; 0: none.
pub(crate) fn port(shared: &Shared) -> u16 {
    let port = |listen: &Listen| match listen {
        Listen::Tcp(address) => Some(address.port()),
        Listen::Unix { .. } => None,
    };
    shared.settings.listen.iter().find_map(port).unwrap_or(0)
}

fn bind(shared: &Shared) -> String {
    let address = |listen: &Listen| match listen {
        Listen::Tcp(address) => Some(address.ip().to_string()),
        Listen::Unix { .. } => None,
    };
    shared.settings.listen.iter().filter_map(address).collect::<Vec<_>>().join(" ")
}

fn unix_socket(shared: &Shared) -> String {
    let path = |listen: &Listen| match listen {
        Listen::Unix { path, .. } => Some(path.display().to_string()),
        Listen::Tcp(_) => None,
    };
    shared.settings.listen.iter().find_map(path).unwrap_or_default()
}

fn acl_file(shared: &Shared) -> String {
    let file = shared.settings.acl.as_ref();
    file.map(|file| file.path.display().to_string()).unwrap_or_default()
}

fn set_password(shared: &Shared, value: &[u8]) -> Result<(), String> {
    shared.acl.set_password(shared, Secret::new(value).as_ref());
    Ok(())
}

fn slower_than(shared: &Shared) -> String {
    match shared.config.slowlog_micros() {
        u64::MAX => "-1".to_owned(),
        micros => micros.to_string(),
    }
}

fn set_slower_than(shared: &Shared, value: &[u8]) -> Result<(), String> {
    let micros = number(value).ok_or("argument couldn't be parsed into an integer")?;
    if micros < -1 {
        return Err(format!("argument must be between -1 and {} inclusive", i64::MAX));
    }
    shared.config.slowlog_micros.store(u64::try_from(micros).unwrap_or(u64::MAX), Relaxed);
    Ok(())
}

fn events(shared: &Shared) -> String {
    notify::letters(shared.config.events.load(Relaxed))
}

fn set_events(shared: &Shared, value: &[u8]) -> Result<(), String> {
    let bits =
        notify::bits(value).ok_or("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")?;
    shared.config.events.store(bits, Relaxed);
    attention::set(shared, attention::EVENTS, bits != 0);
    Ok(())
}

fn output_limit(shared: &Shared) -> String {
    format!("normal 0 0 0 slave 0 0 0 pubsub {} 0 0", shared.config.mail_limit())
}

/// Parses `pubsub HARD SOFT SECONDS`; other classes are accepted without effect.
fn set_output_limit(shared: &Shared, value: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(value);
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.is_empty() || !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".to_owned());
    }
    for class in words.chunks(4) {
        let hard = parse_bytes(class[1].as_bytes())
            .ok_or("Error in hard, soft or soft_seconds setting in buffer limit configuration.")?;
        match class[0] {
            "normal" | "slave" | "replica" => {}
            "pubsub" => {
                // 0 means "no limit" in Redis; here a limit always applies.
                let hard = if hard == 0 { MAIL_MOST } else { hard.clamp(1 << 16, MAIL_MOST) };
                shared.config.subscriber_buffer.store(hard, Relaxed);
            }
            _ => {
                return Err(
                    "Invalid client class specified in buffer limit configuration.".to_owned()
                );
            }
        }
    }
    Ok(())
}

/// Maximum of bytes that may wait for a subscriber.
const MAIL_MOST: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_listed_twice() {
        let mut names: Vec<_> =
            PARAMS.iter().flat_map(|p| [Some(p.name), p.alias]).flatten().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
