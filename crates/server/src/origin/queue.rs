//! Requests that wait for a connection to an origin: how many, of all clients and of each; and
//! the share of the connections that one client may use.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Weak},
};

use tokio::sync::Semaphore;

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

/// From so many connections on, some are kept from a client that uses all others.
const SHARED: usize = 8;

/// Addresses of clients that are remembered before those without a request are forgotten.
const REMEMBERED: usize = 64;

/// The connections that each client may use: three of four, so that one that sends many slow
/// requests leaves some to all others.
#[derive(Debug, Default)]
pub(super) struct Shares(RefCell<HashMap<IpAddr, Weak<Semaphore>>>);

impl Shares {
    /// The share of this client's network, of `most` connections. None: it may use all.
    pub(super) fn of(&self, client: Option<IpAddr>, most: usize) -> Option<Arc<Semaphore>> {
        if most < SHARED {
            return None;
        }
        let client = network(client?, 32, 64);
        let mut shares = self.0.borrow_mut();
        if let Some(share) = shares.get(&client).and_then(Weak::upgrade) {
            return Some(share);
        }
        // As many are in use as there are connections and requests that wait, at most: the walk
        // is paid for by as many requests as it passes.
        if shares.len() >= REMEMBERED && shares.len() == shares.capacity() {
            shares.retain(|_, share| share.strong_count() > 0);
        }
        let share = Arc::new(Semaphore::new(most - most / 4));
        shares.insert(client, Arc::downgrade(&share));
        Some(share)
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
    fn one_address_leaves_connections_to_others() {
        let shares = Shares::default();
        let (one, other) = (address("192.0.2.1"), address("192.0.2.2"));
        let share = shares.of(one, 8).expect("a share");
        let used: Vec<_> = std::iter::from_fn(|| share.clone().try_acquire_owned().ok()).collect();
        assert_eq!(used.len(), 6);
        let again = shares.of(one, 8).expect("a share");
        assert!(again.try_acquire().is_err(), "the same share");
        assert!(shares.of(other, 8).expect("a share").try_acquire().is_ok());
        assert!(shares.of(None, 8).is_none(), "Larder's own requests");
        assert!(shares.of(one, 7).is_none(), "too few to share");
        drop((share, again, used));
        assert_eq!(shares.of(one, 8).expect("a share").available_permits(), 6);
    }

    #[test]
    fn clients_that_left_are_forgotten() {
        let shares = Shares::default();
        for number in 0..100_000_u32 {
            shares.of(Some(IpAddr::V4(number.into())), 8);
        }
        assert!(shares.0.borrow().capacity() < 4 * REMEMBERED, "{}", shares.0.borrow().capacity());
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
