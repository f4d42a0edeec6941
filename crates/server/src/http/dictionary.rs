//! Answers that are compressed with a dictionary that the client has (RFC 9842), and the dictionary
//! of a site's documents.

use larder_proto::{
    http::{Codings, Fields, Scheme, dictionary as fields, key},
    page::{Meta, PageView},
};
use larder_store::Entry;

use super::{
    deliver::{self, Delivered},
    exchange::Exchange,
    log::finish,
    refuse::Answered,
    served::Served,
};
use crate::{
    fetch::Plan,
    net::out::Out,
    page::{
        coding::Effort,
        compressor::Goal,
        dictionary::{self, Lookup},
        forms::{self, FormLookup},
        head::field,
        lookup::StoredPage,
    },
    request::route::Route,
    settings::RulePolicy,
    wire::h1::OwnAnswer,
};

/// The form of a page with the dictionary that the client names, with the facts of the page; None:
/// there is none. Asks for a form that is missing, or that is in demand. Only over HTTPS: elsewhere
/// others could read what clients have, and change it (RFC 9842 8).
#[cold]
pub(super) fn form(
    exchange: &Exchange<'_, '_>,
    held: &StoredPage,
    page: &PageView<'_>,
    policy: &RulePolicy,
    accepted: Codings,
) -> Option<(Entry<'static>, Meta)> {
    let request = &exchange.request;
    if !policy.cache.dictionary || request.scheme() != Scheme::Https {
        return None;
    }
    let hash = fields::available(request.head.fields.all("available-dictionary"))?;
    if !is_readable(request.head.fields, page.head) {
        return None;
    }
    let (store, clock) = (request.pages.store, request.pages.clock);
    let now = clock.at(request.since);
    let want = |page: &[u8], goal, effort| {
        request.pages.shared.compressor.want(store, clock, page, goal, effort);
    };
    let target = request.head.target.path_and_query.as_bytes();
    match dictionary::look(store, page.key, &hash, target, now) {
        Lookup::Usable => {}
        Lookup::Forgotten(key) => {
            want(&key, Goal::Learn, Effort::Good);
            return None;
        }
        Lookup::Unusable => return None,
    }
    let codings = (&policy.cache.compress[..], accepted);
    match forms::look_with(store, held, page, codings, &hash, now) {
        FormLookup::Ready(entry, encoding, effort, better) => {
            if let Some(better) = better {
                want(page.key, Goal::With(better, hash), Effort::Good);
            } else if effort == Effort::Good && request.pages.samples_form() {
                want(page.key, Goal::With(encoding, hash), Effort::Best);
            }
            Some((entry, forms::meta(&held.meta)))
        }
        FormLookup::Missing(encoding) => {
            want(page.key, Goal::With(encoding, hash), Effort::Good);
            None
        }
        FormLookup::Plain => None,
    }
}

/// Whether the document that asks may read the answer, as far as its browser tells (RFC 9842 9.3):
/// else the length of the answer would tell it of content that it cannot read.
fn is_readable(fields: Fields<'_>, head: &[u8]) -> bool {
    let value = |name| fields.get(name);
    if value("sec-fetch-site").is_none_or(|site| site == b"same-origin") {
        return true;
    }
    match value("sec-fetch-mode") {
        None | Some(b"navigate" | b"same-origin") => true,
        Some(b"cors") => {
            let allowed = field(head, "access-control-allow-origin");
            let origin = value("origin");
            origin.is_some()
                && allowed.is_some_and(|allowed| allowed == b"*" || origin == Some(allowed))
        }
        Some(_) => false,
    }
}

/// Answers a request for the dictionary of a site's documents that is not there, or is to be made
/// anew. None: the request is for something else; true: the connection goes on.
pub(super) fn answer(
    exchange: &Exchange<'_, '_>,
    out: &mut Out,
    route: &Route<'_>,
    plan: &mut Plan,
) -> Option<bool> {
    if !route.policy.cache.dictionary || route.path != fields::PATH {
        return None;
    }
    let request = &exchange.request;
    let (pages, now) = (request.pages, request.now());
    let held = plan.held.take();
    let served = held.as_ref().map(|held| Served::made_here(&held.meta, now));
    if served.as_ref().is_none_or(|served| !served.is_fresh())
        && let Some(settings) = route.site.dictionary
        && let Some(parts) = key::parse_key(&route.key)
        && parts.scheme == Scheme::Https
    {
        let goal = Goal::Dictionary(settings);
        let own = dictionary::own_key(&parts);
        pages.shared.compressor.want(pages.store, pages.clock, &own, goal, Effort::Good);
    }
    if let (Some(held), Some(served)) = (held, served)
        && let Ok(delivered) = deliver::entry(exchange, out, held, &served, &route.policy)
    {
        return Some(finish(exchange, &delivered));
    }
    Some(absent(exchange, out))
}

/// There is no dictionary yet.
fn absent(exchange: &Exchange<'_, '_>, out: &mut Out) -> bool {
    let keep = exchange.keep();
    let Answered { version, head_only, hsts, .. } = exchange.answered(keep);
    let before = out.pending();
    let answer = OwnAnswer {
        status: 404,
        now: exchange.request.now(),
        content_type: "text/plain",
        body: "",
        location: None,
        retry_after: None,
        reference: None,
        hsts,
        version,
        keep,
        head_only,
    };
    answer.write(out.scratch());
    let mut delivered = Delivered::own(404, out.pending() - before);
    delivered.keep = keep;
    finish(exchange, &delivered)
}
