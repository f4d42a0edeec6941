//! Answers made here, for paths that lead to no file.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

use super::{Body, Response};

impl Response {
    /// An answer without an origin.
    pub(super) fn local(status: u16, headers: HeaderMap, body: Body) -> Response {
        Response {
            status,
            reason: None,
            headers,
            body,
            http10: false,
            upgraded: None,
            peer: None,
            reused: false,
        }
    }

    /// A status, and a line of text that says it.
    pub(super) fn status(status: u16, method: &Method) -> Response {
        let phrase = StatusCode::from_u16(status).ok().and_then(|code| code.canonical_reason());
        let text = Bytes::from(format!("{status} {}\n", phrase.unwrap_or("Error")));
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(text.len()));
        let body = if *method == Method::HEAD { Body::empty() } else { Body::ready(text) };
        Response::local(status, headers, body)
    }

    /// To the name of a directory with its slash, so that links in its index work. `path` is that
    /// of a directory below a root, as the visitor names it, so it names no other host.
    pub(super) fn moved_to_directory(path: &str, query: &str) -> Response {
        let mark = if query.is_empty() { "" } else { "?" };
        let mut headers = HeaderMap::new();
        if let Ok(target) = HeaderValue::from_str(&format!("{path}/{mark}{query}")) {
            headers.insert(header::LOCATION, target);
        }
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(0));
        Response::local(301, headers, Body::ready(Bytes::new()))
    }
}
