//! Header blocks: requests and trailers (RFC 9113 sections 6.2, 6.10 and 8.1).

use super::connection::{Connection, Handled};
use super::error::{ErrorCode, Fault};
use super::event::Event;
use super::flood::Flood;
use super::frame::{self, FrameHead, flag};
use super::limits::Limits;
use super::request::Request;
use super::streams::Closed;
use crate::pseudo::{self, Malformed, Priority, RequestWriter, Workspace, Written};

/// A header block whose last frame has not come.
#[derive(Debug)]
pub(super) struct Continuing {
    pub(super) stream: u32,
    flags: BlockFlags,
    block: Vec<u8>,
}

impl Continuing {
    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + self.block.capacity()
    }
}

/// Facts about a block that stand in its first frame.
#[derive(Clone, Copy, Debug)]
struct BlockFlags {
    end_stream: bool,
    /// The stream depends on itself (RFC 7540 section 5.3.1).
    self_dependent: bool,
}

impl Connection {
    /// A HEADERS frame (section 6.2).
    #[inline]
    pub(super) fn headers(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
        limits: &Limits,
        work: &mut Workspace,
        out: &mut Vec<u8>,
    ) -> Handled {
        if head.stream.is_multiple_of(2) {
            return Err(Fault::protocol("request with an even stream number"));
        }
        let mut block = frame::unpadded(head, payload)?;
        let mut flags =
            BlockFlags { end_stream: head.has(flag::END_STREAM), self_dependent: false };
        if head.has(flag::PRIORITY) {
            let (priority, rest) = block
                .split_at_checked(5)
                .ok_or(Fault::size("HEADERS is too short for a priority"))?;
            flags.self_dependent = frame::number(priority) == head.stream;
            block = rest;
        }
        if head.has(flag::END_HEADERS) {
            return self.block(head.stream, flags, block, limits, work, out);
        }
        self.floods.clear(Flood::Continuations);
        let mut continuing = Continuing { stream: head.stream, flags, block: Vec::new() };
        self.extend(&mut continuing, block, limits)?;
        self.continuing = Some(Box::new(continuing));
        Ok(None)
    }

    /// A CONTINUATION frame (section 6.10).
    pub(super) fn continuation(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
        limits: &Limits,
        work: &mut Workspace,
        out: &mut Vec<u8>,
    ) -> Handled {
        let Some(mut continuing) = self.continuing.take() else { return Ok(None) };
        self.floods.count(Flood::Continuations, &limits.floods)?;
        if payload.is_empty() {
            self.floods.count(Flood::EmptyFrames, &limits.floods)?;
        }
        self.extend(&mut continuing, payload, limits)?;
        if head.has(flag::END_HEADERS) {
            let Continuing { stream, flags, block } = *continuing;
            return self.block(stream, flags, &block, limits, work, out);
        }
        self.continuing = Some(continuing);
        Ok(None)
    }

    fn extend(
        &mut self,
        continuing: &mut Continuing,
        more: &[u8],
        limits: &Limits,
    ) -> Result<(), Fault> {
        if continuing.block.len() + more.len() > limits.block_bytes {
            return Err(Fault::flood(Flood::BlockBytes));
        }
        continuing.block.extend_from_slice(more);
        Ok(())
    }

    /// A whole header block. It is decoded in any case: the tables have to stay in step (section
    /// 4.3).
    #[inline]
    fn block(
        &mut self,
        stream: u32,
        flags: BlockFlags,
        block: &[u8],
        limits: &Limits,
        work: &mut Workspace,
        out: &mut Vec<u8>,
    ) -> Handled {
        if stream <= self.streams.last {
            return self.later_block(stream, flags, block, limits, work, out);
        }
        self.streams.last = stream;
        if stream > self.accept_until {
            return self.ignore(block, limits, work);
        }
        if self.streams.len() >= limits.concurrent_streams as usize {
            self.ignore(block, limits, work)?;
            self.floods.count(Flood::RefusedStreams, &limits.floods)?;
            self.floods.count(Flood::UnsentAnswers, &limits.floods)?;
            frame::write_reset(stream, ErrorCode::REFUSED_STREAM, out);
            self.streams.close(stream, Closed::ResetHere);
            return Ok(None);
        }
        self.request(stream, flags, block, limits, work, out)
    }

    /// The block of a new request (section 8.3.1).
    #[inline]
    fn request(
        &mut self,
        stream: u32,
        flags: BlockFlags,
        block: &[u8],
        limits: &Limits,
        work: &mut Workspace,
        out: &mut Vec<u8>,
    ) -> Handled {
        let Workspace { head, scratch, pseudo, cookies } = work;
        let mut writer = RequestWriter::over(head, pseudo, cookies, limits.connect_protocol);
        let list = limits.header_list_bytes as usize;
        let decoded = self.decoder.decode(block, list, scratch, &mut |line| writer.line(line))?;
        let end = flags.end_stream;
        if flags.self_dependent {
            return self.malformed(stream, Malformed::SelfDependency, limits, out);
        }
        if decoded.too_large {
            self.floods.count(Flood::HeaderLists, &limits.floods)?;
            self.open(stream, end, &Written::default(), limits);
            return Ok(Some(Event::TooLarge { stream, end }));
        }
        let written = match writer.finish(end) {
            Ok(written) => written,
            Err(why) => return self.malformed(stream, why, limits, out),
        };
        let priority = self.open(stream, end, &written, limits);
        let Written { secure, connect, content_length, .. } = written;
        Ok(Some(Event::Request(Request { stream, end, secure, connect, content_length, priority })))
    }

    fn open(&mut self, id: u32, end: bool, written: &Written, limits: &Limits) -> Priority {
        // A PRIORITY_UPDATE that came before has the last word (RFC 9218 section 7.1).
        let early = self.early_priority(id);
        let priority = early.or(written.priority).unwrap_or_default();
        let receive = self.receive_window(limits);
        let stream = self.streams.open(id, receive, self.peer.initial_window as i32, priority);
        stream.left = written.content_length;
        stream.remote_closed = end;
        priority
    }

    /// Resets the stream of a malformed request (section 8.1.1).
    #[cold]
    fn malformed(
        &mut self,
        stream: u32,
        why: Malformed,
        limits: &Limits,
        out: &mut Vec<u8>,
    ) -> Handled {
        self.stream_fault(stream, ErrorCode::PROTOCOL_ERROR, limits, out)?;
        Ok(Some(Event::Malformed { stream, why }))
    }

    /// A block on a stream that was used before: trailers, or a fault (section 5.1).
    fn later_block(
        &mut self,
        id: u32,
        flags: BlockFlags,
        block: &[u8],
        limits: &Limits,
        work: &mut Workspace,
        out: &mut Vec<u8>,
    ) -> Handled {
        let Some(stream) = self.streams.get_mut(id) else {
            return match self.closed(id) {
                Closed::ResetHere => {
                    self.floods.count(Flood::Ignored, &limits.floods)?;
                    self.ignore(block, limits, work)
                }
                Closed::ResetByPeer => {
                    self.ignore(block, limits, work)?;
                    self.stream_fault(id, ErrorCode::STREAM_CLOSED, limits, out)
                }
                Closed::Ended => Err(Fault::closed("HEADERS behind the end of its stream")),
                Closed::Unknown => Err(Fault::protocol("stream number is below an earlier one")),
            };
        };
        if stream.remote_closed {
            self.ignore(block, limits, work)?;
            return self.stream_fault(id, ErrorCode::STREAM_CLOSED, limits, out);
        }
        let whole = stream.left.is_none_or(|left| left == 0);
        let mut fault =
            (!flags.end_stream || !whole || flags.self_dependent).then_some(Malformed::Trailers);
        work.head.clear();
        let Workspace { head, scratch, .. } = work;
        let list = limits.header_list_bytes as usize;
        let decoded = self.decoder.decode(block, list, scratch, &mut |line| {
            if fault.is_none() {
                fault = pseudo::trailer(&line, head).err();
            }
        })?;
        if decoded.too_large {
            self.floods.count(Flood::HeaderLists, &limits.floods)?;
        }
        if decoded.too_large || fault.is_some() {
            return self.stream_fault(id, ErrorCode::PROTOCOL_ERROR, limits, out);
        }
        if let Some(stream) = self.streams.get_mut(id) {
            stream.remote_closed = true;
            if stream.local_closed {
                self.close(id, Closed::Ended, limits, out);
            }
        }
        Ok(Some(Event::Trailers { stream: id }))
    }

    /// Decodes a block that no one reads.
    fn ignore(&mut self, block: &[u8], limits: &Limits, work: &mut Workspace) -> Handled {
        let list = limits.header_list_bytes as usize;
        let decoded = self.decoder.decode(block, list, &mut work.scratch, &mut |_| {})?;
        if decoded.too_large {
            self.floods.count(Flood::HeaderLists, &limits.floods)?;
        }
        Ok(None)
    }
}
