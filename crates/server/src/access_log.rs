//! The access log.
