//! Answers as frames: heads, bodies as the client's windows allow, the most urgent first.

use std::rc::Rc;

use larder_proto::http2::{ErrorCode, Fields, Sent};

use super::Session;
use crate::{
    clock::Ms,
    net::{out::Out, socket::STALLED_AFTER},
    wire::stream::{Answer, Stream, head_of},
};

/// Bodies up to this many bytes are sent with their head; larger ones take turns.
const AT_ONCE: u64 = 16 * 1024;
/// Bytes that are composed before the socket has taken them.
pub(super) const AHEAD: u64 = 256 * 1024;

impl Session {
    /// Appends the whole answer that `from` holds, or as much as may be sent now.
    pub(super) fn answer(&mut self, id: u32, from: &mut Out, out: &mut Out) {
        if self.head(id, from, true, out).is_none() {
            return self.codec.reset(id, ErrorCode::INTERNAL_ERROR, &self.limits, out.scratch());
        }
        let body = from.pending();
        if body == 0 {
            return;
        }
        if body <= AT_ONCE && body <= self.codec.sendable(id, &self.limits) as u64 {
            let sent = self.codec.data_frame(id, body as usize, true, &self.limits, out.scratch());
            from.move_to(body, out);
            self.sent += body;
            return self.ended(id, sent, out);
        }
        self.streams.push(Stream::answered(id.into(), &self.mail, std::mem::take(from)));
        self.codec.wants_to_send(id, true);
    }

    /// Appends the head that `from` begins with. `complete`: nothing follows what `from` holds.
    /// Returns the status; None: there is no head, or no stream for it.
    fn head(&mut self, id: u32, from: &mut Out, complete: bool, out: &mut Out) -> Option<u16> {
        let all = from.pending();
        let (length, status, lines) = head_of(from.front())?;
        let end = complete && length as u64 == all && status >= 200;
        let fields = [Fields::Lines(lines)];
        let sent = self.codec.respond(id, status, &fields, end, &self.limits, out.scratch());
        from.skip(length as u64);
        if sent == Sent::Gone {
            from.clear();
            return None;
        }
        self.ended(id, sent, out);
        Some(status)
    }

    /// Ends a stream whose answer is sent: a request whose body is unread ends as well.
    fn ended(&mut self, id: u32, sent: Sent, out: &mut Out) {
        match sent {
            Sent::Open => return,
            Sent::Unread => {
                self.codec.reset(id, ErrorCode::NO_ERROR, &self.limits, out.scratch());
            }
            Sent::Done | Sent::Gone => {}
        }
        self.forget(id);
    }

    /// Memory of answers that are composed and not sent, besides the store's.
    pub(super) fn composed(&self) -> u64 {
        self.streams.iter().map(|stream| stream.out.borrow().composed()).sum()
    }

    /// Takes what the tasks have composed and consumed.
    pub(super) fn take_mail(&mut self, out: &mut Out) {
        for stream in self.mail.take() {
            // A closed stream's task may still have something to say.
            if self.find(stream.id as u32).is_some_and(|open| Rc::ptr_eq(open, &stream)) {
                self.changed(&stream, out);
            }
        }
    }

    fn changed(&mut self, stream: &Rc<Stream>, out: &mut Out) {
        let id = stream.id as u32;
        let mut consumed = stream.consumed.take();
        if stream.answer.get() != Answer::Composing {
            consumed += stream.drop_body();
        }
        if consumed > 0 {
            self.codec.consumed(id, consumed, &self.limits, out.scratch());
        }
        let mut from = stream.out.take();
        let complete = is_complete(stream);
        while !stream.head_sent.get() && !from.is_empty() {
            let Some(status) = self.head(id, &mut from, complete, out) else { break };
            stream.head_sent.set(status >= 200);
        }
        let left = from.pending();
        stream.out.replace(from);
        match stream.answer.get() {
            // Closed with its head.
            _ if self.find(id).is_none() => {}
            Answer::Complete | Answer::Broken if left == 0 || !stream.head_sent.get() => {
                self.end(stream, out);
            }
            _ => {
                self.codec.wants_to_send(id, left > 0);
                stream.wake();
            }
        }
    }

    /// All of the answer is sent that will be.
    fn end(&mut self, stream: &Rc<Stream>, out: &mut Out) {
        let (id, limits) = (stream.id as u32, &self.limits);
        match stream.answer.get() {
            Answer::Composing => return,
            Answer::Complete if stream.head_sent.get() => {
                let sent = match stream.trailers.take() {
                    Some(lines) => self.codec.trailers(id, &lines, limits, out.scratch()),
                    None => self.codec.data_frame(id, 0, true, limits, out.scratch()),
                };
                return self.ended(id, sent, out);
            }
            // There is no head, or no more of the body.
            Answer::Complete | Answer::Broken => {}
        }
        self.codec.reset(id, ErrorCode::INTERNAL_ERROR, limits, out.scratch());
        self.forget(id);
    }

    /// Appends bodies as far as windows allow, and as far as it is of use. True: there is more.
    pub(super) fn pump(&mut self, out: &mut Out) -> bool {
        while let Some(id) = self.codec.next() {
            if out.pending() >= AHEAD {
                return true;
            }
            let Some(stream) = self.find(id).cloned() else {
                self.codec.wants_to_send(id, false);
                continue;
            };
            let left = stream.out.borrow().pending();
            let length = left.min(self.codec.sendable(id, &self.limits) as u64);
            let end = length == left && is_complete(&stream);
            let sent = self.codec.data_frame(id, length as usize, end, &self.limits, out.scratch());
            stream.out.borrow_mut().move_to(length, out);
            self.sent += length;
            stream.progress.took(length, length == left);
            if sent != Sent::Open {
                self.ended(id, sent, out);
            } else if length == left {
                self.codec.wants_to_send(id, false);
                self.end(&stream, out);
            }
            stream.wake();
        }
        false
    }

    /// Bytes of the store that cannot be evicted because of answers that wait.
    pub(super) fn pinned(&self) -> u64 {
        self.streams.iter().map(|stream| stream.pinned()).sum()
    }

    /// Resets the streams whose own windows have been shut for `patience` milliseconds while others
    /// keep the connection. Returns how many.
    pub(super) fn reset_stalled(&mut self, patience: Ms, now: Ms, out: &mut Out) -> usize {
        let codec = &self.codec;
        let is_shut = |stream: &&Rc<Stream>| {
            codec.is_shut(stream.id as u32) && stands(stream, now) >= patience
        };
        let shut: Vec<_> = self.streams.iter().filter(is_shut).map(|s| s.id as u32).collect();
        for &id in &shut {
            self.codec.reset(id, ErrorCode::CANCEL, &self.limits, out.scratch());
            self.forget(id);
        }
        shut.len()
    }

    /// Bytes of answers that wait for the client's windows.
    pub(super) fn unsent(&self) -> u64 {
        self.streams.iter().map(|stream| stream.out.borrow().pending()).sum()
    }
}

/// Nothing follows what the stream holds.
fn is_complete(stream: &Stream) -> bool {
    stream.answer.get() == Answer::Complete && stream.trailers.borrow().is_none()
}

/// Bytes of the store that answers hold that stand still.
pub(super) fn stalled(streams: &[Rc<Stream>], now: Ms) -> u64 {
    let stands = |stream: &&Rc<Stream>| stands(stream, now) >= STALLED_AFTER;
    streams.iter().filter(stands).map(|stream| stream.pinned()).sum()
}

/// Milliseconds for which the client has taken too little of an answer.
fn stands(stream: &Stream, now: Ms) -> Ms {
    stream.progress.stands(!stream.out.borrow().is_empty(), now)
}
