//! Requests that wait for a connection to an origin: how many, of all clients and of each.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    net::IpAddr,
};

use crate::net::network;

/// Of the places, clients of one address may take one part in so many: one address alone does not
/// keep all others out.
const CLIENT_PART: usize = 2;

/// The requests of one worker that wait for one origin.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Cell<usize>,
    /// Of each client's network; None: Larder's own.
    by_client: RefCell<HashMap<Option<IpAddr>, usize>>,
}

impl Queue {
    /// A place of `most`, until the result is dropped. None: they are taken, or those of this
    /// client's address are.
    pub(super) fn enter(&self, client: Option<IpAddr>, most: usize) -> Option<Place<'_>> {
        let client = client.map(|client| network(client, 32, 64));
        let mut by_client = self.by_client.borrow_mut();
        let own = by_client.get(&client).copied().unwrap_or_default();
        if self.waiting.get() >= most || own >= most.div_ceil(CLIENT_PART) {
            return None;
        }
        by_client.insert(client, own + 1);
        self.waiting.set(self.waiting.get() + 1);
        Some(Place { queue: self, client })
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.get()
    }
}

/// A place in the queue, given back however the waiting ends.
#[derive(Debug)]
pub(super) struct Place<'q> {
    queue: &'q Queue,
    client: Option<IpAddr>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.queue.waiting.set(self.queue.waiting.get() - 1);
        let mut by_client = self.queue.by_client.borrow_mut();
        if let Some(own) = by_client.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                by_client.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().expect("an address"))
    }

    #[test]
    fn one_address_takes_half_of_the_places() {
        let queue = Queue::default();
        let (one, other) = (address("192.0.2.1"), address("192.0.2.2"));
        let places: Vec<_> = (0..4).map(|_| queue.enter(one, 8).expect("a place")).collect();
        assert!(queue.enter(one, 8).is_none());
        let others: Vec<_> = (0..4).map(|_| queue.enter(other, 8).expect("a place")).collect();
        assert!(queue.enter(None, 8).is_none(), "all are taken");
        drop(others);
        assert!(queue.enter(one, 8).is_none());
        drop(places);
        assert!(queue.enter(one, 8).is_some());
        assert_eq!((queue.waiting(), queue.by_client.borrow().len()), (0, 0));
    }

    #[test]
    fn addresses_of_one_network_of_ipv6_are_one_client() {
        let queue = Queue::default();
        let _place = queue.enter(address("2001:db8::1"), 2).expect("a place");
        assert!(queue.enter(address("2001:db8::2"), 2).is_none());
        assert!(queue.enter(address("2001:db8:0:1::2"), 2).is_some());
    }

    #[test]
    fn a_queue_of_one_place_has_one_for_anybody() {
        let queue = Queue::default();
        assert!(queue.enter(address("192.0.2.1"), 0).is_none());
        assert!(queue.enter(address("192.0.2.1"), 1).is_some());
    }
}
