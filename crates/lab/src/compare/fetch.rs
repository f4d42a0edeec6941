//! Fetches single pages to check that a server serves the right bytes from its memory before it is
//! measured.

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

/// Requests after which a page that is still not cached counts as not cacheable.
const TRIES: usize = 60;
/// Consecutive hits after which a page counts as cached in memory; some caches move a page there in
/// steps.
const HITS: usize = 5;
/// Pause between tries, as a cache may still be storing the page.
const PAUSE: Duration = Duration::from_millis(50);
/// Far above the time of any local request.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Above the size of any head, in bytes.
const HEAD: usize = 16 << 10;

/// Requests pages until they come from memory. The error says what is wrong with the server.
pub(crate) fn warm(
    address: SocketAddr,
    size: usize,
    number: u32,
    origin: Option<&Origin>,
) -> Result<(), String> {
    let mut hits = 0;
    let mut trouble = String::new();
    for _ in 0..TRIES {
        let before = origin.map_or(0, Origin::pages_sent);
        match page(address, size, number) {
            Ok(()) if origin.map_or(0, Origin::pages_sent) == before => hits += 1,
            Ok(()) => (hits, trouble) = (0, "the origin is asked each time".to_owned()),
            // Refusals are tolerated only from a server that is still starting.
            Err(Fault::Refused(why)) => (hits, trouble) = (0, why),
            Err(Fault::Wrong(why)) => return Err(why),
        }
        if hits >= HITS {
            return Ok(());
        }
        if interrupt::requested() {
            return Err("interrupted".to_owned());
        }
        if hits == 0 {
            sleep(PAUSE);
        }
    }
    Err(format!("{} is never a hit: {trouble}", pages::target(size, number)))
}

/// Faults of an answer.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Possibly temporary.
    Refused(String),
    /// Wrong content.
    Wrong(String),
}

/// Fetches a page and compares every byte.
pub(crate) fn page(address: SocketAddr, size: usize, number: u32) -> Result<(), Fault> {
    let target = pages::target(size, number);
    let answer = get(address, &target, size)
        .map_err(|error| Fault::Refused(format!("{target}: {error}")))?;
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
    let length =
        response.headers.iter().find(|field| field.name.eq_ignore_ascii_case("content-length"));
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
    // Not until the connection closes: the floor keeps it open. Excess bytes fail the comparison.
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
        // It behaves like an origin that is asked each time, as no cache may.
        let error = warm(origin.address(), 1000, 1, Some(&origin)).unwrap_err();
        assert_eq!(error, "/1000/1 is never a hit: the origin is asked each time");
    }
}
