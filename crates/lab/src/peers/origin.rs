//! The floor as a thread: an origin for caches that counts its requests.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, atomic::Ordering},
    thread::{self, JoinHandle},
};

use super::{
    Error,
    floor::{self, FloorState},
};

/// An origin of [canned pages](super::pages) on a free port of 127.0.0.1, running until dropped.
#[derive(Debug)]
pub struct Origin {
    address: SocketAddr,
    state: Arc<FloorState>,
    thread: Option<JoinHandle<()>>,
}

impl Origin {
    /// Starts an origin.
    ///
    /// # Errors
    /// [`Error::Ours`] without a port or thread.
    pub fn start() -> Result<Self, Error> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .map_err(Error::ours("a port for the origin"))?;
        let address = listener.local_addr().map_err(Error::ours("the origin's port"))?;
        let state = Arc::new(FloorState::default());
        let heard = state.clone();
        let thread = thread::Builder::new().name("origin".to_owned()).spawn(move || {
            if let Err(error) = floor::serve(listener, &heard) {
                eprintln!("larder: the origin on {address} ended: {error}");
            }
        });
        let thread = thread.map_err(Error::ours("a thread for the origin"))?;
        Ok(Self { address, state, thread: Some(thread) })
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Number of pages sent so far.
    pub fn pages_sent(&self) -> u64 {
        self.state.pages_sent.load(Ordering::Relaxed)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.state.stop.store(1, Ordering::Relaxed);
        // Wakes the thread. If this fails, the thread ends with the process.
        let woken = TcpStream::connect(self.address).is_ok();
        if let (true, Some(thread)) = (woken, self.thread.take()) {
            let _ended = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::{super::pages, *};

    fn ask(origin: &Origin, request: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(origin.address()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // Closing with unread bytes resets the connection.
        let _reset = stream.read_to_end(&mut answer);
        answer
    }

    #[test]
    fn pages_small_and_large_arrive_whole_and_are_counted() {
        let origin = Origin::start().unwrap();
        for size in [0, 1, 1000, 16_000, 26_510, 3_000_000] {
            let answer = ask(&origin, &format!("GET /{size}/5 HTTP/1.0\r\n\r\n"));
            let text = String::from_utf8_lossy(&answer);
            assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text:.200}");
            assert!(text.contains(&format!("\r\nContent-Length: {size}\r\n")), "{text:.200}");
            assert!(answer.ends_with(&[b"\r\n\r\n", &pages::body(size, 5)[..]].concat()), "{size}");
        }
        assert_eq!(origin.pages_sent(), 6);
        assert!(ask(&origin, "GET /asked HTTP/1.0\r\n\r\n").ends_with(b"\r\n\r\n6"));
        assert!(ask(&origin, "GET /nothing HTTP/1.0\r\n\r\n").starts_with(b"HTTP/1.1 404 "));
        assert_eq!(origin.pages_sent(), 6);
    }

    #[test]
    fn pipelined_requests_are_answered_in_order_however_they_are_cut() {
        let origin = Origin::start().unwrap();
        let mut stream = TcpStream::connect(origin.address()).unwrap();
        stream.set_nodelay(true).unwrap();
        let requests = "GET /20000/1 HTTP/1.1\r\nHost: x\r\n\r\nGET /10/2 HTTP/1.1\r\n\r\nGET \
                        /30/3 HTTP/1.0\r\n\r\n";
        for piece in requests.as_bytes().chunks(7) {
            stream.write_all(piece).unwrap();
        }
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let expected: Vec<u8> = [(20_000, 1), (10, 2), (30, 3)]
            .into_iter()
            .flat_map(|(size, number)| {
                [pages::head(size, number), pages::body(size, number)].concat()
            })
            .collect();
        assert_eq!(answer.len(), expected.len());
        assert!(answer.ends_with(&pages::body(30, 3)));
    }

    #[test]
    fn what_is_no_request_closes_the_connection() {
        let origin = Origin::start().unwrap();
        assert_eq!(ask(&origin, "POST /1/1 HTTP/1.1\r\n\r\n"), b"");
        assert_eq!(ask(&origin, &"x".repeat(9000)), b"");
    }
}
