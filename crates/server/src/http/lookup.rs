//! Finding a page in the store: its key, its variant, and what was found.
//!
//! A page whose response had no Vary lies under its primary key. Where the response varies, a marker lies there that
//! names the selecting fields; the variants lie under the primary key, the marker's nonce and the values of those fields.
//! Purging the marker makes every variant unreachable, since the next marker has another nonce.

use larder_proto::{
    http::{Fields, Header, key},
    page::{Kind, Meta, Verify, view},
    rules::{RequestView, vary},
};
use larder_store::{Entry, Namespace, Store};

use super::answer::VaryValues;
use crate::{clock::Ms, settings::RulePolicy};

/// Where pages live. Objects of other protocols live in other namespaces and can never be read as pages.
pub(crate) const PAGES: Namespace = Namespace(0);

/// What lies under a key.
pub(crate) enum Found {
    /// Nothing at all.
    Nothing,
    /// Other variants only.
    VaryMiss,
    /// The last response was not to be stored: nobody should wait for somebody else's.
    HitForMiss,
    /// A page.
    Page(Held),
}

/// A page in the store, pinned.
pub(crate) struct Held {
    pub(crate) entry: Entry<'static>,
    /// Its facts, a soft purge taken into account.
    pub(crate) meta: Meta,
}

/// The result of a lookup.
pub(crate) struct Looked {
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
) -> Looked {
    let Some(entry) = store.get(PAGES, primary, now) else {
        return Looked { found: Found::Nothing, variant: None };
    };
    let Ok(page) = view(entry.head(), entry.len(), Verify::Layout) else {
        return Looked { found: Found::Nothing, variant: None };
    };
    if page.meta.kind != Kind::VaryMarker {
        let meta = page.meta;
        return Looked { found: classify(entry, meta, 0, now), variant: None };
    }
    let values = page.vary.map(|(name, _)| normalise(name, request, policy));
    let variant = variant_key(primary, page.meta.nonce, values);
    let purged = page.meta.soft_purged_at;
    let found = match store.get(PAGES, &variant, now) {
        None => Found::VaryMiss,
        Some(entry) => match view(entry.head(), entry.len(), Verify::Layout).map(|page| page.meta) {
            Ok(meta) => classify(entry, meta, purged, now),
            Err(_) => Found::VaryMiss,
        },
    };
    Looked { found, variant: Some(variant) }
}

fn classify(entry: Entry<'static>, mut meta: Meta, marker_purged: Ms, now: Ms) -> Found {
    match meta.kind {
        Kind::HitForMiss => return Found::HitForMiss,
        Kind::VaryMarker => return Found::VaryMiss,
        Kind::Page => {}
    }
    if entry.stale() {
        meta.soft_purged_at = now;
    } else if marker_purged > meta.response_time {
        meta.soft_purged_at = marker_purged;
    }
    Found::Page(Held { entry, meta })
}

fn variant_key(primary: &[u8], nonce: u64, values: impl Iterator<Item = Option<Vec<u8>>>) -> Vec<u8> {
    // An absent field and an empty one are different selections.
    let values: Vec<Vec<u8>> = values
        .map(|value| match value {
            None => Vec::new(),
            Some(mut value) => {
                value.push(b'=');
                value
            }
        })
        .collect();
    let mut out = Vec::with_capacity(primary.len() + 64);
    key::write_variant_key(&mut out, primary, nonce, values.iter().map(Vec::as_slice));
    out
}

/// The value of a selecting field in the form that is compared.
pub(crate) fn normalise(name: &str, request: &RequestView<'_>, policy: &RulePolicy) -> Option<Vec<u8>> {
    if name != "cookie" {
        return vary::normalise(name, request, &policy.cache);
    }
    let lines: Vec<_> = request.fields.all("cookie").map(|line| policy.significant_cookies(line)).collect();
    let headers: Vec<Header<'_>> = lines
        .iter()
        .filter(|line| !line.is_empty())
        .map(|line| Header { name: "cookie", value: line })
        .collect();
    vary::normalise(name, &RequestView { fields: Fields::new(&headers), ..*request }, &policy.cache)
}

/// What names the variants of a page.
pub(crate) struct Marker {
    pub(crate) names: Vec<String>,
    pub(crate) nonce: u64,
}

impl Marker {
    /// The marker under a primary key, if one is there.
    pub(crate) fn load(store: &'static Store, primary: &[u8], now: Ms) -> Option<Marker> {
        let entry = store.peek(PAGES, primary, now)?;
        let page = view(entry.head(), entry.len(), Verify::Layout).ok()?;
        if page.meta.kind != Kind::VaryMarker {
            return None;
        }
        let names = page.vary.map(|(name, _)| name.to_owned()).collect();
        Some(Marker { names, nonce: page.meta.nonce })
    }

    /// The key of the variant with these values.
    pub(crate) fn key(&self, primary: &[u8], values: &VaryValues) -> Vec<u8> {
        variant_key(primary, self.nonce, values.iter().map(|(_, value)| value.clone()))
    }
}

/// The values a request has for selecting fields.
pub(crate) fn values_of(names: &[String], request: &RequestView<'_>, policy: &RulePolicy) -> VaryValues {
    names.iter().map(|name| (name.clone(), normalise(name, request, policy))).collect()
}
