//! Objects that are served as pages.

use super::HostPattern;

/// Objects of a face that are served as pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishSettings {
    /// The beginning of their keys; host and path of the page follow.
    pub prefix: String,
    /// Hosts whose pages may be objects; empty: those of all sites.
    pub hosts: Vec<HostPattern>,
    /// Where the objects are.
    pub objects: ObjectSpace,
}

impl PublishSettings {
    /// Whether a page of this host may be an object.
    pub fn is_for(&self, host: &str) -> bool {
        self.hosts.is_empty() || self.hosts.iter().any(|pattern| pattern.rank(host).is_some())
    }
}

/// The objects of one face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectSpace {
    /// memcached's items.
    Memcached,
    /// A database of Redis.
    Redis(u8),
}
