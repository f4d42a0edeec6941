//! Parts of a tree, and its commit.
//!
//! The head of a collection with parts lies in a part of its own, its *facts*: the entry under the
//! key has the number alone that names the parts, and the times of a hash. So most changes rewrite
//! three parts where they lie (a run, a node, the facts) and write nothing anew. (A head that is
//! too large for that, and one of an earlier version, is the entry itself.)
//!
//! The order of a commit: first whatever may fail for lack of memory, which nobody sees yet; then
//! the changes in place, which do not fail; then the deletions. All that is one for a process that
//! takes over (`Store::together`). A reader of a hash without its stripe compares the number of
//! commits before and after it reads ([`Locks::commits`]).
//!
//! [`Locks::commits`]: super::super::super::locks::Locks::commits

use larder_proto::resp::collection::{Head, Kind, Root, facts_apart};
use larder_store::{Entry, MOST_ROOM, Namespace, Owner, Part, Put, PutError, Store};

use super::super::super::{ctx::Class, shared::Shared};
use super::super::errors::{Outcome, Refused, refused};
use super::super::joined::Whole;
use super::{Bytes, Coll, tree};
use crate::clock::Ms;

/// The number of the part with the facts.
pub(super) const FACTS: u64 = u64::MAX;

/// A part that is going to be rewritten.
struct Edit {
    part: u64,
    room: usize,
    bytes: Vec<u8>,
}

/// Parts that are going to be rewritten, by number.
#[derive(Default)]
pub(super) struct Edits(Vec<Edit>);

impl Edits {
    fn place(&self, part: u64) -> Result<usize, usize> {
        self.0.binary_search_by_key(&part, |edit| edit.part)
    }

    fn get(&self, part: u64) -> Option<&Edit> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(self.place(part).ok()?)
    }

    fn put(&mut self, edit: Edit) {
        match self.place(edit.part) {
            Ok(at) => self.0[at] = edit,
            Err(at) => self.0.insert(at, edit),
        }
    }

    fn remove(&mut self, part: u64) {
        if let Ok(at) = self.place(part) {
            self.0.remove(at);
        }
    }
}

/// Room for a part of so many bytes: an eighth to grow, so that one change in many writes it anew,
/// and a sixteenth of the memory is empty.
fn room(len: usize) -> usize {
    len + len / 8 + 24
}

/// Does a part with this room stay where it is with so many bytes? Not if most of it would be
/// empty.
pub(super) fn fits(room: usize, len: usize) -> bool {
    const FEW: usize = 256;
    len <= room && (len >= room / 2 || room <= FEW)
}

/// A commit under way. One that a panic ends in the middle leaves parts of two times: the
/// collection is dropped as a whole.
struct Half<'a> {
    store: &'static Store,
    ns: Namespace,
    key: &'a [u8],
    id: u64,
}

impl Drop for Half<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.store.delete_if(self.ns, self.key, self.id);
        }
    }
}

impl Coll<'_> {
    /// Is it a tree, or has it one?
    pub(super) fn has_parts(&self) -> bool {
        let is_tree = |root: &Root| root.level > 0;
        is_tree(&self.head.main) || self.head.members.as_ref().is_some_and(is_tree)
    }

    fn known_owner(&self) -> Outcome<Owner> {
        let owner = self.owner.or_else(|| self.store().owner(self.ns, self.key, self.head.id));
        owner.ok_or(Refused::Key)
    }

    /// Reads a part; returns its room, too.
    pub(super) fn page(&self, number: u64) -> Outcome<(Bytes, usize)> {
        if let Some(edit) = self.edits.get(number) {
            return Ok((Bytes::Own(edit.bytes.clone()), edit.room));
        }
        let mut bytes = Vec::new();
        match self.store().read_part(&self.known_owner()?, number, &mut bytes, self.now) {
            Some(Part::Copied(room)) => Ok((Bytes::Own(bytes), room)),
            Some(Part::Fixed(entry)) => {
                self.count_long(entry.len() as usize);
                Ok((Bytes::Stored(entry), 0))
            }
            None => Err(self.lost()),
        }
    }

    /// Reads a part.
    pub(super) fn part(&self, number: u64) -> Outcome<Bytes> {
        Ok(self.page(number)?.0)
    }

    /// Counts a part that is read or written, if it is a long one: a number of items says nothing
    /// of the time that these take.
    fn count_long(&self, bytes: usize) {
        if bytes > tree::RUN {
            self.long.set(self.long.get() + bytes);
        }
    }

    /// Bytes of long parts that were read and written since it was opened.
    pub(in super::super) fn long_bytes(&self) -> usize {
        self.long.get()
    }

    /// Reads the facts.
    pub(super) fn read_facts(&mut self) -> Outcome<Vec<u8>> {
        self.owner()?;
        let (facts, room) = self.page(FACTS)?;
        self.facts = Some(room);
        Ok(facts.into_vec())
    }

    /// A part is missing: the collection is gone as a whole. A reader without the stripe may have
    /// looked for a part that a writer has just replaced.
    #[cold]
    fn lost(&self) -> Refused {
        if self.unlocked.is_some() {
            return Refused::Unlocked;
        }
        if self.store().delete_if(self.ns, self.key, self.head.id) {
            self.shared.removed(self.ns, self.key, Class::Evicted, "evicted");
        }
        Refused::Lost
    }

    /// Continues only if no writer has committed since the collection was opened.
    #[inline]
    pub(super) fn still(&self) -> Outcome {
        match self.unlocked {
            Some(seen) if self.shared.locks.commits(self.key) != Some(seen) => {
                Err(Refused::Unlocked)
            }
            _ => Ok(()),
        }
    }

    /// Writes a new part; returns its number.
    pub(super) fn put_part(&mut self, bytes: &[u8]) -> Outcome<u64> {
        let (number, owner) = (self.head.next, self.owner()?);
        let most = self.run_size().max(bytes.len());
        let room = room(bytes.len()).min(most);
        if let Err(error) =
            self.store().put_part(&owner, number, bytes, room, self.shared.clock.now())
        {
            return Err(refused(error, self.key));
        }
        self.count_long(bytes.len());
        self.head.next += 1;
        self.head.bytes += bytes.len() as u64;
        self.fresh.push(number);
        Ok(number)
    }

    /// A part of so many bytes is not used any more.
    pub(super) fn drop_part(&mut self, number: u64, len: usize) {
        self.head.bytes = self.head.bytes.saturating_sub(len as u64);
        self.edits.remove(number);
        self.stale.push(number);
    }

    /// A part gets these bytes in place of `before`; it has room for them.
    pub(super) fn edit(&mut self, part: u64, room: usize, before: usize, bytes: Vec<u8>) {
        self.head.bytes = (self.head.bytes + bytes.len() as u64).saturating_sub(before as u64);
        self.edits.put(Edit { part, room, bytes });
    }

    pub(super) fn delete(&self, parts: &[u64]) {
        if parts.is_empty() {
            return;
        }
        let Ok(owner) = self.known_owner() else { return };
        for number in parts {
            self.store().delete_part(&owner, *number, self.now);
        }
    }

    /// Rewrites parts.
    pub(super) fn apply_edits(&mut self) -> Outcome {
        if self.edits.0.is_empty() {
            return Ok(());
        }
        let owner = self.owner()?;
        for edit in std::mem::take(&mut self.edits).0 {
            if !self.store().rewrite_part(&owner, edit.part, &edit.bytes, self.now) {
                return Err(self.lost());
            }
        }
        Ok(())
    }

    /// Writes the changed collection, which has parts. False: another write came first, and nothing
    /// has changed.
    pub(super) fn put_tree(&mut self) -> Outcome<bool> {
        let owner = self.owner()?;
        let (flags, expires) = match self.kind {
            Kind::Hash => self.settle_times()?,
            kind => (kind.flags(), self.expires),
        };
        let (facts, apart) = (self.head.write(), self.head.apart());
        // Long separators may make the roots so large that they lie under the key.
        let is_apart = facts.len() <= MOST_ROOM;
        if is_apart && self.facts.is_none_or(|room| room < facts.len()) {
            self.make_room(&owner, &facts)?;
        }
        let value = if is_apart { &apart } else { &facts };
        let old = self.old.as_ref().filter(|_| is_apart);
        let stays = old.is_some_and(|old| {
            old.flags() == flags && old.expires() == expires && old.head() == &apart[..]
        });
        let shared = self.shared;
        let _whole = shared.store.together();
        let commit = shared.locks.commit(self.key);
        let half = Half { store: shared.store, ns: self.ns, key: self.key, id: self.head.id };
        let version = Some(self.head.id);
        let put = Put { value: &[value], flags, expires, version, ..Put::default() };
        if !stays && !self.put_entry(put)? {
            return Ok(false);
        }
        // From here on the tree is the one that others see.
        self.fresh.clear();
        self.apply_edits()?;
        if !is_apart {
            self.stale.extend(self.facts.map(|_| FACTS));
        } else if !self.store().rewrite_part(&owner, FACTS, &facts, self.now) {
            return Err(self.lost());
        }
        if stays && let Some(old) = &self.old {
            self.store().note_use(old, shared.clock.now());
        }
        std::mem::forget(half);
        drop(commit);
        let stale = std::mem::take(&mut self.stale);
        self.delete(&stale);
        if let Some(times) = self.head.times.filter(|times| times.soonest != 0) {
            self.shared.due_fields.add(self.ns, self.key, times.soonest);
        }
        Ok(true)
    }

    /// Gives the part with the facts room for these. Those that are there stay for now.
    #[cold]
    fn make_room(&mut self, owner: &Owner, facts: &[u8]) -> Outcome {
        let (store, is_new) = (self.store(), self.facts.is_none());
        let there = if is_new { None } else { Some(self.page(FACTS)?.0.into_vec()) };
        let bytes = there.as_deref().unwrap_or(facts);
        let put = store.put_part(owner, FACTS, bytes, room(facts.len()), self.shared.clock.now());
        put.map_err(|error| refused(error, self.key))?;
        if is_new {
            self.fresh.push(FACTS);
        }
        Ok(())
    }
}

/// The head of an entry, wherever it lies. None: a part is missing, or it is none.
pub(in super::super) fn head_of(
    shared: &Shared,
    place: (Namespace, &[u8]),
    entry: &Entry<'_>,
    now: Ms,
) -> Option<Head> {
    let Some(id) = facts_apart(entry.head()) else { return Head::read(&Whole::of(entry)).ok() };
    let owner = shared.store.owner(place.0, place.1, id)?;
    let mut facts = Vec::new();
    match shared.store.read_part(&owner, FACTS, &mut facts, now)? {
        Part::Copied(_) => Head::read(&facts).ok(),
        Part::Fixed(entry) => Head::read(&Whole::of(&entry)).ok(),
    }
}

/// Stores the facts of a copied collection with parts; returns the bytes of the entry under its
/// key.
pub(in super::super) fn put_copy(
    store: &Store,
    owner: &Owner,
    head: &Head,
    now: Ms,
) -> Result<Vec<u8>, PutError> {
    let facts = head.write();
    if facts.len() > MOST_ROOM {
        return Ok(facts);
    }
    store.put_part(owner, FACTS, &facts, room(facts.len()), now)?;
    Ok(head.apart())
}
