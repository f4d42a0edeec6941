//! Errors of an experiment.

use std::{io, path::Path};

use crate::{engine, peers, slow};

/// Errors of an experiment.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// Wrong command line.
    #[error("{0}")]
    Usage(String),
    /// Packages that are not installed.
    #[error(
        "not installed: {}\n  apt-get install --no-install-recommends {}", .what.join(", "),
        .packages.join(" ")
    )]
    Missing { what: Vec<&'static str>, packages: Vec<&'static str> },
    /// A server failed.
    #[error(transparent)]
    Server(#[from] peers::Error),
    /// The load failed.
    #[error(transparent)]
    Load(#[from] engine::Error),
    /// The slow proxy failed.
    #[error(transparent)]
    Slow(#[from] slow::Error),
    /// A file could not be read or written.
    #[error("{path}: {why}")]
    File { path: String, why: io::Error },
    /// Any other error, as text.
    #[error("{0}")]
    Other(String),
}

impl Error {
    pub(super) fn file(path: &Path, why: io::Error) -> Error {
        Error::File { path: path.display().to_string(), why }
    }
}
