//! Errors and refusals, as plain small pages.

use larder_metrics::Outcome;
use larder_proto::http::{BodyFraming, Method, Version};

use crate::{
    access_log::ResultCode,
    clock::Ms,
    http::{deliver::Delivered, exchange::Exchange, log::finish},
    net::out::Out,
    page::{flight::Failure, head::phrase},
    request::route::Refusal,
    wire::h1::OwnAnswer,
};

/// A request as far as the answer to it depends on it.
#[derive(Clone, Copy)]
pub(crate) struct Answered<'a> {
    pub(crate) version: Version,
    /// Another request may follow.
    pub(crate) keep: bool,
    /// It was a HEAD.
    pub(crate) head_only: bool,
    /// The value of `Strict-Transport-Security` in the answer.
    pub(crate) hsts: Option<&'a str>,
    /// Seconds after which the client may ask again; None: the usual ones of the status.
    pub(crate) retry_after: Option<u64>,
}

impl Answered<'_> {
    /// A request that was not understood, or came too late: the connection ends.
    pub(crate) const UNREAD: Self = Self {
        version: Version::Http11,
        keep: false,
        head_only: false,
        hsts: None,
        retry_after: None,
    };
}

/// Appends a whole answer made at `now`. `why` is our own text: plain ASCII, nothing a client sent.
pub(crate) fn compose(out: &mut Vec<u8>, now: Ms, status: u16, why: &str, to: Answered<'_>) {
    let phrase = phrase(status);
    let body = format!(
        "<!doctype html><meta charset=utf-8><title>{status} {phrase}</title><h1>{status} \
         {phrase}</h1><p>{why}.</p>\n"
    );
    let Answered { version, keep, head_only, hsts, retry_after } = to;
    let answer = OwnAnswer {
        status,
        now,
        content_type: "text/html; charset=utf-8",
        body: &body,
        location: None,
        retry_after,
        hsts,
        version,
        keep,
        head_only,
    };
    answer.write(out);
}

/// The page that says that the origin failed.
pub(super) fn failure(exchange: &Exchange<'_, '_>, out: &mut Out, failure: &Failure) -> bool {
    exchange.request.stats.miss.set(Some(Outcome::Error));
    let keep = exchange.keep();
    let before = out.pending();
    compose(
        out.scratch(),
        exchange.request.now(),
        failure.status,
        failure.why,
        exchange.answered(keep),
    );
    let mut delivered = Delivered::own(failure.status, out.pending() - before);
    (delivered.result, delivered.keep) = (ResultCode::TcpMiss, keep);
    finish(exchange, &delivered)
}

/// Says no. A body that follows is not read: the connection ends then.
pub(super) fn refusal(exchange: &Exchange<'_, '_>, out: &mut Out, refusal: &Refusal) -> bool {
    // The bytes behind a CONNECT are not HTTP.
    let keep = exchange.keep()
        && exchange.request.head.framing == BodyFraming::None
        && exchange.request.head.method != Method::Connect;
    refusal_keeping(exchange, out, refusal, keep)
}

/// Says that the client has sent too many requests, and when the next one may come.
pub(super) fn limited(exchange: &Exchange<'_, '_>, out: &mut Out, seconds: u64) -> bool {
    let keep = exchange.keep() && exchange.request.head.framing == BodyFraming::None;
    let before = out.pending();
    let to = Answered { retry_after: Some(seconds), ..exchange.answered(keep) };
    let why = "this address has sent too many requests";
    compose(out.scratch(), exchange.request.now(), 429, why, to);
    let mut delivered = Delivered::own(429, out.pending() - before);
    delivered.keep = keep;
    finish(exchange, &delivered)
}

/// The same, and whether another request may follow on the connection.
pub(super) fn refusal_keeping(
    exchange: &Exchange<'_, '_>,
    out: &mut Out,
    refusal: &Refusal,
    keep: bool,
) -> bool {
    let before = out.pending();
    compose(out.scratch(), exchange.request.now(), refusal.0, refusal.1, exchange.answered(keep));
    let mut delivered = Delivered::own(refusal.0, out.pending() - before);
    delivered.keep = keep;
    finish(exchange, &delivered)
}
