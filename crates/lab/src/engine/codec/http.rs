//! HTTP/1.1: requests with keep-alive, answers in every framing.

use larder_proto::http::{
    ChunkLimits, ChunkedDecoder, ResponseBody, ResponseHead, Step as Chunk, parse_response,
};

use super::{Codec, Outcome, Step, page::Page};
use crate::load::{Operation, Verb, value};

/// Requests, with their constant parts prepared.
pub(super) struct Requests {
    /// From after the target to the end of the head.
    tail: Vec<u8>,
    /// From after `Host`'s value to the end of the head.
    fields: Vec<u8>,
}

impl Requests {
    pub(super) fn new(host: &str, fields: &[String], close: bool) -> Requests {
        let mut lines = b"\r\n".to_vec();
        for field in fields.iter().map(String::as_str).chain(close.then_some("Connection: close")) {
            lines.extend_from_slice(field.as_bytes());
            lines.extend_from_slice(b"\r\n");
        }
        let tail = [b" HTTP/1.1\r\nHost: ", host.as_bytes(), &lines].concat();
        Requests { tail, fields: lines }
    }

    pub(super) fn write(
        &self,
        operation: &Operation,
        codec: &Codec<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        if !is_plain(&operation.key) {
            return false;
        }
        let start = out.len();
        out.extend_from_slice(match operation.verb {
            Verb::Get => b"GET ",
            Verb::Set => b"PUT ",
            Verb::Delete => b"DELETE ",
            Verb::Head => b"HEAD ",
        });
        if operation.key.first() == Some(&b'/') {
            out.extend_from_slice(&operation.key);
            out.extend_from_slice(&self.tail);
        } else if !self.elsewhere(&operation.key, out) {
            out.truncate(start);
            return false;
        }
        if operation.verb == Verb::Set {
            let mut digits = larder_proto::resp::number::Text::default();
            out.extend_from_slice(b"Content-Length: ");
            out.extend_from_slice(digits.u64(operation.size as u64));
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
        if operation.verb == Verb::Set {
            value::fill(&operation.key, operation.size, out);
        }
        if codec.compares() && matches!(operation.verb, Verb::Set | Verb::Delete) {
            codec.pages.written(&operation.key);
        }
        true
    }

    /// Writes a request for a URL with its own host, as in recorded traces.
    fn elsewhere(&self, url: &[u8], out: &mut Vec<u8>) -> bool {
        let Some((host, path)) = parts(url) else { return false };
        out.extend_from_slice(path);
        out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
        out.extend_from_slice(host);
        out.extend_from_slice(&self.fields);
        true
    }
}

/// Whether a key can stand in a request.
#[inline]
pub(super) fn is_plain(key: &[u8]) -> bool {
    !key.iter().fold(false, |bad, &byte| bad | (byte <= b' ') | (byte == 0x7f))
}

/// Host and target of a URL.
pub(super) fn parts(url: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = url.strip_prefix(b"http://").or_else(|| url.strip_prefix(b"https://"))?;
    let (host, path) =
        rest.split_at(rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len()));
    (!host.is_empty()).then_some((host, if path.is_empty() { b"/" } else { path }))
}

/// Decoder of the answers on a connection.
pub(in crate::engine) struct Http {
    state: State,
    page: Page,
}

enum State {
    Head,
    Length(ResponseHead, u64),
    Chunked(ResponseHead, ChunkedDecoder),
    UntilClose(ResponseHead),
}

impl Http {
    pub(super) fn new() -> Http {
        Http { state: State::Head, page: Page::new() }
    }

    #[inline]
    pub(super) fn take(&mut self, operation: &Operation, bytes: &[u8], codec: &Codec<'_>) -> Step {
        match &mut self.state {
            State::Head => match parse_response(bytes, operation.verb == Verb::Head) {
                Ok(Some(head)) => self.begin(head, operation, bytes, codec),
                Ok(None) => Step::Need(bytes.len() + 1),
                Err(bad) => Step::Broken(bad.to_string()),
            },
            State::Length(head, left) => {
                let (head, left) = (*head, *left);
                self.length(head, left, operation, bytes, codec)
            }
            State::Chunked(..) => self.chunks(operation, bytes, codec),
            State::UntilClose(_) if bytes.is_empty() => Step::Need(1),
            State::UntilClose(_) => {
                self.page.body(bytes, operation, codec);
                Step::Part(bytes.len())
            }
        }
    }

    fn begin(
        &mut self,
        head: ResponseHead,
        operation: &Operation,
        bytes: &[u8],
        codec: &Codec<'_>,
    ) -> Step {
        if head.status < 200 {
            return Step::Part(head.used);
        }
        self.page.begin(operation, codec);
        match head.body {
            ResponseBody::None => self.over(head, head.used, operation, codec),
            ResponseBody::Length(length) => {
                match self.length(head, length, operation, &bytes[head.used..], codec) {
                    Step::Over { used, outcome, keep } => {
                        Step::Over { used: used + head.used, outcome, keep }
                    }
                    Step::Part(used) => Step::Part(used + head.used),
                    Step::Need(_) => Step::Part(head.used),
                    other @ (Step::Leave | Step::Broken(_)) => other,
                }
            }
            ResponseBody::Chunked => {
                self.state = State::Chunked(head, ChunkedDecoder::new(ChunkLimits::default()));
                Step::Part(head.used)
            }
            ResponseBody::UntilClose => {
                self.state = State::UntilClose(head);
                Step::Part(head.used)
            }
        }
    }

    fn length(
        &mut self,
        head: ResponseHead,
        left: u64,
        operation: &Operation,
        bytes: &[u8],
        codec: &Codec<'_>,
    ) -> Step {
        let taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        self.page.body(&bytes[..taken], operation, codec);
        if taken as u64 == left {
            return self.over(head, taken, operation, codec);
        }
        self.state = State::Length(head, left - taken as u64);
        if taken == 0 { Step::Need(1) } else { Step::Part(taken) }
    }

    fn chunks(&mut self, operation: &Operation, bytes: &[u8], codec: &Codec<'_>) -> Step {
        let State::Chunked(head, decoder) = &mut self.state else {
            return Step::Need(bytes.len() + 1);
        };
        let head = *head;
        match decoder.decode(bytes) {
            Ok(Chunk::Need) => Step::Need(bytes.len() + 1),
            Ok(Chunk::Skip { used }) => Step::Part(used),
            Ok(Chunk::Data { used, data }) => {
                self.page.body(data, operation, codec);
                Step::Part(used)
            }
            Ok(Chunk::End { used, .. }) => self.over(head, used, operation, codec),
            Err(_) => Step::Broken("a chunked body that is not one".to_owned()),
        }
    }

    #[inline]
    fn over(
        &mut self,
        head: ResponseHead,
        used: usize,
        operation: &Operation,
        codec: &Codec<'_>,
    ) -> Step {
        self.state = State::Head;
        Step::Over {
            used,
            outcome: self.page.outcome(head, operation, codec),
            keep: head.keep_alive,
        }
    }

    /// The end of the connection ends a body without a length.
    pub(super) fn end(&mut self, operation: &Operation, codec: &Codec<'_>) -> Option<Outcome> {
        let State::UntilClose(head) = self.state else { return None };
        self.state = State::Head;
        Some(self.page.outcome(head, operation, codec))
    }
}
