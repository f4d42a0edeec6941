//! From a command's name to its function.
