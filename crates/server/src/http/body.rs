//! A request's body on its way from the client to the origin.

use std::rc::Rc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use larder_proto::http::{
    BodyFraming, Reject,
    chunked::{ChunkLimits, ChunkedDecoder, Step},
};
use tokio::sync::mpsc;

use crate::{
    clock::Ms,
    http::exchange::Exchange,
    net::socket::{Ended, Socket},
    origin::BodyFrame,
    request::pages::Pages,
    wire::h1,
};

/// Why a request body did not arrive whole.
pub(crate) enum BodyError {
    /// The client went away or stood still.
    Ended(Ended),
    /// Its framing is wrong.
    Reject(Reject),
    /// It is longer than allowed.
    TooLarge,
    /// Nobody wants it any more: the origin answered without reading it.
    Unwanted,
}

/// Reads one body. Bytes after it stay in the buffer.
pub(crate) struct Incoming<'c> {
    socket: &'c Socket,
    buf: &'c mut Vec<u8>,
    at: &'c mut usize,
    pages: Rc<Pages>,
    /// Milliseconds without progress.
    patience: Ms,
    /// Bytes of body allowed.
    limit: u64,
    /// The client waits for `100 Continue`.
    expect: bool,
}

impl<'c> Incoming<'c> {
    /// The body that follows the head of `asked`.
    pub(crate) fn new(
        exchange: &Exchange<'_, '_>,
        socket: &'c Socket,
        buf: &'c mut Vec<u8>,
        at: &'c mut usize,
        expect: bool,
    ) -> Incoming<'c> {
        let limits = &exchange.request.config.settings.http.limits;
        Incoming {
            socket,
            buf,
            at,
            pages: exchange.request.pages.clone(),
            patience: limits.body_timeout.as_millis() as Ms,
            limit: limits.request_body,
            expect,
        }
    }

    /// Waits until `length` bytes of body are in the buffer.
    pub(crate) async fn have(&mut self, length: usize) -> Result<(), BodyError> {
        if length as u64 > self.limit {
            return Err(BodyError::TooLarge);
        }
        while self.buf.len() - *self.at < length {
            self.more().await?;
        }
        Ok(())
    }

    /// Hands the whole body to `frames`, then drops it. On an error [`BodyFrame::Failed`] is handed
    /// over last.
    pub(crate) async fn pump(
        &mut self,
        framing: BodyFraming,
        frames: mpsc::Sender<BodyFrame>,
    ) -> Result<(), BodyError> {
        let done = match framing {
            BodyFraming::None => Ok(()),
            BodyFraming::Length(length) if length > self.limit => Err(BodyError::TooLarge),
            BodyFraming::Length(length) => self.pump_length(length, &frames).await,
            BodyFraming::Chunked => self.pump_chunked(&frames).await,
        };
        if done.is_err() {
            let _ = frames.send(BodyFrame::Failed).await;
        }
        done
    }

    async fn pump_length(
        &mut self,
        mut left: u64,
        frames: &mpsc::Sender<BodyFrame>,
    ) -> Result<(), BodyError> {
        while left > 0 {
            self.fill().await?;
            let have = &self.buf[*self.at..];
            let take = (have.len() as u64).min(left) as usize;
            let data = Bytes::copy_from_slice(&have[..take]);
            *self.at += take;
            left -= take as u64;
            frames.send(BodyFrame::Data(data)).await.map_err(|_| BodyError::Unwanted)?;
        }
        Ok(())
    }

    async fn pump_chunked(&mut self, frames: &mpsc::Sender<BodyFrame>) -> Result<(), BodyError> {
        let mut decoder = ChunkedDecoder::new(ChunkLimits::default());
        let mut total = 0u64;
        loop {
            let (used, frame, end) =
                match decoder.decode(&self.buf[*self.at..]).map_err(BodyError::Reject)? {
                    Step::Need => {
                        self.more().await?;
                        continue;
                    }
                    Step::Skip { used } => (used, None, false),
                    Step::Data { used, data } => {
                        total += data.len() as u64;
                        (used, Some(BodyFrame::Data(Bytes::copy_from_slice(data))), false)
                    }
                    Step::End { used, trailers } => {
                        (used, trailer_map(&trailers).map(BodyFrame::Trailers), true)
                    }
                };
            *self.at += used;
            if total > self.limit {
                return Err(BodyError::TooLarge);
            }
            if let Some(frame) = frame {
                frames.send(frame).await.map_err(|_| BodyError::Unwanted)?;
            }
            if end {
                return Ok(());
            }
        }
    }

    /// Makes sure that there is at least one byte.
    async fn fill(&mut self) -> Result<(), BodyError> {
        if *self.at == self.buf.len() { self.more().await } else { Ok(()) }
    }

    /// Reads more. Used bytes are dropped first, so that the buffer stays as large as one read.
    async fn more(&mut self) -> Result<(), BodyError> {
        self.buf.drain(..*self.at);
        *self.at = 0;
        if std::mem::take(&mut self.expect) {
            let _ = self.socket.stream.try_write(h1::CONTINUE);
        }
        self.socket.watch.until(self.pages.clock.now() + self.patience);
        let got = self.socket.read_shared(self.buf).await.map_err(BodyError::Ended)?;
        if got == 0 {
            return Err(BodyError::Ended(Ended::Closed));
        }
        self.pages.counters.bytes_in.add(got as u64);
        self.socket.watch.busy();
        Ok(())
    }
}

fn trailer_map(trailers: &[(String, Vec<u8>)]) -> Option<HeaderMap> {
    let mut out = HeaderMap::new();
    for (name, value) in trailers {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value))
        {
            out.append(name, value);
        }
    }
    (!out.is_empty()).then_some(out)
}
