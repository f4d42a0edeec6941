//! A scripted origin: real sockets, a thread per connection, a closure that answers.

use crate::origin_request::{self, Seen};
use crate::wait::{PATIENCE, wait_until};
use std::collections::HashMap;
use std::io::{self, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// The writing side of one exchange, handed to the script.
pub struct Reply {
    stream: TcpStream,
    close: bool,
    failed: bool,
}

impl Reply {
    /// Writes exact bytes. When the peer is gone, that and all later writes do nothing (see
    /// [`Reply::peer_gone`]).
    pub fn raw(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        if !self.failed && self.stream.write_all(bytes.as_ref()).is_err() {
            self.failed = true;
        }
        self
    }

    /// Writes a whole answer with `Content-Length`. `fields` are lines without their end, such as
    /// `"Cache-Control: max-age=60"`.
    pub fn answer(&mut self, status: u16, fields: &[&str], body: impl AsRef<[u8]>) -> &mut Self {
        let body = body.as_ref();
        let length = format!("Content-Length: {}", body.len());
        let mut bytes = head(status, fields.iter().copied().chain([length.as_str()]));
        bytes.extend_from_slice(body);
        self.raw(bytes)
    }

    /// A 200 with `Content-Length`.
    pub fn ok(&mut self, fields: &[&str], body: impl AsRef<[u8]>) -> &mut Self {
        self.answer(200, fields, body)
    }

    /// The head of an answer, nothing added.
    pub fn head(&mut self, status: u16, fields: &[&str]) -> &mut Self {
        self.raw(head(status, fields.iter().copied()))
    }

    /// The head of a chunked answer; [`Reply::chunk`] and [`Reply::end`] follow.
    pub fn chunked(&mut self, status: u16, fields: &[&str]) -> &mut Self {
        self.raw(head(status, fields.iter().copied().chain(["Transfer-Encoding: chunked"])))
    }

    /// One chunk.
    pub fn chunk(&mut self, data: impl AsRef<[u8]>) -> &mut Self {
        let mut bytes = format!("{:x}\r\n", data.as_ref().len()).into_bytes();
        bytes.extend_from_slice(data.as_ref());
        bytes.extend_from_slice(b"\r\n");
        self.raw(bytes)
    }

    /// The last chunk, without trailers.
    pub fn end(&mut self) -> &mut Self {
        self.raw("0\r\n\r\n")
    }

    /// Closes the connection after this exchange.
    pub fn close(&mut self) -> &mut Self {
        self.close = true;
        self
    }

    /// Whether a write failed: the cache closed the connection.
    pub fn peer_gone(&self) -> bool {
        self.failed
    }

    /// The socket itself, for tunnels. The connection closes after this exchange.
    pub fn take_stream(&mut self) -> TcpStream {
        self.close = true;
        self.stream.try_clone().unwrap()
    }
}

fn head<'a>(status: u16, fields: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(status));
    for field in fields {
        head.push_str(field);
        head.push_str("\r\n");
    }
    head.push_str("\r\n");
    // Characters below 256 stand for bytes, so that a script can send obs-text.
    head.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect()
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        206 => "Partial Content",
        304 => "Not Modified",
        404 => "Not Found",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Scripted",
    }
}

/// The server. Stops accepting when dropped.
pub struct Origin {
    addr: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    seen: Mutex<Vec<Seen>>,
    faults: Mutex<Vec<String>>,
    connections: AtomicUsize,
    open: AtomicUsize,
    stopped: AtomicBool,
    streams: Mutex<HashMap<usize, TcpStream>>,
}

impl Origin {
    /// Starts it; `script` answers each request once its content is read.
    pub fn start(script: impl Fn(&Seen, &mut Reply) + Send + Sync + 'static) -> Origin {
        Origin::at("127.0.0.1:0".parse().unwrap(), script).unwrap()
    }

    /// Starts it at a given address, for origins that come back.
    pub fn at(
        addr: SocketAddr,
        script: impl Fn(&Seen, &mut Reply) + Send + Sync + 'static,
    ) -> io::Result<Origin> {
        Origin::on(TcpListener::bind(addr)?, script)
    }

    /// Starts it on a socket that is bound.
    pub fn on(
        listener: TcpListener,
        script: impl Fn(&Seen, &mut Reply) + Send + Sync + 'static,
    ) -> io::Result<Origin> {
        let script = Arc::new(script);
        Origin::accept(listener, move |shared, stream, number| {
            if let Err(fault) = exchanges(shared, &stream, number, &*script) {
                let quiet = matches!(
                    fault.kind(),
                    io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
                );
                if !quiet {
                    shared.faults.lock().unwrap().push(fault.to_string());
                }
            }
        })
    }

    /// Starts one that answers everything with a 200 of these fields and this body.
    pub fn serving(fields: &'static [&'static str], body: &'static str) -> Origin {
        Origin::start(move |_, reply| {
            reply.ok(fields, body);
        })
    }

    /// Starts one whose script gets each connection itself, before anything is read, with its
    /// number. The connection is closed when the script returns.
    pub fn raw(script: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> Origin {
        Origin::accept(TcpListener::bind("127.0.0.1:0").unwrap(), move |_, stream, number| {
            script(stream, number)
        })
        .unwrap()
    }

    fn accept(
        listener: TcpListener,
        serve: impl Fn(&Shared, TcpStream, usize) + Send + Sync + 'static,
    ) -> io::Result<Origin> {
        // std listens with a backlog of 128. Beyond it the kernel drops what connects, and the
        // other side waits a second.
        rustix::net::listen(&listener, 4096)?;
        let shared = Arc::new(Shared {
            seen: Mutex::default(),
            faults: Mutex::default(),
            connections: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            streams: Mutex::default(),
        });
        let origin = Origin { addr: listener.local_addr()?, shared: shared.clone() };
        let serve = Arc::new(serve);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared.stopped.load(Ordering::SeqCst) {
                    break;
                }
                let number = shared.connections.fetch_add(1, Ordering::SeqCst);
                shared.open.fetch_add(1, Ordering::SeqCst);
                shared
                    .streams
                    .lock()
                    .unwrap()
                    .extend(stream.try_clone().map(|stream| (number, stream)));
                let (shared, serve) = (shared.clone(), serve.clone());
                thread::spawn(move || {
                    serve(&shared, stream, number);
                    if let Some(stream) = shared.streams.lock().unwrap().remove(&number) {
                        let _ = stream.shutdown(Shutdown::Both);
                    }
                    shared.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Ok(origin)
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `http://ADDR`, as `--origin` takes it.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Every request so far, in order of arrival.
    pub fn requests(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// How many requests arrived.
    pub fn count(&self) -> usize {
        self.shared.seen.lock().unwrap().len()
    }

    /// How many requests for this target (path and query) arrived.
    pub fn count_of(&self, target: &str) -> usize {
        self.shared.seen.lock().unwrap().iter().filter(|seen| seen.target == target).count()
    }

    /// The last request.
    #[track_caller]
    pub fn last(&self) -> Seen {
        self.shared.seen.lock().unwrap().last().cloned().expect("no request reached the origin")
    }

    /// Waits until this many requests arrived.
    #[track_caller]
    pub fn wait_for(&self, count: usize) {
        wait_until(&format!("{count} requests at the origin"), || self.count() >= count);
    }

    /// How many connections were ever made.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// How many connections are being served now.
    pub fn open_connections(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// Requests that were not HTTP as we read it; empty in a healthy test.
    pub fn faults(&self) -> Vec<String> {
        self.shared.faults.lock().unwrap().clone()
    }

    /// Stops listening and closes every connection; the port is free afterwards.
    pub fn stop(&self) {
        if !self.shared.stopped.swap(true, Ordering::SeqCst) {
            // The accept loop sees the flag when this connection wakes it.
            drop(TcpStream::connect_timeout(&self.addr, PATIENCE));
            for (_, stream) in self.shared.streams.lock().unwrap().drain() {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.stop();
    }
}

fn exchanges(
    shared: &Shared,
    stream: &TcpStream,
    connection: usize,
    script: &dyn Fn(&Seen, &mut Reply),
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut reply = Reply { stream: stream.try_clone()?, close: false, failed: false };
    while let Some(mut seen) = origin_request::read_head(&mut reader)? {
        seen.connection = connection;
        origin_request::read_body(&mut seen, &mut reader, &mut reply.stream)?;
        {
            let mut all = shared.seen.lock().unwrap();
            seen.number = all.len();
            all.push(seen.clone());
        }
        script(&seen, &mut reply);
        if reply.close
            || reply.failed
            || seen.get("connection").is_some_and(|v| v.eq_ignore_ascii_case("close"))
        {
            break;
        }
    }
    Ok(())
}
