//! Error codes (RFC 9113 section 7) and errors of connections (section 5.4.1).

use super::flood::Flood;

/// An error code of a RST_STREAM or GOAWAY frame; unknown ones are kept as they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

macro_rules! codes {
    ($($name:ident $code:literal,)*) => {
        impl ErrorCode {
            $(
                #[doc = concat!("`", stringify!($name), "` (RFC 9113 section 7)")]
                pub const $name: Self = Self($code);
            )*

            /// The name of the code in RFC 9113, or `UNKNOWN`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* _ => "UNKNOWN" }
            }
        }
    };
}

codes! {
    NO_ERROR 0x0,
    PROTOCOL_ERROR 0x1,
    INTERNAL_ERROR 0x2,
    FLOW_CONTROL_ERROR 0x3,
    SETTINGS_TIMEOUT 0x4,
    STREAM_CLOSED 0x5,
    FRAME_SIZE_ERROR 0x6,
    REFUSED_STREAM 0x7,
    CANCEL 0x8,
    COMPRESSION_ERROR 0x9,
    CONNECT_ERROR 0xa,
    ENHANCE_YOUR_CALM 0xb,
    INADEQUATE_SECURITY 0xc,
    HTTP_1_1_REQUIRED 0xd,
}

/// An error that ends the connection. The GOAWAY frame is composed: send the output and close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionError {
    /// The code of the GOAWAY frame.
    pub code: ErrorCode,
    /// Last stream that was or may be worked on; it stands in the GOAWAY frame.
    pub last_stream: u32,
    /// The fault in words, for logs.
    pub reason: &'static str,
    /// The limit that was reached, for counters, if the error is `ENHANCE_YOUR_CALM`.
    pub flood: Option<Flood>,
}

/// An error of a connection inside the codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) code: ErrorCode,
    pub(super) reason: &'static str,
    pub(super) flood: Option<Flood>,
}

impl Fault {
    pub(super) const fn protocol(reason: &'static str) -> Self {
        Self { code: ErrorCode::PROTOCOL_ERROR, reason, flood: None }
    }

    pub(super) const fn size(reason: &'static str) -> Self {
        Self { code: ErrorCode::FRAME_SIZE_ERROR, reason, flood: None }
    }

    pub(super) const fn flow(reason: &'static str) -> Self {
        Self { code: ErrorCode::FLOW_CONTROL_ERROR, reason, flood: None }
    }

    pub(super) const fn closed(reason: &'static str) -> Self {
        Self { code: ErrorCode::STREAM_CLOSED, reason, flood: None }
    }

    pub(super) const fn flood(flood: Flood) -> Self {
        Self { code: ErrorCode::ENHANCE_YOUR_CALM, reason: flood.as_str(), flood: Some(flood) }
    }
}

impl From<crate::hpack::HpackError> for Fault {
    fn from(error: crate::hpack::HpackError) -> Self {
        if error == crate::hpack::HpackError::TooLarge {
            return Self::flood(Flood::HeaderLists);
        }
        Self { code: ErrorCode::COMPRESSION_ERROR, reason: error.as_str(), flood: None }
    }
}
