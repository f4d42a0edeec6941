//! The tables of the queue face: all queues, and single ones.

use crate::{
    Connections, Snapshot,
    snapshot::{Row, figures},
    table::{Kind, Metric},
};

figures! {
    /// The queue face.
    pub struct Queues {
        figures {
            /// Queues, children included.
            count: Gauge "larder_queues", "More queues; at `queue.max_queues` new ones are refused.";
            /// Items that wait, over all queues.
            items: Gauge "larder_queues_items", "Readers are slower than writers, or gone.";
            /// Bytes of items that wait, over all queues.
            bytes: Gauge "larder_queues_items_bytes", "Readers are slower than writers, or gone.";
            /// Memory of items, beside `memory`.
            memory: Gauge "larder_queues_memory_bytes",
                "Items wait; above `queue.memory` they are on disk only.";
            /// Bytes of all journals.
            journal: Gauge "larder_queues_journal_bytes",
                "Items wait, or clients keep some open for long.";
            /// Readers that wait for an item.
            waiting: Gauge "larder_queues_waiting_readers", "Readers are faster than writers.";
            /// Times that a journal was not written, or not had on the device.
            failures: Counter "larder_queues_failures",
                "The device, a full file system, or rights: see standard error.";
            /// Bytes received from clients.
            bytes_in: Counter "larder_queues_received_bytes", "Larger or more items are added.";
            /// Bytes sent to clients.
            bytes_out: Counter "larder_queues_sent_bytes", "Larger or more items are read.";
        }
        with {
            /// Connections of clients.
            connections: Connections;
            /// The queues with the most items that wait, at most a hundred.
            largest: Vec<Queue>;
        }
    }
}

figures! {
    /// One queue.
    pub struct Queue {
        figures {
            /// Items that wait.
            items: Gauge "larder_queue_items", "Its readers are slower than its writers, or gone.";
            /// Bytes of items that wait.
            bytes: Gauge "larder_queue_items_bytes",
                "Its readers are slower than its writers, or gone.";
            /// Items that clients have opened.
            open: Gauge "larder_queue_open_items", "Readers take longer for an item.";
            /// Milliseconds that the item read last had waited; 0 once the queue is empty.
            age_ms: Gauge "larder_queue_age_milliseconds",
                "Its readers are slower than its writers.";
            /// Items added.
            added: Counter "larder_queue_added", "More work.";
            /// Items taken or opened.
            taken: Counter "larder_queue_taken", "Good: work is done.";
            /// Items refused, since the queue was full.
            refused: Counter "larder_queue_refused",
                "Readers are too slow for `max_items` or `max_bytes`.";
            /// Items discarded to make room for new ones.
            discarded: Counter "larder_queue_discarded",
                "Readers are too slow for the limits of a queue with `discard_oldest`.";
            /// Items that expired before they were read.
            expired: Counter "larder_queue_expired", "Readers are too slow for the expiry of items.";
            /// Open reads that were aborted, by `/abort` or by a client that left.
            aborted: Counter "larder_queue_aborted", "Readers fail, or leave without `/close`.";
            /// Items that were aborted too often.
            failed: Counter "larder_queue_failed",
                "Items that no reader can use: see its `error_queue`.";
            /// Items whose bytes on disk were damaged.
            damaged: Counter "larder_queue_damaged", "The device changes or loses bytes.";
            /// Bytes of its journal.
            journal;
        }
        with {
            /// Its name.
            name: String;
        }
    }
}

impl Row for Queues {
    const LABELS: &'static [&'static str] = &[];

    fn each(snapshot: &Snapshot, f: &mut dyn FnMut(&[&str], &Self)) {
        snapshot.queues.iter().for_each(|queues| f(&[], queues));
    }
}

impl Row for Queue {
    const LABELS: &'static [&'static str] = &["queue"];

    fn each(snapshot: &Snapshot, f: &mut dyn FnMut(&[&str], &Self)) {
        let queues = snapshot.queues.iter().flat_map(|queues| &queues.largest);
        queues.for_each(|queue| f(&[&queue.name], queue));
    }
}

/// Metrics of the queue face with labels of their own.
pub(crate) const QUEUES: &[Metric] = &[
    Metric {
        name: "larder_queues_connections",
        kind: Kind::Gauge,
        labels: &[],
        help: "Connections of clients open now.",
        rises: "More writers or readers; at `queue.connections` further ones are refused.",
        read: |s, to| Queues::each(s, &mut |labels, face| to.count(labels, face.connections.open)),
    },
    Metric {
        name: "larder_queues_connections_accepted",
        kind: Kind::Counter,
        labels: &[],
        help: "Connections accepted.",
        rises: "Clients that connect for every item: persistent connections cost a fraction.",
        read: |s, to| {
            Queues::each(s, &mut |labels, face| to.count(labels, face.connections.accepted))
        },
    },
    Metric {
        name: "larder_queues_connections_refused",
        kind: Kind::Counter,
        labels: &[],
        help: "Connections refused.",
        rises: "`queue.connections` is too low.",
        read: |s, to| {
            Queues::each(s, &mut |labels, face| to.count(labels, face.connections.refused))
        },
    },
];
