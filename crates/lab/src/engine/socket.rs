//! Non-blocking sockets.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
};

use rustix::{
    event::epoll,
    io::Errno,
    net::{RecvFlags, SendFlags, recv, send},
};
use socket2::{Domain, SockAddr, Socket as Raw, Type};

use super::{
    Address, HttpVersion,
    tls::{Session, Tls},
};

/// A connection to a server, with or without TLS.
pub(super) struct Socket {
    stream: Stream,
    tls: Option<Box<Session>>,
}

/// A non-blocking stream.
pub(super) struct Stream(Raw);

impl Socket {
    /// Starts connecting. True: already connected.
    pub(super) fn dial(address: &Address, tls: Option<&Tls>) -> io::Result<(Socket, bool)> {
        let (stream, connected) = Stream::dial(address)?;
        let tls = tls.map(|tls| tls.session().map(Box::new)).transpose()?;
        Ok((Socket { stream, tls }, connected))
    }

    /// The result of connecting. True: bytes of requests can be sent.
    pub(super) fn connected(&mut self, version: HttpVersion) -> io::Result<bool> {
        self.stream.0.take_error()?.map_or(Ok(()), Err)?;
        match &mut self.tls {
            Some(tls) => tls.shake(&self.stream, version),
            None => Ok(true),
        }
    }

    pub(super) fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether the connection ended in a way that others could have caused.
    pub(super) fn was_cut(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.was_cut())
    }

    /// `Ok(None)`: nothing to read now.
    #[inline]
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match &mut self.tls {
            None => self.stream.receive(buffer),
            Some(tls) => tls.read(&self.stream, buffer),
        }
    }

    /// `Ok(None)`: the socket accepts no more now.
    #[inline]
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        match &mut self.tls {
            None => self.stream.send(bytes),
            Some(tls) => tls.write(&self.stream, bytes),
        }
    }

    /// Sends what TLS still has. True: all of it.
    #[inline]
    pub(super) fn drain(&mut self) -> io::Result<bool> {
        self.tls.as_mut().map_or(Ok(true), |tls| tls.drain(&self.stream))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.0.as_fd()
    }
}

/// Registers a socket with `poll` for reading under this number and, if `sending`, for writing.
///
/// Edge-triggered, so that each event is reported once. Writability is requested only after a
/// short write: a unix socket would report it with every answer.
pub(super) fn watch(
    socket: impl AsFd,
    poll: impl AsFd,
    number: usize,
    sending: bool,
    first: bool,
) -> io::Result<()> {
    let mut what = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
    what.set(epoll::EventFlags::OUT, sending);
    let data = epoll::EventData::new_u64(number as u64);
    let done = if first {
        epoll::add(poll, socket, data, what)
    } else {
        epoll::modify(poll, socket, data, what)
    };
    Ok(done?)
}

impl Stream {
    fn dial(address: &Address) -> io::Result<(Stream, bool)> {
        let (domain, to) = match address {
            Address::Tcp(to) => (Domain::for_address(*to), SockAddr::from(*to)),
            Address::Unix(path) => (Domain::UNIX, SockAddr::unix(path)?),
        };
        let raw = Raw::new(domain, Type::STREAM, None)?;
        raw.set_nonblocking(true)?;
        if matches!(address, Address::Tcp(_)) {
            raw.set_tcp_nodelay(true)?;
        }
        let connected = match raw.connect(&to) {
            Ok(()) => true,
            Err(error) if error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => false,
            Err(error) => return Err(error),
        };
        Ok((Stream(raw), connected))
    }

    /// `Ok(None)`: nothing to read now.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match recv(&self.0, &mut *buffer, RecvFlags::empty()) {
                Ok((taken, _)) => return Ok(Some(taken)),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// `Ok(None)`: the socket accepts no more now.
    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        loop {
            match send(&self.0, bytes, SendFlags::NOSIGNAL) {
                Ok(sent) => return Ok(Some(sent)),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
