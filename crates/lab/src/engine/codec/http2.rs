//! HTTP/2 (RFC 9113) on the side of a client: requests on streams of one connection.
//!
//! Fields that every request has go into the server's table with the first one, as other clients
//! do it; a target is never indexed. Windows are large, so that the server's pace is its own.

use larder_proto::{
    hpack::{self, Decoder},
    http::{ResponseBody, ResponseFields, ResponseHead},
    http2::{
        DEFAULT_WINDOW, ErrorCode, MAX_31_BITS, PREFACE,
        frame::{self, FrameHead, HEAD, flag, kind},
        setting,
    },
};
use rapidhash::RapidHashMap;

use super::{Codec, Outcome, Step, fields::Request, page::Page, upload::Uploads};
use crate::{
    engine::{slots::Slots, tally::Fault},
    load::{Operation, Verb},
};

/// Bytes that a server may send before it is allowed more, on a stream and on the connection: as
/// many as h2load allows.
const WINDOW: u32 = (1 << 30) - 1;
/// Streams under way before the server has said how many it allows: no less is recommended (RFC
/// 9113 section 6.5.2).
const FIRST_STREAMS: usize = 100;
/// Longest head of a response, compressed and not, in bytes.
const LONGEST_HEAD: usize = 256 << 10;

/// A connection.
pub(in crate::engine) struct Http2 {
    decoder: Decoder,
    scratch: Vec<u8>,
    streams: RapidHashMap<u32, Stream>,
    next: u32,
    /// Streams that the server allows at the same time.
    most: usize,
    /// The last stream that the server will answer.
    last: Option<u32>,
    /// The head that is being received: its bytes, its stream, whether nothing follows it.
    head: Vec<u8>,
    head_of: Option<(u32, bool)>,
    /// The DATA frame that is being received.
    data: Option<Data>,
    /// Bytes of bodies since the last update of the connection's window.
    received: u32,
    table: PeerTable,
    uploads: Uploads,
    /// Frames to send.
    out: Vec<u8>,
    answered: usize,
}

struct Stream {
    slot: usize,
    head: Option<ResponseHead>,
    page: Page,
    received: u32,
}

#[derive(Clone, Copy)]
struct Data {
    stream: u32,
    left: u32,
    end: bool,
}

/// State of the server's table of fields.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PeerTable {
    Empty,
    /// It has the fields that every request has.
    Filled,
    /// It is too small, which the next head has to acknowledge.
    Shrunk,
    Unused,
}

impl Http2 {
    pub(super) fn new() -> Http2 {
        Http2 {
            decoder: Decoder::default(),
            scratch: Vec::new(),
            streams: RapidHashMap::default(),
            next: 1,
            most: FIRST_STREAMS,
            last: None,
            head: Vec::new(),
            head_of: None,
            data: None,
            received: 0,
            table: PeerTable::Empty,
            uploads: Uploads::new(DEFAULT_WINDOW),
            out: Vec::new(),
            answered: 0,
        }
    }

    /// Appends the bytes that a client sends first.
    pub(in crate::engine) fn open(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(PREFACE);
        let settings = [(setting::ENABLE_PUSH, 0), (setting::INITIAL_WINDOW_SIZE, WINDOW)];
        frame::write_settings(&settings, out);
        frame::write_window_update(0, WINDOW - DEFAULT_WINDOW, out);
    }

    /// Whether another request may be sent now.
    #[inline]
    pub(in crate::engine) fn has_room(&self) -> bool {
        self.last.is_none() && self.next < MAX_31_BITS && self.streams.len() < self.most
    }

    /// The slot of the request that was answered last.
    #[inline]
    pub(in crate::engine) fn answered(&self) -> usize {
        self.answered
    }

    /// Appends frames that have to be sent beside requests.
    #[inline]
    pub(in crate::engine) fn reply(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.out);
        self.uploads.send(out);
    }

    /// Appends a request, whose slot is `slot`.
    pub(super) fn request(&mut self, slot: usize, request: &Request<'_>, out: &mut Vec<u8>) {
        let stream = self.next;
        self.next += 2;
        let start = out.len();
        out.extend_from_slice(&[0; HEAD]);
        if self.table == PeerTable::Shrunk {
            hpack::write_integer(0, 5, 0x20, out);
            self.table = PeerTable::Unused;
        }
        request.hpack(self.table == PeerTable::Filled, self.table == PeerTable::Empty, out);
        if self.table == PeerTable::Empty && request.is_usual() {
            self.table = PeerTable::Filled;
        }
        let length = (out.len() - start - HEAD) as u32;
        let has_body = request.length().is_some();
        let flags = flag::END_HEADERS | if has_body { 0 } else { flag::END_STREAM };
        let head = FrameHead { length, kind: kind::HEADERS, flags, stream };
        out[start..start + HEAD].copy_from_slice(&head.bytes());
        let page = Page::new();
        self.streams.insert(stream, Stream { slot, head: None, page, received: 0 });
        if has_body {
            self.uploads.begin(stream, request.body());
            self.uploads.send(out);
        }
    }

    /// Decodes the next frame, or a part of its body.
    #[inline]
    pub(in crate::engine) fn take(
        &mut self,
        slots: &Slots,
        bytes: &[u8],
        codec: &Codec<'_>,
    ) -> Step {
        if let Some(data) = self.data {
            return self.content(data, 0, slots, bytes, codec);
        }
        let Some(head) = bytes.first_chunk::<HEAD>() else { return Step::Need(HEAD) };
        let head = FrameHead::parse(head);
        if head.length > frame::MIN_MAX_BYTES {
            return broken("a frame longer than allowed");
        }
        if self.head_of.is_some() != (head.kind == kind::CONTINUATION) {
            return broken("a head in frames that are not next to each other");
        }
        if head.kind == kind::DATA && !head.has(flag::PADDED) {
            let end = head.has(flag::END_STREAM);
            let data = Data { stream: head.stream, left: head.length, end };
            return self.content(data, HEAD, slots, &bytes[HEAD..], codec);
        }
        let whole = HEAD + head.length as usize;
        let Some(payload) = bytes.get(HEAD..whole) else { return Step::Need(whole) };
        self.frame(head, payload, slots, codec)
    }

    /// Takes a whole frame.
    fn frame(&mut self, head: FrameHead, payload: &[u8], slots: &Slots, codec: &Codec<'_>) -> Step {
        let used = HEAD + payload.len();
        match head.kind {
            kind::DATA => {
                let Some(inner) = unpadded(head, payload) else { return broken("padding") };
                self.window(head.stream, (payload.len() - inner.len()) as u32);
                let end = head.has(flag::END_STREAM);
                let data = Data { stream: head.stream, left: inner.len() as u32, end };
                match self.content(data, used - inner.len(), slots, inner, codec) {
                    Step::Part(_) => Step::Part(used),
                    Step::Over { outcome, keep, .. } => Step::Over { used, outcome, keep },
                    other => other,
                }
            }
            kind::HEADERS => {
                let inner = unpadded(head, payload)
                    .and_then(|inner| inner.get(if head.has(flag::PRIORITY) { 5 } else { 0 }..));
                let Some(inner) = inner else { return broken("padding") };
                self.head.clear();
                self.head_of = Some((head.stream, head.has(flag::END_STREAM)));
                self.piece_of_head(head, inner, used, slots, codec)
            }
            kind::CONTINUATION => self.piece_of_head(head, payload, used, slots, codec),
            kind::RST_STREAM => {
                let Some(code) = number(payload) else { return broken("RST_STREAM") };
                let Some(stream) = self.streams.remove(&head.stream) else {
                    return Step::Part(used);
                };
                self.uploads.end(head.stream);
                let fault = Fault::Broke(format!("stream reset, code {code}"));
                self.over(stream.slot, used, Outcome { fault: Some(fault), ..Outcome::default() })
            }
            kind::SETTINGS if head.has(flag::ACK) => Step::Part(used),
            kind::SETTINGS => self.settings(payload, used),
            kind::PING if !head.has(flag::ACK) => {
                let Ok(payload) = payload.try_into() else { return broken("PING") };
                frame::write_ping(true, payload, &mut self.out);
                Step::Part(used)
            }
            kind::GOAWAY => self.goaway(payload, used),
            kind::WINDOW_UPDATE => {
                let Some(more) = number(payload) else { return broken("WINDOW_UPDATE") };
                self.uploads.allow(head.stream, more);
                Step::Part(used)
            }
            kind::PUSH_PROMISE => broken("a push that was not allowed"),
            _ => Step::Part(used),
        }
    }

    fn settings(&mut self, payload: &[u8], used: usize) -> Step {
        let (settings, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() {
            return broken("SETTINGS");
        }
        for &[a, b, c, d, e, f] in settings {
            let value = u32::from_be_bytes([c, d, e, f]);
            match u16::from_be_bytes([a, b]) {
                // A table of the first size or more is used as if it had the first size.
                setting::HEADER_TABLE_SIZE if value < hpack::DEFAULT_TABLE_SIZE => {
                    self.table = PeerTable::Shrunk;
                }
                setting::MAX_CONCURRENT_STREAMS => self.most = value as usize,
                setting::INITIAL_WINDOW_SIZE => self.uploads.set_window(value),
                _ => {}
            }
        }
        frame::write_settings_ack(&mut self.out);
        Step::Part(used)
    }

    fn goaway(&mut self, payload: &[u8], used: usize) -> Step {
        let (Some(last), Some(code)) = (number(payload), payload.get(4..).and_then(number)) else {
            return broken("GOAWAY");
        };
        if code != ErrorCode::NO_ERROR.0 {
            return Step::Broken(format!("the server ended the connection, code {code}"));
        }
        self.last = Some(last & MAX_31_BITS);
        if self.is_over() { Step::Leave } else { Step::Part(used) }
    }

    /// The server answers nothing more on this connection.
    fn is_over(&self) -> bool {
        match self.last {
            Some(last) => self.streams.keys().all(|stream| *stream > last),
            None => self.next >= MAX_31_BITS && self.streams.is_empty(),
        }
    }

    fn piece_of_head(
        &mut self,
        head: FrameHead,
        piece: &[u8],
        used: usize,
        slots: &Slots,
        codec: &Codec<'_>,
    ) -> Step {
        if self.head.len() + piece.len() > LONGEST_HEAD {
            return broken("a head too large");
        }
        self.head.extend_from_slice(piece);
        if !head.has(flag::END_HEADERS) {
            return Step::Part(used);
        }
        let Some((id, end)) = self.head_of.take() else { return broken("CONTINUATION") };
        if id != head.stream {
            return broken("a head on two streams");
        }
        let mut lines = Lines::default();
        let block = std::mem::take(&mut self.head);
        let decoded = self.decoder.decode(&block, LONGEST_HEAD, &mut self.scratch, &mut |line| {
            lines.take(line.name, line.value);
        });
        self.head = block;
        match decoded {
            Err(error) => return Step::Broken(error.to_string()),
            Ok(decoded) if decoded.too_large => return broken("a head too large"),
            Ok(_) => {}
        }
        let Some(stream) = self.streams.get_mut(&id) else {
            // It was reset, or it never was.
            let known = id % 2 == 1 && id < self.next;
            return if known { Step::Part(used) } else { broken("an answer to no request") };
        };
        let operation = &slots.get(stream.slot).operation;
        match lines.head(stream.head.is_some(), operation, end) {
            Ok(Some(head)) => {
                stream.head = Some(head);
                stream.page.begin(operation, codec);
            }
            Ok(None) => {}
            Err(why) => return Step::Broken(why),
        }
        if end { self.finish(id, used, slots, codec) } else { Step::Part(used) }
    }

    /// Takes the bytes of a DATA frame that are there. `before`: bytes that were used already.
    fn content(
        &mut self,
        data: Data,
        before: usize,
        slots: &Slots,
        bytes: &[u8],
        codec: &Codec<'_>,
    ) -> Step {
        let taken = bytes.len().min(data.left as usize);
        if let Some(stream) = self.streams.get_mut(&data.stream) {
            if stream.head.is_none() {
                return broken("content without a head");
            }
            stream.page.body(&bytes[..taken], &slots.get(stream.slot).operation, codec);
        } else if data.stream.is_multiple_of(2) || data.stream >= self.next {
            return broken("content of no request");
        }
        self.window(data.stream, taken as u32);
        let (left, used) = (data.left - taken as u32, before + taken);
        self.data = (left > 0).then_some(Data { left, ..data });
        if left == 0 && data.end {
            return self.finish(data.stream, used, slots, codec);
        }
        Step::Part(used)
    }

    /// Counts received bytes and allows more in time.
    #[inline]
    fn window(&mut self, stream: u32, bytes: u32) {
        self.received += bytes;
        if self.received > WINDOW / 2 {
            frame::write_window_update(0, std::mem::take(&mut self.received), &mut self.out);
        }
        if let Some(state) = self.streams.get_mut(&stream) {
            state.received += bytes;
            if state.received > WINDOW / 2 {
                let more = std::mem::take(&mut state.received);
                frame::write_window_update(stream, more, &mut self.out);
            }
        }
    }

    /// The answer on a stream is whole.
    fn finish(&mut self, id: u32, used: usize, slots: &Slots, codec: &Codec<'_>) -> Step {
        let Some(stream) = self.streams.remove(&id) else { return Step::Part(used) };
        let Some(head) = stream.head else { return broken("an answer without a head") };
        if self.uploads.end(id) {
            // Answered before it was sent whole; the rest is not wanted.
            frame::write_reset(id, ErrorCode::CANCEL, &mut self.out);
        }
        let mut outcome = stream.page.outcome(head, &slots.get(stream.slot).operation, codec);
        if outcome.fault.is_none() && !is_whole(head, &stream.page) {
            outcome.fault = Some(Fault::Malformed("a body of another length".to_owned()));
        }
        self.over(stream.slot, used, outcome)
    }

    fn over(&mut self, slot: usize, used: usize, outcome: Outcome) -> Step {
        self.answered = slot;
        Step::Over { used, outcome, keep: !self.is_over() }
    }
}

/// Whether a body has the length that its head says.
pub(super) fn is_whole(head: ResponseHead, page: &Page) -> bool {
    match head.body {
        ResponseBody::None => page.length() == 0,
        ResponseBody::Length(length) => page.length() == length,
        ResponseBody::Chunked | ResponseBody::UntilClose => true,
    }
}

/// The lines of a decoded head, of HTTP/2 and of HTTP/3.
#[derive(Default)]
pub(super) struct Lines {
    fields: ResponseFields,
    status: Option<u16>,
    wrong: Option<&'static str>,
}

impl Lines {
    pub(super) fn take(&mut self, name: &[u8], value: &[u8]) {
        if let [b':', pseudo @ ..] = name {
            let status = std::str::from_utf8(value).ok().filter(|value| value.len() == 3);
            let status = status.and_then(|value| value.parse().ok());
            if pseudo != b"status" || self.status.is_some() || status.is_none() {
                self.wrong = Some("a pseudo field that does not belong there");
            }
            self.status = status;
        } else if name.iter().any(u8::is_ascii_uppercase) {
            self.wrong = Some("a field name in upper case");
        } else if matches!(name, b"connection" | b"transfer-encoding") {
            self.wrong = Some("a field of HTTP/1's connections");
        } else if self.fields.take(name, value).is_err() {
            self.wrong = Some("a body whose length is not clear");
        }
    }

    /// The head; None for trailers and interim answers. `again`: there was one; `end`: nothing
    /// follows.
    pub(super) fn head(
        &self,
        again: bool,
        operation: &Operation,
        end: bool,
    ) -> Result<Option<ResponseHead>, String> {
        match (self.wrong, self.status) {
            (Some(wrong), _) => Err(wrong.to_owned()),
            (None, None) if again && end => Ok(None),
            (None, Some(100..=199)) if !again && !end => Ok(None),
            (None, Some(status @ 200..)) if !again => {
                let head = self.fields.head(status, operation.verb == Verb::Head, 0);
                head.map(Some).map_err(|bad| bad.to_string())
            }
            _ => Err("a head that does not belong there".to_owned()),
        }
    }
}

fn broken(why: &str) -> Step {
    Step::Broken(why.to_owned())
}

fn number(payload: &[u8]) -> Option<u32> {
    payload.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

fn unpadded(head: FrameHead, payload: &[u8]) -> Option<&[u8]> {
    if !head.has(flag::PADDED) {
        return Some(payload);
    }
    let (&padding, rest) = payload.split_first()?;
    rest.get(..rest.len().checked_sub(usize::from(padding))?)
}
