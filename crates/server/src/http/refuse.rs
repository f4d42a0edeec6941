//! Errors and refusals, as plain small pages.

use larder_proto::http::Version;

use crate::clock::Ms;
use crate::{page::head::phrase, wire::h1::OwnAnswer};

/// A request as far as the answer to it depends on it.
#[derive(Clone, Copy)]
pub(crate) struct Answered {
    pub(crate) version: Version,
    /// Another request may follow.
    pub(crate) keep: bool,
    /// It was a HEAD.
    pub(crate) head_only: bool,
}

impl Answered {
    /// A request that was not understood, or came too late: the connection ends.
    pub(crate) const UNREAD: Self =
        Self { version: Version::Http11, keep: false, head_only: false };
}

/// Appends a whole answer made at `now`. `why` is our own text: plain ASCII, nothing a client sent.
pub(crate) fn compose(out: &mut Vec<u8>, now: Ms, status: u16, why: &str, to: Answered) {
    let phrase = phrase(status);
    let body = format!(
        "<!doctype html><meta charset=utf-8><title>{status} {phrase}</title><h1>{status} \
         {phrase}</h1><p>{why}.</p>\n"
    );
    let Answered { version, keep, head_only } = to;
    let content_type = "text/html; charset=utf-8";
    OwnAnswer { status, now, content_type, body: &body, location: None, version, keep, head_only }
        .write(out);
}
