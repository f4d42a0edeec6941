//! Requests to sites that ask their clients for certificates.

use larder_proto::http::Method;

use crate::{
    http::{exchange::Exchange, refuse},
    net::{out::Out, tls::ClientCertificate},
    request::{Request, route::Refusal},
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

fn fault(request: &Request<'_, '_>) -> Option<Refusal> {
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
