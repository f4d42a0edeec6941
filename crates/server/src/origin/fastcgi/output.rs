//! The body of an answer: the application's output behind the head.

use std::mem;

use bytes::Bytes;
use larder_proto::fcgi::End;
use tokio::time::Instant;

use super::exchange::{Event, Exchange};
use crate::origin::{OriginCounters, OriginError};

/// Output that is being read; it holds the connection.
#[derive(Debug)]
pub(in crate::origin) struct Output {
    exchange: Exchange,
    /// Output that came with the head.
    first: Bytes,
    /// Bytes still owed by Content-Length; None: END_REQUEST alone tells the end.
    owed: Option<u64>,
    total: Option<Instant>,
}

impl Output {
    pub(super) fn new(
        exchange: Exchange,
        first: Bytes,
        length: Option<u64>,
        total: Option<Instant>,
    ) -> Output {
        Output { exchange, first, owed: length, total }
    }

    /// The next piece, never empty. `Ok(None)`: the application said that the answer is complete,
    /// and it is as long as announced. Cancel safe.
    pub(in crate::origin) async fn chunk(&mut self) -> Result<Option<Bytes>, OriginError> {
        let piece = match mem::take(&mut self.first) {
            first if !first.is_empty() => first,
            _ => match self.exchange.event_in_time(self.total).await? {
                Event::Output(piece) => piece,
                Event::End(End::Complete(_)) if self.owed.is_none_or(|owed| owed == 0) => {
                    return Ok(None);
                }
                Event::End(_) => return Err(OriginError::Truncated),
            },
        };
        if let Some(owed) = &mut self.owed {
            *owed = owed.checked_sub(piece.len() as u64).ok_or_else(|| {
                OriginError::Malformed("more output than Content-Length says".to_owned())
            })?;
        }
        Ok(Some(piece))
    }

    /// Goes on with the request while the output stands still. Never ends.
    pub(in crate::origin) async fn upload(&mut self) {
        self.exchange.upload().await;
    }

    /// After the end: the connection may serve the next request.
    pub(in crate::origin) fn finish(self) {
        self.exchange.finish();
    }

    pub(in crate::origin) fn counters(&self) -> &OriginCounters {
        self.exchange.counters()
    }
}
