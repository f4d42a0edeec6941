//! A cache that knows the age of its pages: a Larder's memory, or a server's.

use crate::simulate::{policy::Policy, request::Request};

/// For a page the Larder rendered itself: the fleet is not asked again.
pub(super) const OWN: u64 = u64::MAX;

pub(super) struct Node {
    cache: Box<dyn Policy>,
    /// Time the origin rendered the page, for each object.
    rendered: Vec<u64>,
    /// Time until which a copy is used; [`OWN`]: while it is fresh. Empty for servers.
    good_until: Vec<u64>,
}

/// A page in a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) rendered: u64,
    pub(super) good_until: u64,
}

impl Node {
    pub(super) fn server(cache: Box<dyn Policy>, ids: usize) -> Node {
        Node { cache, rendered: vec![0; ids], good_until: Vec::new() }
    }

    pub(super) fn larder(cache: Box<dyn Policy>, ids: usize) -> Node {
        Node { cache, rendered: vec![0; ids], good_until: vec![0; ids] }
    }

    /// Reads a page.
    pub(super) fn get(&mut self, request: &Request) -> Option<Page> {
        let id = request.id as usize;
        let page = Page {
            rendered: self.rendered[id],
            good_until: self.good_until.get(id).copied().unwrap_or(OWN),
        };
        self.cache.get(request).then_some(page)
    }

    pub(super) fn set(&mut self, request: &Request, page: Page) {
        self.cache.set(request);
        self.rendered[request.id as usize] = page.rendered;
        self.prolong(request.id, page.good_until);
    }

    pub(super) fn prolong(&mut self, id: u32, until: u64) {
        if let Some(good_until) = self.good_until.get_mut(id as usize) {
            *good_until = until;
        }
    }

    pub(super) fn remove(&mut self, id: u32) {
        self.cache.remove(id);
    }

    /// Replaces the cache by an empty one.
    pub(super) fn restart(&mut self, cache: Box<dyn Policy>) {
        self.cache = cache;
    }

    pub(super) fn items(&self) -> u64 {
        self.cache.items()
    }
}
