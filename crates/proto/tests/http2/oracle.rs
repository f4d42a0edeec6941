//! Random conversations with the client of another implementation (`h2`) over a pipe in memory.

use std::collections::HashMap;

use bytes::Bytes;
use larder_proto::http2::{Connection, ErrorCode, Event, Fields, Limits, Sent, Workspace};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

/// One exchange: what the client sends, and how the server answers.
#[derive(Clone, Debug)]
struct Exchange {
    path: String,
    fields: Vec<(String, String)>,
    body: Vec<usize>,
    trailers: bool,
    answer: Vec<(String, String)>,
    answer_length: usize,
}

/// A body of which every byte depends on its place.
fn bytes_of(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n % 251) as u8).collect()
}

/// A server that answers the exchange whose number is in the path with what it is told.
struct Server {
    conn: Connection,
    limits: Limits,
    work: Workspace,
    out: Vec<u8>,
    exchanges: Vec<Exchange>,
    /// Number of the exchange, and bytes received.
    bodies: HashMap<u32, (usize, Vec<u8>)>,
    /// Bytes still to send.
    sending: HashMap<u32, Vec<u8>>,
}

impl Server {
    fn new(limits: Limits, exchanges: Vec<Exchange>) -> Server {
        let mut out = Vec::new();
        let conn = Connection::new(&limits, &mut out);
        let (work, bodies, sending) = (Workspace::default(), HashMap::new(), HashMap::new());
        Server { conn, limits, work, out, exchanges, bodies, sending }
    }

    async fn run(mut self, mut pipe: DuplexStream) {
        let mut input = Vec::new();
        loop {
            let used = self.take(&input);
            input.drain(..used);
            self.send();
            if !self.out.is_empty() {
                if pipe.write_all(&self.out).await.is_err() {
                    return;
                }
                self.out.clear();
                self.conn.flushed();
            }
            if !matches!(pipe.read_buf(&mut input).await, Ok(1..)) {
                return;
            }
        }
    }

    fn take(&mut self, input: &[u8]) -> usize {
        let mut at = 0;
        loop {
            let rest = &input[at..];
            let step = self.conn.receive(rest, &self.limits, &mut self.work, &mut self.out);
            at += step.used;
            match step.event {
                Event::More { .. } => return at,
                Event::Request(request) => {
                    let number = self.check_head();
                    self.bodies.insert(request.stream, (number, Vec::new()));
                    if request.end {
                        self.answer(request.stream);
                    }
                }
                Event::Data { stream, range, end } => {
                    let length = range.len();
                    self.bodies.get_mut(&stream).unwrap().1.extend_from_slice(&rest[range]);
                    self.conn.consumed(stream, length, &self.limits, &mut self.out);
                    if end {
                        self.answer(stream);
                    }
                }
                Event::Trailers { stream } => {
                    assert_eq!(self.work.head, b"x-trailer: of the client\r\n");
                    self.answer(stream);
                }
                Event::Writable => {}
                // The client is done.
                Event::GoAway { code: ErrorCode::NO_ERROR } => {}
                event => panic!("{event:?}"),
            }
        }
    }

    /// Compares the head with what the client was told to send.
    fn check_head(&self) -> usize {
        let head = std::str::from_utf8(&self.work.head).unwrap();
        let (line, fields) = head.split_once("\r\n").unwrap();
        let path = line.split(' ').nth(1).unwrap();
        let number: usize = path.split('/').nth(1).unwrap().parse().unwrap();
        let exchange = &self.exchanges[number];
        assert_eq!(path, exchange.path);
        let mut seen: Vec<_> = fields.lines().filter_map(|line| line.split_once(": ")).collect();
        assert_eq!(seen.remove(0), ("host", "a.example"));
        seen.retain(|field| field.0 != "transfer-encoding" && field.0 != "content-length");
        let mut expected: Vec<_> =
            exchange.fields.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        // The client groups lines of one name.
        seen.sort_unstable();
        expected.sort_unstable();
        assert_eq!(seen, expected);
        number
    }

    fn answer(&mut self, stream: u32) {
        let (number, body) = self.bodies.remove(&stream).unwrap();
        let exchange = &self.exchanges[number];
        assert_eq!(body, bytes_of(exchange.body.iter().sum()));
        let fields = exchange.answer.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        let head: String = fields.collect();
        let body = bytes_of(exchange.answer_length);
        let end = body.is_empty();
        let lines = [Fields::Lines(head.as_bytes()), Fields::Lines(b"Connection: close\r\n")];
        let sent = self.conn.respond(stream, 200, &lines, end, &self.limits, &mut self.out);
        assert_eq!(sent, if end { Sent::Done } else { Sent::Open });
        if !end {
            self.sending.insert(stream, body);
            self.conn.wants_to_send(stream, true);
        }
    }

    fn send(&mut self) {
        while let Some(stream) = self.conn.next() {
            let body = self.sending.get_mut(&stream).unwrap();
            let length = self.conn.sendable(stream, &self.limits).min(body.len());
            let end = length == body.len();
            let sent = self.conn.data_frame(stream, length, end, &self.limits, &mut self.out);
            assert_eq!(sent, if end { Sent::Done } else { Sent::Open });
            self.out.extend(body.drain(..length));
        }
    }
}

type ClientError = Box<dyn std::error::Error + Send + Sync>;

async fn ask(
    client: h2::client::SendRequest<Bytes>,
    exchange: Exchange,
) -> Result<(), ClientError> {
    let mut client = client.ready().await?;
    let mut request = http::Request::builder()
        .method(if exchange.body.is_empty() { "GET" } else { "POST" })
        .uri(format!("http://a.example{}", exchange.path));
    for (name, value) in &exchange.fields {
        request = request.header(name, value);
    }
    let (response, mut body) = client.send_request(request.body(())?, exchange.body.is_empty())?;
    let bytes = Bytes::from(bytes_of(exchange.body.iter().sum()));
    let mut at = 0;
    for (n, length) in exchange.body.iter().enumerate() {
        let last = n + 1 == exchange.body.len() && !exchange.trailers;
        body.send_data(bytes.slice(at..at + length), last)?;
        at += length;
    }
    if exchange.trailers && !exchange.body.is_empty() {
        let mut trailers = http::HeaderMap::new();
        trailers.insert("x-trailer", http::HeaderValue::from_static("of the client"));
        body.send_trailers(trailers)?;
    }
    let (head, mut body) = response.await?.into_parts();
    assert_eq!(head.headers.len(), exchange.answer.len());
    let mut lines: Vec<_> = exchange.answer.clone();
    for (name, value) in &head.headers {
        let found =
            lines.iter().position(|(n, v)| n.eq_ignore_ascii_case(name.as_str()) && v == value);
        lines.remove(found.expect("a field that was sent"));
    }
    let mut received = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece?;
        received.extend_from_slice(&piece);
        body.flow_control().release_capacity(piece.len())?;
    }
    assert_eq!(received, bytes_of(exchange.answer_length));
    Ok(())
}

async fn converse(limits: Limits, window: u32, table: u32, pipe: usize, exchanges: Vec<Exchange>) {
    let (near, far) = duplex(pipe);
    let server = tokio::spawn(Server::new(limits, exchanges.clone()).run(far));
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(window).header_table_size(table).enable_push(false);
    let (client, connection) = builder.handshake::<_, Bytes>(near).await.unwrap();
    let connection = tokio::spawn(connection);
    let asking: Vec<_> =
        exchanges.into_iter().map(|exchange| tokio::spawn(ask(client.clone(), exchange))).collect();
    drop(client);
    for asked in asking {
        asked.await.unwrap().unwrap();
    }
    connection.await.unwrap().unwrap();
    server.await.unwrap();
}

prop_compose! {
    fn fields(names: &'static [&'static str])(
        of in prop::collection::vec(
            (prop::sample::select(names), "[!-~]([ -~]{0,60}[!-~])?|[a-c]"), 0..10),
    ) -> Vec<(String, String)> {
        of.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

const ASKED: &[&str] = &["accept", "user-agent", "x-a", "x-b", "if-none-match", "authorization"];
const ANSWERED: &[&str] =
    &["Server", "Content-Type", "ETag", "X-A", "Set-Cookie", "Cache-Status", "Via"];

prop_compose! {
    fn exchange()(
        path in "[a-z0-9/?=&]{0,30}",
        fields in fields(ASKED),
        body in prop_oneof![Just(Vec::new()), prop::collection::vec(1_usize..40_000, 1..4)],
        trailers: bool,
        answer in fields(ANSWERED),
        answer_length in prop_oneof![Just(0), 1_usize..100, 1_usize..200_000],
    ) -> Exchange {
        Exchange { path, fields, body, trailers, answer, answer_length }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn conversations_with_another_implementation(
        mut exchanges in prop::collection::vec(exchange(), 1..12),
        window in 1_u32..100_000,
        table in 0_u32..10_000,
        pipe in 100_usize..50_000,
        stream_window in prop_oneof![100_u32..1000, 1000_u32..1_000_000],
        concurrent_streams in 1_u32..20,
        encoder_table_bytes in 0_u32..5000,
    ) {
        for (n, exchange) in exchanges.iter_mut().enumerate() {
            exchange.path = format!("/{n}/{}", exchange.path);
        }
        let limits =
            Limits { stream_window, concurrent_streams, encoder_table_bytes, ..Limits::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(converse(limits, window, table, pipe, exchanges));
    }
}
