//! Reads that clients abort: items go back, or, after too many aborts, to an error queue.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use crate::queue::{Held, Queue};
use crate::queues::{Name, Queues};
use crate::types::{NewItem, Put};

/// An item that was aborted too often, and is in its error queue. Its removal is written when that
/// has it in its file: one write, and one sync, for all of a batch.
#[derive(Debug)]
pub(crate) struct Failing {
    name: Name,
    epoch: u64,
    error_queue: Name,
    held: Held,
}

impl Queues {
    /// Gives back what a client has opened of a queue. Returns the names of queues that have got an
    /// item.
    pub fn abort(&mut self, name: &[u8], client: u64, now: u64) -> Vec<Arc<[u8]>> {
        self.give_back(name, client, true, now)
    }

    /// The same for all queues: the client is gone. `counts`: it counts as an abort of each item.
    pub fn leave(&mut self, client: u64, counts: bool, now: u64) -> Vec<Arc<[u8]>> {
        let has = |queue: &Queue| queue.opened_by(client) > 0;
        let of: Vec<_> = self
            .queues
            .iter()
            .filter(|(_, queue)| has(queue))
            .map(|(name, _)| name.clone())
            .collect();
        of.iter().flat_map(|name| self.give_back(name, client, counts, now)).collect()
    }

    fn give_back(&mut self, name: &[u8], client: u64, counts: bool, now: u64) -> Vec<Name> {
        let Some((name, queue)) = self.existing(name) else { return Vec::new() };
        if queue.opened_by(client) == 0 {
            return Vec::new();
        }
        let failed = queue.abort(client, counts);
        let error_queue = queue.limits.error_queue.clone();
        self.changed.insert(name.clone());
        let mut touched = vec![name.clone()];
        let mut any = false;
        for held in failed {
            any |= self.fail(&name, error_queue.as_ref(), held, now);
        }
        touched.extend(error_queue.filter(|_| any));
        touched
    }

    /// Moves an item that was aborted too often to the error queue; without one it is discarded.
    /// Where that fails it goes back to its place.
    fn fail(&mut self, name: &Name, error_queue: Option<&Name>, held: Held, now: u64) -> bool {
        let Some(queue) = self.queues.get_mut(name) else { return false };
        let Some(error_queue) = error_queue.filter(|error_queue| *error_queue != name) else {
            queue.counters.failed += 1;
            queue.removed(&held);
            return false;
        };
        let epoch = queue.epoch;
        let data = match &held.data {
            Some(data) => Some(data.clone()),
            None => queue.load(held.id, held.place, held.len).ok().flatten(),
        };
        let moved = data.is_some_and(|data| {
            let item = NewItem { flags: held.flags, expires: 0, data };
            matches!(self.put(error_queue, &item, now), Put::Stored)
        });
        let Some(queue) = self.queues.get_mut(name) else { return false };
        if !moved {
            queue.push(held);
            return false;
        }
        queue.counters.failed += 1;
        if let Some(journal) = &mut queue.journal {
            journal.hold(held.place, true);
        }
        let (name, error_queue) = (name.clone(), error_queue.clone());
        self.failing.push(Failing { name, epoch, error_queue, held });
        true
    }

    /// Writes the removals of items that have gone to error queues, once these have them in their
    /// files. Those of an error queue that cannot be written wait for the next call.
    pub(crate) fn settle(&mut self) -> Vec<(Name, io::Error)> {
        if self.failing.is_empty() || self.broken.is_some() {
            return Vec::new();
        }
        let error_queues: BTreeSet<_> =
            self.failing.iter().map(|failing| failing.error_queue.clone()).collect();
        let mut failed = Vec::new();
        for name in error_queues {
            let journal = self.queues.get_mut(&name).and_then(|queue| queue.journal.as_mut());
            let Some(journal) = journal else { continue };
            if let Err(error) = journal.write() {
                failed.push((name, error));
            } else if self.options.always
                && let Err(error) = journal.sync()
            {
                self.broken = Some(format!("the device failed: {error}"));
                failed.push((name, error));
            }
        }
        for failing in std::mem::take(&mut self.failing) {
            if failed.iter().any(|(name, _)| *name == failing.error_queue) {
                self.failing.push(failing);
            } else if let Some(queue) = self.queues.get_mut(&failing.name)
                && queue.epoch == failing.epoch
            {
                if let Some(journal) = &mut queue.journal {
                    journal.hold(failing.held.place, false);
                }
                queue.removed(&failing.held);
                self.changed.insert(failing.name);
            }
        }
        failed
    }
}
