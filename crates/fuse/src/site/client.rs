//! Requests to the site: HTTP/1.1 over a few connections that are used again. The caller limits
//! the time of each operation, whatever number of requests it takes.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Empty};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body as _, Incoming},
    client::conn::http1::SendRequest,
    header::{
        ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, HOST, HeaderMap, LOCATION, RANGE,
        USER_AGENT,
    },
};
use parking_lot::Mutex;
use rustix::io::Errno;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit},
    time::timeout,
};

use super::{
    address::Address,
    connect::Connector,
    version::{Type, Version},
};

/// Connections at once: more requests wait for one. A thread of a program waits for its own.
const CONNECTIONS: usize = 64;
/// Redirects that are followed, as browsers follow some.
const REDIRECTS: usize = 5;
/// Bytes of all bodies that are held whole, because their size is not known before or the server
/// gives no ranges; a body that finds no room fails with ENOMEM.
const HELD_BYTES: usize = 256 << 20;

/// The answer to a look at a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Look {
    File(Version, Type),
    Directory,
    Absent,
}

/// The connections to a site.
pub(super) struct Client {
    address: Address,
    connector: Connector,
    /// The limit for an answer's head, and for each part of a body that is read whole.
    patience: Duration,
    idle: Mutex<Vec<SendRequest<Empty<Bytes>>>>,
    connections: Semaphore,
    held: Arc<Semaphore>,
    /// The last attempt to connect failed.
    fails: AtomicBool,
}

/// An answer whose body is still to be read, over this connection.
struct Exchange<'a> {
    answer: Response<Incoming>,
    connection: SendRequest<Empty<Bytes>>,
    _one: SemaphorePermit<'a>,
}

/// A body that is held, with its part of the memory for such.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

impl Client {
    pub(super) fn new(address: Address, patience: Duration) -> Result<Client, String> {
        Ok(Client {
            connector: Connector::new(&address)?,
            address,
            patience,
            idle: Mutex::default(),
            connections: Semaphore::new(CONNECTIONS),
            held: Arc::new(Semaphore::new(HELD_BYTES)),
            fails: AtomicBool::new(false),
        })
    }

    pub(super) fn root(&self) -> &str {
        &self.address.root
    }

    /// Looks at a path, by HEAD; where that is not allowed, by a request for the first byte.
    pub(super) async fn look(&self, path: &str) -> io::Result<Look> {
        let mut at = path.to_owned();
        for _ in 0..=REDIRECTS {
            let mut answer = self.head(&at).await?;
            if matches!(answer.status().as_u16(), 405 | 501) {
                answer = self.ask(Method::GET, &at, Some((0, 1))).await?.answer;
            }
            let status = answer.status();
            if !status.is_redirection() {
                return found(status, answer.headers());
            }
            let location = answer.headers().get(LOCATION).and_then(|field| field.to_str().ok());
            let Some(next) = location.and_then(|to| self.address.follow(&at, to)) else {
                return Ok(Look::Absent);
            };
            // `/docs` leads to `/docs/`, or to a page below it: its name is a directory.
            let below = next.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
            if below {
                return Ok(Look::Directory);
            }
            at = next;
        }
        Ok(Look::Absent)
    }

    /// Whether a path with a slash at its end answers, if only to say that it is not for everyone.
    pub(super) async fn is_directory(&self, path: &str) -> io::Result<bool> {
        let status = self.head(path).await?.status();
        Ok(status.is_success() || status == StatusCode::FORBIDDEN)
    }

    /// Reads a range of this version. ESTALE: the page is another one by now.
    pub(super) async fn range(
        &self,
        path: &str,
        version: &Version,
        offset: u64,
        size: usize,
    ) -> io::Result<Range> {
        let end = version.size.unwrap_or(u64::MAX).min(offset.saturating_add(size as u64));
        if offset >= end {
            return Ok(Range::Bytes(Bytes::new()));
        }
        let exchange = self.ask_redirected(path, Some((offset, end))).await?;
        let answer = &exchange.answer;
        match answer.status() {
            StatusCode::PARTIAL_CONTENT => {}
            // No ranges; or another page, which is seen when it is read whole.
            StatusCode::OK => return Ok(Range::NoRanges),
            StatusCode::RANGE_NOT_SATISFIABLE => return Err(Errno::STALE.into()),
            status => return Err(failed(status)),
        }
        let range = content_range(answer.headers()).ok_or(Errno::IO)?;
        if !version.is(&Version::of(answer.headers(), range.total)) {
            return Err(Errno::STALE.into());
        }
        let wanted = (end - offset) as usize;
        if range.first != offset || range.last.checked_add(1) != Some(end) {
            return Err(Errno::IO.into());
        }
        let bytes = self.body(exchange, wanted, |_| Ok(())).await?;
        if bytes.len() == wanted { Ok(Range::Bytes(bytes)) } else { Err(Errno::IO.into()) }
    }

    /// Reads a whole page into memory, within the bound for such. ESTALE: it has a version that
    /// can be told, and is another one by now. It may take longer than one operation, as long as
    /// the server sends.
    pub(super) async fn whole(&self, path: &str, version: &Version) -> io::Result<Whole> {
        let exchange = timeout(self.patience, self.ask_redirected(path, None));
        let exchange = exchange.await.map_err(|_| Errno::TIMEDOUT)??;
        let status = exchange.answer.status();
        if status != StatusCode::OK {
            return Err(failed(status));
        }
        let found = Version::of(exchange.answer.headers(), version.size);
        if version.is_told() && !version.is(&found) {
            return Err(Errno::STALE.into());
        }
        let full = || io::Error::from(Errno::NOMEM);
        let mut room = self.held.clone().try_acquire_many_owned(0).map_err(|_| full())?;
        let take = |bytes: usize| {
            let bytes = u32::try_from(bytes).map_err(|_| full())?;
            let more = self.held.clone().try_acquire_many_owned(bytes).map_err(|_| full())?;
            room.merge(more);
            Ok(())
        };
        let bytes = self.body(exchange, HELD_BYTES, take).await?;
        if version.is_told() && version.size != Some(bytes.len() as u64) {
            return Err(Errno::STALE.into());
        }
        Ok(Whole { bytes, _room: room })
    }

    async fn ask_redirected(
        &self,
        path: &str,
        range: Option<(u64, u64)>,
    ) -> io::Result<Exchange<'_>> {
        let mut at = path.to_owned();
        for _ in 0..=REDIRECTS {
            let exchange = self.ask(Method::GET, &at, range).await?;
            if !exchange.answer.status().is_redirection() {
                return Ok(exchange);
            }
            let location =
                exchange.answer.headers().get(LOCATION).and_then(|field| field.to_str().ok());
            at = location
                .and_then(|to| self.address.follow(&at, to))
                .ok_or(io::Error::from(Errno::STALE))?;
        }
        Err(Errno::LOOP.into())
    }

    /// The answer to a HEAD, which has no body.
    async fn head(&self, path: &str) -> io::Result<Response<Incoming>> {
        let exchange = self.ask(Method::HEAD, path, None).await?;
        self.give_back(exchange.connection);
        Ok(exchange.answer)
    }

    fn give_back(&self, connection: SendRequest<Empty<Bytes>>) {
        let mut idle = self.idle.lock();
        if idle.len() < CONNECTIONS && !connection.is_closed() {
            idle.push(connection);
        }
    }

    /// A new connection. The first of several failures is told, and the end of them.
    async fn connect(&self) -> io::Result<SendRequest<Empty<Bytes>>> {
        let connected = self.connector.connect().await;
        let fails = connected.is_err();
        if self.fails.swap(fails, Relaxed) != fails {
            let site = &self.address.authority;
            match &connected {
                Ok(_) => eprintln!("larder mount: {site} answers again"),
                Err(error) => eprintln!("larder mount: {site} cannot be reached: {error}"),
            }
        }
        connected
    }

    /// Sends a request, again over a new connection if an old one was closed by then: all are safe
    /// to repeat.
    async fn ask(
        &self,
        method: Method,
        path: &str,
        range: Option<(u64, u64)>,
    ) -> io::Result<Exchange<'_>> {
        let _one = self.connections.acquire().await.map_err(|_| Errno::IO)?;
        loop {
            let old = self.idle.lock().pop();
            let fresh = old.is_none();
            let mut connection = match old {
                Some(old) => old,
                None => self.connect().await?,
            };
            if connection.ready().await.is_err() {
                if fresh {
                    return Err(Errno::IO.into());
                }
                continue;
            }
            match connection.send_request(self.request(&method, path, range)).await {
                Ok(answer) => return Ok(Exchange { answer, connection, _one }),
                Err(_) if !fresh => {}
                Err(_) => return Err(Errno::IO.into()),
            }
        }
    }

    fn request(
        &self,
        method: &Method,
        path: &str,
        range: Option<(u64, u64)>,
    ) -> Request<Empty<Bytes>> {
        let mut request = Request::new(Empty::new());
        *request.method_mut() = method.clone();
        // Paths are made of what is right in one.
        *request.uri_mut() = path.parse().unwrap_or_default();
        let fields = request.headers_mut();
        let agent = concat!("larder-mount/", env!("CARGO_PKG_VERSION"));
        let text = [(HOST, &*self.address.authority), (USER_AGENT, agent)];
        for (name, value) in text.into_iter().chain([(ACCEPT_ENCODING, "identity")]) {
            if let Ok(value) = value.parse() {
                fields.insert(name, value);
            }
        }
        if let Some((first, end)) = range
            && let Ok(value) = format!("bytes={first}-{}", end - 1).parse()
        {
            fields.insert(RANGE, value);
        }
        request
    }

    /// Reads a body to its end, after which the connection is used again; more than `most` bytes
    /// are an error.
    async fn body(
        &self,
        exchange: Exchange<'_>,
        most: usize,
        mut take: impl FnMut(usize) -> io::Result<()>,
    ) -> io::Result<Bytes> {
        let Exchange { answer, connection, _one } = exchange;
        let announced = answer.body().size_hint().exact().unwrap_or(0);
        let mut body = answer.into_body();
        let mut bytes = BytesMut::with_capacity((announced as usize).min(most).min(1 << 20));
        loop {
            let frame = timeout(self.patience, body.frame()).await.map_err(|_| Errno::TIMEDOUT)?;
            let Some(frame) = frame else {
                self.give_back(connection);
                return Ok(bytes.freeze());
            };
            let frame = frame.map_err(|_| Errno::IO)?;
            if let Ok(data) = frame.into_data() {
                take(data.len())?;
                if bytes.len() + data.len() > most {
                    return Err(Errno::FBIG.into());
                }
                bytes.extend_from_slice(&data);
            }
        }
    }
}

/// A range, or the news that the server gives none.
#[derive(Debug)]
pub(super) enum Range {
    Bytes(Bytes),
    NoRanges,
}

fn found(status: StatusCode, fields: &HeaderMap) -> io::Result<Look> {
    match status {
        StatusCode::PARTIAL_CONTENT => {
            let total = content_range(fields).and_then(|range| range.total);
            Ok(Look::File(Version::of(fields, total), Type::of(fields)))
        }
        // An empty page has no first byte.
        StatusCode::RANGE_NOT_SATISFIABLE => {
            Ok(Look::File(Version::of(fields, Some(0)), Type::of(fields)))
        }
        status if status.is_success() => {
            let length = fields.get(CONTENT_LENGTH).and_then(|field| field.to_str().ok());
            let size = length.and_then(|length| length.parse().ok());
            Ok(Look::File(Version::of(fields, size), Type::of(fields)))
        }
        StatusCode::NOT_FOUND | StatusCode::GONE => Ok(Look::Absent),
        status => Err(failed(status)),
    }
}

/// An answer that gives no content, as an error of files.
fn failed(status: StatusCode) -> io::Error {
    match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => Errno::STALE,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Errno::ACCESS,
        _ => Errno::IO,
    }
    .into()
}

/// Bytes `first` to `last` of so many.
struct ContentRange {
    first: u64,
    last: u64,
    total: Option<u64>,
}

fn content_range(fields: &HeaderMap) -> Option<ContentRange> {
    let field = fields.get(CONTENT_RANGE)?.to_str().ok()?.strip_prefix("bytes ")?;
    let (range, total) = field.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    Some(ContentRange {
        first: first.parse().ok()?,
        last: last.parse().ok()?,
        total: total.parse().ok(),
    })
}
