//! HTTP/1: requests and answers, delimited by their heads and body lengths, so that each of several
//! open requests on one connection is delayed and broken separately.

use std::collections::VecDeque;

use super::{
    Down, NEEDED, Up,
    http_body::{Body, Passed},
};
use crate::http::{ResponseHead, parse_response};

/// Most field lines of a request that are examined.
const FIELDS: usize = 256;
/// Longest request line that is kept as the request's text, in bytes.
const TARGET: usize = 1024;
/// Most open requests of a connection. Clients that pipeline send some dozens ahead; servers answer
/// in order, and can always answer all but the last of these.
pub(super) const PIPELINED: usize = 1024;

/// A connection.
#[derive(Debug, Default)]
pub struct Http {
    /// The body of the request being received; without one a head is expected.
    asking: Option<Body>,
    /// The body of the answer being received.
    answering: Option<Body>,
    /// Requests without a complete answer, the oldest first. The driver bounds them; see
    /// [`PIPELINED`].
    pending: VecDeque<Pending>,
    /// Both sides switched to another protocol.
    switched: bool,
}

#[derive(Debug)]
struct Pending {
    method: Method,
    /// It has an Upgrade field.
    upgrade: bool,
    /// A part of the answer has arrived, perhaps only an interim one.
    begun: bool,
}

impl Pending {
    fn may_switch(&self) -> bool {
        self.upgrade || self.method == Method::Connect
    }
}

/// A method, as far as it changes the form of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Head,
    Connect,
    Other,
}

impl Http {
    pub(super) fn kept(&self) -> usize {
        self.pending.len()
    }

    pub(super) fn up(&mut self, bytes: &[u8]) -> Up {
        if let Some(body) = &mut self.asking {
            return match body.pass(bytes) {
                Ok(Passed { length: 0, over: false }) => Up::More,
                Ok(Passed { length, over }) => {
                    self.asking.take_if(|_| over);
                    Up::Pass(length)
                }
                Err(why) => Up::Lost(format!("the client sends {why}")),
            };
        }
        // Until the server has agreed to another protocol or refused it, the meaning of these bytes
        // is unknown.
        if self.switched || self.pending.back().is_some_and(Pending::may_switch) {
            return Up::Pass(bytes.len());
        }
        self.request(bytes)
    }

    fn request(&mut self, bytes: &[u8]) -> Up {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        let length = match request.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) if bytes.len() < NEEDED => return Up::More,
            Ok(httparse::Status::Partial) => {
                return Up::Lost("the client's head is too long".to_owned());
            }
            Err(error) => return Up::Lost(format!("the client speaks no HTTP/1 ({error})")),
        };
        let field = |name: &str| {
            let found = request.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
            found.map(|field| field.value.trim_ascii())
        };
        self.asking = match (field("transfer-encoding"), field("content-length")) {
            (Some(_), _) => Some(Body::chunked()),
            (None, Some(length)) => {
                match str::from_utf8(length).ok().and_then(|length| length.parse().ok()) {
                    Some(0) => None,
                    Some(length) => Some(Body::Length(length)),
                    None => return Up::Lost("the client's Content-Length is no number".to_owned()),
                }
            }
            (None, None) => None,
        };
        let upgrade = field("upgrade").is_some();
        let name = request.method.unwrap_or_default();
        let method = match name {
            "HEAD" => Method::Head,
            "CONNECT" => Method::Connect,
            _ => Method::Other,
        };
        self.pending.push_back(Pending { method, upgrade, begun: false });
        let target: String = request.path.unwrap_or_default().chars().take(TARGET).collect();
        Up::Request(length, Some(format!("{name} {target}").into()))
    }

    pub(super) fn down(&mut self, bytes: &[u8]) -> Down {
        if self.switched {
            return Down::pass(bytes.len());
        }
        if let Some(mut body) = self.answering.take() {
            return match body.pass(bytes) {
                Ok(Passed { length: 0, over: false }) => {
                    self.answering = Some(body);
                    Down::More
                }
                Ok(passed) => self.passed(body, passed, 0, false),
                Err(why) => Down::Lost(format!("the server sends {why}")),
            };
        }
        let to_head = self.pending.front().is_some_and(|asked| asked.method == Method::Head);
        match parse_response(bytes, to_head) {
            Ok(Some(head)) => self.answer(&head, bytes),
            Ok(None) => Down::More,
            Err(why) => Down::Lost(format!("the server answers with {why}")),
        }
    }

    /// An answer to the oldest request, or an unsolicited one.
    fn answer(&mut self, head: &ResponseHead, bytes: &[u8]) -> Down {
        let (mut begins, mut switches) = (false, false);
        if let Some(asked) = self.pending.front_mut() {
            begins = !std::mem::replace(&mut asked.begun, true);
            switches = asked.upgrade && head.status == 101
                || asked.method == Method::Connect && (200..300).contains(&head.status);
        }
        if switches {
            self.switched = true;
            return Down::Pass { length: bytes.len(), begins, ends: 0 };
        }
        if head.status < 200 {
            return Down::Pass { length: head.used, begins, ends: 0 };
        }
        let mut body = Body::of_response(head.body);
        match body.pass(&bytes[head.used..]) {
            Ok(passed) => self.passed(body, passed, head.used, begins),
            Err(why) => Down::Lost(format!("the server sends {why}")),
        }
    }

    /// Bytes of a body, after `head` bytes of a head.
    fn passed(&mut self, body: Body, passed: Passed, head: usize, begins: bool) -> Down {
        let ends = match passed.over {
            true => usize::from(self.pending.pop_front().is_some()),
            false => {
                self.answering = Some(body);
                0
            }
        };
        Down::Pass { length: head + passed.length, begins, ends }
    }

    /// The server closed its side: that ends an answer without a length, and the bytes after an
    /// upgrade.
    pub(super) fn server_ended(&mut self) -> usize {
        let open = self.switched || matches!(self.answering, Some(Body::UntilClose));
        usize::from(open && self.pending.pop_front().is_some())
    }
}
