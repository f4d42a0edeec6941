//! `[admin]`: the operator's interface and its permissions.

use std::net::SocketAddr;

use super::{FaceTls, Listen, Secret};

/// The admin interface: its addresses and permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminSettings {
    /// Addresses to listen on; port 0 lets the system choose.
    pub listen: Vec<SocketAddr>,
    /// TLS; None: it is not spoken.
    pub tls: Option<FaceTls>,
    /// The token that permits changes; None: the server makes one for the run.
    pub token: Option<Secret>,
    /// Names (lower case, without port) that `Host` may have besides addresses and `localhost`.
    pub hosts: Vec<String>,
    /// The permission to read.
    pub read: ReadAccess,
    /// The name of this server among several.
    pub name: String,
    /// Whether the routes of Monkey's cache plugin are served.
    pub monkey_api: bool,
    /// Connections at once; further ones are closed.
    pub connections: usize,
    /// Largest page that may be published, in bytes.
    pub page_size: u64,
}

impl AdminSettings {
    /// An interface without an address: for the control socket alone.
    pub fn unlisted(name: String) -> AdminSettings {
        AdminSettings {
            listen: Vec::new(),
            tls: None,
            token: None,
            hosts: Vec::new(),
            read: ReadAccess::Token,
            name,
            monkey_api: false,
            connections: 4,
            page_size: 16 << 20,
        }
    }

    /// Whether only this machine can reach it.
    pub fn is_local(&self) -> bool {
        let local = |listen: &Listen| match listen {
            Listen::Tcp(address) => address.ip().is_loopback(),
            Listen::Unix { .. } => true,
        };
        self.listen.iter().all(|address| address.ip().is_loopback())
            && self.tls.iter().flat_map(|tls| &tls.listen).all(local)
    }
}

/// The permission to read the admin interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAccess {
    /// Everybody who can connect.
    Open,
    /// Those who have the token.
    Token,
}
