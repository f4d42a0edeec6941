//! FastCGI 1.0 as a server speaks it to an application in the Responder role: requests written as
//! records, the records of the answer read, and the CGI head in its output (RFC 3875 section 6).
//!
//! A request is [`begin`], the parameters ([`Params`]) and the body ([`stdin`], [`stdin_end`]). The
//! answer goes through a [`Decoder`], its output through [`parse_head`] up to the body.
//!
//! Absent: the roles Authorizer and Filter, management records, several requests at a time on one
//! connection.

mod encode;
mod head;
mod record;
#[cfg(test)]
mod tests;

pub use encode::{Params, abort, begin, stdin, stdin_end};
pub use head::{Head, HeadError, HeadLimits, parse_head};
pub use record::{Decoder, End, Limits, RecordError, Step};

/// The version in every record.
const VERSION: u8 = 1;

/// Bytes of a record's header.
const HEADER_BYTES: usize = 8;

/// Types of records (section 8 of the specification).
mod kind {
    pub(super) const BEGIN: u8 = 1;
    pub(super) const ABORT: u8 = 2;
    pub(super) const END: u8 = 3;
    pub(super) const PARAMS: u8 = 4;
    pub(super) const STDIN: u8 = 5;
    pub(super) const STDOUT: u8 = 6;
    pub(super) const STDERR: u8 = 7;
}
