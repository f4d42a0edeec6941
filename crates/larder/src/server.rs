//! The server this binary wires up.

pub(crate) use larder_server::Server;
