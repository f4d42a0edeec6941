//! The content of a response.

use bytes::Bytes;
use http::HeaderMap;

use super::OriginError;

/// The content of a response, read piece by piece.
#[derive(Debug)]
pub struct Body {
    trailers: Option<HeaderMap>,
    declared: Option<u64>,
    close_delimited: bool,
}

impl Body {
    /// The next piece; `Ok(None)` at a complete end only. Cancel safe.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, OriginError> {
        Err(OriginError::Truncated)
    }

    /// The trailer section, after `chunk` returned `Ok(None)`.
    pub fn trailers(&mut self) -> Option<HeaderMap> {
        self.trailers.take()
    }

    /// Bytes of content that will come: Content-Length, or 0 where there is none; None when it is not known.
    pub fn declared_length(&self) -> Option<u64> {
        self.declared
    }

    /// The end of the content is the end of the connection, so that completeness cannot be known (RFC 9112 section 8).
    pub fn close_delimited(&self) -> bool {
        self.close_delimited
    }
}
