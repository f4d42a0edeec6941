//! The source directory: from the kernel's numbers to open files.

use std::{
    ffi::OsStr,
    io,
    os::fd::OwnedFd,
    path::Path,
    sync::{Arc, OnceLock, atomic::AtomicBool},
    time::{Duration, Instant},
};

use fuser::FileAttr;
use rustix::{fs::Statx, io::Errno};

use super::{
    kept::{Held, Kept},
    nodes::{Node, Nodes, ROOT},
    tree::{self, Identity},
    watch::Watches,
};
use crate::{MirrorOptions, options};

/// Directories between a name and one whose descriptor is open, at most. The longest path that
/// Linux takes at once has 2048 components; deeper ones are reached by their descriptors.
const DEEPEST: usize = 4096;

/// The source, and everything that is kept of it.
#[derive(Debug)]
pub(super) struct Source {
    root: Arc<OwnedFd>,
    pub(super) nodes: Nodes,
    pub(super) kept: Kept,
    pub(super) watches: Watches,
    /// The kernel may read files itself.
    pub(super) passthrough: AtomicBool,
    /// The kernel asks for each open. Else it opens files by itself, and never closes them here.
    pub(super) opens: AtomicBool,
    lifetime: Duration,
    unwatched: Duration,
    own_device: OnceLock<u64>,
}

impl Source {
    pub(super) fn open(path: &Path, wanted: &MirrorOptions) -> io::Result<Source> {
        let root = tree::open_root(path)?;
        let identity = Identity::of(&tree::stat(&root)?);
        let descriptors = options::descriptors();
        Ok(Source {
            root: Arc::new(root),
            nodes: Nodes::new(identity),
            kept: Kept::new(wanted.files.unwrap_or(descriptors)),
            watches: Watches::new(wanted.watches),
            passthrough: AtomicBool::new(wanted.passthrough),
            opens: AtomicBool::new(wanted.opens),
            lifetime: wanted.lifetime,
            unwatched: wanted.unwatched.min(wanted.lifetime),
            own_device: OnceLock::new(),
        })
    }

    pub(super) fn root(&self) -> &OwnedFd {
        &self.root
    }

    /// The device of this mount, once it is known.
    pub(super) fn own_device(&self) -> Option<u64> {
        self.own_device.get().copied()
    }

    pub(super) fn set_own_device(&self, device: u64) {
        let _once = self.own_device.set(device);
    }

    /// How long the kernel may keep the names of a directory.
    pub(super) fn lifetime_in(&self, parent: u64) -> Duration {
        if self.watches.is_watched(parent) { self.lifetime } else { self.unwatched }
    }

    /// How long the kernel may keep attributes of a file with a name in this directory. Those of a
    /// directory change with the names in it; those of a file with several names may change by a
    /// name elsewhere.
    pub(super) fn lifetime_of(&self, node: &Node, parent: u64, stat: &Statx) -> Duration {
        if node.identity.is_directory() {
            self.lifetime_in(node.id)
        } else if stat.stx_nlink > 1 {
            self.unwatched
        } else {
            self.lifetime_in(parent)
        }
    }

    /// Runs a call that needs a descriptor; where there is none left, closes some and tries again.
    pub(super) fn with_descriptors<T>(&self, call: impl Fn() -> io::Result<T>) -> io::Result<T> {
        match call() {
            Err(error) if is_out_of_descriptors(&error) => {
                self.kept.halve();
                call()
            }
            done => done,
        }
    }

    /// The descriptor of a directory, to look up names in it.
    pub(super) fn directory(&self, node: &Arc<Node>) -> io::Result<Arc<OwnedFd>> {
        let mut chain = Vec::new();
        let mut at = node.clone();
        let mut open = loop {
            if at.id == ROOT {
                break self.root.clone();
            }
            if let Some(open) = self.current(&at) {
                break open;
            }
            let (parent, name) = at.place().ok_or(Errno::STALE)?;
            if chain.len() == DEEPEST {
                return Err(Errno::NAMETOOLONG.into());
            }
            let above = self.nodes.get(parent).ok_or(Errno::STALE)?;
            chain.push((at, name));
            at = above;
        };
        while let Some((below, name)) = chain.pop() {
            open = Arc::new(self.same(&open, &name, &below)?);
            self.keep_directory(&below, open.clone());
        }
        Ok(open)
    }

    /// The open descriptor of a directory, if its name cannot have changed since.
    fn current(&self, node: &Arc<Node>) -> Option<Arc<OwnedFd>> {
        let moves = self.watches.moves();
        let held = node.state.lock();
        let held = held.held.as_ref()?;
        node.touch();
        let trusted = self.lifetime_in(node.id);
        let current = held.moves == moves && held.since.elapsed() < trusted.max(MOST_BRIEF);
        current.then(|| held.file.clone())
    }

    /// Keeps the descriptor of a directory for the next names.
    pub(super) fn keep_directory(&self, node: &Arc<Node>, file: Arc<OwnedFd>) {
        let moves = self.watches.moves();
        let held = Held { file, backing: None, moves, since: Instant::now() };
        let before = node.state.lock().held.replace(held);
        if before.is_none() {
            self.kept.add(node);
        }
    }

    /// Opens a file that programs may open without a request, so that it stays readable for them
    /// when it is replaced or removed. One that cannot be opened gives its error to their reads.
    pub(super) fn keep_to_read(&self, node: &Arc<Node>, looked: &OwnedFd) {
        if node.state.lock().held.is_some() {
            return node.touch();
        }
        let opened = self.with_descriptors(|| tree::open_to_read(looked, false));
        let Ok(file) = opened.map(Arc::new) else { return };
        let moves = self.watches.moves();
        let held = Held { file, backing: None, moves, since: Instant::now() };
        if node.state.lock().held.replace(held).is_none() {
            self.kept.add(node);
        }
    }

    /// Opens a name to look at it, and checks that it still is this file.
    fn same(&self, dir: &OwnedFd, name: &OsStr, node: &Node) -> io::Result<OwnedFd> {
        let found = self.with_descriptors(|| tree::open_name(dir, name, self.own_device()));
        // The kernel looks the name up again when it reads ESTALE.
        let found = found.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Errno::STALE.into(),
            _ => error,
        })?;
        if Identity::of(&tree::stat(&found)?) != node.identity {
            return Err(Errno::STALE.into());
        }
        Ok(found)
    }

    /// The kernel takes lookups back. A forgotten directory is not watched any more; a lookup of
    /// the same directory at this moment comes before both or after both.
    pub(super) fn forget(&self, id: u64, count: u64) {
        self.nodes.forget(id, count, |node| {
            if node.identity.is_directory() {
                self.watches.unwatch(id);
            }
        });
    }

    /// A descriptor of any node, to look at it.
    pub(super) fn look_at(&self, node: &Arc<Node>) -> io::Result<Arc<OwnedFd>> {
        if node.identity.is_directory() {
            return self.directory(node);
        }
        if let Some(held) = &node.state.lock().held {
            return Ok(held.file.clone());
        }
        self.find(node).map(Arc::new)
    }

    /// Finds a file by its latest name.
    pub(super) fn find(&self, node: &Arc<Node>) -> io::Result<OwnedFd> {
        let (parent, name) = node.place().ok_or(Errno::STALE)?;
        let parent = self.nodes.get(parent).ok_or(Errno::STALE)?;
        let directory = self.directory(&parent)?;
        self.same(&directory, &name, node)
    }

    /// Attributes with the number that programs see.
    pub(super) fn attributes(&self, node: &Node, stat: &Statx) -> FileAttr {
        let number = if node.id == ROOT { stat.stx_ino } else { node.id };
        tree::attributes(stat, number)
    }
}

/// A descriptor of a directory is used for this long, whatever the lifetime: as long as one
/// operation on a path takes.
const MOST_BRIEF: Duration = Duration::from_millis(10);

/// Whether the process or the system has no descriptor left.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}
