//! Reading: content, links, directories, extended attributes, holes.

use std::{
    cell::RefCell,
    ffi::OsStr,
    io,
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    sync::Arc,
};

use fuser::{FileType, ReplyData, ReplyXattr};
use rustix::{
    fs::{
        FileType as Kind, RawDir, SeekFrom, getxattr, getxattr_query, listxattr, listxattr_query,
        readlinkat, seek,
    },
    io::{Errno, pread},
};

use super::{nodes::Node, number, source::Source, tree};

/// Bytes of a directory that are read at once; the kernel asks for as many names.
const NAMES: usize = 32 << 10;
/// The longest value and the longest list of extended attributes (xattr(7)).
const LONGEST_ATTRIBUTE: u32 = 64 << 10;
/// The longest read that the kernel asks for: 256 pages.
const LONGEST_READ: usize = 1 << 20;

thread_local! {
    /// The buffer of a thread, as long as the longest read so far.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Content for a kernel that cannot read the file itself.
pub(super) fn content(file: &OwnedFd, offset: u64, size: u32, reply: ReplyData) {
    let size = (size as usize).min(LONGEST_READ);
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.len() < size {
            buffer.resize(size, 0);
        }
        match fill(file, &mut buffer[..size], offset) {
            Ok(read) => reply.data(&buffer[..read]),
            Err(error) => reply.error(number(&error)),
        }
    });
}

/// Reads until the buffer is full or the file ends: the kernel takes a short read for the end.
fn fill(file: &OwnedFd, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match pread(file, &mut buffer[filled..], offset.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(filled)
}

/// The file of a node that a program has opened.
pub(super) fn file(source: &Source, node: &Arc<Node>) -> io::Result<Arc<OwnedFd>> {
    let held = node.state.lock().held.as_ref().map(|held| held.file.clone());
    held.map_or_else(|| reopen(source, node).map(Arc::new), Ok)
}

fn reopen(source: &Source, node: &Arc<Node>) -> io::Result<OwnedFd> {
    let looked = source.find(node)?;
    source.with_descriptors(|| tree::open_to_read(&looked, false))
}

/// The target of a symbolic link.
pub(super) fn target(source: &Source, node: &Arc<Node>) -> io::Result<Vec<u8>> {
    let link = source.look_at(node)?;
    Ok(readlinkat(&link, "", Vec::new())?.into_bytes())
}

/// One name of a directory.
pub(super) struct Name<'a> {
    pub(super) inode: u64,
    /// The place in the directory behind it.
    pub(super) next: u64,
    pub(super) kind: FileType,
    pub(super) name: &'a OsStr,
}

/// Gives the names from a place on, until `take` says that there is no room.
pub(super) fn entries(
    open: &OwnedFd,
    offset: u64,
    mut take: impl FnMut(Name<'_>) -> io::Result<bool>,
) -> io::Result<()> {
    seek(open, SeekFrom::Start(offset))?;
    let mut buffer = vec![MaybeUninit::uninit(); NAMES];
    let mut names = RawDir::new(open, &mut buffer);
    while let Some(entry) = names.next() {
        let entry = entry?;
        let full = take(Name {
            inode: entry.ino(),
            next: entry.next_entry_cookie(),
            kind: kind(entry.file_type()),
            name: OsStr::from_bytes(entry.file_name().to_bytes()),
        })?;
        if full {
            break;
        }
    }
    Ok(())
}

fn kind(kind: Kind) -> FileType {
    match kind {
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharacterDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

/// An extended attribute, or their names.
pub(super) enum Attribute {
    Size(usize),
    Value(Vec<u8>),
}

/// Reads the attribute of this name, or without one the list of names. `size`: the room that the
/// caller has; 0 asks for the size.
pub(super) fn attribute(
    source: &Source,
    node: &Arc<Node>,
    name: Option<&OsStr>,
    size: u32,
) -> io::Result<Attribute> {
    let file = source.look_at(node)?;
    let path = tree::link(&file);
    if size == 0 {
        return Ok(Attribute::Size(match name {
            Some(name) => getxattr_query(&path, name)?,
            None => listxattr_query(&path)?,
        }));
    }
    let mut value = vec![0; size.min(LONGEST_ATTRIBUTE) as usize];
    let length = match name {
        Some(name) => getxattr(&path, name, &mut value[..])?,
        None => listxattr(&path, &mut value[..])?,
    };
    value.truncate(length);
    Ok(Attribute::Value(value))
}

/// Answers a request for extended attributes.
pub(super) fn answer(read: io::Result<Attribute>, reply: ReplyXattr) {
    match read {
        Ok(Attribute::Size(size)) => reply.size(size as u32),
        Ok(Attribute::Value(value)) => reply.data(&value),
        Err(error) => reply.error(number(&error)),
    }
}

/// The next hole, or the next data, of a sparse file.
pub(super) fn hole(source: &Source, node: &Arc<Node>, offset: i64, whence: i32) -> io::Result<i64> {
    const DATA: i32 = 3;
    const HOLE: i32 = 4;
    let file = file(source, node)?;
    let offset = u64::try_from(offset).map_err(|_| Errno::NXIO)?;
    let place = match whence {
        DATA => SeekFrom::Data(offset),
        HOLE => SeekFrom::Hole(offset),
        _ => return Err(Errno::INVAL.into()),
    };
    Ok(i64::try_from(seek(&file, place)?).map_err(|_| Errno::OVERFLOW)?)
}
