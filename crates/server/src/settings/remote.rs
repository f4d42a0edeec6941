//! The remote tier: servers through which several Larders share their pages.

use std::{sync::Arc, time::Duration};

use super::{OriginSettings, Secret};

/// The protocol of the remote tier's servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RemoteProtocol {
    /// memcached's; the credentials are in the fleet's settings.
    #[default]
    Memcached,
    /// Valkey's (Redis's), stand-alone servers.
    Valkey(ValkeyLogin),
    /// A Valkey cluster; the configured servers name the others.
    ValkeyCluster(ValkeyLogin),
}

/// The credentials for a Valkey, and the number of our database.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ValkeyLogin {
    /// None: the default user.
    pub user: Option<String>,
    /// None: no password.
    pub password: Option<String>,
    /// 0 in a cluster.
    pub database: u16,
}

/// Without the password.
impl std::fmt::Debug for ValkeyLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ValkeyLogin { user, database, .. } = self;
        f.debug_struct("ValkeyLogin")
            .field("user", user)
            .field("database", database)
            .finish_non_exhaustive()
    }
}

/// The remote tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteSettings {
    /// The protocol of the servers.
    pub protocol: RemoteProtocol,
    /// The fleet: servers, placement, timeouts, handling of failures. Its `max_item` is the largest
    /// value the servers take; longer records are split.
    pub fleet: larder_client::Config,
    /// The prefix of keys. Larders with the same prefix share pages.
    pub namespace: String,
    /// Time for which a page from the fleet is used before the fleet is asked again.
    pub local_copy: Duration,
    /// Time of a lookup after which the origin is asked as well.
    pub budget: Duration,
    /// Longest lifetime of a record in the fleet.
    pub max_expiry: Duration,
    /// Pages that are fresh for less than this are neither sent nor taken.
    pub min_freshness: Duration,
    /// Bytes of the largest page sent or taken, its head included.
    pub page_size: u64,
    /// Smallest body that is compressed, if its type is compressible; None: none.
    pub compress: Option<u64>,
    /// A header line (`Name: value`) for answers that were just fetched from the fleet.
    pub announce: Option<String>,
    /// The fleet is only read: no writes, no deletions.
    pub read_only: bool,
    /// Records that may wait to be sent, per worker; the next one is dropped and counted.
    pub queue: usize,
    /// Larders that are informed of purges at once.
    pub peers: Vec<Arc<OriginSettings>>,
    /// The token of peers; None: no peer is informed or trusted.
    pub peer_token: Option<PeerToken>,
    /// Interval at which purges of others are read from the fleet.
    pub purge_interval: Duration,
    /// Time for which others wait while one Larder renders a page; zero: they do not wait.
    pub lease: Duration,
}

/// A token that is sent to peers, and compared with theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerToken {
    /// The token, for comparisons.
    pub secret: Secret,
    /// `Bearer TOKEN`, as it is sent; never shown.
    pub field: http::HeaderValue,
}

#[cfg(test)]
impl RemoteSettings {
    /// Settings for tests.
    pub(crate) fn of(servers: Vec<larder_client::Server>) -> Self {
        Self {
            protocol: RemoteProtocol::Memcached,
            fleet: larder_client::Config::new(servers),
            namespace: "larder".to_owned(),
            local_copy: Duration::from_secs(5),
            budget: Duration::from_millis(50),
            max_expiry: Duration::from_secs(86_400),
            min_freshness: Duration::from_secs(1),
            page_size: 8 << 20,
            compress: Some(32 << 10),
            announce: None,
            read_only: false,
            queue: 1024,
            peers: Vec::new(),
            peer_token: None,
            purge_interval: Duration::from_secs(1),
            lease: Duration::from_secs(5),
        }
    }
}
