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
pub(super) struct Root {
    directory: OwnedFd,
    resolve: ResolveFlags,
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
    pub(super) fn open(path: &Path, follow_links: bool) -> io::Result<Root> {
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

    /// Opens a regular file. None: there is none, or it cannot be read.
    pub(super) fn read(&self, name: &[u8]) -> io::Result<Option<(File, Stat)>> {
        // A pipe would otherwise wait for its writer.
        match self.open_as(name, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY) {
            Ok(file) => {
                let stat = fstat(&file)?;
                Ok((entry(&stat) == Entry::File).then(|| (File::from(file), stat)))
            }
            Err(error) if is_nothing(error) || error == Errno::ACCESS => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn open_as(&self, name: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let below = name.strip_prefix(b"/").filter(|below| !below.is_empty()).unwrap_or(b".");
        let open = || {
            openat2(&self.directory, below, flags | OFlags::CLOEXEC, Mode::empty(), self.resolve)
        };
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
