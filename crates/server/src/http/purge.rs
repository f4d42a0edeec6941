//! Purging: one page, all under a prefix, all with a tag; for good, or softly (stale from now on, served while a fresh
//! one is fetched).
//!
//! | request | purges |
//! |---|---|
//! | `PURGE /path` | the page of this URL, all its variants |
//! | `PURGE /path` with `Larder-Purge: prefix` | every page of this host whose path and query start so |
//! | `PURGE /` with `Larder-Purge: tag` and `Surrogate-Key: a b` | every page of the site with one of these tags |
//!
//! `Larder-Soft-Purge: 1` makes it soft. Who may is in `[[site]] purge`; by default nobody.

use larder_proto::{
    http::{date, key, query},
    page::{Kind, Parts, Trailer, Verify, encode_head, view},
};
use larder_store::{Cursor, Keep, Put};

use super::{
    asked::Asked,
    conn::Conn,
    deliver::Delivered,
    flow::{Route, finish},
    lookup::PAGES,
    socket::Ended,
};
use crate::{access_log::ResultCode, settings::RequestView as RuleView};

/// Entries visited between two looks at other tasks.
const SCAN_STEP: usize = 1024;

enum What {
    Url,
    Prefix,
    Tags(Vec<Vec<u8>>),
}

/// Answers a PURGE request.
pub(crate) async fn serve(conn: &mut Conn, asked: &Asked<'_, '_>, route: &Route<'_>) -> Result<bool, Ended> {
    // Of a request through a trusted proxy, the client counts: else the proxy would let everybody in.
    let allowed = route.site.purge.allows(asked.client(), asked.head.known.authorization());
    if !allowed {
        return Ok(answer(conn, asked, 403, ResultCode::TcpDenied, "purging is not allowed from here"));
    }
    let soft = asked.head.fields.get("larder-soft-purge").is_some_and(|value| value != b"0");
    let Some(what) = what(asked) else {
        let why = "Larder-Purge is url, prefix or tag, and tag needs a Surrogate-Key";
        return Ok(answer(conn, asked, 400, ResultCode::TcpPurge, why));
    };
    let purged = match what {
        What::Url => u64::from(url(asked, &route.path, soft)),
        What::Prefix => prefix(asked, &route.key, soft).await,
        What::Tags(tags) => {
            tags.iter().map(|tag| by_tag(asked, &site_tag(&route.site.name, tag), soft)).sum()
        }
    };
    if purged == 0 {
        return Ok(answer(conn, asked, 404, ResultCode::TcpPurge, "{\"purged\":0}"));
    }
    let body = format!("{{\"purged\":{purged}}}");
    Ok(answer(conn, asked, 200, ResultCode::TcpPurge, &body))
}

fn what(asked: &Asked<'_, '_>) -> Option<What> {
    match asked.head.fields.get("larder-purge") {
        None => Some(What::Url),
        Some(value) if value.eq_ignore_ascii_case(b"url") => Some(What::Url),
        Some(value) if value.eq_ignore_ascii_case(b"prefix") => Some(What::Prefix),
        Some(value) if value.eq_ignore_ascii_case(b"tag") => {
            let tags: Vec<Vec<u8>> = asked
                .head
                .fields
                .all("surrogate-key")
                .flat_map(|value| value.split(|b| matches!(b, b' ' | b'\t' | b',')))
                .filter(|tag| !tag.is_empty())
                .map(<[u8]>::to_vec)
                .collect();
            (!tags.is_empty()).then_some(What::Tags(tags))
        }
        Some(_) => None,
    }
}

fn answer(conn: &mut Conn, asked: &Asked<'_, '_>, status: u16, result: ResultCode, body: &str) -> bool {
    let keep = asked.keep() && asked.head.framing == larder_proto::http::BodyFraming::None;
    let json = body.starts_with('{');
    let out = &mut conn.out;
    let before = out.pending();
    let connection = if keep { "" } else { "Connection: close\r\n" };
    let kind = if json { "application/json" } else { "text/plain" };
    let date = date::format(asked.now() / 1000);
    let date = std::str::from_utf8(&date).unwrap_or_default();
    let head = format!(
        "HTTP/1.1 {status} {}\r\nDate: {date}\r\nServer: larder\r\nContent-Type: {kind}\r\nCache-Control: no-store\r\nContent-Length: {}\r\n{connection}\r\n{body}\n",
        super::refuse::phrase(status),
        body.len() + 1
    );
    out.scratch().extend_from_slice(head.as_bytes());
    let mut delivered = Delivered::own(status, out.pending() - before);
    (delivered.result, delivered.keep) = (result, keep);
    delivered.content_type = Some(kind.as_bytes().to_vec());
    finish(asked, &delivered)
}

/// The keys of a page of the host asked: the same page may have been asked for by http and by https (RFC 9110 section
/// 4.2.2 tells them apart, whoever edits a page means both), each at its own default port.
fn keys(asked: &Asked<'_, '_>, path: &str) -> Vec<Vec<u8>> {
    let Some(host) = &asked.head.host else { return Vec::new() };
    let mut out = Vec::new();
    for scheme in [key::Scheme::Http, key::Scheme::Https] {
        for port in [host.port.unwrap_or(0), 0] {
            let mut key = Vec::new();
            key::write_key(&mut key, scheme, host.host, port, path.as_bytes());
            asked.write_forwarded_host(&mut key);
            // Another port is another site; 80 and 443 are how the default ones are written.
            let default = port != 0 || [None, Some(80), Some(443)].contains(&host.port);
            if default && !out.contains(&key) {
                out.push(key);
            }
        }
    }
    out
}

/// One page with all its variants.
fn url(asked: &Asked<'_, '_>, path: &str, soft: bool) -> bool {
    let mut found = false;
    for key in keys(asked, path) {
        found |= purge_key(asked, &key, soft);
    }
    found
}

/// What is being fetched for the key now is delivered and not kept.
fn purge_key(asked: &Asked<'_, '_>, primary: &[u8], soft: bool) -> bool {
    let (store, now) = (asked.worker.store, asked.now());
    asked.worker.shared.flights.purge(|key| key == primary, soft);
    if !soft {
        return store.delete(PAGES, primary, now);
    }
    let Some(entry) = store.peek(PAGES, primary, now) else { return false };
    let Ok(page) = view(entry.head(), entry.len(), Verify::Layout) else { return false };
    if page.meta.kind != Kind::VaryMarker {
        return store.mark_stale(PAGES, primary, now);
    }
    // The marker speaks for its variants: what is older than this is stale.
    let mut meta = page.meta;
    meta.soft_purged_at = now;
    let vary: Vec<(&str, Option<&[u8]>)> = page.vary.collect();
    let Ok(record) = encode_head(&meta, &Parts { vary: &vary, key: primary, ..Parts::default() }) else {
        return false;
    };
    let trailer = Trailer::new(&record).finish();
    let put = Put { value: &[&record, &trailer], ..Put::default() };
    store.set(PAGES, primary, put, now).is_ok()
}

/// A page that an unsafe request changed (RFC 9111 section 4.4), under the key a GET would look under.
pub(crate) fn invalidate(asked: &Asked<'_, '_>, route: &Route<'_>, path: &str) {
    let plain = path.split_once('?').map_or(path, |(plain, _)| plain);
    let any = |_: &str, _: &mut dyn FnMut(&[u8]) -> bool| false;
    let policy = route.site.policy(&RuleView { method: "GET", path: plain, any: &any });
    url(asked, &query::normalise_query(path, &policy.drop_query, policy.sort_query), false);
}

/// Every page whose key starts with this one. Walks the store in steps.
async fn prefix(asked: &Asked<'_, '_>, start: &[u8], soft: bool) -> u64 {
    let Some(wanted) = key::parse_key(start) else { return 0 };
    let meant = |key: &[u8]| {
        key::parse_key(key).is_some_and(|parts| {
            (parts.host, parts.port) == (wanted.host, wanted.port)
                && parts.path_and_query.starts_with(wanted.path_and_query)
        })
    };
    asked.worker.shared.flights.purge(meant, soft);
    let (mut pages, mut variants) = (0, 0);
    let mut cursor = Some(Cursor::START);
    while let Some(at) = cursor {
        cursor = asked.worker.store.scan(PAGES, at, SCAN_STEP, &mut |key, info| {
            if !meant(key) || (soft && info.stale) {
                return Keep::Keep;
            }
            // A page with variants is one page, however many they are.
            match key::parse_variant_key(key) {
                None => pages += 1,
                Some(_) => variants += 1,
            }
            if soft { Keep::Stale } else { Keep::Delete }
        });
        tokio::task::yield_now().await;
    }
    if pages > 0 { pages } else { variants }
}

/// Tags are a site's own: who may purge one site must not reach into another.
pub(crate) fn site_tag(site: &str, tag: &[u8]) -> Vec<u8> {
    [site.as_bytes(), b"\0", tag].concat()
}

fn by_tag(asked: &Asked<'_, '_>, tag: &[u8], soft: bool) -> u64 {
    asked.worker.shared.flights.purge_tag(tag, soft);
    asked.worker.store.purge_tag(PAGES, tag, soft, asked.now())
}
