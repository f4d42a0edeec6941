//! Answers made here, for paths that lead to no file.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};

use super::{Body, Response};
use crate::settings::{ErrorPages, Fault};

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

    /// A status, with the page that says it.
    pub(super) fn status(status: u16, method: &Method, pages: &ErrorPages) -> Response {
        let why = match status {
            403 => "this may not be read",
            404 => "there is nothing at this address",
            405 => "this method is not served here",
            412 => "the condition of the request does not hold",
            _ => "this is not served",
        };
        // The page may be stored, and then answers more than one request: it has no reference.
        let (media_type, text) = pages.page(&Fault { status, why, reference: None });
        let text = Bytes::from(text);
        let mut headers = HeaderMap::new();
        if let Ok(media_type) = HeaderValue::from_str(&media_type) {
            headers.insert(header::CONTENT_TYPE, media_type);
        }
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
