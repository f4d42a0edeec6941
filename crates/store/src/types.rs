//! Types of the interface: options, values to store, errors, figures.

#[cfg(not(loom))]
use crate::item::{CLAIMED, STALE, fresh_word};
use std::fmt;

/// Milliseconds on the caller's clock. The store never reads a clock itself.
pub type Ms = u64;

/// Separates kinds of entries: a key in one namespace never matches the same key in another. Valid
/// numbers are `0..=30`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Namespace(pub u8);

/// Number of namespaces (31 is used inside the store).
pub const NAMESPACES: usize = 31;

/// Longest key in bytes (URLs are keys).
pub const MAX_KEY: usize = 16 * 1024;

/// Most tags on one entry.
pub const MAX_TAGS: usize = 256;

/// How victims are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Small queue, main queue and ghost (Yang et al., SOSP '23), on a segmented log.
    S3Fifo,
    /// One queue, oldest segment first. For comparison.
    Fifo,
}

/// Most [`Options::shares`].
pub const MAX_SHARES: usize = 3;

/// Guaranteed and greatest memory of a group of namespaces, in bytes of records (keys, values,
/// headers).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// First namespace of the group.
    pub first: Namespace,
    /// Last one, included.
    pub last: Namespace,
    /// Evictions for other groups' writes never leave it less than this; 0: no guarantee.
    pub floor: usize,
    /// After a write it has at most this and the size of its open segments
    /// ([`crate::Store::share_slack`]); `usize::MAX`: no limit.
    pub ceiling: usize,
}

/// How to open a store. `Options { budget, seed, ..Options::default() }` is enough for most.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes for everything: entries, index, bookkeeping. At least 8 MiB, at most 512 GiB.
    pub budget: usize,
    /// Largest value in bytes; half the budget is a limit too.
    pub max_value: u64,
    /// Choice of victims.
    pub policy: Policy,
    /// Key of the hash: clients choose keys, so it must be unknown to them.
    pub seed: u64,
    /// Number of threads that will use the store at once (a hint: more work, but share cache
    /// lines).
    pub threads: usize,
    /// Groups of namespaces with a floor or a ceiling, at most [`MAX_SHARES`], no namespace in two
    /// of them.
    pub shares: Vec<Share>,
    /// May live entries be dropped to make room? If not, a full store answers [`PutError::Full`].
    pub evict: bool,
    /// The namespace of parts of other entries ([`crate::Owner`]); `None`: there are none.
    pub parts: Option<Namespace>,
    /// May another process take the memory over ([`crate::Store::give`])?
    pub shared: bool,
}

impl Default for Options {
    /// 64 MiB, values of any size, two threads. The seed is 0: set one that clients do not know.
    fn default() -> Options {
        Options {
            budget: 64 << 20,
            max_value: u64::MAX,
            policy: Policy::S3Fifo,
            seed: 0,
            threads: 2,
            shares: Vec::new(),
            evict: true,
            parts: None,
            shared: false,
        }
    }
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The budget is outside the valid range.
    #[error("a memory budget of {budget} bytes does not work: expected {least} to {most} bytes")]
    Budget {
        /// The requested budget.
        budget: usize,
        /// Least valid budget.
        least: usize,
        /// Greatest valid budget.
        most: usize,
    },
    /// The shares contradict each other or the budget.
    #[error("{0}")]
    Shares(&'static str),
    /// The memory of another process cannot be used.
    #[error("{0}")]
    Succession(&'static str),
    /// The operating system refused the memory.
    #[error("the system refused {bytes} bytes of memory: {error}")]
    Memory {
        /// The requested bytes.
        bytes: usize,
        /// Its error.
        error: std::io::Error,
    },
}

/// A value to store, in parts so that callers need not join buffers first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Put<'a> {
    /// The value: these parts in order.
    pub value: &'a [&'a [u8]],
    /// The client's 32 opaque bits.
    pub flags: u32,
    /// Time of expiry; `None`: never.
    pub expires: Option<Ms>,
    /// Surrogate keys for [`crate::Store::purge_tag`], at most [`MAX_TAGS`].
    pub tags: &'a [&'a [u8]],
    /// Version of the entry; `None`: one that no other write has.
    pub version: Option<u64>,
    /// Marked stale from the start.
    pub stale: bool,
    /// Claimed from the start: nobody can claim it any more ([`crate::Entry::claim`]).
    pub claimed: bool,
}

#[cfg(not(loom))]
impl Put<'_> {
    /// The changing word of its record, as one that was never read.
    #[inline]
    pub(crate) fn word(&self, now: Ms) -> u32 {
        fresh_word(now) | self.marks()
    }

    #[inline]
    pub(crate) fn marks(&self) -> u32 {
        (u32::from(self.stale) * STALE) | (u32::from(self.claimed) * CLAIMED)
    }
}

/// Why nothing was stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PutError {
    /// Value larger than the limit, key longer than [`MAX_KEY`], more than [`MAX_TAGS`] tags, or a
    /// namespace out of range.
    #[error("too large for the store")]
    TooLarge,
    /// No memory is available now: everything else is pinned or being filled.
    #[error("no memory left: all of it is in use by readers or fills")]
    Full,
    /// `add`: the key exists. `cas`: it exists with another version.
    #[error("an entry is in the way")]
    Exists,
    /// `replace`, `cas`, `append`, `prepend`, `incr`, `decr`: the key does not exist.
    #[error("no such entry")]
    NotFound,
    /// `incr`, `decr`: the value is not a decimal number of 64 bits.
    #[error("the value is not a number")]
    NotNumber,
}

/// Result of `incr` and `decr`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counter {
    /// The new value.
    pub value: u64,
    /// Version of the write.
    pub version: u64,
}

/// Options of a streaming fill.
#[derive(Clone, Copy, Debug, Default)]
pub struct FillOptions {
    /// The client's 32 opaque bits.
    pub flags: u32,
    /// Expiry, unless `commit` gives another.
    pub expires: Option<Ms>,
    /// The whole length, if known: saves a copy and refuses too large values at once.
    pub size_hint: Option<u64>,
    /// Length of the first piece, which is contiguous, in bytes, up to [`crate::MAX_CONTIGUOUS`].
    pub contiguous: usize,
}

/// State of a fill for a follower.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FillState {
    /// There are bytes beyond the given offset.
    Grown,
    /// Committed, and the offset is its end.
    Done {
        /// Whole length.
        len: u64,
    },
    /// Abandoned, and the offset is the end of the written bytes.
    Aborted,
}

/// An entry as shown by a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryInfo {
    /// Bytes of value.
    pub len: u64,
    /// The client's bits.
    pub flags: u32,
    /// Expiry.
    pub expires: Option<Ms>,
    /// Unique per write.
    pub version: u64,
    /// Time of the last read (or of the write, if it was never read), to the second.
    pub last_access: Ms,
    /// Was it read since it was written?
    pub fetched: bool,
    /// Marked stale.
    pub stale: bool,
    /// Claimed by a caller ([`crate::Entry::claim`]).
    pub claimed: bool,
}

/// Action that a walk's callback chooses for an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// Leave it.
    Keep,
    /// Remove it, if it was not replaced meanwhile.
    Delete,
    /// Mark it stale at this time, as [`crate::Store::mark_stale`] does.
    Stale(Ms),
}

/// Why the store removed an entry by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// Its memory was needed.
    Evicted,
    /// It had expired.
    Expired,
}

/// A removed entry, for an observer.
#[derive(Clone, Copy, Debug)]
pub struct Evicted<'a> {
    /// Its namespace.
    pub ns: Namespace,
    /// Its key.
    pub key: &'a [u8],
    /// Length, expiry and the rest.
    pub info: EntryInfo,
    /// Why it was removed.
    pub cause: Cause,
    /// Time of the removal, on the clock of the call that removed it.
    pub now: Ms,
}

impl Evicted<'_> {
    /// Milliseconds until its expiry; `None`: it has none.
    pub fn ttl(&self) -> Option<Ms> {
        self.info.expires.map(|t| t.saturating_sub(self.now))
    }
}

/// Position of a walk. Stays valid when the index grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cursor(pub u64);

impl Cursor {
    /// Start of a walk.
    pub const START: Cursor = Cursor(0);
}

/// Figures of one namespace since the store was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NamespaceStats {
    /// Linked entries (including flushed or expired ones that are not yet swept).
    pub items: u64,
    /// Their keys and values in bytes.
    pub bytes: u64,
    /// Successful `get` calls.
    pub hits: u64,
    /// `get` calls that found nothing.
    pub misses: u64,
    /// Entries stored, by any operation.
    pub stored: u64,
    /// Entries removed by request (delete, purge, walk).
    pub deleted: u64,
    /// Live entries dropped to make room.
    pub evictions: u64,
    /// Of these, never read.
    pub evicted_unfetched: u64,
    /// Of these, read in the minute before.
    pub evicted_recent: u64,
    /// How long ago the most recently evicted entry had been read or written, in ms.
    pub evicted_age: Ms,
    /// Entries removed because they had expired.
    pub expired: u64,
    /// Of these, never read.
    pub expired_unfetched: u64,
    /// Entries removed because of a flush.
    pub flushed: u64,
    /// Bytes of records freed by removals of any kind but eviction.
    pub reclaimed: u64,
}

/// Figures of the whole store, in bytes unless said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// The budget.
    pub budget: u64,
    /// Fixed bookkeeping: segment table, pin tables, ghost.
    pub bookkeeping: u64,
    /// Size of a segment.
    pub segment: u64,
    /// Segments (number).
    pub segments: u64,
    /// Free segments (number).
    pub free: u64,
    /// Segments used by the index (number).
    pub index: u64,
    /// Segments used by tag lists (number).
    pub tags: u64,
    /// Segments used by fills (number).
    pub staging: u64,
    /// Segments owned by large values (number).
    pub chained: u64,
    /// Segments of the small queue (number).
    pub small: u64,
    /// Segments of the main queue (number).
    pub main: u64,
    /// Segments set aside until their readers leave (number).
    pub limbo: u64,
    /// Slots in the index (number).
    pub slots: u64,
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
