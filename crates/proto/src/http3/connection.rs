//! The unidirectional streams of a client: control, and those of QPACK (RFC 9114 section 6.2, RFC
//! 9204 section 4.2).

use super::error::{ConnectionError, ErrorCode};
use super::frame::{self, FrameHead, kind};
use super::limits::Limits;
use super::settings;
use crate::pseudo::Priority;

/// Types of unidirectional streams.
mod uni {
    pub(super) const CONTROL: u64 = 0;
    pub(super) const PUSH: u64 = 1;
    pub(super) const ENCODER: u64 = 2;
    pub(super) const DECODER: u64 = 3;
}

/// The state of a connection beside its requests.
#[derive(Debug, Default)]
pub struct Connection {
    /// Unidirectional streams that go on.
    streams: Vec<Stream>,
    /// SETTINGS came.
    opened: bool,
    /// The id of the last GOAWAY frame of the client.
    goaway: Option<u64>,
    max_push: u64,
    /// Priorities of requests that are open or still to come.
    priorities: Vec<(u64, Priority)>,
    in_vain: u32,
}

/// A unidirectional stream.
#[derive(Debug)]
struct Stream {
    id: u64,
    /// None: its type is not known yet.
    kind: Option<u64>,
    /// Bytes of a type, of an instruction or of a frame that is not whole.
    partial: Vec<u8>,
    /// Bytes of a frame that nobody reads.
    skip: u64,
}

/// The end of a stream for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    More,
    /// Nobody reads it.
    Unwanted,
}

impl Connection {
    /// Appends the first bytes of our control stream.
    pub fn open(limits: &Limits, out: &mut Vec<u8>) {
        frame::write_integer(uni::CONTROL, out);
        settings::announce(limits, out);
    }

    /// Appends a GOAWAY frame for our control stream: requests on streams from `id` on are not
    /// answered (section 5.2).
    pub fn leave(id: u64, out: &mut Vec<u8>) {
        let mut payload = Vec::new();
        frame::write_integer(id, &mut payload);
        FrameHead { kind: kind::GOAWAY, length: payload.len() as u64 }.write(out);
        out.extend_from_slice(&payload);
    }

    /// Takes received bytes of a unidirectional stream. `end`: its end comes behind them. False:
    /// nobody reads this stream; no more of its bytes are to be brought.
    pub fn receive(
        &mut self,
        id: u64,
        bytes: &[u8],
        end: bool,
        limits: &Limits,
    ) -> Result<bool, ConnectionError> {
        let place = self.streams.iter().position(|stream| stream.id == id);
        let mut stream = match place {
            Some(place) => self.streams.swap_remove(place),
            None => Stream { id, kind: None, partial: Vec::new(), skip: 0 },
        };
        stream.partial.extend_from_slice(bytes);
        let next = self.advance(&mut stream, limits)?;
        if end && matches!(stream.kind, Some(uni::CONTROL | uni::ENCODER | uni::DECODER)) {
            return Err(closed());
        }
        if next == Next::More && !end {
            self.streams.push(stream);
            return Ok(true);
        }
        Ok(false)
    }

    /// The client has reset a unidirectional stream.
    pub fn reset(&mut self, id: u64) -> Result<(), ConnectionError> {
        let place = self.streams.iter().position(|stream| stream.id == id);
        let Some(stream) = place.map(|place| self.streams.swap_remove(place)) else {
            return Ok(());
        };
        if stream.kind.is_some() { Err(closed()) } else { Ok(()) }
    }

    fn advance(&mut self, stream: &mut Stream, limits: &Limits) -> Result<Next, ConnectionError> {
        if stream.kind.is_none() {
            let Some((kind, used)) = frame::integer(&stream.partial) else {
                return Ok(Next::More);
            };
            stream.partial.drain(..used);
            self.begin(kind, limits)?;
            stream.kind = Some(kind);
        }
        match stream.kind {
            Some(uni::CONTROL) => {
                while self.control(stream, limits)? {}
                Ok(Next::More)
            }
            Some(uni::ENCODER) => {
                // The table has no room: its size may be set to 0, and nothing else be said.
                let good = stream.partial.iter().all(|&byte| byte == 0x20);
                stream.partial.clear();
                let error = ErrorCode::QPACK_ENCODER_STREAM_ERROR;
                let why = "the encoder's stream uses a dynamic table";
                if good { Ok(Next::More) } else { Err(ConnectionError::new(error, why)) }
            }
            Some(uni::DECODER) => {
                decoder(&mut stream.partial)?;
                Ok(Next::More)
            }
            _ => Ok(Next::Unwanted),
        }
    }

    /// A stream of this type begins.
    fn begin(&mut self, kind: u64, limits: &Limits) -> Result<(), ConnectionError> {
        let wrong = |reason| Err(ConnectionError::new(ErrorCode::STREAM_CREATION_ERROR, reason));
        match kind {
            uni::PUSH => wrong("a client does not push"),
            uni::CONTROL | uni::ENCODER | uni::DECODER => {
                if self.streams.iter().any(|stream| stream.kind == Some(kind)) {
                    return wrong("a second stream of a type that there is one of");
                }
                Ok(())
            }
            _ => self.in_vain(1, limits),
        }
    }

    /// Takes the next frame of the control stream. False: it is not whole.
    fn control(&mut self, stream: &mut Stream, limits: &Limits) -> Result<bool, ConnectionError> {
        let skipped = (stream.skip as usize).min(stream.partial.len());
        stream.partial.drain(..skipped);
        stream.skip -= skipped as u64;
        let Some((head, at)) = FrameHead::parse(&stream.partial) else { return Ok(false) };
        let first = !self.opened;
        if first && head.kind != kind::SETTINGS {
            let why = "the first frame of the control stream is not SETTINGS";
            return Err(ConnectionError::new(ErrorCode::MISSING_SETTINGS, why));
        }
        match head.kind {
            kind::SETTINGS if !first => return Err(ConnectionError::unexpected("SETTINGS twice")),
            kind::DATA | kind::HEADERS | kind::PUSH_PROMISE => {
                return Err(ConnectionError::unexpected(
                    "a frame of requests on the control stream",
                ));
            }
            kind if kind::is_of_http2(kind) => {
                return Err(ConnectionError::unexpected("a frame of HTTP/2"));
            }
            kind::SETTINGS
            | kind::CANCEL_PUSH
            | kind::GOAWAY
            | kind::MAX_PUSH_ID
            | kind::PRIORITY_UPDATE
            | kind::PRIORITY_UPDATE_PUSH => {}
            _ => {
                self.in_vain(1, limits)?;
                stream.partial.drain(..at);
                stream.skip = head.length;
                return Ok(true);
            }
        }
        if head.length > limits.control_bytes as u64 {
            return Err(ConnectionError::excessive("a frame of the control stream is too long"));
        }
        let end = at + head.length as usize;
        let Some(payload) = stream.partial.get(at..end) else { return Ok(false) };
        self.frame(head.kind, payload, limits)?;
        stream.partial.drain(..end);
        Ok(true)
    }

    /// A frame of the control stream (section 7.2).
    fn frame(&mut self, kind: u64, payload: &[u8], limits: &Limits) -> Result<(), ConnectionError> {
        if kind == kind::SETTINGS {
            self.opened = true;
            return settings::check(payload);
        }
        let (id, used) = frame::integer(payload)
            .ok_or(ConnectionError::frame("a frame ends within its only number"))?;
        let rest = &payload[used..];
        if kind == kind::PRIORITY_UPDATE {
            return self.priority_update(id, rest, limits);
        }
        if !rest.is_empty() && kind != kind::PRIORITY_UPDATE_PUSH {
            return Err(ConnectionError::frame("a frame has more than its only number"));
        }
        match kind {
            kind::GOAWAY if self.goaway.is_some_and(|before| id > before) => {
                Err(ConnectionError::id("the number of GOAWAY has grown"))
            }
            kind::GOAWAY => {
                self.goaway = Some(id);
                Ok(())
            }
            kind::MAX_PUSH_ID if id < self.max_push => {
                Err(ConnectionError::id("the number of MAX_PUSH_ID has fallen"))
            }
            kind::MAX_PUSH_ID => {
                self.max_push = id;
                self.in_vain(1, limits)
            }
            _ => Err(ConnectionError::id("nothing was pushed")),
        }
    }

    /// A PRIORITY_UPDATE frame (RFC 9218 section 7.2).
    fn priority_update(
        &mut self,
        id: u64,
        value: &[u8],
        limits: &Limits,
    ) -> Result<(), ConnectionError> {
        if !id.is_multiple_of(4) {
            return Err(ConnectionError::id("PRIORITY_UPDATE of a stream that has no request"));
        }
        self.in_vain(1, limits)?;
        let priority = Priority::parse(value);
        let room = self.priorities.len() < limits.early_priorities;
        match self.priorities.iter_mut().find(|(known, _)| *known == id) {
            Some((_, known)) => *known = priority,
            None if room => self.priorities.push((id, priority)),
            None => {}
        }
        Ok(())
    }

    /// The priorities that clients have set by frames since the last call, of requests that are
    /// open. `is_early`: the request with this number has not begun; its priority is kept.
    pub fn updates(&mut self, is_early: impl Fn(u64) -> bool) -> Vec<(u64, Priority)> {
        if self.priorities.is_empty() {
            return Vec::new();
        }
        let (early, open) = self.priorities.drain(..).partition(|(id, _)| is_early(*id));
        self.priorities = early;
        open
    }

    /// The priority that was set for a request before it began.
    pub fn early_priority(&mut self, id: u64) -> Option<Priority> {
        let place = self.priorities.iter().position(|(early, _)| *early == id)?;
        Some(self.priorities.swap_remove(place).1)
    }

    /// Counts work in vain: requests that are reset or malformed, frames and streams without use.
    /// A request that is answered takes one from the count, a tick halves it; above the limit the
    /// connection ends.
    pub fn in_vain(&mut self, count: u32, limits: &Limits) -> Result<(), ConnectionError> {
        self.in_vain += count;
        if self.in_vain > limits.in_vain {
            return Err(ConnectionError::excessive("too much is done in vain"));
        }
        Ok(())
    }

    /// A request was answered.
    #[inline]
    pub fn answered(&mut self) {
        self.in_vain = self.in_vain.saturating_sub(1);
    }

    /// Time has passed, about a second.
    pub fn tick(&mut self) {
        self.in_vain /= 2;
    }
}

fn closed() -> ConnectionError {
    let why = "a stream that the connection needs has ended";
    ConnectionError::new(ErrorCode::CLOSED_CRITICAL_STREAM, why)
}

/// Takes whole instructions of the decoder's stream (RFC 9204 section 4.4). Nothing was ever
/// inserted, so there is nothing to acknowledge: only cancelled streams may be told.
fn decoder(bytes: &mut Vec<u8>) -> Result<(), ConnectionError> {
    let mut input = &bytes[..];
    while let Some(first) = input.first() {
        let mut rest = input;
        let wrong = |reason| ConnectionError::new(ErrorCode::QPACK_DECODER_STREAM_ERROR, reason);
        if first & 0xc0 != 0x40 {
            return Err(wrong("the decoder acknowledges what it was never told"));
        }
        match crate::hpack::integer::decode(&mut rest, 6) {
            Ok(_) => input = rest,
            Err(crate::hpack::HpackError::Truncated) => break,
            Err(_) => return Err(wrong("a number on the decoder's stream is too long")),
        }
    }
    let used = bytes.len() - input.len();
    bytes.drain(..used);
    Ok(())
}
