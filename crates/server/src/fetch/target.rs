//! Where a page goes: its key, its marker, its tags.

use larder_proto::{
    http::{Fields, structured::strings},
    rules::{Vary, vary},
};
use larder_store::MAX_TAGS;

use crate::{
    fetch::{
        job,
        job::{Job, Keep},
    },
    page::{
        tags::group_tag,
        variant::{self, Marker, Values},
    },
};

/// Longest tag taken from a response.
const TAG_LEN: usize = 1024;

/// Where a page goes and what selects it.
pub(crate) struct Destination {
    pub(crate) key: Vec<u8>,
    pub(crate) vary: Values,
    /// A marker to be written first.
    pub(crate) marker: Option<Marker>,
}

/// Where the response goes: under the primary key, or as a variant under a marker.
pub(crate) fn destination(job: &Job, keep: &Keep, fields: Fields<'_>) -> Option<Destination> {
    let names = match vary::selecting(fields, &keep.policy.cache) {
        Vary::Star => return None,
        Vary::None => Vec::new(),
        Vary::Names(names) => names,
    };
    let before = Marker::load(job.pages.store, &keep.primary, job.pages.clock.now());
    if before.is_none() && names.is_empty() {
        return Some(Destination { key: keep.primary.clone(), vary: Vec::new(), marker: None });
    }
    let encoding = fields.get("content-encoding");
    let vary = keep.with_request(|head| {
        variant::values(&names, &job::request_view(head), &keep.policy, encoding)
    });
    let (marker, new) = Marker::with(before, &vary, || job.pages.nonce());
    Some(Destination { key: marker.key(&keep.primary, &vary), vary, marker: new.then_some(marker) })
}

/// Surrogate keys: `Surrogate-Key`, `xkey` and the fields of Drupal, Magento and TYPO3 (separated
/// by blanks or commas), `Cache-Tag` (by commas), and the groups of `Cache-Groups` (RFC 9875).
/// `page` is the key of the page.
pub(crate) fn tags(fields: Fields<'_>, page: &[u8]) -> Vec<Box<[u8]>> {
    let blanks = [
        "surrogate-key",
        "xkey",
        "cache-tags",
        "purge-cache-tags",
        "x-cache-tags",
        "x-magento-tags",
    ];
    let mut out: Vec<Box<[u8]>> = blanks
        .iter()
        .flat_map(|name| fields.all(name))
        .flat_map(|value| value.split(|b| matches!(b, b' ' | b'\t' | b',')))
        .chain(fields.elements("cache-tag"))
        .filter(|tag| !tag.is_empty() && tag.len() <= TAG_LEN)
        .map(Box::from)
        .collect();
    let groups = strings(fields.all("cache-groups")).unwrap_or_default();
    let groups = groups.into_iter().filter(|group| group.len() <= TAG_LEN);
    out.extend(groups.filter_map(|group| group_tag(page, group)).map(Vec::into_boxed_slice));
    out.sort_unstable();
    out.dedup();
    // One more is the URL's (`page::tags`).
    out.truncate(MAX_TAGS - 1);
    out
}
