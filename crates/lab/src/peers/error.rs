//! Errors with external servers, and who is at fault.

use std::{io, net::SocketAddr, path::PathBuf, time::Duration};

/// Why a server is not available.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program is not installed.
    #[error("{program} is not installed: `apt-get install {package}` brings it")]
    NotInstalled {
        /// Name of the program.
        program: String,
        /// Its Debian package.
        package: &'static str,
    },
    /// Larder is not installed.
    #[error(
        "larder is neither beside larder-lab nor on the PATH: `cargo install --path \
         crates/larder` brings it"
    )]
    NoLarder,
    /// The process could not be started.
    #[error("{name} cannot be started: {source}")]
    Spawn {
        /// Name of the server.
        name: String,
        /// Error of the system.
        source: io::Error,
    },
    /// The process ended before it answered.
    #[error("{name} ended at its start ({status}); it said:\n{said}")]
    Ended {
        /// Name of the server.
        name: String,
        /// Exit status.
        status: String,
        /// The end of its output.
        said: String,
    },
    /// The process runs but does not answer.
    #[error(
        "{name} does not answer on {address} after {}; it said:\n{said}",
        crate::peers::seconds(*.waited)
    )]
    Silent {
        /// Name of the server.
        name: String,
        /// The expected address.
        address: SocketAddr,
        /// Time waited.
        waited: Duration,
        /// The end of its output.
        said: String,
    },
    /// A local file or socket failed.
    #[error("{what}: {source}")]
    Ours {
        /// Action that failed.
        what: String,
        /// Error of the system.
        source: io::Error,
    },
    /// A configuration in `bench/peers` uses an unknown value.
    #[error("bench/peers/{file}: {fault}")]
    Template {
        /// File name.
        file: &'static str,
        /// The error.
        fault: String,
    },
    /// Interrupted by SIGINT or SIGTERM.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// For `map_err`: a local action failed.
    pub fn ours(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Ours { what, source }
    }

    /// For `map_err`: a path failed.
    pub fn path(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        Self::ours(path.into().display().to_string())
    }
}
