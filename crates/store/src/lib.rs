//! The store: keys, bytes, expiry, tags, within one memory budget that is always honoured. It knows
//! no protocol, reads no clock and does no I/O: time and bytes are arguments.
//!
//! # The map
//!
//! | file | what |
//! |---|---|
//! | `store.rs` | the store's parts, opening, removing entries, flush; the order of locks |
//! | `entry.rs`, `hint.rs` | `get`, `peek`, and pinned entries; memory of many keys fetched at once |
//! | `verbs.rs`, `write.rs` | every verb that writes; their common steps: space, bytes, link |
//! | `brief.rs` | the three steps in one, for small records |
//! | `fill.rs`, `progress.rs`, `staging.rs` | entries written while others already read them |
//! | `queues.rs`, `evict.rs`, `ghost.rs` | which segment is evicted next, and which entries stay |
//! | `shares.rs` | floors and ceilings for groups of namespaces |
//! | `reclaim.rs` | memory without eviction |
//! | `parts.rs`, `edit.rs` | entries that belong to another entry; their changes in place |
//! | `loan.rs` | memory lent to callers that keep as many bytes elsewhere |
//! | `large.rs` | large blocks of the program's heap, which grow without a copy |
//! | `sweep.rs`, `scan.rs`, `tags.rs` | freeing expired memory, walks, tag lists |
//! | `over.rs` | why a key is not found |
//! | `observe.rs` | callbacks for evicted and expired entries |
//! | `succession.rs` | the memory with all entries given to another process |
//! | `snapshot.rs` | the same for a file, and back |
//! | `handover.rs` | evicted entries for a caller that keeps them elsewhere |
//! | `index.rs` | from hash to place, without locks for readers |
//! | `log.rs`, `item.rs`, `segment.rs`, `map.rs` | appending, the record's bytes, the segments, the mapping |
//! | `pin.rs`, `held.rs` | how readers keep bytes where they are |
//!
//! # Invariants
//!
//! - All memory is within the budget: entries, index, tag lists, unfinished fills, tables. (On the
//!   heap, and not counted: a few hundred bytes per unfinished fill; lists of at most a tag's
//!   entries while it is purged or tidied.)
//! - A reader takes no lock and writes no line that another thread writes, except the entry's own
//!   word when a read changes its frequency (three times at most) or its last access (once a
//!   second).
//! - A pinned byte never moves or changes. An evictor never waits for a reader: it sets the segment
//!   aside. (Bytes of parts with room change, and are never pinned for a reader: `edit.rs`.)
//! - No lock is held while a caller's code runs, and nothing evicts while it holds one.
//! - With `Options::shares`: evictions for others never take a group below its floor; after a write
//!   a group is at most its ceiling and [`Store::share_slack`]. With `Options::evict` false no live
//!   entry is ever dropped.
//! - A version is unique per write unless the writer chose it; inside the store, the origin tells
//!   writes apart (`item.rs`).
//!
//! # Proof
//!
//! `cargo test -p larder-store`: a plain map as the model, also with shares and without eviction
//! (`tests/model.rs`), shares and full stores alone (`tests/shares.rs`, `tests/no_evict.rs`),
//! threads with checksums (`tests/stress.rs`), a million entries within 24 bytes each
//! (`tests/overhead.rs`), resident memory (`tests/resident.rs`). Under loom, every interleaving of
//! pins and fills: `tests/loom.rs` gives the command; under miri: `tests/miri.rs`. Hit ratios and
//! read costs against other caches, and instructions of the hot verbs (`examples/cost.rs`):
//! `cargo bench -p larder-store --bench store`. The reasons for the design:
//! docs/decisions/0002-store.md.

#[cfg(not(loom))]
mod away;
#[cfg(not(loom))]
mod brief;
#[cfg(not(loom))]
mod edit;
#[cfg(not(loom))]
mod entry;
#[cfg(not(loom))]
mod evict;
#[cfg(not(loom))]
mod fill;
#[cfg(not(loom))]
mod ghost;
#[cfg(not(loom))]
mod handover;
#[cfg(not(loom))]
mod hash;
#[cfg(not(loom))]
mod held;
#[cfg(not(loom))]
mod hint;
#[cfg(not(loom))]
mod index;
#[cfg(not(loom))]
mod item;
#[cfg(not(any(loom, miri)))]
mod large;
#[cfg(not(loom))]
mod loan;
#[cfg(not(loom))]
mod log;
#[cfg(not(loom))]
mod map;
#[cfg(not(loom))]
mod observe;
#[cfg(not(loom))]
mod over;
#[cfg(not(loom))]
mod parts;
#[cfg(not(loom))]
mod queues;
#[cfg(not(loom))]
mod reclaim;
#[cfg(not(loom))]
mod scan;
#[cfg(not(loom))]
mod segment;
#[cfg(not(loom))]
mod shares;
#[cfg(not(loom))]
mod snapshot;
#[cfg(not(loom))]
mod staging;
#[cfg(not(loom))]
mod stats;
#[cfg(not(loom))]
mod store;
#[cfg(not(loom))]
mod succession;
#[cfg(not(loom))]
mod sweep;
#[cfg(not(loom))]
mod tags;
#[cfg(not(loom))]
mod verbs;
#[cfg(not(loom))]
mod write;

// The modules that loom models.
#[doc(hidden)]
pub mod pin;
#[doc(hidden)]
pub mod progress;
mod sync;
mod types;

#[cfg(not(loom))]
pub use away::{Away, Elsewhere, Stub};
#[cfg(not(loom))]
pub use edit::{MOST_ROOM, Part, Together};
#[cfg(not(loom))]
pub use entry::Entry;
#[cfg(not(loom))]
pub use fill::{Fill, FillReader, MAX_CONTIGUOUS};
#[cfg(not(loom))]
pub use hint::Hint;
#[cfg(not(any(loom, miri)))]
pub use large::Large;
#[cfg(not(loom))]
pub use loan::Loan;
#[cfg(not(loom))]
pub use over::Over;
#[cfg(not(loom))]
pub use parts::Owner;
#[cfg(not(loom))]
pub use snapshot::Snapshot;
#[cfg(not(loom))]
pub use store::Store;
#[cfg(not(loom))]
pub use succession::GiveError;
#[cfg(not(loom))]
pub use tags::Tagged;
pub use types::*;
#[cfg(not(loom))]
pub use write::If;
