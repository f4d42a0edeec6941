//! Requests over HTTP/2 and HTTP/3, with their constant parts prepared.

use larder_proto::hpack::{DEFAULT_TABLE_SIZE, ENTRY_OVERHEAD, write_integer, write_string};

use super::{
    Codec,
    http::{is_plain, parts},
};
use crate::load::{Operation, Verb, value};

/// Entries of HPACK's static table; the dynamic table follows (RFC 7541 section 2.3.3).
const HPACK_STATIC: usize = 61;

/// The parts that all requests have.
pub(super) struct Fields {
    host: Vec<u8>,
    is_https: bool,
    /// Names in lower case, with values.
    lines: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Fields {
    /// `fields`: lines as `Name: value`.
    pub(super) fn new(host: &str, fields: &[String], is_https: bool) -> Fields {
        let line = |field: &String| {
            let (name, value) = field.split_once(':').unwrap_or((field, ""));
            (name.to_ascii_lowercase().into_bytes(), value.trim().as_bytes().to_vec())
        };
        Fields {
            host: host.as_bytes().to_vec(),
            is_https,
            lines: fields.iter().map(line).collect(),
        }
    }

    /// The request; None: its key cannot be sent.
    pub(super) fn request<'a>(&'a self, operation: &'a Operation) -> Option<Request<'a>> {
        let key = &operation.key[..];
        if !is_plain(key) {
            return None;
        }
        let (host, target) = match key.first() {
            Some(b'/') => (None, key),
            _ => parts(key).map(|(host, target)| (Some(host), target))?,
        };
        Some(Request { fields: self, operation, host, target })
    }

    /// Whether a table of the usual size has room for them.
    fn fit(&self) -> bool {
        let line = |(name, value): &(Vec<u8>, Vec<u8>)| name.len() + value.len() + ENTRY_OVERHEAD;
        let authority = b":authority".len() + self.host.len() + ENTRY_OVERHEAD;
        authority + self.lines.iter().map(line).sum::<usize>() <= DEFAULT_TABLE_SIZE as usize
    }
}

/// A request.
pub(super) struct Request<'a> {
    fields: &'a Fields,
    operation: &'a Operation,
    /// A host of its own.
    host: Option<&'a [u8]>,
    target: &'a [u8],
}

impl Request<'_> {
    /// It has the host that most requests have, and its fields may go into a table.
    pub(super) fn is_usual(&self) -> bool {
        self.host.is_none() && self.fields.fit()
    }

    /// Length of its body, if it has one.
    pub(super) fn length(&self) -> Option<usize> {
        (self.operation.verb == Verb::Set).then_some(self.operation.size)
    }

    /// Its body.
    pub(super) fn body(&self) -> Vec<u8> {
        let mut body = Vec::new();
        value::fill(&self.operation.key, self.operation.size, &mut body);
        body
    }

    /// Notes a page that the request changes.
    pub(super) fn note(&self, codec: &Codec<'_>) {
        if codec.compares() && matches!(self.operation.verb, Verb::Set | Verb::Delete) {
            codec.pages.written(&self.operation.key);
        }
    }

    fn host(&self) -> &[u8] {
        self.host.unwrap_or(&self.fields.host)
    }

    /// Appends the head for HTTP/2. `filled`: the server's table has the constant fields; `fill`:
    /// they go into it now, if the request is a usual one.
    pub(super) fn hpack(&self, filled: bool, fill: bool, out: &mut Vec<u8>) {
        let method: &[u8] = match self.operation.verb {
            Verb::Get => b"",
            Verb::Set => b"PUT",
            Verb::Delete => b"DELETE",
            Verb::Head => b"HEAD",
        };
        if method.is_empty() {
            out.push(0x82);
        } else {
            out.push(0x02);
            write_string(method, out);
        }
        out.push(if self.fields.is_https { 0x87 } else { 0x86 });
        if self.target == b"/" {
            out.push(0x84);
        } else {
            out.push(0x04);
            write_string(self.target, out);
        }
        let fill = fill && self.is_usual();
        // The newest entry has the lowest index.
        let newest = HPACK_STATIC + 1 + self.fields.lines.len();
        if filled && self.host.is_none() {
            write_integer(newest, 7, 0x80, out);
        } else {
            out.push(if fill { 0x41 } else { 0x01 });
            write_string(self.host(), out);
        }
        for (at, (name, value)) in self.fields.lines.iter().enumerate() {
            if filled {
                write_integer(newest - 1 - at, 7, 0x80, out);
            } else {
                out.push(if fill { 0x40 } else { 0 });
                write_string(name, out);
                write_string(value, out);
            }
        }
        if let Some(length) = self.length() {
            write_integer(28, 4, 0, out);
            write_string(length.to_string().as_bytes(), out);
        }
    }

    /// Appends the head for HTTP/3 (RFC 9204), which refers to the static table alone.
    pub(super) fn qpack(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[0, 0]);
        out.push(match self.operation.verb {
            Verb::Delete => 0xc0 | 16,
            Verb::Get => 0xc0 | 17,
            Verb::Head => 0xc0 | 18,
            Verb::Set => 0xc0 | 21,
        });
        out.push(if self.fields.is_https { 0xc0 | 23 } else { 0xc0 | 22 });
        if self.target == b"/" {
            out.push(0xc0 | 1);
        } else {
            out.push(0x50 | 1);
            write_string(self.target, out);
        }
        out.push(0x50);
        write_string(self.host(), out);
        for (name, value) in &self.fields.lines {
            write_integer(name.len(), 3, 0x20, out);
            out.extend_from_slice(name);
            write_string(value, out);
        }
        if let Some(length) = self.length() {
            out.push(0x50 | 4);
            write_string(length.to_string().as_bytes(), out);
        }
    }
}
