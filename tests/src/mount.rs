//! `larder mount` as a child process, with its source and its mount point.

use crate::larder::binary;
use crate::printed::Printed;
use crate::scratch::Scratch;
use crate::wait::{PATIENCE, wait_until};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

/// Printed when it is mounted.
const MOUNTED: &str = " is mounted at ";

/// A running `larder mount`. Ended and unmounted when dropped.
pub struct Mount {
    child: Child,
    stderr: Printed,
    target: PathBuf,
    _place: Scratch,
}

/// Whether mounts can be tested. Where the device is missing, that is said; a device that cannot
/// be used fails the test that uses it.
pub fn possible() -> bool {
    let there = Path::new("/dev/fuse").exists();
    if !there {
        eprintln!("SKIPPED: there is no /dev/fuse here, so that no mount is tested");
    }
    there
}

impl Mount {
    /// Mounts this source (a directory or a URL), with further arguments.
    #[track_caller]
    pub fn of(source: &str, args: &[&str]) -> Mount {
        Mount::trusting(source, args, None)
    }

    /// The same, with a file of authorities that sign the certificates of sites.
    #[track_caller]
    pub fn trusting(source: &str, args: &[&str], authorities: Option<&str>) -> Mount {
        let place = Scratch::new("mount");
        let target = place.file("mnt");
        fs::create_dir(&target).unwrap();
        let (stderr, printed) = Printed::new(&place);
        let mut child = Command::new(binary())
            .envs(authorities.map(|file| ("SSL_CERT_FILE", file)))
            .arg("mount")
            .arg(source)
            .arg(&target)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(printed)
            .spawn()
            .unwrap();
        let started = Instant::now();
        while !stderr.text().contains(MOUNTED) {
            let said = stderr.text();
            let exited = child.try_wait().unwrap();
            assert!(exited.is_none(), "larder mount ended ({exited:?}):\n{said}");
            assert!(started.elapsed() < PATIENCE, "larder mount does not mount:\n{said}");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        Mount { child, stderr, target, _place: place }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.target
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.target.join(name)
    }

    /// Printed so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Sends a signal.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Lets it open descriptors below this number only; gives the limit of before.
    #[track_caller]
    pub fn limit_descriptors(&self, most: u64) -> u64 {
        // It has this process's, and nobody but root may raise it again.
        let maximum = getrlimit(Resource::Nofile).maximum;
        let limit = Rlimit { current: Some(most), maximum };
        let before = prlimit(Some(self.pid()), Resource::Nofile, limit).unwrap();
        before.current.or(maximum).unwrap_or(most)
    }

    /// Whether it has ended.
    #[track_caller]
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end.
    #[track_caller]
    pub fn ended(&mut self) -> ExitStatus {
        wait_until("the mount to end", || self.child.try_wait().unwrap().is_some());
        self.child.wait().unwrap()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // The test may have failed with files open: the name goes, then the process.
            let _ =
                Command::new("umount").arg("-l").arg(&self.target).stderr(Stdio::null()).status();
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if is_mounted(&self.target) {
            let _ =
                Command::new("umount").arg("-l").arg(&self.target).stderr(Stdio::null()).status();
        }
    }
}

/// Whether something is mounted at a path.
pub fn is_mounted(path: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let wanted = path.to_string_lossy();
    mounts.lines().any(|line| line.split(' ').nth(4) == Some(&*wanted))
}
