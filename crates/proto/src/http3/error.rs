//! Error codes (RFC 9114 section 8.1, RFC 9204 section 6) and errors of connections.

/// An error code of a stream or of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u64);

macro_rules! codes {
    ($($name:ident $code:literal,)*) => {
        impl ErrorCode {
            $(
                #[doc = concat!("`", stringify!($name), "` (RFC 9114 section 8.1, RFC 9204 section 6)")]
                pub const $name: Self = Self($code);
            )*

            /// The name of the code without `H3_`, or `UNKNOWN`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* _ => "UNKNOWN" }
            }
        }
    };
}

codes! {
    NO_ERROR 0x100,
    GENERAL_PROTOCOL_ERROR 0x101,
    INTERNAL_ERROR 0x102,
    STREAM_CREATION_ERROR 0x103,
    CLOSED_CRITICAL_STREAM 0x104,
    FRAME_UNEXPECTED 0x105,
    FRAME_ERROR 0x106,
    EXCESSIVE_LOAD 0x107,
    ID_ERROR 0x108,
    SETTINGS_ERROR 0x109,
    MISSING_SETTINGS 0x10a,
    REQUEST_REJECTED 0x10b,
    REQUEST_CANCELLED 0x10c,
    REQUEST_INCOMPLETE 0x10d,
    MESSAGE_ERROR 0x10e,
    CONNECT_ERROR 0x10f,
    VERSION_FALLBACK 0x110,
    QPACK_DECOMPRESSION_FAILED 0x200,
    QPACK_ENCODER_STREAM_ERROR 0x201,
    QPACK_DECODER_STREAM_ERROR 0x202,
}

/// An error that ends the connection: close it with the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionError {
    /// The code of the CONNECTION_CLOSE frame.
    pub code: ErrorCode,
    /// The fault in words, for the frame.
    pub reason: &'static str,
}

impl ConnectionError {
    pub(super) const fn new(code: ErrorCode, reason: &'static str) -> Self {
        Self { code, reason }
    }

    pub(super) const fn unexpected(reason: &'static str) -> Self {
        Self::new(ErrorCode::FRAME_UNEXPECTED, reason)
    }

    pub(super) const fn frame(reason: &'static str) -> Self {
        Self::new(ErrorCode::FRAME_ERROR, reason)
    }

    pub(super) const fn id(reason: &'static str) -> Self {
        Self::new(ErrorCode::ID_ERROR, reason)
    }

    pub(super) const fn excessive(reason: &'static str) -> Self {
        Self::new(ErrorCode::EXCESSIVE_LOAD, reason)
    }
}

impl From<crate::qpack::QpackError> for ConnectionError {
    fn from(error: crate::qpack::QpackError) -> Self {
        Self::new(ErrorCode::QPACK_DECOMPRESSION_FAILED, error.as_str())
    }
}
