//! Listening: TCP and UDP addresses with one socket per worker (`SO_REUSEPORT`), unix sockets with
//! one for all.

use std::{
    fmt,
    fs::{self, Permissions},
    io,
    net::{SocketAddr, TcpListener, UdpSocket},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    os::unix::{
        fs::{FileTypeExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
};

use socket2::{Domain, Protocol, Socket, Type};

use super::inherited::Inherited;
use crate::settings::Listen;

/// Commands the kernel keeps waiting at the control socket.
const CONTROL_BACKLOG: i32 = 16;

/// An address something is served at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Over TCP.
    Tcp(SocketAddr),
    /// Over UDP.
    Udp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) | Address::Udp(address) => address.fmt(f),
            Address::Unix(path) => path.display().fmt(f),
        }
    }
}

/// A socket that accepts connections.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Its address.
    pub(crate) fn address(&self) -> io::Result<Address> {
        Ok(match self {
            Listener::Tcp(listener) => Address::Tcp(listener.local_addr()?),
            Listener::Unix(_, path) => Address::Unix(path.clone()),
        })
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener, _) => listener.as_fd(),
        }
    }

    /// Its address as clients are told it.
    pub(crate) fn name(&self) -> io::Result<String> {
        Ok(match self {
            Listener::Tcp(listener) => listener.local_addr()?.to_string(),
            Listener::Unix(_, path) => path.display().to_string(),
        })
    }
}

/// One face's listeners: per worker, and their addresses with the ports the system picked.
pub(crate) struct Bound {
    pub(crate) workers: Vec<Vec<Listener>>,
    pub(crate) addresses: Vec<Address>,
}

/// How the listeners of a face are.
#[derive(Clone, Copy)]
pub(crate) struct Manner {
    /// `SO_SNDBUF` of what they accept; 0: the system's.
    pub(crate) sndbuf: usize,
    /// Connections the kernel keeps waiting, for each.
    pub(crate) backlog: i32,
    /// Another listener of this process has the port, at an address that covers this one or is
    /// covered by it.
    pub(crate) shared: bool,
}

/// Whether one of the open listeners has the port of a wanted one, as [`Manner::shared`] says.
pub(crate) fn shares_port<'a>(
    wanted: &Listen,
    mut open: impl Iterator<Item = &'a Address>,
) -> bool {
    let Listen::Tcp(wanted) = wanted else { return false };
    open.any(|open| match open {
        Address::Tcp(open) => {
            let any = open.ip().is_unspecified() || wanted.ip().is_unspecified();
            open.port() == wanted.port() && open.ip() != wanted.ip() && any
        }
        _ => false,
    })
}

/// A listener of every address for every one of `workers`. The first of each address takes the
/// port, the others join it. On an error: the address, and what the system said.
pub(crate) fn bind(
    listen: &[Listen],
    workers: usize,
    manner: Manner,
    inherited: &mut Inherited,
) -> Result<Bound, (Address, io::Error)> {
    let mut bound =
        Bound { workers: (0..workers).map(|_| Vec::new()).collect(), addresses: Vec::new() };
    for wanted in listen {
        let (name, taken) = match wanted {
            Listen::Tcp(address) => {
                let taken = match inherited.tcp(*address) {
                    Some(socket) => take_tcp(&socket, &mut bound, manner),
                    None => bind_tcp(*address, &mut bound, manner),
                };
                (Address::Tcp(*address), taken)
            }
            Listen::Unix { path, mode } => {
                let taken = match inherited.unix(path) {
                    Some(listener) => share_unix(&listener, path, &mut bound),
                    None => bind_unix(path, *mode, &mut bound, manner),
                };
                (Address::Unix(path.clone()), taken)
            }
        };
        if let Err(error) = taken {
            remove(bound.addresses.iter().filter(|address| !is_of_others(address, inherited)));
            return Err((name, error));
        }
    }
    Ok(bound)
}

/// Removes the files of unix sockets.
pub(crate) fn remove<'a>(addresses: impl IntoIterator<Item = &'a Address>) {
    for address in addresses {
        if let Address::Unix(path) = address {
            let _ = fs::remove_file(path);
        }
    }
}

fn bind_tcp(wanted: SocketAddr, bound: &mut Bound, manner: Manner) -> io::Result<()> {
    if !manner.shared {
        free(wanted, Type::STREAM)?;
    }
    let mut address = wanted;
    for listeners in &mut bound.workers {
        let socket = socket(address, Type::STREAM)?;
        // Accepted sockets inherit these from their listener: no system call per connection.
        socket.set_tcp_nodelay(true)?;
        if manner.sndbuf > 0 {
            socket.set_send_buffer_size(manner.sndbuf)?;
        }
        socket.bind(&address.into())?;
        socket.listen(manner.backlog)?;
        let listener = TcpListener::from(socket);
        address = listener.local_addr()?;
        listeners.push(Listener::Tcp(listener));
    }
    bound.addresses.push(Address::Tcp(address));
    Ok(())
}

/// A socket that was handed over is one for all workers: whoever is free accepts.
fn take_tcp(listener: &TcpListener, bound: &mut Bound, manner: Manner) -> io::Result<()> {
    let socket = socket2::SockRef::from(listener);
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    if manner.sndbuf > 0 {
        socket.set_send_buffer_size(manner.sndbuf)?;
    }
    for listeners in &mut bound.workers {
        listeners.push(Listener::Tcp(listener.try_clone()?));
    }
    bound.addresses.push(Address::Tcp(listener.local_addr()?));
    Ok(())
}

/// Listeners for every one of `workers` from those of another process, which may have had more
/// workers, or fewer.
pub(crate) fn adopt(
    wanted: &Listen,
    sockets: Vec<OwnedFd>,
    workers: usize,
    manner: Manner,
) -> io::Result<Bound> {
    let mut bound =
        Bound { workers: (0..workers).map(|_| Vec::new()).collect(), addresses: Vec::new() };
    let number = sockets.len().max(workers);
    let all: Vec<OwnedFd> = shared(sockets, number).collect::<io::Result<_>>()?;
    for (number, socket) in all.into_iter().enumerate() {
        let listeners = &mut bound.workers[number % workers];
        let listener = match wanted {
            Listen::Tcp(_) => {
                let listener = TcpListener::from(socket);
                let options = socket2::SockRef::from(&listener);
                options.set_nonblocking(true)?;
                options.set_tcp_nodelay(true)?;
                if manner.sndbuf > 0 {
                    options.set_send_buffer_size(manner.sndbuf)?;
                }
                Listener::Tcp(listener)
            }
            Listen::Unix { path, .. } => Listener::Unix(socket.into(), path.clone()),
        };
        if bound.addresses.is_empty() {
            bound.addresses.push(listener.address()?);
        }
        listeners.push(listener);
    }
    Ok(bound)
}

/// These sockets, and copies of them until there are so many.
pub(crate) fn shared(
    sockets: Vec<OwnedFd>,
    number: usize,
) -> impl Iterator<Item = io::Result<OwnedFd>> {
    let copies: Vec<_> =
        (sockets.len()..number).map(|n| sockets[n % sockets.len()].try_clone()).collect();
    sockets.into_iter().map(Ok).chain(copies)
}

/// Names the sockets of an address for another process, whose version may differ.
pub(crate) fn socket_name(face: &str, listen: &Listen) -> String {
    match listen {
        Listen::Tcp(address) => format!("{face} tcp {address}"),
        Listen::Unix { path, .. } => format!("{face} unix {}", path.display()),
    }
}

/// Whether this is the file of a socket that was handed over.
pub(crate) fn is_of_others(address: &Address, inherited: &Inherited) -> bool {
    matches!(address, Address::Unix(path) if inherited.owns(path))
}

/// One socket for all workers: whoever is free accepts.
fn bind_unix(path: &Path, mode: u32, bound: &mut Bound, manner: Manner) -> io::Result<()> {
    replace_stale(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&socket2::SockAddr::unix(path)?)?;
    // From here on the file is ours, and is removed with what else was bound when something fails.
    bound.addresses.push(Address::Unix(path.to_owned()));
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    socket.listen(manner.backlog)?;
    share(&UnixListener::from(socket), path, bound)
}

fn share_unix(listener: &UnixListener, path: &Path, bound: &mut Bound) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    bound.addresses.push(Address::Unix(path.to_owned()));
    share(listener, path, bound)
}

fn share(listener: &UnixListener, path: &Path, bound: &mut Bound) -> io::Result<()> {
    for listeners in &mut bound.workers {
        listeners.push(Listener::Unix(listener.try_clone()?, path.to_owned()));
    }
    Ok(())
}

/// The socket for commands of the same user and of root. It gets its name when somebody answers on
/// it: another Larder takes one on which nobody answers for a leftover.
pub(crate) fn bind_control(path: &Path) -> io::Result<UnixListener> {
    replace_stale(path)?;
    let beside = path.with_extension("new");
    let _ = fs::remove_file(&beside);
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&socket2::SockAddr::unix(&beside)?)?;
    let named = fs::set_permissions(&beside, Permissions::from_mode(0o600))
        .and_then(|()| socket.listen(CONTROL_BACKLOG))
        .and_then(|()| fs::rename(&beside, path));
    if let Err(error) = named {
        let _ = fs::remove_file(&beside);
        return Err(error);
    }
    Ok(UnixListener::from(socket))
}

/// Removes the socket file of a program that has ended: there is one, and nobody answers on it.
/// Anything else stays, and binding fails for it.
fn replace_stale(path: &Path) -> io::Result<()> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if is_socket
        && UnixStream::connect(path).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused)
    {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// One UDP socket per worker: the system spreads clients over them by their address.
pub(crate) fn bind_udp(
    wanted: SocketAddr,
    workers: usize,
    inherited: &mut Inherited,
) -> io::Result<(Vec<UdpSocket>, Address)> {
    if let Some(socket) = inherited.udp(wanted) {
        socket.set_nonblocking(true)?;
        let address = Address::Udp(socket.local_addr()?);
        let all = (0..workers).map(|_| socket.try_clone()).collect::<io::Result<_>>()?;
        return Ok((all, address));
    }
    free(wanted, Type::DGRAM)?;
    let mut address = wanted;
    let mut sockets = Vec::new();
    for _ in 0..workers {
        let socket = socket(address, Type::DGRAM)?;
        socket.bind(&address.into())?;
        let socket = UdpSocket::from(socket);
        address = socket.local_addr()?;
        sockets.push(socket);
    }
    Ok((sockets, Address::Udp(address)))
}

/// The UDP sockets of another process, for every one of `workers`; those that are left over are
/// closed.
pub(crate) fn adopt_udp(
    sockets: Vec<OwnedFd>,
    workers: usize,
) -> io::Result<(Vec<UdpSocket>, Address)> {
    let mut all = Vec::new();
    for socket in shared(sockets, workers) {
        let socket = UdpSocket::from(socket?);
        socket.set_nonblocking(true)?;
        all.push(socket);
    }
    let first = all.first().ok_or(io::ErrorKind::InvalidInput)?;
    let address = Address::Udp(first.local_addr()?);
    all.truncate(workers);
    Ok((all, address))
}

/// `SO_REUSEPORT` would let a second server of the same user share the port in silence: bind once
/// without it first.
fn free(address: SocketAddr, kind: Type) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(address), kind, None)?;
    if kind == Type::STREAM {
        socket.set_reuse_address(true)?;
    }
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())
}

fn socket(address: SocketAddr, kind: Type) -> io::Result<Socket> {
    let protocol = if kind == Type::STREAM { Protocol::TCP } else { Protocol::UDP };
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    if kind == Type::STREAM {
        socket.set_reuse_address(true)?;
    }
    socket.set_reuse_port(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANNER: Manner = Manner { sndbuf: 0, backlog: 8, shared: false };

    fn unix(path: &Path) -> [Listen; 1] {
        [Listen::Unix { path: path.to_owned(), mode: 0o750 }]
    }

    #[test]
    fn a_unix_socket_is_one_for_all_workers_and_goes_with_them() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("socket");
        let bound = bind(&unix(&path), 3, MANNER, &mut Inherited::default()).expect("bound");
        assert_eq!(bound.workers.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1]);
        assert_eq!(bound.addresses, [Address::Unix(path.clone())]);
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o750);
        UnixStream::connect(&path).expect("somebody listens");
        remove(&bound.addresses);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_is_replaced_only_if_nobody_answers() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("socket");
        let first = bind(&unix(&path), 1, MANNER, &mut Inherited::default()).expect("bound");
        let (address, error) = bind(&unix(&path), 1, MANNER, &mut Inherited::default())
            .err()
            .expect("somebody answers");
        assert_eq!(
            (address, error.kind()),
            (Address::Unix(path.clone()), io::ErrorKind::AddrInUse)
        );
        drop(first);
        assert!(path.exists(), "left behind");
        bind(&unix(&path), 1, MANNER, &mut Inherited::default()).expect("replaced");
    }

    #[test]
    fn what_is_no_socket_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        fs::write(&path, "mine").expect("written");
        assert!(bind(&unix(&path), 1, MANNER, &mut Inherited::default()).is_err());
        assert_eq!(fs::read(&path).expect("still there"), b"mine");
    }

    #[test]
    fn a_failure_takes_back_what_was_bound() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("socket");
        let taken = TcpListener::bind("127.0.0.1:0").expect("bound");
        let busy = Listen::Tcp(taken.local_addr().expect("an address"));
        let [socket] = unix(&path);
        assert!(bind(&[socket, busy], 2, MANNER, &mut Inherited::default()).is_err());
        assert!(!path.exists());
    }

    #[test]
    fn every_worker_has_the_same_port() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let bound = bind(&[Listen::Tcp(any)], 2, MANNER, &mut Inherited::default()).expect("bound");
        let names: Vec<_> =
            bound.workers.iter().map(|own| own[0].name().expect("a name")).collect();
        assert_eq!(names, [bound.addresses[0].to_string(), bound.addresses[0].to_string()]);
        let (sockets, address) = bind_udp(any, 2, &mut Inherited::default()).expect("bound");
        for socket in &sockets {
            assert_eq!(Address::Udp(socket.local_addr().expect("an address")), address);
        }
        let Address::Udp(taken) = address else { panic!("a UDP address") };
        assert!(bind_udp(taken, 1, &mut Inherited::default()).is_err(), "shared with nobody");
    }
}
