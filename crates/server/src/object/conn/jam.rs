//! A client that does not take its answers as fast as they come.
//!
//! Usually it has to: at [`HIGH_WATER`](super::super::HIGH_WATER) bytes nothing more is taken up or
//! received until they are sent, so that it costs no more memory. But a client that sends a long
//! pipeline whole before it reads the first answer would wait for ever then, and the server for it.
//! Where a face lets it ([`Limits::gather`]), commands are taken up and their answers gathered
//! meanwhile, and when these are as many as may be, or pin too much of the store, commands are
//! received and kept as they are. A client that goes on longer has to read; it is closed when it
//! takes nothing of its answers for [`Limits::send`], whatever it sends, or when others need its
//! [`Room`](crate::room::Room).

use std::{
    future::{Future, poll_fn},
    io,
    pin::pin,
    rc::Rc,
    task::Poll,
};

use super::{
    Conn,
    batch::{Flushed, Took},
};
use crate::{
    net::{
        conns::{Conns, Group, IoBuffers},
        socket::{Ended, Mark, Pace, Socket},
    },
    object::{HIGH_WATER, Limits, Session, WINDOW},
    room::Held,
};

/// State of a jam, from its first unsent byte to the end of the batch.
pub(super) struct Jam {
    conns: Rc<Conns>,
    /// Bytes sent since it began.
    sent: u64,
    /// Bytes received since.
    received: u64,
    mark: Mark,
    /// The client has ended its side.
    eof: bool,
    /// There is no room for more than was counted.
    full: bool,
}

impl Jam {
    fn new(conns: Rc<Conns>) -> Box<Self> {
        Box::new(Jam { conns, sent: 0, received: 0, mark: None, eof: false, full: false })
    }

    /// Counts the bytes of the buffers. Where there is no room for what was received meanwhile,
    /// nothing is added to it.
    fn hold(&mut self, buffers: &IoBuffers, held: &mut Held) {
        self.full = !held.resize(buffers.memory());
    }

    /// Receives up to `room` bytes. Returns whether some came.
    fn receive(
        &mut self,
        buffers: &mut IoBuffers,
        socket: &Socket,
        room: usize,
    ) -> Result<bool, Ended> {
        make_room(buffers, room);
        match socket.stream.try_read_buf(&mut buffers.buf) {
            Ok(0) => self.eof = true,
            Ok(n) => {
                self.received += n as u64;
                return Ok(true);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return Err(Ended::Closed),
        }
        Ok(false)
    }

    /// May answers be gathered, and how many bytes may be received?
    fn room(&mut self, buffers: &IoBuffers, limits: &Limits, took: Took) -> (bool, usize) {
        let input = (buffers.buf.len() - buffers.at) as u64;
        let composed = buffers.out.composed();
        if took == Took::Last || self.full {
            return (false, 0);
        }
        // In the middle of an answer the session waits for what is composed to be sent.
        let answers =
            took != Took::Part && composed < limits.gather && buffers.out.pinned() <= HIGH_WATER;
        // A server that is stopping answers what has come, and no more comes.
        let ends = self.eof || self.conns.draining(Group::Objects);
        let reads = if ends { 0 } else { limits.gather.saturating_sub(input) };
        (answers, reads as usize)
    }
}

impl<S: Session> Conn<S> {
    /// Goes on where `error` ended a write of which `sent` bytes were taken. Returns when all is
    /// sent, or when there is something to do meanwhile. Ends early when the client is killed.
    #[cold]
    #[inline(never)]
    pub(super) async fn wait_for_client(
        &mut self,
        mut error: io::Error,
        mut sent: u64,
        limits: &Limits,
        took: Took,
    ) -> Result<Flushed, Ended> {
        let Conn {
            tracked,
            socket,
            session,
            client,
            buffers: Some(buffers),
            jam,
            streak,
            held,
            ..
        } = self
        else {
            return Err(Ended::Closed);
        };
        let conns = &tracked.conns;
        let jam = jam.get_or_insert_with(|| Jam::new(conns.clone()));
        jam.sent += sent;
        let mut received = false;
        jam.hold(buffers, held);
        if jam.full {
            // There is no room for the composed answers.
            held.close();
            return Err(Ended::Closed);
        }
        loop {
            let (gathers, room) = jam.room(buffers, limits, took);
            if gathers && (received || took == Took::Enough) {
                break;
            }
            // The bytes that the client takes count, not those left: these grow while more commands
            // are taken up.
            let (left, pinned) = (u64::MAX - jam.sent, || buffers.out.pinned());
            let mut pace = Pace::resume(conns.clock, limits.send, &conns.shared.stalled, jam.mark);
            let mut waited = false;
            {
                let mut ready = pin!(socket.ready_after(error, left, &pinned, &mut pace, room > 0));
                poll_fn(|cx| match ready.as_mut().poll(cx) {
                    Poll::Pending if client.is_killed() => Poll::Ready(Err(Ended::Closed)),
                    polled => {
                        waited |= polled.is_pending();
                        polled
                    }
                })
                .await?;
            }
            if jam.mark != pace.mark {
                client.moves(conns.clock.now());
            }
            jam.mark = pace.mark;
            if waited {
                *streak = (0, 0);
            }
            if room > 0 && jam.receive(buffers, socket, room)? {
                received = true;
                session.received();
            }
            let pending = buffers.out.pending();
            let result = buffers.out.send(&mut &socket.stream);
            let taken = pending - buffers.out.pending();
            (sent, jam.sent) = (sent + taken, jam.sent + taken);
            match result {
                Ok(()) => {
                    jam.mark = None;
                    break;
                }
                Err(unsent) => error = unsent,
            }
            jam.hold(buffers, held);
        }
        Ok(Flushed { sent, left: buffers.out.pending(), received })
    }

    /// The batch is answered. Returns the bytes received in the middle of it.
    pub(super) fn end_jam(&mut self) -> u64 {
        let Some(jam) = self.jam.take() else { return 0 };
        // A buffer that has grown is not kept for what comes next.
        self.filled = false;
        jam.received
    }
}

/// Makes place for a read of `room` bytes at the most: by dropping what is used up where that is
/// the most of the buffer, else by doubling it.
pub(super) fn make_room(buffers: &mut IoBuffers, room: usize) {
    if buffers.buf.capacity() - buffers.buf.len() >= WINDOW.min(room) {
        return;
    }
    if buffers.at > buffers.buf.len() / 2 {
        buffers.buf.drain(..buffers.at);
        buffers.at = 0;
    }
    buffers.buf.reserve_exact(buffers.buf.len().clamp(WINDOW, room.max(WINDOW)));
}
