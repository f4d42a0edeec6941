//! Bodies that stream past the store: the memory they take, and the origin's connection.
//!
//! A client that is slower than the origin holds the piece that is sent to it and the buffer that
//! it is part of. A short body is read ahead, so that the origin is free again, while the account
//! of all clients ([`crate::room`]) has plenty of room. A client that stands still and keeps the
//! origin's connection is one of few of its address.

use std::{
    collections::VecDeque,
    net::IpAddr,
    pin::{Pin, pin},
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use tokio::time::sleep;

use crate::{
    http::exchange::Exchange,
    net::{
        conns::BUFFER,
        socket::{Ended, STALLED_AFTER},
    },
    origin::{Body, LONGEST_PIECE, OriginError},
    request::pages::Pages,
    room::{Held, Place},
    wire::Wire,
};

/// Memory of the piece that is sent, and of what was read with it.
const PIECES: usize = 2 * LONGEST_PIECE;
/// Bodies up to this many bytes are read ahead.
const AHEAD: usize = 1 << 20;

/// Bytes of memory that a piece takes besides its content.
const PIECE: usize = 64;

/// Memory that is counted while a piece of so many bytes is sent. A short one is within what a busy
/// connection may take anyway.
fn memory(piece: usize) -> usize {
    if piece <= BUFFER { 0 } else { PIECES }
}

/// Memory that a client takes for a body that does not lie in the store.
pub(super) struct Passing<'a> {
    wire: Wire<'a>,
    pages: &'a Rc<Pages>,
    held: Option<Held>,
}

impl<'a> Passing<'a> {
    pub(super) fn new(wire: Wire<'a>, exchange: &Exchange<'a, '_>) -> Self {
        Self { wire, pages: exchange.request.pages, held: None }
    }

    fn held(&mut self) -> &mut Held {
        let new = || Held::new(&self.wire.watch().holder(&self.pages.shared.room), Place::Heap);
        self.held.get_or_insert_with(new)
    }

    /// A piece is to be sent, and the one before it was; `bytes` are held for it. A client that
    /// there is no room for is dropped, unless others leave that stand still.
    async fn holds(&mut self, bytes: usize) -> Result<(), Ended> {
        if bytes == 0 && self.held.is_none() {
            return Ok(());
        }
        let now = self.pages.clock.now();
        let held = self.held();
        held.holder().moves(now);
        if held.wait_for(bytes as u64).await { Ok(()) } else { Err(Ended::TimedOut) }
    }

    /// Sends a piece of so many bytes that another task reads from the origin.
    pub(super) async fn send(
        &mut self,
        length: usize,
        piece: Pin<&mut impl Future<Output = Result<(), Ended>>>,
    ) -> Result<(), Ended> {
        self.holds(memory(length)).await?;
        piece.await
    }
}

/// A body that is read for one client alone.
pub(super) struct Passed<'a> {
    body: Body,
    client: IpAddr,
    passing: Passing<'a>,
    /// Read ahead.
    queue: VecDeque<Bytes>,
    /// Bytes in it.
    queued: usize,
    /// Bytes held for the piece that is sent.
    sending: usize,
}

impl<'a> Passed<'a> {
    pub(super) fn new(body: Body, wire: Wire<'a>, exchange: &Exchange<'a, '_>) -> Self {
        let (client, passing) = (exchange.request.client(), Passing::new(wire, exchange));
        Self { body, client, passing, queue: VecDeque::new(), queued: 0, sending: 0 }
    }

    /// See [`Body::chunk`].
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, OriginError> {
        match self.queue.pop_front() {
            Some(data) => {
                self.queued -= data.len() + PIECE;
                Ok(Some(data))
            }
            None => self.body.chunk().await,
        }
    }

    /// See [`Body::trailers`].
    pub(super) fn trailers(&mut self) -> Option<http::HeaderMap> {
        self.body.trailers()
    }

    /// Sends a piece of so many bytes, and reads ahead meanwhile.
    pub(super) async fn send(
        &mut self,
        length: usize,
        mut piece: Pin<&mut impl Future<Output = Result<(), Ended>>>,
    ) -> Result<(), Ended> {
        self.sending = memory(length);
        self.passing.holds(self.queued + self.sending).await?;
        tokio::select! {
            biased;
            sent = &mut piece => return sent,
            () = self.read_ahead() => {}
        }
        let _stall = if self.body.holds_origin() {
            let stalls = &self.passing.pages.shared.stalls;
            Some(stalls.enter(self.client).ok_or(Ended::TimedOut)?)
        } else {
            None
        };
        tokio::select! {
            biased;
            sent = &mut piece => sent,
            // A client may not read before it has sent all of its request.
            () = self.body.upload() => Ok(()),
        }
    }

    /// Reads while there is plenty of room. Ends when the client stands still.
    async fn read_ahead(&mut self) {
        let mut stalled = pin!(sleep(Duration::from_millis(STALLED_AFTER)));
        while self.may_read() {
            let read = tokio::select! {
                biased;
                () = &mut stalled => return,
                read = self.body.chunk() => read,
            };
            if let Ok(Some(data)) = read {
                self.queued += data.len() + PIECE;
                // A piece may be a small part of a large buffer.
                self.queue.push_back(Bytes::copy_from_slice(&data));
            }
        }
        tokio::select! {
            () = stalled => {}
            () = self.body.upload() => {}
        }
    }

    fn may_read(&mut self) -> bool {
        let short = self.body.declared_length().is_none_or(|length| length <= AHEAD as u64);
        if !short || self.queued >= AHEAD || !self.body.holds_origin() {
            return false;
        }
        let bytes = (self.queued + self.sending + LONGEST_PIECE) as u64;
        self.passing.pages.shared.room.has_plenty() && self.passing.held().resize(bytes)
    }
}
