//! Pure codecs and rules.
#![forbid(unsafe_code)]
