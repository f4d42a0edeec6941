//! Drives the real binary over real sockets.
