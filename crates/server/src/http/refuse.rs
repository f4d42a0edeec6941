//! Answers that Larder gives by itself: errors and refusals, as plain small pages.

use std::io::Write;

use larder_proto::http::date;

use crate::clock::Ms;

/// The reason phrase of a status (RFC 9110 section 15); empty when it has none.
pub(crate) fn phrase(status: u16) -> &'static str {
    if status == 413 {
        // As RFC 9110 names it; the library still has the older phrase.
        return "Content Too Large";
    }
    http::StatusCode::from_u16(status).ok().and_then(|s| s.canonical_reason()).unwrap_or("")
}

/// Appends a whole answer made at `now`. `why` is our own text: plain ASCII, nothing a client sent. `head_only`: the request was HEAD.
pub(crate) fn compose(out: &mut Vec<u8>, now: Ms, status: u16, why: &str, keep: bool, head_only: bool) {
    let phrase = phrase(status);
    let date = date::format(now / 1000);
    let date = std::str::from_utf8(&date).unwrap_or_default();
    let body = format!(
        "<!doctype html><meta charset=utf-8><title>{status} {phrase}</title><h1>{status} {phrase}</h1><p>{why}.</p>\n"
    );
    let connection = if keep { "" } else { "Connection: close\r\n" };
    // Writing to a Vec cannot fail.
    let _ = write!(
        out,
        "HTTP/1.1 {status} {phrase}\r\nDate: {date}\r\nServer: larder\r\nContent-Type: text/html; charset=utf-8\r\n\
         Cache-Control: no-store\r\nContent-Length: {}\r\n{connection}\r\n",
        body.len()
    );
    if !head_only {
        out.extend_from_slice(body.as_bytes());
    }
}
