//! DATA frames and the windows of their receiver (RFC 9113 sections 5.2, 6.1 and 6.9).

use super::connection::{Connection, Handled, Reading};
use super::error::{ErrorCode, Fault};
use super::event::Event;
use super::flood::Flood;
use super::frame::{self, FrameHead, flag};
use super::limits::Limits;
use super::streams::Closed;

impl Connection {
    /// The head of a DATA frame (section 6.1).
    pub(super) fn data_head(
        &mut self,
        head: &FrameHead,
        rest: &[u8],
        used: &mut usize,
        limits: &Limits,
        out: &mut Vec<u8>,
    ) -> Handled {
        let (mut data, mut padding, mut prefix) = (head.length, 0, 0);
        if head.has(flag::PADDED) && head.length > 0 {
            let Some(&length) = rest.get(frame::HEAD) else {
                return Ok(Some(Event::More { need: frame::HEAD + 1 }));
            };
            (padding, prefix) = (length, 1);
            data = (head.length - 1)
                .checked_sub(u32::from(padding))
                .ok_or(Fault::protocol("padding is too long"))?;
        } else if head.has(flag::PADDED) {
            return Err(Fault::size("padded frame without a length"));
        }
        *used += frame::HEAD + prefix;
        if i64::from(head.length) > i64::from(self.receive) {
            return Err(Fault::flow("DATA beyond the connection's window"));
        }
        self.receive -= head.length as i32;
        if self.streams.is_idle(head.stream) {
            return Err(Fault::protocol("DATA on an idle stream"));
        }
        let end = head.has(flag::END_STREAM);
        if data == 0 && !end {
            self.floods.count(Flood::EmptyFrames, &limits.floods)?;
        }
        match self.accept_data(head.stream, head.length, data, end) {
            Ok(()) => {
                self.reading = Reading::Data { stream: head.stream, left: data, padding, end };
                self.consumed(head.stream, head.length as usize - data as usize, limits, out);
                Ok(None)
            }
            Err(fault) => {
                self.reading = Reading::Skip { left: head.length - prefix as u32 };
                self.credit_connection(head.length, limits, out);
                match fault {
                    Some(code) => self.stream_fault(head.stream, code, limits, out),
                    None => self.data_on_closed(head.stream, limits, out),
                }
            }
        }
    }

    /// Takes a DATA frame into the account of its stream. `Err`: the code of the stream's error, or
    /// none for a stream that is closed.
    fn accept_data(
        &mut self,
        id: u32,
        length: u32,
        data: u32,
        end: bool,
    ) -> Result<(), Option<ErrorCode>> {
        let stream = self.streams.get_mut(id).ok_or(None)?;
        if stream.remote_closed {
            return Err(Some(ErrorCode::STREAM_CLOSED));
        }
        if i64::from(length) > i64::from(stream.receive) {
            return Err(Some(ErrorCode::FLOW_CONTROL_ERROR));
        }
        if let Some(left) = &mut stream.left {
            *left = left.checked_sub(u64::from(data)).ok_or(Some(ErrorCode::PROTOCOL_ERROR))?;
            if end && *left > 0 {
                return Err(Some(ErrorCode::PROTOCOL_ERROR));
            }
        }
        stream.receive -= length as i32;
        stream.unconsumed += length;
        Ok(())
    }

    /// DATA on a stream that is closed (section 5.1).
    fn data_on_closed(&mut self, id: u32, limits: &Limits, out: &mut Vec<u8>) -> Handled {
        self.floods.count(Flood::Ignored, &limits.floods)?;
        match self.closed(id) {
            Closed::ResetHere => Ok(None),
            Closed::Ended => Err(Fault::closed("DATA behind the end of its stream")),
            Closed::ResetByPeer | Closed::Unknown => {
                self.stream_fault(id, ErrorCode::STREAM_CLOSED, limits, out)
            }
        }
    }

    /// The payload of a DATA frame, of which `have` bytes are there.
    pub(super) fn data(
        &mut self,
        have: usize,
        used: &mut usize,
        (stream, left, padding, end): (u32, u32, u8, bool),
        limits: &Limits,
        out: &mut Vec<u8>,
    ) -> Handled {
        let taken = left.min(have as u32);
        if taken == 0 && left > 0 {
            return Ok(Some(Event::More { need: 1 }));
        }
        let left = left - taken;
        self.reading = match (left, padding) {
            (1.., _) => Reading::Data { stream, left, padding, end },
            (0, 1..) => Reading::Skip { left: u32::from(padding) },
            (0, 0) => Reading::Head,
        };
        let range = *used..*used + taken as usize;
        *used = range.end;
        let end = end && left == 0;
        let Some(open) = self.streams.get_mut(stream) else {
            // Closed by the caller in the middle of the frame: the bytes were credited then, all of
            // the frame.
            return Ok(None);
        };
        if end {
            open.remote_closed = true;
            if open.local_closed {
                self.close(stream, Closed::Ended, limits, out);
            }
        } else if taken == 0 {
            return Ok(None);
        }
        Ok(Some(Event::Data { stream, range, end }))
    }

    /// Says that `bytes` of [`Event::Data`] were consumed: the client may send as many more. Window
    /// updates are sent when half of a window is consumed.
    pub fn consumed(&mut self, stream: u32, bytes: usize, limits: &Limits, out: &mut Vec<u8>) {
        let Some(open) = self.streams.get_mut(stream) else { return };
        let bytes = (bytes as u64).min(u64::from(open.unconsumed)) as u32;
        open.unconsumed -= bytes;
        open.credit += bytes;
        if open.credit > 0 && !open.remote_closed && open.credit >= limits.stream_window / 2 {
            open.receive = open.receive.saturating_add(open.credit as i32);
            frame::write_window_update(stream, std::mem::take(&mut open.credit), out);
        }
        self.credit_connection(bytes, limits, out);
    }

    pub(super) fn credit_connection(&mut self, bytes: u32, limits: &Limits, out: &mut Vec<u8>) {
        self.credit += bytes;
        if self.credit >= limits.connection_window() / 2 {
            self.receive = self.receive.saturating_add(self.credit as i32);
            frame::write_window_update(0, std::mem::take(&mut self.credit), out);
        }
    }
}
