//! The validated configuration.
