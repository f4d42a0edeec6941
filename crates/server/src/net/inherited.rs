//! Listening sockets that another program opened, as systemd does (sd_listen_fds(3)): whoever binds
//! an address takes the socket that is there for it instead.

use std::{
    io,
    net::{SocketAddr, TcpListener, UdpSocket},
    os::{fd::OwnedFd, unix::net::UnixListener},
    path::{Path, PathBuf},
};

use super::link::Link;

/// A socket that was handed over.
#[derive(Debug)]
pub enum InheritedSocket {
    /// Listens on TCP.
    Tcp(TcpListener),
    /// Listens in the file system.
    Unix(UnixListener),
    /// Bound on UDP.
    Udp(UdpSocket),
}

impl InheritedSocket {
    fn path(&self) -> Option<PathBuf> {
        match self {
            InheritedSocket::Unix(listener) => {
                listener.local_addr().ok()?.as_pathname().map(Path::to_owned)
            }
            _ => None,
        }
    }
}

/// The sockets that nobody took so far.
#[derive(Debug, Default)]
pub struct Inherited {
    sockets: Vec<InheritedSocket>,
    /// Files of the taken ones, which belong to the program that made them.
    taken: Vec<PathBuf>,
    /// Sockets of the process before this one.
    handed: Vec<Handed>,
    /// The way to that process.
    before: Option<Link>,
}

/// The sockets of one address, as the process before this one had them.
#[derive(Debug)]
pub(crate) struct Handed {
    /// See [`socket_name`](super::listen::socket_name).
    pub(crate) name: String,
    /// Its file belongs to another program.
    pub(crate) foreign: bool,
    pub(crate) sockets: Vec<OwnedFd>,
}

impl Inherited {
    /// These sockets.
    pub fn new(sockets: Vec<InheritedSocket>) -> Inherited {
        Inherited { sockets, ..Inherited::default() }
    }

    /// The sockets of the process at the other end.
    pub(crate) fn after(link: Link, handed: Vec<Handed>) -> Inherited {
        Inherited { handed, before: Some(link), ..Inherited::default() }
    }

    /// The process's own sockets, which no other has taken.
    pub(crate) fn handed_back(handed: Vec<Handed>) -> Inherited {
        Inherited { handed, ..Inherited::default() }
    }

    /// The way to the process before this one, once.
    pub(crate) fn take_before(&mut self) -> Option<Link> {
        self.before.take()
    }

    /// The sockets of the process before this one for an address. `path`: of their file, which
    /// stays that process's until this one has taken over.
    pub(crate) fn handed(&mut self, name: &str, path: Option<&Path>) -> Option<Handed> {
        let at = self.handed.iter().position(|handed| handed.name == name)?;
        self.taken.extend(path.map(Path::to_owned));
        Some(self.handed.swap_remove(at))
    }

    /// Closes the sockets of the process before this one for addresses that are no longer in the
    /// configuration: who connects is refused, and another program may have them.
    pub(crate) fn close_handed(&mut self) {
        for Handed { name, foreign, sockets } in self.handed.drain(..) {
            eprintln!("larder: no longer listening: {name}");
            for socket in sockets {
                let listener = InheritedSocket::Unix(UnixListener::from(socket));
                if let Some(path) = listener.path().filter(|_| !foreign) {
                    let _ = std::fs::remove_file(path);
                }
            }
        }
    }

    /// This file belongs to this process from now on.
    pub(crate) fn own(&mut self, path: &Path) {
        self.taken.retain(|taken| taken != path);
    }

    /// Those that nobody took, in words: their addresses are in no configuration.
    pub fn unused(&self) -> Vec<String> {
        let name = |socket: &InheritedSocket| match socket {
            InheritedSocket::Tcp(listener) => listener.local_addr().map(|at| at.to_string()),
            InheritedSocket::Udp(socket) => socket.local_addr().map(|at| format!("UDP {at}")),
            InheritedSocket::Unix(_) => {
                Ok(socket.path().map_or_else(String::new, |path| path.display().to_string()))
            }
        };
        self.sockets.iter().filter_map(|socket| name(socket).ok()).collect()
    }

    /// Whether a service manager has made this file.
    pub(crate) fn is_from_manager(&self, path: &Path) -> bool {
        self.before.is_none() && self.owns(path)
    }

    /// Whether the file of a unix socket belongs to another program.
    pub(crate) fn owns(&self, path: &Path) -> bool {
        self.taken.iter().any(|taken| taken == path)
    }

    pub(super) fn tcp(&mut self, wanted: SocketAddr) -> Option<TcpListener> {
        let found = |socket: &InheritedSocket| match socket {
            InheritedSocket::Tcp(at) => is_at(at.local_addr(), wanted),
            _ => false,
        };
        match self.take(found)? {
            InheritedSocket::Tcp(listener) => Some(listener),
            _ => None,
        }
    }

    pub(super) fn udp(&mut self, wanted: SocketAddr) -> Option<UdpSocket> {
        let found = |socket: &InheritedSocket| match socket {
            InheritedSocket::Udp(at) => is_at(at.local_addr(), wanted),
            _ => false,
        };
        match self.take(found)? {
            InheritedSocket::Udp(socket) => Some(socket),
            _ => None,
        }
    }

    pub(super) fn unix(&mut self, wanted: &Path) -> Option<UnixListener> {
        match self.take(|socket| socket.path().is_some_and(|path| path == wanted))? {
            InheritedSocket::Unix(listener) => {
                self.taken.push(wanted.to_owned());
                Some(listener)
            }
            _ => None,
        }
    }

    fn take(&mut self, found: impl Fn(&InheritedSocket) -> bool) -> Option<InheritedSocket> {
        let at = self.sockets.iter().position(found)?;
        Some(self.sockets.swap_remove(at))
    }
}

/// systemd listens for IPv4 on the socket of `[::]` as well: it is the one for `0.0.0.0` too.
fn is_at(address: io::Result<SocketAddr>, wanted: SocketAddr) -> bool {
    address.is_ok_and(|address| {
        let any = address.ip().is_unspecified() && wanted.ip().is_unspecified();
        address == wanted || (any && address.port() == wanted.port())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_taken_once_by_its_address() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("an address");
        let mut inherited = Inherited::new(vec![InheritedSocket::Tcp(listener)]);
        assert!(inherited.udp(address).is_none());
        assert!(inherited.tcp(SocketAddr::from(([127, 0, 0, 2], address.port()))).is_none());
        assert_eq!(inherited.unused(), [address.to_string()]);
        assert!(inherited.tcp(address).is_some());
        assert!(inherited.tcp(address).is_none() && inherited.unused().is_empty());
    }

    #[test]
    fn the_socket_of_every_address_is_one() {
        let at = |text: &str| Ok(text.parse().expect("an address"));
        let wanted = "0.0.0.0:80".parse().expect("an address");
        assert!(is_at(at("[::]:80"), wanted) && is_at(at("0.0.0.0:80"), wanted));
        assert!(!is_at(at("[::]:81"), wanted) && !is_at(at("[::1]:80"), wanted));
    }
}
