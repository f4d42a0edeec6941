//! Heads of responses as a client reads them (RFC 9112 4 and 6.3), and their information about
//! caches on the way.
//!
//! For the load generator: one pass over the fields; only the framing of the body, whether the
//! connection stays, and whether a cache answered are kept.

use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig, Status};

use super::{
    fields::{Elements, is_word, trim},
    framing::content_length,
};

/// Longest head that is read; servers send a few hundred bytes.
pub const MAX_RESPONSE_HEAD: usize = 64 << 10;

/// Field lines of a head that is read.
pub const MAX_RESPONSE_FIELDS: usize = 128;

/// How the body of a response ends (RFC 9112 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseBody {
    /// There is none: the answer to HEAD, 1xx, 204, 304.
    None,
    /// After this many bytes.
    Length(u64),
    /// With the last chunk.
    Chunked,
    /// With the connection.
    UntilClose,
}

/// Whether a cache answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cached {
    /// From its store.
    Hit,
    /// A cache reports that it forwarded the request.
    Miss,
    /// No field reports it.
    Unknown,
}

/// The facts of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status code; below 200 another head follows.
    pub status: u16,
    /// How the body ends.
    pub body: ResponseBody,
    /// Another request may be sent on this connection.
    pub keep_alive: bool,
    /// Whether a cache answered.
    pub cached: Cached,
    /// Bytes of the head.
    pub used: usize,
}

/// Why bytes are not the head of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadResponse {
    /// Not HTTP/1.
    Syntax,
    /// Longer than [`MAX_RESPONSE_HEAD`], or more lines than [`MAX_RESPONSE_FIELDS`].
    TooLarge,
    /// Two lengths, a length beside a coding, or an invalid length: the end of the body is unknown.
    Framing,
}

impl std::fmt::Display for BadResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Syntax => "not an HTTP/1 response",
            Self::TooLarge => "a head too large",
            Self::Framing => "a body whose end is not clear",
        })
    }
}

impl std::error::Error for BadResponse {}

/// Reads the head at the start of `bytes`; `None` when it is incomplete. `to_head`: it answers
/// HEAD.
pub fn parse_response(bytes: &[u8], to_head: bool) -> Result<Option<ResponseHead>, BadResponse> {
    let mut slots = [const { MaybeUninit::<Header<'_>>::uninit() }; MAX_RESPONSE_FIELDS];
    let mut parsed = httparse::Response::new(&mut []);
    let window = &bytes[..bytes.len().min(MAX_RESPONSE_HEAD)];
    let status =
        ParserConfig::default().parse_response_with_uninit_headers(&mut parsed, window, &mut slots);
    let used = match status {
        Ok(Status::Complete(used)) => used,
        Ok(Status::Partial) if bytes.len() < MAX_RESPONSE_HEAD => return Ok(None),
        Ok(Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Err(BadResponse::TooLarge);
        }
        Err(_) => return Err(BadResponse::Syntax),
    };
    // Three digits may still not be a status (RFC 9110 section 15).
    let status = parsed.code.filter(|status| *status >= 100);
    let (Some(status), Some(minor)) = (status, parsed.version) else {
        return Err(BadResponse::Syntax);
    };
    let mut said = ResponseFields::default();
    for field in &*parsed.headers {
        said.take(field.name.as_bytes(), field.value)?;
    }
    let head = said.head(status, to_head, used)?;
    let keep_alive = head.keep_alive && (minor == 1 || said.keep_alive);
    Ok(Some(ResponseHead { keep_alive, ..head }))
}

/// The facts that the fields of a response tell, whatever protocol brings them.
#[derive(Debug, Default)]
pub struct ResponseFields {
    length: Option<u64>,
    coded: bool,
    chunked: bool,
    close: bool,
    keep_alive: bool,
    /// Results from Cache-Status, X-Cache, X-Cache-Status, X-Varnish and Age, in this order.
    caches: [Option<bool>; 5],
}

impl ResponseFields {
    /// Takes one line.
    #[inline]
    pub fn take(&mut self, name: &[u8], value: &[u8]) -> Result<(), BadResponse> {
        let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
        match name.len() {
            3 if is("age") => self.says(4, value.iter().any(|digit| matches!(digit, b'1'..=b'9'))),
            7 if is("x-cache") => self.says(1, has_word(value, b"hit")),
            9 if is("x-varnish") => self.says(3, trim(value).contains(&b' ')),
            10 if is("connection") => {
                for option in Elements::of(value) {
                    self.close |= is_word(option, b"close");
                    self.keep_alive |= is_word(option, b"keep-alive");
                }
            }
            12 if is("cache-status") => self.says(0, Elements::of(value).any(is_hit)),
            14 if is("content-length") => {
                let length = content_length(value).ok_or(BadResponse::Framing)?;
                if self.length.replace(length).is_some_and(|before| before != length) {
                    return Err(BadResponse::Framing);
                }
            }
            14 if is("x-cache-status") => {
                let from_store: [&[u8]; 3] = [b"hit", b"stale", b"updating"];
                self.says(2, from_store.iter().any(|word| has_word(value, word)));
            }
            17 if is("transfer-encoding") => {
                self.coded = true;
                self.chunked =
                    Elements::of(value).last().is_some_and(|last| is_word(last, b"chunked"));
            }
            _ => {}
        }
        Ok(())
    }

    /// Several lines of a field are one list: one hit in it is a hit.
    fn says(&mut self, field: usize, hit: bool) {
        let before = self.caches[field].unwrap_or(false);
        self.caches[field] = Some(before || hit);
    }

    /// The head, when all lines were taken. `to_head`: it answers HEAD; `used`: its length, in
    /// bytes.
    pub fn head(
        &self,
        status: u16,
        to_head: bool,
        used: usize,
    ) -> Result<ResponseHead, BadResponse> {
        let body = self.body(status, to_head)?;
        let keep_alive = body != ResponseBody::UntilClose && !self.close;
        Ok(ResponseHead { status, body, keep_alive, cached: self.cached(), used })
    }

    fn cached(&self) -> Cached {
        match self.caches.iter().flatten().next() {
            Some(true) => Cached::Hit,
            Some(false) => Cached::Miss,
            None => Cached::Unknown,
        }
    }

    fn body(&self, status: u16, to_head: bool) -> Result<ResponseBody, BadResponse> {
        if self.coded && self.length.is_some() {
            return Err(BadResponse::Framing);
        }
        Ok(match self.length {
            _ if to_head || matches!(status, 100..=199 | 204 | 304) => ResponseBody::None,
            Some(0) => ResponseBody::None,
            Some(length) => ResponseBody::Length(length),
            None if self.chunked => ResponseBody::Chunked,
            None => ResponseBody::UntilClose,
        })
    }
}

/// Whether a member of Cache-Status has the parameter `hit` (RFC 9211 2.1).
fn is_hit(member: &[u8]) -> bool {
    Elements::parameters(member).skip(1).any(|parameter| is_word(parameter, b"hit"))
}

/// Whether `word`, lower-case, occurs in `value` in any case, without letters next to it.
fn has_word(value: &[u8], word: &[u8]) -> bool {
    value.split(|byte| !byte.is_ascii_alphabetic()).any(|part| part.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests;
