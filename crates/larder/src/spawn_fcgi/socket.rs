//! The listening socket.

use std::{
    ffi::OsString,
    fs, io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{
            fs::{PermissionsExt, chown},
            net::UnixStream,
        },
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2},
    net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind as bind_to, listen,
        socket_with, sockopt,
    },
    process::umask,
};

use super::{Exit, Typed, owner::Owner};
use crate::launch::plain;

/// The longest path of a unix socket, in bytes: the kernel's limit, less the zero at the end.
pub(super) const LONGEST_PATH: usize = 107;

/// The socket of the flags, listening.
pub(super) fn bind(typed: &Typed, owner: &Owner) -> Result<OwnedFd, Exit> {
    match &typed.socket {
        Some(path) => unix(typed, path, owner),
        None => tcp(typed),
    }
}

fn failed(what: &str) -> impl Fn(io::Error) -> Exit {
    move |error| Exit::failure(format!("{what}: {}", plain(&error)))
}

fn tcp(typed: &Typed) -> Result<OwnedFd, Exit> {
    let address: IpAddr = match &typed.address {
        None => Ipv4Addr::UNSPECIFIED.into(),
        Some(text) => text
            .parse()
            .map_err(|_| Exit::failure(format!("'{text}' is not a valid IP address")))?,
    };
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = open(family)?;
    sockopt::set_socket_reuseaddr(&socket, true)
        .map_err(|error| failed("couldn't set SO_REUSEADDR")(error.into()))?;
    bind_to(&socket, &SocketAddr::new(address, typed.port))
        .map_err(|error| failed("bind failed")(error.into()))?;
    ready(socket, typed.backlog)
}

fn open(family: AddressFamily) -> Result<OwnedFd, Exit> {
    socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|error| failed("couldn't create socket")(error.into()))
}

fn ready(socket: OwnedFd, backlog: i32) -> Result<OwnedFd, Exit> {
    listen(&socket, backlog).map_err(|error| failed("listen failed")(error.into()))?;
    Ok(socket)
}

fn unix(typed: &Typed, path: &str, owner: &Owner) -> Result<OwnedFd, Exit> {
    let inside = typed.root.as_ref().filter(|_| !typed.socket_outside);
    let place = match inside {
        Some(root) => Place::within(root, path).map_err(failed("bind failed"))?,
        None => Place { path: PathBuf::from(path), _directory: None },
    };
    let path = &place.path;
    if UnixStream::connect(path).is_ok() {
        return Err(Exit::failure("socket is already in use, can't spawn"));
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(failed("removing old socket failed")(error));
        }
        _ => {}
    }
    let socket = open(AddressFamily::UNIX)?;
    let address = SocketAddrUnix::new(path).map_err(|error| failed("bind failed")(error.into()))?;
    bind_to(&socket, &address).map_err(|error| failed("bind failed")(error.into()))?;
    let mode = typed.mode.unwrap_or_else(|| 0o660 & !own_umask());
    let owned = (owner.socket_user, owner.socket_group);
    // The new owner first: a change of owner takes away bits of the mode.
    let changed = match owned {
        (None, None) => Ok(()),
        (user, group) => chown(path, user, group).map_err(failed("couldn't chown socket")),
    };
    let changed = changed.and_then(|()| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
            .map_err(failed("couldn't chmod socket"))
    });
    if let Err(exit) = changed {
        let _ = fs::remove_file(path);
        return Err(exit);
    }
    ready(socket, typed.backlog)
}

/// The mask can only be read by setting it. This process has one thread.
fn own_umask() -> u32 {
    let mask = umask(Mode::empty());
    umask(mask);
    mask.bits()
}

/// The path of a socket.
struct Place {
    path: PathBuf,
    /// The directory that the path goes through.
    _directory: Option<OwnedFd>,
}

impl Place {
    /// A path as a process with another root sees it, symbolic links included.
    fn within(root: &str, path: &str) -> io::Result<Place> {
        let path = Path::new(path);
        let name: OsString = path.file_name().ok_or(io::ErrorKind::IsADirectory)?.into();
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("/"));
        let root = open_root(root)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat2(&root, parent, flags, Mode::empty(), ResolveFlags::IN_ROOT)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name);
        Ok(Place { path, _directory: Some(directory) })
    }
}

/// The directory of `-c`.
pub(super) fn open_root(root: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(CWD, root, flags, Mode::empty())
}
