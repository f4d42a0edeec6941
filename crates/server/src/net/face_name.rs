//! The names of the faces, and of their addresses.

use std::fmt;

use super::listen::Address;

/// A protocol spoken to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaceName {
    /// HTTP/1.1.
    Http,
    /// The same over TLS.
    Https,
    /// HTTP/3.
    Http3,
    /// memcached's protocols.
    Memcached,
    /// The same over TLS.
    MemcachedTls,
    /// Redis's.
    Redis,
    /// The same over TLS.
    RedisTls,
    /// Queries of other caches, ICP.
    Icp,
    /// The same, HTCP.
    Htcp,
    /// Kestrel's.
    Queue,
}

impl fmt::Display for FaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FaceName::Http => "http",
            FaceName::Https => "https",
            FaceName::Http3 => "http3",
            FaceName::Memcached => "memcached",
            FaceName::MemcachedTls => "memcached+tls",
            FaceName::Redis => "redis",
            FaceName::RedisTls => "redis+tls",
            FaceName::Icp => "icp",
            FaceName::Htcp => "htcp",
            FaceName::Queue => "queue",
        })
    }
}

/// An address of a face in words: `http://127.0.0.1:8080`.
pub fn told(face: FaceName, address: &Address) -> String {
    match address {
        Address::Tcp(address) => format!("{face}://{address}"),
        Address::Udp(address) => format!("{face}+udp://{address}"),
        Address::Unix(path) => format!("{face}+unix:{}", path.display()),
    }
}
