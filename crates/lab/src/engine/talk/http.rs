//! HTTP/1.1: requests with keep-alive, answers of every framing.

use crc32fast::Hasher;
use larder_proto::http::{
    Cached, ChunkLimits, ChunkedDecoder, ResponseBody, ResponseHead, Step as Chunk, parse_response,
};

use super::{Outcome, Speech, Step, Sum};
use crate::{
    engine::tally::Fault,
    load::{Ask, Verb, value},
};

/// Requests, made ready as far as they are alike.
pub(super) struct Requests {
    /// From behind the target to the last field's line end.
    tail: Vec<u8>,
    /// The same from behind `Host`'s value.
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

    pub(super) fn write(&self, ask: &Ask, speech: &Speech<'_>, out: &mut Vec<u8>) -> bool {
        if ask.key.iter().fold(false, |bad, &byte| bad | (byte <= b' ') | (byte == 0x7f)) {
            return false;
        }
        let start = out.len();
        out.extend_from_slice(match ask.verb {
            Verb::Get => b"GET ",
            Verb::Set => b"PUT ",
            Verb::Delete => b"DELETE ",
            Verb::Head => b"HEAD ",
        });
        if ask.key.first() == Some(&b'/') {
            out.extend_from_slice(&ask.key);
            out.extend_from_slice(&self.tail);
        } else if !self.elsewhere(&ask.key, out) {
            out.truncate(start);
            return false;
        }
        if ask.verb == Verb::Set {
            let mut digits = larder_proto::resp::number::Text::default();
            out.extend_from_slice(b"Content-Length: ");
            out.extend_from_slice(digits.u64(ask.size as u64));
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
        if ask.verb == Verb::Set {
            value::fill(&ask.key, ask.size, out);
        }
        if speech.compares() && matches!(ask.verb, Verb::Set | Verb::Delete) {
            speech.pages.written(&ask.key);
        }
        true
    }

    /// A whole URL names its host itself (recorded traces have such).
    fn elsewhere(&self, url: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(rest) = url.strip_prefix(b"http://").or_else(|| url.strip_prefix(b"https://")) else {
            return false;
        };
        let (host, path) = rest.split_at(rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len()));
        if host.is_empty() {
            return false;
        }
        out.extend_from_slice(if path.is_empty() { b"/" } else { path });
        out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
        out.extend_from_slice(host);
        out.extend_from_slice(&self.fields);
        true
    }
}

/// Where in an answer a connection is.
pub(in crate::engine) struct Http {
    state: State,
    look: Look,
    sum: Hasher,
    length: u64,
}

/// What is done with the bytes of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// Nothing.
    Away,
    /// They are summed, to be compared with the first page of that target.
    Sum,
    /// They are compared with the page that is known, and so far were the same, or not.
    Page(bool),
}

enum State {
    Head,
    Length(ResponseHead, u64),
    Chunked(ResponseHead, ChunkedDecoder),
    UntilClose(ResponseHead),
}

impl Http {
    pub(super) fn new() -> Http {
        Http { state: State::Head, look: Look::Away, sum: Hasher::new(), length: 0 }
    }

    #[inline]
    pub(super) fn take(&mut self, ask: &Ask, bytes: &[u8], speech: &Speech<'_>) -> Step {
        match &mut self.state {
            State::Head => match parse_response(bytes, ask.verb == Verb::Head) {
                Ok(Some(head)) => self.begin(head, ask, bytes, speech),
                Ok(None) => Step::Need(bytes.len() + 1),
                Err(bad) => Step::Broken(bad.to_string()),
            },
            State::Length(head, left) => {
                let (head, left) = (*head, *left);
                self.length(head, left, ask, bytes, speech)
            }
            State::Chunked(..) => self.chunks(ask, bytes, speech),
            State::UntilClose(_) if bytes.is_empty() => Step::Need(1),
            State::UntilClose(_) => {
                self.body(bytes, ask, speech);
                Step::Part(bytes.len())
            }
        }
    }

    fn begin(&mut self, head: ResponseHead, ask: &Ask, bytes: &[u8], speech: &Speech<'_>) -> Step {
        if head.status < 200 {
            return Step::Part(head.used);
        }
        self.length = 0;
        self.sum.reset();
        self.look = if !speech.looks() {
            Look::Away
        } else if ask.verb == Verb::Get && speech.known.find(&ask.key).is_some() {
            Look::Page(true)
        } else {
            Look::Sum
        };
        match head.body {
            ResponseBody::None => self.over(head, head.used, ask, speech),
            ResponseBody::Length(length) => {
                match self.length(head, length, ask, &bytes[head.used..], speech) {
                    Step::Over { used, outcome, keep } => {
                        Step::Over { used: used + head.used, outcome, keep }
                    }
                    Step::Part(used) => Step::Part(used + head.used),
                    Step::Need(_) => Step::Part(head.used),
                    broken @ Step::Broken(_) => broken,
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
        ask: &Ask,
        bytes: &[u8],
        speech: &Speech<'_>,
    ) -> Step {
        let taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        self.body(&bytes[..taken], ask, speech);
        if taken as u64 == left {
            return self.over(head, taken, ask, speech);
        }
        self.state = State::Length(head, left - taken as u64);
        if taken == 0 { Step::Need(1) } else { Step::Part(taken) }
    }

    fn chunks(&mut self, ask: &Ask, bytes: &[u8], speech: &Speech<'_>) -> Step {
        let State::Chunked(head, decoder) = &mut self.state else { return Step::Need(bytes.len() + 1) };
        let head = *head;
        match decoder.decode(bytes) {
            Ok(Chunk::Need) => Step::Need(bytes.len() + 1),
            Ok(Chunk::Skip { used }) => Step::Part(used),
            Ok(Chunk::Data { used, data }) => {
                self.body(data, ask, speech);
                Step::Part(used)
            }
            Ok(Chunk::End { used, .. }) => self.over(head, used, ask, speech),
            Err(_) => Step::Broken("a chunked body that is not one".to_owned()),
        }
    }

    #[inline]
    fn body(&mut self, bytes: &[u8], ask: &Ask, speech: &Speech<'_>) {
        match &mut self.look {
            Look::Away => {}
            Look::Sum => self.sum.update(bytes),
            Look::Page(same) => {
                let rest = speech.known.find(&ask.key).and_then(|page| page.get(self.length as usize..));
                *same &= rest.is_some_and(|rest| rest.starts_with(bytes));
            }
        }
        self.length += bytes.len() as u64;
    }

    #[inline]
    fn over(&mut self, head: ResponseHead, used: usize, ask: &Ask, speech: &Speech<'_>) -> Step {
        self.state = State::Head;
        Step::Over { used, outcome: self.outcome(head, ask, speech), keep: head.keep_alive }
    }

    #[inline]
    fn outcome(&self, head: ResponseHead, ask: &Ask, speech: &Speech<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        let gone = matches!(head.status, 404 | 410) && ask.verb == Verb::Delete;
        let unexpected = head.status != 200 && speech.wants_ok(&ask.key);
        if (head.status >= 400 && !gone) || unexpected {
            outcome.fault = Some(Fault::Status(head.status));
            return outcome;
        }
        match head.cached {
            Cached::Hit => outcome.hits = 1,
            Cached::Miss => outcome.misses = 1,
            Cached::Unknown => {}
        }
        if ask.verb == Verb::Get && head.status == 200 {
            outcome.wrong = !self.is_right(ask, speech);
        }
        outcome
    }

    #[inline]
    fn is_right(&self, ask: &Ask, speech: &Speech<'_>) -> bool {
        match self.look {
            Look::Away => true,
            Look::Sum => {
                let sum = Sum { length: self.length, crc: self.sum.clone().finalize() };
                speech.pages.same(&ask.key, sum)
            }
            Look::Page(same) => {
                same && speech.known.find(&ask.key).is_some_and(|page| page.len() as u64 == self.length)
            }
        }
    }

    /// The connection's end is the end of a body that goes until then.
    pub(super) fn end(&mut self, ask: &Ask, speech: &Speech<'_>) -> Option<Outcome> {
        let State::UntilClose(head) = self.state else { return None };
        self.state = State::Head;
        Some(self.outcome(head, ask, speech))
    }
}
