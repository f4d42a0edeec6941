//! Changes of files, told by the system (inotify(7)).
//!
//! Directories are watched, those above a file up to the root of its tree included. A thread reads
//! the events and counts them: by directory and name, and those that may concern every path (a
//! directory that was moved or deleted, lost events). A kept file remembers both counts
//! ([`Moment`]); while they are the same, nobody has changed it.
//!
//! Not told: changes by other machines of a shared file system (directories of other systems than
//! those of [`LOCAL`] are not watched), writes by another name of the same inode, writes to mapped
//! memory, other file systems mounted over a directory. Callers look at such files again after a
//! time.

use std::{
    collections::HashMap,
    io,
    mem::MaybeUninit,
    os::fd::{AsRawFd, OwnedFd},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use parking_lot::Mutex;
use rustix::{
    fs::{
        fstat, fstatfs,
        inotify::{self, CreateFlags, ReadFlags, WatchFlags},
    },
    io::Errno,
};

use crate::origin::tree::Root;

/// Counters of names; two names of one counter are looked at again in vain at times.
const COUNTERS: usize = 4096;
/// Watched directories. Files of further ones are looked at after a time only.
const MOST_DIRECTORIES: usize = 8192;
/// Directories above a file that are watched.
const DEEPEST: usize = 32;
/// Bytes of events that are read at once.
const EVENTS: usize = 16 << 10;

/// Magic numbers of file systems on which every change comes from this system: ext2 to 4, XFS,
/// btrfs, tmpfs, overlayfs, F2FS, bcachefs, ZFS, ramfs.
const LOCAL: [u32; 9] = [
    0xEF53,
    0x5846_5342,
    0x9123_683E,
    0x0102_1994,
    0x794C_7630,
    0xF2F5_2010,
    0xCA45_1A4E,
    0x2FC1_2FC1,
    0x8584_58F6,
];

/// Events that are told of a directory.
const EVENTS_OF_INTEREST: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// Watches directories, for all workers.
pub(crate) struct Watcher {
    /// None: the system gives none.
    inotify: OnceLock<Option<OwnedFd>>,
    /// Events by a hash of directory and name.
    names: Box<[AtomicU32]>,
    /// Events that may concern every path.
    paths: AtomicU32,
    /// Watched directories, by device and inode. None: nothing is told any more.
    directories: Mutex<Option<HashMap<(u64, u64), i32>>>,
}

/// A watched directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Directory {
    number: i32,
    /// The count of events for every path before it was looked up.
    paths: u32,
}

/// The counts of events when a name was looked up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    counter: usize,
    name: u32,
    paths: u32,
}

impl Watcher {
    /// Nothing is watched yet; the thread starts with the first directory.
    pub(crate) fn new() -> Arc<Watcher> {
        Arc::new(Watcher {
            inotify: OnceLock::new(),
            names: (0..COUNTERS).map(|_| AtomicU32::new(0)).collect(),
            paths: AtomicU32::new(0),
            directories: Mutex::new(Some(HashMap::new())),
        })
    }

    /// Whether nothing was told since.
    #[inline]
    pub(super) fn is_current(&self, moment: &Moment) -> bool {
        self.paths.load(Ordering::Acquire) == moment.paths
            && self.names[moment.counter].load(Ordering::Acquire) == moment.name
    }

    /// Whether a directory is still where it was.
    pub(super) fn is_there(&self, directory: Directory) -> bool {
        self.paths.load(Ordering::Acquire) == directory.paths
    }

    /// The moment before a name in this directory is looked up.
    pub(super) fn moment(&self, directory: Directory, name: &[u8]) -> Moment {
        let counter = counter(directory.number, name);
        let name = self.names[counter].load(Ordering::Acquire);
        Moment { counter, name, paths: directory.paths }
    }

    /// Every path may lead elsewhere.
    pub(super) fn forget_paths(&self) {
        self.paths.fetch_add(1, Ordering::Release);
    }

    /// Watches a directory by its name below a root, and those above it. None: it cannot be
    /// watched.
    pub(super) fn directory(self: &Arc<Self>, root: &Root, name: &[u8]) -> Option<Directory> {
        let paths = self.paths.load(Ordering::Acquire);
        let ends = name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let mut number = None;
        for (depth, end) in ends.chain([name.len()]).enumerate() {
            if depth > DEEPEST {
                return None;
            }
            number = Some(self.watch(root, &name[..end])?);
        }
        number.map(|number| Directory { number, paths })
    }

    fn watch(self: &Arc<Self>, root: &Root, name: &[u8]) -> Option<i32> {
        let inotify = self.inotify()?;
        let directory = root.directory(name).ok()?;
        let stat = fstat(&directory).ok()?;
        let identity = (stat.st_dev, stat.st_ino);
        let known =
            self.directories.lock().as_ref().map(|all| (all.get(&identity).copied(), all.len()));
        match known? {
            (Some(number), _) => return Some(number),
            (None, count) if count >= MOST_DIRECTORIES || !is_local(&directory) => return None,
            (None, _) => {}
        }
        // The directory itself, whatever its name means by now.
        let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
        let number = inotify::add_watch(inotify, path, EVENTS_OF_INTEREST).ok()?;
        // It may have been moved before it was watched.
        let again = root.directory(name).and_then(|directory| Ok(fstat(&directory)?)).ok()?;
        if (again.st_dev, again.st_ino) != identity {
            return None;
        }
        self.directories.lock().as_mut()?.insert(identity, number);
        Some(number)
    }

    fn inotify(self: &Arc<Self>) -> Option<&OwnedFd> {
        self.inotify.get_or_init(|| self.start().ok()).as_ref()
    }

    fn start(self: &Arc<Self>) -> io::Result<OwnedFd> {
        let inotify = inotify::init(CreateFlags::CLOEXEC)?;
        let (events, watcher) = (inotify.try_clone()?, self.clone());
        let thread = thread::Builder::new().name("larder-files".to_owned());
        thread.spawn(move || watcher.read(&events))?;
        Ok(inotify)
    }

    /// Reads events to the end of the program.
    fn read(&self, events: &OwnedFd) {
        let mut buffer = [MaybeUninit::uninit(); EVENTS];
        let mut reader = inotify::Reader::new(events, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| name.to_bytes());
                    self.heard(event.wd(), event.events(), name);
                }
                Err(Errno::INTR) => {}
                Err(_) => return self.give_up(),
            }
        }
    }

    /// Nothing more is told: no path is watched from now on.
    fn give_up(&self) {
        *self.directories.lock() = None;
        self.forget_paths();
    }

    fn heard(&self, directory: i32, events: ReadFlags, name: Option<&[u8]>) {
        if events.contains(ReadFlags::IGNORED) {
            let mut directories = self.directories.lock();
            directories.iter_mut().for_each(|all| all.retain(|_, number| *number != directory));
        }
        match name {
            // Directories above files are watched themselves.
            Some(_) if events.contains(ReadFlags::ISDIR) => {}
            Some(name) => {
                self.names[counter(directory, name)].fetch_add(1, Ordering::Release);
            }
            None => self.forget_paths(),
        }
    }
}

/// Whether every change of a directory comes from this system.
fn is_local(directory: &OwnedFd) -> bool {
    fstatfs(directory).is_ok_and(|system| LOCAL.contains(&(system.f_type as u32)))
}

/// The counter of a name and of its compressed forms.
fn counter(directory: i32, name: &[u8]) -> usize {
    let mut stem = name;
    while let Some(shorter) =
        [&b".gz"[..], b".br", b".zst"].iter().find_map(|extension| stem.strip_suffix(*extension))
    {
        stem = shorter;
    }
    let hash = rapidhash::v3::rapidhash_v3(stem) ^ u64::from(directory as u32);
    (rapidhash::v3::rapidhash_v3(&hash.to_le_bytes()) % COUNTERS as u64) as usize
}
