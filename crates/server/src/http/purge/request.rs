//! The PURGE method.
//!
//! | request | purges |
//! |---|---|
//! | `PURGE /path` | the page of this URL, all its variants |
//! | `PURGE /path` with `Larder-Purge: prefix` | every page of this host whose path and query start so |
//! | `PURGE /` with `Larder-Purge: tag` and `Surrogate-Key: a b` | every page of the site with one of these tags |
//!
//! `Larder-Soft-Purge: 1` makes it soft. Who may is in `[[site]] purge`; by default nobody.

use larder_proto::http::{date, key, query};

use super::{Done, Purger, keys};
use crate::{
    access_log::ResultCode,
    http::{asked::Asked, conn::Conn, deliver::Delivered, flow::Route, log::finish, refuse, socket::Ended},
    remote,
    settings::RequestView as RuleView,
};

enum What {
    Url,
    Prefix,
    Tags(Vec<Vec<u8>>),
}

impl What {
    /// As the history has it.
    fn kind(&self) -> &'static str {
        match self {
            What::Url => "url",
            What::Prefix => "prefix",
            What::Tags(_) => "tags",
        }
    }
}

/// Whether a peer tells us of purges: that is of no site.
pub(crate) fn is_journal(asked: &Asked<'_, '_>) -> bool {
    asked.head.method == larder_proto::http::Method::Purge
        && asked.head.fields.get("larder-purge").is_some_and(|value| value == b"journal")
        && asked.worker.remote.is_some()
}

/// Takes what a peer tells.
pub(crate) fn hear(conn: &mut Conn, asked: &Asked<'_, '_>) -> bool {
    let status = asked.worker.shared.remote.as_ref().map_or(403, |shared| {
        let fields = &asked.head.fields;
        let journal = fields.get("larder-journal");
        remote::peers::hear(shared, asked.head.known.authorization(), journal, asked.now())
    });
    let (result, body) = match status {
        204 => (ResultCode::TcpPurge, ""),
        400 => (ResultCode::TcpPurge, "this is no journal of purges"),
        _ => (ResultCode::TcpDenied, "purges are not taken from here"),
    };
    answer(conn, asked, status, result, body)
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
    let purger = purger(asked, soft);
    let purged = match &what {
        What::Url => u64::from(purger.page_everywhere(&url_keys(asked, &route.path)).await),
        What::Prefix => match key::parse_key(&route.key) {
            Some(wanted) => purger.prefix(wanted).await,
            None => 0,
        },
        What::Tags(tags) => purger.tags(&route.site.name, tags),
    };
    let journal = purger.settled().await;
    note(asked, &what, soft, purged);
    let status = if purged == 0 { 404 } else { 200 };
    let body = match journal {
        None => format!("{{\"purged\":{purged}}}"),
        Some(journal) => {
            let (written, of) = (journal.written, journal.of);
            format!("{{\"purged\":{purged},\"journal\":{{\"written\":{written},\"of\":{of}}}}}")
        }
    };
    Ok(answer(conn, asked, status, ResultCode::TcpPurge, &body))
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
    // RFC 9110 section 15.3.5: a 204 has no content, and no field about it.
    let content = match status {
        204 => format!("{connection}\r\n"),
        _ => format!(
            "Content-Type: {kind}\r\nCache-Control: no-store\r\nContent-Length: {}\r\n{connection}\r\n{body}\n",
            body.len() + 1
        ),
    };
    let head = format!(
        "HTTP/1.1 {status} {}\r\nDate: {date}\r\nServer: larder\r\n{content}",
        refuse::phrase(status)
    );
    out.scratch().extend_from_slice(head.as_bytes());
    let mut delivered = Delivered::own(status, out.pending() - before);
    (delivered.result, delivered.keep) = (result, keep);
    delivered.content_type = Some(kind.as_bytes().to_vec());
    finish(asked, &delivered)
}

fn purger<'a>(asked: &'a Asked<'_, '_>, soft: bool) -> Purger<'a> {
    let worker = asked.worker;
    Purger {
        store: worker.store,
        flights: &worker.shared.flights,
        now: asked.now(),
        soft,
        fleet: worker.shared.remote.as_deref(),
    }
}

/// The keys of a page of the host asked.
fn url_keys(asked: &Asked<'_, '_>, path: &str) -> Vec<Vec<u8>> {
    let Some(host) = &asked.head.host else { return Vec::new() };
    let mut behind = Vec::new();
    asked.write_forwarded_host(&mut behind);
    keys(host.host, host.port, path, &behind)
}

/// Writes the purge into the history.
fn note(asked: &Asked<'_, '_>, what: &What, soft: bool, purged: u64) {
    let target = match what {
        What::Tags(tags) => String::from_utf8_lossy(&tags.join(&b" "[..])).into_owned(),
        _ => format!("http://{}{}", asked.host().unwrap_or_default(), asked.head.target.path_and_query),
    };
    let by = format!("{} PURGE", asked.client());
    asked.worker.shared.purges.note(Done::new(asked.now(), what.kind(), &target, soft, purged, by));
}

/// A page that an unsafe request changed (RFC 9111 section 4.4), under the key a GET would look under.
pub(crate) fn invalidate(asked: &Asked<'_, '_>, route: &Route<'_>, path: &str) {
    let plain = path.split_once('?').map_or(path, |(plain, _)| plain);
    let any = |_: &str, _: &mut dyn FnMut(&[u8]) -> bool| false;
    let policy = route.site.policy(&RuleView { method: "GET", path: plain, any: &any });
    let path = query::normalise_query(path, &policy.drop_query, policy.sort_query);
    purger(asked, false).page(&url_keys(asked, &path));
}
