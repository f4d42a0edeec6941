//! Metrics of the queue face.

use larder_metrics::{Connections, Counter, Queue, Queues};

use super::{Counters, Published, Shared};

/// Queues with figures of their own: more would be too much for a monitoring system.
const LARGEST: usize = 100;

impl Shared {
    /// The figures of this moment; those of queues are a second old at most.
    pub(crate) fn figures(&self) -> Queues {
        let sum = |counter: fn(&Counters) -> &Counter| -> u64 {
            self.counters.iter().map(|one| counter(one).get()).sum()
        };
        let Published { queues, waiting, memory, failures } = self.published.read().clone();
        let total = |figure: fn(&larder_queue::Figures) -> u64| -> u64 {
            queues.iter().map(|(_, figures)| figure(figures)).sum()
        };
        let (items, bytes, journal) =
            (total(|f| f.items), total(|f| f.bytes), total(|f| f.journal));
        let count = queues.len() as u64;
        let mut largest = queues;
        largest.sort_by_key(|(_, figures)| std::cmp::Reverse(figures.items));
        largest.truncate(LARGEST);
        largest.sort_by(|(one, _), (other, _)| one.cmp(other));
        Queues {
            count,
            items,
            bytes,
            memory,
            journal,
            waiting,
            failures,
            bytes_in: sum(|counters| &counters.bytes_read),
            bytes_out: sum(|counters| &counters.bytes_written),
            connections: Connections {
                open: self.clients.open() as u64,
                accepted: sum(|counters| &counters.total_connections),
                refused: sum(|counters| &counters.rejected_connections),
            },
            largest: largest.into_iter().map(row).collect(),
        }
    }
}

fn row((name, figures): (String, larder_queue::Figures)) -> Queue {
    let larder_queue::Figures { items, bytes, journal, open, counters, .. } = figures;
    Queue {
        name,
        items,
        bytes,
        open,
        age_ms: counters.age,
        added: counters.added,
        taken: counters.taken,
        refused: counters.refused,
        discarded: counters.discarded,
        expired: counters.expired,
        aborted: counters.aborted,
        failed: counters.failed,
        damaged: counters.damaged,
        journal,
    }
}
