//! Servers for measurements and experiments: started from configurations in the repository, on free
//! ports, in their own directories, and ended when dropped.

mod catalogue;
mod cleanup;
pub(crate) mod command;
mod error;
pub(crate) mod floor;
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

pub use catalogue::{PEERS, Peer, PeerConfig, Role, Running, find};
pub(crate) use cleanup::end_all;
pub use error::Error;
pub use origin::Origin;
pub use process::Process;
pub use scratch::Scratch;
pub(crate) use tree::{only, process, tasks};

/// A free port of 127.0.0.1. Another process may take it before the server does; the server then
/// fails. The port is never listened on here: a server forked meanwhile would inherit the listener
/// until its exec.
///
/// # Errors
/// [`Error::Ours`] if there is none.
pub fn free_port() -> Result<SocketAddr, Error> {
    let bound = || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
        socket.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    };
    bound().map_err(Error::ours("a free port of 127.0.0.1"))
}

/// The program to start as Larder: `given`, else the one beside this program, else the one on the
/// PATH.
///
/// # Errors
/// [`Error::NoLarder`] when there is none, [`Error::Ours`] when `given` cannot be read.
pub fn larder_program(given: Option<&Path>) -> Result<PathBuf, Error> {
    match given {
        // Servers are started in other directories.
        Some(path) => path.canonicalize().map_err(Error::path(path)),
        None => {
            let beside = env::current_exe().ok().map(|own| own.with_file_name("larder"));
            beside
                .filter(|path| path.is_file())
                .or_else(|| program::on_path("larder"))
                .ok_or(Error::NoLarder)
        }
    }
}

/// Writes `pages` canned pages of each size as files. Returns the directory.
///
/// # Errors
/// [`Error::Ours`] if they cannot be written.
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
