//! The content of a response.

use std::{future::pending, mem};

use bytes::Bytes;
use http::HeaderMap;

use super::{OriginError, fastcgi::Output, files::Content, group::Ticket, reading::Reading};

/// Content that is read for nothing, so that a connection can be kept.
const DISCARDED_BYTES: usize = 64 << 10;

/// How the end of the content is known (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// There is no content, whatever the fields say: HEAD, 204, 304.
    None,
    /// Content-Length.
    Length(u64),
    /// Transfer-Encoding: chunked.
    Chunked,
    /// The end of the connection.
    Close,
    /// A record of FastCGI.
    Record,
}

/// The content of a response, read piece by piece; it holds the connection. Dropped before its end,
/// it closes the connection, so that an origin is not read for nobody.
#[derive(Debug)]
pub struct Body {
    state: State,
    framing: Framing,
    trailers: Option<HeaderMap>,
    /// Its place among the answers under way, and who is told how it ends.
    ticket: Option<Ticket>,
    /// The beginning, given back to be read once more.
    begin: Option<Bytes>,
}

#[derive(Debug)]
enum State {
    Reading(Box<Reading>),
    Application(Box<Output>),
    File(Box<Content>),
    Ready(Bytes),
    Complete,
    Broken,
}

impl Body {
    pub(crate) fn empty() -> Body {
        Body {
            state: State::Complete,
            framing: Framing::None,
            trailers: None,
            ticket: None,
            begin: None,
        }
    }

    /// The content of an HTTP origin's answer.
    pub(super) fn new(reading: Reading, framing: Framing) -> Body {
        let state = State::Reading(Box::new(reading));
        let mut body = Body { state, framing, trailers: None, ticket: None, begin: None };
        body.settle();
        body
    }

    /// The output of an application behind its head; `length`: what Content-Length says.
    pub(super) fn of_application(output: Output, length: Option<u64>) -> Body {
        let framing = length.map_or(Framing::Record, Framing::Length);
        Body {
            state: State::Application(Box::new(output)),
            framing,
            trailers: None,
            ticket: None,
            begin: None,
        }
    }

    /// The content of a file; `length`: that of the part which is sent.
    pub(super) fn of_file(content: Content, length: u64) -> Body {
        let (state, framing) = (State::File(Box::new(content)), Framing::Length(length));
        Body { state, framing, trailers: None, ticket: None, begin: None }
    }

    /// Content that is there.
    pub(crate) fn ready(content: Bytes) -> Body {
        let framing = Framing::Length(content.len() as u64);
        let state = if content.is_empty() { State::Complete } else { State::Ready(content) };
        Body { state, framing, trailers: None, ticket: None, begin: None }
    }

    /// Gives back what was read so far: it comes once more.
    pub(crate) fn refill(&mut self, begin: Bytes) {
        self.begin = Some(begin).filter(|begin| !begin.is_empty());
    }

    /// Keeps `ticket` until the end of the content.
    pub(super) fn hold(&mut self, ticket: Ticket) {
        match self.state {
            State::Complete => ticket.succeeded(),
            _ => self.ticket = Some(ticket),
        }
    }

    /// The next piece, never empty. `Ok(None)` at a *complete* end only: short of Content-Length,
    /// broken chunking, a reset or a timeout are errors, and remain errors when asked again. Cancel
    /// safe.
    ///
    /// Content delimited by the end of the connection is complete when the connection ends in order
    /// (RFC 9112 section 8); see [`Body::close_delimited`].
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, OriginError> {
        if let Some(begin) = self.begin.take() {
            return Ok(Some(begin));
        }
        let piece = match &mut self.state {
            State::Reading(reading) => reading.chunk().await,
            State::Application(output) => output.chunk().await,
            State::File(content) => content.chunk().await,
            State::Ready(content) => Ok(Some(mem::take(content))),
            State::Complete => return Ok(None),
            State::Broken => return Err(OriginError::Truncated),
        };
        match &piece {
            Ok(None) => self.complete(),
            Ok(Some(_)) => self.settle(),
            Err(_) => {}
        }
        piece.map_err(|error| self.fail(error))
    }

    /// Goes on with the request, of which the origin may not have all yet, while nobody takes the
    /// content. Never ends.
    pub(crate) async fn upload(&mut self) {
        match &mut self.state {
            State::Reading(reading) => reading.upload().await,
            State::Application(output) => output.upload().await,
            State::File(_) | State::Ready(_) | State::Complete | State::Broken => pending().await,
        }
    }

    /// The trailer section, once, after [`Body::chunk`] returned `Ok(None)`.
    pub fn trailers(&mut self) -> Option<HeaderMap> {
        self.trailers.take()
    }

    /// Bytes of content in all: Content-Length, or 0 where there is no content (HEAD, 204, 304,
    /// 101, whatever their fields say). None when the end only will tell.
    pub fn declared_length(&self) -> Option<u64> {
        match self.framing {
            Framing::None => Some(0),
            Framing::Length(length) => Some(length),
            Framing::Chunked | Framing::Close | Framing::Record => None,
        }
    }

    /// The end of the content is the end of the connection (HTTP/1.0 style), so that nobody can
    /// know that it is complete.
    pub fn close_delimited(&self) -> bool {
        self.framing == Framing::Close
    }

    /// Reads the rest of a short content that nobody wants, in a task of its own, so that the
    /// connection may be kept; of a longer one it is closed.
    pub(super) fn discard(mut self) {
        if !self.holds_origin() {
            return;
        }
        tokio::task::spawn_local(async move {
            let mut left = DISCARDED_BYTES;
            while let Ok(Some(piece)) = self.chunk().await {
                match left.checked_sub(piece.len()) {
                    Some(less) => left = less,
                    None => return,
                }
            }
        });
    }

    /// It holds a connection to the origin: it is neither whole nor broken.
    pub(crate) fn holds_origin(&self) -> bool {
        matches!(self.state, State::Reading(_) | State::Application(_))
    }

    /// Gives the connection back with the last byte, not only when the caller asks for what follows
    /// it.
    fn settle(&mut self) {
        let over = match &self.state {
            State::Reading(reading) => reading.is_over(),
            State::Ready(content) => content.is_empty(),
            _ => false,
        };
        if over {
            self.complete();
        }
    }

    fn complete(&mut self) {
        match mem::replace(&mut self.state, State::Complete) {
            State::Reading(reading) => self.trailers = reading.finish(),
            State::Application(output) => output.finish(),
            State::File(_) | State::Ready(_) | State::Complete | State::Broken => {}
        }
        if let Some(ticket) = self.ticket.take() {
            ticket.succeeded();
        }
    }

    fn fail(&mut self, error: OriginError) -> OriginError {
        if let Some(ticket) = self.ticket.take()
            && error.blames_server()
        {
            ticket.failed();
        }
        match mem::replace(&mut self.state, State::Broken) {
            State::Reading(reading) => reading.counters().count_failure(&error),
            State::Application(output) => output.counters().count_failure(&error),
            State::File(_) | State::Ready(_) | State::Complete | State::Broken => {}
        }
        error
    }
}
