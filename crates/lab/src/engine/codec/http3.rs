//! HTTP/3 (RFC 9114) on the side of a client: the bytes of its streams.

use larder_proto::{
    http::ResponseHead,
    http3::frame::{FrameHead, integer, kind},
    qpack,
};

use super::{Codec, Encoder, Outcome, http2::Lines, http2::is_whole, page::Page};
use crate::{engine::tally::Fault, load::Operation};

/// Longest head of a response, in bytes.
const LONGEST_HEAD: u64 = 256 << 10;
/// Longest frame of the control stream, in bytes: SETTINGS of some dozens of settings.
const LONGEST_CONTROL: u64 = 4096;
/// Type of a control stream (RFC 9114 section 6.2.1).
const CONTROL: u64 = 0;

/// The beginning of the client's control stream: its type and SETTINGS without settings. That says
/// that it has no dynamic table.
pub(in crate::engine) const OPENING: &[u8] = &[CONTROL as u8, kind::SETTINGS as u8, 0];

impl Codec<'_> {
    /// Appends the bytes of a stream of HTTP/3 with this request. False: the protocol cannot
    /// express it.
    pub(in crate::engine) fn stream(&self, operation: &Operation, out: &mut Vec<u8>) -> bool {
        let Encoder::Fields(fields) = &self.encoder else { return false };
        let Some(request) = fields.request(operation) else { return false };
        request.note(self);
        let mut section = Vec::with_capacity(128);
        request.qpack(&mut section);
        FrameHead { kind: kind::HEADERS, length: section.len() as u64 }.write(out);
        out.append(&mut section);
        if let Some(length) = request.length() {
            FrameHead { kind: kind::DATA, length: length as u64 }.write(out);
            out.append(&mut request.body());
        }
        true
    }
}

/// The answer on a stream.
pub(in crate::engine) struct Answer {
    head: Option<ResponseHead>,
    page: Page,
    /// Trailers came.
    is_closed: bool,
    /// The beginning of a frame whose end is still to come, but of DATA.
    rest: Vec<u8>,
    /// Bytes of the DATA frame that are still to come.
    data: u64,
    /// The same of a frame without a meaning.
    ignored: u64,
}

impl Answer {
    pub(in crate::engine) fn new() -> Answer {
        let page = Page::new();
        Answer { head: None, page, is_closed: false, rest: Vec::new(), data: 0, ignored: 0 }
    }

    /// Takes the next bytes.
    pub(in crate::engine) fn take(
        &mut self,
        bytes: &[u8],
        operation: &Operation,
        codec: &Codec<'_>,
    ) -> Result<(), String> {
        if self.rest.is_empty() {
            let used = self.frames(bytes, operation, codec)?;
            self.rest.extend_from_slice(&bytes[used..]);
            return Ok(());
        }
        let mut gathered = std::mem::take(&mut self.rest);
        gathered.extend_from_slice(bytes);
        let used = self.frames(&gathered, operation, codec)?;
        gathered.drain(..used);
        self.rest = gathered;
        Ok(())
    }

    /// Takes whole frames, and what there is of DATA. Returns how many bytes were used.
    fn frames(
        &mut self,
        bytes: &[u8],
        operation: &Operation,
        codec: &Codec<'_>,
    ) -> Result<usize, String> {
        let mut used = 0;
        loop {
            let input = &bytes[used..];
            let most = |left: u64| usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
            if self.data > 0 {
                let taken = most(self.data);
                self.page.body(&input[..taken], operation, codec);
                self.data -= taken as u64;
                used += taken;
            } else if self.ignored > 0 {
                let taken = most(self.ignored);
                self.ignored -= taken as u64;
                used += taken;
            } else {
                let Some((head, length)) = FrameHead::parse(input) else { return Ok(used) };
                match head.kind {
                    kind::DATA if self.head.is_some() && !self.is_closed => self.data = head.length,
                    kind::HEADERS if head.length > LONGEST_HEAD => {
                        return Err("a head too large".to_owned());
                    }
                    kind::HEADERS => {
                        let whole = length + head.length as usize;
                        let Some(section) = input.get(length..whole) else { return Ok(used) };
                        self.section(section, operation, codec)?;
                        used += head.length as usize;
                    }
                    kind::DATA
                    | kind::SETTINGS
                    | kind::GOAWAY
                    | kind::CANCEL_PUSH
                    | kind::MAX_PUSH_ID
                    | kind::PUSH_PROMISE => {
                        return Err("a frame that does not belong there".to_owned());
                    }
                    _ => self.ignored = head.length,
                }
                used += length;
            }
            if used == bytes.len() {
                return Ok(used);
            }
        }
    }

    fn section(
        &mut self,
        section: &[u8],
        operation: &Operation,
        codec: &Codec<'_>,
    ) -> Result<(), String> {
        if self.is_closed {
            return Err("a head behind trailers".to_owned());
        }
        let (mut lines, mut scratch) = (Lines::default(), Vec::new());
        let decoded = qpack::decode(section, LONGEST_HEAD as usize, &mut scratch, &mut |line| {
            lines.take(line.name, line.value);
        })
        .map_err(|error| error.to_string())?;
        if decoded.too_large {
            return Err("a head too large".to_owned());
        }
        // Whether the stream ends here is not known yet; trailers may end it.
        match lines.head(self.head.is_some(), operation, self.head.is_some())? {
            Some(head) => {
                self.head = Some(head);
                self.page.begin(operation, codec);
            }
            None => self.is_closed = self.head.is_some(),
        }
        Ok(())
    }

    /// Judges the answer at the end of the stream.
    pub(in crate::engine) fn end(&self, operation: &Operation, codec: &Codec<'_>) -> Outcome {
        let cut = self.data > 0 || self.ignored > 0 || !self.rest.is_empty();
        let fault = |why: &str| Some(Fault::Malformed(why.to_owned()));
        let Some(head) = self.head else {
            return Outcome { fault: fault("an answer without a head"), ..Outcome::default() };
        };
        let mut outcome = self.page.outcome(head, operation, codec);
        if outcome.fault.is_none() && (cut || !is_whole(head, &self.page)) {
            outcome.fault = fault("a body of another length");
        }
        outcome
    }
}

/// A stream that the server began.
#[derive(Default)]
pub(in crate::engine) struct ServerStream {
    kind: Option<u64>,
    settled: bool,
    rest: Vec<u8>,
}

impl ServerStream {
    /// Takes the next bytes. Returns the number of a GOAWAY.
    pub(in crate::engine) fn take(&mut self, bytes: &[u8]) -> Result<Option<u64>, String> {
        if self.kind.is_some_and(|kind| kind != CONTROL) {
            return Ok(None);
        }
        self.rest.extend_from_slice(bytes);
        if self.kind.is_none() {
            let Some((kind, used)) = integer(&self.rest) else { return Ok(None) };
            self.kind = Some(kind);
            self.rest.drain(..used);
            if kind != CONTROL {
                self.rest = Vec::new();
                return Ok(None);
            }
        }
        let mut last = None;
        while let Some((head, used)) = FrameHead::parse(&self.rest) {
            if head.length > LONGEST_CONTROL {
                return Err("a frame too large".to_owned());
            }
            let whole = used + head.length as usize;
            let Some(payload) = self.rest.get(used..whole) else { break };
            match head.kind {
                kind::SETTINGS if !self.settled => self.settled = true,
                _ if !self.settled => return Err("no SETTINGS first".to_owned()),
                kind::GOAWAY => last = integer(payload).map(|(last, _)| last),
                kind::SETTINGS | kind::DATA | kind::HEADERS | kind::MAX_PUSH_ID => {
                    return Err("a frame that does not belong there".to_owned());
                }
                _ => {}
            }
            self.rest.drain(..whole);
        }
        Ok(last)
    }

    /// Whether the connection cannot go on without it.
    pub(in crate::engine) fn is_control(&self) -> bool {
        self.kind == Some(CONTROL)
    }
}
