//! Sockets, for every face: readiness, rounds, connections at rest, output, deadlines, and a
//! worker's open connections.

pub(crate) mod accept;
pub(crate) mod conns;
pub(crate) mod descriptors;
pub(crate) mod face_name;
pub(crate) mod inherited;
pub(crate) mod link;
pub(crate) mod listen;
pub(crate) mod out;
pub(crate) mod passing;
pub(crate) mod quic;
pub(crate) mod reactor;
mod remote_wake;
pub(crate) mod reused;
pub(crate) mod round;
pub(crate) mod sendfile;
pub(crate) mod slot;
pub(crate) mod socket;
pub(crate) mod stream;
pub(crate) mod tls;
pub(crate) mod turns;
mod watch;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The network of a client, by the lengths of prefixes for IPv4 and IPv6.
pub(crate) fn network(client: IpAddr, v4: u32, v6: u32) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - v4.min(32)).unwrap_or(0);
            Ipv4Addr::from_bits(address.to_bits() & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - v6.min(128)).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    }
}
