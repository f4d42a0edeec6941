//! A raw HTTP/1.1 client: sends exact bytes, reads strictly framed answers.

use crate::answer::{Answer, Fields};
use crate::wait::PATIENCE;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{self, ClientConfig, ClientConnection};

/// Why no answer could be read.
pub enum WireError {
    /// The connection ended before the first byte of an answer.
    Closed,
    /// The connection ended inside an answer; what had come.
    Truncated(Vec<u8>),
    /// Nothing came for [`PATIENCE`]; what had come before.
    Timeout(Vec<u8>),
    /// What came is not a well-framed answer, and why.
    Malformed(String),
    /// The socket failed, mostly a reset.
    Io(io::Error),
}

impl std::fmt::Debug for WireError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WireError::Closed => f.write_str("Closed"),
            WireError::Truncated(bytes) => write!(f, "Truncated({})", excerpt(bytes)),
            WireError::Timeout(bytes) => write!(f, "Timeout({})", excerpt(bytes)),
            WireError::Malformed(why) => write!(f, "Malformed({why})"),
            WireError::Io(error) => write!(f, "Io({error})"),
        }
    }
}

/// The start of some bytes, for messages: a failed test must not print megabytes.
pub fn excerpt(bytes: &[u8]) -> String {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned();
    format!("{} bytes: {start:?}", bytes.len())
}

/// The head of an answer, before its content.
#[derive(Debug)]
pub struct Head {
    /// The status line without its end.
    pub status_line: String,
    /// Its three digits.
    pub status: u16,
    /// The header fields.
    pub fields: Fields,
}

/// How the end of an answer's content is found (RFC 9112 6.3).
#[derive(Debug, PartialEq, Eq)]
enum Framing {
    None,
    Length(usize),
    Chunked,
    Close,
}

/// One client connection.
pub struct Wire {
    stream: TcpStream,
    /// None: plain HTTP.
    tls: Option<Box<ClientConnection>>,
    buffer: Vec<u8>,
}

impl Wire {
    /// Connects.
    #[track_caller]
    pub fn connect(addr: SocketAddr) -> Wire {
        let stream = TcpStream::connect_timeout(&addr, PATIENCE)
            .unwrap_or_else(|e| panic!("connect to {addr}: {e}"));
        Wire::over(stream)
    }

    /// Connects with a small receive buffer: what is not read waits in the peer, not in our kernel.
    /// (With the smallest there is the kernel drops what comes while a segment waits to be read,
    /// and each of these costs a timeout.)
    #[track_caller]
    pub fn connect_narrow(addr: SocketAddr) -> Wire {
        use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};
        let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = socket(family, SocketType::STREAM, None).unwrap();
        sockopt::set_socket_recv_buffer_size(&socket, 8 << 10).unwrap();
        connect(&socket, &addr).unwrap_or_else(|e| panic!("connect to {addr}: {e}"));
        Wire::over(TcpStream::from(socket))
    }

    fn over(stream: TcpStream) -> Wire {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Wire { stream, tls: None, buffer: Vec::new() }
    }

    /// Connects over TLS to the server of this name; the handshake is done with the first bytes.
    #[track_caller]
    pub fn connect_tls(addr: SocketAddr, client: &Arc<ClientConfig>, name: &str) -> Wire {
        Wire::connect(addr).secured(client, name)
    }

    /// The same connection over TLS, before anything is sent.
    #[track_caller]
    pub fn secured(self, client: &Arc<ClientConfig>, name: &str) -> Wire {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let tls = ClientConnection::new(client.clone(), name).unwrap();
        Wire { tls: Some(Box::new(tls)), ..self }
    }

    /// The state of TLS.
    #[track_caller]
    pub fn tls(&mut self) -> &mut ClientConnection {
        self.tls.as_mut().expect("a connection over TLS")
    }

    /// Shakes hands; the error is the first of either side.
    pub fn shake_hands(&mut self) -> io::Result<()> {
        let tls = self.tls.as_mut().expect("a connection over TLS");
        while tls.is_handshaking() {
            tls.complete_io(&mut self.stream)?;
        }
        Ok(())
    }

    /// Sends exact bytes. A peer that has closed already is no error here: reading tells.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Wire {
        let sent = match &mut self.tls {
            None => self.stream.write_all(bytes.as_ref()),
            Some(tls) => {
                let mut stream = rustls::Stream::new(&mut **tls, &mut self.stream);
                stream.write_all(bytes.as_ref()).and_then(|()| stream.flush())
            }
        };
        if let Err(e) = sent {
            let gone = matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset);
            assert!(gone, "sending: {e}");
        }
        self
    }

    /// Sends a GET with these header lines (no `Host` is added).
    pub fn send_get(&mut self, target: &str, fields: &[&str]) -> &mut Wire {
        self.send(request("GET", target, fields))
    }

    /// Sends any bodyless request and reads its answer.
    #[track_caller]
    pub fn ask(&mut self, method: &str, target: &str, fields: &[&str]) -> Answer {
        self.send(request(method, target, fields));
        self.read_for(method)
    }

    /// GET with `Host: site.test` and these header lines.
    #[track_caller]
    pub fn get(&mut self, target: &str, fields: &[&str]) -> Answer {
        self.ask("GET", target, &[&["Host: site.test"], fields].concat())
    }

    /// Reads the answer to a request that was not HEAD.
    #[track_caller]
    pub fn read(&mut self) -> Answer {
        self.read_for("GET")
    }

    /// Reads the answer to a request of this method.
    #[track_caller]
    pub fn read_for(&mut self, method: &str) -> Answer {
        self.try_read_for(method).unwrap_or_else(|e| panic!("no answer to {method}: {e:?}"))
    }

    /// Reads the answer to a request of this method, or says why there is none.
    pub fn try_read_for(&mut self, method: &str) -> Result<Answer, WireError> {
        let mut interim = Vec::new();
        loop {
            let head = self.try_read_head()?;
            if (100..200).contains(&head.status) && head.status != 101 {
                interim.push((head.status, head.fields));
                continue;
            }
            let framing = framing(&head, method).map_err(WireError::Malformed)?;
            let chunked = framing == Framing::Chunked;
            let (body, trailers) = self.read_content(framing)?;
            let Head { status_line, status, fields } = head;
            return Ok(Answer { status_line, status, fields, body, trailers, chunked, interim });
        }
    }

    /// Reads one head, interim or final, and leaves the content unread.
    #[track_caller]
    pub fn read_head(&mut self) -> Head {
        self.try_read_head().unwrap_or_else(|e| panic!("no head: {e:?}"))
    }

    /// Reads one head, interim or final, or says why there is none.
    pub fn try_read_head(&mut self) -> Result<Head, WireError> {
        let end = loop {
            if let Some(at) = find(&self.buffer, b"\r\n\r\n") {
                break at + 4;
            }
            self.more()?;
        };
        let bytes: Vec<u8> = self.buffer.drain(..end).collect();
        // Every byte becomes the character of the same number: obs-text is legal in values.
        let text: String = bytes.iter().map(|&b| char::from(b)).collect();
        let (status_line, lines) = text.split_once("\r\n").unwrap_or((&text, ""));
        let status = status(status_line)
            .ok_or_else(|| WireError::Malformed(format!("status line {status_line:?}")))?;
        let fields = Fields::parse(lines).map_err(WireError::Malformed)?;
        Ok(Head { status_line: status_line.to_owned(), status, fields })
    }

    /// Reads exactly `count` bytes of whatever comes next.
    #[track_caller]
    pub fn read_bytes(&mut self, count: usize) -> Vec<u8> {
        self.try_read_bytes(count).unwrap_or_else(|e| panic!("waiting for {count} bytes: {e:?}"))
    }

    /// The same; an error where the connection ends before.
    pub fn try_read_bytes(&mut self, count: usize) -> Result<Vec<u8>, WireError> {
        while self.buffer.len() < count {
            self.more()?;
        }
        Ok(self.buffer.drain(..count).collect())
    }

    /// Reads chunks until at least `count` bytes of content have come; gives them all.
    #[track_caller]
    pub fn read_chunked_bytes(&mut self, count: usize) -> Vec<u8> {
        let mut data = Vec::new();
        while data.len() < count {
            match self
                .read_chunk()
                .unwrap_or_else(|e| panic!("waiting for {count} bytes in chunks: {e:?}"))
            {
                Some(chunk) => data.extend_from_slice(&chunk),
                None => panic!("the chunks ended after {} of {count} bytes", data.len()),
            }
        }
        data
    }

    /// Reads one chunk; `None` at the last one, whose trailers are left unread.
    pub fn read_chunk(&mut self) -> Result<Option<Vec<u8>>, WireError> {
        let line = self.read_line()?;
        let digits = line.split(';').next().unwrap_or_default();
        let size = usize::from_str_radix(digits, 16)
            .map_err(|_| WireError::Malformed(format!("chunk size {line:?}")))?;
        if size == 0 {
            return Ok(None);
        }
        let mut chunk = self.take(size + 2)?;
        match chunk.split_off(size).as_slice() {
            b"\r\n" => Ok(Some(chunk)),
            other => Err(WireError::Malformed(format!("chunk ends with {other:?}"))),
        }
    }

    /// Fails unless the peer closes the connection now without another byte.
    #[track_caller]
    pub fn expect_closed(&mut self) {
        match self.more() {
            Err(WireError::Closed | WireError::Io(_)) if self.buffer.is_empty() => {}
            other => {
                let text = String::from_utf8_lossy(&self.buffer).into_owned();
                panic!("expected the end of the connection, got {other:?} and {text:?}");
            }
        }
    }

    /// Whether the connection is still open and silent at this moment.
    pub fn is_idle(&mut self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).unwrap();
        self.buffer.is_empty() && peeked.is_err_and(|e| e.kind() == ErrorKind::WouldBlock)
    }

    /// Closes the writing side: the peer reads the end.
    pub fn finish_sending(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// The socket, for options the harness has no word for.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sets how long a read may wait, in place of [`PATIENCE`].
    pub fn set_patience(&mut self, patience: Duration) {
        self.stream.set_read_timeout(Some(patience)).unwrap();
    }

    fn read_content(&mut self, framing: Framing) -> Result<(Vec<u8>, Fields), WireError> {
        match framing {
            Framing::None => Ok((Vec::new(), Fields::default())),
            Framing::Length(n) => Ok((self.take(n)?, Fields::default())),
            Framing::Close => loop {
                match self.more() {
                    Ok(()) => {}
                    Err(WireError::Closed | WireError::Truncated(_)) => {
                        return Ok((std::mem::take(&mut self.buffer), Fields::default()));
                    }
                    Err(e) => return Err(e),
                }
            },
            Framing::Chunked => {
                let mut body = Vec::new();
                while let Some(chunk) = self.read_chunk()? {
                    body.extend_from_slice(&chunk);
                }
                let mut lines = String::new();
                loop {
                    let line = self.read_line()?;
                    if line.is_empty() {
                        return Ok((body, Fields::parse(&lines).map_err(WireError::Malformed)?));
                    }
                    lines.push_str(&line);
                    lines.push_str("\r\n");
                }
            }
        }
    }

    fn take(&mut self, count: usize) -> Result<Vec<u8>, WireError> {
        while self.buffer.len() < count {
            self.more()?;
        }
        Ok(self.buffer.drain(..count).collect())
    }

    fn read_line(&mut self) -> Result<String, WireError> {
        loop {
            if let Some(at) = find(&self.buffer, b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..at + 2).take(at).collect();
                return String::from_utf8(line).map_err(|e| WireError::Malformed(e.to_string()));
            }
            self.more()?;
        }
    }

    /// Reads what is there; at least one byte on success.
    fn more(&mut self) -> Result<(), WireError> {
        let mut piece = [0; 65536];
        let read = match &mut self.tls {
            None => self.stream.read(&mut piece),
            Some(tls) => rustls::Stream::new(&mut **tls, &mut self.stream).read(&mut piece),
        };
        match read {
            Ok(0) if self.buffer.is_empty() => Err(WireError::Closed),
            Ok(0) => Err(WireError::Truncated(self.buffer.clone())),
            Ok(n) => {
                self.buffer.extend_from_slice(&piece[..n]);
                Ok(())
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(WireError::Timeout(self.buffer.clone()))
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => Ok(()),
            Err(e) => Err(WireError::Io(e)),
        }
    }
}

/// The bytes of a request without a body.
pub fn request(method: &str, target: &str, fields: &[&str]) -> String {
    let mut text = format!("{method} {target} HTTP/1.1\r\n");
    for field in fields {
        text.push_str(field);
        text.push_str("\r\n");
    }
    text + "\r\n"
}

/// One GET on a connection of its own, `Host: site.test`.
#[track_caller]
pub fn get(addr: SocketAddr, target: &str) -> Answer {
    Wire::connect(addr).get(target, &[])
}

/// One GET with further header lines on a connection of its own, `Host: site.test`.
#[track_caller]
pub fn get_with(addr: SocketAddr, target: &str, fields: &[&str]) -> Answer {
    Wire::connect(addr).get(target, fields)
}

fn framing(head: &Head, method: &str) -> Result<Framing, String> {
    let lengths: Vec<_> = head.fields.all("content-length").collect();
    let codings: Vec<_> = head.fields.all("transfer-encoding").collect();
    if lengths.len() > 1 || codings.len() > 1 || (!lengths.is_empty() && !codings.is_empty()) {
        return Err(format!("ambiguous framing: {:?}", head.fields));
    }
    if method == "HEAD" || head.status == 204 || head.status == 304 || head.status == 101 {
        return Ok(Framing::None);
    }
    match (lengths.first(), codings.first()) {
        (Some(n), _) if n.bytes().all(|b| b.is_ascii_digit()) => {
            n.parse().map(Framing::Length).map_err(|e| format!("Content-Length {n:?}: {e}"))
        }
        (Some(n), _) => Err(format!("Content-Length {n:?}")),
        (None, Some(coding)) if coding.eq_ignore_ascii_case("chunked") => Ok(Framing::Chunked),
        (None, Some(coding)) => Err(format!("Transfer-Encoding {coding:?}")),
        (None, None) => Ok(Framing::Close),
    }
}

/// The status of a status line of HTTP/1.1 (RFC 9112 4), which must be exact.
fn status(line: &str) -> Option<u16> {
    let rest = line.strip_prefix("HTTP/1.1 ").or_else(|| line.strip_prefix("HTTP/1.0 "))?;
    let (digits, _reason) = rest.split_once(' ')?;
    (digits.len() == 3 && digits.bytes().all(|b| b.is_ascii_digit()))
        .then(|| digits.parse().ok())?
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
