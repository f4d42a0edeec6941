//! Why a run could not be made.

use std::io;

/// Why a run could not be made. What fails while it runs is counted in its result instead.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The first connection of all failed.
    #[error("cannot connect to {address}: {source}. Is the server running, and is the address its own?")]
    Unreachable {
        /// Where.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The plan cannot be carried out.
    #[error("{0}")]
    Plan(String),
    /// More connections than this process may open files.
    #[error(
        "{wanted} connections need as many open files, and this process may have {most}: raise the limit (`ulimit -n`)"
    )]
    Files {
        /// Files for all connections.
        wanted: u64,
        /// What is allowed.
        most: u64,
    },
    /// A server's process whose processor time is to be read.
    #[error("cannot read the processor time of process {pid}: {source}")]
    Process {
        /// Which.
        pid: u32,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused what an event loop is made of.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}
