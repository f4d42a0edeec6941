//! A client's byte stream: TCP or a unix socket, which differ in what is asked of them once only.

use std::{
    cell::RefCell,
    io::{self, IoSlice},
    mem::MaybeUninit,
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
    pin::Pin,
    rc::{Rc, Weak},
    sync::Arc,
    task::{Context, Poll, ready},
};

use larder_proto::proxy_protocol;
use rustix::{
    buffer::spare_capacity,
    fs::sendfile,
    io::Errno,
    net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, send, sendmsg},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    task::coop::poll_proceed,
};

use super::{
    out::Sink,
    reactor::{READ, Reactor, Readable, Registered, WRITE},
    tls::{Configs, Handshake, Session, Transport},
    turns::Turns,
};

/// Bytes sent without a wait after which others get their turn: a third of a millisecond. A client
/// that reads as fast as it is sent to would else hold its worker for as long as there is more.
pub(super) const TURN: u64 = 1 << 20;

/// Transport of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Tcp,
    Unix,
}

/// A connected client.
pub(crate) struct Stream {
    socket: Plain,
    /// None: bytes pass as they are.
    tls: Option<Box<RefCell<Session>>>,
}

/// A socket that is watched.
struct Plain {
    // Before the socket is closed and its number given to another.
    registered: Registered,
    socket: OwnedFd,
    kind: Kind,
}

impl Stream {
    /// The socket must not block.
    pub(crate) fn new(reactor: &Rc<Reactor>, socket: OwnedFd, kind: Kind) -> io::Result<Self> {
        let socket = Plain { registered: reactor.register(&socket)?, socket, kind };
        Ok(Self { socket, tls: None })
    }

    /// The socket under another number, and not watched any more, so that it can be closed here
    /// and live on elsewhere. `None`: it is TLS, whose state cannot be passed.
    pub(crate) fn detach(&self) -> Option<(OwnedFd, Kind)> {
        if self.tls.is_some() {
            return None;
        }
        let plain = &self.socket;
        let socket = rustix::io::fcntl_dupfd_cloexec(&plain.socket, 0).ok()?;
        plain.registered.forget(&plain.socket);
        Some((socket, plain.kind))
    }

    /// The same connection over TLS, before anything is received.
    pub(crate) fn secured(mut self, configs: &Arc<Configs>) -> io::Result<Self> {
        let session = Session::new(configs).map_err(io::Error::other)?;
        self.tls = Some(Box::new(RefCell::new(session)));
        Ok(self)
    }

    /// Takes the header of the PROXY protocol that the connection begins with, and nothing behind
    /// it. [`io::ErrorKind::WouldBlock`]: it is not whole yet.
    pub(crate) fn take_proxy_header(&self) -> io::Result<proxy_protocol::Header> {
        let mut bytes = [0; proxy_protocol::LONGEST];
        let header = self.socket.look(&mut bytes)?;
        self.socket.receive_into(&mut bytes[..header.len])?;
        Ok(header)
    }

    /// A handshake that has ended since the last call.
    pub(crate) fn take_handshake(&mut self) -> Option<Handshake> {
        self.tls.as_mut()?.get_mut().take_handshake()
    }

    /// A handshake of TLS has begun, or is to begin.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|session| session.borrow().is_handshaking())
    }

    /// Its bytes are those of TLS.
    pub(crate) fn is_secured(&self) -> bool {
        self.tls.is_some()
    }

    /// Bytes of parts of records and messages, and of sealed ones that wait for the client.
    pub(crate) fn tls_memory(&self) -> usize {
        self.tls.as_ref().map_or(0, |session| session.borrow().memory())
    }

    /// TLS has something to send that the socket did not take.
    pub(crate) fn has_unsent_tls(&self) -> bool {
        self.tls.as_ref().is_some_and(|session| session.borrow().has_unsent())
    }

    /// Sends it, as far as the socket takes it.
    pub(crate) fn try_flush_tls(&self) -> io::Result<()> {
        match &self.tls {
            None => Ok(()),
            Some(session) => session.borrow_mut().flush(&self.socket, false),
        }
    }

    /// The client speaks no TLS where it should.
    pub(crate) fn lacks_tls(&self) -> bool {
        self.tls.as_ref().is_some_and(|session| session.borrow().is_plain())
    }

    /// This one is told when something has come, before the task that waits.
    pub(crate) fn tell(&self, by: Weak<dyn Readable>) {
        self.socket.registered.source.tell(by);
    }

    /// The turns of its worker's tasks.
    pub(crate) fn turns(&self) -> &Turns {
        self.socket.registered.turns()
    }

    /// Forgets the tasks that wait for it.
    pub(crate) fn forget_wakers(&self) {
        self.socket.registered.source.forget_wakers();
    }

    /// The address it came in at (TCP).
    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        rustix::net::getsockname(&self.socket.socket).ok()?.try_into().ok()
    }

    pub(crate) fn poll_read_ready(&self, cx: &Context<'_>) -> Poll<()> {
        self.poll_ready(READ, cx)
    }

    pub(crate) fn poll_write_ready(&self, cx: &Context<'_>) -> Poll<()> {
        self.poll_ready(WRITE, cx)
    }

    /// Is a read worth a try?
    pub(crate) fn is_read_ready(&self) -> bool {
        self.socket.registered.source.is_ready(READ) || self.is_tls_ready()
    }

    fn is_tls_ready(&self) -> bool {
        self.tls.as_ref().is_some_and(|session| session.borrow().is_ready())
    }

    fn poll_ready(&self, what: u8, cx: &Context<'_>) -> Poll<()> {
        if what == READ && self.is_tls_ready() {
            return Poll::Ready(());
        }
        self.socket.registered.source.poll(what, cx)
    }

    /// Appends what can be received to `buf`, as far as it has room (some is made if there is
    /// none); 0 is the end. A read that does not fill it says that there is no more: the next one
    /// waits for readiness instead of asking the system in vain. Over TLS more than its room may
    /// come.
    pub(crate) fn try_read_buf(&self, buf: &mut Vec<u8>) -> io::Result<usize> {
        buf.reserve(1);
        match &self.tls {
            None => self.socket.receive(buf),
            Some(session) => session.borrow_mut().read(&self.socket, buf),
        }
    }

    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.try_send(&[IoSlice::new(bytes)])
    }

    /// One write of all `slices`, or of what it takes of them.
    pub(crate) fn try_send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.send_with(slices, false)
    }

    #[inline]
    fn send_with(&self, slices: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        match &self.tls {
            None => self.socket.send_with(slices, more),
            Some(session) => session.borrow_mut().send(&self.socket, slices, more),
        }
    }

    /// Appends what can be received to `buf`, when there is something.
    pub(crate) fn poll_read_buf(
        &self,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        self.poll_when(READ, cx, || self.try_read_buf(buf))
    }

    /// Tries it whenever that is worth a try. A task that never has to wait leaves others their
    /// turn all the same.
    fn poll_when<T>(
        &self,
        what: u8,
        cx: &mut Context<'_>,
        mut attempt: impl FnMut() -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        let turn = ready!(poll_proceed(cx));
        loop {
            ready!(self.poll_ready(what, cx));
            match attempt() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => {
                    turn.made_progress();
                    return Poll::Ready(done);
                }
            }
        }
    }

    /// Waits for a byte and does not take it; false: the end.
    pub(crate) fn poll_peek(&self, cx: &Context<'_>) -> Poll<io::Result<bool>> {
        loop {
            ready!(self.poll_read_ready(cx));
            let peeked = match &self.tls {
                None => self.socket.peek(),
                Some(session) => session.borrow_mut().peek(&self.socket),
            };
            match peeked {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                peeked => return Poll::Ready(peeked),
            }
        }
    }

    /// Acknowledges what was received at once, not with the next answer.
    pub(crate) fn acknowledge(&self) {
        if self.socket.kind == Kind::Tcp {
            // It is an optimisation: without it the connection works as well, only later.
            let _ = rustix::net::sockopt::set_tcp_quickack(&self.socket.socket, true);
        }
    }

    /// Ends the sending side.
    pub(crate) fn finish(&self) -> io::Result<()> {
        if let Some(session) = self.tls.as_ref() {
            session.borrow_mut().close(&self.socket);
        }
        Ok(rustix::net::shutdown(&self.socket.socket, Shutdown::Write)?)
    }

    /// When it is closed the peer is told that it broke off.
    pub(crate) fn reset_on_close(&self) {
        if let Some(session) = &self.tls {
            session.borrow_mut().abandon();
        }
        let now = Some(std::time::Duration::ZERO);
        let _ = socket2::SockRef::from(&self.socket.socket.as_fd()).set_linger(now);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // After a panic its state may be anything.
        if let Some(session) = &self.tls
            && !std::thread::panicking()
        {
            session.borrow_mut().close(&self.socket);
        }
    }
}

impl Plain {
    fn received(&self, received: Result<usize, Errno>, room: usize) -> io::Result<usize> {
        if received.is_err_and(is_none) || received.is_ok_and(|received| received < room) {
            self.registered.source.none_left(READ);
        }
        Ok(received?)
    }

    fn receive_into(&self, buf: &mut [u8]) -> io::Result<usize> {
        let room = buf.len();
        self.received(recv(&self.socket, buf, RecvFlags::empty()).map(|got| got.0), room)
    }

    /// Reads a header without taking it.
    fn look(&self, bytes: &mut [u8]) -> io::Result<proxy_protocol::Header> {
        let received = match recv(&self.socket, &mut *bytes, RecvFlags::PEEK) {
            Err(error) if is_none(error) => None,
            received => Some(received?.0).filter(|received| *received > 0),
        };
        match proxy_protocol::parse(&bytes[..received.unwrap_or(0)]) {
            Ok(proxy_protocol::Parsed::Complete(header)) => Ok(header),
            Ok(proxy_protocol::Parsed::Partial) => {
                self.registered.source.none_left(READ);
                // Readiness that stays is that of the end.
                let ended = self.registered.source.is_ready(READ);
                Err(if ended { io::ErrorKind::UnexpectedEof } else { io::ErrorKind::WouldBlock })?
            }
            Err(proxy_protocol::Malformed) => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn peek(&self) -> io::Result<bool> {
        let mut byte = [MaybeUninit::uninit(); 1];
        let peeked = recv(&self.socket, &mut byte, RecvFlags::PEEK);
        if peeked.as_ref().is_err_and(|error| is_none(*error)) {
            self.registered.source.none_left(READ);
        }
        Ok(peeked?.1 > 0)
    }

    /// A single slice goes without the price of a list. A list by `sendmsg`: 1.5 to 2.5 % less for
    /// three slices of 100 B to 10 KB than `writev`, which asks what files need.
    #[inline]
    fn send_with(&self, slices: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        // Where the next write follows at once, it is to leave together with these.
        let more = if more { SendFlags::MORE } else { SendFlags::empty() };
        let flags = SendFlags::NOSIGNAL | more;
        self.sent(match slices {
            [one] => send(&self.socket, one, flags),
            many => sendmsg(&self.socket, many, &mut SendAncillaryBuffer::default(), flags),
        })
    }

    /// Sends of a file without copying it: see [`super::sendfile`].
    fn send_file(&self, file: &OwnedFd, from: u64, len: u64) -> io::Result<usize> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        match self.sent(sendfile(&self.socket, file, Some(&mut { from }), len))? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            sent => Ok(sent),
        }
    }

    fn sent(&self, sent: Result<usize, Errno>) -> io::Result<usize> {
        if sent.is_err_and(is_none) {
            self.registered.source.none_left(WRITE);
        }
        Ok(sent?)
    }
}

impl Transport for Plain {
    fn receive(&self, into: &mut Vec<u8>) -> io::Result<usize> {
        let room = into.capacity() - into.len();
        let received = recv(&self.socket, spare_capacity(into), RecvFlags::empty());
        self.received(received.map(|(received, _)| received), room)
    }

    fn is_ready(&self) -> bool {
        self.registered.source.is_ready(READ)
    }

    fn send(&self, bytes: &[u8], more: bool) -> io::Result<usize> {
        self.send_with(&[IoSlice::new(bytes)], more)
    }
}

/// Nothing is there, or nothing fits.
fn is_none(error: Errno) -> bool {
    error == Errno::AGAIN
}

impl Sink for &Stream {
    type Error = io::Error;

    #[inline]
    fn send(&mut self, slices: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        self.send_with(slices, more)
    }

    fn send_file(&mut self, file: &OwnedFd, from: u64, len: u64) -> io::Result<usize> {
        match &self.tls {
            None => self.socket.send_file(file, from, len),
            Some(session) => session.borrow_mut().send_file(&self.socket, file, from, len),
        }
    }

    #[inline]
    fn took(&self, bytes: u64) -> io::Result<()> {
        if bytes < TURN { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }
}

impl AsyncRead for &Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_when(READ, cx, || {
            let into = buf.initialize_unfilled();
            let received = match &self.tls {
                None => self.socket.receive_into(into),
                Some(session) => session.borrow_mut().read_some(&self.socket, into),
            }?;
            buf.advance(received);
            Ok(())
        })
    }
}

impl AsyncWrite for &Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_when(WRITE, cx, || self.try_write(bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.finish())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        io::{Read, Write},
        os::unix::net::UnixStream,
    };

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        task::{LocalSet, spawn_local},
    };

    use super::*;
    use crate::clock::Clock;

    /// Runs a test with a reactor that runs.
    fn run<F: Future<Output = ()>>(test: impl FnOnce(Rc<Reactor>) -> F) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        LocalSet::new().block_on(&runtime, async {
            let reactor = Reactor::new(Clock::start()).expect("a reactor");
            let runs = reactor.clone();
            spawn_local(async move { runs.run().await });
            test(reactor).await;
        });
    }

    fn pair(reactor: &Rc<Reactor>) -> (UnixStream, Stream) {
        let (far, near) = UnixStream::pair().expect("a pair");
        near.set_nonblocking(true).expect("a flag");
        (far, Stream::new(reactor, near.into(), Kind::Unix).expect("registered"))
    }

    fn is_ready(poll: Poll<()>) -> bool {
        poll.is_ready()
    }

    #[test]
    fn a_short_read_ends_readiness_until_more_comes_and_the_end_stays() {
        run(|reactor| async move {
            let (mut far, near) = pair(&reactor);
            let idle = Context::from_waker(std::task::Waker::noop());
            assert!(
                !is_ready(near.poll_read_ready(&idle)) && is_ready(near.poll_write_ready(&idle))
            );
            for word in ["one", "two"] {
                far.write_all(word.as_bytes()).expect("sent");
                poll_fn(|cx| near.poll_read_ready(cx)).await;
                let mut got = Vec::with_capacity(64);
                assert_eq!(
                    (near.try_read_buf(&mut got).expect("read"), &got[..]),
                    (3, word.as_bytes())
                );
                assert!(!is_ready(near.poll_read_ready(&idle)), "all is read");
            }
            far.write_all(b"last").expect("sent");
            drop(far);
            poll_fn(|cx| near.poll_read_ready(cx)).await;
            let mut got = Vec::with_capacity(64);
            let reads: Vec<_> =
                (0..3).map(|_| near.try_read_buf(&mut got).expect("read")).collect();
            assert_eq!(reads, [4, 0, 0]);
            assert!(is_ready(near.poll_read_ready(&idle)), "the end is read as often as one likes");
        });
    }

    #[test]
    fn who_sends_more_than_fits_is_told_when_it_fits_again() {
        run(|reactor| async move {
            let (mut far, near) = pair(&reactor);
            let all = vec![b'x'; 4 << 20];
            let reader = std::thread::spawn(move || {
                let mut got = Vec::new();
                far.read_to_end(&mut got).map(|_| got.len())
            });
            (&near).write_all(&all).await.expect("sent");
            (&near).shutdown().await.expect("ended");
            assert_eq!(reader.join().expect("the reader").expect("read"), all.len());
        });
    }

    #[test]
    fn a_place_is_given_to_the_next_and_what_comes_is_his() {
        run(|reactor| async move {
            let (mut old, near) = pair(&reactor);
            old.write_all(b"for nobody").expect("sent");
            drop(near);
            for _ in 0..3 {
                let (mut far, near) = pair(&reactor);
                far.write_all(b"word").expect("sent");
                let mut got = [0; 4];
                (&near).read_exact(&mut got).await.expect("read");
                assert_eq!(&got, b"word");
            }
            let (mut far, near) = pair(&reactor);
            let mut many: Vec<_> = (0..200).map(|_| pair(&reactor)).collect();
            many.iter_mut().for_each(|(far, _)| far.write_all(b"y").expect("sent"));
            far.write_all(b"z").expect("sent");
            for (_, near) in &many {
                assert_eq!((&*near).read_u8().await.expect("read"), b'y');
            }
            assert_eq!((&near).read_u8().await.expect("read"), b'z');
        });
    }

    #[test]
    fn a_look_at_what_is_there_takes_nothing() {
        run(|reactor| async move {
            let (mut far, near) = pair(&reactor);
            far.write_all(b"word").expect("sent");
            assert!(poll_fn(|cx| near.poll_peek(cx)).await.expect("a look"));
            let mut got = [0; 4];
            (&near).read_exact(&mut got).await.expect("read");
            drop(far);
            assert!(!poll_fn(|cx| near.poll_peek(cx)).await.expect("a look"), "the end");
        });
    }
}
