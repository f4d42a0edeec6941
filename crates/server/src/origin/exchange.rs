//! One request written, one response head read, on one connection.

use std::{rc::Rc, sync::atomic::Ordering::Relaxed};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use hyper::body::{Body as _, Incoming};
use hyper::ext::ReasonPhrase;
use larder_proto::http::{Answered, Turn, framing::content_length};
use tokio::time::Instant;

use super::{
    Body, OriginError, Response,
    body::Framing,
    connect::Connection,
    outgoing::Asked,
    patience::patiently,
    pool::Lease,
    upload::{Progress, Upload},
};

/// A request that got no response.
pub(super) struct Failure {
    pub(super) error: OriginError,
    /// The request itself, when nothing of it has been written.
    pub(super) unsent: Option<http::Request<Upload>>,
    /// The connection ended before any byte of an answer.
    pub(super) connection_was_dead: bool,
}

/// Sends `request` and waits for the final response head.
pub(super) async fn exchange(
    lease: &mut Lease<Connection>,
    request: http::Request<Upload>,
    progress: &Progress,
    total: Option<Instant>,
) -> Result<http::Response<Incoming>, Failure> {
    let first_byte = lease.pool().settings.first_byte_timeout;
    let Some(connection) = lease.connection() else {
        return Err(Failure {
            error: OriginError::Truncated,
            unsent: Some(request),
            connection_was_dead: true,
        });
    };
    let received = connection.socket.received();
    connection.socket.ask();
    let answer = connection.sender.try_send_request(request);
    match patiently(answer, progress, first_byte, total).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(mut failed)) => Err(Failure {
            unsent: failed.take_message(),
            connection_was_dead: connection.socket.received() == received && !progress.aborted(),
            error: blame(failed.error(), progress, connection.socket.turn()),
        }),
        Err(late) => {
            let error = late.error(OriginError::FirstByteTimeout);
            Err(Failure { error, unsent: None, connection_was_dead: false })
        }
    }
}

fn blame(error: &hyper::Error, progress: &Progress, turn: Turn) -> OriginError {
    if progress.aborted() {
        OriginError::BodyAborted
    } else if turn == Turn::Spoilt {
        OriginError::Malformed("bytes before the request".to_owned())
    } else if error.is_parse() {
        OriginError::Malformed(error.to_string())
    } else {
        OriginError::Truncated
    }
}

/// Turns hyper's response into ours, and gives the connection to its body (or back, when there is
/// none).
pub(super) fn respond(
    asked: &Asked,
    mut lease: Lease<Connection>,
    mut response: http::Response<Incoming>,
    progress: Rc<Progress>,
    total: Option<Instant>,
) -> Result<Response, OriginError> {
    let switching = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    if switching && (asked.upgrade.is_none() || !same_protocol(asked, &response)) {
        return Err(OriginError::Malformed("101 to a protocol that was not asked for".to_owned()));
    }
    let upgraded = switching.then(|| hyper::upgrade::on(&mut response));
    let (mut head, incoming) = response.into_parts();
    let framing = framing(&asked.method, head.status, &head.headers, incoming.size_hint().exact())?;
    lease.keep &= answered(asked, head.status, &head.headers, framing).is_over();
    repair(&mut head.headers, framing);
    let peer = lease.connection().map(|connection| connection.peer);
    let reused = lease.reused;
    let body = if upgraded.is_some() {
        if let Some(connection) = lease.into_connection() {
            connection.detach();
        }
        Body::empty()
    } else {
        Body::new(incoming, framing, lease, progress, total)
    };
    Ok(Response {
        status: head.status.as_u16(),
        reason: head
            .extensions
            .get::<ReasonPhrase>()
            .map(|reason| Bytes::copy_from_slice(reason.as_bytes())),
        headers: head.headers,
        body,
        http10: head.version == Version::HTTP_10,
        upgraded,
        peer,
        reused,
    })
}

/// A 101 names the protocol that it switches to, one of those offered (RFC 9110 section 15.2.2).
fn same_protocol(asked: &Asked, response: &http::Response<Incoming>) -> bool {
    let mut named = response.headers().get_all(header::UPGRADE).iter();
    let named = (named.next(), named.next());
    let same = |a: &HeaderValue, b: &HeaderValue| a.as_bytes().eq_ignore_ascii_case(b.as_bytes());
    matches!((named, &asked.upgrade), ((Some(to), None), Some(from)) if same(to, from))
}

/// RFC 9112 section 6.3, for responses; hyper has refused what is not valid and read the length.
fn framing(
    method: &Method,
    status: StatusCode,
    headers: &HeaderMap,
    exact: Option<u64>,
) -> Result<Framing, OriginError> {
    let bodiless = *method == Method::HEAD
        || matches!(
            status,
            StatusCode::SWITCHING_PROTOCOLS | StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
        );
    if bodiless {
        return Ok(Framing::None);
    }
    if headers.contains_key(header::TRANSFER_ENCODING) {
        return match only_chunked(headers) {
            true => Ok(Framing::Chunked),
            // We have sent no TE, so no other coding may be used (RFC 9112 section 7.4), and we
            // could not undo it.
            false => {
                Err(OriginError::Malformed("a Transfer-Encoding other than chunked".to_owned()))
            }
        };
    }
    Ok(match exact {
        Some(length) if headers.contains_key(header::CONTENT_LENGTH) => Framing::Length(length),
        _ => Framing::Close,
    })
}

fn only_chunked(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    matches!((codings.next(), codings.next()), (Some(one), None) if one.as_bytes().eq_ignore_ascii_case(b"chunked"))
}

/// The facts of the head about the end of the answer, which tell whether the connection may be used
/// again. An origin that gives two lengths may have been made to by someone else (RFC 9112 6.3).
fn answered(asked: &Asked, status: StatusCode, headers: &HeaderMap, framing: Framing) -> Answered {
    let longest = headers.get_all(header::CONTENT_LENGTH).iter();
    let longest = longest.map(|value| content_length(value.as_bytes()).unwrap_or(u64::MAX)).max();
    Answered {
        to_head: asked.method == Method::HEAD,
        status: status.as_u16(),
        length: match framing {
            Framing::Length(length) => Some(length),
            _ => longest,
        },
        coded: headers.contains_key(header::TRANSFER_ENCODING),
        conditional: asked.conditional,
        odd_interim: asked.odd_interim.load(Relaxed),
    }
}

/// Leaves one statement of the length.
fn repair(headers: &mut HeaderMap, framing: Framing) {
    if headers.contains_key(header::TRANSFER_ENCODING) {
        headers.remove(header::CONTENT_LENGTH);
    }
    if let Framing::Length(length) = framing {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(list: &[(header::HeaderName, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in list {
            headers.append(name, HeaderValue::from_static(value));
        }
        headers
    }

    fn framed(
        method: Method,
        status: u16,
        headers: &HeaderMap,
        exact: Option<u64>,
    ) -> Option<Framing> {
        framing(&method, StatusCode::from_u16(status).expect("status"), headers, exact).ok()
    }

    #[test]
    fn framing_follows_the_rfc() {
        let length = fields(&[(header::CONTENT_LENGTH, "5")]);
        let chunked = fields(&[(header::TRANSFER_ENCODING, "Chunked")]);
        let none = HeaderMap::new();
        assert_eq!(framed(Method::GET, 200, &length, Some(5)), Some(Framing::Length(5)));
        assert_eq!(framed(Method::GET, 200, &chunked, None), Some(Framing::Chunked));
        assert_eq!(framed(Method::GET, 200, &none, None), Some(Framing::Close));
        assert_eq!(framed(Method::HEAD, 200, &length, Some(0)), Some(Framing::None));
        assert_eq!(framed(Method::GET, 204, &chunked, Some(0)), Some(Framing::None));
        assert_eq!(framed(Method::GET, 304, &length, Some(0)), Some(Framing::None));
    }

    #[test]
    fn other_transfer_codings_are_refused() {
        for codings in
            [&["gzip, chunked"][..], &["gzip"], &["chunked", "chunked"], &["identity"], &[""]]
        {
            let list: Vec<_> =
                codings.iter().map(|coding| (header::TRANSFER_ENCODING, *coding)).collect();
            assert_eq!(framed(Method::GET, 200, &fields(&list), None), None, "{codings:?}");
        }
    }

    #[test]
    fn two_lengths_become_one() {
        let mut both =
            fields(&[(header::CONTENT_LENGTH, "5"), (header::TRANSFER_ENCODING, "chunked")]);
        repair(&mut both, Framing::Chunked);
        assert!(!both.contains_key(header::CONTENT_LENGTH));
        let mut twice = fields(&[(header::CONTENT_LENGTH, "5, 5"), (header::CONTENT_LENGTH, "5")]);
        repair(&mut twice, Framing::Length(5));
        assert_eq!(twice.get_all(header::CONTENT_LENGTH).iter().collect::<Vec<_>>(), ["5"]);
        let mut head = fields(&[(header::CONTENT_LENGTH, "77")]);
        repair(&mut head, Framing::None);
        assert_eq!(head[header::CONTENT_LENGTH], "77");
    }
}
