//! The configuration that CONFIG shows and changes. [`params`] is the table of names; this module
//! holds the values, [`kept`] those without effect.

mod kept;
pub(crate) mod memory;
pub(crate) mod params;

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
};

use crate::settings::RedisSettings;

/// Redis's `client-query-buffer-limit`: maximum length of a command in total.
const QUERY_BUFFER: u64 = 1 << 30;

/// Values that can change at run time. Every connection reads them, so each is an atomic.
pub(crate) struct Config {
    pub(crate) protected: AtomicBool,
    /// `shutdown`.
    pub(crate) shutdown: AtomicBool,
    /// `slowlog-log-slower-than` in microseconds; `u64::MAX`: the log is off.
    slowlog_micros: AtomicU64,
    pub(crate) slowlog_len: AtomicU64,
    /// `notify-keyspace-events`: bits of [`super::notify`].
    pub(crate) events: AtomicU32,
    /// `tracking-table-max-keys`; 0: limited by memory only.
    pub(crate) tracking_keys: AtomicU64,
    /// `proto-max-bulk-len`.
    pub(crate) bulk: AtomicU64,
    pub(crate) query_buffer: AtomicU64,
    pub(crate) connections: AtomicU64,
    /// `timeout` in seconds.
    pub(crate) timeout: AtomicU64,
    /// `receive_timeout` in milliseconds.
    pub(crate) receive: AtomicU64,
    /// `client-output-buffer-limit pubsub` in bytes.
    pub(crate) subscriber_buffer: AtomicU64,
    /// `hash-max-listpack-entries` and `-value`: limits below which OBJECT ENCODING reports a
    /// listpack.
    pub(crate) listpack_entries: AtomicU64,
    pub(crate) listpack_value: AtomicU64,
    /// The same of sorted sets: `zset-max-listpack-entries` and `-value`.
    pub(crate) scored_entries: AtomicU64,
    pub(crate) scored_value: AtomicU64,
    /// `set-max-intset-entries`: the same of sets of integers.
    pub(crate) intset_entries: AtomicU64,
    /// `stream-node-max-entries`: entries that an approximate trim takes as one node; 0: no limit.
    pub(crate) run_entries: AtomicU64,
    /// `busy-reply-threshold` in milliseconds: a script that takes longer is told of by BUSY.
    pub(crate) script_time: AtomicU64,
    pub(crate) latency_tracking: AtomicBool,
    /// `latency-monitor-threshold` in milliseconds; 0: nothing is noted.
    pub(crate) latency_threshold: AtomicU64,
    /// `maxmemory`.
    pub(crate) memory_limit: Arc<memory::MemoryLimit>,
    /// `min-replicas-to-write`.
    pub(crate) min_replicas: AtomicU64,
    /// `acllog-max-len`.
    pub(crate) acl_log_len: AtomicU64,
    pub(crate) kept: kept::Kept,
}

impl Config {
    pub(crate) fn new(settings: &RedisSettings) -> Config {
        Config {
            protected: AtomicBool::new(settings.protected),
            shutdown: AtomicBool::new(settings.shutdown),
            slowlog_micros: AtomicU64::new(settings.slowlog_micros.unwrap_or(u64::MAX)),
            slowlog_len: AtomicU64::new(128),
            events: AtomicU32::new(0),
            tracking_keys: AtomicU64::new(1_000_000),
            bulk: AtomicU64::new(settings.bulk),
            query_buffer: AtomicU64::new(QUERY_BUFFER.max(settings.bulk.saturating_add(1 << 20))),
            connections: AtomicU64::new(settings.connections as u64),
            timeout: AtomicU64::new(settings.idle_timeout.as_secs()),
            receive: AtomicU64::new(settings.receive_timeout.as_millis() as u64),
            subscriber_buffer: AtomicU64::new(settings.subscriber_buffer as u64),
            listpack_entries: AtomicU64::new(512),
            listpack_value: AtomicU64::new(64),
            scored_entries: AtomicU64::new(128),
            scored_value: AtomicU64::new(64),
            intset_entries: AtomicU64::new(512),
            run_entries: AtomicU64::new(100),
            script_time: AtomicU64::new(5000),
            latency_tracking: AtomicBool::new(true),
            latency_threshold: AtomicU64::new(0),
            memory_limit: Arc::default(),
            min_replicas: AtomicU64::new(0),
            acl_log_len: AtomicU64::new(128),
            kept: kept::Kept::default(),
        }
    }

    /// Applies the settings that a reload changed, over values of CONFIG SET.
    pub(crate) fn reload(&self, new: &RedisSettings) {
        self.protected.store(new.protected, Relaxed);
        self.shutdown.store(new.shutdown, Relaxed);
        self.bulk.store(new.bulk, Relaxed);
        self.connections.store(new.connections as u64, Relaxed);
        self.timeout.store(new.idle_timeout.as_secs(), Relaxed);
        self.receive.store(new.receive_timeout.as_millis() as u64, Relaxed);
        self.subscriber_buffer.store(new.subscriber_buffer as u64, Relaxed);
        self.slowlog_micros.store(new.slowlog_micros.unwrap_or(u64::MAX), Relaxed);
    }

    pub(crate) fn slowlog_micros(&self) -> u64 {
        self.slowlog_micros.load(Relaxed)
    }

    /// Most bytes of messages that wait for a client.
    pub(crate) fn mail_limit(&self) -> usize {
        self.subscriber_buffer.load(Relaxed) as usize
    }
}
