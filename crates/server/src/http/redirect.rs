//! From plain HTTP to HTTPS.

use larder_proto::http::{BodyFraming, Method, key::Scheme};

use crate::{
    http::{deliver::Delivered, exchange::Exchange, log::finish, refuse::Answered},
    net::out::Out,
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
    let port = *request.pages.shared.https_port.get()?;
    let port = if port == 443 { String::new() } else { format!(":{port}") };
    let location = format!("https://{host}{port}{}", request.head.target.path_and_query);
    // A body that follows is not read.
    let keep = exchange.keep() && request.head.framing == BodyFraming::None;
    let Answered { version, head_only, .. } = exchange.answered(keep);
    let before = out.pending();
    let answer = OwnAnswer {
        status: 308,
        now: request.now(),
        content_type: "text/plain",
        body: "",
        location: Some(&location),
        // Never over plain HTTP (RFC 6797 section 7.2).
        hsts: None,
        version,
        keep,
        head_only,
    };
    answer.write(out.scratch());
    let mut delivered = Delivered::own(308, out.pending() - before);
    delivered.keep = keep;
    Some(finish(exchange, &delivered))
}
