//! Non-blocking sockets.

use std::{io, os::fd::AsFd};

use rustix::{
    event::epoll,
    io::Errno,
    net::{RecvFlags, SendFlags, recv, send},
};
use socket2::{Domain, SockAddr, Socket as Raw, Type};

use super::Address;

/// A non-blocking stream to a server.
pub(super) struct Socket(Raw);

impl Socket {
    /// Starts connecting. True: already connected.
    pub(super) fn dial(address: &Address) -> io::Result<(Socket, bool)> {
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
        Ok((Socket(raw), connected))
    }

    /// The result of connecting.
    pub(super) fn connected(&self) -> io::Result<()> {
        self.0.take_error()?.map_or(Ok(()), Err)
    }

    /// `Ok(None)`: nothing to read now.
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
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
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        loop {
            match send(&self.0, bytes, SendFlags::NOSIGNAL) {
                Ok(sent) => return Ok(Some(sent)),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Registers with `poll` for reading under this number and, if `sending`, for writing.
    ///
    /// Edge-triggered, so that each event is reported once. Writability is requested only after a
    /// short write: a unix socket would report it with every answer.
    pub(super) fn watch(
        &self,
        poll: impl AsFd,
        number: usize,
        sending: bool,
        first: bool,
    ) -> io::Result<()> {
        let mut what = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        what.set(epoll::EventFlags::OUT, sending);
        let data = epoll::EventData::new_u64(number as u64);
        let done = if first {
            epoll::add(poll, &self.0, data, what)
        } else {
            epoll::modify(poll, &self.0, data, what)
        };
        Ok(done?)
    }
}
