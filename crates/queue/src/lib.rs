//! Durable queues: items in order, each given to one reader, kept in journals. Knows no protocol
//! and no socket, reads no clock and starts no thread: times are arguments, and the caller decides
//! which thread waits for the device ([`Work`]).
//!
//! # The map
//!
//! | file | what |
//! |---|---|
//! | `queues.rs` | all queues by name: children, the work of all |
//! | `aborts.rs` | open reads that are given back; error queues |
//! | `queue.rs` | one queue: items in memory, items on disk, limits |
//! | `read.rs` | its reader's side: the first item, open reads, reading ahead, packing |
//! | `journal.rs` | the segments of its journal: appending, reading, removing |
//! | `replay.rs` | the start: the state of a queue from its journal |
//! | `lend.rs` | another process opens the queues, and fails |
//! | `work.rs` | what the device has to do, on another thread |
//! | `format.rs` | every byte in the files |
//! | `name.rs`, `ranges.rs` | names and directories; sets of ids |
//!
//! # Invariants
//!
//! - A journal is a sequence of records; the state of a queue is the effect of its valid records. A
//!   cut at any byte gives the state after the last whole record.
//! - An item that a client has opened is not removed: after a crash it waits again, in its place.
//! - A segment is removed only when no item in it waits or is open, and the removal itself follows
//!   the sync of the records that say so. Only the oldest segments are removed, so a removal is
//!   never forgotten before its item.
//! - Memory depends on [`Options::memory`], on the number of queues, and on open reads; not on the
//!   number of items.
//!
//! # Proof
//!
//! `cargo test -p larder-queue`: a plain deque as the model, random commands, a journal that is cut
//! at every byte (`tests/model.rs`). The record reader has a fuzz target (`fuzz/`).
#![forbid(unsafe_code)]

mod aborts;
mod format;
mod journal;
mod lend;
mod name;
mod queue;
mod queues;
mod ranges;
mod read;
mod replay;
mod types;
mod work;

pub use format::{Decoded, MOST_ITEM, Record, decode, encode};
pub use name::{MAX_NAME, is_valid, parent};
pub use queues::{Damage, Queues};
pub use types::{Counters, Figures, Item, Limits, NewItem, Options, Put, Read, Rules, Ticket};
pub use work::{Undone, Work};
