//! Metrics of the Redis face.

use std::collections::BTreeMap;

use larder_metrics::{Connections, Counter, Histogram, Objects, TopKeys};
use larder_proto::resp::table;
use larder_store::NamespaceStats;

use super::{Counters, Shared};
use crate::object::hot;

impl Shared {
    /// The hottest keys. `name` formats a key.
    pub(crate) fn top_keys(&self, limit: usize, name: fn(&[u8]) -> String) -> TopKeys {
        hot::hottest("redis", self.counters.iter().map(|worker| &worker.hot), limit, name)
    }

    /// The metrics of all workers.
    pub(crate) fn figures(&self) -> Objects {
        let sum = |counter: fn(&Counters) -> &Counter| -> u64 {
            self.counters.iter().map(|one| counter(one).get()).sum()
        };
        let databases: Vec<_> =
            (0..self.databases()).map(|db| self.store.stats(self.namespace(db))).collect();
        let of = |value: fn(&NamespaceStats) -> u64| databases.iter().map(value).sum::<u64>();
        let (commands, mut latency) = self.command_figures();
        latency.sum = commands.values().map(|(_, micros)| micros).sum();
        let calls = |names: &[&str]| {
            names.iter().filter_map(|name| commands.get(*name)).map(|(calls, _)| calls).sum()
        };
        let refused = sum(|c| &c.rejected_connections) + sum(|c| &c.denied_connections);
        Objects {
            connections: Connections {
                open: self.clients.open() as u64,
                accepted: sum(|c| &c.total_connections_received),
                refused,
            },
            gets: of(|ns| ns.hits) + of(|ns| ns.misses),
            get_hits: of(|ns| ns.hits),
            get_misses: of(|ns| ns.misses),
            sets: of(|ns| ns.stored),
            deletes: of(|ns| ns.deleted),
            touches: calls(&[
                "touch",
                "expire",
                "pexpire",
                "expireat",
                "pexpireat",
                "persist",
                "getex",
            ]),
            evictions: of(|ns| ns.evictions),
            bytes_in: sum(|c| &c.total_net_input_bytes),
            tls_handshakes: sum(|c| &c.tls.handshakes),
            tls_resumed: sum(|c| &c.tls.resumed),
            tls_failures: sum(|c| &c.tls.failures),
            bytes_out: sum(|c| &c.total_net_output_bytes),
            latency,
            commands: commands.into_iter().map(|(name, (calls, _))| (name, calls)).collect(),
        }
    }

    /// Calls and microseconds by command, without unused ones, and the histogram of all commands.
    fn command_figures(&self) -> (BTreeMap<&'static str, (u64, u64)>, Histogram) {
        let mut commands = BTreeMap::new();
        for command in
            table::all().flat_map(|command| std::iter::once(command).chain(command.subcommands))
        {
            let own = self.counters.iter().map(|one| &one.commands[command.id as usize]);
            let (calls, micros) =
                own.fold((0, 0), |sum, one| (sum.0 + one.calls.get(), sum.1 + one.micros.get()));
            if calls > 0 {
                commands.insert(command.name, (calls, micros));
            }
        }
        let (mut classes, mut latency) = (BTreeMap::new(), Histogram::default());
        self.counters.iter().for_each(|one| one.add_latencies(&mut classes));
        for histogram in classes.values() {
            for (class, count) in histogram.iter().enumerate() {
                latency.add_class(1 << class, *count);
            }
        }
        (commands, latency)
    }
}
