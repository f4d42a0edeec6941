//! A mount from its start to its end.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use fuser::{Config, Filesystem, MountOption, Notifier, Session, SessionACL, SessionUnmounter};
use nix::mount::{MntFlags, umount2};
use parking_lot::{Condvar, Mutex};

use crate::MountOptions;

/// The part of a file system that works beside the requests.
pub(crate) trait Served: Send + Sync {
    /// It is mounted. `device`: its own.
    fn mounted(&self, notifier: Notifier, device: Option<u64>) -> io::Result<()>;
    /// The device on which a path is, without a request to this mount.
    fn device_of(&self, path: &Path) -> Option<u64>;
    /// Whether the kernel may read files itself.
    fn is_passthrough(&self) -> bool;
}

/// A file system that is mounted. Threads of its own answer the requests.
pub struct Mounted {
    target: PathBuf,
    unmounter: Mutex<SessionUnmounter>,
    ended: Arc<Ended>,
    served: Box<dyn Served>,
}

/// The end of a session.
#[derive(Default)]
struct Ended {
    result: Mutex<Option<io::Result<()>>>,
    happened: Condvar,
}

impl Mounted {
    pub(crate) fn start<F: Filesystem>(
        files: F,
        served: Box<dyn Served>,
        name: &str,
        target: &Path,
        options: &MountOptions,
    ) -> io::Result<Mounted> {
        let mut session = Session::new(files, target, &config(name, options))?;
        let unmounter = Mutex::new(session.unmount_callable());
        let notifier = session.notifier();
        let ended = Arc::new(Ended::default());
        let tell = ended.clone();
        let thread = thread::Builder::new().name("larder-mount".to_owned());
        thread.spawn(move || {
            let result = session.run();
            *tell.result.lock() = Some(result);
            tell.happened.notify_all();
        })?;
        let mounted = Mounted { target: target.to_owned(), unmounter, ended, served };
        mounted.served.mounted(notifier, mounted.served.device_of(target))?;
        Ok(mounted)
    }

    /// Waits until it is unmounted, by whomever.
    pub fn wait(&self) -> io::Result<()> {
        let mut result = self.ended.result.lock();
        loop {
            match result.take() {
                Some(ended) => {
                    *result = Some(Ok(()));
                    return ended;
                }
                None => self.ended.happened.wait(&mut result),
            }
        }
    }

    /// Unmounts. While programs have files open there, the name goes at once, and those files stay
    /// until they are closed: [`Mounted::wait`] waits for that.
    pub fn stop(&self) -> io::Result<()> {
        if self.ended.result.lock().is_some() {
            return Ok(());
        }
        let busy = match self.unmounter.lock().unmount() {
            Ok(()) => return Ok(()),
            Err(busy) => busy,
        };
        if self.ended.result.lock().is_some() {
            return Ok(());
        }
        umount2(&self.target, MntFlags::MNT_DETACH).map_err(|_| busy)
    }

    /// Whether the kernel may read files itself (FUSE passthrough).
    pub fn is_passthrough(&self) -> bool {
        self.served.is_passthrough()
    }
}

/// Takes away the mount of a process that was killed: each look at it fails with ENOTCONN.
pub(crate) fn clear_dead(target: &Path) {
    let dead = std::fs::metadata(target)
        .is_err_and(|error| error.raw_os_error() == Some(nix::libc::ENOTCONN));
    if dead {
        let _not_ours = umount2(target, MntFlags::MNT_DETACH);
    }
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
