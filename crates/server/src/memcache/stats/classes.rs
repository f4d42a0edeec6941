//! `stats items`, `stats slabs` (protocol.txt, "Item statistics", "Slab statistics"). Items lie one
//! behind the other in segments, not in classes of equal chunks. All are shown as class 1, with a
//! chunk size of the average item and a page size of a segment, so that values which tools compute
//! from it (used of total, wasted) are true.

use larder_store::NamespaceStats;

use super::{super::Face, general, general::Sums, lines::Lines};

/// The one class.
pub(crate) const CLASS: u64 = 1;

/// `stats items`. Empty if there are no items, as in memcached.
pub(super) fn items(face: &Face, lines: &mut Lines<'_>) {
    let stored = general::stored(&face.shared);
    if stored.items == 0 {
        return;
    }
    let sums = Sums::now(&face.shared);
    let figures = [
        ("number", stored.items),
        ("number_hot", 0),
        ("number_warm", 0),
        ("number_cold", stored.items),
        ("age_hot", 0),
        ("age_warm", 0),
        ("age", stored.evicted_age / 1000),
        ("mem_requested", stored.bytes),
        ("evicted", stored.evictions),
        ("evicted_nonzero", 0),
        ("evicted_time", stored.evicted_age / 1000),
        ("outofmemory", sums.get("store_no_memory")),
        ("tailrepairs", 0),
        ("reclaimed", stored.expired),
        ("expired_unfetched", stored.expired_unfetched),
        ("evicted_unfetched", stored.evicted_unfetched),
        ("evicted_active", 0),
        ("crawler_reclaimed", 0),
        ("crawler_items_checked", sums.get("walked")),
        ("lrutail_reflocked", 0),
        ("moves_to_cold", 0),
        ("moves_to_warm", 0),
        ("moves_within_lru", 0),
        ("direct_reclaims", 0),
        ("hits_to_hot", 0),
        ("hits_to_warm", 0),
        ("hits_to_cold", sums.get("get_hits")),
        ("hits_to_temp", 0),
    ];
    for (name, value) in figures {
        lines.part(format_args!("items:{CLASS}:"), name, &value);
    }
}

/// The items as chunks of a slab class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chunks {
    size: u64,
    per_page: u64,
    pages: u64,
}

impl Chunks {
    fn of(stored: &NamespaceStats, segment: u64) -> Self {
        let size = stored.bytes.div_ceil(stored.items.max(1)).max(1);
        let per_page = (segment / size).max(1);
        Self { size, per_page, pages: stored.items.div_ceil(per_page).max(1) }
    }
}

/// `stats slabs`.
pub(super) fn slabs(face: &Face, lines: &mut Lines<'_>) {
    let (stored, segment) = (general::stored(&face.shared), face.store.totals().segment);
    if stored.items == 0 {
        lines.stat("active_slabs", &0);
        lines.stat("total_malloced", &0);
        return;
    }
    let (chunks, sums) = (Chunks::of(&stored, segment), Sums::now(&face.shared));
    let total = chunks.pages * chunks.per_page;
    let figures = [
        ("chunk_size", chunks.size),
        ("chunks_per_page", chunks.per_page),
        ("total_pages", chunks.pages),
        ("total_chunks", total),
        ("used_chunks", stored.items),
        ("free_chunks", total - stored.items),
        ("free_chunks_end", 0),
    ];
    for (name, value) in figures {
        lines.part(format_args!("{CLASS}:"), name, &value);
    }
    let counted = [
        "get_hits",
        "cmd_set",
        "delete_hits",
        "incr_hits",
        "decr_hits",
        "cas_hits",
        "cas_badval",
        "touch_hits",
    ];
    for name in counted {
        lines.part(format_args!("{CLASS}:"), name, &sums.get(name));
    }
    lines.stat("active_slabs", &1);
    // A value larger than a segment occupies several.
    lines.stat("total_malloced", &(chunks.pages * segment.max(chunks.size)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_hold_all_items_and_little_more() {
        for (items, bytes, segment) in
            [(1, 1, 1 << 20), (1000, 123_456, 1 << 18), (3, 40 << 20, 1 << 20)]
        {
            let stored = NamespaceStats { items, bytes, ..NamespaceStats::default() };
            let chunks = Chunks::of(&stored, segment);
            assert!(chunks.pages * chunks.per_page >= items, "{chunks:?}");
            assert!((chunks.pages - 1) * chunks.per_page < items, "{chunks:?}");
            assert!(
                chunks.size * items >= bytes && chunks.size * items < bytes + items,
                "{chunks:?}"
            );
        }
    }
}
