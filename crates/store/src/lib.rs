//! The store: keys, bytes, expiry, tags, within one memory budget that is always honoured. Knows no protocol and no clock.

#[cfg(not(loom))]
mod entry;
#[cfg(not(loom))]
mod evict;
#[cfg(not(loom))]
mod fill;
#[cfg(not(loom))]
mod ghost;
#[cfg(not(loom))]
mod hash;
#[cfg(not(loom))]
mod index;
#[cfg(not(loom))]
mod item;
#[cfg(not(loom))]
mod log;
#[cfg(not(loom))]
mod map;
#[cfg(not(loom))]
mod scan;
#[cfg(not(loom))]
mod segment;
#[cfg(not(loom))]
mod staging;
#[cfg(not(loom))]
mod stats;
#[cfg(not(loom))]
mod store;
#[cfg(not(loom))]
mod sweep;
#[cfg(not(loom))]
mod tags;
#[cfg(not(loom))]
mod write;

// What loom models.
#[doc(hidden)]
pub mod pin;
#[doc(hidden)]
pub mod progress;
mod sync;
mod types;

#[cfg(not(loom))]
pub use entry::Entry;
#[cfg(not(loom))]
pub use fill::{Fill, FillReader, MAX_CONTIGUOUS};
#[cfg(not(loom))]
pub use store::Store;
pub use types::*;
