//! What a worker of the memcached face counts: one set per worker, written by its worker alone,
//! merged on reading.
//!
//! The names are memcached's (protocol.txt, "General-purpose statistics"); whoever applies a
//! command counts it.

larder_metrics::counters! {
    /// What one worker of the memcached face counted since it started.
    pub(crate) struct Counters {
        /// Connections accepted, those refused included.
        total_connections,
        /// Connections refused because the limit was reached.
        rejected_connections,
        /// Times a connection beyond the limit had to wait, and with it all behind it.
        listen_disabled_num,
        /// Microseconds connections beyond the limit waited, from the first that did to the last.
        time_in_listen_disabled_us,
        /// Keys asked for: one for every key of a `get`. Not those of `gat`, nor those `mg` found
        /// and touched.
        cmd_get,
        /// Values sent to be stored, whatever became of them.
        cmd_set,
        /// `flush_all`.
        cmd_flush,
        /// Keys touched: `touch`, `gat`, `gats`, `mg` with a new TTL.
        cmd_touch,
        /// `me`: memcached 1.6.18 counts no other meta command.
        cmd_meta,
        /// Keys asked for and found.
        get_hits,
        /// Keys asked for and not found.
        get_misses,
        /// Of the misses, those that were there but had expired.
        get_expired,
        /// Of the misses, those that were there but had been flushed.
        get_flushed,
        /// Deletions of keys that were not there.
        delete_misses,
        /// Deletions.
        delete_hits,
        /// `incr` of keys that were not there.
        incr_misses,
        /// `incr` that counted.
        incr_hits,
        /// `decr` of keys that were not there.
        decr_misses,
        /// `decr` that counted.
        decr_hits,
        /// `cas` of keys that were not there.
        cas_misses,
        /// `cas` that stored.
        cas_hits,
        /// `cas` of a key that had changed.
        cas_badval,
        /// Touches of keys that were there.
        touch_hits,
        /// Touches of keys that were not there.
        touch_misses,
        /// Values refused because they are larger than an item may be.
        store_too_large,
        /// Values refused because there was no memory.
        store_no_memory,
        /// Attempts to authenticate.
        auth_cmds,
        /// Of these, failed ones.
        auth_errors,
        /// Bytes received.
        bytes_read,
        /// Bytes sent.
        bytes_written,
        /// Times a connection had to let others go first (`-R`).
        conn_yields,
        /// Connections closed because they were idle.
        idle_kicks,
        /// Lines written for watchers.
        log_written,
        /// Keys walked over by `lru_crawler` and other walks.
        walked,
    }
}
