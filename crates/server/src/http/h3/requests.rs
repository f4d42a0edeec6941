//! Requests as they come: streams are read, their frames taken.

use larder_proto::{
    http::Version,
    http3::{ConnectionError, ErrorCode, Event},
};
use quinn_proto::{Connection, Dir, ReadError, ReadableError, StreamEvent};

use super::{BODY_WINDOW, Open, Scratch, Session, stream_id, var};
use crate::{
    http::{
        body, log,
        streams::{Begun, Taken, Turn},
    },
    wire::stream::Answer,
};

/// Bytes that are read from one stream of the connection itself at a time.
const UNI_READ: usize = 4096;

/// Received bytes of a stream.
struct Read {
    chunks: Vec<bytes::Bytes>,
    /// The stream ends behind them.
    end: bool,
    /// The client has reset it.
    reset: bool,
    /// More may be there.
    more: bool,
}

/// The next step of a request.
#[derive(PartialEq, Eq)]
enum Next {
    GoOn,
    /// The stream is done with.
    Done,
}

type Result<T> = std::result::Result<T, ConnectionError>;

impl Session {
    /// Takes an event of a stream.
    pub(super) fn event(&mut self, quic: &mut Connection, event: StreamEvent) -> Result<()> {
        match event {
            StreamEvent::Readable { id } if id.dir() == Dir::Uni => {
                self.read_uni(quic, id.into())?
            }
            StreamEvent::Readable { id } => {
                if let Some(open) = self.find(id.into()) {
                    open.readable = true;
                }
            }
            StreamEvent::Writable { id } => {
                if let Some(open) = self.find(id.into()) {
                    open.blocked = false;
                }
            }
            StreamEvent::Finished { id } => self.acknowledged(id.into()),
            StreamEvent::Stopped { id, .. } if Some(id) == self.control => {
                let why = "our control stream was stopped";
                return Err(ConnectionError {
                    code: ErrorCode::CLOSED_CRITICAL_STREAM,
                    reason: why,
                });
            }
            StreamEvent::Stopped { id, .. } => {
                let id = id.into();
                if let Some(place) = self.streams.iter().position(|open| open.id == id) {
                    let open = self.streams.swap_remove(place);
                    self.cancelled(open.answered)?;
                }
                self.abort(quic, id, ErrorCode::REQUEST_CANCELLED);
            }
            StreamEvent::Opened { .. } | StreamEvent::Available { .. } => {}
        }
        Ok(())
    }

    /// The client has given a request up.
    fn cancelled(&mut self, answered: bool) -> Result<()> {
        self.worker.pages.counters.http3_resets.one();
        if answered { Ok(()) } else { self.codec.in_vain(1, &self.limits) }
    }

    fn find(&mut self, id: u64) -> Option<&mut Open> {
        self.streams.iter_mut().find(|open| open.id == id)
    }

    /// Takes new streams and what came on known ones, at most `most` requests. True: there is more.
    pub(super) fn receive(
        &mut self,
        quic: &mut Connection,
        turn: &mut Turn<'_>,
        scratch: &mut Scratch,
        most: usize,
    ) -> Result<bool> {
        while let Some(id) = quic.streams().accept(Dir::Uni) {
            self.read_uni(quic, id.into())?;
        }
        let is_early = |next| move |id| id >= next;
        for (id, priority) in self.codec.updates(is_early(self.next)) {
            if let Some(open) = self.find(id) {
                open.priority = priority;
            }
        }
        let readable = |open: &Open| open.readable && open.unread < BODY_WINDOW;
        for id in self.streams.iter().filter(|o| readable(o)).map(|o| o.id).collect::<Vec<_>>() {
            let Some(place) = self.streams.iter().position(|open| open.id == id) else { continue };
            let mut open = self.streams.swap_remove(place);
            if self.read(quic, &mut open, turn, scratch)? == Next::GoOn {
                self.streams.push(open);
            }
        }
        for _ in 0..most {
            let Some(id) = quic.streams().accept(Dir::Bi) else { return Ok(false) };
            let id = u64::from(id);
            self.next = self.next.max(id + 4);
            if id >= self.accept_until {
                self.abort(quic, id, ErrorCode::REQUEST_REJECTED);
                continue;
            }
            let mut open = Open::new(id);
            if self.read(quic, &mut open, turn, scratch)? == Next::GoOn {
                self.streams.push(open);
            }
        }
        Ok(true)
    }

    /// Reads a stream of the connection itself.
    fn read_uni(&mut self, quic: &mut Connection, id: u64) -> Result<()> {
        loop {
            let Some(read) = read(quic, id, UNI_READ) else { return Ok(()) };
            if read.reset {
                return self.codec.reset(id);
            }
            let bytes = read.chunks.concat();
            self.read += bytes.len() as u64;
            if !self.codec.receive(id, &bytes, read.end, &self.limits)? {
                let code = var(ErrorCode::STREAM_CREATION_ERROR);
                let _ = quic.recv_stream(stream_id(id)).stop(code);
                return Ok(());
            }
            if !read.more {
                return Ok(());
            }
        }
    }

    /// Reads what came on a stream with a request.
    fn read(
        &mut self,
        quic: &mut Connection,
        open: &mut Open,
        turn: &mut Turn<'_>,
        scratch: &mut Scratch,
    ) -> Result<Next> {
        let Some(read) = read(quic, open.id, BODY_WINDOW - open.unread.min(BODY_WINDOW - 1)) else {
            open.readable = false;
            if !open.answered && open.stream.is_none() {
                // The client has stopped a stream before it was looked at: nothing comes of it.
                self.cancelled(false)?;
                return Ok(Next::Done);
            }
            return Ok(Next::GoOn);
        };
        open.readable = read.more;
        if read.reset {
            self.cancelled(open.answered)?;
            self.abort(quic, open.id, ErrorCode::REQUEST_CANCELLED);
            return Ok(Next::Done);
        }
        open.received |= read.end;
        let last = read.chunks.len().saturating_sub(1);
        for (place, chunk) in read.chunks.iter().enumerate() {
            self.worker.pages.counters.bytes_in.add(chunk.len() as u64);
            self.read += chunk.len() as u64;
            let end = read.end && place == last;
            if self.take(quic, open, turn, scratch, chunk, end)? == Next::Done {
                return Ok(Next::Done);
            }
        }
        if read.end && read.chunks.is_empty() {
            return self.take(quic, open, turn, scratch, &[], true);
        }
        Ok(Next::GoOn)
    }

    /// Takes received bytes of a request.
    fn take(
        &mut self,
        quic: &mut Connection,
        open: &mut Open,
        turn: &mut Turn<'_>,
        scratch: &mut Scratch,
        bytes: &[u8],
        end: bool,
    ) -> Result<Next> {
        let mut at = 0;
        loop {
            let input = &bytes[at..];
            let step = open.incoming.receive(input, end, &self.limits, &mut scratch.work);
            at += step.used;
            let counters = &turn.worker.pages.counters;
            match step.event {
                Event::More => return Ok(Next::GoOn),
                Event::Request { written, .. } => {
                    counters.http3_requests.one();
                    let early = self.codec.early_priority(open.id);
                    open.priority = early.or(written.priority).unwrap_or_default();
                    let begun =
                        Begun { id: open.id, version: Version::Http3, connect: written.connect };
                    let Scratch { work, out, .. } = scratch;
                    match turn.request(&begun, &self.mail, &mut work.head, out) {
                        Taken::Answered if self.answer(quic, open, scratch) => {
                            return Ok(Next::Done);
                        }
                        Taken::Answered => {}
                        Taken::Waits(stream) => open.stream = Some(stream),
                        Taken::Broken => {
                            self.abort(quic, open.id, ErrorCode::INTERNAL_ERROR);
                            return Ok(Next::Done);
                        }
                    }
                }
                Event::TooLarge => {
                    self.codec.in_vain(5, &self.limits)?;
                    let Scratch { work, out, .. } = scratch;
                    turn.refuse(&work.head, 431, "the request head is too large", out);
                    if self.answer(quic, open, scratch) {
                        return Ok(Next::Done);
                    }
                }
                Event::Data(range) => {
                    let data = &input[range];
                    if let Some(stream) = composing(open) {
                        stream.receive(data, false);
                        open.unread += data.len();
                    }
                }
                Event::Trailers => {
                    let trailers = body::trailers(&scratch.work.head);
                    if let Some(stream) = composing(open) {
                        stream.receive_trailers(trailers);
                    }
                }
                Event::End => {
                    if let Some(stream) = composing(open) {
                        stream.receive(&[], true);
                    }
                }
                event @ (Event::Malformed(_) | Event::Incomplete) => {
                    counters.http3_malformed.one();
                    log::unread(turn.worker, turn.peer.address, 400, 0);
                    let code = if event == Event::Incomplete {
                        ErrorCode::REQUEST_INCOMPLETE
                    } else {
                        ErrorCode::MESSAGE_ERROR
                    };
                    self.abort(quic, open.id, code);
                    self.codec.in_vain(1, &self.limits)?;
                    return Ok(Next::Done);
                }
                Event::Failed(error) => return Err(error),
            }
        }
    }
}

/// The stream of a request whose answer is still composed.
fn composing(open: &Open) -> Option<&std::rc::Rc<crate::wire::stream::Stream>> {
    open.stream.as_ref().filter(|stream| stream.answer.get() == Answer::Composing)
}

/// Reads at most `most` bytes. None: there is nothing, and never will be.
fn read(quic: &mut Connection, id: u64, most: usize) -> Option<Read> {
    let mut read = Read { chunks: Vec::new(), end: false, reset: false, more: false };
    let mut stream = quic.recv_stream(stream_id(id));
    let mut chunks = match stream.read(true) {
        Ok(chunks) => chunks,
        Err(ReadableError::ClosedStream | ReadableError::IllegalOrderedRead) => return None,
    };
    let mut left = most;
    loop {
        if left == 0 {
            read.more = true;
            break;
        }
        match chunks.next(left) {
            Ok(Some(chunk)) => {
                left -= chunk.bytes.len();
                read.chunks.push(chunk.bytes);
            }
            Ok(None) => {
                read.end = true;
                break;
            }
            Err(ReadError::Blocked) => break,
            Err(ReadError::Reset(_)) => {
                read.reset = true;
                break;
            }
        }
    }
    // The next packets tell the client how much more it may send.
    let _ = chunks.finalize();
    Some(read)
}
