//! The drivers.
