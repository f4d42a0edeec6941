//! One connection of the floor: reads requests, sends canned answers.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::TcpStream,
    rc::Rc,
    sync::atomic::{AtomicU64, Ordering},
};

use memchr::{memchr, memmem};
use rustix::{
    fs::sendfile,
    net::{SendFlags, send},
};

use super::answers::{Answer, AnswerCache};

/// Limit for a request head; a longer one closes the connection. Generators send a hundred bytes,
/// proxies some hundreds.
const HEAD: usize = 8 << 10;

/// Whether a connection stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Stay,
    Close,
}

#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    read: Box<[u8; HEAD]>,
    filled: usize,
    /// The answer being sent, and how much of it is sent.
    answer: Option<Rc<Answer>>,
    sent: u64,
    /// The socket may have more data.
    more: bool,
    /// The client speaks HTTP/1.0 and waits for the end of the connection.
    last: bool,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Self {
        let read = Box::new([0; HEAD]);
        Self { stream, read, filled: 0, answer: None, sent: 0, more: false, last: false }
    }

    /// Does as much as possible now: continue the answer, handle received requests, read.
    pub(super) fn turn(
        &mut self,
        readable: bool,
        answers: &mut AnswerCache,
        pages_sent: &AtomicU64,
    ) -> Turn {
        self.more |= readable;
        loop {
            match self.push() {
                Ok(true) if self.last => return Turn::Close,
                Ok(true) => {}
                Ok(false) => return Turn::Stay,
                Err(_gone) => return Turn::Close,
            }
            if let Some(end) = memmem::find(&self.read[..self.filled], b"\r\n\r\n") {
                let Some(answer) = self.request(end, answers, pages_sent) else {
                    return Turn::Close;
                };
                (self.answer, self.sent) = (Some(answer), 0);
                self.read.copy_within(end + 4..self.filled, 0);
                self.filled -= end + 4;
            } else if !self.more {
                return Turn::Stay;
            } else if self.fill() == Turn::Close {
                return Turn::Close;
            }
        }
    }

    /// The answer to the request whose head ends at `end`. Counts pages.
    fn request(
        &mut self,
        end: usize,
        answers: &mut AnswerCache,
        pages_sent: &AtomicU64,
    ) -> Option<Rc<Answer>> {
        let line = &self.read[..memchr(b'\r', &self.read[..end + 1])?];
        let rest = line.strip_prefix(b"GET ")?;
        let space = memchr(b' ', rest)?;
        self.last = rest.ends_with(b"/1.0");
        let answer = answers.find(&rest[..space], pages_sent.load(Ordering::Relaxed));
        if answer.page {
            pages_sent.fetch_add(1, Ordering::Relaxed);
        }
        Some(answer)
    }

    fn fill(&mut self) -> Turn {
        let room = &mut self.read[self.filled..];
        let all = room.len();
        match self.stream.read(room) {
            Ok(0) => Turn::Close,
            Ok(read) => {
                self.filled += read;
                // A short read: there is no more, and the next edge will announce more.
                self.more = read == all;
                Turn::Stay
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.more = false;
                Turn::Stay
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Turn::Stay,
            Err(_) => Turn::Close,
        }
    }

    /// Sends as much as possible. True: nothing is left to send.
    fn push(&mut self) -> io::Result<bool> {
        while let Some(answer) = &self.answer {
            let head = answer.bytes.len() as u64;
            let total = head + answer.file.as_ref().map_or(0, |(_, length)| *length);
            let sent = if self.sent < head {
                let bytes = &answer.bytes[self.sent as usize..];
                // MORE: the head leaves together with the start of the body.
                if answer.file.is_some() {
                    send(&self.stream, bytes, SendFlags::MORE | SendFlags::NOSIGNAL)
                        .map_err(io::Error::from)
                } else {
                    self.stream.write(bytes)
                }
            } else if let Some((file, length)) = &answer.file {
                let mut offset = self.sent - head;
                let left = (length - offset) as usize;
                sendfile(&self.stream, file, Some(&mut offset), left).map_err(io::Error::from)
            } else {
                Ok(0)
            };
            match sent {
                Ok(sent) => self.sent += sent as u64,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.sent >= total {
                self.answer = None;
            }
        }
        Ok(true)
    }
}
