//! An address where nothing listens, until something does.

use crate::origin::{Origin, Reply};
use crate::origin_request::Seen;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{self, AddressFamily, SocketType};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

/// An address that refuses connections, and that no other program gets: a socket is bound to it.
pub struct Refusing(OwnedFd);

impl Refusing {
    /// Takes a free port.
    pub fn new() -> Refusing {
        let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        Refusing(socket)
    }

    /// The address.
    pub fn addr(&self) -> SocketAddr {
        net::getsockname(&self.0).unwrap().try_into().unwrap()
    }

    /// `http://ADDR`.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr())
    }

    /// From now on the system accepts connections for it, and nobody answers.
    pub fn freeze(self) -> Frozen {
        let Refusing(socket) = self;
        net::listen(&socket, 4096).unwrap();
        Frozen(TcpListener::from(socket))
    }

    /// From now on a scripted server answers there.
    pub fn serve(self, script: impl Fn(&Seen, &mut Reply) + Send + Sync + 'static) -> Origin {
        Origin::on(self.freeze().0, script).unwrap()
    }
}

impl Default for Refusing {
    fn default() -> Refusing {
        Refusing::new()
    }
}

/// A server that accepts connections and does nothing else.
pub struct Frozen(TcpListener);

impl Frozen {
    /// On a free port.
    pub fn start() -> Frozen {
        Refusing::new().freeze()
    }

    /// `http://ADDR`.
    pub fn url(&self) -> String {
        format!("http://{}", self.0.local_addr().unwrap())
    }

    /// Whether a connection to it waits.
    pub fn is_asked(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&now)).unwrap() > 0
    }
}
