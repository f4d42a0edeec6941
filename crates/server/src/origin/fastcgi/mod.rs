//! Applications that speak FastCGI: PHP (php-fpm), and others.
//!
//! The way of a request: [`super::tree`] finds the script (only one that exists below the root) ->
//! [`spool`] collects a body of unknown length -> [`params`] -> a connection of the pool ->
//! [`exchange`] (records both ways; STDERR goes to [`log`]) -> the CGI head -> [`Output`], which
//! holds the connection until the application says that the answer is complete.
//!
//! Absent: several requests at a time on one connection.

mod connection;
mod exchange;
mod log;
mod output;
mod params;
mod spool;

use std::{cell::Cell, pin::pin, rc::Rc, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use larder_proto::{
    fcgi::{End, HeadLimits, parse_head},
    http::{DecodedPath, framing::content_length},
    rules::strip::is_hop_by_hop,
};
use tokio::time::Instant;

pub(super) use self::output::Output;
use self::{
    connection::Connection,
    exchange::{Event, Exchange},
    log::Log,
    params::{Facts, params},
};
use super::{
    Body, OriginCounters, OriginError, Request, RequestBody, Response, SendError,
    connect::{after, within},
    counters::count,
    files::Files,
    outgoing::set_host,
    patience::patiently,
    pool::Pool,
    tree::{Asked, Found, Script},
    upload::{Progress, Upload},
};
use crate::settings::{ErrorPages, FastCgiSettings, OriginSettings};

/// Limits of a head; the same as for HTTP origins.
const HEAD: HeadLimits = HeadLimits { bytes: 64 << 10, fields: 256 };

/// Time for the head of an answer on a new connection. A request that takes longer may wait for a
/// process; if it does not, the loss is a new connection, which takes far less than the request.
const SOON: Duration = Duration::from_millis(10);

/// Local redirects of one request; more are taken for a circle.
const LOCAL_REDIRECTS: usize = 5;

/// An application, as one worker sees it.
#[derive(Debug)]
pub(super) struct FastCgi {
    settings: Arc<FastCgiSettings>,
    pool: Rc<Pool<Connection>>,
    /// None: the application knows its paths itself.
    files: Option<Files>,
}

/// The head of an answer, with what follows it so far.
struct Head {
    status: u16,
    reason: Option<Bytes>,
    headers: HeaderMap,
    /// The target whose answer is to be sent instead.
    local: Option<String>,
    rest: Bytes,
}

impl FastCgi {
    pub(super) fn new(
        settings: Arc<FastCgiSettings>,
        origin: Arc<OriginSettings>,
        counters: Arc<OriginCounters>,
    ) -> FastCgi {
        let files = settings.tree.clone().map(Files::new);
        FastCgi { settings, pool: Pool::new(origin, counters), files }
    }

    /// Sends a request and waits for the head of its answer.
    pub(super) async fn send(
        &self,
        mut request: Request,
        total: Option<Instant>,
    ) -> Result<Response, SendError> {
        if request.method == Method::CONNECT {
            return Err(OriginError::Unsendable("CONNECT has no path".to_owned()).into());
        }
        set_host(&mut request.headers, &self.pool.settings)?;
        // The application has executed a request: the next one is not the one that was asked for.
        let mut redirected = false;
        for _ in 0..=LOCAL_REDIRECTS {
            let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
            let decoded = DecodedPath::new(path).ok_or_else(|| {
                OriginError::Unsendable(format!("the target {:?} is no path", request.target))
            })?;
            let asked = Asked { path, query, decoded: &decoded };
            let script = match self.find(asked)? {
                None => None,
                Some(Found::Script(script)) => Some(script),
                Some(Found::Directory) => {
                    return Ok(Response::moved_to_directory(request.visited(path), query));
                }
                Some(Found::File(name)) => return Ok(self.file(&name, &request)?),
                // Beside scripts there are none.
                Some(Found::Listing(_)) => return Ok(self.status(404, &request.method)),
                Some(Found::Status(status)) => {
                    return Ok(self.status(status, &request.method));
                }
            };
            let body = std::mem::replace(&mut request.body, RequestBody::Empty);
            let path = decoded.as_bytes();
            let asked = pin!(self.ask(&request, path, body, script.as_ref(), total)).await;
            let (head, exchange) = asked.map_err(|unsent| match redirected {
                true => unsent.error.into(),
                false => unsent,
            })?;
            let Some(target) = head.local else {
                return Ok(respond(&request, head, exchange, total)?);
            };
            exchange.drain();
            redirected = true;
            (request.target, request.visited) = (target, None);
            if request.method != Method::HEAD {
                request.method = Method::GET;
            }
            request.headers.remove(header::CONTENT_TYPE);
        }
        Err(OriginError::Malformed("local redirects in a circle".to_owned()).into())
    }

    /// None: the application knows its paths itself.
    fn find(&self, asked: Asked<'_>) -> Result<Option<Found>, OriginError> {
        let Some(files) = &self.files else { return Ok(None) };
        files.find(Some(&self.settings.split_path), asked).map(Some)
    }

    fn status(&self, status: u16, method: &Method) -> Response {
        match &self.files {
            Some(files) => files.status(status, method),
            None => Response::status(status, method, &ErrorPages::default()),
        }
    }

    fn file(&self, name: &[u8], request: &Request) -> Result<Response, OriginError> {
        match &self.files {
            Some(files) => files.respond(name, &request.method, &request.headers),
            None => Ok(self.status(404, &request.method)),
        }
    }

    /// Sends one request; a second time, over a new connection, where that is safe (see
    /// [`super::Origin::send`]).
    async fn ask(
        &self,
        request: &Request,
        path: &[u8],
        body: RequestBody,
        script: Option<&Script>,
        total: Option<Instant>,
    ) -> Result<(Head, Exchange), SendError> {
        let (length, body) = measured(&request.method, body, total).await?;
        let facts = Facts {
            method: &request.method,
            target: &request.target,
            headers: &request.headers,
            asker: &request.asker,
            script,
            path,
            length,
        };
        let params = params(&self.settings, &facts);
        let repeatable = request.method.is_safe() && body.is_empty();
        let progress = Progress::new();
        let mut upload = Upload::new(body, progress.clone());
        let mut first = true;
        loop {
            let lease = match self.pool.lease(&request.asker, total).await {
                Ok(lease) => lease,
                Err(error) => return Err(SendError::unsent(error, upload.into_request_body())),
            };
            let reused = lease.reused;
            if reused && first {
                count(&self.pool.counters.reused);
            }
            let log = Log::new(&self.pool.settings, request);
            let mut exchange = Exchange::new(lease, &params, upload, progress.clone(), log);
            let head = { pin!(self.head(&mut exchange, total)).await };
            let error = match head {
                Ok(head) => return Ok((head, exchange)),
                Err(error) => error,
            };
            // The connection has ended, or late records of an earlier request were on it.
            let useless = matches!(error, OriginError::Truncated | OriginError::Malformed(_));
            // A process that Larder runs may end at any time, and another one is there.
            let mortal = reused || self.pool.settings.app.is_some();
            let dead = mortal && !exchange.received && useless;
            let unsent = !exchange.sent;
            if !first || !dead || !(unsent || repeatable) {
                return Err(error.into());
            }
            let empty = || Upload::new(RequestBody::Empty, progress.clone());
            upload = exchange.take_back().unwrap_or_else(empty);
            // The others have most likely died of the same cause.
            self.pool.forget_idle();
            count(&self.pool.counters.retried);
            first = false;
        }
    }

    /// Waits for the head, no longer than for the first byte.
    async fn head(
        &self,
        exchange: &mut Exchange,
        total: Option<Instant>,
    ) -> Result<Head, OriginError> {
        let limit = self.pool.settings.first_byte_timeout;
        let (progress, reused) = (exchange.progress.clone(), exchange.lease().reused);
        let asked = Cell::new(None);
        let head = async {
            let mut head = pin!(read_head(exchange));
            if !reused {
                let soon = within(after(SOON), head.as_mut()).await;
                if let Some(head) = soon {
                    return head;
                }
                // It may wait for a process that serves an idle connection.
                asked.set(Some(self.settings.release.ask()));
            }
            head.await
        };
        let head = patiently(pin!(head), &progress, limit, total).await;
        if let (Some(times), Some(connection)) = (asked.get(), exchange.lease().connection()) {
            connection.stays(times);
        }
        match head {
            Ok(head) => head,
            Err(late) => Err(late.error(OriginError::FirstByteTimeout)),
        }
    }
}

/// A body and its length. One of unknown length is collected first: the application is told it
/// before the body.
async fn measured(
    method: &Method,
    body: RequestBody,
    total: Option<Instant>,
) -> Result<(Option<u64>, RequestBody), OriginError> {
    let body = match body {
        RequestBody::Stream { length: None, .. } => {
            let upload = Upload::new(body, Progress::new());
            let spooled = within(total, Box::pin(spool::spool(upload))).await;
            spooled.unwrap_or(Err(OriginError::UploadTimeout))?
        }
        body => body,
    };
    let usual = [Method::POST, Method::PUT, Method::PATCH].contains(method);
    let length = match &body {
        RequestBody::Empty => usual.then_some(0),
        RequestBody::Stream { length, .. } => *length,
    };
    Ok((length, body))
}

async fn read_head(exchange: &mut Exchange) -> Result<Head, OriginError> {
    let mut output = BytesMut::new();
    loop {
        let piece = match exchange.event().await? {
            Event::Output(piece) => piece,
            Event::End(end) => return Err(ended(end)),
        };
        output.extend_from_slice(&piece);
        // A head is only ever complete with the end of a line.
        if !piece.contains(&b'\n') && output.len() < HEAD.bytes {
            continue;
        }
        let head = parse_head(&output, HEAD);
        let Some(head) = head.map_err(|error| OriginError::Malformed(error.to_string()))? else {
            continue;
        };
        let local = head.local.map(|target| String::from_utf8_lossy(target).into_owned());
        let usual = http::StatusCode::from_u16(head.status).ok();
        let usual = usual.and_then(|status| status.canonical_reason()).unwrap_or_default();
        let odd = !head.reason.is_empty() && head.reason != usual.as_bytes();
        let reason = odd.then(|| Bytes::copy_from_slice(head.reason));
        let (status, headers, used) = (head.status, headers(&head.fields)?, head.used);
        let rest = output.split_off(used).freeze();
        return Ok(Head { status, reason, headers, local, rest });
    }
}

/// An application that ends a request before it has answered it.
fn ended(end: End) -> OriginError {
    match end {
        End::Overloaded | End::CannotMultiplex => OriginError::Overloaded,
        End::Complete(_) => OriginError::Malformed("it ended without an answer".to_owned()),
        End::UnknownRole => OriginError::Malformed("it is no Responder".to_owned()),
        End::Unknown(status) => OriginError::Malformed(format!("its end has status {status}")),
    }
}

/// The fields without hop-by-hop ones, which an application must not send.
fn headers(fields: &[(&str, &[u8])]) -> Result<HeaderMap, OriginError> {
    let malformed = || OriginError::Malformed("a field with a wrong name or value".to_owned());
    let mut headers = HeaderMap::with_capacity(fields.len());
    for (name, value) in fields.iter().filter(|(name, _)| !is_hop_by_hop(name)) {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| malformed())?;
        headers.append(name, HeaderValue::from_bytes(value).map_err(|_| malformed())?);
    }
    Ok(headers)
}

fn respond(
    request: &Request,
    head: Head,
    mut exchange: Exchange,
    total: Option<Instant>,
) -> Result<Response, OriginError> {
    let Head { status, reason, mut headers, rest, .. } = head;
    let lease = exchange.lease();
    let reused = lease.reused;
    let peer = lease.connection().map(|connection| connection.peer);
    let length = length(&mut headers)?;
    let body = if request.method == Method::HEAD || matches!(status, 204 | 304) {
        exchange.drain();
        Body::empty()
    } else {
        Body::of_application(Output::new(exchange, rest, length, total), length)
    };
    Ok(Response { status, reason, headers, body, http10: false, upgraded: None, peer, reused })
}

/// The length by the fields, which then say it once.
fn length(headers: &mut HeaderMap) -> Result<Option<u64>, OriginError> {
    let mut values = headers.get_all(header::CONTENT_LENGTH).iter().map(|value| value.as_bytes());
    let Some(first) = values.next() else { return Ok(None) };
    let length = content_length(first).filter(|_| values.all(|other| other == first));
    let length = length.ok_or_else(|| OriginError::Malformed("a wrong length".to_owned()))?;
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    Ok(Some(length))
}
