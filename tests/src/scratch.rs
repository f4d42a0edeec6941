//! A directory of its own for a test, removed when dropped.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A fresh directory under the system's temporary one.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes the directory; its name starts with `name`.
    pub fn new(name: &str) -> Scratch {
        let unique = format!(
            "larder-{name}-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(unique);
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Path of a file in it, which need not exist.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file in it and gives its path.
    pub fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.file(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover directory is no reason to fail a test that passed.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A small file system in memory, unmounted when dropped.
pub struct Small(Scratch);

impl Small {
    /// Of a size in the words of `mount`. `None`: this user cannot have one.
    pub fn new(size: &str) -> Option<Small> {
        let small = Small(Scratch::new("small"));
        std::fs::create_dir(small.path()).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "larder"]).arg(small.path());
        mount.output().is_ok_and(|done| done.status.success()).then_some(small)
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.0.file("fs")
    }

    /// Path of a file in it, which need not exist.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Takes all the room that is left, by a file of this name.
    pub fn fill(&self, name: &str) {
        use std::io::Write;
        let mut file = std::fs::File::create(self.file(name)).unwrap();
        while file.write_all(&[1; 4096]).is_ok() {}
        while file.write_all(&[1]).is_ok() {}
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).output();
    }
}
