//! Statistics that memcached does not have: `stats prefixes`, `stats hotkeys`, `stats latency`.

use super::{
    super::{Face, watch::encode},
    lines::Lines,
    prefixes,
};

/// Number of keys shown by `stats hotkeys`.
const HOTTEST: usize = 50;

/// `stats prefixes`: the table of `stats detail dump` with bytes, as `<prefix>:<figure>`. Prefixes
/// are encoded like keys of a dump, so that no name contains a space or a further colon.
pub(super) fn prefixes(face: &Face, lines: &mut Lines<'_>) {
    lines.stat("detail_enabled", &face.shared.stats.watch_log.any(super::DETAIL));
    for (prefix, row) in
        prefixes::merged(face.shared.stats.workers.iter().map(|worker| &worker.prefixes))
    {
        let mut name = Vec::new();
        encode(&prefix, &mut name);
        let name = String::from_utf8_lossy(&name);
        let figures = [
            ("get", row.gets),
            ("hit", row.hits),
            ("set", row.sets),
            ("del", row.deletes),
            ("bytes_out", row.bytes_out),
            ("bytes_in", row.bytes_in),
        ];
        for (figure, value) in figures {
            lines.part(format_args!("{name}:"), figure, &value);
        }
    }
}

/// `stats detail dump`.
pub(super) fn dump(face: &Face, lines: &mut Lines<'_>) {
    let rows = prefixes::merged(face.shared.stats.workers.iter().map(|worker| &worker.prefixes));
    lines.raw("detailed", |out| {
        for (prefix, row) in rows {
            out.extend_from_slice(b"PREFIX ");
            out.extend_from_slice(&prefix);
            let figures = format!(
                " get {} hit {} set {} del {}\r\n",
                row.gets, row.hits, row.sets, row.deletes
            );
            out.extend_from_slice(figures.as_bytes());
        }
        out.extend_from_slice(b"END\r\n");
    });
}

/// `stats hotkeys`: hottest first.
pub(super) fn hotkeys(face: &Face, lines: &mut Lines<'_>) {
    let top = face.shared.top_keys(HOTTEST, |key| {
        let mut name = Vec::new();
        encode(key, &mut name);
        String::from_utf8_lossy(&name).into_owned()
    });
    lines.stat("sampled_gets", &top.gets);
    for (hot, rank) in top.keys.iter().zip(1_u64..) {
        lines.part(format_args!("{rank}:"), "key", hot.key.as_bytes());
        lines.part(format_args!("{rank}:"), "gets", &hot.gets);
        lines.part(format_args!("{rank}:"), "gets_at_least", &hot.gets_at_least);
    }
}

/// `stats latency`: microseconds from the receipt of a batch of commands until the system accepted
/// the answers.
pub(super) fn latency(face: &Face, lines: &mut Lines<'_>) {
    let stats = &face.shared.stats;
    let latency = stats.latency().since(&stats.before.lock().latency);
    lines.stat("batches", &latency.count());
    for (name, per_mille) in [("p50_us", 500), ("p90_us", 900), ("p99_us", 990), ("p999_us", 999)] {
        lines.stat(name, &latency.quantile(per_mille));
    }
    lines.stat("max_us", &latency.max);
}
