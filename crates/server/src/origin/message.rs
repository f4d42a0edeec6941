//! Requests to origins and their responses.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use bytes::Bytes;
use http::{HeaderMap, Method};
use tokio::sync::mpsc;

use super::{Body, Others, Tunnel};

/// One request to an origin.
#[derive(Debug)]
pub struct Request {
    /// The method, sent as it is.
    pub method: Method,
    /// Origin-form (`/path?query`), or `*` with OPTIONS.
    pub target: String,
    /// The path that the visitor asked for, if `target` is another one.
    pub visited: Option<String>,
    /// The fields to send. The caller has removed hop-by-hop fields (RFC 9110 section 7.6.1) and
    /// added its own (Via, X-Forwarded-For). Content-Length and Transfer-Encoding are set here from
    /// [`Request::body`]; Host is set here when it is missing or overridden by the settings. For
    /// request trailers to be sent, `Trailer` has to name them.
    pub headers: HeaderMap,
    /// The body.
    pub body: RequestBody,
    /// The client asked for an upgrade (RFC 9110 section 7.8): `headers` holds `Upgrade`, and
    /// `Connection: upgrade` is added here. Without it a 101 from the origin is an error.
    pub upgrade: bool,
    /// The client. An HTTP origin reads of it in `headers`.
    pub asker: Asker,
}

impl Request {
    /// The path as the visitor names it; `path`: that of `target`.
    pub(super) fn visited<'r>(&'r self, path: &'r str) -> &'r str {
        self.visited.as_deref().unwrap_or(path)
    }
}

/// The client of a request, as an application is told of it.
#[derive(Clone, Debug, Default)]
pub struct Asker {
    /// Its address; None: Larder asks for itself.
    pub client: Option<IpAddr>,
    /// The application is not told the address.
    pub hidden: bool,
    /// Clients that wait for the same answer; None: it is for this client alone.
    pub others: Option<Arc<Others>>,
    /// It came by TLS, to Larder or to a trusted proxy.
    pub secure: bool,
}

/// The body of a request.
#[derive(Debug)]
pub enum RequestBody {
    /// None. Methods that usually have one get `Content-Length: 0` (RFC 9110 section 8.6).
    Empty,
    /// Bytes as they come from the client.
    Stream {
        /// Sent as Content-Length; None is sent chunked. A stream that ends short of it, or goes on
        /// beyond it, aborts the request.
        length: Option<u64>,
        /// A bounded channel: the origin's pace is the client's pace. A channel that ends
        /// before the body is whole (all of `length`, or [`BodyFrame::End`] or
        /// [`BodyFrame::Trailers`]) aborts the request.
        frames: mpsc::Receiver<BodyFrame>,
    },
}

impl RequestBody {
    /// Whether there is no body at all.
    pub fn is_empty(&self) -> bool {
        matches!(self, RequestBody::Empty)
    }
}

/// A piece of a request body.
#[derive(Debug)]
pub enum BodyFrame {
    /// Content.
    Data(Bytes),
    /// The trailer section; nothing follows. Sent only with chunked framing.
    Trailers(HeaderMap),
    /// The body is whole. Sent only with chunked framing: a known length says it otherwise.
    End,
    /// The client went away or sent nonsense: the connection to the origin is closed, so that the
    /// origin cannot take what it got for the whole.
    Failed,
}

/// A response, head received, body to be read.
#[derive(Debug)]
pub struct Response {
    /// 101, or a final status: 200 to 999.
    pub status: u16,
    /// The reason phrase when it is not the usual one of the status; empty when the origin sent
    /// none.
    pub reason: Option<Bytes>,
    /// The fields as received, with two repairs of framing (RFC 9112 section 6.3): Content-Length
    /// is removed beside Transfer-Encoding, and repeated equal Content-Lengths become one.
    pub headers: HeaderMap,
    /// The content.
    pub body: Body,
    /// The origin speaks HTTP/1.0.
    pub http10: bool,
    /// With status 101: the connection in the new protocol.
    pub upgraded: Option<Tunnel>,
    /// The address that answered; None: nobody was asked.
    pub peer: Option<SocketAddr>,
    /// The connection had served another request before.
    pub reused: bool,
}
