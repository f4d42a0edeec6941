//! Freshness lifetimes (RFC 9111 4.2).

use super::ResponseFacts;
use crate::Secs;
use crate::page::{Meta, PageFlags, Partial};

/// What becomes of a storable response: the facts its page is kept by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// Freshness lifetime in seconds; 0: validate before each use.
    pub freshness: u32,
    /// Corrected initial age in seconds (RFC 9111 4.2.3).
    pub initial_age: u32,
    /// stale-while-revalidate in seconds.
    pub swr: u32,
    /// stale-if-error in seconds.
    pub sie: u32,
    /// Directives and how the lifetime was found.
    pub flags: PageFlags,
    /// Date of the response, the time of receipt where it has none.
    pub date: Secs,
    /// Last-Modified of the response.
    pub last_modified: Option<Secs>,
    /// For a 206: which bytes it brings.
    pub partial: Option<Partial>,
}

impl Lifetime {
    /// The page's fixed facts (kind Page) for a response with this lifetime.
    pub fn meta(&self, response: &ResponseFacts<'_>) -> Meta {
        let _ = response;
        todo!()
    }

    /// How many seconds past `now` the page can still be of use: fresh, stale within a window, or to validate
    /// against (for the store's expiry).
    pub fn useful_for(&self, policy: &super::Policy, validators: bool) -> u64 {
        let _ = (policy, validators);
        todo!()
    }
}
