//! The scripted server.

use std::{cell::Cell, future::pending, net::Ipv4Addr, rc::Rc, time::Duration};

use socket2::SockRef;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::spawn_local,
};

/// A listener that runs one script per connection.
pub(super) struct Server {
    port: u16,
    accepted: Rc<Cell<usize>>,
}

impl Server {
    /// Listens; `script` gets each connection with its number, from 0. The connection is closed
    /// when the script ends.
    pub(super) async fn start<F>(script: F) -> Server
    where
        F: AsyncFn(usize, Peer) + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("bind");
        let port = listener.local_addr().expect("address").port();
        let accepted = Rc::new(Cell::new(0));
        let (script, counted) = (Rc::new(script), accepted.clone());
        spawn_local(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let number = counted.replace(counted.get() + 1);
                let script = script.clone();
                spawn_local(async move { script(number, Peer { tcp, buffer: Vec::new() }).await });
            }
        });
        Server { port, accepted }
    }

    /// Every connection: one request head, one fixed answer, then the end of the connection.
    pub(super) async fn answering(answer: impl Into<Vec<u8>>) -> Server {
        let answer = answer.into();
        Server::start(async move |_, mut peer: Peer| {
            peer.head().await;
            peer.send(&answer).await;
        })
        .await
    }

    /// Every connection: answers every request with the same, and stays open.
    pub(super) async fn keeping_alive(answer: impl Into<Vec<u8>>) -> Server {
        let answer = answer.into();
        Server::start(async move |_, mut peer: Peer| {
            while !peer.head().await.is_empty() {
                peer.send(&answer).await;
            }
        })
        .await
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Connections so far.
    pub(super) fn accepted(&self) -> usize {
        self.accepted.get()
    }
}

/// The server's end of one connection.
pub(super) struct Peer {
    tcp: TcpStream,
    buffer: Vec<u8>,
}

impl Peer {
    /// The next request head; empty when the connection ended instead.
    pub(super) async fn head(&mut self) -> String {
        self.until("\r\n\r\n").await
    }

    /// Everything to the end of the next `mark`; empty when the connection ended before it came.
    pub(super) async fn until(&mut self, mark: &str) -> String {
        loop {
            let found =
                self.buffer.windows(mark.len()).position(|window| window == mark.as_bytes());
            if let Some(start) = found {
                let taken: Vec<u8> = self.buffer.drain(..start + mark.len()).collect();
                return String::from_utf8(taken).expect("text");
            }
            if !self.more().await {
                return String::new();
            }
        }
    }

    /// Everything to the end of the connection, orderly or not.
    pub(super) async fn rest(&mut self) -> String {
        while self.more().await {}
        String::from_utf8(std::mem::take(&mut self.buffer)).expect("text")
    }

    async fn more(&mut self) -> bool {
        matches!(self.tcp.read_buf(&mut self.buffer).await, Ok(read) if read > 0)
    }

    pub(super) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // A client that is gone is what some tests want.
        let _ = self.tcp.write_all(bytes.as_ref()).await;
    }

    /// Sends one byte again and again, a little slower than it could, until the other side has
    /// enough.
    pub(super) async fn drip(&mut self, byte: u8) {
        while self.tcp.write_all(&[byte]).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Sends without pause until the other side has enough.
    pub(super) async fn flood(&mut self, bytes: &[u8]) {
        while self.tcp.write_all(bytes).await.is_ok() {}
    }

    /// Says nothing more, and stays.
    pub(super) async fn hang(self) {
        pending().await
    }

    /// Ends the connection with a reset.
    pub(super) fn reset(self) {
        SockRef::from(&self.tcp).set_linger(Some(Duration::ZERO)).expect("linger");
    }
}
