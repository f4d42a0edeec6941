//! The tables of the disk tier.

use crate::{
    Histogram, Snapshot,
    snapshot::{Row, figures},
    table::{Kind, Metric},
};

figures! {
    /// The disk tier.
    pub struct Disk {
        figures {
            /// 1: the disk is in use; 0: it failed, or could not be opened.
            up: Gauge "larder_disk_up",
                "It is back. At 0: see the line on standard error; it is tried again every 10 s.";
            /// Configured size.
            size: Gauge "larder_disk_size_bytes", "It is configured: `disk.size`.";
            /// Bytes in files, room for the open segment included.
            used: Gauge "larder_disk_used_bytes",
                "It fills: at the size old pages are evicted, as in any cache.";
            /// Pages and markers found by the index.
            entries: Gauge "larder_disk_entries", "More, or smaller, pages are kept.";
            /// Memory of the index, beside `memory`.
            index: Gauge "larder_disk_index_bytes", "It has about 23 bytes an entry.";
            /// Entries found at the start.
            loaded: Gauge "larder_disk_loaded_entries", "More was there at the start.";
            /// Milliseconds that filling the index took; 0: it is being filled.
            load_ms: Gauge "larder_disk_load_milliseconds",
                "More entries, or a slow device. Pages are served meanwhile.";
            /// Bytes of records that came from memory.
            accepted: Counter "larder_disk_accepted_bytes", "More pages leave memory.";
            /// Bytes of records that were written again, as they were asked for when their segment
            /// was evicted.
            rewritten: Counter "larder_disk_rewritten_bytes",
                "The disk is small for what is asked for: give it more `size`.";
            /// All bytes written. Divided by those accepted: the write amplification.
            written: Counter "larder_disk_written_bytes",
                "It wears the device out: lower `disk.write_limit`, or have rules with \
                 `disk = \"never\"`.";
            /// Pages dropped to make room.
            evicted: Counter "larder_disk_evictions",
                "Together with misses: more `disk.size` would give more hits.";
            /// Purges made durable.
            purges: Counter "larder_disk_purges", "More is purged.";
            /// Times that the disk failed.
            failures: Counter "larder_disk_failures",
                "The device, a full file system, or rights: see standard error.";
            /// Pages looked up.
            lookups;
            /// Found and used.
            hits;
            /// Not used, because the read took longer than `disk.patience`.
            slow;
            /// Found damaged.
            damaged;
            /// Found, and purged since they left memory.
            purged;
            /// Written.
            stores;
            /// Slices of large pages read.
            slice_hits;
            /// Slices written.
            slice_stores;
            /// Values of memcached's items that were read.
            object_hits;
            /// Such values that were gone or damaged.
            object_lost;
            /// Such values that were not read within `disk.patience`.
            object_late;
            /// Such values written.
            object_stores;
            /// Items evicted without their values being written.
            object_drops;
            /// Not written: too many waited, or the limit was reached.
            dropped;
            /// Not written, as they are too large.
            too_large;
        }
        with {
            /// The time of reads.
            reads: Histogram;
        }
    }
}

impl Row for Disk {
    const LABELS: &'static [&'static str] = &[];

    fn each(snapshot: &Snapshot, f: &mut dyn FnMut(&[&str], &Self)) {
        snapshot.disk.iter().for_each(|disk| f(&[], disk));
    }
}

/// Metrics of the disk tier with labels of their own.
pub(crate) const DISK: &[Metric] = &[
    Metric {
        name: "larder_disk_pages",
        kind: Kind::Counter,
        labels: &["outcome"],
        help: "Pages looked up (`hit`, `miss`, `slow`: the read took longer than `disk.patience`, \
               `damaged`, `purged`) and written (`store`, `dropped`: too many waited or the limit \
               was reached, `too_large`); slices of large pages read (`slice_hit`) and written \
               (`slice_store`).",
        rises: "`slow`: see `larder_disk_read_seconds`; `damaged`: the device changes bytes; \
                `dropped`: raise `disk.write_limit`, or the device is too slow.",
        read: |s, to| {
            Disk::each(s, &mut |_, disk| {
                to.count(&["hit"], disk.hits);
                to.count(&["miss"], disk.lookups.saturating_sub(disk.hits));
                to.count(&["slow"], disk.slow);
                to.count(&["damaged"], disk.damaged);
                to.count(&["purged"], disk.purged);
                to.count(&["store"], disk.stores);
                to.count(&["slice_hit"], disk.slice_hits);
                to.count(&["slice_store"], disk.slice_stores);
                to.count(&["dropped"], disk.dropped);
                to.count(&["too_large"], disk.too_large);
            });
        },
    },
    Metric {
        name: "larder_disk_objects",
        kind: Kind::Counter,
        labels: &["outcome"],
        help: "Values of memcached's items (`memcached.disk`): read into memory (`hit`), not there \
               any more or damaged (`lost`), not read within `disk.patience` (`late`), written \
               (`store`), evicted without being written (`dropped`).",
        rises: "`lost`: a larger `disk.size` keeps values longer; `late`, `dropped`: the device is \
                too slow for what is evicted, or `disk.write_limit` is reached.",
        read: |s, to| {
            Disk::each(s, &mut |_, disk| {
                to.count(&["hit"], disk.object_hits);
                to.count(&["lost"], disk.object_lost);
                to.count(&["late"], disk.object_late);
                to.count(&["store"], disk.object_stores);
                to.count(&["dropped"], disk.object_drops);
            });
        },
    },
    Metric {
        name: "larder_disk_read_seconds",
        kind: Kind::Histogram,
        labels: &[],
        help: "Time of reads of the disk.",
        rises: "The device is slow or busy; above `disk.patience` the origin is asked.",
        read: |s, to| Disk::each(s, &mut |_, disk| to.histogram(&[], &disk.reads)),
    },
];
