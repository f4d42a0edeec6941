//! The calls of the system that a disk needs.

use rustix::fs::{AtFlags, Dir, FallocateFlags, FlockOperation, Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::Path;

/// A directory with files.
pub trait Files: Send + Sync + 'static {
    /// An open file.
    type File: Storage;
    /// Names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Opens a file that exists.
    fn open(&self, name: &str) -> io::Result<Self::File>;
    /// Makes an empty file, in place of one with this name.
    fn create(&self, name: &str) -> io::Result<Self::File>;
    /// Removes a file. Open ones stay readable.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Gives a file another name, in place of what had it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Makes names durable.
    fn sync(&self) -> io::Result<()>;
}

/// An open file. Reads and writes may be short.
pub trait Storage: Send + Sync + 'static {
    /// Reads from an offset.
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize>;
    /// Writes at an offset.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize>;
    /// Length in bytes.
    fn length(&self) -> io::Result<u64>;
    /// Cuts or extends it, with zeros.
    fn set_length(&self, length: u64) -> io::Result<()>;
    /// Reserves room on the device for this length, and extends it to that.
    fn allocate(&self, length: u64) -> io::Result<()>;
    /// Makes bytes and length durable.
    fn sync(&self) -> io::Result<()>;

    /// Reads as many bytes as there are, up to all of `bytes`.
    fn read_full(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        let mut read = 0;
        while read < bytes.len() {
            match self.read_at(&mut bytes[read..], at + read as u64) {
                Ok(0) => break,
                Ok(n) => read += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    /// Writes all bytes.
    fn write_full(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut written = 0;
        while written < bytes.len() {
            match self.write_at(&bytes[written..], at + written as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => written += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The result of a call; `None`: there is no such file. All other errors stay errors: a file that
/// cannot be read now may be good.
pub(crate) fn existing<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A directory of the system. One process at a time has it.
///
/// Content from other users is not believed: checksums tell damage, not who wrote. The directory, a
/// link to it, and every file must be of this user or of root, and no file is reached by a link.
#[derive(Debug)]
pub struct Directory {
    /// All names are looked up in it, whatever happens to its own. It has the lock, too.
    handle: File,
    /// Files of its owner are trusted as the directory is.
    owner: u32,
}

/// Whether this user may do to our files as it likes anyway.
fn is_trusted(user: u32) -> bool {
    user == 0 || user == rustix::process::geteuid().as_raw()
}

fn refused(what: &str, user: u32) -> io::Error {
    let text = format!("{what} of another user ({user})");
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

impl Directory {
    /// Makes the directory where there is none, for its owner alone, and takes it.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`]: another process has it.
    /// [`io::ErrorKind::PermissionDenied`]: also if it is, or is reached by, something of another
    /// user. All others are the system's.
    pub fn take(path: &Path) -> io::Result<Directory> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let link = std::fs::symlink_metadata(path)?;
        if link.is_symlink() && !is_trusted(link.uid()) {
            return Err(refused("a link", link.uid()));
        }
        let directory = Directory::take_any(path)?;
        if is_trusted(directory.owner) {
            Ok(directory)
        } else {
            Err(refused("a directory", directory.owner))
        }
    }

    /// Takes a directory whoever owns it, for a command that removes what is there.
    ///
    /// # Errors
    /// As [`Directory::take`].
    pub fn take_any(path: &Path) -> io::Result<Directory> {
        let directory = Directory::look(path)?;
        rustix::fs::flock(&directory.handle, FlockOperation::NonBlockingLockExclusive)?;
        Ok(directory)
    }

    /// Opens a directory without taking it, to look at what is there.
    ///
    /// # Errors
    /// The system's.
    pub fn look(path: &Path) -> io::Result<Directory> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        let owner = handle.metadata()?.uid();
        Ok(Directory { handle, owner })
    }

    fn open_as(&self, name: &str, how: OFlags) -> io::Result<File> {
        // A pipe would be waited for.
        let flags = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.handle, name, flags, Mode::RUSR | Mode::WUSR)?.into())
    }
}

impl Files for Directory {
    type File = File;

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.handle)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<File> {
        // A command that only looks may run as another user, who may not write.
        let opened = self.open_as(name, OFlags::RDWR);
        let file = opened.or_else(|_| self.open_as(name, OFlags::RDONLY))?;
        let facts = file.metadata()?;
        if !facts.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a file"));
        }
        if facts.uid() != self.owner && !is_trusted(facts.uid()) {
            return Err(refused("a file", facts.uid()));
        }
        Ok(file)
    }

    fn create(&self, name: &str) -> io::Result<File> {
        // Removed first: an open file keeps its bytes, and the new one its own rights.
        existing(self.remove(name))?;
        self.open_as(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.handle, name, AtFlags::empty())?)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.handle, from, &self.handle, to)?)
    }

    fn sync(&self) -> io::Result<()> {
        self.handle.sync_all()
    }
}

impl Storage for File {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        FileExt::read_at(self, bytes, at)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, at)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        match rustix::fs::fallocate(self, FallocateFlags::empty(), 0, length) {
            Ok(()) => Ok(()),
            // The file system cannot reserve: a full one is found when it is written to.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => self.set_len(length),
            Err(error) => Err(error.into()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
