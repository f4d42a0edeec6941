//! A directory for one server or one run, gone when it is dropped.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::fs::{StatVfsMountFlags, statvfs};

use super::{Error, living};

/// Memory as a file system: what a cache keeps on "disk" is then not measured through a disk.
const MEMORY: &str = "/dev/shm";
/// Containers often have 64 MB there, which is too little for caches of pages.
const ROOM: u64 = 1 << 30;

/// A directory of our own that other users may read: servers drop their privileges. Removed when dropped.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    kept: bool,
}

impl Scratch {
    /// Makes one; `name` is in its path.
    ///
    /// # Errors
    /// [`Error::Ours`] when it cannot be made.
    pub fn new(name: &str) -> Result<Self, Error> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = parent().join(format!("larder-{name}-{}-{count}", process::id()));
        fs::create_dir(&path).map_err(Error::path(&path))?;
        living::directory(&path);
        let scratch = Self { path, kept: false };
        readable(scratch.path())?;
        Ok(scratch)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// From now on it is not removed.
    pub fn keep(&mut self) {
        self.kept = true;
        living::forget_directory(&self.path);
    }

    /// A directory in it that everybody may write to: for servers that drop their privileges.
    ///
    /// # Errors
    /// [`Error::Ours`] when it cannot be made.
    pub fn open_dir(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.path.join(name);
        fs::create_dir_all(&path).map_err(Error::path(&path))?;
        mode(&path, 0o777)?;
        Ok(path)
    }

    /// Writes a file in it that every user may read. `name` may have directories in it.
    ///
    /// # Errors
    /// [`Error::Ours`] when it cannot be written.
    pub fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Result<PathBuf, Error> {
        let path = self.path.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(Error::path(parent))?;
            // The umask again. Directories that stand are as they were made.
            let below = parent.ancestors().take_while(|dir| *dir != self.path);
            below.filter(|dir| unreadable(dir)).try_for_each(readable)?;
        }
        fs::write(&path, content).map_err(Error::path(&path))?;
        mode(&path, 0o644)?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.kept {
            // What cannot be removed stays in a directory for temporary things.
            let _stays = fs::remove_dir_all(&self.path);
            living::forget_directory(&self.path);
        }
    }
}

fn parent() -> PathBuf {
    // Varnish runs what it compiled there.
    let fit = statvfs(MEMORY).is_ok_and(|fs| {
        fs.f_bavail.saturating_mul(fs.f_frsize) >= ROOM && !fs.f_flag.contains(StatVfsMountFlags::NOEXEC)
    });
    if env::var_os("TMPDIR").is_none() && fit { PathBuf::from(MEMORY) } else { env::temp_dir() }
}

/// The umask of whoever starts us may be strict.
fn readable(path: &Path) -> Result<(), Error> {
    mode(path, 0o755)
}

fn unreadable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o555 != 0o555)
}

fn mode(path: &Path, mode: u32) -> Result<(), Error> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(Error::path(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_gone_when_dropped() {
        let scratch = Scratch::new("scratch").unwrap();
        let path = scratch.path().to_owned();
        let open = scratch.open_dir("open").unwrap();
        assert_eq!(fs::metadata(&open).unwrap().permissions().mode() & 0o777, 0o777);
        assert!(scratch.write("open/file", "x").unwrap().starts_with(&open));
        drop(scratch);
        assert!(!path.exists());
    }
}
