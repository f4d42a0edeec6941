use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::Notify,
};

use super::*;

const SWITCHING: &str =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n";

fn websocket() -> Request {
    Request {
        headers: fields(&[("upgrade", "websocket")]),
        upgrade: true,
        ..request(Method::GET, "/ws")
    }
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
            peer.send(format!("{SWITCHING}early")).await;
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
        let mut tunnel = response.upgraded.take().expect("upgraded");
        assert_eq!(&tunnel.early[..], b"early");
        tunnel.stream.write_all(b"ping").await.expect("write");
        let mut answer = String::new();
        tunnel.stream.read_to_string(&mut answer).await.expect("read");
        assert_eq!(answer, "pong");
        drop(tunnel);
        assert_eq!(
            (origin.pool().available(), origin.pool().idle()),
            (1, 0),
            "a tunnel's connection is not kept"
        );
    });
}

#[test]
fn open_tunnels_leave_the_origin_to_other_requests() {
    worker(async {
        let server = Server::start(async |_, mut peer: Peer| {
            if peer.head().await.contains("upgrade: websocket") {
                peer.send(SWITCHING).await;
                peer.rest().await;
            } else {
                peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
            }
        })
        .await;
        let origin = origin_with(&server, |settings| {
            settings.max_connections = 1;
            settings.max_waiting = 0;
        });
        let mut tunnels = Vec::new();
        for _ in 0..3 {
            let mut response = origin.send(websocket(), None).await.expect("101");
            tunnels.push(response.upgraded.take().expect("upgraded"));
        }
        assert_eq!(origin.pool().available(), 1);
        let mut response = get(&origin, "/").await.expect("a page beside three tunnels");
        assert_eq!(read(&mut response).await.expect("content"), "ok");
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
fn a_tunnel_never_taken_is_closed() {
    worker(async {
        let ended = Rc::new(Notify::new());
        let tell = ended.clone();
        let server = Server::start(async move |_, mut peer: Peer| {
            peer.head().await;
            peer.send(SWITCHING).await;
            peer.rest().await;
            tell.notify_one();
        })
        .await;
        let response = origin(&server).send(websocket(), None).await.expect("101");
        drop(response);
        ended.notified().await;
    });
}
