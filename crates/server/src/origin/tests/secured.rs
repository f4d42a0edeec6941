//! Origins behind TLS.

use std::{
    future::poll_fn,
    io::{Read, Write},
    net::TcpListener,
    task::Poll,
    thread,
};

use bytes::BytesMut;
use rustls::{
    ServerConfig, ServerConnection, StreamOwned, crypto::aws_lc_rs, sign::SingleCertAndKey,
};
use tokio::task::yield_now;

use super::{
    super::{channel::Channel, connect::shake_hands, stream::Socket, tls::Tls},
    *,
};
use crate::settings::{Certificate, OriginTls};

/// Bytes of the answer that is sent in one record.
const RECORD: usize = 10_000;
/// Reads after which others have had their turn. (tokio allows a task 128.)
const TURN: usize = 1000;

/// Shakes hands with one client, sends it one record, and waits until it leaves. Its port.
fn server() -> u16 {
    let certificate = Certificate::self_signed().expect("a certificate");
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certificate.key)));
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let port = listener.local_addr().expect("address").port();
    thread::spawn(move || {
        let (tcp, _) = listener.accept().expect("a client");
        let tls = ServerConnection::new(Arc::new(config)).expect("a session");
        let mut stream = StreamOwned::new(tls, tcp);
        stream.write_all(&[b'x'; RECORD]).expect("sent");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    port
}

#[test]
fn content_that_is_there_leaves_others_their_turn() {
    worker(async {
        let settings = OriginSettings { port: server(), ..OriginSettings::default() };
        let any = OriginTls {
            name: "localhost".to_owned(),
            roots: Arc::new([]),
            verify: false,
            client: None,
        };
        let tls = Tls::new(&any).expect("TLS");
        let (channel, _) = Channel::open(&settings, None).await.expect("connection");
        let session = shake_hands(&tls, &channel).await.expect("handshake");
        let mut socket = Socket::new(channel, Some(Box::new(session)), Arc::default());
        socket.ask();
        poll_fn(|cx| socket.poll_write(cx, b"x")).await.expect("sent");
        let mut buf = BytesMut::new();
        poll_fn(|cx| socket.poll_read(cx, &mut buf, 1)).await.expect("the record is there");
        yield_now().await;
        let mut reads = 0;
        poll_fn(|cx| {
            while let Poll::Ready(read) = socket.poll_read(cx, &mut buf, 1) {
                assert_eq!(read.expect("a byte"), 1);
                reads += 1;
                assert!(reads < TURN, "it never waits");
            }
            Poll::Ready(())
        })
        .await;
        assert!(reads > 0);
    });
}
