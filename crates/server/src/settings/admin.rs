//! `[admin]`: where the operator looks in, and who may.

use std::net::SocketAddr;

use super::Secret;

/// Where the admin interface listens and whom it believes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminSettings {
    /// Addresses to listen on; port 0 lets the system pick.
    pub listen: Vec<SocketAddr>,
    /// What permits changes; None: the server makes one for the run.
    pub token: Option<Secret>,
    /// Names (lower case, without port) that `Host` may have besides addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Who may look.
    pub read: ReadAccess,
    /// How this server is called where several are seen together.
    pub name: String,
    /// Whether the routes of Monkey's cache plugin are there.
    pub monkey_api: bool,
    /// Connections at once; further ones are closed.
    pub connections: usize,
    /// Largest page that may be published, in bytes.
    pub page_size: u64,
}

impl AdminSettings {
    /// Whether only this machine can reach it.
    pub fn is_local(&self) -> bool {
        self.listen.iter().all(|address| address.ip().is_loopback())
    }
}

/// Who may read the admin interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAccess {
    /// Whoever reaches it.
    Open,
    /// Who has the token.
    Token,
}
