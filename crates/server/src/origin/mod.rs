//! Talking to origins.
