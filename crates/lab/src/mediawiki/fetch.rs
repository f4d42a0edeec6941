//! Fetches a page on a new connection: to warm caches, compare articles, or query servers. The
//! measured requests are made by the engine.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use crate::interrupt;

/// Most header fields of an answer.
const FIELDS: usize = 64;
/// Limit for an answer; an article is far smaller.
const LONGEST: u64 = 64 << 20;

/// Interval at which interruptions are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

/// Requests `target` from `addr`.
pub(super) fn get(
    addr: SocketAddr,
    host: &str,
    target: &str,
    patience: Duration,
) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&addr, patience)?;
    stream.set_read_timeout(Some(CHECK_INTERVAL))?;
    stream.set_write_timeout(Some(patience))?;
    write!(stream, "GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
    parse(&whole(stream, patience)?)
}

/// Reads until the other end closes; stops at an interruption.
fn whole(stream: TcpStream, patience: Duration) -> io::Result<Vec<u8>> {
    let began = Instant::now();
    let (mut stream, mut bytes) = (stream.take(LONGEST), Vec::new());
    loop {
        match stream.read_to_end(&mut bytes) {
            Ok(_) => return Ok(bytes),
            // Bytes received so far are kept.
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Err(_) if interrupt::requested() => return Err(io::ErrorKind::Interrupted.into()),
            Err(_) if began.elapsed() >= patience => return Err(io::ErrorKind::TimedOut.into()),
            Err(_) => {}
        }
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn parse(bytes: &[u8]) -> io::Result<Answer> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut head = httparse::Response::new(&mut fields);
    let parsed = head.parse(bytes).map_err(|e| wrong(&format!("a broken head: {e}")))?;
    let httparse::Status::Complete(length) = parsed else {
        return Err(wrong("the head is cut off"));
    };
    let field = |name: &str| {
        let found = head.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(found.value).ok()
    };
    let rest = &bytes[length..];
    let body = if field("Transfer-Encoding")
        .is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"))
    {
        unchunk(rest)?
    } else {
        match field("Content-Length").map(str::parse::<usize>) {
            Some(Ok(announced)) if announced == rest.len() => rest.to_vec(),
            None => rest.to_vec(),
            Some(_) => return Err(wrong("the body is not as long as announced")),
        }
    };
    Ok(Answer { status: head.code.unwrap_or_default(), body })
}

fn unchunk(mut rest: &[u8]) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let parsed = httparse::parse_chunk_size(rest).map_err(|_| wrong("a broken chunk"))?;
        let httparse::Status::Complete((line, size)) = parsed else {
            return Err(wrong("a chunk is cut off"));
        };
        let size = usize::try_from(size).map_err(|_| wrong("a chunk too large"))?;
        if size == 0 {
            return Ok(body);
        }
        let end = line.checked_add(size).filter(|end| end + 2 <= rest.len());
        let end = end.ok_or_else(|| wrong("a chunk is cut off"))?;
        body.extend_from_slice(&rest[line..end]);
        rest = &rest[end + 2..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_joined_and_a_cut_body_is_an_error() {
        let whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: \
            chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        let answer = parse(whole).unwrap();
        assert_eq!((answer.status, answer.body.as_slice()), (200, b"abcde".as_slice()));
        assert!(parse(&whole[..whole.len() - 10]).is_err());
        assert!(parse(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab").is_err());
    }
}
