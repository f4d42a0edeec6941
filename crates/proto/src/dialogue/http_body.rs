//! Where the body of an HTTP/1 message ends, whoever sends it.

use crate::http::{ChunkLimits, ChunkedDecoder, ResponseBody, Step};

/// A body under way.
#[derive(Debug)]
pub(super) enum Body {
    /// So many bytes are to come.
    Length(u64),
    Chunked(ChunkedDecoder),
    UntilClose,
}

/// What bytes were of a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Passed {
    /// So many belong to it.
    pub(super) length: usize,
    /// It ends with them.
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

    /// The next bytes of the connection, as many of them as belong to the body. None of some: a line is not whole yet.
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
