//! Pure codecs and rules: bytes, time and randomness come in as arguments.
//!
//! Nothing in this crate reads a clock, a socket or a file, and nothing in it depends on an async
//! runtime. Bytes from the network are checked here and nowhere else: [`http`] turns bytes into
//! requests, fields, ranges and dates, [`http2`] and [`http3`] do so for HTTP/2 and 3 with the
//! compression of [`hpack`] and [`qpack`] and the checks of [`pseudo`], [`rules`] decides which
//! responses may be stored and reused (RFC 9111), [`page`] is the byte format of a stored page,
//! [`memcache`] and [`resp`] are the protocols of objects, [`queue`] has Kestrel's commands,
//! [`dialogue`] finds requests and answers between a client and a server of any protocol, [`fcgi`]
//! is how a server asks applications, [`proxy_protocol`] reads which client a proxy speaks for,
//! [`client_hello`] which name a TLS client asks for, [`units`] reads sizes and times as people
//! write them.
#![forbid(unsafe_code)]

pub mod carp;
pub mod client_hello;
pub mod dialogue;
pub mod esi;
pub mod fcgi;
pub mod hpack;
pub mod htcp;
pub mod http;
pub mod http2;
pub mod http3;
pub mod icp;
pub mod memcache;
pub mod page;
pub mod proxy_protocol;
pub mod pseudo;
pub mod qpack;
pub mod queue;
pub mod resp;
pub mod rules;
pub mod units;

/// Milliseconds since the UNIX epoch.
pub type Ms = u64;

/// Seconds since the UNIX epoch.
pub type Secs = u64;
