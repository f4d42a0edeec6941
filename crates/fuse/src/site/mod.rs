//! A site as a file system: pages by path, read-only, as a Larder gives them.
//!
//! | file | what |
//! |---|---|
//! | `address.rs` | paths of names, redirects |
//! | `connect.rs` | connections, by TLS |
//! | `version.rs` | versions and types of pages |
//! | `client.rs` | requests: HEAD for attributes, ranges for content |
//! | `nodes.rs` | what the kernel knows, by number |
//! | `mod.rs` | the requests of the kernel |
//!
//! Requests of the kernel become tasks of one thread, so that a slow page keeps none of the
//! threads that take them. The kernel keeps what was read, by the version of the page.

mod address;
mod client;
mod connect;
mod nodes;
mod version;

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, Notifier, OpenAccMode, OpenFlags, ReplyAttr, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyXattr, Request,
};
use parking_lot::Mutex;
use rustix::process::{getegid, geteuid};
use tokio::{runtime::Handle, sync::OnceCell, task::JoinHandle, time::timeout};

use self::{
    address::Address,
    client::{Client, Look, Range, Whole},
    nodes::{Nodes, ROOT, Thing},
    version::{Type, Version},
};
use crate::{
    SiteOptions,
    session::{Ended, Served},
};

/// Requests of the kernel's own, such as reading ahead, that may wait at once.
const BACKGROUND: u16 = 64;
/// The name in a directory that also means the page of the directory itself.
const INDEX: &str = "index.html";

/// A site as a file system.
pub(crate) struct Site {
    shared: Arc<Shared>,
    runtime: Handle,
    handles: Mutex<HashMap<u64, Arc<OpenFile>>>,
    directories: Mutex<HashMap<u64, Arc<Vec<Entry>>>>,
    next: AtomicU64,
    ended: Arc<Ended>,
}

struct Shared {
    client: Client,
    nodes: Mutex<Nodes>,
    options: SiteOptions,
    /// The time of directories, and of pages without one.
    started: SystemTime,
}

/// An open page: one version of it.
struct OpenFile {
    path: Arc<str>,
    version: Version,
    whole: OnceCell<Whole>,
    /// The page on its way into `whole`: it goes on when the read that wanted it is over.
    fetch: tokio::sync::Mutex<Option<Fetch>>,
}

/// A page on its way into memory; it ends with the file that wants it.
struct Fetch(JoinHandle<io::Result<Whole>>);

impl Drop for Fetch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A name in a directory.
struct Entry {
    name: OsString,
    id: u64,
    kind: FileType,
}

impl Site {
    /// Takes the URL; nothing is asked yet.
    pub(crate) fn open(url: &str, options: &SiteOptions, ended: Arc<Ended>) -> io::Result<Site> {
        let address = Address::parse(url).map_err(io::Error::other)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let thread = std::thread::Builder::new().name("larder-site".to_owned());
        thread.spawn(move || runtime.block_on(std::future::pending::<()>()))?;
        let client = Client::new(address, options.timeout).map_err(io::Error::other)?;
        let nodes = Mutex::new(Nodes::new(client.root()));
        let started = SystemTime::now();
        Ok(Site {
            shared: Arc::new(Shared { client, nodes, options: options.clone(), started }),
            runtime: handle,
            handles: Mutex::default(),
            directories: Mutex::default(),
            next: AtomicU64::new(0),
            ended,
        })
    }

    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Shared {
    /// Looks a name up. None: it is not there.
    async fn find(&self, parent: u64, name: &OsStr) -> io::Result<Option<(u64, Thing)>> {
        timeout(self.options.timeout, self.find_in_time(parent, name))
            .await
            .map_err(|_| rustix::io::Errno::TIMEDOUT)?
    }

    async fn find_in_time(&self, parent: u64, name: &OsStr) -> io::Result<Option<(u64, Thing)>> {
        let directory = match self.nodes.lock().get(parent) {
            Some(Thing::Directory(path)) => path,
            _ => return Err(rustix::io::Errno::NOTDIR.into()),
        };
        let path = address::join(&directory, name, self.options.queries);
        let Some(path) = path else { return Ok(None) };
        let found = self.look(&directory, &path, name).await?;
        let mut nodes = self.nodes.lock();
        Ok(match found {
            Some((thing, of)) => Some((nodes.enter(parent, name, (thing.clone(), of)), thing)),
            None => {
                nodes.absent(parent, name);
                None
            }
        })
    }

    async fn look(
        &self,
        directory: &str,
        path: &str,
        name: &OsStr,
    ) -> io::Result<Option<(Thing, Type)>> {
        let of_directory = || (Thing::Directory(format!("{path}/").into()), Type::default());
        let below = format!("{path}/");
        match self.client.look(path).await? {
            Look::File(version, of) => {
                return Ok(Some((Thing::File(path.into(), version), of)));
            }
            Look::Directory => return Ok(Some(of_directory())),
            Look::Absent => {}
        }
        if name == INDEX {
            return Ok(match self.client.look(directory).await? {
                Look::File(version, of) => Some((Thing::File(directory.into(), version), of)),
                _ => None,
            });
        }
        let plain = !name.as_encoded_bytes().contains(&b'.');
        let is_directory =
            (self.options.directories && plain) || self.client.is_directory(&below).await?;
        Ok(is_directory.then(of_directory))
    }

    fn attributes(&self, id: u64, thing: &Thing) -> FileAttr {
        let (size, time, perm) = match thing {
            Thing::Directory(_) => (0, None, 0o555),
            Thing::File(_, version) => (version.size.unwrap_or(0), version.modified(), 0o444),
        };
        let time = time.unwrap_or(self.started);
        FileAttr {
            ino: INodeNo(id),
            size,
            blocks: size.div_ceil(512),
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind: thing.kind(),
            perm,
            nlink: if matches!(thing, Thing::Directory(_)) { 2 } else { 1 },
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
            rdev: 0,
            blksize: 128 << 10,
            flags: 0,
        }
    }

    async fn read(
        self: &Arc<Self>,
        open: &OpenFile,
        offset: u64,
        size: usize,
    ) -> io::Result<Bytes> {
        timeout(self.options.timeout, self.read_in_time(open, offset, size))
            .await
            .map_err(|_| rustix::io::Errno::TIMEDOUT)?
    }

    async fn read_in_time(
        self: &Arc<Self>,
        open: &OpenFile,
        offset: u64,
        size: usize,
    ) -> io::Result<Bytes> {
        if open.version.is_told() && open.whole.get().is_none() {
            match self.client.range(&open.path, &open.version, offset, size).await? {
                Range::Bytes(bytes) => return Ok(bytes),
                Range::NoRanges => {}
            }
        }
        let whole = open.whole.get_or_try_init(|| self.whole(open)).await?;
        let first = usize::try_from(offset).unwrap_or(usize::MAX).min(whole.bytes.len());
        let end = first.saturating_add(size).min(whole.bytes.len());
        Ok(whole.bytes.slice(first..end))
    }

    /// Waits for the whole page, which one read after the other may do.
    async fn whole(self: &Arc<Self>, open: &OpenFile) -> io::Result<Whole> {
        let mut fetch = open.fetch.lock().await;
        let under_way = fetch.get_or_insert_with(|| {
            let (shared, path, version) = (self.clone(), open.path.clone(), open.version.clone());
            let whole = async move { shared.client.whole(&path, &version).await };
            Fetch(tokio::spawn(whole))
        });
        let done = (&mut under_way.0).await;
        *fetch = None;
        done.map_err(io::Error::other)?
    }
}

/// An error as the kernel's number.
fn number(error: &io::Error) -> Errno {
    // A server that cannot be reached is no error of a file's own.
    error.raw_os_error().map_or(Errno::EIO, |number| match number {
        libc_number::ESTALE
        | libc_number::EACCES
        | libc_number::ENOMEM
        | libc_number::EFBIG
        | libc_number::ENOTDIR
        | libc_number::ETIMEDOUT => Errno::from_i32(number),
        _ => Errno::EIO,
    })
}

/// The numbers of errors that programs see as they are.
mod libc_number {
    pub(super) use nix::libc::{EACCES, EFBIG, ENOMEM, ENOTDIR, ESTALE, ETIMEDOUT};
}

impl Filesystem for Site {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = InitFlags::FUSE_PARALLEL_DIROPS | InitFlags::FUSE_ASYNC_DIO;
        let _older_kernel = config.add_capabilities(wanted & config.capabilities());
        let _never = config.set_max_background(BACKGROUND);
        Ok(())
    }

    fn destroy(&mut self) {
        self.ended.tell();
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (shared, name) = (self.shared.clone(), name.to_owned());
        self.runtime.spawn(async move {
            let lifetime = shared.options.lifetime;
            match shared.find(parent.0, &name).await {
                Ok(Some((id, thing))) => {
                    reply.entry(&lifetime, &shared.attributes(id, &thing), Generation(0));
                }
                // Number 0 makes the kernel keep its absence.
                Ok(None) => {
                    let absent = shared.attributes(0, &Thing::Directory("".into()));
                    reply.entry(&lifetime, &absent, Generation(0));
                }
                Err(error) => reply.error(number(&error)),
            }
        });
    }

    fn forget(&self, _request: &Request, ino: INodeNo, count: u64) {
        self.shared.nodes.lock().forget(ino.0, count);
    }

    fn getattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let thing = self.shared.nodes.lock().get(ino.0);
        match thing {
            Some(thing) => {
                let attributes = self.shared.attributes(ino.0, &thing);
                reply.attr(&self.shared.options.lifetime, &attributes);
            }
            None => reply.error(Errno::ESTALE),
        }
    }

    fn open(&self, _request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if flags.acc_mode() != OpenAccMode::O_RDONLY {
            return reply.error(Errno::EROFS);
        }
        let thing = self.shared.nodes.lock().get(ino.0);
        let Some(Thing::File(path, version)) = thing else { return reply.error(Errno::ESTALE) };
        // The kernel may keep content only if it is that of one version.
        let how = if version.is_told() {
            FopenFlags::FOPEN_KEEP_CACHE
        } else {
            FopenFlags::FOPEN_DIRECT_IO
        };
        let handle = self.number();
        let (whole, fetch) = (OnceCell::new(), tokio::sync::Mutex::default());
        let open = OpenFile { path, version, whole, fetch };
        self.handles.lock().insert(handle, Arc::new(open));
        reply.opened(FileHandle(handle), how | FopenFlags::FOPEN_NOFLUSH);
    }

    fn read(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let open = self.handles.lock().get(&handle.0).cloned();
        let Some(open) = open else { return reply.error(Errno::EBADF) };
        let shared = self.shared.clone();
        self.runtime.spawn(async move {
            match shared.read(&open, offset, size as usize).await {
                Ok(bytes) => reply.data(&bytes),
                Err(error) => reply.error(number(&error)),
            }
        });
    }

    fn release(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.handles.lock().remove(&handle.0);
        reply.ok();
    }

    fn opendir(&self, _request: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let names = self.shared.nodes.lock().names(ino.0);
        let itself = [".", ".."].map(|name| (OsString::from(name), ROOT, FileType::Directory));
        let entries = itself.into_iter().chain(names);
        let entries = entries.map(|(name, id, kind)| Entry { name, id, kind }).collect();
        let handle = self.number();
        self.directories.lock().insert(handle, Arc::new(entries));
        reply.opened(FileHandle(handle), FopenFlags::empty());
    }

    fn readdir(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let entries = self.directories.lock().get(&handle.0).cloned();
        let Some(entries) = entries else { return reply.error(Errno::EBADF) };
        let behind = usize::try_from(offset).unwrap_or(usize::MAX);
        for (at, entry) in entries.iter().enumerate().skip(behind) {
            if reply.add(INodeNo(entry.id), at as u64 + 1, entry.kind, &entry.name) {
                break;
            }
        }
        reply.ok();
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

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let kind = self.shared.nodes.lock().kind(ino.0);
        let Some(kind) = kind else { return reply.error(Errno::ESTALE) };
        match kind.attributes().find(|(known, _)| name == *known) {
            Some((_, value)) => answer(value, size, reply),
            None if name.as_encoded_bytes().starts_with(b"user.") => reply.error(Errno::ENODATA),
            None => reply.error(Errno::EOPNOTSUPP),
        }
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let kind = self.shared.nodes.lock().kind(ino.0);
        let Some(kind) = kind else { return reply.error(Errno::ESTALE) };
        let names: String = kind.attributes().map(|(name, _)| format!("{name}\0")).collect();
        answer(names.as_bytes(), size, reply);
    }
}

/// Answers a request for extended attributes; a size of 0 asks for the length.
fn answer(value: &[u8], size: u32, reply: ReplyXattr) {
    let length = u32::try_from(value.len()).unwrap_or(u32::MAX);
    match size {
        0 => reply.size(length),
        room if room < length => reply.error(Errno::ERANGE),
        _ => reply.data(value),
    }
}

/// A site has no part beside the requests.
pub(crate) struct SiteServed;

impl Served for SiteServed {
    fn mounted(&self, _notifier: Notifier, _device: Option<u64>) -> io::Result<()> {
        Ok(())
    }

    fn is_passthrough(&self) -> Option<bool> {
        None
    }
}

/// A lifetime that suits most sites: as long as one command takes.
pub(crate) const LIFETIME: Duration = Duration::from_secs(1);
/// The limit for an operation: a program that waits for one cannot be killed.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);
