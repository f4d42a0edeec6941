//! HTTP/1: requests by their heads, so that pipelined ones are each held. Answers are not read: one begins when the server speaks
//! after a request.

use super::{Down, NEEDED, Up};

/// Field lines of a request that are looked at.
const FIELDS: usize = 256;
/// Longest request line that is kept as the request's text.
const TARGET: usize = 1024;

/// What a client says.
#[derive(Debug, Default)]
pub struct Http {
    body: Body,
    asked: bool,
    answering: bool,
}

#[derive(Debug, Default)]
enum Body {
    /// A head comes.
    #[default]
    None,
    Length(u64),
    /// So much of a chunk, with the line end behind it.
    Chunk(u64),
    ChunkSize,
    Trailers,
    /// After an upgrade or CONNECT nothing is known of the bytes.
    Tunnel,
}

impl Http {
    pub(super) fn up(&mut self, bytes: &[u8]) -> Up {
        match self.body {
            Body::None => self.head(bytes),
            Body::Tunnel => Up::Pass(bytes.len()),
            Body::Length(left) | Body::Chunk(left) => {
                let pass = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                let left = left - pass as u64;
                self.body = match self.body {
                    Body::Length(_) if left == 0 => Body::None,
                    Body::Length(_) => Body::Length(left),
                    _ if left == 0 => Body::ChunkSize,
                    _ => Body::Chunk(left),
                };
                Up::Pass(pass)
            }
            Body::ChunkSize => self.line(bytes, Http::chunk_size),
            Body::Trailers => self.line(bytes, |http, line| {
                if line.is_empty() {
                    http.body = Body::None;
                }
                Ok(())
            }),
        }
    }

    pub(super) fn down(&mut self, length: usize) -> Down {
        let begins = self.asked && !self.answering;
        self.answering = true;
        Down::Pass { length, begins, ends: 0 }
    }

    fn head(&mut self, bytes: &[u8]) -> Up {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        let length = match request.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) if bytes.len() < NEEDED => return Up::More,
            Ok(httparse::Status::Partial) => return Up::Lost("the client's head is too long".to_owned()),
            Err(error) => return Up::Lost(format!("the client speaks no HTTP/1 ({error})")),
        };
        let method = request.method.unwrap_or_default();
        let target = request.path.unwrap_or_default();
        let text = format!("{method} {}", target.chars().take(TARGET).collect::<String>());
        let field = |name: &str| {
            request
                .headers
                .iter()
                .find(|field| field.name.eq_ignore_ascii_case(name))
                .map(|field| field.value.trim_ascii())
        };
        self.body = if method == "CONNECT" || field("upgrade").is_some() {
            Body::Tunnel
        } else if field("transfer-encoding").is_some() {
            Body::ChunkSize
        } else if let Some(length) = field("content-length") {
            match std::str::from_utf8(length).ok().and_then(|length| length.parse().ok()) {
                Some(0) => Body::None,
                Some(length) => Body::Length(length),
                None => return Up::Lost("the client's Content-Length is no number".to_owned()),
            }
        } else {
            Body::None
        };
        (self.asked, self.answering) = (true, false);
        Up::Request(length, Some(text))
    }

    fn line(&mut self, bytes: &[u8], read: impl FnOnce(&mut Http, &[u8]) -> Result<(), String>) -> Up {
        let Some(end) = memchr::memchr(b'\n', bytes) else {
            if bytes.len() < NEEDED {
                return Up::More;
            }
            return Up::Lost("the client's chunk has no size".to_owned());
        };
        let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
        match read(self, line) {
            Ok(()) => Up::Pass(end + 1),
            Err(why) => Up::Lost(why),
        }
    }

    fn chunk_size(&mut self, line: &[u8]) -> Result<(), String> {
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let size =
            std::str::from_utf8(&line[..digits]).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
        self.body = match size {
            Some(0) => Body::Trailers,
            // The line end behind it belongs to it.
            Some(size) => Body::Chunk(size.saturating_add(2)),
            None => return Err("the client's chunk has no size".to_owned()),
        };
        Ok(())
    }
}
