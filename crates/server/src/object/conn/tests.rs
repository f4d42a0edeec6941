//! The loop over real sockets, with a session that echoes lines.
