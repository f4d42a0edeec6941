//! Listening sockets of applications.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder, Permissions},
    io,
    net::SocketAddr,
    os::{
        fd::OwnedFd,
        unix::{
            fs::{DirBuilderExt, MetadataExt, PermissionsExt},
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use larder_server::settings::AppListen;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::{AddressFamily, SocketFlags, SocketType, accept, bind, listen, socket_with, sockopt},
};

use crate::launch::plain;

/// Connections that wait in the kernel while processes are busy or started again. The system's
/// limit (net.core.somaxconn) may be lower.
const BACKLOG: i32 = 4096;

/// Time to accept a connection that waits.
const CLOSE: Duration = Duration::from_millis(1);

/// Permissions of a unix socket: Larder alone connects to it.
const MODE: u32 = 0o600;

/// An open socket. The file of a unix socket is removed when it is dropped.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) socket: Arc<OwnedFd>,
    pub(super) address: Place,
}

/// The address at which a socket is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

impl Listening {
    /// Opens the socket of an application. The error is a reason to print.
    pub(super) fn open(address: &AppListen) -> Result<Listening, String> {
        match address {
            AppListen::Tcp(address) => tcp(*address)
                .map_err(|error| format!("cannot listen on {address}: {}", plain(&error))),
            AppListen::Unix { path, own } => {
                let failed = |error: io::Error| {
                    format!("cannot listen on {}: {}", path.display(), plain(&error))
                };
                if *own && let Some(directory) = path.parent() {
                    own_directory(directory).map_err(failed)?;
                }
                unix(path).map_err(failed)
            }
        }
    }

    /// A second socket for the next processes, at a name beside that of the first. None: sockets of
    /// TCP are shared by all processes.
    pub(super) fn next(&self) -> io::Result<Option<Listening>> {
        match &self.address {
            Place::Tcp(_) => Ok(None),
            Place::Unix(path) => {
                // Programs that clean up directories may have removed it.
                if let Some(directory) = path.parent().filter(|directory| is_own(directory)) {
                    own_directory(directory)?;
                }
                unix(&beside(path, ".new")).map(Some)
            }
        }
    }

    /// Whether the file of a unix socket was removed: nobody can connect until another is opened.
    pub(super) fn is_gone(&self) -> bool {
        match &self.address {
            Place::Tcp(_) => false,
            Place::Unix(path) => {
                fs::symlink_metadata(path).is_err_and(|e| e.kind() == io::ErrorKind::NotFound)
            }
        }
    }

    /// Takes the place of `before`: connections come here from now on.
    pub(super) fn replace(&mut self, before: &mut Listening) -> io::Result<()> {
        let (Place::Unix(own), Place::Unix(path)) = (&self.address, &before.address) else {
            return Ok(());
        };
        fs::rename(own, path)?;
        std::mem::swap(&mut self.address, &mut before.address);
        Ok(())
    }

    /// Whether connections are refused, or accepted again. A socket of TCP accepts always.
    /// Connections that wait are closed: no process would answer them soon.
    pub(super) fn refuse(&self, refuse: bool) {
        self.take_away(refuse);
        if refuse {
            self.close_waiting();
        }
    }

    /// A process that accepts at the same moment may take the connection that was seen: then the
    /// time of the socket ends the wait.
    fn close_waiting(&self) {
        let limit = |time| sockopt::set_socket_timeout(&self.socket, sockopt::Timeout::Recv, time);
        if limit(Some(CLOSE)).is_err() {
            return;
        }
        for _ in 0..BACKLOG {
            if !self.has_waiting() || accept(&self.socket).is_err() {
                break;
            }
        }
        let _ = limit(None);
    }

    fn take_away(&self, refuse: bool) {
        let Place::Unix(path) = &self.address else { return };
        let off = beside(path, ".off");
        // The first fails if the file is gone, the second if it was not taken away.
        let _ = if refuse { fs::rename(path, off) } else { fs::rename(off, path) };
    }

    /// Whether connections wait that no process has accepted.
    pub(super) fn has_waiting(&self) -> bool {
        let mut asked = [PollFd::new(&self.socket, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut asked, Some(&now)).is_ok_and(|ready| ready > 0)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Place::Unix(path) = &self.address {
            let _ = fs::remove_file(path);
            let _ = fs::remove_file(beside(path, ".off"));
            // Of the directory that Larder made, when it is empty.
            if let Some(directory) = path.parent().filter(|directory| is_own(directory)) {
                let _ = fs::remove_dir(directory);
            }
        }
    }
}

fn is_own(directory: &Path) -> bool {
    let name = format!("larder-{}", std::process::id());
    directory.file_name().is_some_and(|held| *held == *name)
}

/// A directory that nobody else may enter: others could put a socket of their own there.
fn own_directory(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let data = fs::symlink_metadata(path)?;
            let own = data.is_dir()
                && data.uid() == rustix::process::geteuid().as_raw()
                && data.mode() & 0o077 == 0;
            if own { Ok(()) } else { Err(io::Error::other("the directory is somebody else's")) }
        }
        made => made,
    }
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    name.into()
}

fn tcp(address: SocketAddr) -> io::Result<Listening> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(Listening { socket: Arc::new(socket), address: Place::Tcp(address) })
}

/// A file that is there already is replaced, unless somebody listens on it.
fn unix(path: &Path) -> io::Result<Listening> {
    if UnixStream::connect(path).is_ok() {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    match fs::symlink_metadata(path) {
        Ok(data) if is_socket(&data) => fs::remove_file(path)?,
        Ok(_) => return Err(io::Error::other("there is a file that is no socket")),
        Err(_) => {}
    }
    // Its queue becomes longer with a second call.
    let socket = Arc::new(OwnedFd::from(UnixListener::bind(path)?));
    let listening = Listening { socket, address: Place::Unix(path.to_owned()) };
    fs::set_permissions(path, Permissions::from_mode(MODE))?;
    listen(&listening.socket, BACKLOG)?;
    Ok(listening)
}

fn is_socket(data: &fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;

    data.file_type().is_socket()
}
