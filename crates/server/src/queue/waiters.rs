//! Readers that wait for an item, in the order in which they came, and until when.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

use super::seat::{Get, Name, Seat};
use crate::clock::Ms;

/// A client that waits for an item.
pub(super) struct Waiter {
    number: u64,
    pub(super) seat: Arc<Seat>,
    pub(super) get: Get,
    until: Ms,
}

/// All that wait. A client waits for one queue at a time.
#[derive(Default)]
pub(super) struct Waiters {
    /// By queue, longest waiting first.
    by_queue: HashMap<Name, VecDeque<Waiter>>,
    deadlines: BTreeSet<(Ms, u64, Name)>,
    /// The queue that a client waits for.
    by_client: HashMap<u64, Name>,
    /// Number of the next.
    next: u64,
}

impl Waiters {
    pub(super) fn len(&self) -> usize {
        self.deadlines.len()
    }

    /// Those who wait for a queue.
    pub(super) fn of(&self, name: &[u8]) -> usize {
        self.by_queue.get(name).map_or(0, VecDeque::len)
    }

    /// Queues for which somebody waits.
    pub(super) fn queues(&self) -> Vec<Name> {
        self.by_queue.keys().cloned().collect()
    }

    /// When the next has waited long enough.
    pub(super) fn deadline(&self) -> Option<Ms> {
        self.deadlines.first().map(|(until, ..)| *until)
    }

    pub(super) fn add(&mut self, seat: Arc<Seat>, get: Get, now: Ms) {
        let (until, number, name) = (now + get.wait, self.next, get.name.clone());
        self.next += 1;
        self.deadlines.insert((until, number, name.clone()));
        self.by_client.insert(seat.id(), name.clone());
        self.by_queue.entry(name).or_default().push_back(Waiter { number, seat, get, until });
    }

    /// The one who has waited longest for a queue.
    pub(super) fn first(&self, name: &[u8]) -> Option<&Waiter> {
        self.by_queue.get(name)?.front()
    }

    /// The same, who waits no more.
    pub(super) fn pop(&mut self, name: &Name) -> Option<Waiter> {
        self.remove(name, |_| true)
    }

    /// Somebody who has waited long enough.
    pub(super) fn pop_late(&mut self, now: Ms) -> Option<Waiter> {
        let (_, number, name) = self.deadlines.first().filter(|(until, ..)| *until <= now)?.clone();
        self.remove(&name, |waiter| waiter.number == number)
    }

    /// A client is gone.
    pub(super) fn leave(&mut self, client: u64) {
        if let Some(name) = self.by_client.get(&client).cloned() {
            self.remove(&name, |waiter| waiter.seat.id() == client);
        }
    }

    fn remove(&mut self, name: &Name, is: impl Fn(&Waiter) -> bool) -> Option<Waiter> {
        let waiters = self.by_queue.get_mut(name)?;
        let waiter = waiters.iter().position(is).and_then(|at| waiters.remove(at));
        if waiters.is_empty() {
            self.by_queue.remove(name);
        }
        let waiter = waiter?;
        self.deadlines.remove(&(waiter.until, waiter.number, name.clone()));
        self.by_client.remove(&waiter.seat.id());
        Some(waiter)
    }
}
