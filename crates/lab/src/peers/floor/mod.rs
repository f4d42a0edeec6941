//! A server that does nothing but send canned answers: what HTTP costs on this machine when nobody thinks. As a peer it is the
//! floor under all others; as an origin it is never in anybody's way.
//!
//! It serves [`pages`](super::pages), and at `/asked` says how many pages it has sent.

mod conn;
mod shelf;

use std::{
    io,
    mem::MaybeUninit,
    net::TcpListener,
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::{
    event::epoll::{self, CreateFlags, EventData, EventFlags},
    fd::OwnedFd,
    io::Errno,
};
use socket2::SockRef;

use conn::{Conn, Turn};
use shelf::Shelf;

/// Connections at once; further ones are closed. A bench has hundreds.
const CONNECTIONS: usize = 4096;
/// Events taken in one look.
const EVENTS: usize = 256;
/// What is in flight on a connection stays in the processor's cache: at 1 MB half the cost of the kernel's own 4 MB.
const SEND_BUFFER: usize = 256 << 10;
/// The listener among the connections' numbers.
const LISTENER: u64 = u64::MAX;

/// What a running floor tells, and hears.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Pages sent.
    pub(crate) asked: AtomicU64,
    /// 1: stop. Looked at after each event, so whoever sets it connects once.
    pub(crate) stop: AtomicU64,
}

struct Floor<'a> {
    listener: TcpListener,
    epoll: OwnedFd,
    conns: Vec<Option<Conn>>,
    free: Vec<usize>,
    shelf: Shelf,
    told: &'a Told,
}

/// Serves until told to stop. One thread, edge-triggered.
pub(crate) fn serve(listener: TcpListener, told: &Told) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let floor = Floor { listener, epoll, conns: Vec::new(), free: Vec::new(), shelf: Shelf::default(), told };
    floor.run()
}

impl Floor<'_> {
    fn run(mut self) -> io::Result<()> {
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        while self.told.stop.load(Ordering::Relaxed) == 0 {
            let (ready, _) = match epoll::wait(&self.epoll, &mut events[..], None) {
                Err(Errno::INTR) => continue,
                ready => ready?,
            };
            for event in ready {
                let (number, flags) = (event.data.u64(), event.flags);
                if number == LISTENER {
                    self.accept();
                } else {
                    self.turn(number as usize, flags);
                }
            }
        }
        Ok(())
    }

    /// Lets in whoever waits. Anything that fails is the client's loss: it will see its connection closed.
    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let number = self.free.pop().unwrap_or(self.conns.len());
            if number >= CONNECTIONS {
                continue;
            }
            let set = stream
                .set_nonblocking(true)
                .and_then(|()| stream.set_nodelay(true))
                .and_then(|()| SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER));
            let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            let added = epoll::add(&self.epoll, &stream, EventData::new_u64(number as u64), interest);
            if set.is_err() || added.is_err() {
                self.free.push(number);
                continue;
            }
            self.conns.resize_with(self.conns.len().max(number + 1), || None);
            self.conns[number] = Some(Conn::new(stream));
        }
    }

    fn turn(&mut self, number: usize, flags: EventFlags) {
        let Some(Some(conn)) = self.conns.get_mut(number) else { return };
        let gone = flags.intersects(EventFlags::ERR | EventFlags::HUP | EventFlags::RDHUP);
        if gone || conn.turn(flags.contains(EventFlags::IN), &mut self.shelf, &self.told.asked) == Turn::Close
        {
            self.conns[number] = None;
            self.free.push(number);
        }
    }
}
