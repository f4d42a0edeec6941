//! The fields that Larder adds to the responses it sends.

use http::{HeaderMap, HeaderName};
use larder_proto::rules::{CacheStatus, strip};

use crate::{
    page::head::title_case,
    settings::{HttpSettings, phrase},
    wire::h1::HeadWriter,
};

/// Writes the head of an interim response: status line and end-to-end fields.
pub(crate) fn interim_head(mut head: HeadWriter<'_>, status: u16, map: &HeaderMap) {
    head.status(status, phrase(status));
    for (name, value) in map.iter().filter(|(name, _)| is_passed(name)) {
        head.line(&title_case(name.as_str()), value.as_bytes());
    }
    head.end();
}

/// Whether a field of an interim response goes on to the client.
fn is_passed(name: &HeaderName) -> bool {
    let own = name == "content-length" || name == "set-cookie";
    !own && !strip::is_hop_by_hop(name.as_str())
}

/// Whether an interim response says something. A 103 without hints (RFC 8297 section 2) does not:
/// other caches pass on those whose fields they have dropped.
pub(crate) fn says_something(status: u16, map: &HeaderMap) -> bool {
    const OF_THE_WAY: [&str; 3] = ["date", "server", "via"];
    let is_hint = |name: &HeaderName| is_passed(name) && !OF_THE_WAY.contains(&name.as_str());
    status != 103 || map.keys().any(is_hint)
}

/// Where an answer comes from, as its own fields say.
#[derive(Default)]
pub(crate) struct ResponseMeta<'a> {
    /// The answer is from the store.
    pub(crate) hit: bool,
    /// Something was found in the store, used or not.
    pub(crate) found: bool,
    /// None: the Age of the head, if any, stays.
    pub(crate) age: Option<u32>,
    pub(crate) cache_status: CacheStatus<'a>,
}

pub(crate) fn pseudonym(http: &HttpSettings) -> &str {
    http.via.as_deref().unwrap_or("larder")
}

/// Writes the lines Larder adds to every answer it did not make itself.
pub(crate) fn meta_lines(head: &mut HeadWriter<'_>, http: &HttpSettings, meta: &ResponseMeta<'_>) {
    if let Some(age) = meta.age {
        head.number("Age", u64::from(age));
    }
    let name = pseudonym(http);
    if http.x_cache {
        let mut from = |field: &str, hit: bool| {
            head.line_with(field, |out| {
                out.extend_from_slice(if hit { b"HIT from " } else { b"MISS from " });
                out.extend_from_slice(name.as_bytes());
            });
        };
        from("X-Cache", meta.hit);
        from("X-Cache-Lookup", meta.found);
    }
    if meta.hit
        && let Some(announce) = &http.announce
    {
        head.ready(announce);
    }
    if http.cache_status {
        head.line_with("Cache-Status", |out| meta.cache_status.write(name, out));
    }
}
