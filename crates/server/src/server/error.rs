//! Reasons why a server cannot start.

use std::io;

use crate::net::listen::Address;

/// The remedy for an address that cannot be used.
pub(super) fn hint(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::AddrInUse => "; another program listens there: end it, or take another port",
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 are for root and for who has CAP_NET_BIND_SERVICE: take one above, \
             or give it that"
        }
        io::ErrorKind::AddrNotAvailable => "; this machine has no such address",
        _ => "",
    }
}

/// Reasons why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address could not be listened on.
    #[error("cannot listen on {address}: {source}{}", hint(source.kind()))]
    Listen {
        /// The address.
        address: Address,
        /// The error of the system.
        source: io::Error,
    },
    /// The store could not be made.
    #[error("cannot set up {bytes} bytes of memory: {reason}")]
    Memory {
        /// The budget.
        bytes: u64,
        /// The error of the store.
        reason: String,
    },
    /// The access log could not be opened.
    #[error("cannot open the access log {path}: {source}")]
    Log {
        /// The file.
        path: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
    /// The process before this one has not given what is needed.
    #[error("cannot take over: {0}")]
    Before(io::Error),
    /// The step after the addresses were bound failed.
    #[error("{0}")]
    Bound(String),
}
