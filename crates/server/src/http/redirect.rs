//! Answers that name another place: HTTPS instead of plain HTTP, and the redirects of rules.

use std::sync::atomic::Ordering;

use larder_proto::http::{BodyFraming, Method, key::Scheme};

use crate::{
    http::{deliver::Delivered, exchange::Exchange, log::finish, refuse::Answered},
    net::out::Out,
    request::route::Route,
    wire::h1::OwnAnswer,
};

/// Sends a request that came by plain HTTP to HTTPS where the settings say so (308, RFC 9110
/// section 15.4.9). Purges are not sent: they come from programs of this machine. Returns whether
/// the connection goes on; None: the request is not sent elsewhere.
pub(crate) fn to_https(exchange: &Exchange<'_, '_>, out: &mut Out) -> Option<bool> {
    let request = &exchange.request;
    request.config.settings.https.as_ref().filter(|https| https.redirect)?;
    // `*` and the target of a CONNECT are no places.
    let is_place = request.head.target.path_and_query.starts_with('/');
    if request.scheme() == Scheme::Https || request.head.method == Method::Purge || !is_place {
        return None;
    }
    let host = request.head.host.as_ref()?.host;
    // A host of no site is refused, not sent elsewhere.
    request.config.site_for(host)?;
    let port = request.pages.shared.https_port.load(Ordering::Relaxed);
    if port == 0 {
        return None;
    }
    let port = if port == 443 { String::new() } else { format!(":{port}") };
    let location = format!("https://{host}{port}{}", request.head.target.path_and_query);
    Some(answer(exchange, out, 308, &location))
}

/// Sends a request to the place that its rule names; a purge means the page that is stored here.
/// None: its rules name none.
pub(crate) fn by_rule(
    exchange: &Exchange<'_, '_>,
    out: &mut Out,
    route: &Route<'_>,
) -> Option<bool> {
    let redirect = route.policy.handling.as_ref()?.redirect.as_ref()?;
    let head = &exchange.request.head;
    let target = head.target.path_and_query;
    if head.method == Method::Purge || !target.starts_with('/') {
        return None;
    }
    let host = head.host.as_ref().map_or("", |authority| authority.host);
    Some(answer(exchange, out, redirect.status, &redirect.location(host, target)))
}

/// Whether the connection goes on: a body that follows is not read.
fn answer(exchange: &Exchange<'_, '_>, out: &mut Out, status: u16, location: &str) -> bool {
    let keep = exchange.keep() && exchange.request.head.framing == BodyFraming::None;
    let Answered { version, head_only, hsts, .. } = exchange.answered(keep);
    let before = out.pending();
    let answer = OwnAnswer {
        status,
        now: exchange.request.now(),
        content_type: "text/plain",
        body: "",
        location: Some(location),
        retry_after: None,
        reference: None,
        hsts,
        version,
        keep,
        head_only,
    };
    answer.write(out.scratch());
    let mut delivered = Delivered::own(status, out.pending() - before);
    delivered.keep = keep;
    finish(exchange, &delivered)
}
