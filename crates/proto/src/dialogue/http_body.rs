//! The end of an HTTP/1 message's body, in both directions.

use crate::http::{ChunkLimits, ChunkedDecoder, ResponseBody, Step};

/// A body being received.
#[derive(Debug)]
pub(super) enum Body {
    /// This many bytes are still to come.
    Length(u64),
    Chunked(ChunkedDecoder),
    UntilClose,
}

/// The body bytes in a piece of input.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Passed {
    /// Bytes that belong to the body.
    pub(super) length: usize,
    /// The body ends with them.
    pub(super) over: bool,
}

impl Body {
    pub(super) fn chunked() -> Body {
        Body::Chunked(ChunkedDecoder::new(ChunkLimits::default()))
    }

    pub(super) fn of_response(body: ResponseBody) -> Body {
        match body {
            ResponseBody::None => Body::Length(0),
            ResponseBody::Length(length) => Body::Length(length),
            ResponseBody::Chunked => Body::chunked(),
            ResponseBody::UntilClose => Body::UntilClose,
        }
    }

    /// The next bytes of the connection, as far as they belong to the body. Zero: a line is not
    /// complete yet.
    pub(super) fn pass(&mut self, bytes: &[u8]) -> Result<Passed, String> {
        match self {
            Body::Length(left) => {
                let length = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= length as u64;
                Ok(Passed { length, over: *left == 0 })
            }
            Body::Chunked(decoder) => chunks(decoder, bytes),
            Body::UntilClose => Ok(Passed { length: bytes.len(), over: false }),
        }
    }
}

fn chunks(decoder: &mut ChunkedDecoder, bytes: &[u8]) -> Result<Passed, String> {
    let mut length = 0;
    loop {
        match decoder.decode(&bytes[length..]) {
            Ok(Step::Need) => return Ok(Passed { length, over: false }),
            Ok(Step::Data { used, .. } | Step::Skip { used }) => length += used,
            Ok(Step::End { used, .. }) => return Ok(Passed { length: length + used, over: true }),
            Err(reject) => return Err(format!("chunks that are none ({})", reject.reason)),
        }
    }
}
