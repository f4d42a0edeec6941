//! Metrics of the memcached face.

use larder_metrics::{Connections, Counter, Objects, TopKeys};

use super::{Counters, OBJECTS, Shared};
use crate::object::hot;

impl Shared {
    /// The hottest keys. `name` formats a key.
    pub(crate) fn top_keys(&self, limit: usize, name: fn(&[u8]) -> String) -> TopKeys {
        hot::hottest("memcached", self.stats.workers.iter().map(|worker| &worker.hot), limit, name)
    }

    /// The metrics of all workers.
    pub(crate) fn figures(&self) -> Objects {
        let sum = |counter: fn(&Counters) -> &Counter| -> u64 {
            self.counters.iter().map(|one| counter(one).get()).sum()
        };
        let both = |hits: fn(&Counters) -> &Counter, misses: fn(&Counters) -> &Counter| {
            sum(hits) + sum(misses)
        };
        let (sets, gets) = (sum(|c| &c.cmd_set), sum(|c| &c.cmd_get));
        let deletes = both(|c| &c.delete_hits, |c| &c.delete_misses);
        let touches = sum(|c| &c.cmd_touch);
        let commands = [
            ("get", gets),
            ("set", sets),
            ("delete", deletes),
            ("touch", touches),
            ("incr", both(|c| &c.incr_hits, |c| &c.incr_misses)),
            ("decr", both(|c| &c.decr_hits, |c| &c.decr_misses)),
            ("cas", both(|c| &c.cas_hits, |c| &c.cas_misses) + sum(|c| &c.cas_badval)),
            ("flush_all", sum(|c| &c.cmd_flush)),
            ("me", sum(|c| &c.cmd_meta)),
            ("auth", sum(|c| &c.auth_cmds)),
        ];
        Objects {
            connections: Connections {
                open: self.clients.open() as u64,
                accepted: sum(|c| &c.total_connections),
                refused: sum(|c| &c.rejected_connections),
            },
            gets,
            get_hits: sum(|c| &c.get_hits),
            get_misses: sum(|c| &c.get_misses),
            sets,
            deletes,
            touches,
            evictions: self.store.stats(OBJECTS).evictions,
            bytes_in: sum(|c| &c.bytes_read),
            tls_handshakes: sum(|c| &c.tls.handshakes),
            tls_resumed: sum(|c| &c.tls.resumed),
            tls_failures: sum(|c| &c.tls.failures),
            bytes_out: sum(|c| &c.bytes_written),
            commands: commands.into_iter().filter(|(_, count)| *count > 0).collect(),
            latency: self.stats.latency(),
        }
    }
}
