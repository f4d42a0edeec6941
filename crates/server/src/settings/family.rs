//! Families of caches: peers that are asked before the origin, and those who may ask here.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use super::{Net, OriginGroup, OriginSettings, Secret};

/// The family of caches that this one belongs to; by default it has none.
#[derive(Clone, Debug, Default)]
pub struct FamilySettings {
    /// Other caches that are asked before the origins.
    pub peers: Vec<Arc<PeerSettings>>,
    /// The caches that may ask by ICP; None: nobody may.
    pub icp: Option<IcpSettings>,
    /// Those that may ask by HTCP; None: nobody may.
    pub htcp: Option<HtcpSettings>,
}

impl FamilySettings {
    /// Whether an address may ask by one of the protocols.
    pub fn may_ask(&self, address: IpAddr) -> bool {
        let icp = self.icp.iter().flat_map(|icp| &icp.from);
        let htcp = self.htcp.iter().flat_map(|htcp| &htcp.from);
        icp.chain(htcp).any(|net| net.contains(address))
    }
}

/// Another cache that is asked before the origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    /// In figures, and for CARP.
    pub name: String,
    /// How it is reached by HTTP: a group of this one server.
    pub group: Arc<OriginGroup>,
    /// Its place in the family.
    pub role: PeerRole,
    /// How it is chosen.
    pub select: PeerSelect,
    /// Its share beside those of the others, at least 1.
    pub weight: u32,
    /// The names of the sites that it is asked for; empty: all.
    pub sites: Vec<String>,
    /// Where queries go; None: it gets none.
    pub queries: Option<SocketAddr>,
    /// How long an answer to a query is waited for.
    pub query_timeout: Duration,
    /// Queries in a row without an answer after which it is not waited for.
    pub dead_after: u32,
    /// Where it is told of purges (HTCP CLR); None: it is not told.
    pub clears: Option<SocketAddr>,
    /// Signs what it is sent by HTCP, and is required of its answers.
    pub key: Option<HtcpKey>,
}

impl PeerSettings {
    /// Whether it is asked for the pages of a site.
    pub fn is_for(&self, site: &str) -> bool {
        self.sites.is_empty() || self.sites.iter().any(|name| name == site)
    }

    /// How long a request to it may take until its answer begins.
    pub fn patience(&self) -> Duration {
        let limit = |origin: &OriginSettings| origin.connect_timeout + origin.first_byte_timeout;
        self.group.members.iter().map(|member| limit(&member.origin)).max().unwrap_or_default()
    }
}

/// The place of a peer in the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerRole {
    /// Nearer to the origin: it fetches what it does not have.
    Parent,
    /// Beside this one: it is asked only for what it has.
    Sibling,
}

impl PeerRole {
    /// As in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            PeerRole::Parent => "parent",
            PeerRole::Sibling => "sibling",
        }
    }
}

/// How a peer is chosen for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerSelect {
    /// In the order of the configuration.
    First,
    /// By a query whether it has the page: ICP (RFC 2186).
    Icp,
    /// The same with the fields of the request: HTCP (RFC 2756).
    Htcp,
    /// By a hash of the URL: CARP.
    Hash,
}

/// A secret of HTCP and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HtcpKey {
    /// KEY-NAME.
    pub name: String,
    /// Known to both ends.
    pub secret: Secret,
}

/// The caches that may ask by ICP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IcpSettings {
    /// UDP addresses.
    pub listen: Vec<SocketAddr>,
    /// The askers that are answered; others are not.
    pub from: Vec<Net>,
}

/// Those that may ask by HTCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HtcpSettings {
    /// UDP addresses.
    pub listen: Vec<SocketAddr>,
    /// The askers that are answered; others are not.
    pub from: Vec<Net>,
    /// Groups whose datagrams are received.
    pub multicast: Vec<IpAddr>,
    /// Address of the interface for groups of IPv4; None: the system chooses.
    pub interface: Option<std::net::Ipv4Addr>,
    /// Requests must be signed with it; None: they need not.
    pub key: Option<HtcpKey>,
}
