//! A request head that outlives the buffer it was received into.

use httparse::Header;

use super::fields::Fields;
use super::known::Known;
use super::method::Method;
use super::request::{BodyFraming, RequestHead, Version};
use super::target::{Authority, Form, Target};

/// A part of [`OwnedHead::bytes`].
#[derive(Clone, Copy, Debug)]
struct Part {
    at: usize,
    len: usize,
}

/// A copy of a parsed head, with the places of its parts: it is not parsed again.
#[derive(Clone, Debug)]
pub struct OwnedHead {
    /// The head as received, and texts of it that are none of its bytes (the path `/` of a target
    /// without one).
    bytes: Vec<u8>,
    method: Part,
    raw_target: Part,
    form: Form,
    scheme: Option<Part>,
    authority: Option<Part>,
    path_and_query: Part,
    host: Option<(Part, Option<u16>)>,
    /// Names and values.
    lines: Box<[(Part, Part)]>,
    known: Known<'static>,
    version: Version,
    framing: BodyFraming,
    keep_alive: bool,
    expect_continue: bool,
    upgrades: bool,
    len: usize,
}

impl OwnedHead {
    /// Copies `head`, which was parsed from the start of `raw`.
    pub fn of(head: &RequestHead<'_>, raw: &[u8]) -> Self {
        let raw = &raw[..head.len];
        let mut bytes = raw.to_vec();
        let mut part = |text: &[u8]| {
            let at = (text.as_ptr() as usize).wrapping_sub(raw.as_ptr() as usize);
            if at.checked_add(text.len()).is_some_and(|end| end <= raw.len()) {
                return Part { at, len: text.len() };
            }
            bytes.extend_from_slice(text);
            Part { at: bytes.len() - text.len(), len: text.len() }
        };
        let target = &head.target;
        Self {
            method: part(head.method.as_str().as_bytes()),
            raw_target: part(head.raw_target.as_bytes()),
            form: target.form,
            scheme: target.scheme.map(|text| part(text.as_bytes())),
            authority: target.authority.map(|text| part(text.as_bytes())),
            path_and_query: part(target.path_and_query.as_bytes()),
            host: head.host.map(|host| (part(host.host.as_bytes()), host.port)),
            lines: head
                .fields
                .iter()
                .map(|(name, value)| (part(name.as_bytes()), part(value)))
                .collect(),
            known: head.known.of_other(&[]),
            version: head.version,
            framing: head.framing,
            keep_alive: head.keep_alive,
            expect_continue: head.expect_continue,
            upgrades: head.upgrade.is_some(),
            len: head.len,
            bytes,
        }
    }

    /// The head of a GET of the same.
    pub fn as_get(&self) -> Self {
        let mut get = self.clone();
        get.method = Part { at: get.bytes.len(), len: 3 };
        get.bytes.extend_from_slice(b"GET");
        get
    }

    /// The head as received, in bytes.
    pub fn raw(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Its field lines, for [`OwnedHead::head`].
    pub fn lines(&self) -> Vec<Header<'_>> {
        let line = |&(name, value): &(Part, Part)| Header {
            name: self.text(name),
            value: self.bytes(value),
        };
        self.lines.iter().map(line).collect()
    }

    /// The head. `lines` are its own ([`OwnedHead::lines`]).
    pub fn head<'h>(&'h self, lines: &'h [Header<'h>]) -> RequestHead<'h> {
        let known = self.known.of_other(lines);
        let target = Target {
            form: self.form,
            scheme: self.scheme.map(|part| self.text(part)),
            authority: self.authority.map(|part| self.text(part)),
            path_and_query: self.text(self.path_and_query),
        };
        RequestHead {
            method: Method::of(self.text(self.method)),
            target,
            raw_target: self.text(self.raw_target),
            version: self.version,
            fields: Fields::new(lines),
            known,
            host: self.host.map(|(part, port)| Authority { host: self.text(part), port }),
            framing: self.framing,
            keep_alive: self.keep_alive,
            expect_continue: self.expect_continue,
            upgrade: if self.upgrades { known.upgrade() } else { None },
            len: self.len,
        }
    }

    fn bytes(&self, part: Part) -> &[u8] {
        &self.bytes[part.at..part.at + part.len]
    }

    fn text(&self, part: Part) -> &str {
        // A copy of what was text.
        std::str::from_utf8(self.bytes(part)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{HeadLimits, Parsed, parse_request, slots};

    #[test]
    fn a_copy_reads_as_the_head() {
        for raw in [
            "GET /a?b HTTP/1.1\r\nHost: A.test:81\r\nCookie: a=1\r\ncookie: \
             b=\u{e9}\r\nX-Empty:\r\n\r\n",
            "\r\nPOST http://a.test HTTP/1.1\r\nhost: a.test\r\nContent-Length: 3\r\nExpect: \
             100-continue\r\n\r\nabc",
            "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
            "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n",
            "M-SEARCH /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
            "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nmore",
            "GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nTransfer-Encoding: \
             chunked\r\n\r\n",
        ] {
            let mut room = slots::<16>();
            let parsed = parse_request(raw.as_bytes(), &mut room, &HeadLimits::default());
            let Ok(Parsed::Complete(head)) = parsed else { panic!("{raw:?}: {parsed:?}") };
            let owned = OwnedHead::of(&head, raw.as_bytes());
            let lines = owned.lines();
            assert_eq!(format!("{:?}", owned.head(&lines)), format!("{head:?}"));
            assert_eq!(owned.raw(), &raw.as_bytes()[..head.len]);
        }
    }
}
