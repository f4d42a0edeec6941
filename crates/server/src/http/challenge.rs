//! Answers to challenges of ACME over HTTP.

use larder_proto::http::{BodyFraming, Method};

use crate::{
    acme::HTTP_PREFIX,
    http::{deliver::Delivered, exchange::Exchange, log::finish, refuse::Answered},
    net::out::Out,
    wire::h1::OwnAnswer,
};

/// Answers a challenge that is open (RFC 8555 section 8.3). Returns whether the connection goes on;
/// None: the request is for no such challenge. Other tokens are the origin's.
pub(crate) fn answer(exchange: &Exchange<'_, '_>, out: &mut Out) -> Option<bool> {
    let request = &exchange.request;
    let token = request.head.target.path_and_query.strip_prefix(HTTP_PREFIX)?;
    if !matches!(request.head.method, Method::Get | Method::Head) {
        return None;
    }
    let authorization = request.pages.shared.acme.authorization(token)?;
    let keep = exchange.keep() && request.head.framing == BodyFraming::None;
    let Answered { version, head_only, .. } = exchange.answered(keep);
    let before = out.pending();
    let answer = OwnAnswer {
        status: 200,
        now: request.now(),
        content_type: "application/octet-stream",
        body: &authorization,
        location: None,
        retry_after: None,
        reference: None,
        hsts: None,
        version,
        keep,
        head_only,
    };
    answer.write(out.scratch());
    let mut delivered = Delivered::own(200, out.pending() - before);
    delivered.keep = keep;
    Some(finish(exchange, &delivered))
}
