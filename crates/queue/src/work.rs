//! Work that may take long, for another thread than the queues': the device, and removals.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files to be had on the device, and others to be removed after that.
#[derive(Debug, Default)]
#[must_use]
pub struct Work {
    pub(crate) files: Vec<Arc<File>>,
    /// The same, of files that are not open.
    pub(crate) closed: Vec<PathBuf>,
    pub(crate) directories: Vec<PathBuf>,
    /// Those of one directory are removed in this order: a removal of an item is never forgotten
    /// before the item.
    pub(crate) remove: Vec<PathBuf>,
    pub(crate) remove_directories: Vec<PathBuf>,
}

/// Work that was not done. To be given to [`Queues::undone`](crate::Queues::undone): without it old
/// items would come back after a restart.
#[derive(Debug)]
#[must_use]
pub struct Undone {
    /// The first error.
    pub error: io::Error,
    /// Everything is on the device; some files were not removed.
    pub is_synced: bool,
    /// The removals that are left.
    pub(crate) work: Box<Work>,
}

impl Work {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.closed.is_empty() && self.directories.is_empty() && {
            self.remove.is_empty() && self.remove_directories.is_empty()
        }
    }

    /// Does it. Nothing is removed unless everything is on the device.
    ///
    /// # Errors
    /// The first one, and the work that is left.
    pub fn run(mut self) -> Result<(), Undone> {
        match self.sync() {
            Ok(()) => self.clear(),
            Err(error) => Err(Undone { error, is_synced: false, work: Box::new(self.removals()) }),
        }
    }

    fn removals(self) -> Work {
        let Work { remove, remove_directories, .. } = self;
        Work { remove, remove_directories, ..Work::default() }
    }

    fn sync(&mut self) -> io::Result<()> {
        for file in &self.files {
            file.sync_data()?;
        }
        for path in &self.closed {
            open_there(path)?.map_or(Ok(()), |file| file.sync_data())?;
        }
        for directory in &self.directories {
            open_there(directory)?.map_or(Ok(()), |directory| directory.sync_all())?;
        }
        Ok(())
    }

    fn clear(self) -> Result<(), Undone> {
        let Work { remove, remove_directories, .. } = self;
        let mut first = None;
        let mut left: Vec<PathBuf> = Vec::new();
        for path in remove {
            if left.iter().any(|before| before.parent() == path.parent()) {
                left.push(path);
            } else if let Err(error) = removed(fs::remove_file(&path)) {
                first.get_or_insert(error);
                left.push(path);
            }
        }
        let mut left_directories = Vec::new();
        for path in remove_directories {
            if let Err(error) = removed(fs::remove_dir_all(&path)) {
                first.get_or_insert(error);
                left_directories.push(path);
            }
        }
        let (remove, remove_directories) = (left, left_directories);
        let work = Box::new(Work { remove, remove_directories, ..Work::default() });
        first.map_or(Ok(()), |error| Err(Undone { error, is_synced: true, work }))
    }
}

/// `None`: it is not there. Its queue was deleted meanwhile.
fn open_there(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// A file that is not there is removed.
fn removed(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
