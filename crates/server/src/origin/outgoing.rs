//! A request as it is written to the origin: target, Host, framing.

use std::borrow::Cow;

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Uri, header,
    uri::{PathAndQuery, Scheme},
};

use super::{OriginError, Request, RequestBody};
use crate::settings::{OriginSettings, TargetForm};

/// The facts of a request that the meaning of its response depends on.
pub(super) struct Asked {
    pub(super) method: Method,
    /// The protocol that it offers to switch to.
    pub(super) upgrade: Option<HeaderValue>,
    /// It has a condition that a 304 answers.
    pub(super) conditional: bool,
}

/// Everything of a request but its body.
pub(super) struct Outgoing {
    pub(super) asked: Asked,
    uri: Uri,
    pub(super) headers: HeaderMap,
}

impl Outgoing {
    /// Takes a request apart and makes it fit for the wire.
    pub(super) fn new(
        request: Request,
        settings: &OriginSettings,
    ) -> Result<(Outgoing, RequestBody), OriginError> {
        let Request { method, target, mut headers, body, upgrade, asker, .. } = request;
        if method == Method::CONNECT {
            return Err(OriginError::Unsendable("CONNECT has no origin-form".to_owned()));
        }
        let path = uri(&target)?;
        set_host(&mut headers, settings)?;
        let uri = match settings.target {
            TargetForm::Origin => path,
            TargetForm::Absolute => absolute(path, &headers, asker.secure)?,
        };
        set_framing(&mut headers, &method, &body);
        let upgrade = headers.get(header::UPGRADE).filter(|_| upgrade).cloned();
        if upgrade.is_some() {
            headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        }
        let conditional = [header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE]
            .iter()
            .any(|name| headers.contains_key(name));
        let asked = Asked { method, upgrade, conditional };
        Ok((Outgoing { asked, uri, headers }, body))
    }

    /// The head as it is written.
    pub(super) fn head(&self) -> Vec<u8> {
        let mut head = Vec::with_capacity(1024);
        let whole = self.uri.scheme().map(|_| self.uri.to_string());
        let path = self.uri.path_and_query().map(PathAndQuery::as_str);
        let target = whole.as_deref().or(path).unwrap_or("/");
        for part in [self.asked.method.as_str(), " ", target, " HTTP/1.1\r\n"] {
            head.extend_from_slice(part.as_bytes());
        }
        for (name, value) in &self.headers {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                head.extend_from_slice(part);
            }
        }
        head.extend_from_slice(b"\r\n");
        head
    }
}

fn uri(target: &str) -> Result<Uri, OriginError> {
    let unsendable =
        || OriginError::Unsendable(format!("the target {target:?} is not origin-form"));
    // A fragment would be cut off silently.
    if target.contains('#') {
        return Err(unsendable());
    }
    let bytes = Bytes::from(percent_encode(target).into_owned());
    PathAndQuery::from_maybe_shared(bytes).map(Uri::from).map_err(|_| unsendable())
}

/// The URL of a path at the host that is asked, for a server that serves more than one scheme.
fn absolute(path: Uri, headers: &HeaderMap, secure: bool) -> Result<Uri, OriginError> {
    let unsendable = || OriginError::Unsendable("the URL".to_owned());
    let host = headers.get(header::HOST).ok_or_else(unsendable)?;
    let path = path.into_parts().path_and_query.ok_or_else(unsendable)?;
    let url = Uri::builder().scheme(if secure { Scheme::HTTPS } else { Scheme::HTTP });
    let url = url.authority(host.as_bytes()).path_and_query(path);
    url.build().map_err(|_| unsendable())
}

/// `"`, `<`, `>` and the backtick are no characters of a URI, but there are clients that send them,
/// and the `http` crate refuses them.
fn percent_encode(target: &str) -> Cow<'_, str> {
    if !target.contains(['"', '<', '>', '`']) {
        return Cow::Borrowed(target);
    }
    Cow::Owned(
        target.replace('"', "%22").replace('<', "%3C").replace('>', "%3E").replace('`', "%60"),
    )
}

/// The configured Host, else the client's, else the origin's own name (an HTTP/1.0 client need not
/// send one).
pub(super) fn set_host(
    headers: &mut HeaderMap,
    settings: &OriginSettings,
) -> Result<(), OriginError> {
    let host = match &settings.host_header {
        Some(host) => host.clone(),
        None if headers.contains_key(header::HOST) => return Ok(()),
        // A unix socket has no name of its own.
        None if settings.host.is_empty() => "localhost".to_owned(),
        None => authority(&settings.host, settings.port),
    };
    let value =
        HeaderValue::try_from(host).map_err(|_| OriginError::Unsendable("the Host".to_owned()))?;
    headers.insert(header::HOST, value);
    Ok(())
}

fn authority(host: &str, port: u16) -> String {
    match (host.contains(':'), port) {
        (true, 80) => format!("[{host}]"),
        (true, _) => format!("[{host}]:{port}"),
        (false, 80) => host.to_owned(),
        (false, _) => format!("{host}:{port}"),
    }
}

/// Framing is ours to say (RFC 9112 section 6).
fn set_framing(headers: &mut HeaderMap, method: &Method, body: &RequestBody) {
    headers.remove(header::CONTENT_LENGTH);
    headers.remove(header::TRANSFER_ENCODING);
    match body {
        RequestBody::Stream { length: Some(length), .. } => {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(*length));
        }
        RequestBody::Stream { length: None, .. } => {
            headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        RequestBody::Empty if [Method::POST, Method::PUT, Method::PATCH].contains(method) => {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        RequestBody::Empty => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outgoing(
        target: &str,
        headers: HeaderMap,
        settings: &OriginSettings,
    ) -> Result<Outgoing, OriginError> {
        let request = Request {
            method: Method::GET,
            target: target.to_owned(),
            visited: None,
            headers,
            body: RequestBody::Empty,
            upgrade: false,
            asker: crate::origin::Asker::default(),
        };
        Outgoing::new(request, settings).map(|(outgoing, _)| outgoing)
    }

    fn sent_target(target: &str) -> Option<String> {
        outgoing(target, HeaderMap::new(), &OriginSettings::default())
            .ok()
            .map(|o| o.uri.to_string())
    }

    #[test]
    fn targets_go_out_as_they_came() {
        for target in [
            "/",
            "/a?b=c",
            "//host/path",
            "/a//b",
            "/%2e%2e/",
            "*",
            "/?",
            "/w|x^yz{1}[2]\\",
            "/\u{fc}?\u{fc}",
        ] {
            assert_eq!(sent_target(target).as_deref(), Some(target));
        }
        assert_eq!(sent_target("/a`?q=\"<b>\"").as_deref(), Some("/a%60?q=%22%3Cb%3E%22"));
    }

    #[test]
    fn another_cache_is_sent_the_whole_url() {
        let settings = OriginSettings { target: TargetForm::Absolute, ..OriginSettings::default() };
        let headers =
            HeaderMap::from_iter([(header::HOST, HeaderValue::from_static("a.example:81"))]);
        let sent = outgoing("/x?y", headers, &settings).expect("sendable");
        assert_eq!(sent.uri.to_string(), "http://a.example:81/x?y");
    }

    #[test]
    fn what_is_not_origin_form_is_refused() {
        for target in ["", "a", "http://host/", "/a#b", "/a b", "/a\r\nX: y", "/\0"] {
            assert_eq!(sent_target(target), None, "{target:?}");
        }
    }

    #[test]
    fn host_is_the_configured_one_or_the_clients_or_the_origins() {
        let mut settings =
            OriginSettings { host: "10.0.0.1".to_owned(), port: 9000, ..OriginSettings::default() };
        let clients =
            HeaderMap::from_iter([(header::HOST, HeaderValue::from_static("wiki.example.org"))]);
        let host = |headers: &HeaderMap, settings: &OriginSettings| {
            outgoing("/", headers.clone(), settings).expect("sendable").headers[header::HOST]
                .clone()
        };
        assert_eq!(host(&clients, &settings), "wiki.example.org");
        assert_eq!(host(&HeaderMap::new(), &settings), "10.0.0.1:9000");
        settings.host_header = Some("inner.example".to_owned());
        assert_eq!(host(&clients, &settings), "inner.example");
        assert_eq!(authority("::1", 80), "[::1]");
        assert_eq!(authority("::1", 81), "[::1]:81");
        assert_eq!(authority("a", 80), "a");
    }

    #[test]
    fn the_clients_framing_is_replaced() {
        let smuggled = HeaderMap::from_iter([
            (header::CONTENT_LENGTH, HeaderValue::from_static("7")),
            (header::TRANSFER_ENCODING, HeaderValue::from_static("chunked")),
        ]);
        let sent = outgoing("/", smuggled, &OriginSettings::default()).expect("sendable");
        assert!(!sent.headers.contains_key(header::CONTENT_LENGTH));
        assert!(!sent.headers.contains_key(header::TRANSFER_ENCODING));
    }
}
