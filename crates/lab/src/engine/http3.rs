//! HTTP/3 on the side of a client: requests on streams of QUIC.

use std::{io, os::fd::BorrowedFd, time::Instant};

use quinn_proto::{
    ConnectionError, Dir, Event, ReadError, ReadableError, StreamEvent, StreamId, VarInt,
};
use rapidhash::RapidHashMap;

use super::{
    Address, Tls,
    codec::{Answer, Codec, OPENING, Outcome, ServerStream},
    quic::Quic,
    slots::Slots,
    tally::Fault,
};

/// A connection.
pub(super) struct Http3 {
    quic: Quic,
    streams: RapidHashMap<StreamId, Stream>,
    /// Streams that the server began: at most as many as QUIC lets it.
    theirs: RapidHashMap<StreamId, ServerStream>,
    /// The stream of the next request. None: the server allows no more for now.
    next: Option<StreamId>,
    /// The server answers no more requests.
    leaving: bool,
    is_connected: bool,
    /// Streams that have something to read.
    readable: Vec<StreamId>,
}

struct Stream {
    slot: usize,
    answer: Answer,
    /// The bytes of the request that are not written yet.
    unsent: Vec<u8>,
}

/// How a connection ended.
pub(super) enum End {
    /// The server said so in time.
    Ended,
    /// It failed.
    Failed(Fault),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        End::Failed(Fault::Broke(Fault::words(&error)))
    }
}

impl Http3 {
    pub(super) fn dial(address: &Address, tls: &Tls) -> io::Result<Http3> {
        Ok(Http3 {
            quic: Quic::dial(address, tls)?,
            streams: RapidHashMap::default(),
            theirs: RapidHashMap::default(),
            next: None,
            leaving: false,
            is_connected: false,
            readable: Vec::new(),
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.quic.fd()
    }

    /// Whether another request may be sent now.
    pub(super) fn has_room(&self) -> bool {
        self.next.is_some() && !self.leaving
    }

    /// Goes on with the handshake. True: it is complete.
    pub(super) fn connected(&mut self, scratch: &mut [u8]) -> io::Result<bool> {
        while self.quic.receive(scratch)? {}
        self.quic.expire_if_due();
        match self.events() {
            Ok(()) => {}
            Err(End::Failed(Fault::Broke(why))) => return Err(io::Error::other(why)),
            Err(_) => return Err(io::Error::other("closed in the handshake")),
        }
        self.quic.transmit()?;
        Ok(self.is_connected)
    }

    /// Sends the request in a slot. False: the protocol cannot express it.
    pub(super) fn ask(&mut self, slot: usize, slots: &Slots, codec: &Codec<'_>) -> bool {
        let mut unsent = Vec::new();
        if !codec.stream(&slots.get(slot).operation, &mut unsent) {
            return false;
        }
        let Some(id) = self.next.take() else { return false };
        self.streams.insert(id, Stream { slot, answer: Answer::new(), unsent });
        // A stream that fails is reported as an event.
        let _ = self.send(id);
        self.next = self.quic.connection.streams().open(Dir::Bi);
        true
    }

    /// Writes what a stream takes of its request.
    fn send(&mut self, id: StreamId) -> Result<(), String> {
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        let written = self.quic.write(id, &stream.unsent)?;
        stream.unsent.drain(..written);
        if stream.unsent.is_empty() {
            // It may have been stopped, which its answer shows.
            let _ = self.quic.connection.send_stream(id).finish();
        }
        Ok(())
    }

    /// Sends packets.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.quic.transmit()
    }

    /// Bytes sent and received since the last call.
    pub(super) fn bytes(&mut self) -> (usize, usize) {
        (std::mem::take(&mut self.quic.sent), std::mem::take(&mut self.quic.received))
    }

    /// The time of the next timer.
    pub(super) fn timeout(&mut self) -> Option<Instant> {
        self.quic.timeout()
    }

    /// Takes packets, timers and answers. True: there may be more packets.
    pub(super) fn turn(
        &mut self,
        slots: &Slots,
        codec: &Codec<'_>,
        scratch: &mut [u8],
        answered: &mut Vec<(usize, Outcome)>,
    ) -> Result<bool, End> {
        let more = self.quic.receive(scratch)?;
        self.quic.expire_if_due();
        let ended = self.events();
        while let Some(id) = self.readable.pop() {
            self.read(id, slots, codec, answered)?;
        }
        ended?;
        self.quic.transmit()?;
        if self.leaving && self.streams.is_empty() { Err(End::Ended) } else { Ok(more) }
    }

    fn events(&mut self) -> Result<(), End> {
        while let Some(event) = self.quic.connection.poll() {
            match event {
                Event::Connected => {
                    self.is_connected = true;
                    let control = self.quic.connection.streams().open(Dir::Uni);
                    let control = control.ok_or_else(|| malformed("no control stream allowed"))?;
                    self.quic.write(control, OPENING).map_err(|why| malformed(&why))?;
                    self.next = self.quic.connection.streams().open(Dir::Bi);
                }
                Event::ConnectionLost { reason } => return Err(lost(&reason)),
                Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                    while let Some(id) = self.quic.connection.streams().accept(Dir::Uni) {
                        self.theirs.insert(id, ServerStream::default());
                        self.readable.push(id);
                    }
                }
                Event::Stream(StreamEvent::Available { dir: Dir::Bi }) => {
                    if self.next.is_none() {
                        self.next = self.quic.connection.streams().open(Dir::Bi);
                    }
                }
                Event::Stream(StreamEvent::Readable { id }) => self.readable.push(id),
                Event::Stream(StreamEvent::Writable { id }) => {
                    self.send(id).map_err(|why| malformed(&why))?;
                }
                Event::Stream(_)
                | Event::HandshakeDataReady
                | Event::DatagramReceived
                | Event::DatagramsUnblocked => {}
            }
        }
        Ok(())
    }

    /// Reads what a stream has.
    fn read(
        &mut self,
        id: StreamId,
        slots: &Slots,
        codec: &Codec<'_>,
        answered: &mut Vec<(usize, Outcome)>,
    ) -> Result<(), End> {
        let Http3 { quic, streams, theirs, leaving, .. } = self;
        let mut stream = quic.connection.recv_stream(id);
        let mut chunks = match stream.read(true) {
            Ok(chunks) => chunks,
            Err(ReadableError::ClosedStream) => return Ok(()),
            Err(error) => return Err(malformed(&error.to_string())),
        };
        let mut result = Ok(None);
        loop {
            let chunk = match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => chunk,
                Ok(None) => {
                    if let Some(ours) = streams.get(&id) {
                        let operation = &slots.get(ours.slot).operation;
                        result = Ok(Some(ours.answer.end(operation, codec)));
                    } else if theirs.get(&id).is_some_and(ServerStream::is_control) {
                        result = Err(malformed("the control stream ended"));
                    }
                    break;
                }
                Err(ReadError::Blocked) => break,
                Err(ReadError::Reset(code)) => {
                    let fault = Fault::Broke(format!("stream reset, code {code}"));
                    result = Ok(Some(Outcome { fault: Some(fault), ..Outcome::default() }));
                    break;
                }
            };
            let taken = if let Some(ours) = streams.get_mut(&id) {
                ours.answer.take(&chunk.bytes, &slots.get(ours.slot).operation, codec)
            } else if let Some(theirs) = theirs.get_mut(&id) {
                theirs.take(&chunk.bytes).map(|last| *leaving |= last.is_some())
            } else {
                Ok(())
            };
            if let Err(why) = taken {
                result = Err(malformed(&why));
                break;
            }
        }
        // Updates of windows are sent with everything else.
        let _ = chunks.finalize();
        if let Some(outcome) = result?
            && let Some(ours) = self.streams.remove(&id)
        {
            if !ours.unsent.is_empty() {
                // Answered before it was sent whole; the rest is not wanted. H3_REQUEST_CANCELLED.
                let _ = self.quic.connection.send_stream(id).reset(VarInt::from_u32(0x10c));
            }
            answered.push((ours.slot, outcome));
        }
        Ok(())
    }
}

fn malformed(why: &str) -> End {
    End::Failed(Fault::Malformed(why.to_owned()))
}

fn lost(reason: &ConnectionError) -> End {
    match reason {
        // H3_NO_ERROR
        ConnectionError::ApplicationClosed(close) if close.error_code.into_inner() == 0x100 => {
            End::Ended
        }
        ConnectionError::TimedOut => End::Failed(Fault::Broke("timeout".to_owned())),
        other => End::Failed(Fault::Broke(other.to_string())),
    }
}
