//! One page, fetched and looked at: whether a server serves what it should, and out of its memory, before it is measured.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    thread::sleep,
    time::Duration,
};

use crate::{
    interrupt,
    peers::{Origin, pages},
};

/// A cache that does not keep a page after so many requests does not keep it.
const TRIES: usize = 60;
/// So many hits in a row, and the page is in memory. Some caches move a page there by steps.
const HITS: usize = 5;
/// Between tries: a cache may still be writing what it got.
const PAUSE: Duration = Duration::from_millis(50);
/// Nothing local takes this long.
const TIMEOUT: Duration = Duration::from_secs(20);
/// More than any head.
const HEAD: usize = 16 << 10;

/// Asks until the page comes from memory. The error is what is wrong with the server.
pub(crate) fn warm(
    address: SocketAddr,
    size: usize,
    number: u32,
    origin: Option<&Origin>,
) -> Result<(), String> {
    let mut hits = 0;
    let mut trouble = String::new();
    for _ in 0..TRIES {
        let before = origin.map_or(0, Origin::asked);
        match page(address, size, number) {
            Ok(()) if origin.map_or(0, Origin::asked) == before => hits += 1,
            Ok(()) => (hits, trouble) = (0, "the origin is asked each time".to_owned()),
            // Only a server that is still starting may refuse.
            Err(Fault::Refused(why)) => (hits, trouble) = (0, why),
            Err(Fault::Wrong(why)) => return Err(why),
        }
        if hits >= HITS {
            return Ok(());
        }
        if interrupt::asked() {
            return Err("interrupted".to_owned());
        }
        if hits == 0 {
            sleep(PAUSE);
        }
    }
    Err(format!("{} is never a hit: {trouble}", pages::target(size, number)))
}

/// What is wrong with an answer.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It may come right.
    Refused(String),
    /// It served something else.
    Wrong(String),
}

/// Fetches a page and compares every byte.
pub(crate) fn page(address: SocketAddr, size: usize, number: u32) -> Result<(), Fault> {
    let target = pages::target(size, number);
    let answer = get(address, &target, size).map_err(|error| Fault::Refused(format!("{target}: {error}")))?;
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut fields);
    let head = match response.parse(&answer) {
        Ok(httparse::Status::Complete(head)) => head,
        _ => return Err(Fault::Wrong(format!("{target}: this is no answer of HTTP"))),
    };
    match response.code {
        Some(200) => {}
        Some(status @ 500..) => return Err(Fault::Refused(format!("{target}: status {status}"))),
        status => return Err(Fault::Wrong(format!("{target}: status {}", status.unwrap_or(0)))),
    }
    let length = response.headers.iter().find(|field| field.name.eq_ignore_ascii_case("content-length"));
    if length.is_none_or(|length| length.value != size.to_string().as_bytes()) {
        return Err(Fault::Wrong(format!("{target}: expected Content-Length: {size}")));
    }
    if answer[head..] != pages::body(size, number) {
        return Err(Fault::Wrong(format!("{target}: other bytes than the origin's page")));
    }
    Ok(())
}

fn get(address: SocketAddr, target: &str, size: usize) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let request = format!("GET {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::with_capacity(size + HEAD);
    let mut piece = [0; 64 << 10];
    // Not to the end of the connection: the floor keeps it open. What comes too much is seen by the comparison.
    while !complete(&answer, size) && answer.len() < size + HEAD {
        match stream.read(&mut piece)? {
            0 => break,
            read => answer.extend_from_slice(&piece[..read]),
        }
    }
    Ok(answer)
}

fn complete(answer: &[u8], size: usize) -> bool {
    memchr::memmem::find(&answer[..answer.len().min(HEAD)], b"\r\n\r\n")
        .is_some_and(|head| answer.len() >= head + 4 + size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_serves_what_it_should() {
        let origin = Origin::start().unwrap();
        warm(origin.address(), 30_000, 1, None).unwrap();
        // It counts as an origin that is asked each time, which no cache may be.
        let error = warm(origin.address(), 1000, 1, Some(&origin)).unwrap_err();
        assert_eq!(error, "/1000/1 is never a hit: the origin is asked each time");
    }
}
