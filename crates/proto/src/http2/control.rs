//! Frames that control streams and the connection (RFC 9113 sections 6.3, 6.4, 6.7 and 6.9, RFC
//! 9218 section 7).

use super::connection::{Connection, Handled, error_code};
use super::error::{ErrorCode, Fault};
use super::event::Event;
use super::flood::Flood;
use super::frame::{self, FrameHead, flag};
use super::limits::Limits;
use super::streams::{self, Closed};
use crate::pseudo::Priority;

impl Connection {
    /// A PRIORITY frame (section 6.3): checked and ignored, as its scheme is deprecated.
    pub(super) fn priority(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
        limits: &Limits,
        out: &mut Vec<u8>,
    ) -> Handled {
        self.floods.count(Flood::Priorities, &limits.floods)?;
        let fault = if head.length != 5 {
            Fault::size("PRIORITY with a length other than 5")
        } else if frame::number(payload) == head.stream {
            Fault::protocol("stream depends on itself")
        } else {
            return Ok(None);
        };
        match self.streams.get(head.stream) {
            Some(_) => self.stream_fault(head.stream, fault.code, limits, out),
            None => Err(fault),
        }
    }

    /// A RST_STREAM frame (section 6.4).
    pub(super) fn reset_by_peer(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
        limits: &Limits,
        out: &mut Vec<u8>,
    ) -> Handled {
        if self.streams.is_idle(head.stream) {
            return Err(Fault::protocol("RST_STREAM on an idle stream"));
        }
        let Some(stream) = self.streams.get(head.stream) else {
            self.floods.count(Flood::Ignored, &limits.floods)?;
            return Ok(None);
        };
        if !stream.local_closed {
            self.floods.count(Flood::RapidReset, &limits.floods)?;
        }
        self.close(head.stream, Closed::ResetByPeer, limits, out);
        let code = ErrorCode(error_code(payload));
        Ok(Some(Event::Reset { stream: head.stream, code, by_peer: true }))
    }

    /// A PING frame (section 6.7).
    pub(super) fn ping(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
        limits: &Limits,
        out: &mut Vec<u8>,
    ) -> Handled {
        let payload = payload.first_chunk().copied().unwrap_or_default();
        self.floods.count(Flood::Pings, &limits.floods)?;
        if head.has(flag::ACK) {
            return Ok(Some(Event::Pong(payload)));
        }
        self.floods.count(Flood::UnsentAnswers, &limits.floods)?;
        frame::write_ping(true, payload, out);
        Ok(None)
    }

    /// A WINDOW_UPDATE frame (section 6.9).
    pub(super) fn window_update(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
        limits: &Limits,
        out: &mut Vec<u8>,
    ) -> Handled {
        self.floods.count(Flood::WindowUpdates, &limits.floods)?;
        let increment = frame::number(payload);
        if head.stream == 0 {
            return self.connection_window_update(increment);
        }
        if self.streams.is_idle(head.stream) {
            return Err(Fault::protocol("WINDOW_UPDATE on an idle stream"));
        }
        let connection_open = self.send > 0;
        let Some(stream) = self.streams.get_mut(head.stream) else { return Ok(None) };
        if increment == 0 {
            return self.stream_fault(head.stream, ErrorCode::PROTOCOL_ERROR, limits, out);
        }
        let closed = stream.send <= 0;
        if !streams::change(&mut stream.send, i64::from(increment)) {
            return self.stream_fault(head.stream, ErrorCode::FLOW_CONTROL_ERROR, limits, out);
        }
        let opens = closed && stream.send > 0 && connection_open;
        Ok((opens && self.streams.any_ready()).then_some(Event::Writable))
    }

    fn connection_window_update(&mut self, increment: u32) -> Handled {
        if increment == 0 {
            return Err(Fault::protocol("WINDOW_UPDATE of nothing"));
        }
        let closed = self.send <= 0;
        if !streams::change(&mut self.send, i64::from(increment)) {
            return Err(Fault::flow("the connection's window is above 2^31-1"));
        }
        Ok((closed && self.streams.any_ready()).then_some(Event::Writable))
    }

    /// A PRIORITY_UPDATE frame (RFC 9218 section 7.1).
    pub(super) fn priority_update(&mut self, payload: &[u8], limits: &Limits) -> Handled {
        self.floods.count(Flood::Priorities, &limits.floods)?;
        let id = frame::number(payload);
        if id.is_multiple_of(2) {
            return Err(Fault::protocol("PRIORITY_UPDATE of a stream that clients do not open"));
        }
        let priority = Priority::parse(&payload[4..]);
        if let Some(stream) = self.streams.get_mut(id) {
            stream.priority = priority;
        } else if self.streams.is_idle(id) {
            let room = self.early.len() < limits.early_priorities;
            match self.early.iter_mut().find(|(early, _)| *early == id) {
                Some((_, early)) => *early = priority,
                None if room => self.early.push((id, priority)),
                None => {}
            }
        }
        Ok(None)
    }

    /// The priority that was set for a stream before its request.
    #[inline]
    pub(super) fn early_priority(&mut self, id: u32) -> Option<Priority> {
        if self.early.is_empty() {
            return None;
        }
        let found =
            self.early.iter().find(|(early, _)| *early == id).map(|(_, priority)| *priority);
        // Those of lower numbers can no longer be opened.
        self.early.retain(|(early, _)| *early > id);
        found
    }
}
