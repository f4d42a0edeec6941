//! The directives that govern a response.
