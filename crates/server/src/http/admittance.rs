//! Requests that are not let in: of clients without the certificate that their site asks for, and
//! of clients that send too many.

use larder_proto::http::Method;

use crate::{
    http::{exchange::Exchange, refuse},
    net::{out::Out, tls::ClientCertificate},
    request::{Request, limits::network, route::Refusal},
    settings::Rate,
};

/// The connection was not asked for a certificate of this site: the client has to open another
/// one (RFC 9110 section 15.5.20).
const MISDIRECTED: Refusal =
    Refusal(421, "this connection was not asked for the certificate that this site wants");
const NO_TLS: Refusal = Refusal(403, "this site wants a certificate of its clients: use https");
const EXPIRED: Refusal = Refusal(403, "the certificate of this client has expired");

/// Refuses a request whose client has not shown the certificate that its site requires, or was not
/// asked for one. Returns whether the connection goes on; None: the request is not refused. Purges
/// have permissions of their own.
pub(crate) fn refuse(exchange: &Exchange<'_, '_>, out: &mut Out) -> Option<bool> {
    let refusal = fault(&exchange.request)?;
    // Another connection may be asked.
    Some(refuse::refusal_keeping(exchange, out, &refusal, false))
}

/// Refuses a request of a client that has sent too many (429, RFC 6585 section 4). Returns whether
/// the connection goes on; None: the request is let in.
#[cold]
pub(crate) fn limit(exchange: &Exchange<'_, '_>, out: &mut Out, rate: Rate) -> Option<bool> {
    let request = &exchange.request;
    let limits = &request.config.settings.http.limits;
    let client = network(request.client(), limits.client_prefix_v4, limits.client_prefix_v6);
    let (now, shared) = (request.pages.clock.at(request.since), &request.pages.shared);
    let wait = shared.limits.take(client, rate, now, shared.nonce()).err()?;
    request.pages.counters.limited.one();
    Some(refuse::limited(exchange, out, wait.div_ceil(1000).max(1)))
}

/// Why a request is not let in to its site, if it is not.
pub(super) fn fault(request: &Request<'_, '_>) -> Option<Refusal> {
    // A request of HTTP/1.0 may name none: it is for the site without `hosts`.
    let host = request.head.host.as_ref().map_or("", |host| host.host);
    let wanted = request.config.site_for(host)?.0.client_auth.as_ref()?;
    if request.head.method == Method::Purge {
        return None;
    }
    let Some(client) = request.peer.client.as_ref().filter(|client| client.auth.id == wanted.id)
    else {
        // Without TLS nobody can be asked.
        return match (request.peer.tls, wanted.required) {
            (true, _) => Some(MISDIRECTED),
            (false, true) => Some(NO_TLS),
            (false, false) => None,
        };
    };
    let now = (request.now() / 1000).cast_signed();
    let expired = |certificate: &ClientCertificate| certificate.not_after < now;
    client.certificate.as_ref().is_some_and(expired).then_some(EXPIRED)
}
