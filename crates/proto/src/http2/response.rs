//! Responses: heads, data and their order (RFC 9113 sections 5.2, 6.1, 6.2 and 8.1).

use super::connection::Connection;
use super::error::ErrorCode;
use super::flood::Flood;
use super::frame::{self, FrameHead, flag, kind};
use super::limits::Limits;
use super::streams::Closed;

/// A piece of a response's head.
#[derive(Clone, Copy, Debug)]
pub enum Fields<'f> {
    /// Lines as HTTP/1.1 has them: `Name: value` and CRLF each. Fields of the connection are left
    /// out.
    Lines(&'f [u8]),
    /// Fields that [`crate::hpack::prepare`] encoded.
    Prepared(&'f [u8]),
}

/// Result of sending a head, data or trailers.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// More of the response may follow.
    Open,
    /// The exchange is complete and the stream closed.
    Done,
    /// The response is complete, the request is not. Go on to take its data, or call
    /// [`Connection::reset`] with `NO_ERROR` once the response's bytes are in the output (section
    /// 8.1).
    Unread,
    /// The stream is closed, or its response was complete before: nothing was written.
    Gone,
}

impl Connection {
    /// Appends the head of a response: `status` and its fields, in several pieces in order. `end`:
    /// no body follows. A status below 200 is an interim response, which never ends the stream.
    pub fn respond(
        &mut self,
        stream: u32,
        status: u16,
        fields: &[Fields<'_>],
        end: bool,
        limits: &Limits,
        out: &mut Vec<u8>,
    ) -> Sent {
        if end && status >= 200 {
            self.settle(stream, limits, out);
        }
        self.head(stream, Some(status), fields, end && status >= 200, out)
    }

    /// Appends trailers, which end the response: lines as in [`Fields::Lines`]. Only after the last
    /// byte of the body.
    pub fn trailers(
        &mut self,
        stream: u32,
        lines: &[u8],
        limits: &Limits,
        out: &mut Vec<u8>,
    ) -> Sent {
        self.settle(stream, limits, out);
        self.head(stream, None, &[Fields::Lines(lines)], true, out)
    }

    #[inline]
    fn head(
        &mut self,
        id: u32,
        status: Option<u16>,
        fields: &[Fields<'_>],
        end: bool,
        out: &mut Vec<u8>,
    ) -> Sent {
        if self.streams.get(id).is_none_or(|stream| stream.local_closed) {
            return Sent::Gone;
        }
        let start = out.len();
        out.extend_from_slice(&[0; frame::HEAD]);
        let mut block = self.encoder.block(out);
        if let Some(status) = status {
            block.status(status);
        }
        for piece in fields {
            match piece {
                Fields::Lines(lines) => block.lines(lines),
                Fields::Prepared(fields) => block.prepared(fields),
            }
        }
        let length = out.len() - start - frame::HEAD;
        let max = self.peer.max_frame as usize;
        let last = if length <= max { flag::END_HEADERS } else { 0 };
        let flags = last | if end { flag::END_STREAM } else { 0 };
        let head =
            FrameHead { length: length.min(max) as u32, kind: kind::HEADERS, flags, stream: id };
        out[start..start + frame::HEAD].copy_from_slice(&head.bytes());
        if length > max {
            split(id, start + frame::HEAD + max, max, out);
        }
        if end { self.local_end(id) } else { Sent::Open }
    }

    /// Counts the data of a stream as consumed, if the stream will close with the response. This
    /// may write a frame, so it comes before the response's last one.
    #[inline]
    fn settle(&mut self, id: u32, limits: &Limits, out: &mut Vec<u8>) {
        if let Some(stream) = self.streams.get_mut(id)
            && stream.remote_closed
            && stream.unconsumed > 0
        {
            let bytes = std::mem::take(&mut stream.unconsumed);
            self.credit_connection(bytes, limits, out);
        }
    }

    /// The response of a stream is complete.
    #[inline]
    fn local_end(&mut self, id: u32) -> Sent {
        self.floods.answered();
        self.streams.set_wants(id, false);
        match self.streams.get_mut(id) {
            Some(stream) if !stream.remote_closed => {
                stream.local_closed = true;
                Sent::Unread
            }
            Some(_) => {
                self.streams.close(id, Closed::Ended);
                Sent::Done
            }
            None => Sent::Gone,
        }
    }

    /// Bytes that one DATA frame may carry now: as far as both windows and the size of frames
    /// allow. 0: wait for [`super::Event::Writable`].
    #[inline]
    pub fn sendable(&self, stream: u32, limits: &Limits) -> usize {
        let Some(open) = self.streams.get(stream) else { return 0 };
        if open.local_closed {
            return 0;
        }
        let frame = self.peer.max_frame.min(limits.send_frame_bytes.max(1));
        usize::try_from(open.send.min(self.send).max(0)).unwrap_or(0).min(frame as usize)
    }

    /// Whether the stream's own window lets nothing through.
    pub fn is_shut(&self, stream: u32) -> bool {
        self.streams.get(stream).is_some_and(|open| open.send <= 0)
    }

    /// Appends the head of a DATA frame. The caller lets exactly `length` bytes follow, at most
    /// [`Connection::sendable`]. An end without data may be sent at any time.
    #[inline]
    pub fn data_frame(
        &mut self,
        stream: u32,
        length: usize,
        end: bool,
        limits: &Limits,
        out: &mut Vec<u8>,
    ) -> Sent {
        if end {
            self.settle(stream, limits, out);
        }
        let Some(open) = self.streams.get_mut(stream) else { return Sent::Gone };
        if open.local_closed {
            return Sent::Gone;
        }
        debug_assert!(length as i64 <= i64::from(open.send.min(self.send).max(0)));
        open.send -= length as i32;
        self.send -= length as i32;
        frame::write_data(stream, length as u32, end, out);
        self.floods.relieve(Flood::WindowUpdates, 2);
        if end {
            return self.local_end(stream);
        }
        self.streams.took_turn(stream);
        Sent::Open
    }

    /// Says whether there are bytes to send on a stream: [`Connection::next`] chooses among these.
    /// The end of a response or a reset says that there are none.
    pub fn wants_to_send(&mut self, stream: u32, wants: bool) {
        self.streams.set_wants(stream, wants);
    }

    /// The stream that sends next, among those that want to and whose windows are open (RFC 9218
    /// section 10): the most urgent; among equals those that are not incremental one after the
    /// other, and incremental ones in turn, a DATA frame each.
    #[inline]
    pub fn next(&self) -> Option<u32> {
        if self.send > 0 { self.streams.next() } else { None }
    }

    /// Resets a stream, if it is open. No further event of it comes.
    pub fn reset(&mut self, stream: u32, code: ErrorCode, limits: &Limits, out: &mut Vec<u8>) {
        if self.close(stream, Closed::ResetHere, limits, out) {
            frame::write_reset(stream, code, out);
        }
    }

    /// Appends a PING; its answer is [`super::Event::Pong`].
    pub fn send_ping(&self, payload: [u8; 8], out: &mut Vec<u8>) {
        frame::write_ping(false, payload, out);
    }
}

/// Puts heads of CONTINUATION frames into the block that ends `out`, from `at` on.
#[cold]
fn split(stream: u32, at: usize, max: usize, out: &mut Vec<u8>) {
    let rest = out.split_off(at);
    let mut pieces = rest.chunks(max).peekable();
    while let Some(piece) = pieces.next() {
        let flags = if pieces.peek().is_none() { flag::END_HEADERS } else { 0 };
        let length = piece.len() as u32;
        let head = FrameHead { length, kind: kind::CONTINUATION, flags, stream };
        out.extend_from_slice(&head.bytes());
        out.extend_from_slice(piece);
    }
}
