//! A tiny HTTP client on std for commands: one request, one answer, bounded.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    os::unix::net::UnixStream,
    path::Path,
    time::{Duration, Instant},
};

/// Time limit for the connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Time limit for the whole answer: the time to purge a tag depends on the tagged pages.
const ANSWER: Duration = Duration::from_secs(60);
/// An answer to a purge is short; the rest is not read.
const ANSWER_BYTES: usize = 64 << 10;

/// The server's answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Of `{"purged":3}`.
    pub(crate) purged: Option<u64>,
    pub(crate) body: String,
}

/// Sends a request to `host:port`, `:port` or `unix:PATH`.
pub(crate) fn send(server: &str, request: &[u8]) -> io::Result<Answer> {
    send_for(server, request, ANSWER_BYTES)
}

/// The same for an answer of at most `most` bytes.
pub(crate) fn send_for(server: &str, request: &[u8], most: usize) -> io::Result<Answer> {
    match server.strip_prefix("unix:") {
        Some(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_write_timeout(Some(CONNECT))?;
            exchange(stream, request, most, UnixStream::set_read_timeout)
        }
        None => {
            let stream = connect(server)?;
            stream.set_write_timeout(Some(CONNECT))?;
            exchange(stream, request, most, TcpStream::set_read_timeout)
        }
    }
}

/// Sends a request over a socket of the file system.
pub(crate) fn unix(path: &Path, request: &[u8]) -> io::Result<Answer> {
    let stream = UnixStream::connect(path)?;
    stream.set_write_timeout(Some(CONNECT))?;
    exchange(stream, request, ANSWER_BYTES, UnixStream::set_read_timeout)
}

fn exchange<S: Read + Write>(
    mut stream: S,
    request: &[u8],
    most: usize,
    set_read_timeout: fn(&S, Option<Duration>) -> io::Result<()>,
) -> io::Result<Answer> {
    stream.write_all(request)?;
    let until = Instant::now() + ANSWER;
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    while answer.len() < most {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        set_read_timeout(&stream, Some(left))?;
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => answer.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(error) => return Err(error),
        }
    }
    parse(&answer).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "what answers does not speak HTTP/1.1")
    })
}

/// A request of the admin API; with a body it is JSON.
pub(crate) fn request(method: &str, target: &str, body: &str, token: Option<&str>) -> Vec<u8> {
    request_to("localhost", method, target, body, token)
}

/// The same with the `Host` of the server.
pub(crate) fn request_to(
    host: &str,
    method: &str,
    target: &str,
    body: &str,
    token: Option<&str>,
) -> Vec<u8> {
    let mut head = format!(
        "{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nUser-Agent: \
         larder/{}\r\n",
        env!("CARGO_PKG_VERSION")
    );
    if method != "GET" {
        head.push_str(&format!(
            "Content-Type: application/json\r\nContent-Length: {}\r\n",
            body.len()
        ));
    }
    if let Some(token) = token {
        head.push_str(&format!("Authorization: Bearer {token}\r\n"));
    }
    format!("{head}\r\n{body}").into_bytes()
}

fn connect(server: &str) -> io::Result<TcpStream> {
    let server = server.trim_start_matches("http://").trim_end_matches('/');
    let addresses: Vec<SocketAddr> = match server.strip_prefix(':') {
        Some(port) => format!("127.0.0.1:{port}").to_socket_addrs()?.collect(),
        None => server.to_socket_addrs()?.collect(),
    };
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn parse(answer: &[u8]) -> Option<Answer> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&answer[..end]);
    let mut status = head.split("\r\n").next()?.split(' ');
    if !status.next()?.starts_with("HTTP/1.") {
        return None;
    }
    let status = status.next()?.parse().ok()?;
    let body = String::from_utf8_lossy(&answer[end + 4..]);
    let count = body.split_once("\"purged\":").map(|(_, rest)| rest.trim_start());
    let digits =
        count.map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default());
    let purged = digits.and_then(|digits| digits.parse().ok());
    Some(Answer { status, purged, body: body.into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let answer = |text: &str| parse(text.as_bytes());
        assert_eq!(
            answer("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{\"purged\":3}"),
            Some(Answer { status: 200, purged: Some(3), body: "{\"purged\":3}".to_owned() })
        );
        assert_eq!(
            answer("HTTP/1.1 404\r\n\r\n"),
            Some(Answer { status: 404, purged: None, body: String::new() })
        );
        assert_eq!(answer("HTTP/1.1 200 OK\r\n"), None, "cut off");
        assert_eq!(answer("SSH-2.0-x\r\n\r\n"), None);
        assert_eq!(answer(""), None);
    }
}
