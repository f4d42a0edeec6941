//! The table of what the kernel knows of a site, by number. A file's number belongs to one version
//! of a page: when the page changes, its name leads to another number, and content of two versions
//! is never mixed.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::{OsStr, OsString},
    sync::Arc,
};

use fuser::FileType;

use super::version::{Type, Version};

/// The number of the root, fixed by the protocol.
pub(super) const ROOT: u64 = 1;
/// Names of a directory that are listed because they were looked up; further ones are found by
/// their names alone.
const NAMES: usize = 65_536;

/// A directory or one version of a page.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Thing {
    /// Its path, which ends with a slash.
    Directory(Arc<str>),
    /// Its path.
    File(Arc<str>, Version),
}

impl Thing {
    pub(super) fn kind(&self) -> FileType {
        match self {
            Thing::Directory(_) => FileType::Directory,
            Thing::File(..) => FileType::RegularFile,
        }
    }
}

#[derive(Debug)]
struct Known {
    thing: Thing,
    /// Of a file: as the latest lookup found it.
    kind: Type,
    /// Lookups that the kernel has not taken back.
    lookups: u64,
    /// Names in a directory that were found.
    names: BTreeMap<OsString, (u64, FileType)>,
}

/// All nodes. As many as the kernel keeps inodes of the mount.
#[derive(Debug)]
pub(super) struct Nodes {
    by_id: HashMap<u64, Known>,
    by_thing: HashMap<Thing, u64>,
    next: u64,
}

impl Nodes {
    pub(super) fn new(root: &str) -> Nodes {
        let thing = Thing::Directory(root.into());
        let known = Known {
            thing: thing.clone(),
            kind: Type::default(),
            lookups: 1,
            names: BTreeMap::new(),
        };
        Nodes {
            by_id: HashMap::from([(ROOT, known)]),
            by_thing: HashMap::from([(thing, ROOT)]),
            next: ROOT,
        }
    }

    pub(super) fn get(&self, id: u64) -> Option<Thing> {
        self.by_id.get(&id).map(|known| known.thing.clone())
    }

    /// The type of a file.
    pub(super) fn kind(&self, id: u64) -> Option<Type> {
        self.by_id.get(&id).map(|known| known.kind.clone())
    }

    /// A name was found; counts the lookup. Gives its number.
    pub(super) fn enter(&mut self, parent: u64, name: &OsStr, found: (Thing, Type)) -> u64 {
        let (thing, of) = found;
        let id = *self.by_thing.entry(thing.clone()).or_insert_with(|| {
            self.next += 1;
            self.next
        });
        let kind = thing.kind();
        let fresh = || Known { thing, kind: Type::default(), lookups: 0, names: BTreeMap::new() };
        let known = self.by_id.entry(id).or_insert_with(fresh);
        known.lookups += 1;
        known.kind = of;
        if let Some(parent) = self.by_id.get_mut(&parent)
            && (parent.names.len() < NAMES || parent.names.contains_key(name))
        {
            parent.names.insert(name.to_owned(), (id, kind));
        }
        id
    }

    /// A name is not there.
    pub(super) fn absent(&mut self, parent: u64, name: &OsStr) {
        if let Some(parent) = self.by_id.get_mut(&parent) {
            parent.names.remove(name);
        }
    }

    /// The names of a directory that were found so far.
    pub(super) fn names(&self, id: u64) -> Vec<(OsString, u64, FileType)> {
        let names = self.by_id.get(&id).map(|known| known.names.iter());
        let names = names.into_iter().flatten();
        names.map(|(name, (id, kind))| (name.clone(), *id, *kind)).collect()
    }

    pub(super) fn forget(&mut self, id: u64, count: u64) {
        let Some(known) = self.by_id.get_mut(&id).filter(|_| id != ROOT) else { return };
        known.lookups = known.lookups.saturating_sub(count);
        if known.lookups == 0
            && let Some(known) = self.by_id.remove(&id)
        {
            self.by_thing.remove(&known.thing);
        }
    }
}
