//! A minimal server of canned answers: the cost of HTTP itself on this machine. As a peer it is the
//! floor under all other servers; as an origin it is never the bottleneck.
//!
//! It serves [`pages`](super::pages), and at `/pages_sent` the number of pages sent.

mod answers;
mod conn;

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

use answers::AnswerCache;
use conn::{Connection, Turn};

/// Most connections; further ones are closed. A bench has hundreds.
const CONNECTIONS: usize = 4096;
/// Most events taken at once.
const EVENTS: usize = 256;
/// Send buffer small enough to stay in the processor's cache: at 1 MB half the cost of the kernel's
/// default of 4 MB.
const SEND_BUFFER: usize = 256 << 10;
/// The listener's number among those of connections.
const LISTENER: u64 = u64::MAX;

/// Counter and stop flag shared with a running floor.
#[derive(Debug, Default)]
pub(crate) struct FloorState {
    /// Number of pages sent.
    pub(crate) pages_sent: AtomicU64,
    /// 1: stop. Checked after each event, so setting it is followed by a connection.
    pub(crate) stop: AtomicU64,
}

struct Floor<'a> {
    listener: TcpListener,
    epoll: OwnedFd,
    conns: Vec<Option<Connection>>,
    free: Vec<usize>,
    answers: AnswerCache,
    state: &'a FloorState,
}

/// Serves until stopped. One thread, edge-triggered.
pub(crate) fn serve(listener: TcpListener, state: &FloorState) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let floor = Floor {
        listener,
        epoll,
        conns: Vec::new(),
        free: Vec::new(),
        answers: AnswerCache::default(),
        state,
    };
    floor.run()
}

impl Floor<'_> {
    fn run(mut self) -> io::Result<()> {
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        while self.state.stop.load(Ordering::Relaxed) == 0 {
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

    /// Accepts waiting clients. On an error the client sees its connection closed.
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
            let added =
                epoll::add(&self.epoll, &stream, EventData::new_u64(number as u64), interest);
            if set.is_err() || added.is_err() {
                self.free.push(number);
                continue;
            }
            self.conns.resize_with(self.conns.len().max(number + 1), || None);
            self.conns[number] = Some(Connection::new(stream));
        }
    }

    fn turn(&mut self, number: usize, flags: EventFlags) {
        let Some(Some(conn)) = self.conns.get_mut(number) else { return };
        let gone = flags.intersects(EventFlags::ERR | EventFlags::HUP | EventFlags::RDHUP);
        if gone
            || conn.turn(flags.contains(EventFlags::IN), &mut self.answers, &self.state.pages_sent)
                == Turn::Close
        {
            self.conns[number] = None;
            self.free.push(number);
        }
    }
}
