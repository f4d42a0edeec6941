//! A scripted FastCGI application: real sockets, a thread per connection, a closure that writes
//! records as it likes.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Types of records.
pub const END: u8 = 3;
/// Output.
pub const STDOUT: u8 = 6;
/// Lines for the log.
pub const STDERR: u8 = 7;

/// A request as the application got it.
#[derive(Clone, Debug, Default)]
pub struct Called {
    /// Number of the connection, from 0.
    pub connection: usize,
    /// Number of the request on its connection, from 0.
    pub number: usize,
    /// Its number on the wire.
    pub id: u16,
    /// The parameters.
    pub params: HashMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
    /// The connection is to be kept.
    pub keep: bool,
}

impl Called {
    /// A parameter; empty if it was not sent.
    pub fn get(&self, name: &str) -> &str {
        self.params.get(name).map_or("", String::as_str)
    }
}

/// Where the script writes.
pub struct Output<'s> {
    stream: &'s mut TcpStream,
    id: u16,
}

impl Output<'_> {
    /// Writes exact bytes; a peer that is gone is no error.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        let _ = self.stream.write_all(bytes);
        self
    }

    /// A record of this request.
    pub fn record(&mut self, kind: u8, content: &[u8]) -> &mut Self {
        let bytes = record(kind, self.id, content, 0);
        self.raw(&bytes)
    }

    /// The end of the request with a status of the protocol.
    pub fn end(&mut self, status: u8) -> &mut Self {
        self.record(END, &[0, 0, 0, 0, status, 0, 0, 0])
    }

    /// A whole answer.
    pub fn answer(&mut self, output: &str) -> &mut Self {
        self.record(STDOUT, output.as_bytes()).record(STDOUT, b"").end(0)
    }

    /// The connection, to read from it: the bytes that follow the request.
    pub fn stream(&mut self) -> &mut TcpStream {
        self.stream
    }
}

/// The bytes of a record.
pub fn record(kind: u8, id: u16, content: &[u8], padding: u8) -> Vec<u8> {
    let [id_high, id_low] = id.to_be_bytes();
    let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
    let mut out = vec![1, kind, id_high, id_low, high, low, padding, 0];
    out.extend_from_slice(content);
    out.extend(std::iter::repeat_n(0, padding.into()));
    out
}

/// A running application. It ends with the test.
pub struct Application {
    addr: SocketAddr,
    calls: Arc<Mutex<Vec<Called>>>,
}

impl Application {
    /// Calls `script` for each request; true: the connection is kept.
    pub fn start(
        script: impl Fn(&Called, &mut Output<'_>) -> bool + Send + Sync + 'static,
    ) -> Application {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let (seen, script) = (calls.clone(), Arc::new(script));
        thread::spawn(move || {
            for (connection, stream) in listener.incoming().flatten().enumerate() {
                let (seen, script) = (seen.clone(), script.clone());
                thread::spawn(move || serve(connection, stream, &seen, &*script));
            }
        });
        Application { addr, calls }
    }

    /// Its address as an origin.
    pub fn url(&self) -> String {
        format!("fcgi://{}", self.addr)
    }

    /// The requests so far.
    pub fn calls(&self) -> Vec<Called> {
        self.calls.lock().unwrap().clone()
    }
}

fn serve(
    connection: usize,
    mut stream: TcpStream,
    seen: &Mutex<Vec<Called>>,
    script: &dyn Fn(&Called, &mut Output<'_>) -> bool,
) {
    for number in 0.. {
        let Some(called) = receive(&mut stream, connection, number) else { return };
        seen.lock().unwrap().push(called.clone());
        let mut output = Output { stream: &mut stream, id: called.id };
        if !script(&called, &mut output) {
            return;
        }
    }
}

/// Reads one request; None: the connection has ended.
fn receive(stream: &mut TcpStream, connection: usize, number: usize) -> Option<Called> {
    let mut called = Called { connection, number, ..Called::default() };
    let mut pairs = Vec::new();
    loop {
        let (kind, id, content) = read_record(stream)?;
        match kind {
            1 => (called.id, called.keep) = (id, content[2] & 1 == 1),
            4 => pairs.extend_from_slice(&content),
            5 if content.is_empty() => break,
            5 => called.body.extend_from_slice(&content),
            other => panic!("a record of type {other}"),
        }
        assert_eq!(id, called.id);
    }
    called.params = params(&pairs);
    Some(called)
}

/// Type, request and content of the next record.
pub fn read_record(stream: &mut TcpStream) -> Option<(u8, u16, Vec<u8>)> {
    let mut header = [0; 8];
    stream.read_exact(&mut header).ok()?;
    let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let mut content = vec![0; length + usize::from(header[6])];
    stream.read_exact(&mut content).ok()?;
    content.truncate(length);
    Some((header[1], u16::from_be_bytes([header[2], header[3]]), content))
}

fn params(mut bytes: &[u8]) -> HashMap<String, String> {
    let mut params = HashMap::new();
    while !bytes.is_empty() {
        let (name, value) = (length(&mut bytes), length(&mut bytes));
        let (pair, rest) = bytes.split_at(name + value);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let before = params.insert(text(&pair[..name]), text(&pair[name..]));
        assert!(before.is_none(), "a parameter came twice");
        bytes = rest;
    }
    params
}

fn length(bytes: &mut &[u8]) -> usize {
    let size = if bytes[0] < 128 { 1 } else { 4 };
    let (number, rest) = bytes.split_at(size);
    *bytes = rest;
    let value = number.iter().fold(0, |value, byte| value << 8 | usize::from(*byte));
    value & 0x7fff_ffff
}
