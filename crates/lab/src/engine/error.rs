//! Errors that prevent a run.

use std::io;

/// Why a run could not be made. Failures during a run are counted in its result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The very first connection failed.
    #[error(
        "cannot connect to {address}: {source}. Is the server running, and is the address its own?"
    )]
    Unreachable {
        /// The server's address.
        address: String,
        /// Error of the system.
        source: io::Error,
    },
    /// The plan is invalid.
    #[error("{0}")]
    Plan(String),
    /// More connections than files this process may open.
    #[error(
        "{wanted} connections need as many open files, and this process may have {most}: raise \
         the limit (`ulimit -n`)"
    )]
    Files {
        /// Files needed for all connections.
        wanted: u64,
        /// Files allowed.
        most: u64,
    },
    /// A server process whose processor time cannot be read.
    #[error("cannot read the processor time of process {pid}: {source}")]
    Process {
        /// Its process id.
        pid: u32,
        /// Error of the system.
        source: io::Error,
    },
    /// The system refused a resource of the event loop.
    #[error("cannot {what}: {source}")]
    System {
        /// Action that failed.
        what: &'static str,
        /// Error of the system.
        source: io::Error,
    },
}
