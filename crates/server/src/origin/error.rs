//! Errors between Larder and an origin, and the status that the client gets for each.

use std::io;

/// Why a request to an origin failed.
///
/// All of these are the origin's fault or ours, never the client's, but for
/// [`OriginError::BodyAborted`], [`OriginError::UploadTimeout`] and [`OriginError::Unsendable`].
#[derive(Debug, thiserror::Error)]
pub enum OriginError {
    /// The name could not be resolved, or no address accepted a connection.
    #[error("cannot connect to the origin: {0}")]
    Connect(#[source] io::Error),
    /// No connection within the connect timeout.
    #[error("connecting to the origin took too long")]
    ConnectTimeout,
    /// The request was sent, but no final response head came within the first byte timeout.
    #[error("the origin did not begin its answer in time")]
    FirstByteTimeout,
    /// The response body (or the reading of the request body) stood still for longer than allowed.
    #[error("the origin stopped in the middle of its answer")]
    BetweenBytesTimeout,
    /// The client had not sent all of its body when the exchange as a whole had taken longer than
    /// allowed.
    #[error("the request body took too long")]
    UploadTimeout,
    /// The exchange as a whole took longer than allowed.
    #[error("the origin's answer took too long as a whole")]
    TotalTimeout,
    /// The received bytes are not an HTTP/1 response that can be passed on.
    #[error("the origin's answer is not valid HTTP: {0}")]
    Malformed(String),
    /// The response ended before its framing said so (RFC 9112 section 8).
    #[error("the origin's answer ended too early")]
    Truncated,
    /// As many connections as allowed are busy, and as many requests as allowed wait for one (or
    /// this one waited for the whole first byte timeout).
    #[error("too many requests wait for the origin")]
    TooManyConnections,
    /// The client's request body failed, or was not what its Content-Length promised; the request
    /// was aborted, not ended.
    #[error("the request body was aborted by the client")]
    BodyAborted,
    /// The request cannot be written as HTTP/1: a target or a Host that no origin could read.
    #[error("the request cannot be sent: {0}")]
    Unsendable(String),
    /// The application takes no further requests at the moment (FCGI_OVERLOADED).
    #[error("the application is overloaded")]
    Overloaded,
    /// Files of this machine cannot be read or written.
    #[error("files of this machine cannot be used: {0}")]
    Local(#[source] io::Error),
}

impl OriginError {
    /// The origin spoke before it was asked.
    pub(super) fn before_request() -> OriginError {
        OriginError::Malformed("bytes before the request".to_owned())
    }

    /// How many reasons there are; [`OriginError::index`] is below it.
    pub const REASONS: usize = 13;

    /// The status for the client: 504 when the origin was too slow, 503 when it is too busy, 500
    /// when this machine's files fail, 502 otherwise; 408 when the client was too slow, and 400
    /// when the request itself was at fault (RFC 9110 sections 15.5.1, 15.5.9 and 15.6.1 to
    /// 15.6.5).
    pub fn status(&self) -> u16 {
        match self {
            OriginError::ConnectTimeout
            | OriginError::FirstByteTimeout
            | OriginError::BetweenBytesTimeout
            | OriginError::TotalTimeout => 504,
            OriginError::TooManyConnections | OriginError::Overloaded => 503,
            OriginError::Local(_) => 500,
            OriginError::Connect(_) | OriginError::Malformed(_) | OriginError::Truncated => 502,
            OriginError::BodyAborted | OriginError::Unsendable(_) => 400,
            OriginError::UploadTimeout => 408,
        }
    }

    /// A short fixed word for logs and counters.
    pub fn reason(&self) -> &'static str {
        Self::reason_at(self.index())
    }

    /// The word for one index below [`OriginError::REASONS`], for listings of counters.
    pub fn reason_at(index: usize) -> &'static str {
        const NAMES: [&str; OriginError::REASONS] = [
            "connect",
            "connect-timeout",
            "first-byte-timeout",
            "between-bytes-timeout",
            "total-timeout",
            "malformed",
            "truncated",
            "too-many-connections",
            "body-aborted",
            "unsendable",
            "overloaded",
            "local",
            "upload-timeout",
        ];
        NAMES.get(index).copied().unwrap_or("unknown")
    }

    /// A small number per reason, so that counters can be an array.
    pub fn index(&self) -> usize {
        match self {
            OriginError::Connect(_) => 0,
            OriginError::ConnectTimeout => 1,
            OriginError::FirstByteTimeout => 2,
            OriginError::BetweenBytesTimeout => 3,
            OriginError::TotalTimeout => 4,
            OriginError::Malformed(_) => 5,
            OriginError::Truncated => 6,
            OriginError::TooManyConnections => 7,
            OriginError::BodyAborted => 8,
            OriginError::Unsendable(_) => 9,
            OriginError::Overloaded => 10,
            OriginError::Local(_) => 11,
            OriginError::UploadTimeout => 12,
        }
    }

    /// Whether the failure says something about the server that was asked: it counts against it
    /// among the others of its origin.
    pub(super) fn blames_server(&self) -> bool {
        match self {
            OriginError::Connect(_)
            | OriginError::ConnectTimeout
            | OriginError::FirstByteTimeout
            | OriginError::BetweenBytesTimeout
            | OriginError::TotalTimeout
            | OriginError::Malformed(_)
            | OriginError::Truncated
            | OriginError::Overloaded => true,
            OriginError::TooManyConnections
            | OriginError::BodyAborted
            | OriginError::UploadTimeout
            | OriginError::Unsendable(_)
            | OriginError::Local(_) => false,
        }
    }

    /// Whether another server might answer the request.
    pub(super) fn may_differ_elsewhere(&self) -> bool {
        self.blames_server() || matches!(self, OriginError::TooManyConnections)
    }

    /// Whether the origin is to blame, so that a stale copy may be served instead (RFC 5861 section
    /// 4).
    pub fn is_origins_fault(&self) -> bool {
        self.status() >= 500
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_of_each() -> Vec<OriginError> {
        vec![
            OriginError::Connect(io::ErrorKind::ConnectionRefused.into()),
            OriginError::ConnectTimeout,
            OriginError::FirstByteTimeout,
            OriginError::BetweenBytesTimeout,
            OriginError::TotalTimeout,
            OriginError::Malformed(String::new()),
            OriginError::Truncated,
            OriginError::TooManyConnections,
            OriginError::BodyAborted,
            OriginError::Unsendable(String::new()),
            OriginError::Overloaded,
            OriginError::Local(io::ErrorKind::NotFound.into()),
            OriginError::UploadTimeout,
        ]
    }

    #[test]
    fn every_reason_has_its_own_index_and_word() {
        let all = one_of_each();
        assert_eq!(all.len(), OriginError::REASONS);
        for (i, error) in all.iter().enumerate() {
            assert_eq!(error.index(), i);
            assert_eq!(error.reason(), OriginError::reason_at(i));
            assert_ne!(error.reason(), "unknown");
        }
        let mut words: Vec<_> = all.iter().map(OriginError::reason).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), OriginError::REASONS);
    }

    #[test]
    fn slow_is_504_busy_is_503_broken_is_502_and_the_clients_own_fault_is_400() {
        let statuses: Vec<u16> = one_of_each().iter().map(OriginError::status).collect();
        assert_eq!(statuses, [502, 504, 504, 504, 504, 502, 502, 503, 400, 400, 503, 500, 408]);
        assert_eq!(one_of_each().iter().filter(|e| e.is_origins_fault()).count(), 10);
    }
}
