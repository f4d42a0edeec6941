//! Pure codecs and rules: bytes, time and randomness come in as arguments.
//!
//! Nothing in this crate reads a clock, a socket or a file, and nothing in it depends on an async runtime. What comes
//! from the network is judged here and nowhere else: [`http`] turns bytes into requests, fields, ranges and dates,
//! [`rules`] decides what may be stored and reused (RFC 9111), [`page`] is the one byte format of a stored page,
//! [`memcache`] and [`resp`] are the languages of objects, [`dialogue`] is what can be told of two that speak any language, [`units`] how people write sizes and times.
#![forbid(unsafe_code)]

pub mod dialogue;
pub mod http;
pub mod memcache;
pub mod page;
pub mod resp;
pub mod rules;
pub mod units;

/// Milliseconds since the UNIX epoch.
pub type Ms = u64;

/// Seconds since the UNIX epoch.
pub type Secs = u64;
