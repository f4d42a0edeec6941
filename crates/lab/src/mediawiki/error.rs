//! What can go wrong with an experiment, and who can help.

use std::{io, path::Path};

use crate::{engine, peers, slow};

/// What can go wrong with an experiment.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The command line.
    #[error("{0}")]
    Usage(String),
    /// Debian's packages.
    #[error("not installed: {}\n  apt-get install --no-install-recommends {}", .what.join(", "), .packages.join(" "))]
    Missing { what: Vec<&'static str>, packages: Vec<&'static str> },
    /// A server.
    #[error(transparent)]
    Server(#[from] peers::Error),
    /// The load.
    #[error(transparent)]
    Load(#[from] engine::Error),
    /// The slow proxy.
    #[error(transparent)]
    Slow(#[from] slow::Error),
    /// Files of our own.
    #[error("{path}: {why}")]
    File { path: String, why: io::Error },
    /// Whatever says enough by itself.
    #[error("{0}")]
    Other(String),
}

impl Error {
    pub(super) fn file(path: &Path, why: io::Error) -> Error {
        Error::File { path: path.display().to_string(), why }
    }
}
