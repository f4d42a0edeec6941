//! Finding a page in the store: its key, its variant, and what was found.
//!
//! A page whose response had no Vary lies under its primary key. Where the response varies, a
//! marker lies there; see [`variant`]. Purging the marker makes every variant unreachable, since
//! the next marker has another nonce.

use larder_proto::{
    page::{Kind, Meta, Verify, view},
    rules::RequestView,
};
use larder_store::{Entry, Namespace, Store};

use crate::{clock::Ms, page::variant, settings::RulePolicy};

/// Where pages live. Objects of other protocols live in other namespaces and can never be read as
/// pages.
pub(crate) const PAGES: Namespace = Namespace(0);
/// Where the slices of large pages live.
pub(crate) const SLICES: Namespace = Namespace(20);

/// The record under a key.
pub(crate) enum Found {
    /// Nothing at all.
    Nothing,
    /// Other variants only.
    VaryMiss,
    /// The last response was not to be stored: nobody should wait for somebody else's.
    HitForMiss,
    /// A page.
    Page(StoredPage),
}

/// A page in the store, pinned.
pub(crate) struct StoredPage {
    pub(crate) entry: Entry<'static>,
    /// Its facts, a soft purge taken into account.
    pub(crate) meta: Meta,
}

/// The result of a lookup.
pub(crate) struct LookupResult {
    pub(crate) found: Found,
    /// The variant's key, where the page has variants.
    pub(crate) variant: Option<Vec<u8>>,
}

/// Looks for the page that answers a request.
pub(crate) fn look(
    store: &'static Store,
    primary: &[u8],
    request: &RequestView<'_>,
    policy: &RulePolicy,
    now: Ms,
) -> LookupResult {
    let Some(entry) = get(store, primary, now) else {
        return LookupResult { found: Found::Nothing, variant: None };
    };
    let Ok(page) = view(entry.head(), entry.len(), Verify::Layout) else {
        return LookupResult { found: Found::Nothing, variant: None };
    };
    if page.meta.kind != Kind::VaryMarker {
        let meta = page.meta;
        return LookupResult { found: classify(entry, meta, 0), variant: None };
    }
    let purged = page.meta.soft_purged_at;
    let nonce = page.meta.nonce;
    let found = variant::select(primary, nonce, page.vary, request, policy, |key| {
        let entry = get(store, key, now)?;
        let meta = view(entry.head(), entry.len(), Verify::Layout).ok()?.meta;
        Some(LookupResult { found: classify(entry, meta, purged), variant: Some(key.to_vec()) })
    });
    found.unwrap_or_else(|| {
        let key = variant::flight_key(primary, nonce, page.vary, request, policy);
        // Only who would wait for this key needs to know that waiting is of no use.
        let solo = store.get(PAGES, &key, now).is_some();
        let found = if solo { Found::HitForMiss } else { Found::VaryMiss };
        LookupResult { found, variant: Some(key) }
    })
}

/// The entry with this key. One that was softly purged keeps the time of that, so that its windows
/// of staleness begin once.
#[inline]
fn get(store: &'static Store, key: &[u8], now: Ms) -> Option<Entry<'static>> {
    let entry = store.peek(PAGES, key, now);
    match &entry {
        Some(stale) if stale.stale() => store.bump_stale(stale),
        Some(live) => store.bump(live, now),
        None => store.count_miss(PAGES),
    }
    entry
}

fn classify(entry: Entry<'static>, mut meta: Meta, marker_purged: Ms) -> Found {
    match meta.kind {
        Kind::HitForMiss => return Found::HitForMiss,
        Kind::VaryMarker | Kind::Form => return Found::VaryMiss,
        Kind::Page => {}
    }
    if entry.stale() {
        // Set by the mark, which `get` lets stand.
        meta.soft_purged_at = entry.last_access();
    } else if marker_purged > meta.response_time {
        meta.soft_purged_at = marker_purged;
    }
    Found::Page(StoredPage { entry, meta })
}
