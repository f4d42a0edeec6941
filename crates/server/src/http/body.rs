//! A request's body on its way from the client to the origin.

use std::{collections::VecDeque, net::IpAddr, rc::Rc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use larder_proto::http::{
    BodyFraming, Reject,
    chunked::{ChunkLimits, ChunkedDecoder, Step},
};
use tokio::{sync::mpsc, time::timeout};

use crate::{
    clock::Ms,
    http::exchange::Exchange,
    net::socket::{Ended, PROGRESS, STALLED_AFTER, Socket, Watch},
    origin::BodyFrame,
    request::pages::Pages,
    room::{Held, Place},
    wire::{
        h1,
        stream::{BodyPiece, Stream},
    },
};

/// Why a request body did not arrive whole.
pub(crate) enum BodyError {
    /// The client went away or stood still.
    Ended(Ended),
    /// Its framing is wrong.
    Reject(Reject),
    /// It is longer than allowed.
    TooLarge,
    /// There is no memory for it.
    Crowded,
    /// Nobody wants it any more: the origin answered without reading it.
    Unwanted,
}

/// The received part of a request's body, and the way by which the rest comes.
pub(crate) enum Received<'c> {
    H1(Buffer<'c>),
    /// Of HTTP/2 or 3.
    Stream(&'c Rc<Stream>),
}

/// Received bytes, of which those before `at` are used up, and the socket.
pub(crate) struct Buffer<'c> {
    pub(crate) socket: &'c Socket,
    pub(crate) buf: &'c mut Vec<u8>,
    pub(crate) at: &'c mut usize,
}

/// Reads one body. Bytes after it stay where they are.
pub(crate) struct Incoming<'i, 'c> {
    received: &'i mut Received<'c>,
    terms: Terms,
}

/// How a body is read.
struct Terms {
    pages: Rc<Pages>,
    /// Milliseconds that are waited for [`PROGRESS`] bytes, or for the rest.
    patience: Ms,
    /// Milliseconds of it that are used up, and bytes that came in them.
    waited: Ms,
    came: u64,
    /// Bytes of body allowed.
    limit: u64,
    /// The client waits for `100 Continue`.
    expect: bool,
    handed: Handed,
    client: IpAddr,
    /// An origin waits for the body.
    has_origin: bool,
}

/// Pieces of a body that the origin has not taken, as memory of the client.
#[derive(Default)]
struct Handed {
    /// Lengths of the last pieces, of which the last ones are still there.
    lengths: VecDeque<usize>,
    held: Option<Held>,
}

impl<'i, 'c> Incoming<'i, 'c> {
    /// The body that follows the head of a request.
    pub(crate) fn new(exchange: &Exchange<'_, '_>, received: &'i mut Received<'c>) -> Self {
        let limits = &exchange.request.config.settings.http.limits;
        // A client that has begun to send does not wait.
        let waits = match &*received {
            Received::H1(buffer) => buffer.unread().is_empty(),
            Received::Stream(stream) => !stream.has_begun_to_receive(),
        };
        let terms = Terms {
            pages: exchange.request.pages.clone(),
            patience: limits.body_timeout.as_millis() as Ms,
            waited: 0,
            came: 0,
            limit: limits.request_body,
            expect: waits && exchange.request.head.expect_continue,
            handed: Handed::default(),
            client: exchange.request.client(),
            has_origin: false,
        };
        Self { received, terms }
    }

    /// Waits until `length` bytes of body are there.
    pub(crate) async fn have(&mut self, length: usize) -> Result<(), BodyError> {
        if length as u64 > self.terms.limit {
            return Err(BodyError::TooLarge);
        }
        match self.received {
            Received::H1(buffer) => {
                while buffer.unread().len() < length {
                    self.terms.more(buffer).await?;
                }
                Ok(())
            }
            Received::Stream(stream) => {
                while !stream.has(length) {
                    stream.credit_waiting();
                    self.terms.more_of(stream).await?;
                }
                Ok(())
            }
        }
    }

    /// Hands the whole body to `frames`, and says then that it is whole, or that it failed.
    pub(crate) async fn pump(
        &mut self,
        framing: BodyFraming,
        frames: mpsc::Sender<BodyFrame>,
    ) -> Result<(), BodyError> {
        let terms = &mut self.terms;
        terms.has_origin = true;
        let done = match (&mut *self.received, framing) {
            (_, BodyFraming::None) => Ok(()),
            (_, BodyFraming::Length(length)) if length > terms.limit => Err(BodyError::TooLarge),
            (Received::H1(buffer), BodyFraming::Length(length)) => {
                terms.pump_length(buffer, length, &frames).await
            }
            (Received::H1(buffer), BodyFraming::Chunked) => {
                terms.pump_chunked(buffer, &frames).await
            }
            (Received::Stream(stream), _) => terms.pump_stream(stream, &frames).await,
        };
        let _ = match (&done, framing) {
            (Err(_), _) => frames.send(BodyFrame::Failed).await,
            (Ok(()), BodyFraming::Chunked) => frames.send(BodyFrame::End).await,
            (Ok(()), _) => Ok(()),
        };
        done
    }
}

impl Buffer<'_> {
    fn unread(&self) -> &[u8] {
        &self.buf[*self.at..]
    }
}

impl Terms {
    async fn pump_length(
        &mut self,
        buffer: &mut Buffer<'_>,
        mut left: u64,
        frames: &mpsc::Sender<BodyFrame>,
    ) -> Result<(), BodyError> {
        while left > 0 {
            if buffer.unread().is_empty() {
                self.more(buffer).await?;
            }
            let have = buffer.unread();
            let take = (have.len() as u64).min(left) as usize;
            let data = Bytes::copy_from_slice(&have[..take]);
            *buffer.at += take;
            left -= take as u64;
            self.hand_over(&buffer.socket.watch, frames, BodyFrame::Data(data)).await?;
        }
        Ok(())
    }

    async fn pump_chunked(
        &mut self,
        buffer: &mut Buffer<'_>,
        frames: &mpsc::Sender<BodyFrame>,
    ) -> Result<(), BodyError> {
        let mut decoder = ChunkedDecoder::new(ChunkLimits::default());
        let mut total = 0u64;
        loop {
            let (used, frame, end) =
                match decoder.decode(buffer.unread()).map_err(BodyError::Reject)? {
                    Step::Need => {
                        self.more(buffer).await?;
                        continue;
                    }
                    Step::Skip { used } => (used, None, false),
                    Step::Data { used, data } => {
                        total += data.len() as u64;
                        (used, Some(BodyFrame::Data(Bytes::copy_from_slice(data))), false)
                    }
                    Step::End { used, trailers } => {
                        let lines =
                            trailers.iter().map(|(name, value)| (name.as_bytes(), &value[..]));
                        (used, trailer_map(lines).map(BodyFrame::Trailers), true)
                    }
                };
            *buffer.at += used;
            if total > self.limit {
                return Err(BodyError::TooLarge);
            }
            if let Some(frame) = frame {
                self.hand_over(&buffer.socket.watch, frames, frame).await?;
            }
            if end {
                return Ok(());
            }
        }
    }

    /// Hands a piece to the origin's side, at its pace.
    async fn hand_over(
        &mut self,
        watch: &Watch,
        frames: &mpsc::Sender<BodyFrame>,
        frame: BodyFrame,
    ) -> Result<(), BodyError> {
        if let BodyFrame::Data(data) = &frame {
            let waiting = frames.max_capacity() - frames.capacity();
            if !self.handed.count(watch, &self.pages, waiting, data.len()) {
                return Err(BodyError::Crowded);
            }
        }
        frames.send(frame).await.map_err(|_| BodyError::Unwanted)
    }

    /// Reads more. Used bytes are dropped first, so that the buffer stays as large as one read.
    async fn more(&mut self, buffer: &mut Buffer<'_>) -> Result<(), BodyError> {
        let Buffer { socket, buf, at } = buffer;
        buf.drain(..**at);
        **at = 0;
        if std::mem::take(&mut self.expect) {
            let _ = socket.stream.try_write(h1::CONTINUE);
        }
        let began = self.pages.clock.now();
        let got = {
            let _owes = socket.watch.awaits_client();
            let read = async |deadline| {
                socket.watch.forgive();
                socket.watch.until(deadline);
                socket.read_shared(buf).await
            };
            self.wait(began, read).await.map_err(BodyError::Ended)?
        };
        if got == 0 {
            return Err(BodyError::Ended(Ended::Closed));
        }
        self.pages.counters.bytes_in.add(got as u64);
        socket.watch.busy();
        self.came(got, began, &socket.watch);
        if !socket.watch.receives(&self.pages.shared.room, buf.capacity()) {
            return Err(BodyError::Crowded);
        }
        Ok(())
    }

    /// Waits for more by `receive`, which takes a deadline. A client that sends less than
    /// [`PROGRESS`] in [`STALLED_AFTER`], while an origin waits for it, is one of few of its
    /// address.
    async fn wait<T>(
        &self,
        began: Ms,
        mut receive: impl AsyncFnMut(Ms) -> Result<T, Ended>,
    ) -> Result<T, Ended> {
        let soon = began + STALLED_AFTER.saturating_sub(self.waited);
        let deadline = began + self.patience - self.waited;
        if !self.has_origin || deadline <= soon {
            return receive(deadline).await;
        }
        if soon > began {
            match receive(soon).await {
                Err(Ended::TimedOut) => {}
                other => return other,
            }
        }
        let _stall = self.pages.shared.stalls.enter(self.client).ok_or(Ended::TimedOut)?;
        receive(deadline).await
    }

    /// So many bytes came in a wait that began then.
    fn came(&mut self, bytes: usize, began: Ms, watch: &Watch) {
        let now = self.pages.clock.now();
        self.came += bytes as u64;
        self.waited = (self.waited + now.saturating_sub(began)).min(self.patience);
        if self.came >= PROGRESS {
            (self.came, self.waited) = (0, 0);
            watch.moves(now);
        }
    }

    async fn pump_stream(
        &mut self,
        stream: &Rc<Stream>,
        frames: &mpsc::Sender<BodyFrame>,
    ) -> Result<(), BodyError> {
        let mut total = 0;
        loop {
            while !stream.has(1) {
                self.more_of(stream).await?;
            }
            let frame = match stream.take_piece() {
                BodyPiece::Data(data) => {
                    total += data.len() as u64;
                    BodyFrame::Data(data)
                }
                BodyPiece::End(Some(trailers)) => BodyFrame::Trailers(trailers),
                BodyPiece::End(None) => return Ok(()),
            };
            if total > self.limit {
                return Err(BodyError::TooLarge);
            }
            let ends = matches!(frame, BodyFrame::Trailers(_));
            self.hand_over(stream.watch(), frames, frame).await?;
            if ends {
                return Ok(());
            }
        }
    }

    /// Waits until more of a stream's body has come.
    async fn more_of(&mut self, stream: &Rc<Stream>) -> Result<(), BodyError> {
        if std::mem::take(&mut self.expect) {
            stream.interim(h1::CONTINUE);
        }
        let (began, before) = (self.pages.clock.now(), stream.come());
        {
            let _owes = stream.watch().awaits_client();
            let clock = self.pages.clock;
            let received = async |deadline: Ms| {
                let patience = Duration::from_millis(deadline.saturating_sub(clock.now()));
                timeout(patience, stream.received()).await.unwrap_or(Err(Ended::TimedOut))
            };
            self.wait(began, received).await.map_err(BodyError::Ended)?;
        }
        self.came((stream.come() - before) as usize, began, stream.watch());
        Ok(())
    }
}

impl Handed {
    /// A piece of so many bytes is handed over; before it, `waiting` pieces have not been taken.
    /// False: there is no memory for them.
    fn count(&mut self, watch: &Watch, pages: &Pages, waiting: usize, bytes: usize) -> bool {
        self.lengths.push_back(bytes);
        while self.lengths.len() > waiting + 1 {
            self.lengths.pop_front();
        }
        let new = || Held::new(&watch.holder(&pages.shared.room), Place::Heap);
        let total: usize = self.lengths.iter().sum();
        self.held.get_or_insert_with(new).resize(total as u64)
    }
}

/// Trailers in the form of HTTP/1: `name: value` and CRLF each.
pub(super) fn trailers(lines: &[u8]) -> Option<HeaderMap> {
    trailer_map(lines.split(|&byte| byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    }))
}

fn trailer_map<'t>(trailers: impl Iterator<Item = (&'t [u8], &'t [u8])>) -> Option<HeaderMap> {
    let mut out = HeaderMap::new();
    for (name, value) in trailers {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
        {
            out.append(name, value);
        }
    }
    (!out.is_empty()).then_some(out)
}
