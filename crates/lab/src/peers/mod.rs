//! Servers to measure and to experiment with: started from configurations in the repository, on free ports, in a directory of
//! their own, and ended with the value that holds them.

mod catalogue;
pub(crate) mod command;
mod error;
pub(crate) mod floor;
mod living;
mod origin;
pub(crate) mod pages;
mod process;
pub mod program;
mod scratch;
mod template;
mod tree;

use std::{
    env, io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use socket2::{Domain, Socket, Type};

pub use catalogue::{Ground, PEERS, Peer, Role, Running, find};
pub use error::Error;
pub(crate) use living::end_all;
pub use origin::Origin;
pub use process::Process;
pub use scratch::Scratch;
pub(crate) use tree::only;

/// A port of 127.0.0.1 that is free now. Somebody else may take it before its server does; the server then says so.
/// Nobody listens on it for a moment even: a server forked meanwhile would hold the listener until it is exec'd.
///
/// # Errors
/// [`Error::Ours`] when there is none.
pub fn free_port() -> Result<SocketAddr, Error> {
    let bound = || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
        socket.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    };
    bound().map_err(Error::ours("a free port of 127.0.0.1"))
}

/// The program to start as Larder: the one given, or this one.
///
/// # Errors
/// [`Error::Ours`] when the system does not tell which program this is.
pub fn larder_program(given: Option<&Path>) -> Result<PathBuf, Error> {
    match given {
        // Servers are started in directories of their own.
        Some(path) => path.canonicalize().map_err(Error::path(path)),
        None => env::current_exe().map_err(Error::ours("this program's own path")),
    }
}

/// Canned pages as files, for servers of files: `pages` of each size. Returns the directory.
///
/// # Errors
/// [`Error::Ours`] when they cannot be written.
pub fn docroot(scratch: &Scratch, sizes: &[usize], pages: u32) -> Result<PathBuf, Error> {
    for size in sizes {
        for number in 0..pages {
            let file = format!("docroot{}", pages::target(*size, number));
            scratch.write(file, pages::body(*size, number))?;
        }
    }
    Ok(scratch.path().join("docroot"))
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}
