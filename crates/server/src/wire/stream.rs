//! HTTP/2 and 3 to clients (RFC 9113, RFC 9114): one stream, between the task of its request and
//! the connection.
//!
//! The task composes the answer and takes the request's body; the connection (`http::h2`,
//! `http::h3`) makes frames of the first and brings the second. Neither waits for the other but by
//! these types.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    future::poll_fn,
    io::IoSlice,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;

use crate::net::{
    out::Out,
    socket::{Ended, Progress, Watch},
};

/// Bytes of a body that are handed to the origin at a time: small frames are joined.
const PIECE: usize = 16 * 1024;
/// Composed bytes that may wait for the connection before the task does.
const WAITING: u64 = 32 * 1024;

/// News of the tasks of one connection.
pub(crate) struct Mail {
    watch: Rc<Watch>,
    changed: RefCell<Vec<Rc<Stream>>>,
    /// Bytes of requests' bodies that wait for the tasks.
    unread: Cell<usize>,
    /// Streams whose tasks compose an answer.
    composing: Cell<usize>,
}

impl Mail {
    pub(crate) fn new(watch: Rc<Watch>) -> Rc<Self> {
        Rc::new(Self {
            watch,
            changed: RefCell::default(),
            unread: Cell::default(),
            composing: Cell::default(),
        })
    }

    /// The streams that have changed since the last call.
    pub(crate) fn take(&self) -> Vec<Rc<Stream>> {
        let changed = self.changed.take();
        changed.iter().for_each(|stream| stream.told.set(false));
        changed
    }

    /// Bytes of requests' bodies that wait for the tasks.
    pub(crate) fn unread(&self) -> usize {
        self.unread.get()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changed.borrow().is_empty()
    }
}

/// How far the answer of a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// More of it comes.
    Composing,
    /// All of it is composed.
    Complete,
    /// The rest of it will not come: an error of ours.
    Broken,
}

/// A piece of a request's body.
pub(crate) enum BodyPiece {
    Data(Bytes),
    /// The end, with trailers if there are any.
    End(Option<HeaderMap>),
}

/// The received and not yet taken part of a request's body.
#[derive(Default)]
struct Body {
    pieces: VecDeque<BytesMut>,
    bytes: usize,
    /// Of these, the first that the client may send again although nobody has taken them.
    credited: usize,
    /// Bytes that have come.
    come: u64,
    /// Pieces and ends that have come.
    received: u64,
    ended: bool,
    trailers: Option<HeaderMap>,
}

/// A request whose answer is not sent at once.
pub(crate) struct Stream {
    pub(crate) id: u64,
    mail: Rc<Mail>,
    /// Another request of the connection waited when this one came.
    pub(crate) has_company: bool,
    /// The connection knows of the last change.
    told: Cell<bool>,
    /// Composed bytes that the connection has not taken.
    pub(crate) out: RefCell<Out>,
    /// The head of the final answer was taken.
    pub(crate) head_sent: Cell<bool>,
    /// As lines of HTTP/1.
    pub(crate) trailers: RefCell<Option<Vec<u8>>>,
    pub(crate) answer: Cell<Answer>,
    pub(crate) progress: Progress,
    /// Bytes of the store that the task holds besides those in `out`.
    pub(crate) held: Cell<u64>,
    body: RefCell<Body>,
    /// Bytes of the body taken by the task that the client was not credited for.
    pub(crate) consumed: Cell<usize>,
    /// The stream or its connection is closed.
    gone: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

impl Stream {
    /// A stream without an answer yet.
    pub(crate) fn new(id: u64, mail: &Rc<Mail>) -> Rc<Self> {
        let stream = Self::with(id, mail, Out::default(), Answer::Composing);
        mail.composing.set(mail.composing.get() + 1);
        stream
    }

    /// A stream with the rest of an answer whose head is sent.
    pub(crate) fn answered(id: u64, mail: &Rc<Mail>, rest: Out) -> Rc<Self> {
        let stream = Self::with(id, mail, rest, Answer::Complete);
        stream.head_sent.set(true);
        stream
    }

    fn with(id: u64, mail: &Rc<Mail>, out: Out, answer: Answer) -> Rc<Self> {
        Rc::new(Self {
            id,
            mail: mail.clone(),
            has_company: mail.composing.get() > 0,
            told: Cell::default(),
            out: RefCell::new(out),
            head_sent: Cell::default(),
            trailers: RefCell::default(),
            answer: Cell::new(answer),
            progress: Progress::default(),
            held: Cell::default(),
            body: RefCell::default(),
            consumed: Cell::default(),
            gone: Cell::default(),
            waker: Cell::default(),
        })
    }

    /// The watch of its connection.
    pub(crate) fn watch(&self) -> &Watch {
        &self.mail.watch
    }

    /// Has the connection look at this stream.
    fn tell(self: &Rc<Self>) {
        if self.gone.get() {
            return;
        }
        if !self.told.replace(true) {
            self.mail.changed.borrow_mut().push(self.clone());
        }
        self.mail.watch.wake();
    }

    /// The answer ends here. `rest`: the part of it that was not sent.
    pub(crate) fn finish(self: &Rc<Self>, rest: &mut Out, answer: Answer) {
        self.hand_over(rest);
        self.mail.composing.set(self.mail.composing.get().saturating_sub(1));
        self.answer.set(answer);
        self.held.set(0);
        self.tell();
    }

    /// Moves composed bytes to where the connection takes them. Returns how many.
    fn hand_over(&self, out: &mut Out) -> u64 {
        let bytes = out.pending();
        if self.gone.get() {
            out.clear();
        } else {
            out.move_to(bytes, &mut self.out.borrow_mut());
        }
        bytes
    }

    /// Notes the trailers of the answer.
    pub(super) fn set_trailers(&self, trailers: Option<&HeaderMap>) {
        let mut lines = Vec::new();
        for (name, value) in trailers.into_iter().flatten() {
            lines.extend_from_slice(name.as_str().as_bytes());
            lines.extend_from_slice(b": ");
            lines.extend_from_slice(value.as_bytes());
            lines.extend_from_slice(b"\r\n");
        }
        *self.trailers.borrow_mut() = (!lines.is_empty()).then_some(lines);
    }

    /// Hands over what was composed, and waits until the connection has taken most of it.
    pub(crate) async fn send(self: &Rc<Self>, out: &mut Out) -> Result<u64, Ended> {
        let bytes = self.hand_over(out);
        self.tell();
        self.taken().await?;
        Ok(bytes)
    }

    /// The same with `more` behind it. The frames of several streams are sent one after the other,
    /// so the bytes are copied.
    pub(super) async fn send_with(
        self: &Rc<Self>,
        out: &mut Out,
        more: &[IoSlice<'_>],
        pinned: &dyn Fn() -> u64,
    ) -> Result<u64, Ended> {
        let mut bytes = self.hand_over(out);
        for piece in more.iter().flat_map(|slice| slice.chunks(WAITING as usize)) {
            self.out.borrow_mut().scratch().extend_from_slice(piece);
            bytes += piece.len() as u64;
            self.held.set(pinned());
            self.tell();
            self.taken().await?;
        }
        self.held.set(0);
        Ok(bytes)
    }

    async fn taken(&self) -> Result<(), Ended> {
        poll_fn(|cx| match self.out.borrow().pending() {
            _ if self.gone.get() => Poll::Ready(Err(Ended::Closed)),
            ..=WAITING => Poll::Ready(Ok(())),
            _ => self.wait(cx),
        })
        .await
    }

    /// Ends when the client has reset the stream, or the connection is closed.
    pub(super) async fn gone(&self) {
        poll_fn(|cx| if self.gone.get() { Poll::Ready(()) } else { self.wait(cx) }).await;
    }

    /// All waits of a stream are those of one task.
    fn wait<T>(&self, cx: &Context<'_>) -> Poll<T> {
        self.waker.set(Some(cx.waker().clone()));
        Poll::Pending
    }

    /// Wakes the task.
    pub(crate) fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// The stream is closed: nothing of it is sent or received any more.
    pub(crate) fn close(&self) {
        self.gone.set(true);
        drop(self.out.take());
        let waits = self.body.borrow().bytes > 0;
        self.drop_body();
        if waits {
            // An upload that was cut is never taken for a whole one.
            self.body.borrow_mut().ended = false;
        }
        self.wake();
    }

    /// Bytes of the store that cannot be evicted because of this stream.
    pub(crate) fn pinned(&self) -> u64 {
        self.out.borrow().pinned() + self.held.get()
    }

    /// Brings a piece of the request's body.
    pub(crate) fn receive(&self, data: &[u8], end: bool) {
        let mut body = self.body.borrow_mut();
        body.received += 1;
        if !data.is_empty() {
            body.come += data.len() as u64;
            body.bytes += data.len();
            self.mail.unread.set(self.mail.unread.get() + data.len());
            match body.pieces.back_mut() {
                Some(last) if last.len() + data.len() <= PIECE => last.extend_from_slice(data),
                _ => body.pieces.push_back(BytesMut::from(data)),
            }
        }
        body.ended |= end;
        drop(body);
        self.wake();
    }

    /// Brings the trailers, which end the request's body.
    pub(crate) fn receive_trailers(&self, trailers: Option<HeaderMap>) {
        self.body.borrow_mut().trailers = trailers;
        self.receive(&[], true);
    }

    /// Whether `length` bytes of the body are there to be taken, or its end is.
    pub(crate) fn has(&self, length: usize) -> bool {
        let body = self.body.borrow();
        body.bytes >= length || body.ended
    }

    /// Bytes of the body that have come.
    pub(crate) fn come(&self) -> u64 {
        self.body.borrow().come
    }

    /// Ends when more of the body has come.
    pub(crate) async fn received(&self) -> Result<(), Ended> {
        let before = self.body.borrow().received;
        poll_fn(|cx| {
            let received = self.body.borrow().received;
            match self.gone.get() {
                true => Poll::Ready(Err(Ended::Closed)),
                false if received != before => Poll::Ready(Ok(())),
                false => self.wait(cx),
            }
        })
        .await
    }

    /// Takes the next piece of the body; the end where none is left.
    pub(crate) fn take_piece(self: &Rc<Self>) -> BodyPiece {
        let mut body = self.body.borrow_mut();
        let Some(data) = body.pieces.pop_front() else {
            return BodyPiece::End(body.trailers.take());
        };
        body.bytes -= data.len();
        let credited = body.credited.min(data.len());
        body.credited -= credited;
        drop(body);
        self.mail.unread.set(self.mail.unread.get() - data.len());
        self.consumed.set(self.consumed.get() + data.len() - credited);
        self.tell();
        BodyPiece::Data(data.freeze())
    }

    /// Lets the client send more although nobody has taken what waits: a body that is taken as a
    /// whole must not wait for the windows of others.
    pub(crate) fn credit_waiting(self: &Rc<Self>) {
        let mut body = self.body.borrow_mut();
        let more = body.bytes - body.credited;
        body.credited = body.bytes;
        drop(body);
        if more > 0 {
            self.consumed.set(self.consumed.get() + more);
            self.tell();
        }
    }

    /// Drops the waiting part of the body: the answer is complete. Returns the bytes that the
    /// client was not credited for.
    pub(crate) fn drop_body(&self) -> usize {
        let mut body = self.body.borrow_mut();
        body.pieces.clear();
        let dropped = std::mem::take(&mut body.bytes);
        self.mail.unread.set(self.mail.unread.get() - dropped);
        dropped - std::mem::take(&mut body.credited)
    }

    /// Something of the body has come.
    pub(crate) fn has_begun_to_receive(&self) -> bool {
        self.body.borrow().received > 0
    }

    /// Sends an interim response.
    pub(crate) fn interim(self: &Rc<Self>, head: &[u8]) {
        self.out.borrow_mut().scratch().extend_from_slice(head);
        self.tell();
    }
}

/// The head that composed bytes begin with: its length, its status, its field lines.
pub(crate) fn head_of(composed: &[u8]) -> Option<(usize, u16, &[u8])> {
    let end = memchr::memmem::find(composed, b"\r\n\r\n")?;
    // `HTTP/1.1 200 reason`
    let status = composed.get(9..12).filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
    let status = status.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
    let lines_at = memchr::memchr(b'\n', composed)? + 1;
    Some((end + 4, status, composed.get(lines_at..end + 2)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_that_is_cut_has_no_end() {
        let mail = Mail::new(Rc::default());
        for (taken, is_whole) in [(false, false), (true, true)] {
            let stream = Stream::new(1, &mail);
            stream.receive(b"all of it", true);
            if taken {
                assert!(matches!(stream.take_piece(), BodyPiece::Data(data) if data.len() == 9));
            }
            stream.close();
            assert_eq!(stream.has(1), is_whole);
            assert_eq!(mail.unread(), 0);
        }
    }
}
