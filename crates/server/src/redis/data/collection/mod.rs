//! Collections in the store: lists, sets, sorted sets, streams and large hashes, by one interface.
//!
//! A [`Coll`] is a collection that a command reads or changes: its head, read from the store, with
//! the runs and nodes it has changed. [`Coll::commit`] writes them; before that nobody sees a
//! change. Dispatch holds the stripe of the key, for reads too, but for those of hashes.
//!
//! A changed run or node is rewritten where it lies if it has room there, else it becomes a new
//! part, and the old one is deleted (`pages.rs`). A part that is missing was evicted: the
//! collection counts as evicted as a whole.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | opening and committing |
//! | `pages.rs` | parts: read, changed in place, written anew; the commit of a tree |
//! | `tree.rs` | finding and replacing runs in a tree |
//! | `divide.rs` | dividing runs and nodes into new parts |
//! | `list.rs`, `set.rs`, `zset.rs`, `stream.rs`, `hash.rs` | operations on items of each type |
//! | `records.rs` | the records of a stream's groups |
//! | `steps.rs` | commands over many items, in steps |

mod divide;
mod hash;
mod list;
mod pages;
mod records;
mod set;
mod steps;
mod stream;
mod tree;
mod zset;

use std::{cell::Cell, collections::BTreeMap};

use larder_proto::resp::collection::{Damaged, Head, Kind, Root, Shape, facts_apart, key_times};
use larder_proto::resp::stream::State;
use larder_store::{Entry, If, Namespace, Owner, Put, PutError, Store};
use rapidhash::v3::rapidhash_v3_seeded;

use super::super::{ctx::Ctx, shared::Shared};
use super::errors::{Outcome, Refused, WRONG_TYPE, refused};
use super::hash_record::key_expiry;
use super::joined::Whole;
use crate::clock::Ms;

pub(super) use hash::is_outgrown;
pub(in super::super) use list::Side;
pub(super) use list::{push_element, shift};
use pages::{Edits, FACTS};
pub(super) use pages::{head_of, put_copy};
pub(super) use steps::{BYTES, ITEMS, SlowMap, portion};
pub(super) use stream::RUN_ENTRIES;
pub(super) use tree::{At, Found, is_small};

impl From<Damaged> for Refused {
    /// A value that does not parse is no collection (a memcached client may store any flags).
    fn from(_: Damaged) -> Self {
        WRONG_TYPE.into()
    }
}

/// One of the trees of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tree {
    /// Of a list by position, of a set by member, of a sorted set by score and member, of a stream
    /// by ID, of a hash by field.
    Main,
    /// The members of a large sorted set.
    Members,
    /// The groups of a stream.
    Groups,
}

/// A run of items, or a node, as it lies in the store or in a head.
pub(super) enum Bytes {
    Own(Vec<u8>),
    Stored(Entry<'static>),
}

impl Bytes {
    pub(super) fn whole(&self) -> Whole<'_> {
        match self {
            Bytes::Own(bytes) => Whole::Stored(bytes),
            Bytes::Stored(entry) => Whole::of(entry),
        }
    }

    /// Their number. Nothing is copied.
    pub(super) fn len(&self) -> usize {
        match self {
            Bytes::Own(bytes) => bytes.len(),
            Bytes::Stored(entry) => entry.len() as usize,
        }
    }

    /// In one copy, if they lie in several pieces, too.
    pub(super) fn to_vec(&self) -> Vec<u8> {
        match self {
            Bytes::Own(bytes) => bytes.clone(),
            Bytes::Stored(entry) => {
                let mut bytes = Vec::with_capacity(entry.len() as usize);
                entry.chunks().for_each(|chunk| bytes.extend_from_slice(chunk));
                bytes
            }
        }
    }

    pub(super) fn into_vec(self) -> Vec<u8> {
        match self {
            Bytes::Own(bytes) => bytes,
            stored => stored.to_vec(),
        }
    }
}

/// A collection of a command.
pub(super) struct Coll<'a> {
    pub(super) kind: Kind,
    pub(super) head: Head,
    ns: Namespace,
    key: &'a [u8],
    shared: &'a Shared,
    now: Ms,
    old: Option<Entry<'static>>,
    expires: Option<Ms>,
    owner: Option<Owner>,
    /// Parts written since it was opened, and parts that the commit deletes.
    fresh: Vec<u64>,
    stale: Vec<u64>,
    /// Parts that the commit rewrites where they lie.
    edits: Edits,
    /// Room of the part with its facts, if they lie in one.
    facts: Option<usize>,
    /// Number of the commits with its stripe when it was opened, if its reader does not hold that.
    unlocked: Option<u64>,
    /// Changes of the records of a stream's groups that the commit applies.
    changes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// A field of this hash expires, or did: separators end with times.
    has_times: bool,
    /// Bytes of parts longer than a run of several items that were read and written.
    long: Cell<usize>,
    committed: bool,
}

impl<'a> Coll<'a> {
    /// A new collection at this time that replaces `old`.
    pub(super) fn new(
        shared: &'a Shared,
        (ns, key): (Namespace, &'a [u8]),
        kind: Kind,
        old: Option<Entry<'static>>,
        now: Ms,
    ) -> Coll<'a> {
        Coll {
            kind,
            head: Head::default(),
            ns,
            key,
            shared,
            now,
            expires: old.as_ref().and_then(key_expiry),
            old,
            owner: None,
            fresh: Vec::new(),
            stale: Vec::new(),
            edits: Edits::default(),
            facts: None,
            unlocked: None,
            changes: BTreeMap::new(),
            has_times: false,
            long: Cell::new(0),
            committed: false,
        }
    }

    /// The collection of an entry.
    pub(super) fn of(
        shared: &'a Shared,
        place: (Namespace, &'a [u8]),
        kind: Kind,
        entry: Entry<'static>,
        now: Ms,
    ) -> Outcome<Coll<'a>> {
        Coll::seen(shared, place, kind, entry, now, None)
    }

    /// The same for a reader that does not hold its stripe, with the number of commits.
    fn seen(
        shared: &'a Shared,
        place: (Namespace, &'a [u8]),
        kind: Kind,
        entry: Entry<'static>,
        now: Ms,
        unlocked: Option<u64>,
    ) -> Outcome<Coll<'a>> {
        if Kind::of(entry.flags()) != Some(kind) {
            return Err(WRONG_TYPE.into());
        }
        let mut coll = Coll::new(shared, place, kind, None, now);
        coll.unlocked = unlocked;
        coll.expires = key_expiry(&entry);
        coll.head = match facts_apart(entry.head()) {
            None => Head::read(&Whole::of(&entry))?,
            Some(id) => {
                coll.head.id = id;
                let facts = coll.read_facts()?;
                Head { times: key_times(entry.head()), id, ..Head::read(&facts)? }
            }
        };
        if (kind == Kind::Hash) != coll.head.times.is_some() {
            return Err(WRONG_TYPE.into());
        }
        coll.has_times = coll.head.times.is_some_and(|times| times.soonest != 0);
        coll.old = Some(entry);
        Ok(coll)
    }
}

impl<'a> Coll<'a> {
    /// Its key.
    pub(super) fn key(&self) -> &'a [u8] {
        self.key
    }

    /// The version of the entry that was read; 0: there was none.
    pub(super) fn version(&self) -> u64 {
        self.old.as_ref().map_or(0, Entry::version)
    }
}

impl Coll<'_> {
    /// Number of items.
    pub(super) fn len(&self) -> u64 {
        self.head.count
    }

    /// Is it one run of items in its head?
    pub(super) fn is_packed(&self) -> bool {
        self.head.main.level == 0
    }

    /// A result that is stored does not expire when what it replaces would have.
    pub(super) fn forget_expiry(&mut self) {
        self.expires = None;
    }

    fn store(&self) -> &'static Store {
        self.shared.store
    }

    pub(super) fn shape(&self) -> Shape {
        match self.kind {
            Kind::SortedSet => Shape::Scored,
            Kind::Stream => Shape::Valued,
            Kind::List | Kind::Set => Shape::Bare,
            Kind::Hash => Shape::Field,
        }
    }

    fn root(&mut self, tree: Tree) -> &mut Root {
        match tree {
            Tree::Main => &mut self.head.main,
            Tree::Members | Tree::Groups => self.head.members.get_or_insert_default(),
        }
    }

    /// Half of a member's hash value, by which sets are ordered; not 0, the cursor of a new walk.
    fn mark(&self, member: &[u8]) -> u64 {
        mark(self.shared, member)
    }

    fn owner(&mut self) -> Outcome<Owner> {
        if self.head.id == 0 {
            self.head.id = self.shared.part_owner();
        }
        if let Some(owner) = self.owner {
            return Ok(owner);
        }
        let owner = self.store().owner(self.ns, self.key, self.head.id).ok_or(Refused::Key)?;
        self.owner = Some(owner);
        Ok(owner)
    }

    /// Writes the changed collection in place of the one that was read; one without items is
    /// deleted. None: another write came first, and nothing has changed.
    pub(super) fn commit(self, ctx: &mut Ctx<'_>) -> Outcome<Option<()>> {
        // XADD alone calls the clients that wait for a stream.
        let calls = self.head.count > 0 && matches!(self.kind, Kind::List | Kind::SortedSet);
        let (ns, key) = (self.ns, self.key);
        let done = self.commit_quietly()?;
        if done.is_some() && calls {
            ctx.face.signal(ns, key);
        }
        Ok(done)
    }

    /// The same without a word to clients that wait.
    pub(super) fn commit_quietly(mut self) -> Outcome<Option<()>> {
        if self.kind == Kind::SortedSet && self.head.count > 0 {
            self.settle_members()?;
        }
        self.apply_changes()?;
        let done = if self.head.count == 0 && self.kind != Kind::Stream {
            self.old.as_ref().is_none_or(|old| self.store().delete_same(old, self.now))
        } else if self.has_parts() {
            self.put_tree()?
        } else if self.kind == Kind::Hash {
            self.put_record()?
        } else {
            self.put_head()?
        };
        self.committed = done;
        if !done {
            return Ok(None);
        }
        if self.facts.is_some() && !self.has_parts() {
            self.stale.push(FACTS);
        }
        let stale = std::mem::take(&mut self.stale);
        self.delete(&stale);
        Ok(Some(()))
    }

    /// Leaves a new collection that is built in several steps: its parts lie in the store, without
    /// an owner until [`Coll::commit`] stores the head that this returns.
    pub(super) fn suspend(mut self) -> Outcome<Head> {
        if self.kind == Kind::SortedSet && self.head.count > 0 {
            self.settle_members()?;
        }
        self.apply_changes()?;
        self.apply_edits()?;
        self.committed = true;
        let stale = std::mem::take(&mut self.stale);
        self.delete(&stale);
        Ok(std::mem::take(&mut self.head))
    }

    /// Sets the expiry of its key.
    pub(super) fn expire(&mut self, expires: Option<Ms>) {
        self.expires = expires;
    }

    /// Writes the head of a collection without parts.
    fn put_head(&mut self) -> Outcome<bool> {
        if self.kind == Kind::Stream && self.head.extra.is_empty() {
            self.set_state(&State::default());
        }
        let head = self.head.write();
        let (flags, expires) = (self.kind.flags(), self.expires);
        self.put_entry(Put { value: &[&head], flags, expires, ..Put::default() })
    }

    /// Stores the entry under its key in place of the one that was read. False: another write came
    /// first.
    fn put_entry(&self, put: Put<'_>) -> Outcome<bool> {
        let condition = self.old.as_ref().map_or(If::Absent, If::Same);
        match self.store().put(self.ns, self.key, put, condition, self.now) {
            Ok(_) => Ok(true),
            Err(PutError::Exists | PutError::NotFound) => Ok(false),
            Err(error) => Err(refused(error, self.key)),
        }
    }
}

impl Drop for Coll<'_> {
    fn drop(&mut self) {
        if !self.committed && !self.fresh.is_empty() {
            let fresh = std::mem::take(&mut self.fresh);
            self.delete(&fresh);
        }
    }
}

/// Half of the hash value of a member or field.
pub(super) fn mark(shared: &Shared, member: &[u8]) -> u64 {
    (rapidhash_v3_seeded(member, &shared.marks) >> 1).max(1)
}

/// The collection of an entry. None: a string, or the record of a small hash.
pub(super) fn kind_of(entry: &Entry<'_>) -> Option<Kind> {
    Kind::of(entry.flags())
}

impl<'a> Ctx<'a> {
    /// Opens a collection to change it.
    pub(super) fn open<'k>(&self, key: &'k [u8], kind: Kind) -> Outcome<Option<Coll<'k>>>
    where
        'a: 'k,
    {
        let entry = self.store.peek(self.ns, key, self.now);
        self.coll(key, entry, kind)
    }

    /// Opens a collection to read it: counts it and marks it as read.
    pub(super) fn open_to_read<'k>(
        &mut self,
        key: &'k [u8],
        kind: Kind,
    ) -> Outcome<Option<Coll<'k>>>
    where
        'a: 'k,
    {
        let entry = self.read(key);
        self.coll(key, entry, kind)
    }

    /// Opens a collection, or begins a new one.
    pub(super) fn open_or_new<'k>(&self, key: &'k [u8], kind: Kind) -> Outcome<Coll<'k>>
    where
        'a: 'k,
    {
        match self.open(key, kind)? {
            Some(coll) => Ok(coll),
            None => Ok(self.new_coll(key, kind, None)),
        }
    }

    /// A new collection that replaces `old`.
    pub(super) fn new_coll<'k>(
        &self,
        key: &'k [u8],
        kind: Kind,
        old: Option<Entry<'static>>,
    ) -> Coll<'k>
    where
        'a: 'k,
    {
        Coll::new(self.shared, (self.ns, key), kind, old, self.now)
    }

    /// A collection with a head of [`Coll::suspend`], that replaces `old`.
    pub(super) fn resume<'k>(
        &self,
        key: &'k [u8],
        kind: Kind,
        head: Head,
        old: Option<Entry<'static>>,
    ) -> Coll<'k>
    where
        'a: 'k,
    {
        let mut coll = self.new_coll(key, kind, old);
        // Its times are not known yet: they are looked up.
        coll.has_times = kind == Kind::Hash;
        coll.head = head;
        coll
    }

    /// The collection of an entry.
    pub(super) fn coll<'k>(
        &self,
        key: &'k [u8],
        entry: Option<Entry<'static>>,
        kind: Kind,
    ) -> Outcome<Option<Coll<'k>>>
    where
        'a: 'k,
    {
        let Some(entry) = entry else { return Ok(None) };
        let place = (self.ns, key);
        if kind != Kind::Hash || self.need_stripe().is_ok() {
            return Coll::of(self.shared, place, kind, entry, self.now).map(Some);
        }
        let commits = self.shared.locks.commits(key).ok_or(Refused::Unlocked)?;
        Coll::seen(self.shared, place, kind, entry, self.now, Some(commits)).map(Some)
    }
}
