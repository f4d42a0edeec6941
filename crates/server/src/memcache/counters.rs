//! Counters of the memcached face: one set per worker. Only its worker writes it; readers merge the
//! sets.
//!
//! The names are memcached's (protocol.txt, "General-purpose statistics"). The code that executes a
//! command counts it.

use crate::object::TlsCounters;

larder_metrics::counters! {
    /// Counters of one worker since its start.
    pub(crate) struct Counters {
        /// Accepted connections, including refused ones.
        total_connections,
        /// Connections refused because the limit was reached.
        rejected_connections,
        /// Times that the connection limit paused accepting.
        listen_disabled_num,
        /// Microseconds that accepting was paused, from the first paused listener to the last.
        time_in_listen_disabled_us,
        /// Keys requested by `get`. Without keys of `gat`, and without keys that `mg` found and
        /// touched.
        cmd_get,
        /// Values sent to be stored, with any result.
        cmd_set,
        /// `flush_all` commands.
        cmd_flush,
        /// Keys touched by `touch`, `gat`, `gats`, or by `mg` with a new TTL.
        cmd_touch,
        /// `me` commands: memcached 1.6.18 counts no other meta command.
        cmd_meta,
        /// Requested keys that were found.
        get_hits,
        /// Requested keys that were not found.
        get_misses,
        /// Misses of expired items.
        get_expired,
        /// Misses of flushed items.
        get_flushed,
        /// Deletions of missing keys.
        delete_misses,
        /// Deletions of existing keys.
        delete_hits,
        /// `incr` of missing keys.
        incr_misses,
        /// Successful `incr`.
        incr_hits,
        /// `decr` of missing keys.
        decr_misses,
        /// Successful `decr`.
        decr_hits,
        /// `cas` of missing keys.
        cas_misses,
        /// Successful `cas`.
        cas_hits,
        /// `cas` of changed keys.
        cas_badval,
        /// Touches of existing keys.
        touch_hits,
        /// Touches of missing keys.
        touch_misses,
        /// Values refused for their size.
        store_too_large,
        /// Values refused for lack of memory.
        store_no_memory,
        /// Authentication attempts.
        auth_cmds,
        /// Failed authentication attempts.
        auth_errors,
        /// Bytes received.
        bytes_read,
        /// Bytes sent.
        bytes_written,
        /// Times that a connection yielded to others (`-R`).
        conn_yields,
        /// Connections closed for being idle.
        idle_kicks,
        /// Reads of values on the disk begun.
        get_extstore,
        /// Of these, those that took too long, or failed as the disk was not in use.
        get_aborted_extstore,
        /// Of these, values that were gone or damaged.
        miss_from_extstore,
        /// Of these, values that are in memory again.
        recache_from_extstore,
        /// Log lines written for watchers.
        log_written,
        /// Keys visited by `lru_crawler` and other walks.
        walked,
    }
    with {
        /// Of connections over TLS.
        tls: TlsCounters,
    }
}
