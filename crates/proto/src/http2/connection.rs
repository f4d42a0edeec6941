//! The state of a connection, and its frames one after the other (RFC 9113 sections 3 to 5).

use super::error::{ConnectionError, ErrorCode, Fault};
use super::event::{Event, Step};
use super::flood::{Flood, Floods};
use super::frame::{self, FrameHead, flag, kind};
use super::headers::Continuing;
use super::limits::Limits;
use super::settings::PeerSettings;
use super::streams::{Closed, Streams};
use super::{DEFAULT_WINDOW, MAX_31_BITS, PREFACE};
use crate::hpack::{Decoder, Encoder};
use crate::pseudo::{Priority, Workspace};

/// A connection, on the side of the server.
///
/// The caller owns all buffers and passes the same [`Limits`] to every call. Frames to be sent are
/// appended to the `out` of each call, in the order in which they have to be sent.
///
/// Memory: less than 400 bytes while no stream is open, after [`Connection::rest`] and with the
/// decoder's table empty. A client that uses the decoder's table, as browsers do, adds up to four
/// times [`Limits::table_bytes`]; RFC 7541 leaves no way to drop that table alone. The encoder's is
/// dropped by [`Connection::rest`]. A header block in several frames adds at most
/// [`Limits::block_bytes`] until it is complete.
#[derive(Debug)]
pub struct Connection {
    pub(super) decoder: Decoder,
    pub(super) encoder: Encoder,
    pub(super) streams: Streams,
    pub(super) floods: Floods,
    pub(super) peer: PeerSettings,
    /// The header block of a request, until its last frame.
    pub(super) continuing: Option<Box<Continuing>>,
    /// Priorities of requests still to come.
    pub(super) early: Vec<(u32, Priority)>,
    phase: Phase,
    pub(super) reading: Reading,
    /// Bytes that the client may still send.
    pub(super) receive: i32,
    /// Bytes that may be sent.
    pub(super) send: i32,
    /// Bytes consumed that no WINDOW_UPDATE gave back yet.
    pub(super) credit: u32,
    /// The last stream that is worked on, once the client was told; 2^31-1 before.
    pub(super) accept_until: u32,
    /// The client acknowledged our settings.
    pub(super) acknowledged: bool,
    drain: Drain,
}

/// The frames that are expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The rest of the preface, of which so many bytes came.
    Preface(u8),
    /// The first SETTINGS frame (section 3.4).
    FirstSettings,
    Open,
    Failed,
}

/// Frames whose payload is taken as it comes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reading {
    /// None: the head of a frame is next.
    Head,
    /// The data of a DATA frame.
    Data { stream: u32, left: u32, padding: u8, end: bool },
    /// Bytes without a meaning here.
    Skip { left: u32 },
}

/// Steps of closing a connection in order (section 6.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drain {
    No,
    /// The client was told that a GOAWAY comes.
    Announced,
    /// Streams behind `accept_until` are ignored.
    Final,
}

/// Result of handling a whole frame: an event, if the caller has to know.
pub(super) type Handled = Result<Option<Event>, Fault>;

impl Connection {
    /// A new connection. Its SETTINGS are appended to `out`: they may be sent at once.
    pub fn new(limits: &Limits, out: &mut Vec<u8>) -> Self {
        super::settings::announce(limits, out);
        let window = limits.connection_window();
        if window > DEFAULT_WINDOW {
            frame::write_window_update(0, window - DEFAULT_WINDOW, out);
        }
        Self {
            decoder: Decoder::default(),
            encoder: Encoder::new(limits.encoder_table_bytes),
            streams: Streams::default(),
            floods: Floods::default(),
            peer: PeerSettings::default(),
            continuing: None,
            early: Vec::new(),
            phase: Phase::Preface(0),
            reading: Reading::Head,
            receive: window as i32,
            send: DEFAULT_WINDOW as i32,
            credit: 0,
            accept_until: MAX_31_BITS,
            acknowledged: false,
            drain: Drain::No,
        }
    }

    /// Takes received bytes, as far as the next event.
    ///
    /// `input` begins behind the bytes that the last call used. Heads of frames and whole frames
    /// other than DATA are taken in one piece, so the caller's buffer has to hold
    /// [`Limits::frame_bytes`] and 9 bytes more.
    pub fn receive(
        &mut self,
        input: &[u8],
        limits: &Limits,
        work: &mut Workspace,
        out: &mut Vec<u8>,
    ) -> Step {
        let mut used = 0;
        let result = loop {
            match self.step(input, &mut used, limits, work, out) {
                Ok(None) => {}
                Ok(Some(event)) => break Ok(event),
                Err(fault) => break Err(fault),
            }
        };
        let event = result.unwrap_or_else(|fault| {
            used = input.len();
            self.fail(fault, out)
        });
        Step { used, event }
    }

    /// Takes one frame, or a piece of one.
    #[inline]
    fn step(
        &mut self,
        input: &[u8],
        used: &mut usize,
        limits: &Limits,
        work: &mut Workspace,
        out: &mut Vec<u8>,
    ) -> Handled {
        let rest = &input[*used..];
        match self.reading {
            Reading::Head => {}
            Reading::Data { stream, left, padding, end } => {
                return self.data(rest.len(), used, (stream, left, padding, end), limits, out);
            }
            Reading::Skip { left } => {
                let taken = (left as usize).min(rest.len());
                *used += taken;
                let left = left - taken as u32;
                self.reading = if left == 0 { Reading::Head } else { Reading::Skip { left } };
                return if left == 0 { Ok(None) } else { Ok(Some(Event::More { need: 1 })) };
            }
        }
        if self.phase != Phase::Open
            && let Some(event) = self.opening(rest, used)?
        {
            return Ok(event);
        }
        let Some(bytes) = rest.first_chunk() else {
            return Ok(Some(Event::More { need: frame::HEAD }));
        };
        let head = FrameHead::parse(bytes);
        head.check(limits.frame_bytes)?;
        self.expected(&head)?;
        self.frame(&head, rest, used, limits, work, out)
    }

    /// The preface (section 3.4). `Some`: nothing more to do in this step.
    #[cold]
    fn opening(&mut self, rest: &[u8], used: &mut usize) -> Result<Option<Option<Event>>, Fault> {
        match self.phase {
            Phase::Preface(seen) => {
                let expected = &PREFACE[usize::from(seen)..];
                let length = expected.len().min(rest.len());
                if rest[..length] != expected[..length] {
                    return Err(Fault::protocol("the client's preface is wrong"));
                }
                *used += length;
                let seen = seen + length as u8;
                self.phase = Phase::Preface(seen);
                if usize::from(seen) < PREFACE.len() {
                    return Ok(Some(Some(Event::More { need: 1 })));
                }
                self.phase = Phase::FirstSettings;
                Ok(Some(None))
            }
            Phase::Failed => {
                *used += rest.len();
                Ok(Some(Some(Event::More { need: 1 })))
            }
            Phase::FirstSettings | Phase::Open => Ok(None),
        }
    }

    /// Whether this frame may come now (sections 3.4 and 6.10).
    #[inline]
    fn expected(&mut self, head: &FrameHead) -> Result<(), Fault> {
        if self.phase == Phase::FirstSettings {
            if head.kind != kind::SETTINGS || head.has(flag::ACK) {
                return Err(Fault::protocol("the first frame is not SETTINGS"));
            }
            self.phase = Phase::Open;
        }
        match &self.continuing {
            None if head.kind == kind::CONTINUATION => {
                Err(Fault::protocol("CONTINUATION without a header block"))
            }
            Some(block) if head.kind != kind::CONTINUATION || head.stream != block.stream => {
                Err(Fault::protocol("another frame within a header block"))
            }
            _ => Ok(()),
        }
    }

    /// Takes the frame at the start of `rest`.
    #[inline]
    fn frame(
        &mut self,
        head: &FrameHead,
        rest: &[u8],
        used: &mut usize,
        limits: &Limits,
        work: &mut Workspace,
        out: &mut Vec<u8>,
    ) -> Handled {
        let known = matches!(head.kind, kind::HEADERS..=kind::CONTINUATION | kind::PRIORITY_UPDATE);
        if head.kind == kind::DATA {
            return self.data_head(head, rest, used, limits, out);
        }
        if !known {
            *used += frame::HEAD;
            self.reading = Reading::Skip { left: head.length };
            self.floods.count(Flood::Ignored, &limits.floods)?;
            return Ok(None);
        }
        let end = frame::HEAD + head.length as usize;
        let Some(payload) = rest.get(frame::HEAD..end) else {
            return Ok(Some(Event::More { need: end }));
        };
        *used += end;
        match head.kind {
            kind::HEADERS => self.headers(head, payload, limits, work, out),
            kind::CONTINUATION => self.continuation(head, payload, limits, work, out),
            kind::PRIORITY => self.priority(head, payload, limits, out),
            kind::RST_STREAM => self.reset_by_peer(head, payload, limits, out),
            kind::SETTINGS => self.settings(head, payload, limits, out),
            kind::PING => self.ping(head, payload, limits, out),
            kind::GOAWAY => Ok(Some(Event::GoAway { code: ErrorCode(error_code(&payload[4..])) })),
            kind::WINDOW_UPDATE => self.window_update(head, payload, limits, out),
            _ => self.priority_update(payload, limits),
        }
    }

    /// Removes a stream. Data of it that was not consumed counts as consumed for the connection.
    pub(super) fn close(
        &mut self,
        id: u32,
        why: Closed,
        limits: &Limits,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(stream) = self.streams.close(id, why) else { return false };
        self.credit_connection(stream.unconsumed, limits, out);
        true
    }

    /// The reason why a stream that is neither open nor idle is closed. Streams that came too late
    /// count as reset: the client learns of that by the GOAWAY frame.
    pub(super) fn closed(&self, id: u32) -> Closed {
        if id > self.accept_until { Closed::ResetHere } else { self.streams.closed(id) }
    }

    /// Resets a stream because of a fault of the client (section 5.4.2).
    pub(super) fn stream_fault(
        &mut self,
        stream: u32,
        code: ErrorCode,
        limits: &Limits,
        out: &mut Vec<u8>,
    ) -> Handled {
        self.floods.count(Flood::MadeYouReset, &limits.floods)?;
        self.floods.count(Flood::UnsentAnswers, &limits.floods)?;
        frame::write_reset(stream, code, out);
        let open = self.close(stream, Closed::ResetHere, limits, out);
        Ok(open.then_some(Event::Reset { stream, code, by_peer: false }))
    }

    /// Composes the GOAWAY frame of an error.
    #[cold]
    fn fail(&mut self, fault: Fault, out: &mut Vec<u8>) -> Event {
        let last_stream = self.streams.last.min(self.accept_until);
        frame::write_goaway(last_stream, fault.code, out);
        (self.phase, self.reading) = (Phase::Failed, Reading::Head);
        let Fault { code, reason, flood } = fault;
        Event::Failed(ConnectionError { code, last_stream, reason, flood })
    }

    /// Begins or continues to close the connection in order (section 6.8). The first call announces
    /// it: new streams are still taken, since their requests may be on their way. The second, about
    /// a round trip later, names the last stream; later ones are ignored. The connection may be
    /// closed when [`Connection::is_drained`].
    pub fn drain(&mut self, out: &mut Vec<u8>) {
        self.drain = match self.drain {
            Drain::No => {
                frame::write_goaway(MAX_31_BITS, ErrorCode::NO_ERROR, out);
                Drain::Announced
            }
            Drain::Announced => {
                self.accept_until = self.streams.last;
                frame::write_goaway(self.accept_until, ErrorCode::NO_ERROR, out);
                Drain::Final
            }
            Drain::Final => Drain::Final,
        };
    }

    /// The last stream was named, and all streams are closed.
    pub fn is_drained(&self) -> bool {
        self.drain == Drain::Final && self.streams.len() == 0
    }

    /// Number of open streams.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// The client acknowledged our SETTINGS. One that never does is at fault; the caller has the
    /// clock (section 6.5.3).
    pub fn settings_acknowledged(&self) -> bool {
        self.acknowledged
    }

    /// All output was sent: the client can read the answers to its PING frames.
    pub fn flushed(&mut self) {
        self.floods.clear(Flood::UnsentAnswers);
    }

    /// Time has passed, about a second: counters of floods are halved.
    pub fn tick(&mut self) {
        self.floods.tick();
    }

    /// Frees memory that a connection at rest does not need. The encoder forgets its table, so the
    /// next responses cost some bytes more; for connections that are idle for long.
    pub fn rest(&mut self) {
        self.decoder.rest();
        self.encoder.rest();
        self.streams.rest();
        if self.early.is_empty() {
            self.early = Vec::new();
        }
    }

    /// The stream of a header block whose last frame has not come.
    pub fn unfinished_block(&self) -> Option<u32> {
        self.continuing.as_ref().map(|block| block.stream)
    }

    /// Bytes of a request's fields that are not whole yet.
    pub fn unfinished(&self) -> usize {
        self.continuing.as_ref().map_or(0, |block| block.memory())
    }

    /// Bytes of memory that belong to the connection, itself included.
    pub fn memory(&self) -> usize {
        size_of::<Self>()
            + self.decoder.memory()
            + self.encoder.memory()
            + self.streams.memory()
            + self.early.capacity() * size_of::<(u32, Priority)>()
            + self.unfinished()
    }
}

/// The error code in a payload.
pub(super) fn error_code(payload: &[u8]) -> u32 {
    payload.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}
