//! Changes of the source, told by the system (inotify(7)), passed on to the kernel: what it keeps
//! of a changed name, its attributes, content and directory is dropped.
//!
//! A directory is watched before the first name in it is looked up, so that each change after a
//! look is told. A thread reads the events. It holds no lock while it tells the kernel, which may
//! wait there for requests under way.
//!
//! Not told: writes to mapped memory, writes by a name in a directory that is not watched, file
//! systems mounted over a directory. The lifetimes are for these.

use std::{
    collections::HashMap,
    ffi::OsStr,
    io,
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use fuser::{INodeNo, Notifier};
use parking_lot::Mutex;
use rustix::{
    fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags},
    io::Errno,
};

use super::{
    Source,
    nodes::{Node, ROOT},
    tree,
};

/// Bytes of events that are read at once.
const EVENTS: usize = 64 << 10;
/// The time within which the kernel takes the answer to a lookup. A change of a file that was
/// looked up so lately also drops the name: the kernel may not have made the inode yet.
const TAKEN: Duration = Duration::from_secs(1);
/// A device on which changes come from elsewhere counts as such for this long: the number of a
/// device that was unmounted is given to another one.
const ELSEWHERE: Duration = Duration::from_secs(10);

/// Events that are told of a directory.
const WANTED: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// Events that change which file a name means.
const NAMES: ReadFlags = ReadFlags::CREATE
    .union(ReadFlags::DELETE)
    .union(ReadFlags::MOVED_FROM)
    .union(ReadFlags::MOVED_TO);

/// The watched directories.
#[derive(Debug)]
pub(super) struct Watches {
    /// None: the system gives none, or it was not wanted.
    inotify: Option<OwnedFd>,
    most: usize,
    numbers: Mutex<Numbers>,
    /// Devices on which changes may come from elsewhere, and when that was found.
    elsewhere: Mutex<HashMap<u64, Instant>>,
    /// Directories that were moved: descriptors of directories from before are opened again by
    /// their names, which no longer lead to one that left the source.
    moves: AtomicU64,
    notifier: OnceLock<Notifier>,
}

#[derive(Debug, Default)]
struct Numbers {
    by_number: HashMap<i32, u64>,
    by_node: HashMap<u64, i32>,
}

impl Watches {
    /// At most so many directories; 0: none.
    pub(super) fn new(most: usize) -> Watches {
        let inotify = if most > 0 { inotify::init(CreateFlags::CLOEXEC).ok() } else { None };
        Watches {
            inotify,
            most,
            numbers: Mutex::default(),
            elsewhere: Mutex::default(),
            moves: AtomicU64::new(0),
            notifier: OnceLock::new(),
        }
    }

    /// The count of moved directories.
    pub(super) fn moves(&self) -> u64 {
        self.moves.load(Ordering::Acquire)
    }

    pub(super) fn is_watched(&self, node: u64) -> bool {
        self.inotify.is_some() && self.numbers.lock().by_node.contains_key(&node)
    }

    /// Watches a directory by its open file. Gives whether it is watched.
    pub(super) fn watch(&self, node: &Node, directory: &OwnedFd) -> bool {
        let Some(inotify) = &self.inotify else { return false };
        {
            let numbers = self.numbers.lock();
            if numbers.by_node.contains_key(&node.id) {
                return true;
            }
            if numbers.by_node.len() >= self.most {
                return false;
            }
        }
        // A network file system without its server does not answer the question: no lock is held.
        if !self.is_local(node.identity.device, directory) {
            return false;
        }
        let mut numbers = self.numbers.lock();
        if numbers.by_node.contains_key(&node.id) {
            return true;
        }
        if numbers.by_node.len() >= self.most {
            return false;
        }
        // Under the lock: the first event finds the number known.
        let Ok(number) = inotify::add_watch(inotify, tree::link(directory), WANTED) else {
            return false;
        };
        numbers.by_number.insert(number, node.id);
        numbers.by_node.insert(node.id, number);
        true
    }

    /// Whether every change on a device comes from this system. Asking may take a round trip to a
    /// server of files, so that a no is kept for a while; a yes needs no keeping, because the
    /// directory is watched then.
    fn is_local(&self, device: u64, directory: &OwnedFd) -> bool {
        let known = self.elsewhere.lock().get(&device).copied();
        if known.is_some_and(|since| since.elapsed() < ELSEWHERE) {
            return false;
        }
        let is_local = tree::is_local(directory);
        if !is_local {
            let mut elsewhere = self.elsewhere.lock();
            elsewhere.retain(|_, since| since.elapsed() < ELSEWHERE);
            elsewhere.insert(device, Instant::now());
        }
        is_local
    }

    /// The kernel forgot a directory.
    pub(super) fn unwatch(&self, node: u64) {
        let Some(inotify) = &self.inotify else { return };
        let mut numbers = self.numbers.lock();
        if let Some(number) = numbers.by_node.remove(&node)
            && numbers.by_number.remove(&number).is_some()
        {
            let _gone_already = inotify::remove_watch(inotify, number);
        }
    }

    /// Starts the thread that reads the events.
    pub(super) fn start(source: &Arc<Source>, notifier: Notifier) -> io::Result<()> {
        let watches = &source.watches;
        let _once = watches.notifier.set(notifier);
        let Some(inotify) = &watches.inotify else { return Ok(()) };
        let (events, source) = (inotify.try_clone()?, source.clone());
        let thread = thread::Builder::new().name("larder-changes".to_owned());
        thread.spawn(move || read(&source, &events))?;
        Ok(())
    }

    fn lost(&self, number: i32) {
        let mut numbers = self.numbers.lock();
        if let Some(node) = numbers.by_number.remove(&number) {
            numbers.by_node.remove(&node);
        }
    }

    fn node(&self, number: i32) -> Option<u64> {
        self.numbers.lock().by_number.get(&number).copied()
    }

    /// The kernel keeps nothing of this inode. Fails where it does not know it.
    fn drop_inode(&self, node: u64) {
        if let Some(notifier) = self.notifier.get() {
            let _unknown = notifier.inval_inode(INodeNo(node), 0, 0);
        }
    }

    /// The kernel looks this name up again.
    fn drop_name(&self, parent: u64, name: &OsStr) {
        if let Some(notifier) = self.notifier.get() {
            let _unknown = notifier.inval_entry(INodeNo(parent), name);
        }
    }
}

/// Reads events to the end of the program.
fn read(source: &Source, events: &OwnedFd) {
    let mut buffer = vec![MaybeUninit::uninit(); EVENTS];
    let mut reader = inotify::Reader::new(events, &mut buffer);
    loop {
        match reader.next() {
            Ok(event) => {
                let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
                heard(source, event.wd(), event.events(), name);
            }
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

fn heard(source: &Source, number: i32, events: ReadFlags, name: Option<&OsStr>) {
    let watches = &source.watches;
    if events.contains(ReadFlags::QUEUE_OVERFLOW) {
        return drop_all(source);
    }
    let Some(parent) = watches.node(number) else { return };
    let Some(name) = name else {
        if events.intersects(ReadFlags::MOVE_SELF | ReadFlags::DELETE_SELF | ReadFlags::UNMOUNT) {
            watches.moves.fetch_add(1, Ordering::Release);
        }
        if events.contains(ReadFlags::IGNORED) {
            watches.lost(number);
        }
        return watches.drop_inode(parent);
    };
    let known = source.nodes.named(parent, name);
    if events.intersects(NAMES) {
        if events.contains(ReadFlags::ISDIR) {
            watches.moves.fetch_add(1, Ordering::Release);
        }
        watches.drop_name(parent, name);
        watches.drop_inode(parent);
    } else if known.as_ref().is_some_and(|node| node.told_within(TAKEN)) {
        watches.drop_name(parent, name);
    }
    if let Some(node) = &known {
        watches.drop_inode(node.id);
    }
    // A name that was never looked up may be one of a known file (a hard link).
    if let Some(node) = other_name(source, parent, name).filter(|node| !same(&known, node)) {
        watches.drop_inode(node.id);
    }
}

fn same(known: &Option<Arc<Node>>, node: &Arc<Node>) -> bool {
    known.as_ref().is_some_and(|known| known.id == node.id)
}

fn other_name(source: &Source, parent: u64, name: &OsStr) -> Option<Arc<Node>> {
    let directory = source.directory(&source.nodes.get(parent)?).ok()?;
    let file = tree::open_name(&directory, name, source.own_device()).ok()?;
    source.nodes.with(&tree::Identity::of(&tree::stat(&file).ok()?))
}

/// Events were lost: the kernel keeps nothing.
fn drop_all(source: &Source) {
    source.watches.moves.fetch_add(1, Ordering::Release);
    for node in source.nodes.all() {
        if let Some((parent, name)) = node.place() {
            source.watches.drop_name(parent, &name);
        }
        source.watches.drop_inode(node.id);
    }
    source.watches.drop_inode(ROOT);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MirrorOptions;

    #[test]
    fn a_directory_that_is_forgotten_and_found_in_the_same_moment_is_watched() {
        let place = std::env::temp_dir().join(format!("larder-fuse-watch-{}", std::process::id()));
        std::fs::create_dir_all(place.join("d")).expect("a directory");
        let source = Source::open(&place, &MirrorOptions::default()).expect("a source");
        let name = OsStr::new("d");
        let directory = tree::open_name(source.root(), name, None).expect("the directory");
        let identity = tree::Identity::of(&tree::stat(&directory).expect("its attributes"));
        let find = || {
            let node = source.nodes.enter(identity, ROOT, name);
            (source.watches.watch(&node, &directory), node.id)
        };
        for turn in 0..3000 {
            let (is_watched, id) = find();
            // A system without inotify, or a directory of another machine.
            if !is_watched {
                break;
            }
            thread::scope(|scope| {
                scope.spawn(|| source.forget(id, 1));
                scope.spawn(|| assert!(find().0));
            });
            assert!(source.watches.is_watched(id), "turn {turn}");
            source.forget(id, 1);
            assert!(!source.watches.is_watched(id));
        }
        std::fs::remove_dir_all(&place).expect("removed");
    }
}
