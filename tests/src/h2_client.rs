//! A client of HTTP/2, the `h2` crate, driven from a test's own thread.

use crate::answer::{Answer, Fields};
use crate::wait::PATIENCE;
use bytes::Bytes;
pub use h2::Reason;
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

/// One connection.
pub struct H2 {
    runtime: Runtime,
    send: SendRequest<Bytes>,
    connection: JoinHandle<Result<(), h2::Error>>,
    scheme: &'static str,
    authority: String,
}

/// A request that is under way.
pub struct Open {
    /// The head of the answer.
    pub response: ResponseFuture,
    /// The sending side of the request's body.
    pub body: SendStream<Bytes>,
}

impl H2 {
    /// Connects without TLS, by prior knowledge.
    #[track_caller]
    pub fn connect(addr: SocketAddr) -> H2 {
        H2::connect_by(addr, Builder::new().enable_push(false))
    }

    /// The same with settings of the client.
    #[track_caller]
    pub fn connect_by(addr: SocketAddr, builder: &Builder) -> H2 {
        let runtime = runtime();
        let stream = runtime.block_on(TcpStream::connect(addr)).unwrap();
        H2::over(runtime, stream, builder, "http", addr)
    }

    /// The same from this address.
    #[track_caller]
    pub fn connect_from(source: IpAddr, addr: SocketAddr) -> H2 {
        let runtime = runtime();
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((source, 0).into()).unwrap();
        let stream = runtime.block_on(socket.connect(addr)).unwrap();
        H2::over(runtime, stream, Builder::new().enable_push(false), "http", addr)
    }

    /// Connects over TLS and agrees upon HTTP/2.
    #[track_caller]
    pub fn connect_tls(addr: SocketAddr, client: &Arc<ClientConfig>, name: &str) -> H2 {
        let runtime = runtime();
        let mut client = ClientConfig::clone(client);
        client.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let stream = runtime.block_on(async {
            let stream = TcpStream::connect(addr).await.unwrap();
            TlsConnector::from(Arc::new(client)).connect(name, stream).await.unwrap()
        });
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        H2::over(runtime, stream, &Builder::new(), "https", addr)
    }

    fn over<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        runtime: Runtime,
        stream: S,
        builder: &Builder,
        scheme: &'static str,
        addr: SocketAddr,
    ) -> H2 {
        let (send, connection) = runtime.block_on(builder.handshake::<_, Bytes>(stream)).unwrap();
        let connection = runtime.spawn(connection);
        H2 { runtime, send, connection, scheme, authority: addr.to_string() }
    }

    /// Asks for pages of this host from now on.
    pub fn ask_for(&mut self, authority: &str) {
        authority.clone_into(&mut self.authority);
    }

    /// Begins a request. `last`: it has no body.
    #[track_caller]
    pub fn begin(&self, method: &str, path: &str, fields: &[(&str, &str)], last: bool) -> Open {
        let uri = format!("{}://{}{path}", self.scheme, self.authority);
        let mut request = http::Request::builder().method(method).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let mut send = self.wait(self.send.clone().ready()).expect("a place for a stream");
        let (response, body) = send.send_request(request.body(()).unwrap(), last).unwrap();
        Open { response, body }
    }

    /// GET; the error is that of the stream or of the connection.
    #[track_caller]
    pub fn try_get(&self, path: &str) -> Result<Answer, h2::Error> {
        let uri = format!("{}://{}{path}", self.scheme, self.authority);
        let request = http::Request::builder().uri(uri).body(()).unwrap();
        let mut send = self.wait(self.send.clone().ready())?;
        let (response, body) = send.send_request(request, true)?;
        self.end(Open { response, body })
    }

    /// Begins a tunnel for another protocol (RFC 8441).
    #[track_caller]
    pub fn open(&self, protocol: &'static str, path: &str) -> Open {
        let mut send = self.wait(self.send.clone().ready()).expect("a place for a stream");
        while !send.is_extended_connect_protocol_enabled() {
            // The server's settings are on their way.
            std::thread::yield_now();
        }
        let uri = format!("{}://{}{path}", self.scheme, self.authority);
        let request = http::Request::builder().method("CONNECT").uri(uri);
        let request = request.header("sec-websocket-version", "13");
        let mut request = request.body(()).unwrap();
        request.extensions_mut().insert(h2::ext::Protocol::from_static(protocol));
        let (response, body) = send.send_request(request, false).unwrap();
        Open { response, body }
    }

    /// Waits for something of this connection.
    #[track_caller]
    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        let waited = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await });
        waited.unwrap_or_else(|_| panic!("nothing came for {PATIENCE:?}"))
    }

    /// The head of the answer, and the stream of its content.
    #[track_caller]
    pub fn head(&self, open: Open) -> (http::response::Parts, RecvStream) {
        self.wait(open.response).expect("an answer").into_parts()
    }

    /// The next piece of an answer's content; None: the end.
    #[track_caller]
    pub fn piece(&self, content: &mut RecvStream) -> Option<Bytes> {
        let piece = self.wait(content.data())?.expect("a piece");
        content.flow_control().release_capacity(piece.len()).unwrap();
        Some(piece)
    }

    /// The whole answer, or the error that the stream ended with.
    #[track_caller]
    pub fn end(&self, open: Open) -> Result<Answer, h2::Error> {
        self.wait(async {
            let (head, mut content) = open.response.await?.into_parts();
            let mut body = Vec::new();
            while let Some(piece) = content.data().await {
                let piece = piece?;
                content.flow_control().release_capacity(piece.len())?;
                body.extend_from_slice(&piece);
            }
            let trailers = content.trailers().await?.unwrap_or_default();
            let fields = |map: &http::HeaderMap| {
                let text = |value: &http::HeaderValue| {
                    String::from_utf8_lossy(value.as_bytes()).into_owned()
                };
                Fields(map.iter().map(|(name, value)| (name.to_string(), text(value))).collect())
            };
            Ok(Answer {
                status_line: format!("HTTP/2 {}", head.status.as_u16()),
                status: head.status.as_u16(),
                fields: fields(&head.headers),
                body,
                trailers: fields(&trailers),
                chunked: false,
                interim: Vec::new(),
            })
        })
    }

    /// The answer to a request without a body.
    #[track_caller]
    pub fn ask(&self, method: &str, path: &str, fields: &[(&str, &str)]) -> Answer {
        let open = self.begin(method, path, fields, true);
        self.end(open).unwrap_or_else(|e| panic!("{method} {path}: {e}"))
    }

    /// The answer to a GET.
    #[track_caller]
    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[])
    }

    /// The answer to a request with a body.
    #[track_caller]
    pub fn post(&self, path: &str, fields: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut open = self.begin("POST", path, fields, false);
        self.send_all(&mut open.body, body);
        self.end(open).unwrap_or_else(|e| panic!("POST {path}: {e}"))
    }

    /// Sends a whole body, as windows allow.
    #[track_caller]
    pub fn send_all(&self, stream: &mut SendStream<Bytes>, body: &[u8]) {
        self.send_part(stream, body, true);
    }

    /// Sends a part of a body, as windows allow. `last`: it ends there.
    #[track_caller]
    pub fn send_part(&self, stream: &mut SendStream<Bytes>, mut body: &[u8], last: bool) {
        let empty = body.is_empty();
        while !body.is_empty() {
            stream.reserve_capacity(body.len());
            let room = self.wait(std::future::poll_fn(|cx| stream.poll_capacity(cx)));
            let room = room.expect("an open stream").expect("capacity").min(body.len());
            let piece = Bytes::copy_from_slice(&body[..room]);
            body = &body[room..];
            // The end in a frame of its own could come after the answer, on a closed stream.
            stream.send_data(piece, last && body.is_empty()).unwrap();
        }
        if last && empty {
            stream.send_data(Bytes::new(), true).unwrap();
        }
    }

    /// Waits for the end of the connection, and returns how it ended.
    #[track_caller]
    pub fn closed(self) -> Result<(), h2::Error> {
        let H2 { runtime, send, connection, .. } = self;
        drop(send);
        let ended = runtime.block_on(async { tokio::time::timeout(PATIENCE, connection).await });
        ended.expect("the connection ends").unwrap()
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}
