//! The table of what the kernel knows by number: from its first lookup to its `forget`.

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, RwLock};

use super::{kept::Held, tree::Identity};

/// The number of the root, fixed by the protocol.
pub(super) const ROOT: u64 = 1;
/// Numbers from here on are given where the inode's own is taken.
const OWN_NUMBERS: u64 = 1 << 63;
/// The number that no node ever has: the kernel may forget it.
pub(super) const NO_NODE: u64 = OWN_NUMBERS;
/// Names of one file that are remembered. A change by a further one is noticed by its inode.
const NAMES: usize = 16;

/// A name in a directory.
pub(super) type Place = (u64, OsString);

/// A file or directory that the kernel knows.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) id: u64,
    pub(super) identity: Identity,
    /// Names under which it was looked up; the last one is the latest.
    places: Mutex<Vec<Place>>,
    /// The time at which a name of it was last told to the kernel.
    told: Mutex<Instant>,
    pub(super) state: Mutex<State>,
    /// It was used since the keeper of descriptors last looked.
    pub(super) used: AtomicBool,
}

/// Its descriptors.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) held: Option<Held>,
    /// From a lookup of late, to open the same file even if its name means another one by then.
    pub(super) looked: Option<Arc<OwnedFd>>,
    /// Handles of the kernel that are not released; the descriptor stays while there are some.
    pub(super) opens: u32,
    /// The version of the content when it was last opened: size, modification, change.
    pub(super) version: Option<(u64, i64, u32, i64, u32)>,
}

impl Node {
    fn new(id: u64, identity: Identity) -> Node {
        Node {
            id,
            identity,
            places: Mutex::default(),
            told: Mutex::new(Instant::now()),
            state: Mutex::default(),
            used: AtomicBool::new(true),
        }
    }

    /// The latest name.
    pub(super) fn place(&self) -> Option<Place> {
        self.places.lock().last().cloned()
    }

    /// Whether a name was told to the kernel within this time.
    pub(super) fn told_within(&self, time: Duration) -> bool {
        self.told.lock().elapsed() < time
    }

    pub(super) fn touch(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }
}

#[derive(Debug)]
struct Known {
    node: Arc<Node>,
    /// Lookups that the kernel has not taken back.
    lookups: u64,
}

#[derive(Debug, Default)]
struct Tables {
    by_id: HashMap<u64, Known>,
    by_identity: HashMap<Identity, u64>,
    names: HashMap<Place, u64>,
    next: u64,
}

/// All nodes. As many as the kernel keeps inodes of the mount; it forgets them when memory is
/// short.
#[derive(Debug)]
pub(super) struct Nodes {
    tables: RwLock<Tables>,
    root: Arc<Node>,
}

impl Nodes {
    pub(super) fn new(root: Identity) -> Nodes {
        let root = Arc::new(Node::new(ROOT, root));
        let mut tables = Tables::default();
        tables.by_identity.insert(root.identity, ROOT);
        tables.by_id.insert(ROOT, Known { node: root.clone(), lookups: 1 });
        Nodes { tables: RwLock::new(tables), root }
    }

    pub(super) fn get(&self, id: u64) -> Option<Arc<Node>> {
        if id == ROOT {
            return Some(self.root.clone());
        }
        self.tables.read().by_id.get(&id).map(|known| known.node.clone())
    }

    /// The node with this name, if it was looked up.
    pub(super) fn named(&self, parent: u64, name: &OsStr) -> Option<Arc<Node>> {
        let tables = self.tables.read();
        let id = tables.names.get(&(parent, name.to_owned()))?;
        tables.by_id.get(id).map(|known| known.node.clone())
    }

    pub(super) fn with(&self, identity: &Identity) -> Option<Arc<Node>> {
        let tables = self.tables.read();
        tables.by_id.get(tables.by_identity.get(identity)?).map(|known| known.node.clone())
    }

    /// The node of a file that was just looked up under a name; counts the lookup.
    pub(super) fn enter(&self, identity: Identity, parent: u64, name: &OsStr) -> Arc<Node> {
        let mut tables = self.tables.write();
        let tables = &mut *tables;
        let id = match tables.by_identity.get(&identity) {
            Some(id) => *id,
            None => tables.number(identity, self.root.identity.device),
        };
        tables.by_identity.insert(identity, id);
        let known = tables
            .by_id
            .entry(id)
            .or_insert_with(|| Known { node: Arc::new(Node::new(id, identity)), lookups: 0 });
        known.lookups += 1;
        let node = known.node.clone();
        *node.told.lock() = Instant::now();
        let place = (parent, name.to_owned());
        let mut places = node.places.lock();
        if places.last() != Some(&place) {
            places.retain(|other| *other != place);
            if places.len() == NAMES {
                tables.unname(&places.remove(0), id);
            }
            places.push(place.clone());
        }
        tables.names.insert(place, id);
        drop(places);
        node
    }

    /// Takes lookups back. When none is left, `gone` is called before the file can be looked up
    /// again.
    pub(super) fn forget(&self, id: u64, count: u64, gone: impl FnOnce(&Node)) {
        if id == ROOT {
            return;
        }
        let mut tables = self.tables.write();
        let Some(known) = tables.by_id.get_mut(&id) else { return };
        known.lookups = known.lookups.saturating_sub(count);
        if known.lookups > 0 {
            return;
        }
        let Some(Known { node, .. }) = tables.by_id.remove(&id) else { return };
        tables.by_identity.remove(&node.identity);
        for place in node.places.lock().iter() {
            tables.unname(place, id);
        }
        gone(&node);
    }

    /// Everything that the kernel knows, at this moment.
    pub(super) fn all(&self) -> Vec<Arc<Node>> {
        self.tables.read().by_id.values().map(|known| known.node.clone()).collect()
    }
}

impl Tables {
    /// The inode's own number, where it is free: programs see the numbers of the source.
    fn number(&mut self, identity: Identity, device: u64) -> u64 {
        let own = identity.inode;
        let usable = identity.device == device && own > ROOT && own < OWN_NUMBERS;
        if usable && !self.by_id.contains_key(&own) {
            return own;
        }
        self.next += 1;
        OWN_NUMBERS + self.next
    }

    fn unname(&mut self, place: &Place, id: u64) {
        if self.names.get(place) == Some(&id) {
            self.names.remove(place);
        }
    }
}
