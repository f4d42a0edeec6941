//! HTTP/1 to clients (RFC 9112): the only place of the server that writes its bytes.

use larder_proto::{
    http::{Version, chunked, date, range},
    rules::{CacheStatus, split_head},
};

use crate::{
    clock::Ms,
    page::answer::has_body,
    settings::{HttpSettings, phrase},
    wire::{meta, meta::ResponseMeta},
};

/// The interim response that asks for the request's body. A client that waits reads its socket:
/// these 25 bytes fit.
pub(crate) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Writes the head of one response, line by line, behind what is in the buffer.
pub(crate) struct HeadWriter<'o>(pub(crate) &'o mut Vec<u8>);

impl HeadWriter<'_> {
    /// The status line. `reason` may be empty.
    pub(crate) fn status(&mut self, status: u16, reason: &str) {
        self.0.extend_from_slice(b"HTTP/1.1 ");
        range::write_number(u64::from(status), self.0);
        self.0.push(b' ');
        self.0.extend_from_slice(reason.as_bytes());
        self.0.extend_from_slice(b"\r\n");
    }

    /// A head as it is stored: status line and fields.
    pub(crate) fn stored(&mut self, head: &[u8]) {
        self.0.extend_from_slice(head);
    }

    /// The fields of a stored head under another status, but for those that `without` names.
    pub(crate) fn stored_as(&mut self, status: u16, head: &[u8], without: impl Fn(&str) -> bool) {
        self.status(status, phrase(status));
        let Some((_, lines)) = split_head(head) else { return };
        for line in lines.split_inclusive(|&b| b == b'\n') {
            let name = line.split(|&b| b == b':').next().unwrap_or_default();
            if !std::str::from_utf8(name).is_ok_and(&without) {
                self.0.extend_from_slice(line);
            }
        }
    }

    /// One field.
    pub(crate) fn line(&mut self, name: &str, value: &[u8]) {
        self.line_with(name, |out| out.extend_from_slice(value));
    }

    /// One field, whose value `write` appends.
    pub(crate) fn line_with(&mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b": ");
        write(self.0);
        self.0.extend_from_slice(b"\r\n");
    }

    /// One field with a number.
    pub(crate) fn number(&mut self, name: &str, value: u64) {
        self.line_with(name, |out| range::write_number(value, out));
    }

    /// One field that the settings hold ready as `Name: value`.
    pub(crate) fn ready(&mut self, line: &str) {
        self.0.extend_from_slice(line.as_bytes());
        self.0.extend_from_slice(b"\r\n");
    }

    /// How the body that follows is delimited. `length`: of the body in bytes, where it is known.
    pub(crate) fn framing(&mut self, framing: Framing, length: Option<u64>) {
        match framing {
            Framing::Chunked => self.line("Transfer-Encoding", b"chunked"),
            Framing::Length | Framing::Described => {
                if let Some(length) = length {
                    self.number("Content-Length", length);
                }
            }
            Framing::Close | Framing::Frames | Framing::None => {}
        }
    }

    /// The head of a 101 ends: the connection speaks another protocol from here on (RFC 9110
    /// section 7.8).
    pub(crate) fn upgrade(&mut self, protocol: &[u8]) {
        self.line("Connection", b"upgrade");
        self.line("Upgrade", protocol);
    }

    /// Whether the connection goes on, for a client of this version (RFC 9112 section 9.3).
    pub(crate) fn connection(&mut self, version: Version, keep: bool) {
        match (keep, version) {
            (false, _) => self.0.extend_from_slice(b"Connection: close\r\n"),
            (true, Version::Http10) => self.0.extend_from_slice(b"Connection: keep-alive\r\n"),
            (true, _) => {}
        }
    }

    /// The empty line.
    pub(crate) fn end(self) {
        self.0.extend_from_slice(b"\r\n");
    }
}

/// How the end of a body is marked (RFC 9112 section 6.3).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// There is no body, and none is spoken of.
    None,
    /// The answer to a HEAD: it says how long a GET's would be (RFC 9110 section 8.6).
    Described,
    Length,
    Chunked,
    /// HTTP/1.0 and no length: the end of the connection.
    Close,
    /// HTTP/2 and 3: frames mark the end.
    Frames,
}

impl Framing {
    /// The framing of a streamed response.
    pub(crate) fn of(
        version: Version,
        head_request: bool,
        status: u16,
        length: Option<u64>,
    ) -> Self {
        match (length, version) {
            _ if !has_body(false, status) => Self::None,
            _ if head_request => Self::Described,
            (Some(_), _) => Self::Length,
            (None, Version::Http11) => Self::Chunked,
            (None, Version::Http10) => Self::Close,
            (None, Version::Http2 | Version::Http3) => Self::Frames,
        }
    }

    /// Whether a body follows the head.
    pub(crate) fn bodied(self) -> bool {
        !matches!(self, Self::None | Self::Described)
    }

    /// Appends what comes before a piece of `length` bytes, and returns what comes behind it.
    pub(crate) fn piece(self, length: usize, out: &mut Vec<u8>) -> &'static [u8] {
        if self != Self::Chunked {
            return b"";
        }
        chunked::write_chunk_head(length, out);
        b"\r\n"
    }

    /// Appends what comes behind the last piece.
    pub(crate) fn end(self, trailers: Option<&http::HeaderMap>, out: &mut Vec<u8>) {
        if self == Self::Chunked {
            let lines = trailers.into_iter().flat_map(|map| map.iter());
            chunked::write_end(lines.map(|(name, value)| (name.as_str(), value.as_bytes())), out);
        }
    }
}

/// Seconds after which a client may come back that was refused for want of room (`Retry-After`, RFC
/// 9110 section 10.2.3): queues of origins and of clients are gone by then, or full again.
const RETRY_AFTER: u64 = 1;

/// An answer of our own making.
pub(crate) struct OwnAnswer<'a> {
    pub(crate) status: u16,
    /// When it is made.
    pub(crate) now: Ms,
    pub(crate) content_type: &'a str,
    /// Not sent with a 204 (RFC 9110 section 15.3.5).
    pub(crate) body: &'a str,
    /// Another place of the resource.
    pub(crate) location: Option<&'a str>,
    /// Seconds after which the client may ask again; None: the usual ones of the status.
    pub(crate) retry_after: Option<u64>,
    /// Names the answer in the log, where it is an error.
    pub(crate) reference: Option<&'a str>,
    /// The value of `Strict-Transport-Security`, for a client whose way here is secure.
    pub(crate) hsts: Option<&'a str>,
    pub(crate) version: Version,
    /// The connection goes on.
    pub(crate) keep: bool,
    /// The request was HEAD.
    pub(crate) head_only: bool,
}

impl OwnAnswer<'_> {
    /// Appends the whole answer.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mut head = HeadWriter(out);
        head.status(self.status, phrase(self.status));
        head.line("Date", &date::format(self.now / 1000));
        head.line("Server", b"larder");
        if let Some(location) = self.location {
            head.line("Location", location.as_bytes());
        }
        if matches!(self.status, 429 | 503) {
            head.number("Retry-After", self.retry_after.unwrap_or(RETRY_AFTER));
        }
        if let Some(reference) = self.reference {
            head.line("Larder-Reference", reference.as_bytes());
        }
        if let Some(hsts) = self.hsts {
            head.line("Strict-Transport-Security", hsts.as_bytes());
        }
        let bodied = has_body(false, self.status);
        if bodied {
            head.line("Content-Type", self.content_type.as_bytes());
            head.line("Cache-Control", b"no-store");
            head.number("Content-Length", self.body.len() as u64);
        }
        head.connection(self.version, self.keep);
        head.end();
        if bodied && !self.head_only {
            out.extend_from_slice(self.body.as_bytes());
        }
    }
}

/// The lines of a plain hit, up to the number of seconds left: all of them but for Age are the same
/// for every hit, and writing them piece by piece was 600 of the 5,000 instructions between reading
/// a request and sending its answer.
pub(crate) struct HitLines(Vec<u8>);

impl HitLines {
    pub(crate) fn new(http: &HttpSettings) -> Self {
        let cache_status = CacheStatus { hit: true, ..CacheStatus::default() };
        let meta = ResponseMeta { hit: true, found: true, age: None, cache_status };
        let mut lines = Vec::new();
        let mut head = HeadWriter(&mut lines);
        meta::meta_lines(&mut head, &HttpSettings { cache_status: false, ..http.clone() }, &meta);
        if http.cache_status {
            lines.extend_from_slice(b"Cache-Status: ");
            meta.cache_status.write(meta::pseudonym(http), &mut lines);
            lines.extend_from_slice(b"; ttl=");
        }
        Self(lines)
    }

    /// Appends Age and the lines of a fresh hit.
    pub(crate) fn write(&self, head: &mut HeadWriter<'_>, http: &HttpSettings, age: u32, ttl: i64) {
        head.number("Age", u64::from(age));
        let out = &mut *head.0;
        out.extend_from_slice(&self.0);
        if http.cache_status {
            if ttl < 0 {
                out.push(b'-');
            }
            range::write_number(ttl.unsigned_abs(), out);
            out.extend_from_slice(b"\r\n");
        }
    }
}
