//! The directory that a tree begins at: names below it, resolved by the system so that none leads
//! out of it (openat2(2), RESOLVE_BENEATH). Needs Linux 5.6.

use std::{fs::File, io, os::fd::OwnedFd, path::Path};

use rustix::{
    fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2},
    io::Errno,
};

/// Attempts where a rename beside the name made the system unsure (EAGAIN).
const ATTEMPTS: usize = 4;

/// An open root.
#[derive(Debug)]
pub(in crate::origin) struct Root {
    directory: OwnedFd,
    resolve: ResolveFlags,
}

/// A regular file, open.
#[derive(Debug)]
pub(in crate::origin) struct OpenFile {
    pub(in crate::origin) file: File,
    pub(in crate::origin) stat: Stat,
    /// Its path has symbolic links.
    pub(in crate::origin) linked: bool,
}

/// The kind of thing that a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    File,
    Directory,
    /// Nothing of that name, or nothing that is served: a socket, a device, a link out of the root.
    Nothing,
}

impl Root {
    /// Opens a root. It is opened anew for every request, so that a link may lead to another
    /// directory from one moment to the next.
    pub(in crate::origin) fn open(path: &Path, follow_links: bool) -> io::Result<Root> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, path, flags, Mode::empty())?;
        let links = if follow_links { ResolveFlags::empty() } else { ResolveFlags::BENEATH };
        Ok(Root { directory, resolve: links | ResolveFlags::NO_MAGICLINKS })
    }

    /// The kind of thing under a name of plain segments that begins with a slash; empty: the
    /// root. An error: it cannot be told.
    pub(super) fn look(&self, name: &[u8]) -> io::Result<Entry> {
        match self.open_as(name, OFlags::PATH) {
            Ok(found) => Ok(entry(&fstat(&found)?)),
            Err(error) if is_nothing(error) => Ok(Entry::Nothing),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a regular file. None: there is none. An error: it cannot be read.
    pub(in crate::origin) fn read(&self, name: &[u8]) -> io::Result<Option<OpenFile>> {
        // A pipe would otherwise wait for its writer.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let plain = self.resolve | ResolveFlags::NO_SYMLINKS;
        let (opened, linked) = match self.open_with(name, flags, plain) {
            Err(Errno::LOOP) => (self.open_as(name, flags), true),
            opened => (opened, false),
        };
        match opened {
            Ok(file) => {
                let stat = fstat(&file)?;
                let regular = entry(&stat) == Entry::File;
                Ok(regular.then(|| OpenFile { file: File::from(file), stat, linked }))
            }
            Err(error) if is_nothing(error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a directory by a path without symbolic links.
    pub(in crate::origin) fn directory(&self, name: &[u8]) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        Ok(self.open_with(name, flags, self.resolve | ResolveFlags::NO_SYMLINKS)?)
    }

    /// Opens a directory to be read.
    pub(in crate::origin) fn open_directory(&self, name: &[u8]) -> io::Result<OwnedFd> {
        Ok(self.open_as(name, OFlags::RDONLY | OFlags::DIRECTORY)?)
    }

    /// Whether a name is that of a directory. None: of something that is not served.
    pub(in crate::origin) fn is_directory(&self, name: &[u8]) -> Option<bool> {
        match self.look(name).ok()? {
            Entry::File => Some(false),
            Entry::Directory => Some(true),
            Entry::Nothing => None,
        }
    }

    fn open_as(&self, name: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        self.open_with(name, flags, self.resolve)
    }

    fn open_with(
        &self,
        name: &[u8],
        flags: OFlags,
        resolve: ResolveFlags,
    ) -> Result<OwnedFd, Errno> {
        let below = name.strip_prefix(b"/").filter(|below| !below.is_empty()).unwrap_or(b".");
        let open =
            || openat2(&self.directory, below, flags | OFlags::CLOEXEC, Mode::empty(), resolve);
        let mut opened = open();
        for _ in 1..ATTEMPTS {
            match opened {
                Err(Errno::AGAIN | Errno::INTR) => opened = open(),
                done => return done,
            }
        }
        opened
    }
}

fn entry(stat: &Stat) -> Entry {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Entry::File,
        FileType::Directory => Entry::Directory,
        _ => Entry::Nothing,
    }
}

/// Errors that mean that no such file is served; EXDEV is a link out of the root.
fn is_nothing(error: Errno) -> bool {
    matches!(
        error,
        Errno::NOENT
            | Errno::NOTDIR
            | Errno::LOOP
            | Errno::XDEV
            | Errno::NAMETOOLONG
            | Errno::ILSEQ
            // A socket.
            | Errno::NXIO
    )
}
