//! How an answer came about, for who may know: a request with `Larder-Debug` (any value) from a
//! client that the site's `debug` allows is answered with a `Larder-Debug` field, a dictionary (RFC
//! 9651) of what was looked for, what was found, the sums its freshness comes from, the rules that
//! matched, and why it was not a hit.
//!
//! A client that may not is answered as if it had not asked. The field is never sent on to the
//! origin, and one that the origin sends is not ours to pass on or to keep.

use larder_proto::{
    http::{
        Method,
        key::{self, parse_key},
    },
    page::{Meta, PageFlags, Verify, view},
    rules::{Decision, Forward, RevalidateWhy, StaleWhy, Unusable, current_age, decide},
};

use crate::{clock::Ms, settings::RequestView};
use crate::{
    page::lookup::{Found, LookupResult, StoredPage},
    request::{Request, route::Route},
    wire::h1::HeadWriter,
};

/// The longest text of a member: keys of clients' making are cut there.
const TEXT: usize = 1024;

/// Writes down what a lookup found, if the client asked for it and may know. Only the first time:
/// what follows (the wait for somebody else's fetch, a second look) is not why it was no hit.
pub(crate) fn note(request: &Request<'_, '_>, route: &Route<'_>, looked: &LookupResult, now: Ms) {
    begin(request, route, |members| {
        let variant = looked.variant.is_some();
        match &looked.found {
            Found::Nothing => {
                members.token("found", "nothing").text("why", "nothing is stored under this key")
            }
            Found::VaryMiss => members
                .token("found", "other-variants")
                .text("why", "stored for other values of the fields it varies on"),
            Found::HitForMiss => members.token("found", "hit-for-miss").text(
                "why",
                "the last response was not to be stored, so requests do not wait for each other",
            ),
            Found::Page(held) => page(members, request, route, held, now),
        };
        members.flag("varies", variant);
    });
}

/// The same for a request that goes past the cache.
pub(crate) fn passed(request: &Request<'_, '_>, route: &Route<'_>, why: Forward) {
    begin(request, route, |members| {
        let cookies = || request.head.known.cookie().is_some();
        let why = match why {
            Forward::Method => "the method is not one that is answered from the store",
            Forward::Request => {
                "the request has a condition on the origin's state (If-Match, If-Unmodified-Since)"
            }
            _ if route.policy.pass => "a rule says pass",
            _ if request.upgrade().is_some() => "the request asks for another protocol",
            _ if cookies()
                && request.head.fields.all("cookie").any(|line| route.policy.bypassed_by(line)) =>
            {
                "a cookie of the request is one of bypass_cookies"
            }
            _ => "the request has a body, or hides fields by Connection",
        };
        members.token("tier", "origin").text("why", why);
    });
}

/// Which tier the answer came from in the end, where the lookup did not say so already.
pub(crate) fn tier(request: &Request<'_, '_>, tier: &str) {
    let Some(mut members) = request.debug.take().map(Members) else { return };
    if !members.0.windows(7).any(|bytes| bytes == b", tier=") {
        members.token("tier", tier);
    }
    request.debug.set(Some(members.0));
}

/// Writes the line of the answer, where there is one. The answer has begun then, and the note is
/// used up.
pub(crate) fn line(request: &Request<'_, '_>, head: &mut HeadWriter<'_>) {
    if let Some(text) = request.debug.take() {
        head.line("Larder-Debug", &text);
    }
}

fn begin(request: &Request<'_, '_>, route: &Route<'_>, more: impl FnOnce(&mut Members)) {
    let before = request.debug.take();
    let allowed = || route.site.debug.allows(request.client(), request.head.known.authorization());
    if before.is_some() || !allowed() {
        request.debug.set(before);
        return;
    }
    let mut members = Members(Vec::with_capacity(256));
    members.text("site", &route.site.name).text("key", &url(&route.key));
    let parts = parse_key(&route.key);
    let behind = parts.map(|parts| key::split_behind(parts.path_and_query).1).unwrap_or_default();
    if let Some(forwarded) = behind.forwarded_host {
        members.bytes("forwarded-host", forwarded);
    }
    if !behind.lines.is_empty() {
        let lines: Vec<Vec<u8>> =
            behind.lines.iter().map(|(name, value)| [name, &b": "[..], value].concat()).collect();
        members.bytes("key-fields", &lines.join(&b", "[..]));
    }
    rules(&mut members, request, route);
    more(&mut members);
    request.debug.set(Some(members.0));
}

/// A page's key as a URL.
fn url(key: &[u8]) -> String {
    let Some(parts) = parse_key(key) else { return String::new() };
    let (path, _) = key::split_behind(parts.path_and_query);
    let port = if parts.port == 0 { String::new() } else { format!(":{}", parts.port) };
    format!("{}://{}{port}{}", parts.scheme.as_str(), parts.host, String::from_utf8_lossy(path))
}

/// Which of the site's rules matched, counted from 1 as they stand, those of the preset behind.
fn rules(members: &mut Members, request: &Request<'_, '_>, route: &Route<'_>) {
    let head = request.head;
    let target = head.target.path_and_query;
    let path = target.split_once('?').map_or(target, |(path, _)| path);
    let any = |name: &str, test: &mut dyn FnMut(&[u8]) -> bool| head.fields.all(name).any(test);
    let method = if head.method == Method::Purge { "GET" } else { head.method.as_str() };
    let view = RequestView { method, path, any: &any };
    let matching: Vec<String> =
        route.site.matching(&view).map(|(place, _)| (place + 1).to_string()).collect();
    members.raw("rules", &format!("({})", matching.join(" ")));
}

fn page<'m>(
    members: &'m mut Members,
    request: &Request<'_, '_>,
    route: &Route<'_>,
    held: &StoredPage,
    now: Ms,
) -> &'m mut Members {
    let meta = &held.meta;
    let (decision, why) = if request.is_for_others(meta, &route.policy) {
        ("revalidate", Some("the request has cookies, and the site gave the page no lifetime"))
    } else {
        verdict(&decide(&request.view(), meta, &route.policy.cache, now))
    };
    members.token("found", if meta.partial.is_some() { "part" } else { "page" });
    if let Ok(page) = view(held.entry.head(), held.entry.len(), Verify::Layout) {
        let names: Vec<String> = page.vary.map(|(name, _)| name.to_owned()).collect();
        if !names.is_empty() {
            members.text("vary", &names.join(", "));
        }
        members.number("size", page.content_len() as i64);
    }
    sums(members, meta, now);
    members.token("decision", decision);
    if let Some(why) = why {
        members.text("why", why);
    } else {
        members.token("tier", "memory");
    }
    members
}

/// The parts of its age and its freshness (RFC 9111 4.2): age = initial-age + time since it was
/// received.
fn sums(members: &mut Members, meta: &Meta, now: Ms) {
    let age = current_age(meta, now);
    members
        .number("age", i64::from(age))
        .number("initial-age", i64::from(meta.initial_age))
        .number(
            "resident",
            i64::try_from(now.saturating_sub(meta.response_time) / 1000).unwrap_or(i64::MAX),
        )
        .number("lifetime", i64::from(meta.freshness))
        .token("lifetime-by", lifetime_by(meta.flags))
        .number("ttl", i64::from(meta.freshness) - i64::from(age))
        .number("stale-while-revalidate", i64::from(meta.swr))
        .number("stale-if-error", i64::from(meta.sie))
        .flag("soft-purged", meta.soft_purged_at != 0);
}

fn lifetime_by(flags: PageFlags) -> &'static str {
    if flags.any(PageFlags::HEURISTIC) {
        "heuristic"
    } else if flags.any(PageFlags::NEGATIVE) {
        "status"
    } else {
        "response-or-rule"
    }
}

/// The decision as a word, and why it is not simply a hit.
fn verdict(decision: &Decision) -> (&'static str, Option<&'static str>) {
    match decision {
        Decision::Fresh { .. } => ("fresh", None),
        Decision::Stale { why: StaleWhy::SwrRefresh, .. } => ("stale-while-revalidate", None),
        Decision::Stale { why: StaleWhy::MaxStale, .. } => ("stale-by-max-stale", None),
        Decision::Revalidate { why, .. } => (
            "revalidate",
            Some(match why {
                RevalidateWhy::Stale => "its lifetime is over",
                RevalidateWhy::SoftPurged => "it was softly purged",
                RevalidateWhy::ResponseNoCache => "the response said no-cache",
                RevalidateWhy::Request => {
                    "the request wants a newer one (no-cache, max-age or min-fresh)"
                }
            }),
        ),
        Decision::Unusable(Unusable::RequestNoStore) => {
            ("unusable", Some("the request said no-store"))
        }
        Decision::Unusable(_) => ("unusable", Some("it does not answer such a request")),
        Decision::GatewayTimeout => {
            ("refused", Some("only-if-cached, and nothing that could be served is stored"))
        }
    }
}

/// A dictionary as it grows.
struct Members(Vec<u8>);

impl Members {
    fn raw(&mut self, name: &str, value: &str) -> &mut Self {
        if !self.0.is_empty() {
            self.0.extend_from_slice(b", ");
        }
        self.0.extend_from_slice(name.as_bytes());
        self.0.push(b'=');
        self.0.extend_from_slice(value.as_bytes());
        self
    }

    fn token(&mut self, name: &str, word: &str) -> &mut Self {
        self.raw(name, word)
    }

    fn number(&mut self, name: &str, value: i64) -> &mut Self {
        self.raw(name, &value.to_string())
    }

    fn flag(&mut self, name: &str, set: bool) -> &mut Self {
        self.raw(name, if set { "?1" } else { "?0" })
    }

    fn text(&mut self, name: &str, text: &str) -> &mut Self {
        self.bytes(name, text.as_bytes())
    }

    /// A string (RFC 9651 3.3.3): what it cannot hold is percent-encoded.
    fn bytes(&mut self, name: &str, text: &[u8]) -> &mut Self {
        let mut quoted = String::with_capacity(text.len() + 2);
        quoted.push('"');
        for &byte in text.iter().take(TEXT) {
            match byte {
                b'"' | b'\\' => quoted.extend(['\\', byte as char]),
                0x20..=0x7e => quoted.push(byte as char),
                _ => quoted.push_str(&format!("%{byte:02X}")),
            }
        }
        quoted.push('"');
        self.raw(name, &quoted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_a_dictionary_whatever_a_client_put_into_a_key() {
        let mut members = Members(Vec::new());
        members.text("key", "http://h/\"a\\b\u{e9}\r\nX: y").flag("varies", true).number("ttl", -3);
        assert_eq!(
            String::from_utf8_lossy(&members.0),
            "key=\"http://h/\\\"a\\\\b%C3%A9%0D%0AX: y\", varies=?1, ttl=-3"
        );
    }

    #[test]
    fn a_long_key_is_cut() {
        let mut members = Members(Vec::new());
        members.bytes("key", &[b'a'; 5000]);
        assert_eq!(members.0.len(), TEXT + "key=\"\"".len());
    }
}
