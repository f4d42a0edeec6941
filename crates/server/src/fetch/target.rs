//! Where a page goes: its key, its marker, its tags.

use larder_proto::{
    http::{Fields, key, structured::strings},
    rules::{Vary, no_vary_search::Rule, vary},
};
use larder_store::MAX_TAGS;

use crate::{
    fetch::{
        job,
        job::{Job, Keep},
    },
    page::{
        spelling::{self, Rules},
        tags::{OWN_TAGS, TAG_FIELDS, group_tag},
        variant::{self, Marker, Values},
    },
};

/// Longest tag taken from a response.
const TAG_LEN: usize = 1024;

/// Where a page goes and what selects it.
pub(crate) struct Destination {
    /// The key without variant.
    pub(crate) primary: Vec<u8>,
    pub(crate) key: Vec<u8>,
    pub(crate) vary: Values,
    /// A marker to be written first.
    pub(crate) marker: Option<Marker>,
    /// The rule by which other spellings of the query are this page.
    pub(crate) rule: Option<Rule>,
}

/// Where the response goes: under the primary key, or as a variant under a marker. The primary key
/// is that of the canonical spelling by the response's own rule; without one, that of the request.
pub(crate) fn destination(job: &Job, keep: &Keep, fields: Fields<'_>) -> Option<Destination> {
    let names = match vary::selecting(fields, &keep.policy.cache) {
        Vary::Star => return None,
        Vary::None => Vec::new(),
        Vary::Names(names) => names,
    };
    let rule = Rule::of(fields);
    let asked = keep.asked();
    let primary =
        rule.as_ref().map_or_else(|| asked.to_vec(), |rule| spelling::canonical(rule, asked));
    let before = Marker::load(job.pages.store, &primary, job.pages.clock.now());
    if before.is_none() && names.is_empty() {
        let key = primary.clone();
        return Some(Destination { primary, key, vary: Vec::new(), marker: None, rule });
    }
    let encoding = fields.get("content-encoding");
    let vary = keep.with_request(|head| {
        variant::values(&names, &job::request_view(head), &keep.policy, encoding)
    });
    let (marker, new) = Marker::with(before, &vary, || job.pages.nonce());
    let key = marker.key(&primary, &vary);
    Some(Destination { primary, key, vary, marker: new.then_some(marker), rule })
}

/// Tells the flight where its response goes, and others the rule by which they find it there. A
/// purge of another spelling that came before anybody knew the rule counts.
pub(crate) fn announce(job: &Job, primary: &[u8], rule: Option<&Rule>) {
    let (pages, flight) = (&job.pages, &job.lead.flight);
    let Some(rule) = rule else {
        // By another spelling than it was asked for: by that, purges mean it anyway.
        if let Some(keep) = job.keep.as_ref().filter(|keep| keep.primary != primary) {
            let means = |purged: &[u8]| purged == key::url_key(keep.asked());
            pages.shared.flights.goes_to(flight, primary, means);
        }
        return;
    };
    // Before the flight is told: a purge either finds the rule, and with it the flight, or came
    // before.
    if let Some(rules) = Rules::with(pages.store, rule, primary, pages.clock.now()) {
        let key = spelling::rules_key(primary);
        if pages.writer().put_rules(&key, &rules).is_err() {
            pages.counters.store_refused.one();
        }
        pages.shared.replaced_on_disk(&key);
    }
    let means = |purged: &[u8]| spelling::canonical(rule, purged) == key::url_key(primary);
    pages.shared.flights.goes_to(flight, primary, means);
}

/// Surrogate keys: `Surrogate-Key`, `xkey` and the fields of Drupal, Magento and TYPO3 (separated
/// by blanks or commas), `Cache-Tag` (by commas), and the groups of `Cache-Groups` (RFC 9875).
/// `page` is the key of the page.
pub(crate) fn tags(fields: Fields<'_>, page: &[u8]) -> Vec<Box<[u8]>> {
    let mut out: Vec<Box<[u8]>> = TAG_FIELDS
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
    out.truncate(MAX_TAGS - OWN_TAGS);
    out
}
