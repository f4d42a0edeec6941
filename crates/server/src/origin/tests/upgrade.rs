use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{super::tunnel, *};

fn websocket() -> Request {
    Request { headers: fields(&[("upgrade", "websocket")]), upgrade: true, ..request(Method::GET, "/ws") }
}

#[test]
fn an_upgraded_connection_is_a_tunnel() {
    worker(async {
        let server = Server::start(async |_, mut peer: Peer| {
            let head = peer.head().await;
            assert!(
                head.contains("connection: upgrade\r\n") && head.contains("upgrade: websocket\r\n"),
                "{head}"
            );
            peer.send(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\nearly",
            )
            .await;
            assert_eq!(peer.until("ping").await, "ping");
            peer.send("pong").await;
        })
        .await;
        let origin = origin_with(&server, |settings| settings.max_connections = 1);
        let mut response = origin.send(websocket(), None).await.expect("101");
        assert_eq!(
            (response.status, &response.headers["upgrade"]),
            (101, &HeaderValue::from_static("websocket"))
        );
        assert_eq!(read(&mut response).await.expect("no content"), "");
        let mut tunnel = tunnel(response.upgraded.take().expect("upgraded")).await.expect("tunnel");
        assert_eq!(&tunnel.early[..], b"early");
        tunnel.stream.write_all(b"ping").await.expect("write");
        let mut answer = String::new();
        tunnel.stream.read_to_string(&mut answer).await.expect("read");
        assert_eq!(answer, "pong");
        drop(response);
        assert_eq!(origin.pool.available(), 0, "a tunnel counts as a connection");
        drop(tunnel);
        assert_eq!((origin.pool.available(), origin.pool.idle()), (1, 0));
    });
}

#[test]
fn a_refused_upgrade_is_a_response_like_any_other() {
    worker(async {
        let server = Server::answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno").await;
        let mut response = origin(&server).send(websocket(), None).await.expect("response");
        assert!(response.upgraded.is_none());
        assert_eq!(read(&mut response).await.expect("content"), "no");
    });
}

#[test]
fn a_tunnel_never_taken_frees_its_place() {
    worker(async {
        let server = Server::start(async |_, mut peer: Peer| {
            peer.head().await;
            peer.send(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
            )
            .await;
            peer.rest().await;
        })
        .await;
        let origin = origin_with(&server, |settings| settings.max_connections = 1);
        for _ in 0..3 {
            let response = origin.send(websocket(), None).await.expect("101");
            drop(response);
        }
        assert_eq!(server.accepted(), 3);
    });
}
