//! A directory for one server or one run, gone when it is dropped.

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

use super::{Error, living};

/// Memory as a file system: what a cache keeps on "disk" is then not measured through a disk.
const MEMORY: &str = "/dev/shm";
/// Containers often have 64 MB there, which is too little for caches of pages.
const ROOM: u64 = 1 << 30;
/// Of directories: for us alone, and for all to read.
const PRIVATE: u32 = 0o700;
/// See `PRIVATE`.
const READABLE: u32 = 0o755;

/// A directory of our own, into which nobody else looks or writes. Removed when dropped.
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
        DirBuilder::new().mode(PRIVATE).create(&path).map_err(Error::path(&path))?;
        living::directory(&path);
        Ok(Self { path, kept: false })
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

    /// Lets other users read it, where we are root: servers may then become somebody else. Those of others stay who they are.
    ///
    /// # Errors
    /// [`Error::Ours`] when its mode cannot be changed.
    pub fn show(&self) -> Result<(), Error> {
        if geteuid().is_root() { mode(&self.path, READABLE) } else { Ok(()) }
    }

    /// A directory in it, of our own.
    ///
    /// # Errors
    /// [`Error::Ours`] when it cannot be made.
    pub fn dir(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.path.join(name);
        fs::create_dir_all(&path).map_err(Error::path(&path))?;
        mode(&path, READABLE)?;
        Ok(path)
    }

    /// A directory in it that is this user's, and all that a server which becomes this user may write to.
    ///
    /// # Errors
    /// [`Error::Ours`] when it cannot be made or given away, which only root may.
    pub fn dir_of(&self, name: &str, user: &User) -> Result<PathBuf, Error> {
        let path = self.dir(name)?;
        chown(&path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).map_err(Error::path(&path))?;
        Ok(path)
    }

    /// Writes a file in it, for all who may look into it. `name` may have directories in it.
    ///
    /// # Errors
    /// [`Error::Ours`] when it cannot be written.
    pub fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Result<PathBuf, Error> {
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

/// Whatever the umask of whoever starts us.
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
        assert_eq!((mode(&scratch.path().join("a")), mode(&scratch.path().join("a/b"))), (0o755, 0o755));
    }
}
