//! Opening files and directories.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use fuser::{BackingId, Errno, FileHandle, FopenFlags, ReplyOpen};
use parking_lot::Mutex;
use rustix::fs::Statx;

use super::{
    Mirror,
    kept::Held,
    nodes::{Node, State},
    number, tree,
};

/// Tries to open a file that others close.
const TRIES: usize = 2;

impl Mirror {
    /// Answers an open: by a descriptor that is open already, else by a new one.
    pub(super) fn open_file(&self, node: &Arc<Node>, reply: ReplyOpen) {
        let opened = self.held(node, Some(&reply), answer_open);
        match opened {
            // The program may close the file before this thread goes on: `release` locks the state,
            // too.
            Ok(Ok((flags, Some(backing)))) => {
                reply.opened_passthrough(FileHandle(0), flags, &backing);
            }
            Ok(Ok((flags, None))) => reply.opened(FileHandle(0), flags),
            Ok(Err(error)) => reply.error(error),
            Err(error) => reply.error(number(&error)),
        }
    }

    /// The open file of a node that no program needs to have opened: the kernel opens by itself.
    pub(super) fn file_unasked(&self, node: &Arc<Node>) -> io::Result<Arc<OwnedFd>> {
        let file = |state: &mut State| state.held.as_ref().map(|held| held.file.clone());
        self.held(node, None, file)?.ok_or_else(|| rustix::io::Errno::MFILE.into())
    }

    /// Uses the state of a node whose file is open; without a descriptor left, it is not.
    fn held<T>(
        &self,
        node: &Arc<Node>,
        reply: Option<&ReplyOpen>,
        used: impl FnOnce(&mut State) -> T,
    ) -> io::Result<T> {
        node.touch();
        let mut state = node.state.lock();
        let fresh = state.held.is_none();
        // Others may close it again for want of descriptors before the state is locked again.
        for _ in 0..TRIES {
            if state.held.is_some() {
                break;
            }
            drop(state);
            let file = self.read_file(node)?;
            state = node.state.lock();
            if state.held.is_none() {
                state.held = Some(self.hold(file, reply));
            }
        }
        let result = used(&mut state);
        drop(state);
        if fresh {
            self.source.kept.add(node);
        }
        Ok(result)
    }

    fn read_file(&self, node: &Arc<Node>) -> io::Result<OwnedFd> {
        let looked = node.state.lock().looked.clone();
        let looked = looked.map_or_else(|| self.source.find(node).map(Arc::new), Ok)?;
        self.source.with_descriptors(|| tree::open_to_read(&looked, false))
    }

    fn hold(&self, file: OwnedFd, reply: Option<&ReplyOpen>) -> Held {
        let passthrough = &self.source.passthrough;
        let reply = reply.filter(|_| passthrough.load(Ordering::Relaxed));
        let backing = reply.and_then(|reply| {
            let backing = reply.open_backing(&file);
            if backing.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
            {
                // It takes CAP_SYS_ADMIN, which does not come back.
                passthrough.store(false, Ordering::Relaxed);
            }
            backing.ok().map(Arc::new)
        });
        Held {
            file: Arc::new(file),
            backing,
            moves: self.source.watches.moves(),
            since: Instant::now(),
        }
    }

    pub(super) fn open_directory(&self, node: &Arc<Node>) -> io::Result<(u64, FopenFlags)> {
        let source = &self.source;
        let looked = source.directory(node)?;
        let watched = source.watches.watch(node, &looked);
        let open = source.with_descriptors(|| tree::open_to_read(&looked, true))?;
        let handle = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        self.directories.lock().insert(handle, Arc::new(Mutex::new(open)));
        let flags = if watched {
            FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE
        } else {
            FopenFlags::empty()
        };
        Ok((handle, flags))
    }
}

/// Says how the kernel reads the file: all handles of an inode at one time are the same kind.
fn answer_open(state: &mut State) -> Result<(FopenFlags, Option<Arc<BackingId>>), Errno> {
    // None: it was closed again and again, for want of descriptors.
    let held = state.held.as_ref().ok_or(Errno::EMFILE)?;
    if let Some(backing) = &held.backing {
        state.opens += 1;
        return Ok((FopenFlags::FOPEN_NOFLUSH, Some(backing.clone())));
    }
    let version = version(&tree::stat(&held.file).map_err(|error| number(&error))?);
    let mut flags = FopenFlags::FOPEN_NOFLUSH;
    if state.version == Some(version) {
        flags |= FopenFlags::FOPEN_KEEP_CACHE;
    }
    state.version = Some(version);
    state.opens += 1;
    Ok((flags, None))
}

/// The version of a file's content.
fn version(stat: &Statx) -> (u64, i64, u32, i64, u32) {
    let (modified, changed) = (&stat.stx_mtime, &stat.stx_ctime);
    (stat.stx_size, modified.tv_sec, modified.tv_nsec, changed.tv_sec, changed.tv_nsec)
}
