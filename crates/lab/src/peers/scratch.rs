//! Temporary directory of a server or run, removed when dropped.

use std::{
    env,
    fs::{self, DirBuilder},
    os::unix::fs::{DirBuilderExt, PermissionsExt, chown},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use nix::unistd::{User, geteuid};
use rustix::fs::{StatVfsMountFlags, statvfs};

use super::{Error, cleanup};

/// File system in memory, so that a cache's "disk" does not depend on a disk.
const MEMORY: &str = "/dev/shm";
/// Least free space there: containers often have 64 MB, too little for caches of pages.
const ROOM: u64 = 1 << 30;
/// Directory modes: private, and readable by all.
const PRIVATE: u32 = 0o700;
/// See `PRIVATE`.
const READABLE: u32 = 0o755;

/// A directory private to this user. Removed when dropped.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    kept: bool,
}

impl Scratch {
    /// Creates a directory; `name` is part of its path.
    ///
    /// # Errors
    /// [`Error::Ours`] if it cannot be created.
    pub fn new(name: &str) -> Result<Self, Error> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = parent().join(format!("larder-{name}-{}-{count}", process::id()));
        DirBuilder::new().mode(PRIVATE).create(&path).map_err(Error::path(&path))?;
        cleanup::directory(&path);
        Ok(Self { path, kept: false })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps it from being removed.
    pub fn keep(&mut self) {
        self.kept = true;
        cleanup::forget_directory(&self.path);
    }

    /// Makes it readable by other users if run as root, as servers may then switch users.
    ///
    /// # Errors
    /// [`Error::Ours`] if its mode cannot be changed.
    pub fn show(&self) -> Result<(), Error> {
        if geteuid().is_root() { mode(&self.path, READABLE) } else { Ok(()) }
    }

    /// Creates a subdirectory, owned by the current user.
    ///
    /// # Errors
    /// [`Error::Ours`] if it cannot be created.
    pub fn dir(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.path.join(name);
        fs::create_dir_all(&path).map_err(Error::path(&path))?;
        mode(&path, READABLE)?;
        Ok(path)
    }

    /// Creates a subdirectory owned by `user`, the only place a server running as that user may
    /// write to.
    ///
    /// # Errors
    /// [`Error::Ours`] if it cannot be created, or its owner not changed (only root may).
    pub fn dir_of(&self, name: &str, user: &User) -> Result<PathBuf, Error> {
        let path = self.dir(name)?;
        chown(&path, Some(user.uid.as_raw()), Some(user.gid.as_raw()))
            .map_err(Error::path(&path))?;
        Ok(path)
    }

    /// Writes a file in it, readable by all who may enter it. `name` may contain directories.
    ///
    /// # Errors
    /// [`Error::Ours`] if it cannot be written.
    pub fn write(
        &self,
        name: impl AsRef<Path>,
        content: impl AsRef<[u8]>,
    ) -> Result<PathBuf, Error> {
        let path = self.path.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(Error::path(parent))?;
            let mut below = parent.ancestors().take_while(|dir| *dir != self.path);
            below.try_for_each(|dir| mode(dir, READABLE))?;
        }
        fs::write(&path, content).map_err(Error::path(&path))?;
        mode(&path, 0o644)?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.kept {
            // A directory that cannot be removed stays among temporary files.
            let _stays = fs::remove_dir_all(&self.path);
            cleanup::forget_directory(&self.path);
        }
    }
}

fn parent() -> PathBuf {
    // Varnish executes code it compiled there.
    let fit = statvfs(MEMORY).is_ok_and(|fs| {
        fs.f_bavail.saturating_mul(fs.f_frsize) >= ROOM
            && !fs.f_flag.contains(StatVfsMountFlags::NOEXEC)
    });
    if env::var_os("TMPDIR").is_none() && fit { PathBuf::from(MEMORY) } else { env::temp_dir() }
}

/// Sets the mode independent of the umask.
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
        assert!(scratch.write("below/file", "x").unwrap().starts_with(&path));
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn nobody_else_writes_into_it() {
        let scratch = Scratch::new("scratch").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(scratch.path()), 0o700);
        scratch.show().unwrap();
        assert_eq!(mode(scratch.path()), if geteuid().is_root() { 0o755 } else { 0o700 });
        let file = scratch.write("a/b/file", "x").unwrap();
        assert_eq!((mode(&scratch.dir("c").unwrap()), mode(&file)), (0o755, 0o644));
        assert_eq!(
            (mode(&scratch.path().join("a")), mode(&scratch.path().join("a/b"))),
            (0o755, 0o755)
        );
    }
}
