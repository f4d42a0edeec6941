//! The first bytes of a connection: the header of a proxy, the handshake of TLS, the choice of
//! HTTP/2.

use std::{io, rc::Rc};

use crate::{
    clock::Ms,
    counters::Timing,
    http::{
        conn::{Conn, Todo, linger},
        h2::is_preface,
        refuse::{self, Answered},
        worker::Worker,
    },
    net::{
        slot::Next,
        socket::{Socket, Watch},
        stream::Stream,
        tls::TlsFailure,
    },
};

/// Answers a connection that is one too many. The answer is not lost to bytes that the client sent
/// meanwhile.
pub(crate) async fn refuse(worker: &Rc<Worker>, stream: Stream, watch: Rc<Watch>) {
    let mut answer = Vec::new();
    refuse::compose(
        &mut answer,
        worker.pages.clock.now(),
        503,
        "too many connections",
        Answered::UNREAD,
    );
    let _ = stream.try_write(&answer);
    let mut buffers = worker.conns.take_buffers();
    linger(worker, &Socket { stream, watch }, &mut buffers.buf).await;
    worker.conns.give_buffers(buffers);
}

/// Nothing more comes.
fn is_end(received: &io::Result<usize>) -> bool {
    match received {
        Ok(received) => *received == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}

impl Conn {
    /// Takes the header by which a proxy tells its client. An error: it is not there (yet).
    pub(super) fn take_proxy_header(&mut self) -> Result<(), Next<Todo>> {
        match self.socket.stream.take_proxy_header() {
            Ok(header) => {
                self.proxied = false;
                match header.source {
                    Some(source) => {
                        self.peer.address = source.client;
                        self.peer.secure |= source.secure;
                    }
                    None => self.peer.unnamed = !header.local,
                }
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(Next::Rest),
            Err(_) => {
                self.worker.pages.counters.proxy_failures.one();
                Err(Next::Close)
            }
        }
    }

    /// Counts a handshake that has ended. Returns the end of a connection that failed to have one.
    pub(super) fn look_at_tls(&mut self, received: &io::Result<usize>) -> Option<Next<Todo>> {
        let stream = &mut self.socket.stream;
        let counters = &self.worker.pages.counters;
        if let Some(handshake) = stream.take_handshake() {
            counters.tls_handshakes.one();
            self.peer.negotiated = handshake.negotiated;
            if handshake.negotiated.is_some_and(|negotiated| negotiated.resumed) {
                counters.tls_resumed.one();
            }
            if handshake.challenge {
                return Some(Next::Task(Todo::Close(Timing::default())));
            }
            self.peer.client = handshake.client.map(Rc::new);
            let h2 = handshake.h2;
            let limits = &self.worker.pages.config().settings.http.limits;
            let idle = limits.idle_timeout.as_millis() as Ms;
            self.socket.watch.wait_idle(self.worker.pages.clock.now() + idle);
            if h2 {
                self.begin_h2();
            }
        } else if let Err(error) = received
            && error.kind() == io::ErrorKind::InvalidData
        {
            counters.tls_failures.one(TlsFailure::of(error));
        } else if is_end(received) && stream.is_handshaking() {
            counters.tls_failures.one(TlsFailure::Closed);
        } else if stream.lacks_tls() && matches!(received, Ok(1..)) {
            counters.tls_failures.one(TlsFailure::NoTls);
            self.refuse(400, "this port speaks TLS: use https");
            return Some(Next::Task(Todo::Close(Timing::default())));
        }
        None
    }

    /// A client may speak HTTP/2 by prior knowledge (RFC 9113 section 3.3): its first bytes tell.
    pub(super) fn look_for_h2(&mut self) -> Next<Todo> {
        let received = self.buffers.as_ref().map_or(&[][..], |buffers| &buffers.buf);
        let Some(is_h2) = is_preface(received) else {
            let limits = &self.worker.pages.config().settings.http.limits;
            let patience = limits.header_timeout.as_millis() as Ms;
            self.socket.watch.wait_head(self.worker.pages.clock.now() + patience);
            return Next::Rest;
        };
        self.may_be_h2 = false;
        if is_h2 {
            self.begin_h2();
        }
        Next::Answer
    }
}
