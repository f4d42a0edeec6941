//! One request written, one response head read, on one connection.

use std::{
    future::poll_fn,
    rc::Rc,
    task::{Context, Poll, ready},
};

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use larder_proto::http::{Answered, framing::content_length};
use tokio::time::Instant;

use super::{
    Body, Interim, InterimHead, OriginCounters, OriginError, Response,
    body::Framing,
    connection::{Connection, Sending},
    counters::count,
    head::{HEAD_BYTES, Head},
    outgoing::Asked,
    patience::patiently,
    pool::{Lease, Pooled as _},
    reading::{Ending, READS, Reading},
    upload::Progress,
};

/// A request that got no response.
pub(super) struct Failure {
    pub(super) error: OriginError,
    /// Nothing of it was written.
    pub(super) unsent: bool,
    /// The connection ended before any byte of an answer.
    pub(super) connection_was_dead: bool,
}

/// Interim responses on their way to the client.
pub(super) struct Interims {
    pub(super) to: Option<Interim>,
    /// One of them announced content, which none has (RFC 9110 section 15.2).
    odd: bool,
}

impl Interims {
    pub(super) fn new(to: Option<Interim>) -> Interims {
        Interims { to, odd: false }
    }

    fn take(&mut self, head: Head, counters: &OriginCounters) {
        let announces = [header::CONTENT_LENGTH, header::TRANSFER_ENCODING];
        self.odd |= announces.iter().any(|name| head.headers.contains_key(name));
        let Some(to) = &self.to else { return };
        count(&counters.interim);
        let interim = InterimHead { status: head.status.as_u16(), headers: head.headers };
        if !to.send(interim) {
            count(&counters.interim_dropped);
        }
    }
}

/// Sends `request` and waits for the final response head.
pub(super) async fn exchange(
    lease: &mut Lease<Connection>,
    request: Sending,
    interims: &mut Interims,
    progress: &Progress,
    total: Option<Instant>,
) -> Result<Head, Failure> {
    let (counters, first_byte) =
        (lease.pool().counters.clone(), lease.pool().settings.first_byte_timeout);
    let Some(connection) = lease.connection() else {
        let error = OriginError::Truncated;
        return Err(Failure { error, unsent: false, connection_was_dead: true });
    };
    connection.ask(request);
    let mut received = false;
    let head = poll_fn(|cx| poll_head(connection, cx, &mut received, interims, &counters));
    match patiently(head, progress, first_byte, total).await {
        Ok(Ok(head)) => Ok(head),
        Ok(Err(error)) => {
            let connection_was_dead = !received && !progress.aborted();
            Err(Failure { error, unsent: !connection.has_sent(), connection_was_dead })
        }
        Err(late) => {
            let error = late.error(OriginError::FirstByteTimeout);
            Err(Failure { error, unsent: false, connection_was_dead: false })
        }
    }
}

fn poll_head(
    connection: &mut Connection,
    cx: &mut Context<'_>,
    received: &mut bool,
    interims: &mut Interims,
    counters: &OriginCounters,
) -> Poll<Result<Head, OriginError>> {
    for _ in 0..READS {
        if let Poll::Ready(Err(error)) = connection.poll_send(cx) {
            return Poll::Ready(Err(error));
        }
        if connection.is_closed() && !connection.has_sent() {
            return Poll::Ready(Err(connection.error()));
        }
        let before = connection.input.len();
        match ready!(connection.poll_read(cx)) {
            Ok(1..) => *received = true,
            Ok(0) | Err(_) => return Poll::Ready(Err(connection.error())),
        }
        // A head is only ever complete with the end of a line. Another protocol shows at once.
        let read = &connection.input[before..];
        if before > 0 && !read.contains(&b'\n') && connection.input.len() < HEAD_BYTES {
            continue;
        }
        while !connection.input.is_empty() {
            match Head::take(&mut connection.input)? {
                None => break,
                Some(head) if is_interim(head.status) => interims.take(head, counters),
                Some(head) => return Poll::Ready(Ok(head)),
            }
        }
    }
    // An origin that says nothing of use without end must not hold the thread.
    cx.waker().wake_by_ref();
    Poll::Pending
}

fn is_interim(status: StatusCode) -> bool {
    status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS
}

/// Makes a response of a head, and gives the connection to its body (or back, when there is none).
pub(super) fn respond(
    asked: &Asked,
    mut lease: Lease<Connection>,
    head: Head,
    interims: &Interims,
    progress: Rc<Progress>,
    total: Option<Instant>,
) -> Result<Response, OriginError> {
    let Head { status, reason, http10, keep_alive, mut headers } = head;
    let switching = status == StatusCode::SWITCHING_PROTOCOLS;
    if switching && (asked.upgrade.is_none() || !same_protocol(asked, &headers)) {
        return Err(OriginError::Malformed("101 to a protocol that was not asked for".to_owned()));
    }
    let framing = framing(&asked.method, status, &headers, http10)?;
    let answered = answered(asked, status, &headers, framing, interims.odd);
    lease.keep &= keep_alive && answered.is_over();
    repair(&mut headers, framing);
    let (peer, reused) = (lease.connection().map(|connection| connection.peer), lease.reused);
    let (mut body, mut upgraded) = (Body::empty(), None);
    if switching {
        upgraded = lease.into_connection().map(Connection::into_tunnel);
    } else {
        let ending = match framing {
            Framing::Chunked => Ending::chunked(),
            Framing::Close => Ending::Close,
            Framing::Length(length) => Ending::Length(length),
            Framing::None | Framing::Record => Ending::Length(0),
        };
        body = Body::new(Reading::new(lease, ending, progress, total), framing);
    }
    let status = status.as_u16();
    Ok(Response { status, reason, headers, body, http10, upgraded, peer, reused })
}

/// A 101 names the protocol that it switches to, one of those offered (RFC 9110 section 15.2.2).
fn same_protocol(asked: &Asked, headers: &HeaderMap) -> bool {
    let mut named = headers.get_all(header::UPGRADE).iter();
    let named = (named.next(), named.next());
    let same = |a: &HeaderValue, b: &HeaderValue| a.as_bytes().eq_ignore_ascii_case(b.as_bytes());
    matches!((named, &asked.upgrade), ((Some(to), None), Some(from)) if same(to, from))
}

/// RFC 9112 section 6.3, for responses.
fn framing(
    method: &Method,
    status: StatusCode,
    headers: &HeaderMap,
    http10: bool,
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
        // We have sent no TE, so no other coding may be used (RFC 9112 section 7.4), and we could
        // not undo it. HTTP/1.0 has none (section 6.1).
        return match only_chunked(headers) && !http10 {
            true => Ok(Framing::Chunked),
            false => {
                Err(OriginError::Malformed("a Transfer-Encoding other than chunked".to_owned()))
            }
        };
    }
    let mut lengths = lengths(headers);
    let Some(first) = lengths.next() else { return Ok(Framing::Close) };
    let length = first.filter(|_| lengths.all(|other| other == first));
    let length = length.ok_or_else(|| OriginError::Malformed("a wrong length".to_owned()))?;
    Ok(Framing::Length(length))
}

/// Each Content-Length, also those of a list; None: it is no number.
fn lengths(headers: &HeaderMap) -> impl Iterator<Item = Option<u64>> {
    let lines = headers.get_all(header::CONTENT_LENGTH).iter();
    let numbers = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    numbers.map(|number| content_length(number.trim_ascii()))
}

fn only_chunked(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let (Some(one), None) = (codings.next(), codings.next()) else { return false };
    one.as_bytes().eq_ignore_ascii_case(b"chunked")
}

/// The facts of the head about the end of the answer, which tell whether the connection may be used
/// again. An origin that gives two lengths may have been made to by someone else (RFC 9112 6.3).
fn answered(
    asked: &Asked,
    status: StatusCode,
    headers: &HeaderMap,
    framing: Framing,
    odd_interim: bool,
) -> Answered {
    let longest = lengths(headers).map(|length| length.unwrap_or(u64::MAX)).max();
    Answered {
        to_head: asked.method == Method::HEAD,
        status: status.as_u16(),
        length: match framing {
            Framing::Length(length) => Some(length),
            _ => longest,
        },
        coded: headers.contains_key(header::TRANSFER_ENCODING),
        conditional: asked.conditional,
        odd_interim,
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

    fn framed(method: Method, status: u16, headers: &HeaderMap) -> Option<Framing> {
        framing(&method, StatusCode::from_u16(status).expect("status"), headers, false).ok()
    }

    #[test]
    fn framing_follows_the_rfc() {
        let length = fields(&[(header::CONTENT_LENGTH, "5")]);
        let chunked = fields(&[(header::TRANSFER_ENCODING, "Chunked")]);
        let none = HeaderMap::new();
        assert_eq!(framed(Method::GET, 200, &length), Some(Framing::Length(5)));
        assert_eq!(framed(Method::GET, 200, &chunked), Some(Framing::Chunked));
        assert_eq!(framed(Method::GET, 200, &none), Some(Framing::Close));
        assert_eq!(framed(Method::HEAD, 200, &length), Some(Framing::None));
        assert_eq!(framed(Method::GET, 204, &chunked), Some(Framing::None));
        assert_eq!(framed(Method::GET, 304, &length), Some(Framing::None));
    }

    #[test]
    fn other_transfer_codings_are_refused() {
        for codings in
            [&["gzip, chunked"][..], &["gzip"], &["chunked", "chunked"], &["identity"], &[""]]
        {
            let list: Vec<_> =
                codings.iter().map(|coding| (header::TRANSFER_ENCODING, *coding)).collect();
            assert_eq!(framed(Method::GET, 200, &fields(&list)), None, "{codings:?}");
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
