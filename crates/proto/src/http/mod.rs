//! HTTP/1.1 as bytes: heads, targets, bodies, and the fields a cache must understand.

pub mod accept;
pub mod cache_control;
pub mod chunked;
pub mod cookie;
pub mod date;
pub mod dictionary;
pub mod etag;
pub mod fields;
pub mod forwarded;
pub mod framing;
pub mod key;
pub mod known;
pub mod method;
pub mod multipart;
pub mod overrides;
pub mod owned;
pub mod path;
pub mod query;
pub mod range;
pub mod reject;
pub mod request;
pub mod response;
pub mod structured;
pub mod target;
pub mod trace_context;
pub mod turns;

pub use accept::Codings;
pub use cache_control::{CacheControl, Restriction};
pub use chunked::{ChunkLimits, ChunkedDecoder, Step};
pub use etag::{EntityTag, TagKind};
pub use fields::{Elements, Fields, Malformed, parse_fields};
pub use httparse::{EMPTY_HEADER, Header};
pub use key::{KeyParts, Scheme, parse_key, write_key, write_variant_key};
pub use known::{Known, KnownField};
pub use method::Method;
pub use multipart::Multipart;
pub use owned::OwnedHead;
pub use path::{DecodedPath, has_dot_segment};
pub use query::{Pattern, normalise_query};
pub use range::{ByteRange, ContentRange, IfRange, RangeList, RangeSet, RangeSpec, Satisfied};
pub use reject::{Reject, RejectReason};
pub use request::{BodyFraming, HeadLimits, Parsed, RequestHead, Version, parse_request, slots};
pub use response::{
    BadResponse, Cached, ResponseBody, ResponseFields, ResponseHead, parse_response,
};
pub use target::{Authority, Form, Target};
pub use trace_context::{TRACEPARENT_LEN, TraceParent};
pub use turns::{Answered, Turn};
