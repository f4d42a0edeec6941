//! The request to an origin: the head that [`forward`] makes of the client's, and this program's
//! own fields.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue, header};
pub(crate) use larder_proto::rules::forward::Mode;
use larder_proto::{
    http::{Method, Scheme, Version, cookie::Cookie},
    rules::{
        Esi, Policy,
        forward::{self, Received},
    },
};

use crate::{
    fetch::uncoded,
    origin::{self, RequestBody},
    page::head,
    request::{Request, route::Route},
};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The request to send to the origin.
pub(crate) fn request(
    request: &Request<'_, '_>,
    route: &Route<'_>,
    mode: &Mode<'_>,
    body: RequestBody,
    upgrade: bool,
) -> origin::Request {
    let method = request.head.method.as_str().as_bytes();
    let (target, visited) = match &route.policy.handling {
        Some(handling) if handling.confines() => {
            let path = route.path.split('?').next().unwrap_or_default();
            (handling.target(&route.path).into_owned(), Some(path.to_owned()))
        }
        _ => (route.path.to_string(), None),
    };
    origin::Request {
        method: http::Method::from_bytes(method).unwrap_or(http::Method::GET),
        target,
        visited,
        headers: headers(request, route, mode),
        body,
        upgrade,
        asker: origin::Asker {
            client: Some(request.client()),
            hidden: !route.policy.forward_client && !matches!(mode, Mode::Pass),
            secure: request.scheme() == Scheme::Https,
            others: None,
        },
    }
}

/// An answer that is probably not kept is not compressed here: the origin may code it for the
/// client.
pub(super) fn accept_codings(out: &mut origin::Request, request: &Request<'_, '_>) {
    let codings = uncoded::accepted(request.head.fields);
    let is_asked_plain = |value: &&mut HeaderValue| value.as_bytes() == b"identity";
    if let Some(value) = out.headers.get_mut(header::ACCEPT_ENCODING).filter(is_asked_plain)
        && let Ok(accepted) = HeaderValue::try_from(codings.field())
    {
        *value = accepted;
    }
}

/// The fields to send to the origin.
fn headers(request: &Request<'_, '_>, route: &Route<'_>, mode: &Mode<'_>) -> HeaderMap {
    let (host, chain) = (request.host(), request.chain());
    let received = Received {
        fields: request.head.fields,
        scheme: request.scheme(),
        host: host.as_deref(),
        forwarded_host: request.forwarded_host(),
        trusted: request.trusted(),
        chain: &chain,
        traced: request.trace.is_some(),
        certificate: request.certificate(),
    };
    let ignored = |cookie: &Cookie<'_>| route.policy.ignores_cookie(cookie);
    let lines = forward::head(&received, &route.policy.forwarded(&ignored), mode);
    let mut out = HeaderMap::with_capacity(lines.len() + 8);
    for (name, value) in lines {
        let name = match name {
            Cow::Borrowed(name) => HeaderName::from_bytes(name.as_bytes()),
            Cow::Owned(name) => HeaderName::try_from(name),
        };
        if let Ok(name) = name {
            append(&mut out, name, &value);
        }
    }
    if let (Mode::Pass, Some(protocol)) = (mode, request.upgrade()) {
        append(&mut out, header::UPGRADE, protocol);
    }
    ours(&mut out, request, &route.policy.cache, mode);
    let edits = route.policy.handling.as_ref().and_then(|one| one.request_fields.as_ref());
    edits.into_iter().flat_map(|edits| edits.iter()).for_each(|edit| edit.apply(&mut out));
    out
}

/// Via (RFC 9110 section 7.6.3), CDN-Loop (RFC 8586), Surrogate-Capability, the trace; and one hop
/// less. The proxies that the client came by are in no key: they are named past the cache alone, as
/// is the version that the client speaks. CDN-Loop is kept, so that loops end.
fn ours(out: &mut HeaderMap, request: &Request<'_, '_>, policy: &Policy, mode: &Mode<'_>) {
    if let Some(name) = &request.config.settings.http.via {
        let via = match mode {
            Mode::Pass => head::via(request.head.fields.all("via"), request.head.version, name),
            _ => head::via(std::iter::empty(), Version::Http11, name),
        };
        append(out, header::VIA, &via);
    }
    append(out, HeaderName::from_static("cdn-loop"), request.pages.shared.loop_id.as_bytes());
    let capability: &[u8] = match policy.esi {
        Esi::Never => b"larder=\"Surrogate/1.0\"",
        Esi::Surrogate | Esi::Always => b"larder=\"Surrogate/1.0 ESI/1.0\"",
    };
    append(out, HeaderName::from_static("surrogate-capability"), capability);
    if let Some(traced) = &request.trace {
        traced.fetched.set((request.pages.clock.micros(), 0));
        append(out, TRACEPARENT, &traced.for_origin().to_value());
    }
    if request.head.method == Method::Options
        && let Some(left) = request.max_forwards()
    {
        out.remove(header::MAX_FORWARDS);
        append(out, header::MAX_FORWARDS, (left - 1).to_string().as_bytes());
    }
}

/// Adds a line. Values come from a parsed head, which has no byte a field value may not have.
fn append(out: &mut HeaderMap, name: HeaderName, value: &[u8]) {
    if let Ok(value) = HeaderValue::from_bytes(value) {
        out.append(name, value);
    }
}
