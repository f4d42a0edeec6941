//! Reasons for which a request is refused.

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident $status:literal $text:literal,)*) => {
        /// The fault of a request (or of the body after it), as counted and logged.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum RejectReason {
            $($(#[$doc])* $variant,)*
        }

        impl RejectReason {
            /// Every reason, in the order of [`RejectReason::index`].
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The status to answer with.
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)* }
            }

            /// A short name for logs and counters: lower-case, underscores.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

reasons! {
    /// The request line is not `method SP target SP HTTP/1.x CRLF` (HTTP/0.9 included).
    RequestLine 400 "request_line",
    /// Whitespace or more than one empty line before the request line.
    LeadingBytes 400 "leading_bytes",
    /// A line of the head, of a chunk or of the trailers ends with LF alone, or has a bare CR.
    LineEnd 400 "line_end",
    /// A field name is not a token, has a space before its colon, or the line is folded.
    FieldName 400 "field_name",
    /// A field value has a NUL or another control character.
    FieldValue 400 "field_value",
    /// No Host in a request that needs one (RFC 9112 3.2).
    HostMissing 400 "host_missing",
    /// More than one Host line.
    HostRepeated 400 "host_repeated",
    /// A host that is not a DNS name, address or bracketed IPv6 address with an optional port.
    HostInvalid 400 "host_invalid",
    /// Host contradicts the authority of an absolute-form target.
    HostMismatch 400 "host_mismatch",
    /// A target of the wrong form for its method, or with bytes not allowed in a URI.
    Target 400 "target",
    /// Content-Length is not one plain decimal number, or came twice.
    ContentLength 400 "content_length",
    /// Content-Length and Transfer-Encoding in one message (RFC 9112 6.1).
    LengthAndEncoding 400 "length_and_encoding",
    /// Transfer-Encoding is not exactly `chunked`, or came twice, or in HTTP/1.0.
    TransferEncoding 400 "transfer_encoding",
    /// A chunk size is not 1 to 16 hexadecimal digits, or a chunk does not end with CRLF.
    Chunk 400 "chunk",
    /// Chunk extensions take more bytes than allowed.
    ChunkExtension 400 "chunk_extension",
    /// The trailer section is malformed.
    Trailer 400 "trailer",
    /// The request line is longer than allowed.
    TargetTooLong 414 "target_too_long",
    /// An expectation other than `100-continue` (RFC 9110 10.1.1).
    Expectation 417 "expectation",
    /// The head takes more bytes than allowed.
    HeadTooLarge 431 "head_too_large",
    /// More field lines than allowed.
    TooManyFields 431 "too_many_fields",
    /// The trailer section has more bytes or lines than allowed.
    TrailerTooLarge 431 "trailer_too_large",
    /// A known transfer coding that is not supported here (RFC 9112 6.1).
    TransferCoding 501 "transfer_coding",
    /// A protocol version other than HTTP/1.0 and HTTP/1.1 (the HTTP/2 preface included).
    Version 505 "version",
}

impl RejectReason {
    /// Number of reasons: the length of an array of counters.
    pub const COUNT: usize = Self::ALL.len();

    /// The index of this reason in such an array.
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl std::fmt::Display for RejectReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A refusal. The connection must be closed after the answer: where the next request starts is
/// unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reject {
    /// The status to answer with: 400, 414, 417, 431, 501 or 505.
    pub status: u16,
    /// The reason to log and count.
    pub reason: RejectReason,
}

impl From<RejectReason> for Reject {
    fn from(reason: RejectReason) -> Self {
        Self { status: reason.status(), reason }
    }
}

impl std::fmt::Display for Reject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.status, self.reason)
    }
}

impl std::error::Error for Reject {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_index_an_array_of_counters() {
        for (index, reason) in RejectReason::ALL.iter().enumerate() {
            assert_eq!(reason.index(), index);
            assert!([400, 414, 417, 431, 501, 505].contains(&reason.status()), "{reason}");
            let same = RejectReason::ALL.iter().filter(|r| r.as_str() == reason.as_str());
            assert_eq!(same.count(), 1, "{reason}");
        }
    }
}
