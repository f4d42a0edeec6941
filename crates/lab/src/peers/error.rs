//! What goes wrong around other people's servers, and whose fault it is.

use std::{io, net::SocketAddr, path::PathBuf, time::Duration};

/// Why a server is not there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program is not on this machine.
    #[error("{program} is not installed: `apt-get install {package}` brings it")]
    NotInstalled {
        /// What was looked for.
        program: String,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// It could not be started at all.
    #[error("{name} cannot be started: {source}")]
    Spawn {
        /// Which server.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// It ended before it answered.
    #[error("{name} ended at its start ({status}); it said:\n{said}")]
    Ended {
        /// Which server.
        name: String,
        /// How it ended.
        status: String,
        /// The end of its output.
        said: String,
    },
    /// It runs, and does not answer.
    #[error("{name} does not answer on {address} after {}; it said:\n{said}", crate::peers::seconds(*.waited))]
    Silent {
        /// Which server.
        name: String,
        /// Where it should answer.
        address: SocketAddr,
        /// How long it was given.
        waited: Duration,
        /// The end of its output.
        said: String,
    },
    /// A file or socket of our own.
    #[error("{what}: {source}")]
    Ours {
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// A configuration in `bench/peers` asks for what is not given.
    #[error("bench/peers/{file}: {fault}")]
    Template {
        /// Which one.
        file: &'static str,
        /// What is wrong with it.
        fault: String,
    },
    /// Somebody asked us to stop (SIGINT, SIGTERM).
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// For `map_err`: something of our own failed.
    pub fn ours(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Ours { what, source }
    }

    /// For `map_err`: a path failed.
    pub fn path(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        Self::ours(path.into().display().to_string())
    }
}
