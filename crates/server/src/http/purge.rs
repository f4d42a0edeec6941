//! The PURGE method, and BAN for sites where somebody may purge.
//!
//! | request | purges |
//! |---|---|
//! | `PURGE /path` | the page of this URL, all its variants |
//! | `PURGE /path` with `Larder-Purge: prefix` | every page of this host whose path and query start so |
//! | `PURGE /` with `Larder-Purge: tag` and `Surrogate-Key: a b` | every page of the site with one of these tags |
//!
//! The requests that the plugins of sites send: `http::plugins`.
//!
//! `Larder-Soft-Purge: 1` makes it soft. `[[site]] purge` says who may purge; by default nobody.

use larder_proto::http::key;

use crate::{
    access_log::ResultCode,
    http::{
        deliver::Delivered,
        exchange::Exchange,
        file,
        log::finish,
        plugins::{self, Wanted},
        refuse::Answered,
    },
    net::out::Out,
    page::ban::Ban,
    remote,
    request::{Request, route::Route},
    wire::h1::OwnAnswer,
};

enum What {
    Url,
    Prefix,
    Tags(Vec<Vec<u8>>),
    /// All of this host.
    Host,
    /// The pages that an expression means.
    Ban(String, Ban),
}

impl What {
    /// As the history has it.
    fn kind(&self) -> &'static str {
        match self {
            What::Url => "url",
            What::Prefix => "prefix",
            What::Tags(_) => "tags",
            What::Host => "prefix",
            What::Ban(..) => "ban",
        }
    }
}

/// Whether a peer tells us of purges: that is of no site.
pub(crate) fn is_journal(request: &Request<'_, '_>) -> bool {
    request.head.method == larder_proto::http::Method::Purge
        && request.head.fields.get("larder-purge").is_some_and(|value| value == b"journal")
        && request.pages.remote.is_some()
}

/// Takes what a peer tells.
pub(crate) fn hear(out: &mut Out, exchange: &Exchange<'_, '_>) -> bool {
    let status = exchange.request.pages.shared.remote.as_ref().map_or(403, |shared| {
        let fields = &exchange.request.head.fields;
        let journal = fields.get("larder-journal");
        remote::peers::hear(
            shared,
            exchange.request.head.known.authorization(),
            journal,
            exchange.request.now(),
        )
    });
    let (result, body) = match status {
        204 => (ResultCode::TcpPurge, ""),
        400 => (ResultCode::TcpPurge, "this is no journal of purges"),
        _ => (ResultCode::TcpDenied, "purges are not taken from here"),
    };
    answer(out, exchange, status, result, body)
}

/// Answers a PURGE request.
pub(crate) async fn serve(out: &mut Out, exchange: &Exchange<'_, '_>, route: &Route<'_>) -> bool {
    // Of a request through a trusted proxy, the client counts: else the proxy would let everybody
    // in.
    let allowed = route
        .site
        .purge
        .allows(exchange.request.client(), exchange.request.head.known.authorization());
    if !allowed {
        return answer(
            out,
            exchange,
            403,
            ResultCode::TcpDenied,
            "purging is not allowed from here: name this address in the site's purge.from, or \
             run `larder purge` on the machine of the cache",
        );
    }
    let soft =
        exchange.request.head.fields.get("larder-soft-purge").is_some_and(|value| value != b"0");
    let Some(what) = what(exchange) else {
        let why = "Larder-Purge is url, prefix or tag, and tag needs a Surrogate-Key; an \
                   expression has to be valid";
        return answer(out, exchange, 400, ResultCode::TcpPurge, why);
    };
    let Some(_change) = exchange.request.pages.shared.changes.begin() else {
        let why = "another process takes over: ask again, on a new connection";
        return answer(out, exchange, 503, ResultCode::TcpPurge, why);
    };
    let purger = exchange.request.pages.purger(soft);
    let purged = match &what {
        What::Url => {
            let stored = purger.page_everywhere(&exchange.request.page_keys(&route.path)).await;
            // A file is kept beside the store, and looked at again after every purge.
            u64::from(stored || file::is_there(exchange, route))
        }
        What::Ban(text, ban) => purger.ban(text, ban).await,
        What::Prefix | What::Host => match key::parse_key(&route.key) {
            Some(mut wanted) => {
                // All pages below, whatever else is in their keys.
                wanted.path_and_query = match what {
                    What::Host => b"/",
                    _ => key::split_behind(wanted.path_and_query).0,
                };
                purger.prefix(wanted).await
            }
            None => 0,
        },
        What::Tags(tags) => purger.tags(&route.site.name, tags).await,
    };
    let settled = purger.settled().await;
    note(exchange, &what, soft, purged);
    let status = if purged == 0 { 404 } else { 200 };
    let journal = settled.journal.map_or_else(String::new, |journal| {
        let (written, of) = (journal.written, journal.of);
        format!(",\"journal\":{{\"written\":{written},\"of\":{of}}}")
    });
    let disk = if settled.disk { "" } else { ",\"disk\":false" };
    let body = format!("{{\"purged\":{purged}{journal}{disk}}}");
    answer(out, exchange, status, ResultCode::TcpPurge, &body)
}

fn what(exchange: &Exchange<'_, '_>) -> Option<What> {
    match exchange.request.head.fields.get("larder-purge") {
        None => of_plugin(exchange),
        Some(value) if value.eq_ignore_ascii_case(b"url") => Some(What::Url),
        Some(value) if value.eq_ignore_ascii_case(b"prefix") => Some(What::Prefix),
        Some(value) if value.eq_ignore_ascii_case(b"tag") => {
            let tags: Vec<Vec<u8>> = exchange
                .request
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

/// The pages that a plugin means; None: its expression is not valid.
fn of_plugin(exchange: &Exchange<'_, '_>) -> Option<What> {
    let head = exchange.request.head;
    let host = head.host.as_ref().map_or("", |host| host.host).to_ascii_lowercase();
    let ban = |field: &str, pattern: &str| {
        let host = plugins::quoted(host.strip_suffix('.').unwrap_or(&host));
        let text = format!("host == {host} && {field} ~ {}", plugins::quoted(pattern));
        let ban = Ban::parse(&text).ok()?;
        Some(What::Ban(text, ban))
    };
    match plugins::wanted(head.fields, head.target.path_and_query) {
        None => Some(What::Url),
        Some(Wanted::All) => Some(What::Host),
        Some(Wanted::Tags(tags)) => Some(What::Tags(tags)),
        Some(Wanted::TagPattern(pattern)) => ban("tag", &pattern),
        Some(Wanted::Pattern(pattern)) => ban("url", &format!("^(?:{pattern})")),
    }
}

fn answer(
    out: &mut Out,
    exchange: &Exchange<'_, '_>,
    status: u16,
    result: ResultCode,
    body: &str,
) -> bool {
    let keep =
        exchange.keep() && exchange.request.head.framing == larder_proto::http::BodyFraming::None;
    let content_type = if body.starts_with('{') { "application/json" } else { "text/plain" };
    let before = out.pending();
    let Answered { version, head_only, hsts, .. } = exchange.answered(keep);
    let now = exchange.request.now();
    let body = format!("{body}\n");
    let answer = OwnAnswer {
        status,
        now,
        content_type,
        body: &body,
        location: None,
        retry_after: None,
        reference: None,
        hsts,
        version,
        keep,
        head_only,
    };
    answer.write(out.scratch());
    let mut delivered = Delivered::own(status, out.pending() - before);
    (delivered.result, delivered.keep) = (result, keep);
    delivered.content_type = Some(content_type.as_bytes().to_vec());
    finish(exchange, &delivered)
}

/// Writes the purge into the history.
fn note(exchange: &Exchange<'_, '_>, what: &What, soft: bool, purged: u64) {
    let target = match what {
        What::Tags(tags) => String::from_utf8_lossy(&tags.join(&b" "[..])).into_owned(),
        What::Ban(text, _) => text.clone(),
        What::Host => format!("http://{}/", exchange.request.host().unwrap_or_default()),
        What::Url | What::Prefix => format!(
            "http://{}{}",
            exchange.request.host().unwrap_or_default(),
            exchange.request.head.target.path_and_query
        ),
    };
    let by = format!("{} PURGE", exchange.request.client());
    exchange.request.pages.shared.purges.note(
        exchange.request.now(),
        what.kind(),
        &target,
        soft,
        purged,
        by,
    );
}
