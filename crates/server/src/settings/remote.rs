//! The remote tier: servers that several Larders share their pages through.

use std::{sync::Arc, time::Duration};

use super::{OriginSettings, Secret};

/// What the servers of the remote tier speak.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RemoteProtocol {
    /// memcached's; who we are is in the fleet's settings.
    #[default]
    Memcached,
    /// Valkey's, which is Redis's: stand-alone servers.
    Valkey(ValkeyLogin),
    /// A cluster; the servers that are configured are asked for the others.
    ValkeyCluster(ValkeyLogin),
}

/// Who we are to a Valkey, and which of its databases is ours.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ValkeyLogin {
    /// None: the default user.
    pub user: Option<String>,
    /// None: nobody asks for one.
    pub password: Option<String>,
    /// 0 in a cluster.
    pub database: u16,
}

/// Without the password.
impl std::fmt::Debug for ValkeyLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ValkeyLogin { user, database, .. } = self;
        f.debug_struct("ValkeyLogin").field("user", user).field("database", database).finish_non_exhaustive()
    }
}

/// The remote tier. None in [`super::Settings`]: there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteSettings {
    /// What the servers speak.
    pub protocol: RemoteProtocol,
    /// The fleet: servers, placement, timeouts, what a failure costs. Its `max_item` is the largest
    /// value the servers take; longer records are split.
    pub fleet: larder_client::Config,
    /// How keys begin. Larders with the same one share pages.
    pub namespace: String,
    /// How long a page from the fleet is used before the fleet is asked for it again.
    pub local_copy: Duration,
    /// How long a lookup may take before the origin is asked as well.
    pub budget: Duration,
    /// The longest a record stays in the fleet.
    pub max_expiry: Duration,
    /// What is fresh for less than this is neither sent nor taken.
    pub min_freshness: Duration,
    /// Bytes of the largest page sent or taken, its head included.
    pub page_size: u64,
    /// Bodies from this many bytes on are compressed where their type lets it; None: never.
    pub compress: Option<u64>,
    /// A header line (`Name: value`) for answers that came from the fleet just now.
    pub announce: Option<String>,
    /// Nothing is written to the fleet, and nothing deleted.
    pub read_only: bool,
    /// Records that may wait to be sent, per worker; the next one is dropped and counted.
    pub queue: usize,
    /// Larders that are told of purges at once.
    pub peers: Vec<Arc<OriginSettings>>,
    /// What peers prove themselves with; None: nobody is told, and nobody is believed.
    pub peer_token: Option<PeerToken>,
    /// How often the fleet is asked for purges of others.
    pub purge_interval: Duration,
    /// How long one Larder may render a page while others wait for it; zero: none waits.
    pub lease: Duration,
}

/// A token that is sent, and compared with what comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerToken {
    /// What comes is compared with this.
    pub secret: Secret,
    /// `Bearer TOKEN`, as it is sent; never shown.
    pub field: http::HeaderValue,
}

#[cfg(test)]
impl RemoteSettings {
    /// Something for tests.
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
