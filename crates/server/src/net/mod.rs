//! Sockets, for every face: readiness, rounds, connections at rest, output, deadlines, and a
//! worker's open connections.

pub(crate) mod accept;
pub(crate) mod conns;
pub(crate) mod inherited;
pub(crate) mod listen;
pub(crate) mod out;
pub(crate) mod quic;
pub(crate) mod reactor;
mod remote_wake;
pub(crate) mod round;
pub(crate) mod sendfile;
pub(crate) mod slot;
pub(crate) mod socket;
pub(crate) mod stream;
pub(crate) mod tls;
