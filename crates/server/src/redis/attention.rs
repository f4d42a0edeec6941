//! Flags for the observers of data commands. Usually none are set, and a write pays one relaxed
//! load.

use std::sync::atomic::Ordering::Relaxed;

use super::shared::Shared;

/// A client tracks keys.
pub(crate) const TRACKING: u32 = 1;
/// `notify-keyspace-events` is set.
pub(crate) const EVENTS: u32 = 1 << 1;
/// A client sent MONITOR.
pub(crate) const MONITOR: u32 = 1 << 2;
/// A client watches a key.
pub(crate) const WATCHES: u32 = 1 << 3;
/// Commands wait (CLIENT PAUSE).
pub(crate) const PAUSE: u32 = 1 << 4;

/// A client waits in a blocking command.
pub(crate) const WAITING: u32 = 1 << 5;
/// A script runs for long (`lua-time-limit`).
pub(crate) const LONG_SCRIPT: u32 = 1 << 6;
/// Users, or the places of databases, have changed since the start: connections look at theirs.
pub(crate) const CHANGES: u32 = 1 << 7;

/// A client waits in XREADGROUP: it is told if its stream is deleted.
pub(crate) const READERS: u32 = 1 << 8;

/// Commands are refused (CONFIG SET `maxmemory`, `min-replicas-to-write`).
pub(crate) const REFUSALS: u32 = 1 << 9;

/// Returns whether any flag of `who` is set.
#[inline]
pub(crate) fn any(shared: &Shared, who: u32) -> bool {
    shared.attention.load(Relaxed) & who != 0
}

/// Sets or clears a flag. The store starts to report expired and evicted entries when TRACKING,
/// EVENTS or READERS is first set. It never stops, because the other face may need the reports.
pub(crate) fn set(shared: &Shared, who: u32, listens: bool) {
    let before = if listens {
        shared.attention.fetch_or(who, std::sync::atomic::Ordering::SeqCst)
    } else {
        shared.attention.fetch_and(!who, std::sync::atomic::Ordering::SeqCst)
    };
    let after = if listens { before | who } else { before & !who };
    if after & (TRACKING | EVENTS | READERS) != 0 {
        shared.store.observing(true);
    }
}
