//! A read-only mirror of a directory.
//!
//! | file | what |
//! |---|---|
//! | `tree.rs` | names below a directory, opened by descriptors; identities, attributes |
//! | `nodes.rs` | what the kernel knows, by number |
//! | `kept.rs` | descriptors that stay open |
//! | `source.rs` | from a number to an open file |
//! | `open.rs`, `read.rs` | opening and reading |
//! | `watch.rs` | changes of the source, told to the kernel |
//! | `mod.rs` | the requests |
//!
//! Where the kernel can, it reads a file itself (passthrough): this program opens the file once and
//! sees none of its reads. Else the kernel keeps the content in its own memory and asks for the
//! rest.

mod kept;
mod nodes;
mod open;
mod read;
mod source;
mod tree;
mod watch;

use std::{
    collections::HashMap,
    ffi::OsStr,
    io,
    os::fd::OwnedFd,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, UNIX_EPOCH},
};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, Notifier, OpenAccMode, OpenFlags, ReplyAttr, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyXattr, Request,
};
use parking_lot::Mutex;

use self::{
    nodes::{NO_NODE, Node},
    source::Source,
    tree::Identity,
    watch::Watches,
};
use crate::{
    MirrorOptions,
    session::{Ended, Served},
};

/// Requests of the kernel's own, such as reading ahead, that may wait at once.
const BACKGROUND: u16 = 64;
/// Pause between two looks for descriptors without use.
const SWEEP: Duration = Duration::from_secs(30);

/// A directory as a file system.
#[derive(Debug)]
pub(crate) struct Mirror {
    source: Arc<Source>,
    stacked: bool,
    directories: Mutex<HashMap<u64, Arc<Mutex<OwnedFd>>>>,
    next: AtomicU64,
    ended: Arc<Ended>,
}

impl Mirror {
    pub(crate) fn open(
        path: &Path,
        options: &MirrorOptions,
        ended: Arc<Ended>,
    ) -> io::Result<Mirror> {
        let source = Source::open(path, options)?;
        let stacked = tree::is_stacked(source.root());
        Ok(Mirror {
            source: Arc::new(source),
            stacked,
            directories: Mutex::default(),
            next: AtomicU64::new(0),
            ended,
        })
    }

    /// The part that is used beside the requests.
    pub(crate) fn served(&self) -> Box<dyn Served> {
        Box::new(MirrorServed(self.source.clone()))
    }

    fn node(&self, ino: INodeNo) -> io::Result<Arc<Node>> {
        self.source.nodes.get(ino.0).ok_or_else(|| rustix::io::Errno::STALE.into())
    }

    /// Looks up a name; gives the node, its attributes and how long both may be kept.
    /// `opens`: an open may follow.
    fn find(
        &self,
        parent: &Arc<Node>,
        dir: &OwnedFd,
        name: &OsStr,
        opens: bool,
    ) -> io::Result<Entry> {
        let source = &self.source;
        let look = || tree::open_name(dir, name, source.own_device());
        let file = source.with_descriptors(look)?;
        let stat = tree::stat(&file)?;
        let node = source.nodes.enter(Identity::of(&stat), parent.id, name);
        if node.identity.is_directory() {
            source.keep_directory(&node, Arc::new(file));
        } else if opens && node.identity.is_regular() {
            if source.opens.load(Ordering::Relaxed) {
                source.kept.add_looked(&node, file);
            } else {
                source.keep_to_read(&node, &file);
            }
        }
        let attributes = source.attributes(&node, &stat);
        let lifetime = source.lifetime_of(&node, parent.id, &stat);
        Ok(Entry { node, attributes, lifetime })
    }

    fn opened_directory(&self, handle: FileHandle) -> io::Result<Arc<Mutex<OwnedFd>>> {
        let open = self.directories.lock().get(&handle.0).cloned();
        open.ok_or_else(|| rustix::io::Errno::BADF.into())
    }
}

/// A name that was found.
struct Entry {
    node: Arc<Node>,
    attributes: FileAttr,
    lifetime: Duration,
}

/// The attributes of a name that is not there: number 0 makes the kernel keep its absence.
const ABSENT: FileAttr = FileAttr {
    ino: INodeNo(0),
    size: 0,
    blocks: 0,
    atime: UNIX_EPOCH,
    mtime: UNIX_EPOCH,
    ctime: UNIX_EPOCH,
    crtime: UNIX_EPOCH,
    kind: FileType::RegularFile,
    perm: 0,
    nlink: 0,
    uid: 0,
    gid: 0,
    rdev: 0,
    blksize: 0,
    flags: 0,
};

/// Attributes that the kernel does not take, for a name that is listed but that cannot be looked at
/// now (EMFILE, EIO, ELOOP): it gives the name, and looks it up when a program asks for more. The
/// protocol's number for this, 0, is not to be had: fuser gives it to programs as well, and they
/// skip such names.
fn unseen(kind: FileType) -> FileAttr {
    FileAttr { ino: INodeNo(NO_NODE), size: u64::MAX, kind, ..ABSENT }
}

/// Whether a name that was read in its directory is not there any more.
fn is_gone(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::STALE))
}

/// An error of the source as the kernel's number.
fn number(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_i32)
}

impl Filesystem for Mirror {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_CACHE_SYMLINKS
            | InitFlags::FUSE_AUTO_INVAL_DATA
            // Access control lists are checked by the kernel, as modes are.
            | InitFlags::FUSE_POSIX_ACL;
        let _older_kernel = config.add_capabilities(wanted & config.capabilities());
        let opens = &self.source.opens;
        if !opens.load(Ordering::Relaxed)
            && config.add_capabilities(InitFlags::FUSE_NO_OPEN_SUPPORT).is_err()
        {
            opens.store(true, Ordering::Relaxed);
        }
        if opens.load(Ordering::Relaxed) {
            let plus = InitFlags::FUSE_DO_READDIRPLUS | InitFlags::FUSE_READDIRPLUS_AUTO;
            let _older_kernel = config.add_capabilities(plus & config.capabilities());
        } // Else each name is looked up before it is opened: its file is open here by then.
        let _never = config.set_max_background(BACKGROUND);
        let passthrough = &self.source.passthrough;
        // A level more would keep overlayfs from being mounted over this mount.
        let depth = if self.stacked { 2 } else { 1 };
        if passthrough.load(Ordering::Relaxed)
            && config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok()
        {
            let _never = config.set_max_stack_depth(depth);
        } else {
            passthrough.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    fn destroy(&mut self) {
        self.ended.tell();
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = (|| {
            let parent = self.node(parent)?;
            let dir = self.source.directory(&parent)?;
            // Before the look: a change after it is told.
            self.source.watches.watch(&parent, &dir);
            match self.find(&parent, &dir, name, true) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    Ok((ABSENT, Duration::ZERO, parent.id))
                }
                found => found.map(|found| (found.attributes, found.lifetime, parent.id)),
            }
        })();
        match found {
            Ok((attributes, lifetime, parent)) => {
                let named = self.source.lifetime_in(parent);
                reply.entry_with_ttls(&lifetime, &named, &attributes, Generation(0));
            }
            Err(error) => reply.error(number(&error)),
        }
    }

    fn forget(&self, _request: &Request, ino: INodeNo, count: u64) {
        self.source.forget(ino.0, count);
    }

    fn getattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let found = (|| {
            let node = self.node(ino)?;
            let file = self.source.look_at(&node)?;
            if node.identity.is_directory() {
                self.source.watches.watch(&node, &file);
            }
            let stat = tree::stat(&file)?;
            let parent = node.place().map_or(node.id, |(parent, _)| parent);
            let lifetime = self.source.lifetime_of(&node, parent, &stat);
            Ok((self.source.attributes(&node, &stat), lifetime))
        })();
        match found {
            Ok((attributes, lifetime)) => reply.attr(&lifetime, &attributes),
            Err(error) => reply.error(number(&error)),
        }
    }

    fn readlink(&self, _request: &Request, ino: INodeNo, reply: ReplyData) {
        match self.node(ino).and_then(|node| read::target(&self.source, &node)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(number(&error)),
        }
    }

    fn open(&self, _request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if flags.acc_mode() != OpenAccMode::O_RDONLY {
            return reply.error(Errno::EROFS);
        }
        if !self.source.opens.load(Ordering::Relaxed) {
            // The kernel does not ask again: it opens by itself.
            return reply.error(Errno::ENOSYS);
        }
        let node = match self.node(ino) {
            Ok(node) if node.identity.is_regular() => node,
            Ok(_) => return reply.error(Errno::EINVAL),
            Err(error) => return reply.error(number(&error)),
        };
        self.open_file(&node, reply);
    }

    fn read(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let file = self.node(ino).and_then(|node| {
            if self.source.opens.load(Ordering::Relaxed) {
                read::file(&self.source, &node)
            } else {
                self.file_unasked(&node)
            }
        });
        match file {
            Ok(file) => read::content(&file, offset, size, reply),
            Err(error) => reply.error(number(&error)),
        }
    }

    fn release(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        if let Ok(node) = self.node(ino) {
            let mut state = node.state.lock();
            state.opens = state.opens.saturating_sub(1);
        }
        reply.ok();
    }

    fn opendir(&self, _request: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.node(ino).and_then(|node| self.open_directory(&node)) {
            Ok((handle, flags)) => reply.opened(FileHandle(handle), flags),
            Err(error) => reply.error(number(&error)),
        }
    }

    fn readdir(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.opened_directory(handle).and_then(|open| {
            read::entries(&open.lock(), offset, |entry| {
                Ok(reply.add(INodeNo(entry.inode), entry.next, entry.kind, entry.name))
            })
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(number(&error)),
        }
    }

    fn readdirplus(
        &self,
        _request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let listed = (|| {
            let (parent, open) = (self.node(ino)?, self.opened_directory(handle)?);
            let dir = open.lock();
            let named = self.source.lifetime_in(parent.id);
            let itself = tree::stat(&*dir)?;
            read::entries(&dir, offset, |entry| {
                let (next, name) = (entry.next, entry.name);
                if name == "." || name == ".." {
                    // The kernel makes no inodes of these.
                    let attributes = tree::attributes(&itself, entry.inode);
                    return Ok(reply.add(
                        attributes.ino,
                        next,
                        name,
                        &Duration::ZERO,
                        &attributes,
                        Generation(0),
                    ));
                }
                let found = match self.find(&parent, &dir, name, false) {
                    Ok(found) => found,
                    Err(error) if is_gone(&error) => return Ok(false),
                    Err(_) => {
                        let (unseen, short) = (unseen(entry.kind), Duration::ZERO);
                        return Ok(reply.add(
                            unseen.ino,
                            next,
                            name,
                            &short,
                            &unseen,
                            Generation(0),
                        ));
                    }
                };
                let (ino, lifetime) = (found.attributes.ino, found.lifetime.min(named));
                let full = reply.add(ino, next, name, &lifetime, &found.attributes, Generation(0));
                if full {
                    self.source.forget(found.node.id, 1);
                }
                Ok(full)
            })
        })();
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(number(&error)),
        }
    }

    fn releasedir(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.directories.lock().remove(&handle.0);
        reply.ok();
    }

    fn statfs(&self, _request: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        match rustix::fs::fstatvfs(self.source.root()) {
            Ok(stat) => reply.statfs(
                stat.f_blocks,
                stat.f_bfree,
                stat.f_bavail,
                stat.f_files,
                stat.f_ffree,
                stat.f_bsize as u32,
                stat.f_namemax as u32,
                stat.f_frsize as u32,
            ),
            Err(error) => reply.error(number(&error.into())),
        }
    }

    fn getxattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        let node = self.node(ino);
        let answer = node.and_then(|node| read::attribute(&self.source, &node, Some(name), size));
        read::answer(answer, reply);
    }

    fn listxattr(&self, _request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let node = self.node(ino);
        let answer = node.and_then(|node| read::attribute(&self.source, &node, None, size));
        read::answer(answer, reply);
    }

    fn lseek(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        match self.node(ino).and_then(|node| read::hole(&self.source, &node, offset, whence)) {
            Ok(offset) => reply.offset(offset),
            Err(error) => reply.error(number(&error)),
        }
    }
}

/// A mirror's part beside the requests.
struct MirrorServed(Arc<Source>);

impl Served for MirrorServed {
    fn mounted(&self, notifier: Notifier, device: Option<u64>) -> io::Result<()> {
        let source = &self.0;
        if let Some(device) = device {
            source.set_own_device(device);
        }
        Watches::start(source, notifier)?;
        let watched = source.clone();
        let sweeper = std::thread::Builder::new().name("larder-sweeper".to_owned());
        sweeper.spawn(move || {
            loop {
                std::thread::sleep(SWEEP);
                // A file that programs have open is not known where the kernel opens by itself.
                if watched.opens.load(Ordering::Relaxed) {
                    watched.kept.sweep();
                }
            }
        })?;
        Ok(())
    }

    fn is_passthrough(&self) -> Option<bool> {
        Some(self.0.passthrough.load(Ordering::Relaxed))
    }
}
