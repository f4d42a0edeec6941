//! Errors and refusals: the pages that Larder makes itself.

use larder_metrics::{AnsweredError, Outcome};
use larder_proto::http::{BodyFraming, Method, Version};

use crate::{
    access_log::ResultCode,
    clock::Ms,
    http::{
        deliver::Delivered,
        exchange::Exchange,
        log::{finish, url},
    },
    net::out::Out,
    page::flight::Failure,
    request::{errors::reference, route::Refusal},
    settings::{ErrorPages, Fault},
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

/// Appends a whole answer made at `now` to a request that reached no site. `why` is our own text:
/// plain ASCII, nothing a client sent.
pub(crate) fn compose(out: &mut Vec<u8>, now: Ms, status: u16, why: &str, to: Answered<'_>) {
    write(out, now, &ErrorPages::default(), Fault { status, why, reference: None }, to);
}

fn write(out: &mut Vec<u8>, now: Ms, pages: &ErrorPages, fault: Fault<'_>, to: Answered<'_>) {
    let (content_type, body) = pages.page(&fault);
    let Answered { version, keep, head_only, hsts, retry_after } = to;
    let answer = OwnAnswer {
        status: fault.status,
        now,
        content_type: &content_type,
        body: &body,
        location: None,
        retry_after,
        reference: fault.reference,
        hsts,
        version,
        keep,
        head_only,
    };
    answer.write(out);
}

/// Appends the answer to a request: the site's page for the status, or the default one. Errors get
/// a reference, by which the request is found again.
fn answer(
    exchange: &Exchange<'_, '_>,
    out: &mut Out,
    told: (u16, &'static str),
    detail: Option<&str>,
    to: Answered<'_>,
) {
    let (request, (status, why)) = (&exchange.request, told);
    let reference = (status >= 400).then(|| note(exchange, status, why, detail));
    let host = request.head.host.as_ref().map_or("", |authority| authority.host);
    let pages = match request.config.site_for(host) {
        Some((site, _)) => &site.error_pages,
        None => &request.config.settings.http.error_pages,
    };
    let fault = Fault { status, why, reference: reference.as_deref() };
    write(out.scratch(), request.now(), pages, fault, to);
}

/// Remembers an error; returns its reference.
fn note(
    exchange: &Exchange<'_, '_>,
    status: u16,
    why: &'static str,
    detail: Option<&str>,
) -> String {
    let request = &exchange.request;
    let reference = reference(request.pages.nonce());
    let host = request.head.host.as_ref().map_or("", |authority| authority.host);
    let site = request.config.site_for(host).map_or("", |(site, _)| &site.name);
    let error = AnsweredError {
        reference: reference.clone(),
        time_ms: request.now(),
        elapsed_us: request.pages.clock.micros().saturating_sub(request.since),
        status,
        why: why.into(),
        detail: detail.map(str::to_owned),
        method: request.head.method.as_str().to_owned(),
        url: url(exchange),
        site: site.to_owned(),
        client: request.client().to_string(),
        http_version: request.head.version.as_str().to_owned(),
    };
    if let Some(line) = request.pages.shared.errors.tell(&error) {
        eprintln!("{line}");
    }
    request.pages.shared.errors.note(error);
    let _ = request.stats.reference.set(reference.as_str().into());
    reference
}

/// The page that says that the origin failed.
pub(super) fn failure(exchange: &Exchange<'_, '_>, out: &mut Out, failure: &Failure) -> bool {
    exchange.request.stats.miss.set(Some(Outcome::Error));
    let keep = exchange.keep();
    let before = out.pending();
    let told = (failure.status, failure.why);
    answer(exchange, out, told, failure.detail.as_deref(), exchange.answered(keep));
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
    answer(exchange, out, (429, "this address has sent too many requests"), None, to);
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
    answer(exchange, out, (refusal.0, refusal.1), None, exchange.answered(keep));
    let mut delivered = Delivered::own(refusal.0, out.pending() - before);
    delivered.keep = keep;
    finish(exchange, &delivered)
}
