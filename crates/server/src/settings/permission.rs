//! Permissions: to purge, and to be shown how requests are answered.

use std::net::IpAddr;

use super::{Net, Secret};

/// A permission: for clients of some networks, and for those that have the token. By default for
/// nobody.
#[derive(Clone, Debug, Default)]
pub struct Permission {
    /// Clients that need no token.
    pub from: Vec<Net>,
    /// `Authorization: Bearer <token>`.
    pub token: Option<Secret>,
}

impl Permission {
    /// Whether `client` with this `Authorization` value may. The client is the TCP peer, or the
    /// client that a trusted proxy names: else a proxy would let everybody in.
    pub fn allows(&self, client: IpAddr, authorization: Option<&[u8]>) -> bool {
        if self.from.iter().any(|net| net.contains(client)) {
            return true;
        }
        let (Some(token), Some(value)) = (&self.token, authorization) else { return false };
        let bearer = value.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case(b"bearer "));
        bearer.is_some() && token.matches(value[7..].trim_ascii())
    }
}
