//! The content of an HTTP origin's answer, as it comes.

use std::{
    future::poll_fn,
    rc::Rc,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use larder_proto::http::{ChunkLimits, ChunkedDecoder, Reject, Step};
use tokio::{task::coop::poll_proceed, time::Instant};

use super::{
    OriginCounters, OriginError,
    connect::LONGEST_PIECE,
    connection::Connection,
    head::{HEAD_BYTES, HEAD_FIELDS},
    patience::patiently,
    pool::Lease,
    upload::Progress,
};

/// Reads in a row that bring nothing of use before others have their turn.
pub(super) const READS: usize = 32;

/// Bytes that are received in a row before others have their turn.
const TURN: usize = 256 << 10;

/// Chunks below this many bytes are joined: each piece costs as much as some thousand bytes.
const SMALL: usize = 16 << 10;

/// Zeros before a chunk's size, and blanks behind it, that an origin may pad it with.
const PADDING: usize = 64;

/// How the end of the content is known.
#[derive(Debug)]
pub(super) enum Ending {
    /// After so many bytes.
    Length(u64),
    Chunked(ChunkedDecoder),
    /// With the connection.
    Close,
}

/// Content that is being read; it holds the connection.
#[derive(Debug)]
pub(super) struct Reading {
    lease: Lease<Connection>,
    ending: Ending,
    trailers: Option<HeaderMap>,
    /// Behind content that was given out, no chunk follows.
    broken: Option<Reject>,
    progress: Rc<Progress>,
    total: Option<Instant>,
    /// Bytes that were received since others had their turn.
    received: usize,
}

impl Ending {
    pub(super) fn chunked() -> Ending {
        Ending::Chunked(ChunkedDecoder::new(ChunkLimits {
            trailer_bytes: HEAD_BYTES,
            trailer_lines: HEAD_FIELDS,
            padding: PADDING,
            ..ChunkLimits::default()
        }))
    }
}

impl Reading {
    pub(super) fn new(
        lease: Lease<Connection>,
        ending: Ending,
        progress: Rc<Progress>,
        total: Option<Instant>,
    ) -> Reading {
        Reading { lease, ending, trailers: None, broken: None, progress, total, received: 0 }
    }

    /// The next piece, never empty; `Ok(None)`: the content is complete. Cancel safe.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, OriginError> {
        let (progress, total) = (self.progress.clone(), self.total);
        let limit = self.lease.pool().settings.between_bytes_timeout;
        let next = poll_fn(|cx| self.poll_chunk(cx));
        match patiently(next, &progress, limit, total).await {
            Ok(piece) => piece,
            Err(late) => Err(late.error(OriginError::BetweenBytesTimeout)),
        }
    }

    /// Whether the last byte was given out.
    pub(super) fn is_over(&self) -> bool {
        match &self.ending {
            Ending::Length(left) => *left == 0,
            Ending::Chunked(decoder) => decoder.is_over() && self.broken.is_none(),
            Ending::Close => false,
        }
    }

    /// Goes on with the request while the answer stands still. Never ends.
    pub(super) async fn upload(&mut self) {
        let sent = poll_fn(|cx| match self.lease.connection() {
            Some(connection) => connection.poll_send(cx),
            None => Poll::Pending,
        });
        // A body that failed fails the next read, too.
        let _ = sent.await;
        std::future::pending().await
    }

    /// After the end: the trailer section; the connection may serve the next request.
    pub(super) fn finish(mut self) -> Option<HeaderMap> {
        self.lease.finish();
        self.trailers
    }

    pub(super) fn counters(&self) -> &OriginCounters {
        &self.lease.pool().counters
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, OriginError>> {
        // Pieces that were received already leave others their turn, too.
        ready!(poll_proceed(cx)).made_progress();
        for _ in 0..READS {
            if self.received >= TURN {
                break;
            }
            // First, as what was received may last for long: the request does not wait for that.
            let sent = self.lease.connection().map(|connection| connection.poll_send(cx));
            if let Some(Poll::Ready(Err(error @ OriginError::BodyAborted))) = sent {
                return Poll::Ready(Err(error));
            }
            if let Some(piece) = self.decode()? {
                return Poll::Ready(Ok(Some(piece)));
            }
            if self.is_over() {
                return Poll::Ready(Ok(None));
            }
            let Some(connection) = self.lease.connection() else {
                return Poll::Ready(Err(OriginError::Truncated));
            };
            if let Some(Poll::Ready(Err(error))) = sent {
                return Poll::Ready(Err(error));
            }
            match ready!(connection.poll_read(cx)) {
                Ok(read @ 1..) => self.received += read,
                Ok(0) if matches!(self.ending, Ending::Close) => return Poll::Ready(Ok(None)),
                Ok(0) | Err(_) => return Poll::Ready(Err(OriginError::Truncated)),
            }
        }
        // An origin that is fast, or says nothing of use without end, must not hold the thread.
        self.received = 0;
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Decodes received bytes. None: there is no content among them.
    fn decode(&mut self) -> Result<Option<Bytes>, OriginError> {
        let Some(connection) = self.lease.connection() else { return Ok(None) };
        let input = &mut connection.input;
        let length = input.len().min(LONGEST_PIECE);
        let take = match &mut self.ending {
            Ending::Close => length,
            Ending::Length(left) => {
                let length = length.min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= length as u64;
                length
            }
            Ending::Chunked(decoder) => {
                if let Some(reject) = self.broken {
                    return Err(malformed(reject));
                }
                return join(decoder, input, &mut self.trailers, &mut self.broken);
            }
        };
        Ok((take > 0).then(|| input.split_to(take).freeze()))
    }
}

/// Content of the chunks that were received. None: there is none yet, or the end has come.
fn join(
    decoder: &mut ChunkedDecoder,
    input: &mut BytesMut,
    trailers: &mut Option<HeaderMap>,
    broken: &mut Option<Reject>,
) -> Result<Option<Bytes>, OriginError> {
    let mut joined = BytesMut::new();
    while !decoder.is_over() && joined.len() < SMALL {
        match decoder.decode(input) {
            Err(reject) => {
                *broken = Some(reject);
                if joined.is_empty() {
                    return Err(malformed(reject));
                }
                break;
            }
            Ok(Step::Need) => break,
            Ok(Step::Skip { used }) => input.advance(used),
            Ok(Step::Data { used, data }) => {
                let length = data.len();
                input.advance(used - length);
                let content = input.split_to(length);
                if joined.is_empty() && (length >= SMALL || input.is_empty()) {
                    return Ok(Some(content.freeze()));
                }
                joined.extend_from_slice(&content);
            }
            Ok(Step::End { used, trailers: section }) => {
                input.advance(used);
                *trailers = map(section);
            }
        }
    }
    Ok((!joined.is_empty()).then(|| joined.freeze()))
}

fn malformed(reject: Reject) -> OriginError {
    OriginError::Malformed(reject.reason.as_str().to_owned())
}

fn map(trailers: Vec<(String, Vec<u8>)>) -> Option<HeaderMap> {
    let mut kept = HeaderMap::new();
    for (name, value) in trailers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            kept.append(name, value);
        }
    }
    (!kept.is_empty()).then_some(kept)
}
