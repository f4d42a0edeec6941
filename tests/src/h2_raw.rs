//! A client of HTTP/2 that sends frames as a test likes.

use crate::wait::PATIENCE;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// One connection, without TLS.
pub struct Raw {
    stream: TcpStream,
    received: Vec<u8>,
}

/// A frame that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its type.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// Its stream.
    pub stream: u32,
    /// Its payload.
    pub payload: Vec<u8>,
}

impl Frame {
    /// The error code of a RST_STREAM or GOAWAY frame.
    pub fn code(&self) -> u32 {
        let at = if self.kind == 7 { 4 } else { 0 };
        let code = self.payload.get(at..at + 4).and_then(|code| code.try_into().ok());
        u32::from_be_bytes(code.expect("a code"))
    }
}

impl Raw {
    /// Connects, and sends the preface and empty SETTINGS.
    #[track_caller]
    pub fn connect(addr: SocketAddr) -> Raw {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let mut raw = Raw { stream, received: Vec::new() };
        raw.stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        raw.send(&[frame(4, 0, 0, &[])]);
        raw
    }

    /// Sends; an end of the connection is no error.
    pub fn send(&mut self, frames: &[Vec<u8>]) -> bool {
        self.stream.write_all(&frames.concat()).is_ok()
    }

    /// The next frame; None: the end of the connection.
    #[track_caller]
    pub fn receive(&mut self) -> Option<Frame> {
        let mut piece = [0; 16 * 1024];
        loop {
            if let Some(head) = self.received.first_chunk::<9>() {
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                let (kind, flags) = (head[3], head[4]);
                let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
                if let Some(payload) = self.received.get(9..9 + length) {
                    let payload = payload.to_vec();
                    self.received.drain(..9 + length);
                    return Some(Frame { kind, flags, stream, payload });
                }
            }
            match self.stream.read(&mut piece) {
                Ok(read @ 1..) => self.received.extend_from_slice(&piece[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    panic!("nothing came for {PATIENCE:?}")
                }
                _ => return None,
            }
        }
    }

    /// The next frame that is this one; None: the end of the connection comes first.
    #[track_caller]
    pub fn find(&mut self, mut is_this: impl FnMut(&Frame) -> bool) -> Option<Frame> {
        loop {
            let frame = self.receive()?;
            if is_this(&frame) {
                return Some(frame);
            }
        }
    }

    /// Receives until these bytes come, or the end of the connection.
    pub fn read_to(&mut self, bytes: &[u8]) {
        let (mut all, mut piece) = (Vec::new(), [0; 16 * 1024]);
        while !all.windows(bytes.len()).any(|part| part == bytes) {
            match self.stream.read(&mut piece) {
                Ok(read @ 1..) => all.extend_from_slice(&piece[..read]),
                _ => return,
            }
        }
    }

    /// The error codes of the GOAWAY and RST_STREAM frames until the end of the connection.
    pub fn ends(&mut self) -> (Vec<u32>, Vec<u32>) {
        let (mut goaways, mut resets) = (Vec::new(), Vec::new());
        while let Some(frame) = self.find(|frame| [3, 7].contains(&frame.kind)) {
            if frame.kind == 3 { &mut resets } else { &mut goaways }.push(frame.code());
        }
        (goaways, resets)
    }
}

/// A frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![len[1], len[2], len[3], kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// A request, fields as literals without a table: names and values of less than 127 bytes, or
/// values up to 254.
pub fn request(stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            let length = u8::try_from(text.len()).unwrap();
            match length.checked_sub(127) {
                None => block.push(length),
                Some(more) => block.extend_from_slice(&[127, more]),
            }
            block.extend_from_slice(text.as_bytes());
        }
    }
    frame(1, 5, stream, &block)
}
