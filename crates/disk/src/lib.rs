//! The disk: records in a log of large segments that are written once, found by an index in
//! memory. It knows keys, records and purges, and nothing of pages or protocols. It reads no clock
//! and starts no thread: times are arguments, and the caller decides which thread waits for the
//! device.
//!
//! # The map
//!
//! | file | what |
//! |---|---|
//! | `disk.rs` | the disk as all threads share it: finding, reading |
//! | `purges.rs` | forgetting and purging, which purges are needed |
//! | `writer.rs` | the one writer: appending, sealing, the limit on bytes per second |
//! | `evict.rs` | which segment goes next, and which of its records are written again |
//! | `load.rs`, `scan.rs` | the start: summaries of sealed segments, the scan of open ones |
//! | `journal.rs` | the purges, durable before they are answered |
//! | `index.rs` | from the hash of a key to a place: 16 bytes an entry in tables that are 76 % to 90 % full |
//! | `filter.rs` | which keys a segment may have records of: 2 bytes a record |
//! | `format.rs` | every byte in the files |
//! | `superblock.rs` | the file that makes the others valid |
//! | `look.rs` | looking at a disk that another process may have |
//! | `files.rs` | the few calls of the system, as a trait: tests have a double with faults |
//!
//! # Invariants
//!
//! - Bytes that leave [`Disk::read`] are those that were written under that key: a checksum that is
//!   bound to the disk, the segment and the place in it covers head, key and record.
//! - Every record has a *ticket*: the number of purges there had been before it was taken from
//!   memory. A purge has a number of its own, which is greater. A record with a smaller number than
//!   a purge that means it is never used, here ([`Disk::forget`]) or by the caller, who knows what
//!   a purge of a tag means ([`Record::ticket`]).
//! - A start that finds damage continues without the damaged part. Where purges may be missing, it
//!   continues with an empty disk.
//! - A record that the index has given up while its bytes may be in a segment (it cannot be read,
//!   its buffer was not written) has a purge in the journal: later replacements of its key are not
//!   journalled, as the index does not know it.
//! - Numbers of a run are greater than those of all earlier runs: the upper bits count the starts.
//!
//! # Proof
//!
//! `cargo test -p larder-disk`: a map as the model (`tests/model.rs`), and the same with a disk
//! that fails, tears, loses and reorders writes, flips bits and loses power (`tests/faults.rs`;
//! more seeds: `LARDER_DISK_SEEDS=10000`). The reader of segments has a fuzz target (`fuzz/`).
#![forbid(unsafe_code)]

mod disk;
mod evict;
mod files;
mod filter;
mod format;
mod index;
mod journal;
mod load;
mod look;
mod purges;
mod scan;
mod superblock;
mod types;
mod writer;

pub use disk::{Disk, Reading};
pub use files::{Directory, Files, Storage};
pub use format::key_hash;
pub use journal::{Journalled, Purge};
#[doc(hidden)]
pub use journal::{read_journal, write_journal};
pub use load::Loaded;
pub use look::{Look, LookedSegment, Purged, Start, empty};
pub use scan::{Entry, Scanned, scan};
pub use types::{Figures, LEAST, MOST, Ms, Options, PutError, ReadError, Record, is_full};
pub use writer::Writer;
