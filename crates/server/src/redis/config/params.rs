//! The parameters of CONFIG: Redis's names, and their meaning here.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use larder_proto::resp::number::parse_bytes;

use crate::{
    redis::{attention, notify, shared::Shared},
    settings::{Listen, Secret},
};

use super::Config;

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

const fn param(name: &'static str, kind: Kind) -> Param {
    Param { name, alias: None, kind }
}

const fn fixed(name: &'static str, value: &'static str) -> Param {
    param(name, Kind::Fixed(value))
}

const fn aliased(name: &'static str, alias: &'static str, kind: Kind) -> Param {
    Param { name, alias: Some(alias), kind }
}

pub(crate) static PARAMS: &[Param] = &[
    param("maxmemory", Kind::ReadOnly(|shared| shared.store.totals().budget.to_string())),
    param("maxmemory-policy", Kind::ReadOnly(|shared| policy(shared).to_owned())),
    fixed("maxmemory-samples", "5"),
    param("maxclients", Kind::Number(|config| &config.connections, 1, u32::MAX as u64)),
    param("timeout", Kind::Number(|config| &config.timeout, 0, i32::MAX as u64)),
    param("tcp-backlog", Kind::ReadOnly(|shared| shared.settings.backlog.to_string())),
    fixed("tcp-keepalive", "300"),
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
    fixed("latency-tracking-info-percentiles", "50 99 99.9"),
    fixed("latency-monitor-threshold", "0"),
    aliased(
        "hash-max-listpack-entries",
        "hash-max-ziplist-entries",
        Kind::Number(|config| &config.listpack_entries, 0, i64::MAX as u64),
    ),
    aliased(
        "hash-max-listpack-value",
        "hash-max-ziplist-value",
        Kind::Number(|config| &config.listpack_value, 0, i64::MAX as u64),
    ),
    aliased("list-max-listpack-size", "list-max-ziplist-size", Kind::Fixed("-2")),
    fixed("set-max-intset-entries", "512"),
    aliased("zset-max-listpack-entries", "zset-max-ziplist-entries", Kind::Fixed("128")),
    aliased("zset-max-listpack-value", "zset-max-ziplist-value", Kind::Fixed("64")),
    fixed("stream-node-max-bytes", "4096"),
    fixed("stream-node-max-entries", "100"),
    fixed("hll-sparse-max-bytes", "3000"),
    fixed("save", ""),
    fixed("appendonly", "no"),
    fixed("appendfsync", "everysec"),
    fixed("appendfilename", "appendonly.aof"),
    fixed("dbfilename", "dump.rdb"),
    fixed("dir", "/"),
    fixed("rdbcompression", "yes"),
    fixed("rdbchecksum", "yes"),
    fixed("stop-writes-on-bgsave-error", "yes"),
    fixed("no-appendfsync-on-rewrite", "no"),
    fixed("auto-aof-rewrite-percentage", "100"),
    fixed("auto-aof-rewrite-min-size", "67108864"),
    fixed("daemonize", "no"),
    fixed("supervised", "no"),
    fixed("pidfile", ""),
    fixed("logfile", ""),
    fixed("loglevel", "notice"),
    fixed("syslog-enabled", "no"),
    fixed("hz", "10"),
    fixed("dynamic-hz", "yes"),
    param("io-threads", Kind::ReadOnly(|shared| shared.workers.to_string())),
    fixed("io-threads-do-reads", "yes"),
    fixed("activerehashing", "yes"),
    fixed("activedefrag", "no"),
    fixed("active-expire-effort", "1"),
    fixed("lazyfree-lazy-eviction", "yes"),
    fixed("lazyfree-lazy-expire", "yes"),
    fixed("lazyfree-lazy-server-del", "yes"),
    fixed("lazyfree-lazy-user-del", "yes"),
    fixed("lazyfree-lazy-user-flush", "yes"),
    fixed("lfu-log-factor", "10"),
    fixed("lfu-decay-time", "1"),
    aliased("lua-time-limit", "busy-reply-threshold", Kind::Fixed("5000")),
    fixed("cluster-enabled", "no"),
    aliased("replicaof", "slaveof", Kind::Fixed("")),
    aliased("replica-read-only", "slave-read-only", Kind::Fixed("yes")),
    aliased("replica-serve-stale-data", "slave-serve-stale-data", Kind::Fixed("yes")),
    aliased("replica-priority", "slave-priority", Kind::Fixed("100")),
    aliased("min-replicas-to-write", "min-slaves-to-write", Kind::Fixed("0")),
    fixed("repl-timeout", "60"),
    fixed("repl-backlog-size", "1048576"),
    param("aclfile", Kind::ReadOnly(acl_file)),
    param("acllog-max-len", Kind::Number(|config| &config.acl_log_len, 0, ACL_LOG_MOST)),
    fixed("acl-pubsub-default", "resetchannels"),
    fixed("enable-debug-command", "no"),
    fixed("enable-module-command", "no"),
    fixed("enable-protected-configs", "no"),
    fixed("maxmemory-clients", "0"),
];

/// Maximum of `slowlog-max-len`.
const SLOWLOG_MOST: u64 = 1 << 16;

/// Maximum of `acllog-max-len`: an entry may take some KB.
const ACL_LOG_MOST: u64 = 1 << 10;

impl Param {
    /// The value for CONFIG GET.
    pub(crate) fn value(&self, shared: &Shared) -> String {
        match self.kind {
            Kind::Fixed(value) => value.to_owned(),
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

    /// Sets the value. `Err`: the reason for a refusal, in Redis's words.
    pub(crate) fn set(&self, shared: &Shared, value: &[u8]) -> Result<(), String> {
        match self.kind {
            Kind::Fixed(_) | Kind::ReadOnly(_) if self.value(shared).as_bytes() == value => Ok(()),
            Kind::Fixed(_) | Kind::ReadOnly(_) => Err(IMMUTABLE.to_owned()),
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

/// The nearest name in Redis for the policy: it evicts by frequency and recency of reads.
pub(crate) fn policy(shared: &Shared) -> &'static str {
    if shared.settings.no_evictions { "noeviction" } else { "allkeys-lfu" }
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
