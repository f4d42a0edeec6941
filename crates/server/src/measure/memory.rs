//! The figures of the store and of the process' memory.

use larder_metrics::{Memory, Namespace};
use larder_store::{Namespace as Number, NamespaceStats};

use super::Registry;

impl Registry {
    /// The figures of the store.
    pub(super) fn memory(&self) -> Memory {
        let (store, settings) = (self.parts.store, self.settings.read().clone());
        let totals = store.totals();
        let used = totals.budget.saturating_sub(totals.free * totals.segment);
        let mut payload = 0;
        let mut namespaces = Vec::new();
        for group in settings.namespaces() {
            let stats: Vec<_> = group.numbers.map(|number| store.stats(Number(number))).collect();
            let sum = |value: fn(&NamespaceStats) -> u64| stats.iter().map(value).sum::<u64>();
            payload += sum(|ns| ns.bytes);
            if group.served {
                namespaces.push(Namespace {
                    name: group.name.to_owned(),
                    items: sum(|ns| ns.items),
                    bytes: sum(|ns| ns.bytes),
                    evictions: sum(|ns| ns.evictions),
                    evictions_recent: sum(|ns| ns.evicted_recent),
                    expired: sum(|ns| ns.expired),
                    floor: group.share.floor,
                    ceiling: group.share.ceiling,
                });
            }
        }
        let entries = totals.small + totals.main + totals.chained + totals.staging + totals.limbo;
        // Of the budget, not of the used part: a nearly empty store has a few open segments and
        // wastes nothing.
        let idle = (entries * totals.segment).saturating_sub(payload);
        let fragmentation = idle as f64 / totals.budget.max(1) as f64;
        Memory {
            budget: totals.budget,
            used,
            resident: resident(),
            payload,
            fragmentation,
            namespaces,
        }
    }
}

/// Resident memory of this process in bytes (proc(5), `VmRSS`); 0 if the system does not say.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
