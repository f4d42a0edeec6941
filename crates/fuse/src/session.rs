//! A mount from its start to its end.

use std::{
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use fuser::{BackgroundSession, Config, Filesystem, MountOption, Notifier, Session, SessionACL};
use nix::mount::{MntFlags, umount2};
use parking_lot::{Condvar, Mutex};
use rustix::fs::{AtFlags, CWD, StatxFlags, major, makedev, minor, statx};

use crate::MountOptions;

/// The part of a file system that works beside the requests.
pub(crate) trait Served: Send + Sync {
    /// It is mounted. `device`: its own.
    fn mounted(&self, notifier: Notifier, device: Option<u64>) -> io::Result<()>;
    /// Whether the kernel may read files itself. None: there are no files below.
    fn is_passthrough(&self) -> Option<bool>;
}

/// A file system that is mounted. Threads of its own answer the requests. It is unmounted when
/// dropped.
pub struct Mounted {
    target: PathBuf,
    /// The mount's own device. None: it could not be found out.
    device: Option<u64>,
    session: Option<BackgroundSession>,
    ended: Arc<Ended>,
    served: Box<dyn Served>,
}

/// The end of a session, told by its file system.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    has_ended: Mutex<bool>,
    happened: Condvar,
}

impl Ended {
    /// No more requests come.
    pub(crate) fn tell(&self) {
        *self.has_ended.lock() = true;
        self.happened.notify_all();
    }

    fn is_told(&self) -> bool {
        *self.has_ended.lock()
    }
}

impl Mounted {
    pub(crate) fn start<F: Filesystem>(
        files: F,
        served: Box<dyn Served>,
        ended: Arc<Ended>,
        name: &str,
        target: &Path,
        options: &MountOptions,
    ) -> io::Result<Mounted> {
        let session = Session::new(files, target, &config(name, options))?.spawn()?;
        let notifier = session.notifier();
        let device = device_of(target);
        let mounted =
            Mounted { target: target.to_owned(), device, session: Some(session), ended, served };
        mounted.served.mounted(notifier, device)?;
        Ok(mounted)
    }

    /// Waits until it is unmounted, by whomever.
    pub fn wait(&self) {
        let mut has_ended = self.ended.has_ended.lock();
        while !*has_ended {
            self.ended.happened.wait(&mut has_ended);
        }
    }

    /// Unmounts. While programs have files open there, the name goes at once, and those files stay
    /// until they are closed: [`Mounted::wait`] waits for that.
    pub fn stop(&self) -> io::Result<()> {
        // Another mount may be at that place by now.
        if self.ended.is_told() || device_of(&self.target) != self.device {
            return Ok(());
        }
        match umount2(&self.target, MntFlags::MNT_DETACH) {
            Err(nix::errno::Errno::EPERM) => by_helper(&self.target),
            done => Ok(done?),
        }
    }

    /// Whether the kernel may read files itself (FUSE passthrough).
    pub fn is_passthrough(&self) -> bool {
        self.served.is_passthrough() == Some(true)
    }

    /// Whether it is a site.
    pub fn is_site(&self) -> bool {
        self.served.is_passthrough().is_none()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _gone_already = self.stop();
        // It would unmount the path again, whatever is mounted there by now.
        std::mem::forget(self.session.take());
    }
}

/// Users other than root unmount by the helper that mounted.
fn by_helper(target: &Path) -> io::Result<()> {
    let mut command = Command::new("fusermount3");
    command.args(["-u", "-z", "--"]).arg(target).stdout(Stdio::null()).stdin(Stdio::null());
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// The device on which a path is, without a request to the file system there.
fn device_of(path: &Path) -> Option<u64> {
    let stat = statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE).ok()?;
    Some(makedev(stat.stx_dev_major, stat.stx_dev_minor))
}

/// Takes away the mount of a process that was killed: each look at it fails with ENOTCONN.
pub(crate) fn clear_dead(target: &Path) {
    let dead = std::fs::metadata(target)
        .is_err_and(|error| error.raw_os_error() == Some(nix::libc::ENOTCONN));
    if dead && is_ours(target) {
        let _not_allowed = umount2(target, MntFlags::MNT_DETACH);
    }
}

/// Whether a directory is on a mirror of this program's, by the table of mounts.
pub(crate) fn is_mirror(directory: &Path) -> bool {
    let Some(device) = device_of(directory) else { return false };
    let device = format!("{}:{}", major(device), minor(device));
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    table.lines().filter(|line| line.split(' ').nth(2) == Some(&device)).any(|line| {
        line.split_once(" - fuse.larder ").is_some_and(|(_, name)| !name.contains("://"))
    })
}

/// Whether the mount at a path is one of this program's, by the table of mounts.
fn is_ours(target: &Path) -> bool {
    let above = target.parent().filter(|above| !above.as_os_str().is_empty());
    let above = std::fs::canonicalize(above.unwrap_or(Path::new(".")));
    let (Ok(above), Some(name)) = (above, target.file_name()) else { return false };
    let path = above.join(name);
    // As the table writes it.
    let mut written = path.to_string_lossy().replace('\\', "\\134");
    for (byte, escaped) in [(' ', "\\040"), ('\t', "\\011"), ('\n', "\\012")] {
        written = written.replace(byte, escaped);
    }
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let last = table.lines().rfind(|line| line.split(' ').nth(4) == Some(&written));
    last.is_some_and(|line| line.contains(" - fuse.larder "))
}

fn config(name: &str, options: &MountOptions) -> Config {
    let mut config = Config::default();
    // A comma would begin another option where fusermount mounts.
    let name = name.replace([',', '\\'], "_");
    config.mount_options = vec![
        MountOption::RO,
        MountOption::FSName(name),
        MountOption::CUSTOM("subtype=larder".to_owned()),
        MountOption::DefaultPermissions,
    ];
    let flags = [
        (options.suid, MountOption::Suid),
        (options.dev, MountOption::Dev),
        (options.noexec, MountOption::NoExec),
    ];
    config.mount_options.extend(flags.into_iter().filter(|(set, _)| *set).map(|(_, flag)| flag));
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(options.threads.max(1));
    config.clone_fd = true;
    config
}
