//! The fields that Larder adds to the responses it sends.

use http::HeaderMap;
use larder_proto::rules::{CacheStatus, strip};

use crate::{
    page::head::title_case,
    settings::{HttpSettings, phrase},
    wire::h1::HeadWriter,
};

/// Writes the head of an interim response: status line and end-to-end fields.
pub(crate) fn interim_head(mut head: HeadWriter<'_>, status: u16, map: &HeaderMap) {
    head.status(status, phrase(status));
    for (name, value) in map {
        let own = name == "content-length" || name == "set-cookie";
        if !own && !strip::is_hop_by_hop(name.as_str()) {
            head.line(&title_case(name.as_str()), value.as_bytes());
        }
    }
    head.end();
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
