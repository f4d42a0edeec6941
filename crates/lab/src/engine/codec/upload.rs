//! Bodies of requests over HTTP/2, as far as the server's windows allow.

use larder_proto::http2::frame;

/// Bodies that are not sent whole.
pub(super) struct Uploads {
    /// Bytes that may be sent on the connection.
    window: i64,
    /// The same for a new stream.
    initial: i64,
    bodies: Vec<Body>,
}

struct Body {
    stream: u32,
    window: i64,
    bytes: Vec<u8>,
    sent: usize,
}

impl Uploads {
    pub(super) fn new(window: u32) -> Uploads {
        Uploads { window: window.into(), initial: window.into(), bodies: Vec::new() }
    }

    pub(super) fn begin(&mut self, stream: u32, bytes: Vec<u8>) {
        self.bodies.push(Body { stream, window: self.initial, bytes, sent: 0 });
    }

    /// The stream has ended. True: its body was not sent whole.
    pub(super) fn end(&mut self, stream: u32) -> bool {
        let before = self.bodies.len();
        self.bodies.retain(|body| body.stream != stream);
        self.bodies.len() < before
    }

    /// The server allows more bytes on a stream, or on the connection (0).
    pub(super) fn allow(&mut self, stream: u32, more: u32) {
        if stream == 0 {
            self.window += i64::from(more);
        } else if let Some(body) = self.bodies.iter_mut().find(|body| body.stream == stream) {
            body.window += i64::from(more);
        }
    }

    /// The window that each stream begins with has changed (RFC 9113 section 6.9.2).
    pub(super) fn set_window(&mut self, window: u32) {
        let more = i64::from(window) - self.initial;
        self.initial += more;
        for body in &mut self.bodies {
            body.window += more;
        }
    }

    /// Appends what may be sent.
    pub(super) fn send(&mut self, out: &mut Vec<u8>) {
        for body in &mut self.bodies {
            loop {
                let left = body.bytes.len() - body.sent;
                let most = i64::from(frame::MIN_MAX_BYTES).min(self.window).min(body.window);
                let part = left.min(usize::try_from(most).unwrap_or(0));
                if part == 0 && left > 0 {
                    break;
                }
                frame::write_data(body.stream, part as u32, part == left, out);
                out.extend_from_slice(&body.bytes[body.sent..body.sent + part]);
                body.sent += part;
                body.window -= part as i64;
                self.window -= part as i64;
                if part == left {
                    break;
                }
            }
        }
        self.bodies.retain(|body| body.sent < body.bytes.len());
    }
}
