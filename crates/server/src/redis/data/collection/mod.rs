//! Collections in the store: lists, sets, sorted sets, streams and large hashes, by one interface.
//!
//! A [`Coll`] is a collection that a command reads or changes: its head, read from the store, with
//! the runs and nodes it has changed. [`Coll::commit`] writes the head in place of the one that was
//! read; before that nobody sees a change. Dispatch holds the stripe of the key, for reads too.
//!
//! Changed runs and nodes become new parts; the old ones are deleted after the commit. A part that
//! is missing was evicted: the collection counts as evicted as a whole.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | opening and committing, parts |
//! | `tree.rs` | finding and replacing runs in a tree |
//! | `list.rs`, `set.rs`, `zset.rs`, `stream.rs`, `hash.rs` | operations on items of each type |
//! | `records.rs` | the records of a stream's groups |
//! | `steps.rs` | commands over many items, in steps |

mod hash;
mod list;
mod records;
mod set;
mod steps;
mod stream;
mod tree;
mod zset;

use std::{cell::Cell, collections::BTreeMap};

use larder_proto::resp::collection::{Damaged, Head, Kind, Root, Shape};
use larder_proto::resp::stream::State;
use larder_store::{Entry, If, Namespace, Owner, Put, PutError, Store};
use rapidhash::v3::rapidhash_v3_seeded;

use super::super::{
    ctx::{Class, Ctx},
    shared::Shared,
};
use super::errors::{Outcome, Refused, WRONG_TYPE, refused};
use super::hash_record::key_expiry;
use super::joined::Whole;
use crate::{clock::Ms, settings::PARTS};

pub(super) use hash::is_outgrown;
pub(in super::super) use list::Side;
pub(super) use list::{push_element, shift};
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
        if Kind::of(entry.flags()) != Some(kind) {
            return Err(WRONG_TYPE.into());
        }
        let head = Head::read(&Whole::of(&entry))?;
        if (kind == Kind::Hash) != head.times.is_some() {
            return Err(WRONG_TYPE.into());
        }
        let mut coll = Coll::new(shared, place, kind, Some(entry), now);
        coll.has_times = head.times.is_some_and(|times| times.soonest != 0);
        coll.head = head;
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

    /// Reads a part.
    fn part(&self, number: u64) -> Outcome<Bytes> {
        let owner = self.owner.or_else(|| self.store().owner(self.ns, self.key, self.head.id));
        let key = owner.ok_or(Refused::Key)?.part(number);
        match self.store().peek(PARTS, &key, self.now) {
            Some(entry) => {
                self.count_long(entry.len() as usize);
                Ok(Bytes::Stored(entry))
            }
            None => Err(self.lost()),
        }
    }

    /// A part is missing: the collection is gone as a whole.
    #[cold]
    fn lost(&self) -> Refused {
        if let Some(old) = &self.old
            && self.store().delete_same(old, self.now)
        {
            self.shared.removed(self.ns, self.key, Class::Evicted, "evicted");
        }
        Refused::Lost
    }

    /// Writes a new part; returns its number.
    fn put_part(&mut self, bytes: &[u8]) -> Outcome<u64> {
        let number = self.head.next;
        let key = self.owner()?.part(number);
        let put = Put { value: &[bytes], ..Put::default() };
        match self.store().put(PARTS, &key, put, If::Always, self.now) {
            Ok(_) => {}
            Err(error) => return Err(refused(error, self.key)),
        }
        self.count_long(bytes.len());
        self.head.next += 1;
        self.head.bytes += bytes.len() as u64;
        self.fresh.push(number);
        Ok(number)
    }

    /// Counts a part that is read or written, if it is a long one: a number of items says nothing
    /// of the time that these take.
    fn count_long(&self, bytes: usize) {
        if bytes > tree::RUN {
            self.long.set(self.long.get() + bytes);
        }
    }

    /// Bytes of long parts that were read and written since it was opened.
    pub(super) fn long_bytes(&self) -> usize {
        self.long.get()
    }

    /// A part of so many bytes is not used any more.
    fn drop_part(&mut self, number: u64, len: usize) {
        self.head.bytes = self.head.bytes.saturating_sub(len as u64);
        self.stale.push(number);
    }

    fn delete(&self, parts: &[u64]) {
        let Some(owner) =
            self.owner.or_else(|| self.store().owner(self.ns, self.key, self.head.id))
        else {
            return;
        };
        for number in parts {
            self.store().delete(PARTS, &owner.part(*number), self.now);
        }
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
        } else if self.kind == Kind::Hash {
            self.put_hash()?
        } else {
            self.put_head()?
        };
        self.committed = done;
        if !done {
            return Ok(None);
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
        self.committed = true;
        let stale = std::mem::take(&mut self.stale);
        self.delete(&stale);
        Ok(std::mem::take(&mut self.head))
    }

    /// Sets the expiry of its key.
    pub(super) fn expire(&mut self, expires: Option<Ms>) {
        self.expires = expires;
    }

    fn put_head(&mut self) -> Outcome<bool> {
        let is_packed = self.is_packed() && self.head.members.as_ref().is_none_or(|r| r.level == 0);
        if self.kind == Kind::Stream && self.head.extra.is_empty() {
            self.set_state(&State::default());
        }
        let head = self.head.write();
        let put = Put {
            value: &[&head],
            flags: self.kind.flags(),
            expires: self.expires,
            // The version by which its parts find it.
            version: (!is_packed).then_some(self.head.id),
            ..Put::default()
        };
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
        Coll::of(self.shared, (self.ns, key), kind, entry, self.now).map(Some)
    }
}
