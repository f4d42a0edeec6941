//! The bytes of one request: frames, field sections, the body (RFC 9114 sections 4.1 and 7.1).

use std::ops::Range;

use super::error::ConnectionError;
use super::frame::{self, FrameHead, kind};
use super::limits::Limits;
use crate::pseudo::{self, Malformed, RequestWriter, Workspace, Written};
use crate::qpack;

/// Result of one step of [`Incoming::receive`].
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the input that are done with; the next call begins behind them. The bytes of
    /// [`Event::Data`] are among them.
    pub used: usize,
    /// The event.
    pub event: Event,
}

/// An event of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// The input is used up.
    More,
    /// The request begins. Its head stands in [`Workspace::head`] until the next call.
    Request {
        /// The request has no body, and no further event comes.
        end: bool,
        /// Facts about the head.
        written: Written,
    },
    /// The fields are above the limit: to be answered 431. Later bytes are ignored.
    TooLarge,
    /// Bytes of the body: their place in the input.
    Data(Range<usize>),
    /// The trailers of the request. Their lines stand in [`Workspace::head`] until the next call.
    Trailers,
    /// The request is whole.
    End,
    /// The request is malformed: the stream has to be reset with `MESSAGE_ERROR`.
    Malformed(Malformed),
    /// The request ends before it has begun: the stream has to be reset with `REQUEST_INCOMPLETE`.
    Incomplete,
    /// The connection is at its end.
    Failed(ConnectionError),
}

/// The state of a request whose bytes arrive. Memory: less than 100 bytes, and a field section that
/// is not whole, at most [`Limits::frame_bytes`].
#[derive(Debug, Default)]
pub struct Incoming {
    phase: Phase,
    reading: Reading,
    /// The beginning of a frame's head or of a field section.
    partial: Vec<u8>,
    /// The field section of a request whose end is waited for.
    held: Vec<u8>,
    /// Bytes of the body that are still to come, where its length was announced.
    left: Option<u64>,
    /// Frames without use.
    empty: u32,
}

/// The message so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// No fields came.
    #[default]
    Head,
    /// Fields of a request that has no body as a rule: its end is waited for, to tell.
    Held,
    Body,
    Trailers,
    /// Further bytes are ignored.
    Over,
}

/// The part of a frame that is expected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reading {
    #[default]
    Head,
    /// A field section of so many bytes.
    Fields(usize),
    /// Bytes of the body.
    Data(u64),
    /// Bytes of a frame of an unknown type.
    Skip(u64),
}

/// Result of a look at the input: an event, if the caller has to know.
type Taken = Result<Option<Event>, ConnectionError>;

impl Incoming {
    /// Takes received bytes, as far as the next event. `end`: the stream ends behind `input`. Call
    /// again with the unused bytes until the event is [`Event::More`], or one that nothing follows.
    pub fn receive(
        &mut self,
        input: &[u8],
        end: bool,
        limits: &Limits,
        work: &mut Workspace,
    ) -> Step {
        let mut used = 0;
        let event = loop {
            if self.phase == Phase::Over {
                used = input.len();
                break Event::More;
            }
            match self.take(input, &mut used, end, limits, work) {
                Ok(None) => {}
                Ok(Some(event)) => break event,
                Err(error) => {
                    (self.phase, used) = (Phase::Over, input.len());
                    break Event::Failed(error);
                }
            }
        };
        Step { used, event }
    }

    /// Ignores all that comes.
    pub fn ignore(&mut self) {
        self.phase = Phase::Over;
        (self.partial, self.held) = (Vec::new(), Vec::new());
    }

    /// Bytes of memory behind it.
    pub fn memory(&self) -> usize {
        self.partial.capacity() + self.held.capacity()
    }

    #[inline]
    fn take(
        &mut self,
        input: &[u8],
        used: &mut usize,
        end: bool,
        limits: &Limits,
        work: &mut Workspace,
    ) -> Taken {
        let rest = &input[*used..];
        if rest.is_empty() {
            return if end { self.finish(limits, work) } else { Ok(Some(Event::More)) };
        }
        match self.reading {
            Reading::Head => {
                let Some(head) = self.frame_head(rest, used) else { return Ok(None) };
                if self.phase == Phase::Held && matches!(head.kind, kind::DATA | kind::HEADERS) {
                    let request = self.release(false, limits, work)?;
                    return Ok(self.frame(head, limits)?.or(request));
                }
                self.frame(head, limits)
            }
            Reading::Fields(length) => {
                if self.partial.is_empty() && rest.len() >= length {
                    *used += length;
                    self.reading = Reading::Head;
                    let ends = end && rest.len() == length;
                    return self.fields(&rest[..length], ends, limits, work);
                }
                let taken = (length - self.partial.len()).min(rest.len());
                self.partial.extend_from_slice(&rest[..taken]);
                *used += taken;
                if self.partial.len() < length {
                    return Ok(None);
                }
                self.reading = Reading::Head;
                let section = std::mem::take(&mut self.partial);
                self.fields(&section, end && rest.len() == taken, limits, work)
            }
            Reading::Data(left) => {
                let taken = left.min(rest.len() as u64);
                let range = *used..*used + taken as usize;
                *used = range.end;
                self.reading =
                    if taken < left { Reading::Data(left - taken) } else { Reading::Head };
                Ok(Some(Event::Data(range)))
            }
            Reading::Skip(left) => {
                let taken = left.min(rest.len() as u64);
                *used += taken as usize;
                self.reading =
                    if taken < left { Reading::Skip(left - taken) } else { Reading::Head };
                Ok(None)
            }
        }
    }

    /// The head of the next frame, once it is whole. All of `rest` is used where it is not.
    fn frame_head(&mut self, rest: &[u8], used: &mut usize) -> Option<FrameHead> {
        if self.partial.is_empty()
            && let Some((head, length)) = FrameHead::parse(rest)
        {
            *used += length;
            return Some(head);
        }
        let before = self.partial.len();
        let taken = (frame::HEAD - before).min(rest.len());
        self.partial.extend_from_slice(&rest[..taken]);
        let Some((head, length)) = FrameHead::parse(&self.partial) else {
            *used += taken;
            return None;
        };
        *used += length - before;
        self.partial.clear();
        Some(head)
    }

    /// A frame begins.
    fn frame(&mut self, head: FrameHead, limits: &Limits) -> Taken {
        match head.kind {
            kind::HEADERS if self.phase == Phase::Trailers => {
                Err(ConnectionError::unexpected("HEADERS behind trailers"))
            }
            kind::HEADERS if head.length > limits.frame_bytes as u64 => {
                // An answer may be under way: trailers are not answered.
                let is_head = matches!(self.phase, Phase::Head | Phase::Held);
                let trailers = Malformed::Trailers;
                Ok(Some(if is_head { self.too_large() } else { self.malformed(trailers) }))
            }
            kind::HEADERS if head.length == 0 => {
                Err(qpack::QpackError::from(crate::hpack::HpackError::Truncated).into())
            }
            kind::HEADERS => {
                self.reading = Reading::Fields(head.length as usize);
                Ok(None)
            }
            kind::DATA if self.phase != Phase::Body => {
                Err(ConnectionError::unexpected("DATA before the head or behind trailers"))
            }
            kind::DATA => {
                if let Some(left) = &mut self.left {
                    match left.checked_sub(head.length) {
                        Some(less) => *left = less,
                        None => return Ok(Some(self.malformed(Malformed::ContentLength))),
                    }
                }
                if head.length == 0 {
                    self.without_use(limits)?;
                } else {
                    self.reading = Reading::Data(head.length);
                }
                Ok(None)
            }
            kind::CANCEL_PUSH
            | kind::SETTINGS
            | kind::PUSH_PROMISE
            | kind::GOAWAY
            | kind::MAX_PUSH_ID
            | kind::PRIORITY_UPDATE
            | kind::PRIORITY_UPDATE_PUSH => {
                Err(ConnectionError::unexpected("a frame that no request has"))
            }
            kind if kind::is_of_http2(kind) => {
                Err(ConnectionError::unexpected("a frame of HTTP/2"))
            }
            _ => {
                self.without_use(limits)?;
                if head.length > 0 {
                    self.reading = Reading::Skip(head.length);
                }
                Ok(None)
            }
        }
    }

    fn without_use(&mut self, limits: &Limits) -> Result<(), ConnectionError> {
        self.empty += 1;
        if self.empty > limits.empty_frames {
            return Err(ConnectionError::excessive("too many frames without use"));
        }
        Ok(())
    }

    /// A whole field section. `end`: the stream ends behind it.
    fn fields(
        &mut self,
        section: &[u8],
        end: bool,
        limits: &Limits,
        work: &mut Workspace,
    ) -> Taken {
        if self.phase == Phase::Head {
            return self.begin(section, end, true, limits, work);
        }
        self.phase = Phase::Trailers;
        if self.left.is_some_and(|left| left > 0) {
            return Ok(Some(self.malformed(Malformed::ContentLength)));
        }
        let mut fault = None;
        let Workspace { head, scratch, .. } = work;
        head.clear();
        let list = limits.section_bytes as usize;
        let decoded = qpack::decode(section, list, scratch, &mut |line| {
            if fault.is_none() {
                fault = pseudo::trailer(&line, head).err();
            }
        })?;
        let fault = fault.or(decoded.too_large.then_some(Malformed::Trailers));
        Ok(Some(fault.map_or(Event::Trailers, |fault| self.malformed(fault))))
    }

    /// The fields of the request. A request of a kind that has no body as a rule may be told to
    /// have none by bytes that come later: `may_hold` waits for these.
    fn begin(
        &mut self,
        section: &[u8],
        end: bool,
        may_hold: bool,
        limits: &Limits,
        work: &mut Workspace,
    ) -> Taken {
        let Workspace { head, scratch, pseudo, cookies } = work;
        let mut writer = RequestWriter::over(head, pseudo, cookies, limits.connect_protocol);
        let list = limits.section_bytes as usize;
        let decoded = qpack::decode(section, list, scratch, &mut |line| writer.line(line))?;
        if decoded.too_large {
            return Ok(Some(self.too_large()));
        }
        let written = match writer.finish(end) {
            Ok(written) => written,
            Err(why) => return Ok(Some(self.malformed(why))),
        };
        let bodiless = head.starts_with(b"GET ") || head.starts_with(b"HEAD ");
        let plain = written.connect == pseudo::Connect::No && written.content_length.is_none();
        if !end && may_hold && bodiless && plain {
            self.phase = Phase::Held;
            self.held = section.to_vec();
            return Ok(None);
        }
        self.phase = if end { Phase::Over } else { Phase::Body };
        self.left = written.content_length;
        Ok(Some(Event::Request { end, written }))
    }

    /// Begins the request that was held back.
    fn release(&mut self, end: bool, limits: &Limits, work: &mut Workspace) -> Taken {
        let section = std::mem::take(&mut self.held);
        self.begin(&section, end, false, limits, work)
    }

    /// The stream ends.
    fn finish(&mut self, limits: &Limits, work: &mut Workspace) -> Taken {
        if self.reading != Reading::Head || !self.partial.is_empty() {
            return Err(ConnectionError::frame("a stream ends within a frame"));
        }
        if self.phase == Phase::Held {
            return self.release(true, limits, work);
        }
        let event = match self.phase {
            Phase::Head => Event::Incomplete,
            _ if self.left.is_some_and(|left| left > 0) => {
                Event::Malformed(Malformed::ContentLength)
            }
            _ => Event::End,
        };
        self.phase = Phase::Over;
        Ok(Some(event))
    }

    fn malformed(&mut self, why: Malformed) -> Event {
        self.ignore();
        Event::Malformed(why)
    }

    fn too_large(&mut self) -> Event {
        self.ignore();
        Event::TooLarge
    }
}
