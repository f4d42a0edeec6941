//! Who must hear of what data commands do: nobody, usually, and then a write costs one relaxed load
//! for it.

use std::sync::atomic::Ordering::Relaxed;

use super::shared::Shared;

/// Some client tracks keys.
pub(crate) const TRACKING: u32 = 1;
/// `notify-keyspace-events` is set.
pub(crate) const EVENTS: u32 = 1 << 1;
/// Some client sent MONITOR.
pub(crate) const MONITOR: u32 = 1 << 2;
/// Some client watches a key.
pub(crate) const WATCHES: u32 = 1 << 3;
/// Commands wait (CLIENT PAUSE).
pub(crate) const PAUSE: u32 = 1 << 4;

/// Does anyone of `who` listen?
#[inline]
pub(crate) fn any(shared: &Shared, who: u32) -> bool {
    shared.attention.load(Relaxed) & who != 0
}

/// Sets or clears a bit. Entries that go by themselves are reported once somebody wants to hear of
/// them; that stays on, as the other face may want to hear too.
pub(crate) fn set(shared: &Shared, who: u32, listens: bool) {
    let before = if listens {
        shared.attention.fetch_or(who, std::sync::atomic::Ordering::SeqCst)
    } else {
        shared.attention.fetch_and(!who, std::sync::atomic::Ordering::SeqCst)
    };
    let after = if listens { before | who } else { before & !who };
    if after & (TRACKING | EVENTS) != 0 {
        shared.store.observing(true);
    }
}
