//! Walks over all items: `lru_crawler metadump`, `mgdump`, `stats cachedump`, `sizes`, `largest`. A
//! step of a walk visits a bounded number of items and composes a bounded number of bytes; between
//! steps other clients are served and the bytes are sent. So a walk over millions of items needs
//! the memory of one step, and delays no client.
//!
//! A walk shows every item that exists throughout. As in memcached, it may miss or repeat an item
//! written meanwhile.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    io::Write,
    ops::ControlFlow,
};

use larder_proto::memcache::MAX_KEY;
use larder_store::{Cursor, EntryInfo, Keep};

use super::{
    Face, OBJECTS,
    stats::lines::{Form, Lines},
    watch::encode,
};
use crate::{clock::Ms, net::out::Out, object::HIGH_WATER};

/// Items visited per store call, and per step at most: about a millisecond of work.
const LOOK: usize = 128;
const STEP: usize = 2048;
/// Most bytes sent by `stats cachedump`, as in memcached.
const CACHEDUMP_BYTES: u64 = 2 * 1024 * 1024;
/// Width of a bucket of `stats sizes`, in bytes, as in memcached.
const COLUMN: u64 = 32;

/// A long answer in progress.
#[derive(Debug)]
pub(crate) struct Walk {
    kind: Kind,
    cursor: Option<Cursor>,
    form: Form,
}

#[derive(Debug)]
enum Kind {
    Metadump,
    Mgdump,
    /// Counts of items and bytes that may still be sent.
    Cachedump {
        items: u64,
        bytes: u64,
    },
    /// Number of items by size.
    Sizes(BTreeMap<u64, u64>),
    /// The largest items so far.
    Largest {
        limit: usize,
        found: BinaryHeap<Reverse<(u64, Vec<u8>)>>,
    },
}

impl Walk {
    fn new(kind: Kind, form: Form) -> Self {
        Self { kind, cursor: Some(Cursor::START), form }
    }

    /// `lru_crawler metadump`.
    pub(crate) fn metadump() -> Self {
        Self::new(Kind::Metadump, Form::Text)
    }

    /// `lru_crawler mgdump`.
    pub(crate) fn mgdump() -> Self {
        Self::new(Kind::Mgdump, Form::Text)
    }

    /// A dump of a class without items.
    pub(crate) fn nothing() -> Self {
        Self { cursor: None, ..Self::metadump() }
    }

    /// `stats cachedump` of at most `items` items; 0: as many as fit.
    pub(crate) fn cachedump(items: u32) -> Self {
        let items = if items == 0 { u64::MAX } else { u64::from(items) };
        Self::new(Kind::Cachedump { items, bytes: CACHEDUMP_BYTES }, Form::Text)
    }

    /// `stats sizes`.
    pub(crate) fn sizes(form: Form) -> Self {
        Self::new(Kind::Sizes(BTreeMap::new()), form)
    }

    /// `stats largest` with `limit` items.
    pub(crate) fn largest(limit: usize, form: Form) -> Self {
        Self::new(Kind::Largest { limit, found: BinaryHeap::new() }, form)
    }

    /// Bytes of the gathered entries.
    pub(crate) fn memory(&self) -> usize {
        match &self.kind {
            Kind::Metadump | Kind::Mgdump | Kind::Cachedump { .. } => 0,
            Kind::Sizes(columns) => columns.len() * 2 * size_of::<(u64, u64)>(),
            Kind::Largest { found, .. } => found.len() * (size_of::<(u64, Vec<u8>)>() + MAX_KEY),
        }
    }

    /// Composes the next part of the answer. Returns true at its end; false: send the part and call
    /// again ([`Turn::Flush`]).
    ///
    /// [`Turn::Flush`]: crate::object::Turn::Flush
    pub(crate) fn step(&mut self, face: &Face, now: Ms, out: &mut Out) -> bool {
        let mut walked = 0;
        while let Some(cursor) = self.cursor {
            if walked >= STEP || out.pending() >= HIGH_WATER {
                break;
            }
            let (kind, scratch) = (&mut self.kind, out.scratch());
            let mut goes_on = ControlFlow::Continue(());
            let mut shown = 0;
            let next = face.store.scan(OBJECTS, cursor, LOOK, &mut |key, info| {
                shown += 1;
                if goes_on.is_continue() && info.expires.is_none_or(|at| at > now) {
                    goes_on = kind.show(key, info, scratch);
                }
                Keep::Keep
            });
            face.counters.walked.add(shown);
            walked += LOOK;
            self.cursor = next.filter(|_| goes_on.is_continue());
        }
        if self.cursor.is_some() {
            return false;
        }
        self.end(out.scratch());
        true
    }

    fn end(&mut self, scratch: &mut Vec<u8>) {
        let lines = &mut Lines::new(scratch, self.form);
        match &mut self.kind {
            Kind::Metadump | Kind::Cachedump { .. } => {}
            Kind::Mgdump => {
                scratch.extend_from_slice(b"EN\r\n");
                return;
            }
            Kind::Sizes(columns) => {
                for (size, count) in std::mem::take(columns) {
                    lines.part(format_args!("{size}"), "", &count);
                }
            }
            Kind::Largest { found, .. } => {
                let sorted = std::mem::take(found).into_sorted_vec();
                for (Reverse((size, key)), rank) in sorted.into_iter().zip(1_u64..) {
                    let mut name = Vec::new();
                    encode(&key, &mut name);
                    lines.part(format_args!("{rank}:"), "key", &name[..]);
                    lines.part(format_args!("{rank}:"), "size", &size);
                }
            }
        }
        lines.end();
    }
}

impl Kind {
    /// Processes an item. Break: the answer is full.
    fn show(&mut self, key: &[u8], info: &EntryInfo, scratch: &mut Vec<u8>) -> ControlFlow<()> {
        match self {
            Kind::Metadump => metadump(key, info, scratch),
            Kind::Mgdump => {
                scratch.extend_from_slice(b"mg ");
                encode(key, scratch);
                scratch.extend_from_slice(b"\r\n");
            }
            Kind::Cachedump { items, bytes } => {
                let before = scratch.len();
                cachedump(key, info, scratch);
                let used = (scratch.len() - before) as u64;
                if used > *bytes {
                    scratch.truncate(before);
                    return ControlFlow::Break(());
                }
                (*items, *bytes) = (*items - 1, *bytes - used);
                if *items == 0 {
                    return ControlFlow::Break(());
                }
            }
            Kind::Sizes(columns) => {
                *columns.entry(size(key, info).div_ceil(COLUMN) * COLUMN).or_default() += 1;
            }
            Kind::Largest { limit, found } => largest(*limit, found, key, info.len),
        }
        ControlFlow::Continue(())
    }
}

/// Length of key and value in bytes.
fn size(key: &[u8], info: &EntryInfo) -> u64 {
    key.len() as u64 + info.len
}

/// Writing to a Vec does not fail. Lines end in a single LF, as in memcached.
fn metadump(key: &[u8], info: &EntryInfo, scratch: &mut Vec<u8>) {
    scratch.extend_from_slice(b"key=");
    encode(key, scratch);
    let _ = match info.expires {
        Some(at) => write!(scratch, " exp={}", at / 1000),
        None => write!(scratch, " exp=-1"),
    };
    let _ = writeln!(
        scratch,
        " la={} cas={} fetch={} cls=1 size={}",
        info.last_access / 1000,
        info.version,
        if info.fetched { "yes" } else { "no" },
        size(key, info)
    );
}

fn cachedump(key: &[u8], info: &EntryInfo, scratch: &mut Vec<u8>) {
    scratch.extend_from_slice(b"ITEM ");
    scratch.extend_from_slice(key);
    let _ = write!(scratch, " [{} b; {} s]\r\n", info.len, info.expires.map_or(0, |at| at / 1000));
}

fn largest(limit: usize, found: &mut BinaryHeap<Reverse<(u64, Vec<u8>)>>, key: &[u8], len: u64) {
    if found.len() >= limit {
        if found.peek().is_some_and(|Reverse((least, _))| *least >= len) {
            return;
        }
        found.pop();
    }
    found.push(Reverse((len, key.to_vec())));
}
