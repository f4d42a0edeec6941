//! Answers as frames on their streams, the most urgent first, as far as QUIC takes them.

use std::{io::IoSlice, os::fd::OwnedFd, rc::Rc};

use larder_proto::http3::{self, ErrorCode};
use quinn_proto::{Connection, SendStream, WriteError};

use super::{Open, SEND_WINDOW, Scratch, Session, stream_id, var};
use crate::{
    clock::Ms,
    net::out::{Out, Sink},
    wire::stream::{Answer, Stream, head_of},
};

/// Bytes of one answer that are given to QUIC before others of the same urgency have their turn.
const TURN: u64 = 32 * 1024;

/// Gives bytes to a stream of QUIC.
struct Pour<'q> {
    stream: SendStream<'q>,
    /// Bytes that it takes yet.
    left: u64,
}

/// Reasons why a stream takes no more.
#[derive(Debug, PartialEq, Eq)]
enum Full {
    /// It had its turn.
    Turn,
    /// The client has to open windows, or to acknowledge.
    Window,
    /// It is closed.
    Closed,
}

impl Sink for Pour<'_> {
    type Error = Full;

    fn send(&mut self, slices: &[IoSlice<'_>], _: bool) -> Result<usize, Full> {
        let mut sent = 0;
        for slice in slices.iter().filter(|slice| !slice.is_empty()) {
            let offered = &slice[..slice.len().min(self.left as usize)];
            if offered.is_empty() {
                break;
            }
            let taken = match self.stream.write(offered) {
                Ok(taken) => taken,
                Err(_) if sent > 0 => break,
                Err(WriteError::Blocked) => return Err(Full::Window),
                Err(_) => return Err(Full::Closed),
            };
            sent += taken;
            self.left -= taken as u64;
            if taken < slice.len() {
                break;
            }
        }
        if sent > 0 { Ok(sent) } else { Err(Full::Turn) }
    }

    fn send_file(&mut self, file: &OwnedFd, from: u64, len: u64) -> Result<usize, Full> {
        let mut bytes = vec![0; len.min(self.left) as usize];
        let read = rustix::io::pread(file, &mut bytes, from).map_err(|_| Full::Closed)?;
        if read == 0 && self.left > 0 {
            return Err(Full::Closed);
        }
        self.send(&[IoSlice::new(&bytes[..read])], false)
    }
}

impl Session {
    /// Sends the whole answer that `scratch.out` holds, or as much as QUIC takes now. True: all of
    /// it is sent.
    pub(super) fn answer(
        &mut self,
        quic: &mut Connection,
        open: &mut Open,
        scratch: &mut Scratch,
    ) -> bool {
        let Scratch { out, framed, .. } = scratch;
        framed.clear();
        open.answered = true;
        if head(out, framed).is_none() {
            out.clear();
            self.abort(quic, open.id, ErrorCode::INTERNAL_ERROR);
            return true;
        }
        body(out, framed);
        open.complete = true;
        std::mem::swap(&mut open.framed, framed);
        let done = self.pour(quic, open, u64::MAX);
        if done {
            // Its memory serves the next answer.
            std::mem::swap(&mut open.framed, framed);
        }
        done
    }

    /// Gives at most `most` bytes of the frames of a stream to QUIC. True: the answer is whole.
    fn pour(&mut self, quic: &mut Connection, open: &mut Open, most: u64) -> bool {
        let before = open.framed.pending();
        let mut pour = Pour { stream: quic.send_stream(stream_id(open.id)), left: most };
        let poured = open.framed.send(&mut pour);
        let left = open.framed.pending();
        self.count(open.id, before - left);
        open.progress.took(before - left, left == 0);
        match poured {
            Err(Full::Closed) => {
                self.abort(quic, open.id, ErrorCode::INTERNAL_ERROR);
                true
            }
            Err(Full::Window) => {
                open.blocked = Some(self.sent);
                false
            }
            Err(Full::Turn) => false,
            Ok(()) if open.complete => {
                // An answer without bytes ends too.
                self.count(open.id, 0);
                let ended = quic.send_stream(stream_id(open.id)).finish();
                if ended.is_err() {
                    self.acknowledged(open.id);
                }
                if !open.received {
                    // The rest of the request is of no use (RFC 9114 section 4.1).
                    let code = var(ErrorCode::NO_ERROR);
                    let _ = quic.recv_stream(stream_id(open.id)).stop(code);
                }
                self.codec.answered();
                true
            }
            Ok(()) => false,
        }
    }

    /// Counts bytes that QUIC has taken.
    fn count(&mut self, id: u64, bytes: u64) {
        self.sent += bytes;
        self.worker.pages.counters.bytes_out.add(bytes);
        match self.unacknowledged.iter_mut().rev().find(|(known, _)| *known == id) {
            Some((_, held)) => *held += bytes,
            None => self.unacknowledged.push_back((id, bytes)),
        }
    }

    /// The client has all of an answer, or wants no more of it.
    pub(super) fn acknowledged(&mut self, id: u64) {
        if let Some(place) = self.unacknowledged.iter().position(|(known, _)| *known == id) {
            self.unacknowledged.remove(place);
        }
    }

    /// Bytes of answers that QUIC holds at the most.
    pub(super) fn held_by_quic(&self) -> u64 {
        self.unacknowledged.iter().map(|(_, bytes)| bytes).sum::<u64>().min(SEND_WINDOW)
    }

    /// Ends both sides of a stream by an error.
    pub(super) fn abort(&mut self, quic: &mut Connection, id: u64, code: ErrorCode) {
        let _ = quic.recv_stream(stream_id(id)).stop(var(code));
        let _ = quic.send_stream(stream_id(id)).reset(var(code));
        self.acknowledged(id);
    }

    /// Makes frames of what the tasks have composed, and takes into account what they consumed.
    pub(super) fn take_mail(&mut self) {
        for stream in self.mail.take() {
            // A closed stream's task may still have something to say.
            let of = |open: &&mut Open| {
                open.stream.as_ref().is_some_and(|known| Rc::ptr_eq(known, &stream))
            };
            let Some(open) = self.streams.iter_mut().find(of) else { continue };
            let mut consumed = stream.consumed.take();
            if stream.answer.get() != Answer::Composing {
                consumed += stream.drop_body();
            }
            open.unread = open.unread.saturating_sub(consumed);
        }
    }

    /// Sends what waits, as far as QUIC takes it.
    pub(super) fn pump(&mut self, quic: &mut Connection) {
        let mut streams = std::mem::take(&mut self.streams);
        loop {
            let next = |open: &&Open| open.blocked.is_none() && has_news(open);
            let Some(urgency) = streams.iter().filter(next).map(|o| o.priority.urgency).min()
            else {
                break;
            };
            streams.retain_mut(|open| {
                let is_next = open.priority.urgency == urgency && next(&&*open);
                !(is_next && self.advance(quic, open))
            });
        }
        self.streams = streams;
    }

    /// Sends more of an answer. True: it is at its end.
    fn advance(&mut self, quic: &mut Connection, open: &mut Open) -> bool {
        if open.framed.is_empty()
            && let Some(stream) = open.stream.clone()
            && !self.frame(quic, open, &stream)
        {
            return true;
        }
        let done = self.pour(quic, open, TURN);
        if let Some(stream) = &open.stream {
            stream.wake();
        }
        done
    }

    /// Makes frames of all that a task has composed. False: the answer is broken off.
    fn frame(&mut self, quic: &mut Connection, open: &mut Open, stream: &Rc<Stream>) -> bool {
        let mut from = stream.out.take();
        while !stream.head_sent.get() && !from.is_empty() {
            let Some(status) = head(&mut from, &mut open.framed) else { break };
            stream.head_sent.set(status >= 200);
            open.answered |= status >= 200;
        }
        if stream.head_sent.get() {
            body(&mut from, &mut open.framed);
        }
        match stream.answer.get() {
            Answer::Composing => {}
            Answer::Complete if stream.head_sent.get() => {
                if let Some(lines) = stream.trailers.take() {
                    http3::trailers(&lines, open.framed.scratch());
                }
                open.complete = true;
            }
            // There is no head, or no more of the body.
            Answer::Complete | Answer::Broken => {
                self.abort(quic, open.id, ErrorCode::INTERNAL_ERROR);
                return false;
            }
        }
        true
    }

    /// Resets the streams whose own windows have been shut for `patience` milliseconds while others
    /// keep the connection.
    pub(super) fn reset_stalled(&mut self, quic: &mut Connection, patience: Ms) {
        let (now, sent) = (self.now, self.sent);
        let shut =
            self.end_streams(quic, |open| open.is_shut(sent) && open.stands(now) >= patience);
        for _ in 0..shut {
            self.worker.pages.counters.timeouts.send.one();
        }
    }

    /// Ends both sides of the streams that `ends` chooses. Returns how many.
    pub(super) fn end_streams(
        &mut self,
        quic: &mut Connection,
        mut ends: impl FnMut(&Open) -> bool,
    ) -> usize {
        let mut ended = Vec::new();
        self.streams.retain(|open| {
            let ends = ends(open);
            if ends {
                ended.push(open.id);
            }
            !ends
        });
        ended.iter().for_each(|&id| self.abort(quic, id, ErrorCode::REQUEST_CANCELLED));
        ended.len()
    }

    /// Bytes of answers that wait for the client.
    pub(super) fn unsent(&self) -> u64 {
        self.streams.iter().map(Open::unsent).sum()
    }
}

/// Whether something of an answer can be given to QUIC, or its end.
fn has_news(open: &Open) -> bool {
    let Some(stream) = open.stream.as_ref().filter(|_| open.framed.is_empty() && !open.complete)
    else {
        return !open.framed.is_empty() || open.complete;
    };
    !stream.out.borrow().is_empty() || stream.answer.get() != Answer::Composing
}

/// Makes a frame of the head that `from` begins with, and takes it from there. Returns the status;
/// None: there is no head.
fn head(from: &mut Out, into: &mut Out) -> Option<u16> {
    let (length, status, lines) = head_of(from.front())?;
    http3::head(status, lines, into.scratch());
    from.skip(length as u64);
    Some(status)
}

/// Makes a frame of all of `from`.
fn body(from: &mut Out, into: &mut Out) {
    let length = from.pending();
    if length > 0 {
        http3::data(length, into.scratch());
        from.move_to(length, into);
    }
}
